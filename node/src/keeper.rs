//! What a node does with its SSD directories: it takes objects over from its memory, and tells its partition what it holds.
//!
//! The same code serves a node of a cluster and a store in one process: it is driven by whoever polls [`Keeper::work`], and
//! speaks to the partition through [`MemberApi`]. Objects come by the feed of the partition and leave it as records; nothing
//! here decides what is kept, that is the catalog's and the tier's.

mod copies;
mod feed;
mod inventory;

use crate::{lender::Lender, signal::Signal};
use copies::{COPIES, Copy};
pub use feed::Offload;
use feed::{Feed, Room, Turn};
use futures_util::future::{Either, join_all, select, select_all};
use inventory::{Disk, Judged, Memory};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tracing::{info, warn};
use ziggurat_base::{
    ByteCount, Clock, Code, Crc32, Era, Error, Job, MemberId, Result, SegmentId, Ticket,
    checksum::table_len,
};
use ziggurat_engine::{
    command::{Effect, Keep, Priority, SegmentOffer, Target},
    ledger::{Holding, LedgerBatch, Version},
    port::{MemberApi, ReadOp},
    shelf::{
        holdings::Names,
        teller::{Note, Teller},
    },
};
use ziggurat_tiers::ssd::{Item, News, PATIENCE, Source, SsdTier};

/// Appends under way to one directory. All that have landed while a sync went on are covered by the next: enough of them
/// keep the disk writing meanwhile.
pub const APPENDS: usize = 8;

/// How often what is due and not urgent is done.
const TEND: Duration = Duration::from_millis(250);

/// A directory that the node serves.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The name of its segment, unique in the cluster.
    pub name: Box<str>,
    /// Its tier.
    pub tier: Arc<SsdTier>,
}

#[derive(Debug)]
struct Here {
    directory: Directory,
    segment: Mutex<Option<SegmentId>>,
    stream: Stream,
    /// It takes nothing for now, and that has been said.
    is_closed: AtomicBool,
}

/// One segment's end of the ledger.
#[derive(Debug, Default)]
struct Stream {
    teller: Mutex<Teller>,
    /// Something is to be told.
    news: Signal,
    /// Something was answered.
    answered: Signal,
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, Teller> {
        self.teller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, notes: impl IntoIterator<Item = Note>) {
        let mut teller = self.lock();
        notes.into_iter().for_each(|note| teller.note(note));
        drop(teller);
        self.news.raise();
    }

    /// Completes when everything that was noted until now has been told and answered.
    async fn settled(&self) {
        let upto = self.lock().noted();
        self.answered
            .until(|| (self.lock().told() >= upto).then_some(()))
            .await;
    }
}

/// See the module.
#[derive(Debug)]
pub struct Keeper {
    lender: Arc<dyn Lender>,
    directories: Vec<Here>,
    eager: bool,
    feed: Mutex<Feed>,
    work: Signal,
    duties: Signal,
    memory: Mutex<BTreeMap<SegmentId, Arc<Stream>>>,
}

impl Keeper {
    /// A keeper of `directories` for the objects in the memory of `lender`.
    #[must_use]
    pub fn new(lender: Arc<dyn Lender>, directories: Vec<Directory>, eager: bool) -> Self {
        let here = |directory| Here {
            directory,
            segment: Mutex::default(),
            stream: Stream::default(),
            is_closed: AtomicBool::default(),
        };
        Self {
            lender,
            directories: directories.into_iter().map(here).collect(),
            eager,
            feed: Mutex::default(),
            work: Signal::default(),
            duties: Signal::default(),
            memory: Mutex::default(),
        }
    }
}

/// A payload in the node's memory: believed only if the version owns it from the first byte to the last.
struct InMemory<'a> {
    lender: &'a dyn Lender,
    ticket: Ticket,
    len: u64,
    at: Target,
}

impl Source for InMemory<'_> {
    fn fill(&mut self, offset: u64, into: &mut [u8]) -> Result<Vec<Crc32>> {
        let mut op = ReadOp {
            name: None,
            ticket: self.ticket,
            source: &self.at,
            object_len: self.len,
            offset,
            into,
            want_table: table_len(self.len) > 0,
        };
        let empty = op.into.is_empty();
        let sums = self.lender.read(&mut op)?;
        Ok(match (empty, op.want_table) {
            (true, _) => Vec::new(),
            (false, true) => sums.chunks,
            (false, false) => vec![sums.crc],
        })
    }
}

