//! A node's life with its master: connect, join, mount, then ping and obey, and all over again when the master is lost.

use crate::{clock::Uptime, foreign::Foreign, keeper::Keeper, node::NodeOptions};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tracing::{info, warn};
use ziggurat_base::{ByteCount, Code, Era, Error, MemberId, Result, SegmentId, memory::Region};
use ziggurat_dfs::Carriers;
use ziggurat_engine::{
    command::{Effect, Keep, MemberOffer, SegmentOffer, Stock},
    port::{Joined, MemberApi},
};
use ziggurat_proto::{
    Session, SessionOptions,
    hello::{Hello, PeerKind},
};
use ziggurat_tiers::dram::DramTier;

/// Pause before a lost master is tried again: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How often a node pings within its time to live.
const PINGS: u32 = 3;

/// Share of the time to live after which a node that has not been heard gives its memory up, in percent: well before any
/// master may take it for dead.
const FAITHFUL: u32 = 90;

/// The last time at which the master is known to have had this node as a member.
#[derive(Clone, Copy, Debug)]
struct Standing {
    time_to_live: Duration,
    /// By both clocks: one stands still while the machine sleeps, the other may be set.
    heard: (Instant, SystemTime),
}

impl Standing {
    fn new(time_to_live: Duration) -> Self {
        Self {
            time_to_live,
            heard: (Instant::now(), SystemTime::now()),
        }
    }

    /// Whether no master can have taken the node for dead. Only then does everything hold that masters have promised of
    /// what lies in its memory.
    fn is_good(&self) -> bool {
        let limit = self.time_to_live * FAITHFUL / 100;
        let (steady, set) = self.heard;
        steady.elapsed() < limit && set.elapsed().is_ok_and(|elapsed| elapsed < limit)
    }
}

/// One region of memory, and what the master calls it.
#[derive(Debug)]
struct Given {
    name: Box<str>,
    region: Arc<Region>,
    segment: Option<SegmentId>,
}

/// What others may know of a node's standing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Post {
    /// Every segment is mounted, or was once.
    pub(crate) mounted: bool,
    /// The master will not have it; another try would not help.
    pub(crate) refused: Option<Error>,
    /// The master has it as a member and answers.
    pub(crate) in_touch: bool,
    /// What kept it from the master last.
    pub(crate) trouble: Option<Error>,
}

/// Why a conversation with the master ended.
enum End {
    /// The connection is lost; the membership may still hold.
    Lost(Error),
    /// The master has forgotten this incarnation.
    Forgotten,
    /// The node is to stop.
    Stopped,
}

/// See the module.
pub(crate) struct Duty {
    master: String,
    address: String,
    session: SessionOptions,
    tier: Arc<DramTier>,
    foreign: Foreign,
    keeper: Arc<Keeper>,
    carriers: Arc<Carriers>,
    clock: Uptime,
    given: Vec<Given>,
    /// Whether what lies in memory is offered to a master that has lost its catalog.
    reoffer: bool,
    joined: Option<Joined>,
    standing: Mutex<Option<Standing>>,
    highest_era: Era,
    post: watch::Sender<Post>,
}

impl Duty {
    pub(crate) fn new(
        options: &NodeOptions,
        address: String,
        tier: Arc<DramTier>,
        (keeper, carriers): (Arc<Keeper>, Arc<Carriers>),
        regions: Vec<(Box<str>, Arc<Region>)>,
        post: watch::Sender<Post>,
    ) -> Self {
        let given = |(name, region)| Given {
            name,
            region,
            segment: None,
        };
        Self {
            master: options.master.clone(),
            address,
            session: options.session,
            foreign: Foreign::new(tier.clone(), options.memory.clone()),
            keeper,
            carriers,
            clock: Uptime::new(),
            tier,
            given: regions.into_iter().map(given).collect(),
            reoffer: options.memory.reoffer,
            joined: None,
            standing: Mutex::new(None),
            highest_era: Era(0),
            post,
        }
    }

