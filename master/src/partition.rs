//! A metadata partition in this process: the catalog behind one lock that is held for one call.
//!
//! A call over memory completes on the calling thread, without a wake-up. Effects go to the sink of their member: for
//! a member of this process that is the member itself, for another one its [`Mailbox`]. They are there when the call returns,
//! unless another call is just delivering, which then takes them along.

use crate::{
    EraStore, Journal,
    journal::Mark,
    mailbox::{Mailbox, Taken},
    orders::{OrderCounts, Orders},
    outbox::{EffectSink, Outbox},
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};
use ziggurat_base::{
    Clock, Code, Era, Error, Job, MemberId, SegmentId, TenantId, Ticket, Timestamp,
};
use ziggurat_engine::{
    catalog::{Catalog, Config, Matcher, Retiring},
    command::{
        Answer, Cursor, Effect, Force, GetGrant, Hold, Keys, MemberOffer, ObjectStat, Page,
        Prefetch, Prefetched, PutAnswer, PutDone, PutEnd, PutItem, Recency, ScanAction,
        SegmentOffer, SegmentStat, Stats, Wish,
    },
    ledger::{LedgerBatch, LedgerReply},
    port::{Joined, MemberApi, MetadataApi},
};
use ziggurat_proto::{
    hello::Greeting,
    order::{NodeCommand, Order, OrderApi, Outcome, Report},
};

/// Life cycles that time alone moves are looked at this often.
pub const TICK: Duration = Duration::from_millis(100);

/// Compiled patterns that are kept between the turns of scans.
const MATCHERS_MAX: usize = 16;

/// See the module.
pub struct Partition {
    clock: Arc<dyn Clock>,
    catalog: Mutex<Catalog>,
    eras: EraStore,
    /// Where its durable facts are kept, when there is a state directory.
    journal: Option<Journal>,
    outbox: Outbox,
    mailboxes: Mutex<BTreeMap<MemberId, Arc<Mailbox>>>,
    orders: Orders,
    matchers: Mutex<VecDeque<(Box<str>, Matcher)>>,
    /// Those who wait for owners to acknowledge.
    waiting: Mutex<Vec<Waker>>,
    next_tick: AtomicU64,
}

/// What has to come true before an answer leaves.
#[derive(Debug, Default)]
struct Promise {
    /// Is durable.
    mark: Option<Mark>,
    /// Is acknowledged by the owners of memory, or their memory is gone.
    waits: Vec<Retiring>,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition").finish_non_exhaustive()
    }
}