impl Keeper {
    fn lock(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a directory to take objects over.
    #[must_use]
    pub fn is_keeping(&self) -> bool {
        !self.directories.is_empty()
    }

    /// The tiers of its directories.
    pub fn tiers(&self) -> impl Iterator<Item = &Arc<SsdTier>> {
        self.directories.iter().map(|here| &here.directory.tier)
    }

    /// What has become of the objects that were to be taken over.
    #[must_use]
    pub fn offload_counts(&self) -> Offload {
        self.lock().counts()
    }

    /// The tier that a segment is.
    #[must_use]
    pub fn tier(&self, segment: SegmentId) -> Option<&Arc<SsdTier>> {
        let here = self.directories.iter().find(|here| here.is(segment))?;
        Some(&here.directory.tier)
    }

    /// The incarnation that serves the memory and the directories now.
    pub(crate) fn member(&self) -> MemberId {
        self.lender.member()
    }

    /// Offers the directories to a partition. Streams begin anew: another partition knows nothing of them.
    ///
    /// # Errors
    /// What the partition answers.
    pub async fn mount(&self, api: &dyn MemberApi, member: MemberId) -> Result<()> {
        for here in &self.directories {
            let tier = &here.directory.tier;
            let offer = SegmentOffer {
                name: here.directory.name.clone(),
                capacity: ByteCount(tier.stats().capacity),
                highest_era: tier.highest_era(),
                keep: Keep::Owned {
                    directory: tier.directory(),
                },
                stock: Default::default(),
            };
            let segment = api.mount(member, &offer).await?;
            *here.segment() = Some(segment);
            here.stream.lock().restart();
            here.stream.news.raise();
        }
        Ok(())
    }

    /// Takes a segment of memory on whose objects are fed to this keeper.
    pub fn add_memory(&self, segment: SegmentId) {
        self.know_memory(segment);
        self.duties.raise();
    }

    fn know_memory(&self, segment: SegmentId) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.entry(segment).or_default();
    }

    /// Another partition calls a segment of memory by another number; what lies in it stays where it is. To be called before
    /// the memory itself is renumbered, for only what it still holds goes along.
    pub fn carry_memory(&self, old: SegmentId, new: SegmentId) {
        let mut feed = self.lock();
        feed.held.retain(|ticket, holding| {
            let Some(placement) = &mut holding.placement else {
                return false;
            };
            let is_good = placement.segment != old || self.lender.holds(*ticket, placement);
            if placement.segment == old {
                placement.segment = new;
            }
            is_good
        });
    }

    /// Begins anew with another partition, with what lies in some segments of memory: others are gone. What was not on disk
    /// yet is taken over as if it were new.
    pub fn begin_memory(&self, segments: &[SegmentId]) {
        self.clear_streams();
        let mut feed = self.lock();
        feed.begin_anew();
        let is_kept = |holding: &Holding| {
            let placement = holding.placement.as_ref();
            placement.is_some_and(|placement| segments.contains(&placement.segment))
        };
        feed.held.retain(|_, holding| is_kept(holding));
        if self.eager && self.is_keeping() {
            feed.queue_missing(|ticket| self.is_on_disk(*ticket), &self.room());
        }
        drop(feed);
        self.work.raise();
    }

    fn is_on_disk(&self, ticket: Ticket) -> bool {
        self.tiers().any(|tier| tier.holds(ticket))
    }

    /// The latest era of what lies in memory.
    #[must_use]
    pub fn highest_era(&self) -> Era {
        let feed = self.lock();
        let newest = feed.held.last_key_value();
        newest.map_or(Era(0), |(ticket, _)| ticket.era())
    }

