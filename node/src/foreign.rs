//! What a node does for foreign clients, at the orders of its master: it honours tokens, proves payloads, and gives memory
//! to the pool in their name.
//!
//! Orders come at least once, after a lost connection again: each is carried out so that a repetition changes nothing and
//! is answered the same. They are carried out beside each other, so that one that takes its time (a proof reads the whole
//! payload, memory has to be mapped) does not hold up the tokens of others. A connection that breaks leaves them where they
//! are; the next one begins by comparing what is mounted here and there.

use crate::memory::MemoryOptions;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    task::{JoinError, spawn_blocking},
};
use tracing::warn;
use ziggurat_base::{ByteCount, Code, Era, Error, MemberId, Result, SegmentId, memory::Region};
use ziggurat_engine::{
    command::{Answer, Keep, SegmentOffer, SegmentStat},
    port::MemberApi as _,
    segment::Segment,
};
use ziggurat_proto::{
    Session,
    order::{NodeCommand, Order, OrderApi as _, Outcome, Prove, Report},
};
use ziggurat_tiers::dram::DramTier;

/// Orders that are carried out at the same time; beyond it they wait at the master.
const ORDERS_MAX: usize = 2048;

/// Proofs that are made at the same time, each by a thread.
const PROOFS_MAX: usize = 8;