    /// Serves the master until it is told to stop.
    pub(crate) async fn run(mut self, mut stopped: oneshot::Receiver<Duration>) {
        let mut pause = PAUSE_MIN;
        loop {
            let talk = async {
                let session = self.connect().await.map_err(End::Lost)?;
                pause = PAUSE_MIN;
                self.talk(&session).await
            };
            let end = tokio::select! {
                end = talk => match end { Ok(never) => match never {}, Err(end) => end },
                grace = &mut stopped => {
                    self.part(grace.unwrap_or_default()).await;
                    End::Stopped
                }
            };
            match end {
                End::Stopped => return,
                End::Forgotten => {
                    warn!(master = %self.master, "the master does not know this node any more, joining anew");
                    self.joined = None;
                    self.post.send_modify(|post| post.in_touch = false);
                }
                End::Lost(error) => {
                    warn!(master = %self.master, %error, "the master cannot be reached, trying again");
                    self.post.send_modify(|post| {
                        post.in_touch = false;
                        post.trouble = Some(error);
                    });
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    async fn connect(&self) -> Result<Session> {
        Session::connect(&self.master, &Hello::new(PeerKind::Node), self.session).await
    }

    /// Joins unless the master still knows this incarnation, then pings and obeys.
    async fn talk(&mut self, session: &Session) -> Result<std::convert::Infallible, End> {
        let joined = match self.joined {
            Some(joined) => {
                self.ping(session, joined).await?;
                joined
            }
            None => self.join(session).await?,
        };
        self.post.send_modify(|post| post.in_touch = true);
        let pings = async {
            loop {
                sleep(joined.time_to_live / PINGS).await;
                self.ping(session, joined).await?;
            }
        };
        let obedience = async {
            loop {
                let effects = self.heed(session.effects(joined.member).await)?;
                self.obey(session, joined.member, effects).await?;
            }
        };
        let carry = self.carriers.carry(
            session,
            joined.member,
            joined.era,
            &self.clock,
            joined.time_to_live,
        );
        tokio::select! {
            end = pings => end,
            end = obedience => end,
            error = self.foreign.serve(session, joined.member) => self.heed(Err(error)),
            error = self.keeper.tell(session, joined.member) => self.heed(Err(error)),
            error = carry => self.heed(Err(error)),
            error = session.closed() => Err(End::Lost(error)),
        }
    }

    /// Tells a lost connection from a lost membership.
    fn heed<T>(&self, answer: Result<T>) -> Result<T, End> {
        answer.map_err(|error| match error.code() {
            Code::ClientNotFound => End::Forgotten,
            _ => End::Lost(error),
        })
    }

    /// Shows life, and notes that the master has seen it.
    async fn ping(&self, session: &Session, joined: Joined) -> Result<(), End> {
        let standing = Standing::new(joined.time_to_live);
        self.heed(session.ping(joined.member).await)?;
        self.stand(standing);
        Ok(())
    }

    fn stand(&self, standing: Standing) {
        let mut here = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        *here = Some(standing);
    }

    /// What the memory is worth to the master that has just taken the node in.
    fn stock(&self) -> Stock {
        let standing = *self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        match standing.is_some_and(|standing| standing.is_good()) {
            _ if !self.reoffer => Stock::Volatile,
            true => Stock::Held,
            false => Stock::Fresh,
        }
    }

    /// Becomes another incarnation. What lies in memory is offered again when it can still be vouched for, else it belongs to
    /// nobody.
    async fn join(&mut self, session: &Session) -> Result<Joined, End> {
        let offer = MemberOffer {
            address: self.address.clone().into(),
            in_process: false,
            feed: self.reoffer || self.keeper.is_keeping(),
            promotes: self.keeper.is_keeping(),
        };
        let sent = Standing::new(Duration::ZERO);
        let joined = session.join(&offer).await.map_err(End::Lost)?;
        let stock = self.stock();
        self.foreign.part();
        self.tier.set_member(joined.member);
        self.lay_aside(stock).map_err(End::Lost)?;
        for index in 0..self.given.len() {
            self.give(session, joined.member, index, stock).await?;
        }
        if let Err(error) = self.keeper.mount(session, joined.member).await {
            return Err(self.not_mounted(error));
        }
        if let Err(error) = self.carriers.mount(session, joined.member).await {
            return Err(self.not_mounted(error));
        }
        self.foreign
            .rejoin(session, joined.member, self.highest_era)
            .await
            .map_err(End::Lost)?;
        self.highest_era = self.highest_era.max(joined.era);
        self.joined = Some(joined);
        self.stand(Standing {
            time_to_live: joined.time_to_live,
            ..sent
        });
        self.post.send_modify(|post| post.mounted = true);
        info!(
            member = %joined.member, segments = self.given.len(), address = %self.address, memory = ?stock,
            "the node has joined"
        );
        Ok(joined)
    }

    /// Takes the memory out of the hands of the last master: as it is, when it is offered again, else as if nothing were in it.
    /// Another master begins to number segments anew, so those that are kept get numbers meanwhile that none has.
    fn lay_aside(&mut self, stock: Stock) -> Result<()> {
        let mut kept = Vec::new();
        for (index, given) in self.given.iter_mut().enumerate() {
            let Some(before) = given.segment else {
                continue;
            };
            if stock != Stock::Held {
                self.tier.unmount(before);
                given.segment = None;
                continue;
            }
            let aside = SegmentId(u32::MAX - index as u32);
            if before != aside {
                self.keeper.carry_memory(before, aside);
                self.tier.renumber(before, aside)?;
                given.segment = Some(aside);
            }
            kept.push(aside);
        }
        self.keeper.begin_memory(&kept);
        Ok(())
    }

    /// Mounts one region, with what lies in it or as if nothing did.
    async fn give(
        &mut self,
        session: &Session,
        member: MemberId,
        index: usize,
        stock: Stock,
    ) -> Result<(), End> {
        let given = &self.given[index];
        let before = given.segment;
        let offer = SegmentOffer {
            name: given.name.clone(),
            capacity: ByteCount(given.region.len()),
            highest_era: self.highest_era.max(self.keeper.highest_era()),
            keep: Keep::Delegated,
            stock: match (stock, before) {
                (Stock::Held, None) => Stock::Fresh,
                _ => stock,
            },
        };
        let segment = match session.mount(member, &offer).await {
            Ok(segment) => segment,
            Err(error) => return Err(self.not_mounted(error)),
        };
        let taken_on = match before {
            Some(before) => {
                self.keeper.carry_memory(before, segment);
                self.tier.renumber(before, segment)
            }
            None => self.tier.mount_shared(segment, given.region.clone()),
        };
        taken_on.map_err(End::Lost)?;
        self.given[index].segment = Some(segment);
        self.keeper.add_memory(segment);
        Ok(())
    }

    /// A segment was not taken: for good, when the node has not been mounted before and another try would not help.
    fn not_mounted(&self, error: Error) -> End {
        let refused = matches!(
            error.code(),
            Code::InvalidParams | Code::SegmentAlreadyExists | Code::UnavailableInCurrentMode
        );
        if refused && !self.post.borrow().mounted {
            self.post
                .send_modify(|post| post.refused = Some(error.clone()));
        }
        End::Lost(error)
    }

    /// Carries effects out and acknowledges them.
    async fn obey(
        &self,
        session: &Session,
        member: MemberId,
        effects: Vec<Effect>,
    ) -> Result<(), End> {
        for effect in effects {
            self.keeper.heed(&effect);
            self.carriers.heed(&effect);
            let Effect::Fence {
                ticket, placement, ..
            } = effect
            else {
                continue;
            };
            // A segment that is gone cannot be damaged: the fence is as good as done.
            if let Err(error) = self.tier.fence(ticket, &placement) {
                warn!(%ticket, %error, "nothing is left to fence");
            }
            self.heed(session.fenced(member, ticket, placement.segment).await)?;
        }
        Ok(())
    }

    /// Unmounts with grace and leaves, if the master can be told.
    async fn part(&self, grace: Duration) {
        let Some(joined) = self.joined else {
            return;
        };
        let goodbye = async {
            let session = self.connect().await?;
            let hosted = self.foreign.segments();
            let given = self.given.iter().filter_map(|given| given.segment);
            let segments: Vec<_> = given.chain(hosted).collect();
            for segment in &segments {
                session.unmount(joined.member, *segment, grace).await?;
            }
            let began = tokio::time::Instant::now();
            while began.elapsed() < grace {
                sleep((joined.time_to_live / PINGS).min(grace.saturating_sub(began.elapsed())))
                    .await;
                session.ping(joined.member).await?;
            }
            session.leave(joined.member).await
        };
        let patience = grace + self.session.deadline;
        match timeout(patience, goodbye).await {
            Ok(Ok(())) => info!(member = %joined.member, "the node has left"),
            Ok(Err(error)) => warn!(%error, "the node could not say goodbye"),
            Err(_) => warn!("the master did not take the node's goodbye in time"),
        }
    }
}
