//! A cluster behind the engine's ports: the metadata partition through a session that is renewed when it breaks, and the
//! nodes through the transport.

use crate::{carry, fleet::Fleet};
use futures_util::future::join_all;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Mutex as AsyncMutex, task::JoinHandle, time::sleep};
use ziggurat_base::{Clock, Code, Crc32, Era, Error, Job, MemberId, Result, TenantId, Ticket};
use ziggurat_dfs::{Carriers, Options as DfsOptions, Root, Roots};
use ziggurat_engine::{
    command::{
        Answer, Cursor, Force, GetGrant, Hold, Keys, MemberOffer, ObjectStat, Page, Prefetch,
        Prefetched, PutAnswer, PutDone, PutEnd, PutItem, Recency, ScanAction, SegmentStat, Stats,
        Target, Wish,
    },
    port::{DataPlane, MemberApi, MetadataApi, ReadOp, ReadSums, WriteOp, scatter},
};
use ziggurat_proto::{
    Session, SessionOptions,
    hello::{Hello, PeerKind},
};
use ziggurat_transport::{client::PeerOptions, fabric::Fabric};

/// Where a cluster is and how to talk to it.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The master, `host:port`.
    pub master: String,
    /// Whose objects.
    pub tenant: String,
    /// Bounds of the conversation with the master.
    pub session: SessionOptions,
    /// Bounds of the conversations with nodes.
    pub peers: PeerOptions,
    /// Roots of shared filesystems that are mounted here.
    pub dfs: DfsOptions,
    /// Whether this client also does what their shard files need: one process has to, a node with the roots or a client.
    pub carries: bool,
}

/// How often a member pings within its time to live.
const PINGS: u32 = 3;

/// Pause between two attempts to reach a lost master in the background.
const PAUSE: Duration = Duration::from_millis(500);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session in which this process has joined.
pub(crate) struct Link {
    pub(crate) session: Session,
    pub(crate) member: MemberId,
    pub(crate) era: Era,
    pub(crate) time_to_live: Duration,
    tenant: TenantId,
}

/// A cluster.
pub struct Remote {
    options: RemoteOptions,
    fabric: Fabric,
    /// What is read and written without a node.
    roots: Roots,
    link: Mutex<Option<Arc<Link>>>,
    /// Held by whoever is connecting, so that one does it for all.
    connecting: AsyncMutex<()>,
    fleet: Mutex<Arc<Fleet>>,
    /// Grants have named segments that the fleet as it is known does not have.
    is_behind: AtomicBool,
    tenant: AtomicU64,
    /// The incarnation of the last session; 0 before the first.
    last_member: AtomicU64,
    keeper: Mutex<Option<JoinHandle<()>>>,
    carrier: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("master", &self.options.master)
            .finish_non_exhaustive()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        for task in [&self.keeper, &self.carrier] {
            if let Some(task) = lock(task).take() {
                task.abort();
            }
        }
    }
}

impl Remote {
    /// Connects and joins; from then on a background task shows life and reconnects.
    ///
    /// # Errors
    /// `RpcFail` or `RpcTimeout` when the master cannot be reached, `InvalidVersion` when it speaks other versions; as
    /// [`DfsOptions::open`].
    pub async fn connect(options: RemoteOptions, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let roots = open_roots(&options.dfs).await?;
        let remote = Arc::new(Self {
            roots: Roots::new(roots, options.dfs.ack, clock.clone()),
            fabric: Fabric::new(options.peers.clone()),
            options,
            link: Mutex::default(),
            connecting: AsyncMutex::default(),
            fleet: Mutex::default(),
            is_behind: AtomicBool::default(),
            tenant: AtomicU64::new(0),
            last_member: AtomicU64::new(0),
            keeper: Mutex::default(),
            carrier: Mutex::default(),
        });
        remote.link().await?;
        remote.refresh().await?;
        let weak = Arc::downgrade(&remote);
        let keeper = tokio::spawn(async move {
            loop {
                let Some(remote) = weak.upgrade() else {
                    return;
                };
                let pause = remote.show_life().await;
                drop(remote);
                sleep(pause).await;
            }
        });
        *lock(&remote.keeper) = Some(keeper);
        if remote.options.carries {
            let carriers = Arc::new(Carriers::new(remote.roots.all()));
            let carrying = carry::run(Arc::downgrade(&remote), carriers, clock);
            *lock(&remote.carrier) = Some(tokio::spawn(carrying));
        }
        Ok(remote)
    }