/// A segment that a foreign client asked for.
#[derive(Clone, Debug)]
struct Hosted {
    name: Box<str>,
    capacity: ByteCount,
    region: Arc<Region>,
    /// What the master calls it; nothing while it is not known to be mounted.
    segment: Option<SegmentId>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Foreign {
    tier: Arc<DramTier>,
    memory: MemoryOptions,
    hosted: Mutex<Vec<Hosted>>,
    /// Whoever changes the list of segments does it alone.
    turn: Semaphore,
    proofs: Arc<Semaphore>,
}

impl Foreign {
    pub(crate) fn new(tier: Arc<DramTier>, memory: MemoryOptions) -> Self {
        Self {
            tier,
            memory,
            hosted: Mutex::default(),
            turn: Semaphore::new(1),
            proofs: Arc::new(Semaphore::new(PROOFS_MAX)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Hosted>> {
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The segments that it has given in the name of foreign clients.
    pub(crate) fn segments(&self) -> Vec<SegmentId> {
        let hosted = self.lock();
        hosted.iter().filter_map(|hosted| hosted.segment).collect()
    }

    /// Carries out orders until the connection or the membership is lost.
    pub(crate) async fn serve(&self, session: &Session, member: MemberId) -> Error {
        if let Err(error) = self.compare(session, member).await {
            return error;
        }
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                orders = session.orders(member), if under_way.len() < ORDERS_MAX => match orders {
                    Ok(orders) => {
                        let begun = orders.into_iter().map(|order| self.carry_out(session, member, order));
                        under_way.extend(begun);
                    }
                    Err(error) => return error,
                },
                Some(ended) = under_way.next() => if let Err(error) = ended {
                    return error;
                },
            }
        }
    }

    /// Carries out one order and reports.
    ///
    /// # Errors
    /// When the master cannot be reached: the order will be given again.
    async fn carry_out(&self, session: &Session, member: MemberId, order: Order) -> Result<()> {
        let outcome = match order.command {
            NodeCommand::Announce(announce) => {
                self.tier.announce(&announce).map(|()| Outcome::Done)
            }
            NodeCommand::Prove(prove) => self.prove(prove).await.map(Outcome::Proof),
            NodeCommand::Host { name, capacity } => {
                let hosted = self.host(session, member, &name, capacity).await;
                hosted.map(Outcome::Hosted)
            }
            NodeCommand::Unhost { segment } => {
                let unhosted = self.unhost(session, member, segment).await;
                unhosted.map(|()| Outcome::Done)
            }
        };
        if let Err(error) = &outcome
            && is_unreachable(error)
        {
            return Err(error.clone());
        }
        let report = Report {
            member,
            serial: order.serial,
            outcome,
        };
        session.report(&report).await
    }

    async fn prove(&self, prove: Prove) -> Answer<ziggurat_base::Crc32> {
        let proofs = Arc::clone(&self.proofs);
        let permit = proofs.acquire_owned().await.map_err(closed)?;
        let tier = Arc::clone(&self.tier);
        let proved = spawn_blocking(move || {
            // Goes with the thread, which goes on when nobody waits for it any more.
            let _permit = permit;
            tier.prove(prove.ticket, &prove.placement, prove.object_len)
        });
        proved.await.unwrap_or_else(|error| Err(lost(&error)))
    }

    /// Maps memory and mounts it.
    async fn host(
        &self,
        session: &Session,
        member: MemberId,
        name: &str,
        capacity: ByteCount,
    ) -> Answer<SegmentId> {
        let _turn = self.turn.acquire().await.map_err(closed)?;
        let known = self.lock().iter().find(|h| &*h.name == name).cloned();
        if let Some(known) = known {
            return match known.segment {
                Some(segment) if known.capacity == capacity => Ok(segment),
                _ => Err(Error::new(
                    Code::SegmentAlreadyExists,
                    format!(
                        "segment {name:?} is mounted with {}, not {capacity}",
                        known.capacity
                    ),
                )),
            };
        }
        let hosted = Hosted {
            name: name.into(),
            capacity,
            region: self.map(name, capacity).await?,
            segment: None,
        };
        // Known before the master is told, so that what a broken connection cuts off here is found by `compare`.
        self.lock().push(hosted.clone());
        let mounted = self.mount(session, member, Era(0), &hosted).await;
        if mounted.as_ref().is_err_and(|error| !is_unreachable(error)) {
            self.lock().retain(|hosted| &*hosted.name != name);
        }
        mounted
    }

    async fn map(&self, name: &str, capacity: ByteCount) -> Answer<Arc<Region>> {
        let taken: u64 = self.lock().iter().map(|hosted| hosted.capacity.0).sum();
        let most = self.memory.hosted_max();
        if taken.saturating_add(capacity.0) > most.0 {
            return Err(Error::new(
                Code::NoAvailableHandle,
                format!(
                    "{capacity} on top of {}: this node gives foreign clients {most} in all (its option hosted-max)",
                    ByteCount(taken)
                ),
            ));
        }
        let (memory, label) = (self.memory.clone(), name.to_owned());
        let mapped = spawn_blocking(move || memory.region(label, capacity)).await;
        mapped
            .unwrap_or_else(|error| Err(lost(&error)))
            .map(Arc::new)
    }

    async fn mount(
        &self,
        session: &Session,
        member: MemberId,
        highest_era: Era,
        hosted: &Hosted,
    ) -> Answer<SegmentId> {
        let offer = SegmentOffer {
            name: hosted.name.clone(),
            capacity: hosted.capacity,
            highest_era,
            keep: Keep::Delegated,
            stock: Default::default(),
        };
        let segment = session.mount(member, &offer).await?;
        self.serves(segment, hosted)?;
        Ok(segment)
    }

    /// The master has mounted it.
    fn serves(&self, segment: SegmentId, hosted: &Hosted) -> Answer<()> {
        self.tier.mount_shared(segment, hosted.region.clone())?;
        let mut list = self.lock();
        let here = list.iter_mut().filter(|here| here.name == hosted.name);
        here.for_each(|here| here.segment = Some(segment));
        Ok(())
    }

    /// Gives a hosted segment up. One that is not here any more was given up before.
    async fn unhost(&self, session: &Session, member: MemberId, segment: SegmentId) -> Answer<()> {
        let _turn = self.turn.acquire().await.map_err(closed)?;
        if !self.segments().contains(&segment) {
            return match self.tier.has(segment) {
                false => Ok(()),
                true => Err(Error::new(
                    Code::IllegalClient,
                    format!(
                        "segment {segment} is the node's own: only what MountSegment has mounted is unmounted so"
                    ),
                )),
            };
        }
        give_up(session, member, segment).await?;
        self.drop_segment(segment);
        Ok(())
    }

    fn drop_segment(&self, segment: SegmentId) {
        self.tier.unmount(segment);
        self.lock().retain(|hosted| hosted.segment != Some(segment));
    }

    /// The node is no member any more: what it hosted belongs to nobody.
    pub(crate) fn part(&self) {
        let mut list = self.lock();
        let before = list.iter_mut().filter_map(|hosted| hosted.segment.take());
        before.for_each(|segment| drop(self.tier.unmount(segment)));
    }

    /// The node has become another incarnation: mounts what it hosts again, empty. What cannot be is given up.
    ///
    /// # Errors
    /// When the master cannot be reached: the rest is mounted by the next incarnation.
    pub(crate) async fn rejoin(
        &self,
        session: &Session,
        member: MemberId,
        highest_era: Era,
    ) -> Result<()> {
        let hosted = self.lock().clone();
        for hosted in hosted {
            match self.mount(session, member, highest_era, &hosted).await {
                Ok(_) => {}
                Err(error) if is_unreachable(&error) => return Err(error),
                Err(error) => {
                    warn!(segment = %hosted.name, %error, "a foreign client's segment is lost with the master");
                    self.lock().retain(|here| here.name != hosted.name);
                }
            }
        }
        Ok(())
    }

    /// Makes good what the end of the last connection has cut off: learns which segments the master has mounted, and drops
    /// the memory of those that it does not count on.
    async fn compare(&self, session: &Session, member: MemberId) -> Result<()> {
        let _turn = self.turn.acquire().await.map_err(closed)?;
        let hosted = self.lock().clone();
        if hosted.is_empty() {
            return Ok(());
        }
        let is_ours = |stat: &SegmentStat| stat.member == member && stat.state == Segment::Mounted;
        let there = session.segments().await?;
        let there: Vec<_> = there.into_iter().filter(is_ours).collect();
        for hosted in hosted {
            let named = there.iter().find(|stat| stat.name == hosted.name);
            match (named.map(|stat| stat.id), hosted.segment) {
                (Some(there), Some(here)) if there == here => {}
                (Some(there), None) => self.serves(there, &hosted)?,
                (_, Some(here)) => self.drop_segment(here),
                (None, None) => self.lock().retain(|here| here.name != hosted.name),
            }
        }
        Ok(())
    }
}

/// Has the master take a segment out of the pool. One that is going already is as good as gone.
async fn give_up(session: &Session, member: MemberId, segment: SegmentId) -> Answer<()> {
    match session.unmount(member, segment, Duration::ZERO).await {
        Err(error) => match error.code() {
            Code::SegmentNotFound | Code::UnavailableInCurrentStatus => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Whether the master was not reached, or does not know this incarnation any more: not an answer to an order.
fn is_unreachable(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::RpcFail | Code::RpcTimeout | Code::ClientNotFound
    )
}

fn closed(_: tokio::sync::AcquireError) -> Error {
    Error::new(Code::Internal, "a semaphore of the node was closed")
}

fn lost(error: &JoinError) -> Error {
    Error::new(
        Code::Internal,
        format!("the work for an order ended without a result: {error}"),
    )
}
