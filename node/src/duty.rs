//! A node's life with its master: connect, join, mount, then ping and obey, and all over again when the master is lost.

use crate::{foreign::Foreign, keeper::Keeper, node::NodeOptions};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tracing::{info, warn};
use ziggurat_base::{ByteCount, Code, Era, Error, MemberId, Result, SegmentId, memory::Region};
use ziggurat_engine::{
    command::{Effect, Keep, MemberOffer, SegmentOffer},
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

/// What others may know of a node's standing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Post {
    /// Every segment is mounted, or was once.
    pub(crate) mounted: bool,
    /// The master will not have it; another try would not help.
    pub(crate) refused: Option<Error>,
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
    regions: Vec<(Box<str>, Arc<Region>)>,
    mounted: Vec<SegmentId>,
    joined: Option<Joined>,
    highest_era: Era,
    post: watch::Sender<Post>,
}

impl Duty {
    pub(crate) fn new(
        options: &NodeOptions,
        address: String,
        tier: Arc<DramTier>,
        keeper: Arc<Keeper>,
        regions: Vec<(Box<str>, Arc<Region>)>,
        post: watch::Sender<Post>,
    ) -> Self {
        Self {
            master: options.master.clone(),
            address,
            session: options.session,
            foreign: Foreign::new(tier.clone(), options.memory.clone()),
            keeper,
            tier,
            regions,
            mounted: Vec::new(),
            joined: None,
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
                }
                End::Lost(error) => {
                    warn!(master = %self.master, %error, "the master cannot be reached, trying again");
                    self.post.send_modify(|post| post.trouble = Some(error));
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
                self.heed(session.ping(joined.member).await)?;
                joined
            }
            None => self.join(session).await?,
        };
        let pings = async {
            loop {
                sleep(joined.time_to_live / PINGS).await;
                self.heed(session.ping(joined.member).await)?;
            }
        };
        let obedience = async {
            loop {
                let effects = self.heed(session.effects(joined.member).await)?;
                self.obey(session, joined.member, effects).await?;
            }
        };
        tokio::select! {
            end = pings => end,
            end = obedience => end,
            error = self.foreign.serve(session, joined.member) => self.heed(Err(error)),
            error = self.keeper.tell(session, joined.member) => self.heed(Err(error)),
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

    /// Becomes another incarnation, with empty segments: what the old one held belongs to nobody.
    async fn join(&mut self, session: &Session) -> Result<Joined, End> {
        for segment in self.mounted.drain(..) {
            self.tier.unmount(segment);
        }
        self.foreign.part();
        self.keeper.forget_memory();
        let offer = MemberOffer {
            address: self.address.clone().into(),
            in_process: false,
            feed: self.keeper.is_keeping(),
        };
        let joined = session.join(&offer).await.map_err(End::Lost)?;
        self.tier.set_member(joined.member);
        for (name, region) in &self.regions {
            let offer = SegmentOffer {
                name: name.clone(),
                capacity: ByteCount(region.len()),
                highest_era: self.highest_era,
                keep: Keep::Delegated,
            };
            let segment = match session.mount(joined.member, &offer).await {
                Ok(segment) => segment,
                Err(error) => return Err(self.not_mounted(error)),
            };
            self.tier
                .mount_shared(segment, region.clone())
                .map_err(End::Lost)?;
            self.mounted.push(segment);
            self.keeper.add_memory(segment);
        }
        if let Err(error) = self.keeper.mount(session, joined.member).await {
            return Err(self.not_mounted(error));
        }
        self.foreign
            .rejoin(session, joined.member, self.highest_era)
            .await
            .map_err(End::Lost)?;
        self.highest_era = self.highest_era.max(joined.era);
        self.joined = Some(joined);
        self.post.send_modify(|post| post.mounted = true);
        info!(member = %joined.member, segments = self.mounted.len(), address = %self.address, "the node has joined");
        Ok(joined)
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
            for segment in self.mounted.iter().chain(&hosted) {
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