    /// The tenant's number.
    #[must_use]
    pub fn tenant(&self) -> TenantId {
        TenantId(self.tenant.load(Ordering::Relaxed) as u16)
    }

    /// The session that works now, or a new one.
    pub(crate) async fn link(&self) -> Result<Arc<Link>> {
        if let Some(link) = lock(&self.link).clone() {
            return Ok(link);
        }
        let _turn = self.connecting.lock().await;
        if let Some(link) = lock(&self.link).clone() {
            return Ok(link);
        }
        let hello = Hello {
            tenant: self.options.tenant.clone(),
            ..Hello::new(PeerKind::Client)
        };
        let session = Session::connect(&self.options.master, &hello, self.options.session).await?;
        let joined = session.join(&MemberOffer::default()).await?;
        let last = self.last_member.swap(joined.member.0, Ordering::Relaxed);
        if last != 0 {
            // What the last incarnation was writing is void; nobody has to wait for its time to live.
            session.leave(MemberId(last)).await?;
        }
        let tenant = session.welcome().tenant;
        self.tenant.store(tenant.0.into(), Ordering::Relaxed);
        let link = Arc::new(Link {
            session,
            member: joined.member,
            era: joined.era,
            time_to_live: joined.time_to_live,
            tenant,
        });
        *lock(&self.link) = Some(link.clone());
        Ok(link)
    }

    /// Lets a session go that has failed, unless another has taken its place.
    fn discard(&self, failed: &Arc<Link>) {
        let mut link = lock(&self.link);
        if link.as_ref().is_some_and(|link| Arc::ptr_eq(link, failed)) {
            *link = None;
        }
    }

    /// Whether an error means that the session is of no more use.
    fn is_lost(error: &Error) -> bool {
        matches!(error.code(), Code::RpcFail | Code::ClientNotFound)
    }

    /// Keeps what an answer says of the session.
    pub(crate) fn heed<T>(&self, link: &Arc<Link>, answer: Answer<T>) -> Answer<T> {
        if answer.as_ref().is_err_and(Self::is_lost) {
            self.discard(link);
        }
        answer
    }

    /// Pings; says after how long to do so again.
    async fn show_life(&self) -> Duration {
        match self.link().await {
            Ok(link) => {
                let pinged = link.session.ping(link.member).await;
                if pinged.is_ok() && self.is_behind.swap(false, Ordering::Relaxed) {
                    // Next time, if it fails now: replicas are read in the partition's order meanwhile.
                    let _later = self.refresh().await;
                }
                match self.heed(&link, pinged) {
                    Ok(()) => link.time_to_live / PINGS,
                    Err(_) => PAUSE.min(link.time_to_live / PINGS),
                }
            }
            Err(_) => PAUSE,
        }
    }

    /// Every segment.
    ///
    /// # Errors
    /// When the master cannot be asked.
    pub async fn segments(&self) -> Result<Vec<SegmentStat>> {
        let link = self.link().await?;
        let answer = link.session.segments().await;
        self.heed(&link, answer)
    }

    /// The partition in numbers.
    ///
    /// # Errors
    /// When the master cannot be asked.
    pub async fn stats(&self) -> Result<Stats> {
        let link = self.link().await?;
        let answer = link.session.stats().await;
        self.heed(&link, answer)
    }

    /// Says goodbye: guards are given back, open writes are void. A later call joins anew.
    pub async fn close(&self) {
        let link = lock(&self.link).take();
        if let Some(link) = link {
            // Best effort: a master that does not hear it lets the member's time to live run out.
            let _unheard = link.session.leave(link.member).await;
            self.last_member.store(0, Ordering::Relaxed);
        }
    }

    async fn refresh(&self) -> Result<()> {
        let segments = self.segments().await?;
        let last = lock(&self.fleet).clone();
        self.roots.learn(&segments);
        let fleet = Fleet::of(&segments, &last).await;
        *lock(&self.fleet) = Arc::new(fleet);
        Ok(())
    }

    /// Where a member serves data.
    async fn address(&self, member: MemberId) -> Result<Arc<str>> {
        let known = |remote: &Self| lock(&remote.fleet).address(member);
        if let Some(address) = known(self) {
            return Ok(address);
        }
        self.refresh().await?;
        known(self).ok_or_else(|| {
            Error::new(
                Code::TransferFail,
                format!("node {member} is not in the cluster any more"),
            )
        })
    }