    fn clear_streams(&self) {
        self.memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Takes in what the partition lets its member know. Fences and burials are not a keeper's business.
    pub fn heed(&self, effect: &Effect) {
        let mut feed = self.lock();
        match effect {
            Effect::Fence { .. } | Effect::Bury { .. } => return,
            Effect::Committed { holding, .. } => {
                let ticket = holding.version.ticket;
                if let Some(placement) = &holding.placement {
                    self.know_memory(placement.segment);
                }
                let new = feed.held.insert(ticket, (**holding).clone()).is_none();
                if new && self.eager && self.is_keeping() && !self.is_on_disk(ticket) {
                    feed.queue(ticket, holding.len, Turn::Last, &self.room());
                }
            }
            Effect::Offload { ticket, .. } => {
                let here = feed.held.get(ticket).map(|holding| holding.len);
                if let Some(len) = here.filter(|_| !feed.is_queued(*ticket)) {
                    feed.queue(*ticket, len, Turn::First, &self.room());
                }
            }
            Effect::Retired {
                segment, ticket, ..
            } => {
                feed.held.remove(ticket);
                if !feed.retiring.contains(&(*segment, *ticket)) {
                    feed.retiring.push((*segment, *ticket));
                }
            }
            Effect::Promote {
                holding,
                from,
                write,
                priority,
                ..
            } => {
                let copy = Copy {
                    holding: (**holding).clone(),
                    from: *from,
                    write: *write,
                };
                if let Some(placement) = &holding.placement {
                    self.know_memory(placement.segment);
                }
                if self.directories.iter().any(|here| here.is(*from)) {
                    feed.copies.add(copy, *priority);
                } else {
                    let segment = holding.placement.as_ref().map(|p| p.segment);
                    self.tell_memory(segment, Note::NotCopied(*write));
                }
            }
            Effect::Discard {
                segment, tickets, ..
            } => {
                // What has not begun to be taken over does not begin any more, whenever its retirement is heard of.
                for ticket in tickets {
                    feed.held.remove(ticket);
                }
                feed.discards.push_back((*segment, tickets.clone()));
            }
        }
        drop(feed);
        self.work.raise();
        self.duties.raise();
    }

    /// Everything that goes on whether the partition can be reached or not. Never completes.
    pub async fn work(&self, clock: &dyn Clock) {
        let mut all: Vec<Job<'_, ()>> = vec![
            Box::pin(self.retire()),
            Box::pin(self.discard(clock)),
            Box::pin(self.turn_away()),
        ];
        for here in &self.directories {
            all.push(Box::pin(here.pump()));
            all.push(Box::pin(here.tend(clock)));
            for _ in 0..APPENDS {
                all.push(Box::pin(self.offload(here)));
            }
            for _ in 0..COPIES {
                all.push(Box::pin(self.copy(here, clock)));
            }
        }
        join_all(all).await;
    }

    /// Tells the partition what is held, for as long as it can be reached.
    ///
    /// # Errors
    /// The first error of the connection or the membership.
    pub async fn tell(&self, api: &dyn MemberApi, member: MemberId) -> Error {
        loop {
            let segments = self.memory_count();
            let more = self
                .duties
                .until(|| (self.memory_count() != segments).then_some(()));
            let telling = Box::pin(self.tell_known(api, member));
            // A stream that was cut in the middle of a batch tells it again, which is harmless.
            if let Either::Left((error, _)) = select(telling, Box::pin(more)).await {
                return error;
            }
        }
    }

