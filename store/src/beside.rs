//! A client in the process of a node: bytes on that node are moved by this process, all others over the network.

use crate::local::LocalData;
use futures_util::future::join;
use std::{
    fmt,
    sync::{Arc, Weak},
};
use ziggurat_base::{Code, Crc32, Error, Job, MemberId};
use ziggurat_client::Remote;
use ziggurat_engine::{
    command::Answer,
    port::{DataPlane, ReadOp, ReadSums, WriteOp},
};
use ziggurat_node::{Keeper, Node};
use ziggurat_tiers::dram::DramTier;

/// See the module. It does not keep the node alive: once that has ended, it is reached like any other that has.
pub(crate) struct Beside {
    remote: Arc<Remote>,
    tier: Weak<DramTier>,
    keeper: Weak<Keeper>,
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

impl Beside {
    pub(crate) fn new(remote: Arc<Remote>, node: &Node) -> Self {
        Self {
            remote,
            tier: Arc::downgrade(node.tier()),
            keeper: Arc::downgrade(node.keeper()),
        }
    }

    /// The node, while it lives, and its incarnation.
    fn here(&self) -> Option<(MemberId, LocalData)> {
        let tier = self.tier.upgrade()?;
        let keeper = self.keeper.upgrade()?;
        Some((tier.member(), LocalData { tier, keeper }))
    }
}

/// Lays the answers of both sides back into the order of the batch.
fn merged<T>(is_near: &[bool], near: Vec<Answer<T>>, far: Vec<Answer<T>>) -> Vec<Answer<T>> {
    let (mut near, mut far) = (near.into_iter(), far.into_iter());
    let missing = || Err(Error::new(Code::Internal, "an operation has no answer"));
    let take = |is_near: &bool| {
        let answer = if *is_near { near.next() } else { far.next() };
        answer.unwrap_or_else(missing)
    };
    is_near.iter().map(take).collect()
}

impl DataPlane for Beside {
    fn write<'a>(&'a self, ops: &'a [WriteOp<'a>]) -> Job<'a, Vec<Answer<Crc32>>> {
        Box::pin(async move {
            let Some((member, here)) = self.here() else {
                return self.remote.write(ops).await;
            };
            let is_near: Vec<_> = ops.iter().map(|op| op.target.member == member).collect();
            match (is_near.contains(&true), is_near.contains(&false)) {
                (false, _) => return self.remote.write(ops).await,
                (_, false) => return here.write(ops).await,
                (true, true) => {}
            }
            let side = |near: bool| -> Vec<_> {
                let mine = ops.iter().zip(&is_near).filter(|(_, is)| **is == near);
                mine.map(|(op, _)| op.clone()).collect()
            };
            let (near, far) = (side(true), side(false));
            // What goes over the network is on its way before this thread copies.
            let (far, near) = join(self.remote.write(&far), here.write(&near)).await;
            merged(&is_near, near, far)
        })
    }

    fn read<'a, 'b: 'a>(&'a self, ops: &'a mut [ReadOp<'b>]) -> Job<'a, Vec<Answer<ReadSums>>> {
        Box::pin(async move {
            let Some((member, here)) = self.here() else {
                return self.remote.read(ops).await;
            };
            let is_near: Vec<_> = ops.iter().map(|op| op.source.member == member).collect();
            match (is_near.contains(&true), is_near.contains(&false)) {
                (false, _) => return self.remote.read(ops).await,
                (_, false) => return here.read(ops).await,
                (true, true) => {}
            }
            let (mut near, mut far) = (Vec::new(), Vec::new());
            for (op, is_near) in ops.iter_mut().zip(&is_near) {
                let side = if *is_near { &mut near } else { &mut far };
                side.push(ReadOp {
                    name: op.name,
                    ticket: op.ticket,
                    source: op.source,
                    object_len: op.object_len,
                    offset: op.offset,
                    into: &mut *op.into,
                    want_table: op.want_table,
                });
            }
            let (far, near) = join(self.remote.read(&mut far), here.read(&mut near)).await;
            merged(&is_near, near, far)
        })
    }
}