    /// Puts the replicas of each grant into the order in which this host reads them.
    fn arranged(
        &self,
        mut answers: Vec<Answer<Option<GetGrant>>>,
    ) -> Vec<Answer<Option<GetGrant>>> {
        let fleet = lock(&self.fleet).clone();
        for answer in &mut answers {
            if let Ok(Some(grant)) = answer
                && !fleet.arrange(&mut grant.replicas)
            {
                self.is_behind.store(true, Ordering::Relaxed);
            }
        }
        answers
    }

    /// Asks which shard files there are when some are not known; what cannot be asked stays unknown.
    async fn learn_of(&self, mut targets: impl Iterator<Item = &Target>) {
        let is_new = targets.any(|target| !self.roots.knows(target.placement.segment));
        if is_new && !self.roots.is_empty() {
            let _unheard = self.refresh().await;
        }
    }

    /// The members of a batch with the positions of their operations.
    fn by_member(members: impl Iterator<Item = MemberId>) -> BTreeMap<MemberId, Vec<usize>> {
        let mut groups: BTreeMap<MemberId, Vec<usize>> = BTreeMap::new();
        for (position, member) in members.enumerate() {
            groups.entry(member).or_default().push(position);
        }
        groups
    }

    async fn write_to(&self, member: MemberId, ops: &[WriteOp<'_>]) -> Vec<Answer<Crc32>> {
        if member == MemberId::NOBODY {
            self.learn_of(ops.iter().map(|op| op.target)).await;
            return self.roots.write(&self.options.tenant, ops).await;
        }
        match self.address(member).await {
            Ok(address) => self.fabric.peer(&address).write(ops).await,
            Err(error) => ops.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn read_from(&self, member: MemberId, ops: &mut [ReadOp<'_>]) -> Vec<Answer<ReadSums>> {
        if member == MemberId::NOBODY {
            self.learn_of(ops.iter().map(|op| op.source)).await;
            return self.roots.read(&self.options.tenant, ops).await;
        }
        match self.address(member).await {
            Ok(address) => self.fabric.peer(&address).read(ops).await,
            Err(error) => ops.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// Opens the roots on a thread that may block.
async fn open_roots(options: &DfsOptions) -> Result<Vec<Root>> {
    let options = options.clone();
    let opening = tokio::task::spawn_blocking(move || options.open());
    opening.await.unwrap_or_else(|error| {
        let what = format!("opening the roots ended early: {error}");
        Err(Error::new(Code::Internal, what))
    })
}

impl DataPlane for Remote {
    fn write<'a>(&'a self, ops: &'a [WriteOp<'a>]) -> Job<'a, Vec<Answer<Crc32>>> {
        Box::pin(async move {
            let groups = Self::by_member(ops.iter().map(|op| op.target.member));
            if let Some((member, _)) = groups.iter().next()
                && groups.len() == 1
            {
                return self.write_to(*member, ops).await;
            }
            let writes = groups.into_iter().map(|(member, positions)| async move {
                let mine: Vec<_> = positions
                    .iter()
                    .map(|position| ops[*position].clone())
                    .collect();
                let answers = self.write_to(member, &mine).await;
                (positions, answers)
            });
            scatter(ops.len(), join_all(writes).await)
        })
    }

    fn read<'a, 'b: 'a>(&'a self, ops: &'a mut [ReadOp<'b>]) -> Job<'a, Vec<Answer<ReadSums>>> {
        Box::pin(async move {
            let count = ops.len();
            let groups = Self::by_member(ops.iter().map(|op| op.source.member));
            if let Some((member, _)) = groups.iter().next()
                && groups.len() == 1
            {
                return self.read_from(*member, ops).await;
            }
            let mut mine: BTreeMap<MemberId, Vec<ReadOp<'_>>> = BTreeMap::new();
            for op in ops {
                mine.entry(op.source.member).or_default().push(ReadOp {
                    name: op.name,
                    ticket: op.ticket,
                    source: op.source,
                    object_len: op.object_len,
                    offset: op.offset,
                    into: &mut *op.into,
                    want_table: op.want_table,
                });
            }
            let reads = groups.into_iter().zip(mine).map(
                |((member, positions), (_, mut mine))| async move {
                    let answers = self.read_from(member, &mut mine).await;
                    (positions, answers)
                },
            );
            scatter(count, join_all(reads).await)
        })
    }
}

/// A call to the partition: on a session that turns out to be lost it is made once more on a new one, if repeating it
/// changes nothing.
macro_rules! ask {
    ($remote:ident, once, $call:expr) => {
        Box::pin(async move {
            let link = $remote.link().await?;
            let answer = $call(&link).await;
            $remote.heed(&link, answer)
        })
    };
    ($remote:ident, again, $call:expr) => {
        Box::pin(async move {
            let link = $remote.link().await?;
            let answer = $call(&link).await;
            match $remote.heed(&link, answer) {
                Err(error) if Self::is_lost(&error) => {
                    let link = $remote.link().await?;
                    let answer = $call(&link).await;
                    $remote.heed(&link, answer)
                }
                answer => answer,
            }
        })
    };
}

impl MetadataApi for Remote {
    fn put_start<'a>(
        &'a self,
        _: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        ask!(self, again, async |link: &Arc<Link>| {
            let answers = link.session.put_start(link.tenant, items, wish).await?;
            // The master has forgotten this member: join anew and ask again.
            match answers.iter().find_map(|answer| answer.as_ref().err()) {
                Some(error) if error.code() == Code::ClientNotFound => Err(error.clone()),
                _ => Ok(answers),
            }
        })
    }