/// A panic while the lock was held has left an invariant broken: nothing more is answered.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Partition {
    /// Begins a term with an empty catalog, and with the durable facts of the term before when there is a state directory.
    ///
    /// # Errors
    /// `PersistentFail` when the era cannot be stored, and as [`Journal::open`].
    pub fn open(config: Config, clock: Arc<dyn Clock>, eras: EraStore) -> Result<Arc<Self>, Error> {
        let kept = eras.dir().map(Journal::open).transpose()?;
        let era = eras.begin()?;
        let mut catalog = Catalog::new(config, era);
        let journal = kept.map(|(journal, records)| {
            catalog.absorb(records);
            journal
        });
        Ok(Arc::new(Self {
            clock,
            catalog: Mutex::new(catalog),
            eras,
            journal,
            outbox: Outbox::default(),
            mailboxes: Mutex::default(),
            orders: Orders::default(),
            matchers: Mutex::default(),
            waiting: Mutex::default(),
            next_tick: AtomicU64::new(0),
        }))
    }

    /// Expects nodes of the term before to offer what lies in their memory; as [`Catalog::expect_memory`].
    pub fn expect_memory(&self) {
        self.apply(|catalog, now| catalog.expect_memory(now));
    }

    /// One call to the catalog, then the effects that it had. What it left to be kept is on its way; a call that may leave
    /// something which its answer promises goes through `kept`.
    fn apply<T>(&self, call: impl FnOnce(&mut Catalog, Timestamp) -> T) -> T {
        self.apply_marked(call).0
    }

    /// As `apply`, with what its answer promises.
    fn apply_marked<T>(&self, call: impl FnOnce(&mut Catalog, Timestamp) -> T) -> (T, Promise) {
        let mut catalog = lock(&self.catalog);
        let now = self.clock.now();
        let answer = call(&mut catalog, now);
        if now.0 >= self.next_tick.load(Ordering::Relaxed) {
            self.tick_locked(&mut catalog, now);
        }
        let waits = catalog.take_waits();
        let has_effects = catalog.has_effects();
        if has_effects {
            self.outbox.queue(catalog.take_effects());
        }
        let mark = match &self.journal {
            Some(journal) if catalog.has_records() => Some(journal.append(catalog.take_records())),
            _ => None,
        };
        drop(catalog);
        if has_effects {
            self.outbox.deliver();
        }
        (answer, Promise { mark, waits })
    }

    /// A call whose answer leaves when what it left to be kept is durable.
    fn kept<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&mut Catalog, Timestamp) -> Answer<T>,
    ) -> Job<'a, Answer<T>> {
        let (answer, promise) = self.apply_marked(call);
        self.after(promise, answer)
    }

    /// A call whose answer leaves when everything is durable that was left to be kept so far: its answer promises something
    /// of what others have done too.
    fn kept_all<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&mut Catalog, Timestamp) -> Answer<T>,
    ) -> Job<'a, Answer<T>> {
        let (answer, mut promise) = self.apply_marked(call);
        promise.mark = self.journal.as_ref().and_then(Journal::tail);
        self.after(promise, answer)
    }

    fn after<'a, T: Send + 'a>(
        &'a self,
        promise: Promise,
        answer: Answer<T>,
    ) -> Job<'a, Answer<T>> {
        let Promise { mark, waits } = promise;
        if mark.is_none() && waits.is_empty() {
            return ready(answer);
        }
        Box::pin(async move {
            if let (Some(journal), Some(mark)) = (&self.journal, mark) {
                journal.wait(mark).await?;
            }
            self.acknowledged(waits).await;
            answer
        })
    }

    /// Completes when the owners have acknowledged what is retired, or are gone.
    async fn acknowledged(&self, mut waits: Vec<Retiring>) {
        std::future::poll_fn(|context| {
            if waits.is_empty() {
                return Poll::Ready(());
            }
            // In the line before looking, so that an acknowledgement in between is not missed.
            lock(&self.waiting).push(context.waker().clone());
            let catalog = lock(&self.catalog);
            waits.retain(|retiring| catalog.is_retiring(retiring));
            match waits.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().for_each(Waker::wake);
    }

    /// As `kept`, on the calling thread.
    fn kept_here<T>(&self, call: impl FnOnce(&mut Catalog, Timestamp) -> Answer<T>) -> Answer<T> {
        let (answer, promise) = self.apply_marked(call);
        if let (Some(journal), Some(mark)) = (&self.journal, promise.mark) {
            journal.wait_here(mark)?;
        }
        answer
    }

    fn tick_locked(&self, catalog: &mut Catalog, now: Timestamp) {
        let more = catalog.tick(now).more;
        let next = if more { now } else { now.after(TICK) };
        self.next_tick.store(next.0, Ordering::Relaxed);
        // Owners may have been lost.
        self.wake_waiting();
    }

    /// Moves what time alone moves; for a timer of the shell when nobody calls. Every other call does it too when it is
    /// due. Returns after how long to come again.
    pub fn tick(&self) -> Duration {
        self.apply(|_, _| ());
        Timestamp(self.next_tick.load(Ordering::Relaxed)).since(self.clock.now())
    }

    /// Connects a member to its effects, beginning with everything that it owes, and with what is readable in its memory
    /// when it wants to be told. Replaces an earlier sink.
    pub fn attach(&self, member: MemberId, sink: Arc<dyn EffectSink>) {
        self.outbox.connect(member, sink);
        self.apply(|catalog, _| {
            // What was to be done before is told before.
            self.outbox.queue(catalog.take_effects());
            self.outbox.queue(catalog.attach(member));
        });
        self.outbox.deliver();
    }

    /// Disconnects a member from its effects.
    pub fn detach(&self, member: MemberId) {
        lock(&self.mailboxes).remove(&member);
        self.outbox.disconnect(member);
    }

    /// Reserves space in the name of a member.
    pub fn put_start_as<'a>(
        &'a self,
        writer: MemberId,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        ready(self.apply(|catalog, now| {
            self.refresh_era(catalog)?;
            Ok(catalog.put_start(now, writer, tenant, items, wish))
        }))
    }

    /// A member of this process has carried out a fence.
    pub fn acknowledge_fence(&self, member: MemberId, ticket: Ticket, segment: SegmentId) {
        self.apply(|catalog, _| catalog.fenced(member, ticket, segment));
    }

    /// Takes a batch of a segment's ledger; for members of this process.
    ///
    /// # Errors
    /// As [`Catalog::ledger`].
    pub fn ledger_now(
        &self,
        member: MemberId,
        segment: SegmentId,
        batch: &LedgerBatch,
    ) -> Answer<LedgerReply> {
        let told = self.kept_here(|catalog, now| catalog.ledger(now, member, segment, batch));
        self.wake_waiting();
        told
    }

    /// Joins with an offer; for members of this process.
    ///
    /// # Errors
    /// As [`Catalog::join`].
    pub fn join_now(&self, offer: &MemberOffer) -> Answer<Joined> {
        self.apply(|catalog, now| {
            let member = catalog.join(now, offer)?;
            Ok(Joined {
                member,
                era: catalog.era(),
                time_to_live: catalog.config().member_ttl,
            })
        })
    }

    /// Interns a tenant's name; for members of this process.
    ///
    /// # Errors
    /// As [`Catalog::tenant`].
    pub fn tenant_now(&self, name: &str) -> Answer<TenantId> {
        self.apply(|catalog, _| catalog.tenant(name))
    }

    /// Where a member serves data; empty when it does not, or is not known.
    #[must_use]
    pub fn address_of(&self, member: MemberId) -> Box<str> {
        lock(&self.catalog)
            .address(member)
            .unwrap_or_default()
            .into()
    }

    /// As [`Catalog::clear`].
    #[must_use]
    pub fn clear(&self, keys: Keys<'_>, segment: Option<&str>) -> Job<'_, Answer<Vec<bool>>> {
        self.kept_all(|catalog, now| Ok(catalog.clear(now, keys, segment)))
    }

    /// Orders to nodes in numbers.
    #[must_use]
    pub fn order_counts(&self) -> OrderCounts {
        self.orders.counts()
    }

    /// Orders a node to do something and waits for its report; the caller bounds the wait.
    ///
    /// # Errors
    /// `ReplicaIsGone` when the node is no member any more, and as [`Orders::ask`].
    pub async fn order(&self, member: MemberId, command: NodeCommand) -> Answer<Outcome> {
        if lock(&self.catalog).address(member).is_none() {
            return Err(Error::new(
                Code::ReplicaIsGone,
                format!("node {member} is gone, and its memory with it"),
            ));
        }
        self.orders.ask(member, command).await
    }

    /// The partition as one of its members calls it.
    #[must_use]
    pub fn session(self: &Arc<Self>, member: MemberId) -> Session {
        Session {
            partition: self.clone(),
            member,
        }
    }

    /// The tunables.
    #[must_use]
    pub fn config(&self) -> Config {
        lock(&self.catalog).config().clone()
    }

    /// The era.
    #[must_use]
    pub fn era(&self) -> Era {
        lock(&self.catalog).era()
    }

    /// The partition in numbers.
    #[must_use]
    pub fn stats_now(&self) -> Stats {
        lock(&self.catalog).stats()
    }

    /// Every segment.
    #[must_use]
    pub fn segments_now(&self) -> Vec<SegmentStat> {
        lock(&self.catalog).segments()
    }

    fn matcher(&self, pattern: &str) -> Answer<Matcher> {
        let mut kept = lock(&self.matchers);
        if let Some((_, matcher)) = kept.iter().find(|(text, _)| &**text == pattern) {
            return Ok(matcher.clone());
        }
        let matcher = Matcher::new(pattern)?;
        if kept.len() == MATCHERS_MAX {
            kept.pop_front();
        }
        kept.push_back((pattern.into(), matcher.clone()));
        Ok(matcher)
    }

    /// A mount may raise the era, which must be durable before anybody sees a ticket of it: so under the lock.
    ///
    /// # Errors
    /// As [`Catalog::mount`], and `PersistentFail`.
    pub fn mount_now(&self, member: MemberId, offer: &SegmentOffer) -> Answer<SegmentId> {
        self.kept_here(|catalog, now| self.mount_locked(catalog, now, member, offer))
    }

    fn mount_locked(
        &self,
        catalog: &mut Catalog,
        now: Timestamp,
        member: MemberId,
        offer: &SegmentOffer,
    ) -> Answer<SegmentId> {
        let before = catalog.era();
        let mounted = catalog.mount(now, member, offer);
        if catalog.era() != before {
            self.eras.save(catalog.era())?;
        }
        mounted
    }

    /// Goes to a fresh era when the tickets of this one run low.
    fn refresh_era(&self, catalog: &mut Catalog) -> Answer<()> {
        if catalog.needs_era() {
            catalog.raise_era(
                self.eras
                    .begin()?
                    .max(Era(catalog.era().0.saturating_add(1))),
            );
        }
        Ok(())
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> Job<'a, T> {
    Box::pin(std::future::ready(value))
}

impl MemberApi for Partition {
    fn join<'a>(&'a self, offer: &'a MemberOffer) -> Job<'a, Answer<Joined>> {
        ready(self.join_now(offer))
    }

    fn ping(&self, member: MemberId) -> Job<'_, Answer<()>> {
        ready(self.apply(|catalog, now| catalog.ping(now, member)))
    }

    fn leave(&self, member: MemberId) -> Job<'_, Answer<()>> {
        self.apply(|catalog, _| catalog.leave(member));
        self.wake_waiting();
        self.detach(member);
        ready(Ok(()))
    }

    fn tenant<'a>(&'a self, name: &'a str) -> Job<'a, Answer<TenantId>> {
        ready(self.tenant_now(name))
    }

    fn mount<'a>(
        &'a self,
        member: MemberId,
        offer: &'a SegmentOffer,
    ) -> Job<'a, Answer<SegmentId>> {
        self.kept(|catalog, now| self.mount_locked(catalog, now, member, offer))
    }

    fn unmount(
        &self,
        member: MemberId,
        segment: SegmentId,
        grace: Duration,
    ) -> Job<'_, Answer<()>> {
        ready(self.apply(|catalog, now| catalog.unmount(now, member, segment, grace)))
    }

    fn fenced(&self, member: MemberId, ticket: Ticket, segment: SegmentId) -> Job<'_, Answer<()>> {
        self.acknowledge_fence(member, ticket, segment);
        ready(Ok(()))
    }

    fn ledger<'a>(
        &'a self,
        member: MemberId,
        segment: SegmentId,
        batch: &'a LedgerBatch,
    ) -> Job<'a, Answer<LedgerReply>> {
        let told = self.kept(|catalog, now| catalog.ledger(now, member, segment, batch));
        self.wake_waiting();
        told
    }

    fn segments(&self) -> Job<'_, Answer<Vec<SegmentStat>>> {
        ready(Ok(self.segments_now()))
    }

    fn effects(&self, member: MemberId) -> Job<'_, Answer<Vec<Effect>>> {
        let known = lock(&self.mailboxes).get(&member).cloned();
        let mailbox = known.unwrap_or_else(|| {
            let mailbox = Mailbox::new();
            lock(&self.mailboxes).insert(member, mailbox.clone());
            self.attach(member, mailbox.clone());
            mailbox
        });
        Box::pin(async move {
            loop {
                match mailbox.take().await {
                    Taken::Effects(effects) => return Ok(effects),
                    // What it has missed is told again.
                    Taken::Overflow => self.attach(member, mailbox.clone()),
                }
            }
        })
    }

    fn stats(&self) -> Job<'_, Answer<Stats>> {
        ready(Ok(self.stats_now()))
    }
}