    fn memory_count(&self) -> usize {
        self.memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Tells of the segments that there are now.
    async fn tell_known(&self, api: &dyn MemberApi, member: MemberId) -> Error {
        let memory: Vec<_> = {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory
                .iter()
                .map(|(segment, stream)| (*segment, Arc::clone(stream)))
                .collect()
        };
        let mut all: Vec<Job<'_, Error>> = Vec::new();
        for here in &self.directories {
            if let Some(segment) = *here.segment() {
                all.push(Box::pin(self.tell_directory(api, member, here, segment)));
            }
        }
        for (segment, stream) in &memory {
            let inventory = Memory {
                keeper: self,
                segment: *segment,
            };
            all.push(Box::pin(tell(api, member, *segment, stream, inventory)));
        }
        if all.is_empty() {
            return std::future::pending().await;
        }
        select_all(all).await.0
    }

    /// Tells of a directory, once nothing is on its way to it from an earlier incarnation: what the first snapshot does not
    /// name counts as gone for good.
    async fn tell_directory(
        &self,
        api: &dyn MemberApi,
        member: MemberId,
        here: &Here,
        segment: SegmentId,
    ) -> Error {
        let has_landed = || self.lock().earlier.is_empty().then_some(());
        self.duties.until(has_landed).await;
        let inventory = Disk(&here.directory.tier);
        tell(api, member, segment, &here.stream, inventory).await
    }

    /// Completes when the partition knows everything that the directories hold.
    pub async fn told(&self) {
        for here in &self.directories {
            let idle = || here.stream.lock().is_idle().then_some(());
            here.stream.answered.until(idle).await;
        }
    }

    /// Completes when everything that was fed until now is taken over or refused, and told.
    pub async fn drained(&self) {
        let idle = || {
            let feed = self.lock();
            feed.is_idle().then_some(())
        };
        self.duties.until(idle).await;
        for here in &self.directories {
            here.take_news();
            here.stream.settled().await;
        }
    }

    /// Seals what takes batches, so that the next start need not prove it. For the end of a process.
    pub async fn seal(&self) {
        for here in &self.directories {
            here.directory.tier.seal_all().await;
        }
    }

    /// Takes objects over, batch after batch.
    async fn offload(&self, here: &Here) {
        loop {
            let holdings = self.work.until(|| self.lock().load()).await;
            let member = self.lender.member();
            let mut sources: Vec<_> = holdings
                .iter()
                .map(|holding| self.source(member, holding))
                .collect();
            let mut items: Vec<_> = holdings
                .iter()
                .zip(&mut sources)
                .map(|(holding, source)| item(holding, source))
                .collect();
            // What failed is told by the tier, as refused, once it is certain that no restart finds it.
            let answers = here.directory.tier.append(&mut items).await;
            here.log(&answers);
            let is_same = self.lender.member() == member;
            self.lock().end(&holdings, &answers, is_same);
            self.work.raise();
            self.duties.raise();
        }
    }

    /// What the directories could take over in the time that objects may wait for their write budgets.
    fn room(&self) -> Room {
        let reach = |patience| {
            let all = self.tiers().map(|tier| tier.reach(patience));
            all.reduce(u64::saturating_add).unwrap_or(u64::MAX)
        };
        let now = reach(Duration::ZERO);
        if now == u64::MAX {
            return Room::ENDLESS;
        }
        Room {
            now,
            soon: reach(PATIENCE),
            // The other half stays for what needs not wait, so that nobody who puts waits for a write budget.
            waiting: self.lender.capacity().0 / 2,
        }
    }

    /// Refuses what would have waited for a write budget for too long.
    async fn turn_away(&self) {
        loop {
            let holdings = self.work.until(|| self.lock().load_turned_away()).await;
            let member = self.lender.member();
            let refusal = Error::new(
                Code::UnableOffloading,
                "more comes than the write budget allows: raise ssd-write-budget, or put less",
            );
            let answers = vec![Err(refusal); holdings.len()];
            if let Some(here) = self.directories.first() {
                for holding in &holdings {
                    let (ticket, names) = (holding.version.ticket, names(holding));
                    here.directory.tier.turn_away(ticket, &names).await;
                }
                here.log(&answers);
            }
            let is_same = self.lender.member() == member;
            self.lock().end(&holdings, &answers, is_same);
            self.work.raise();
            self.duties.raise();
        }
    }

    fn source(&self, member: MemberId, holding: &Holding) -> InMemory<'_> {
        let placement = holding.placement.clone();
        InMemory {
            lender: &*self.lender,
            ticket: holding.version.ticket,
            len: holding.len,
            at: Target {
                member,
                placement: placement.expect("what is fed has a placement"),
            },
        }
    }

    /// Acknowledges what is not handed out any more, after everything that came of its way to disk was told.
    async fn retire(&self) {
        loop {
            let retired = self.duties.until(|| self.lock().retired()).await;
            for here in &self.directories {
                here.take_news();
                here.stream.settled().await;
            }
            for (segment, ticket) in retired {
                self.tell_memory(Some(segment), Note::Forgotten(ticket));
            }
            self.lock().leaving.clear();
            self.work.raise();
        }
    }

    /// Notes something for the stream of a segment of memory; one that is not there any more has nobody who would listen.
    fn tell_memory(&self, segment: Option<SegmentId>, note: Note) {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = segment.and_then(|segment| memory.get(&segment)) {
            stream.note([note]);
        }
    }

