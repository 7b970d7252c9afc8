//! Foreign clients that are connected, and the writes that each of them has open.

use crate::Partition;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::time::Instant;
use ziggurat_base::{Code, Error, Key, MemberId, ObjectKey, Ticket};
use ziggurat_engine::{
    command::{Answer, MemberOffer, Target},
    port::{MemberApi as _, MetadataApi as _},
};
use ziggurat_proto::seed::Peer;

/// Writes that one foreign client may have open; beyond it those are forgotten that are over by their age.
const WRITES_MAX: usize = 4096;

/// Clients that are remembered after they have gone: calls of theirs that were under way may still come.
const GONE_MAX: usize = 1024;

/// A write of a foreign client. Dropping it gives it up, unless it was ended.
pub(super) struct OpenWrite {
    partition: Arc<Partition>,
    pub(super) ticket: Ticket,
    pub(super) object_len: u64,
    began: Instant,
    /// Where it goes, in the order of the grant; `false` for a node that has not acknowledged its tokens.
    pub(super) targets: Vec<(Target, bool)>,
    is_ended: bool,
}

impl OpenWrite {
    pub(super) fn new(
        partition: Arc<Partition>,
        ticket: Ticket,
        object_len: u64,
        targets: &[Target],
    ) -> Self {
        Self {
            partition,
            ticket,
            object_len,
            began: Instant::now(),
            targets: targets
                .iter()
                .map(|target| (target.clone(), false))
                .collect(),
            is_ended: false,
        }
    }

    /// Its object is readable: nothing is left to give up.
    pub(super) fn ended(mut self) {
        self.is_ended = true;
    }
}

impl Drop for OpenWrite {
    fn drop(&mut self) {
        if !self.is_ended {
            // Done by the call itself; its answer says only whether somebody else was faster.
            drop(self.partition.revoke(&[self.ticket]));
        }
    }
}

struct Living {
    member: MemberId,
    writes: BTreeMap<ObjectKey, OpenWrite>,
}

#[derive(Default)]
struct State {
    living: BTreeMap<Peer, Living>,
    gone: VecDeque<Peer>,
}

/// See the module.
pub(super) struct Peers {
    partition: Arc<Partition>,
    state: Mutex<State>,
}

impl Peers {
    pub(super) fn new(partition: Arc<Partition>) -> Self {
        Self {
            partition,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clients that have a member, and their open writes.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        let writes = state.living.values().map(|living| living.writes.len());
        (state.living.len() as u64, writes.sum::<usize>() as u64)
    }

    /// The member that stands for a client; joins when it comes for the first time. It need not ping: the end of its
    /// connection is its death.
    pub(super) fn member(&self, peer: Peer) -> Answer<MemberId> {
        let mut state = self.lock();
        if let Some(living) = state.living.get(&peer) {
            return Ok(living.member);
        }
        if state.gone.contains(&peer) {
            return Err(has_gone());
        }
        let offer = MemberOffer {
            address: "".into(),
            in_process: true,
            feed: false,
            promotes: false,
        };
        let member = self.partition.join_now(&offer)?.member;
        let writes = BTreeMap::new();
        state.living.insert(peer, Living { member, writes });
        Ok(member)
    }

    /// Keeps a write until it is ended. An earlier one of the same key is over: the partition has granted this one.
    pub(super) fn keep(&self, peer: Peer, key: Key<'_>, write: OpenWrite) -> Answer<()> {
        let longest = self.partition.config().write_release;
        let mut state = self.lock();
        let living = state.living.get_mut(&peer).ok_or_else(has_gone)?;
        let mut over = BTreeMap::new();
        if living.writes.len() >= WRITES_MAX {
            let is_over = |_: &ObjectKey, write: &mut OpenWrite| write.began.elapsed() > longest;
            over = living.writes.extract_if(.., is_over).collect();
        }
        if living.writes.len() >= WRITES_MAX {
            return Err(Error::new(
                Code::Backpressure,
                format!("a client may have {WRITES_MAX} writes open: end some first"),
            ));
        }
        let earlier = living.writes.insert(key.to_owned(), write);
        // What is dropped is given up, which is a call of its own.
        drop(state);
        drop((earlier, over));
        Ok(())
    }

    /// Takes the open write of a key.
    pub(super) fn take(&self, peer: Peer, key: Key<'_>) -> Option<OpenWrite> {
        let mut state = self.lock();
        let living = state.living.get_mut(&peer)?;
        living.writes.remove(&key.to_owned())
    }

    /// A client has gone, and with it what it was writing.
    pub(super) fn gone(&self, peer: Peer) {
        let living = {
            let mut state = self.lock();
            if state.gone.len() >= GONE_MAX {
                state.gone.pop_front();
            }
            state.gone.push_back(peer);
            state.living.remove(&peer)
        };
        if let Some(living) = living {
            drop(living.writes);
            drop(self.partition.leave(living.member));
        }
    }
}

fn has_gone() -> Error {
    Error::new(Code::Cancelled, "the connection of the call has ended")
}