impl OrderApi for Partition {
    fn orders(&self, member: MemberId) -> Job<'_, Answer<Vec<Order>>> {
        Box::pin(async move { Ok(self.orders.for_member(member).await) })
    }

    fn report<'a>(&'a self, report: &'a Report) -> Job<'a, Answer<()>> {
        self.orders.report(report);
        ready(Ok(()))
    }
}

impl ziggurat_proto::Partition for Partition {
    fn put_start_as<'a>(
        &'a self,
        writer: MemberId,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        Self::put_start_as(self, writer, tenant, items, wish)
    }

    fn greeting(&self) -> Greeting {
        let catalog = lock(&self.catalog);
        let config = catalog.config();
        Greeting {
            era: catalog.era(),
            lease: config.lease,
            time_to_live: config.member_ttl,
        }
    }

    fn rewind(&self, member: MemberId) {
        // The next question for effects begins with everything that the member owes.
        lock(&self.mailboxes).remove(&member);
        self.orders.rewind(member);
    }
}

/// The partition as one member calls it: what it writes is in its name.
#[derive(Clone, Debug)]
pub struct Session {
    partition: Arc<Partition>,
    member: MemberId,
}

impl MetadataApi for Partition {
    fn put_start<'a>(
        &'a self,
        _: TenantId,
        _: &'a [PutItem<'a>],
        _: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        ready(Err(Error::new(
            Code::ClientNotFound,
            "only a member may write: join first",
        )))
    }

    fn put_end<'a>(&'a self, ends: &'a [PutEnd]) -> Job<'a, Answer<Vec<Answer<PutDone>>>> {
        self.kept(|catalog, now| Ok(catalog.put_end(now, ends)))
    }

    fn revoke<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        ready(Ok(self.apply(|catalog, _| catalog.revoke(tickets))))
    }

    fn renew<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        ready(Ok(self.apply(|catalog, now| catalog.renew(now, tickets))))
    }

    fn locate<'a>(
        &'a self,
        keys: Keys<'a>,
        recency: Recency,
    ) -> Job<'a, Answer<Vec<Answer<Option<GetGrant>>>>> {
        ready(Ok(
            self.apply(|catalog, now| catalog.locate(now, keys, recency))
        ))
    }

    fn exist<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<bool>>>> {
        ready(Ok(self.apply(|catalog, now| catalog.exist(now, keys))))
    }

    fn touch<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<()>> {
        self.apply(|catalog, _| catalog.touch(keys));
        ready(Ok(()))
    }

    fn give_back(&self, holds: &[Hold]) {
        self.apply(|catalog, now| catalog.give_back(now, holds));
    }

    fn remove<'a>(&'a self, keys: Keys<'a>, force: Force) -> Job<'a, Answer<Vec<Answer<()>>>> {
        self.kept_all(|catalog, now| Ok(catalog.remove(now, keys, force)))
    }

    fn scan<'a>(
        &'a self,
        tenant: TenantId,
        pattern: &'a str,
        action: ScanAction,
        cursor: Option<Cursor>,
    ) -> Job<'a, Answer<Page>> {
        let matcher = match self.matcher(pattern) {
            Ok(matcher) => matcher,
            Err(error) => return ready(Err(error)),
        };
        let turn = |catalog: &mut Catalog, now| {
            let cursor = cursor.unwrap_or_else(|| catalog.scan_start());
            Ok(catalog.scan(now, tenant, &matcher, action, cursor))
        };
        match action {
            ScanAction::List => ready(self.apply(turn)),
            ScanAction::Remove(_) => self.kept_all(turn),
        }
    }

    fn prefetch<'a>(
        &'a self,
        keys: Keys<'a>,
        wish: Prefetch,
    ) -> Job<'a, Answer<Vec<Answer<Option<Prefetched>>>>> {
        ready(Ok(
            self.apply(|catalog, now| catalog.prefetch(now, keys, wish))
        ))
    }

    fn stat<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<Option<ObjectStat>>>>> {
        ready(Ok(self.apply(|catalog, now| catalog.stat(now, keys))))
    }
}