    /// Forgets what the partition wants forgotten, and says so when no restart can find it.
    async fn discard(&self, clock: &dyn Clock) {
        loop {
            let (segment, tickets) = self.duties.until(|| self.lock().discard()).await;
            let Some(here) = self.directories.iter().find(|here| here.is(segment)) else {
                continue;
            };
            match here.directory.tier.discard(&tickets).await {
                Ok(()) => {
                    here.take_news();
                    here.stream.note(tickets.into_iter().map(Note::Forgotten));
                }
                Err(error) => {
                    warn!(segment = %here.directory.name, %error, "tombstones could not be written, trying again");
                    clock.sleep_until(clock.now().after(TEND)).await;
                    self.lock().discards.push_back((segment, tickets));
                }
            }
        }
    }
}

impl Here {
    fn segment(&self) -> MutexGuard<'_, Option<SegmentId>> {
        self.segment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, segment: SegmentId) -> bool {
        *self.segment() == Some(segment)
    }

    /// Says what was not taken over: object by object what is wrong with one, and once that nothing is taken for now.
    fn log(&self, answers: &[Result<()>]) {
        for answer in answers {
            match answer.as_ref().map_err(|error| (error, error.code())) {
                Ok(()) => {
                    if self.is_closed.swap(false, Ordering::Relaxed) {
                        info!(segment = %self.directory.name, "objects are taken over again");
                    }
                }
                Err((_, Code::ReplicaIsGone | Code::SegmentNotFound)) => {}
                Err((error, Code::UnableOffloading)) => {
                    if !self.is_closed.swap(true, Ordering::Relaxed) {
                        warn!(segment = %self.directory.name, %error, "objects are refused for now");
                    }
                }
                Err((error, _)) => {
                    warn!(segment = %self.directory.name, %error, "an object was not taken over");
                }
            }
        }
    }

    /// Passes news of the tier on to the ledger.
    async fn pump(&self) {
        loop {
            let news = self.directory.tier.next_news().await;
            self.stream.note(news.into_iter().map(note));
        }
    }

    /// As [`Here::pump`], for what there is now.
    fn take_news(&self) {
        let news = self.directory.tier.take_news();
        if !news.is_empty() {
            self.stream.note(news.into_iter().map(note));
        }
    }

    async fn tend(&self, clock: &dyn Clock) {
        let mut troubled = false;
        loop {
            clock.sleep_until(clock.now().after(TEND)).await;
            let result = self.directory.tier.tend().await;
            if let Err(error) = &result
                && !troubled
            {
                warn!(segment = %self.directory.name, %error, "the SSD directory has trouble, trying again");
            }
            troubled = result.is_err();
        }
    }
}

fn note(news: News) -> Note {
    let version = |tenant: Box<str>, key, ticket| Version {
        tenant: tenant.into(),
        key,
        ticket,
    };
    match news {
        News::Present(ticket) => Note::Present(ticket),
        News::Gone {
            tenant,
            key,
            ticket,
        } => Note::Gone(version(tenant, key, ticket)),
        News::Refused {
            tenant,
            key,
            ticket,
        } => Note::Refused(version(tenant, key, ticket)),
    }
}

fn names(holding: &Holding) -> Names<'_> {
    let tags = holding.tags.as_tags();
    Names {
        tenant: &holding.version.tenant,
        key: holding.version.key.as_key(),
        parent: tags.parent,
        group: tags.group,
    }
}

fn item<'a>(holding: &'a Holding, source: &'a mut InMemory<'_>) -> Item<'a> {
    Item {
        names: names(holding),
        ticket: holding.version.ticket,
        len: holding.len,
        crc: holding.crc,
        hint: holding.tags.hint,
        pinned: false,
        source,
    }
}

/// Tells one segment's stream until the partition cannot be told any more.
async fn tell(
    api: &dyn MemberApi,
    member: MemberId,
    segment: SegmentId,
    stream: &Stream,
    inventory: impl Judged,
) -> Error {
    loop {
        let next = || {
            let next = stream.lock().next(&inventory).cloned();
            if next.is_none() {
                // What there was nothing to say of is told by that.
                stream.answered.raise();
            }
            next
        };
        let batch: LedgerBatch = stream.news.until(next).await;
        match api.ledger(member, segment, &batch).await {
            Ok(reply) => {
                inventory.heed(&batch, &reply);
                stream.lock().answered();
            }
            Err(error) if error.code() == Code::LedgerOutOfOrder => stream.lock().restart(),
            Err(error) => return error,
        }
        stream.answered.raise();
    }
}