    fn put_end<'a>(&'a self, ends: &'a [PutEnd]) -> Job<'a, Answer<Vec<Answer<PutDone>>>> {
        ask!(self, again, async |link: &Arc<Link>| link
            .session
            .put_end(ends)
            .await)
    }

    fn revoke<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        ask!(self, once, async |link: &Arc<Link>| link
            .session
            .revoke(tickets)
            .await)
    }

    fn renew<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        ask!(self, once, async |link: &Arc<Link>| link
            .session
            .renew(tickets)
            .await)
    }

    fn locate<'a>(
        &'a self,
        keys: Keys<'a>,
        recency: Recency,
    ) -> Job<'a, Answer<Vec<Answer<Option<GetGrant>>>>> {
        ask!(self, again, async |link: &Arc<Link>| {
            let keys = Keys {
                tenant: link.tenant,
                ..keys
            };
            let answers = link.session.locate(keys, recency).await;
            answers.map(|answers| self.arranged(answers))
        })
    }

    fn exist<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<bool>>>> {
        ask!(self, again, async |link: &Arc<Link>| link
            .session
            .exist(Keys {
                tenant: link.tenant,
                ..keys
            })
            .await)
    }

    fn touch<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<()>> {
        ask!(self, again, async |link: &Arc<Link>| link
            .session
            .touch(Keys {
                tenant: link.tenant,
                ..keys
            })
            .await)
    }

    fn give_back(&self, holds: &[Hold]) {
        if let Some(link) = lock(&self.link).clone() {
            link.session.give_back(holds);
        }
    }

    fn remove<'a>(&'a self, keys: Keys<'a>, force: Force) -> Job<'a, Answer<Vec<Answer<()>>>> {
        ask!(self, once, async |link: &Arc<Link>| {
            link.session
                .remove(
                    Keys {
                        tenant: link.tenant,
                        ..keys
                    },
                    force,
                )
                .await
        })
    }

    fn prefetch<'a>(
        &'a self,
        keys: Keys<'a>,
        wish: Prefetch,
    ) -> Job<'a, Answer<Vec<Answer<Option<Prefetched>>>>> {
        ask!(self, again, async |link: &Arc<Link>| {
            link.session
                .prefetch(
                    Keys {
                        tenant: link.tenant,
                        ..keys
                    },
                    wish,
                )
                .await
        })
    }

    fn scan<'a>(
        &'a self,
        _: TenantId,
        pattern: &'a str,
        action: ScanAction,
        cursor: Option<Cursor>,
    ) -> Job<'a, Answer<Page>> {
        ask!(self, once, async |link: &Arc<Link>| link
            .session
            .scan(link.tenant, pattern, action, cursor)
            .await)
    }

    fn stat<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<Option<ObjectStat>>>>> {
        ask!(self, again, async |link: &Arc<Link>| link
            .session
            .stat(Keys {
                tenant: link.tenant,
                ..keys
            })
            .await)
    }
}
