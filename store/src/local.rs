//! The node of this process: its memory as a data plane of one copy, and its obedience to the partition.

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
use ziggurat_tiers::dram::DramTier;

/// Moves bytes between the caller and the memory of this process, on the calling thread.
#[derive(Clone, Debug)]
pub(crate) struct LocalData {
    pub(crate) tier: Arc<DramTier>,
}

impl DataPlane for LocalData {
    fn write<'a>(&'a self, ops: &'a [WriteOp<'a>]) -> Job<'a, Vec<Answer<Crc32>>> {
        Box::pin(async move { ops.iter().map(|op| self.tier.write(op)).collect() })
    }

    fn read<'a, 'b: 'a>(&'a self, ops: &'a mut [ReadOp<'b>]) -> Job<'a, Vec<Answer<ReadSums>>> {
        Box::pin(async move { ops.iter_mut().map(|op| self.tier.read(op)).collect() })
    }
}

/// Carries out what the partition asks of the node of this process, at once.
pub(crate) struct LocalNode {
    pub(crate) tier: Arc<DramTier>,
    pub(crate) partition: Weak<Partition>,
    pub(crate) member: MemberId,
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
            // This process has nothing that outlives its memory, and asked for no feed.
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