impl MetadataApi for Session {
    fn put_start<'a>(
        &'a self,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        self.partition
            .put_start_as(self.member, tenant, items, wish)
    }

    fn put_end<'a>(&'a self, ends: &'a [PutEnd]) -> Job<'a, Answer<Vec<Answer<PutDone>>>> {
        self.partition.put_end(ends)
    }

    fn revoke<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        self.partition.revoke(tickets)
    }

    fn renew<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        self.partition.renew(tickets)
    }

    fn locate<'a>(
        &'a self,
        keys: Keys<'a>,
        recency: Recency,
    ) -> Job<'a, Answer<Vec<Answer<Option<GetGrant>>>>> {
        self.partition.locate(keys, recency)
    }

    fn exist<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<bool>>>> {
        self.partition.exist(keys)
    }

    fn touch<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<()>> {
        self.partition.touch(keys)
    }

    fn give_back(&self, holds: &[Hold]) {
        self.partition.give_back(holds);
    }

    fn remove<'a>(&'a self, keys: Keys<'a>, force: Force) -> Job<'a, Answer<Vec<Answer<()>>>> {
        self.partition.remove(keys, force)
    }

    fn scan<'a>(
        &'a self,
        tenant: TenantId,
        pattern: &'a str,
        action: ScanAction,
        cursor: Option<Cursor>,
    ) -> Job<'a, Answer<Page>> {
        self.partition.scan(tenant, pattern, action, cursor)
    }

    fn prefetch<'a>(
        &'a self,
        keys: Keys<'a>,
        wish: Prefetch,
    ) -> Job<'a, Answer<Vec<Answer<Option<Prefetched>>>>> {
        self.partition.prefetch(keys, wish)
    }

    fn stat<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<Option<ObjectStat>>>>> {
        self.partition.stat(keys)
    }
}
