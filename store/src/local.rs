//! The node of this process: its memory as a data plane of one copy, and its obedience to the partition.

use futures_util::future::join_all;
use std::{
    fmt,
    sync::{Arc, Weak},
};
use ziggurat_base::{Crc32, Job, MemberId};
use ziggurat_engine::{
    command::{Answer, Effect},
    port::{DataPlane, ReadOp, ReadSums, WriteOp},
};
use ziggurat_master::{EffectSink, Partition};
use ziggurat_node::Keeper;
use ziggurat_tiers::{dram::DramTier, ssd::Wanted};

/// Moves bytes between the caller and the memory of this process, on the calling thread.
#[derive(Clone, Debug)]
pub(crate) struct LocalData {
    pub(crate) tier: Arc<DramTier>,
    pub(crate) keeper: Arc<Keeper>,
}

impl DataPlane for LocalData {
    fn write<'a>(&'a self, ops: &'a [WriteOp<'a>]) -> Job<'a, Vec<Answer<Crc32>>> {
        Box::pin(async move { ops.iter().map(|op| self.tier.write(op)).collect() })
    }

    fn read<'a, 'b: 'a>(&'a self, ops: &'a mut [ReadOp<'b>]) -> Job<'a, Vec<Answer<ReadSums>>> {
        if !self.keeper.is_keeping() {
            return Box::pin(async move { ops.iter_mut().map(|op| self.tier.read(op)).collect() });
        }
        Box::pin(join_all(ops.iter_mut().map(|op| self.read_one(op))))
    }
}

impl LocalData {
    async fn read_one(&self, op: &mut ReadOp<'_>) -> Answer<ReadSums> {
        let Some(tier) = self.keeper.tier(op.source.placement.segment) else {
            return self.tier.read(op);
        };
        let wanted = Wanted {
            ticket: op.ticket,
            object_len: op.object_len,
            offset: op.offset,
            len: op.into.len() as u64,
        };
        tier.read_into(&wanted, op.into).await
    }
}

/// Carries out what the partition asks of the node of this process, at once.
pub(crate) struct LocalNode {
    pub(crate) tier: Arc<DramTier>,
    pub(crate) partition: Weak<Partition>,
    pub(crate) member: MemberId,
    pub(crate) keeper: Arc<Keeper>,
}

impl fmt::Debug for LocalNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalNode")
            .field("member", &self.member)
            .finish_non_exhaustive()
    }
}

impl EffectSink for LocalNode {
    fn deliver(&self, effects: Vec<Effect>) {
        let Some(partition) = self.partition.upgrade() else {
            return;
        };
        for effect in effects {
            self.keeper.heed(&effect);
            let Effect::Fence {
                ticket, placement, ..
            } = effect
            else {
                continue;
            };
            // A segment that is gone cannot be damaged: the fence is as good as done.
            let _gone = self.tier.fence(ticket, &placement);
            partition.acknowledge_fence(self.member, ticket, placement.segment);
        }
    }
}
