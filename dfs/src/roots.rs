//! The roots that a process has mounted: the data plane of targets in shard files.

use crate::{Ack, Name, Place, Root, ShardRead, ShardWrite};
use futures_util::future::{Either, join_all, select};
use std::{
    collections::BTreeMap,
    fmt,
    pin::pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use ziggurat_base::{Clock, Code, Crc32, Error, Extent, Placement, SegmentId};
use ziggurat_engine::{
    command::{Answer, Keep, SegmentStat},
    port::{ReadOp, ReadSums, WriteOp, scatter},
};

/// How long a batch may take. What is not done by then is given up; the space of what was written cools for longer than that,
/// so that a request that the filesystem finishes late damages nothing.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// See the module.
pub struct Roots {
    roots: Vec<Root>,
    ack: Ack,
    clock: Arc<dyn Clock>,
    /// Which segment of the partition is which shard file of which root.
    shards: RwLock<BTreeMap<SegmentId, (usize, u32)>>,
}

fn not_here(segment: SegmentId) -> Error {
    Error::new(
        Code::DfsServiceUnavailable,
        format!(
            "shard file {segment} is of a root that is not mounted here: give its directory as --dfs"
        ),
    )
}

fn too_late() -> Error {
    let span = ziggurat_base::unit::human_span(DEADLINE);
    Error::new(
        Code::DfsServiceUnavailable,
        format!("the shared filesystem has not answered within {span}"),
    )
}

fn extent_of(placement: &Placement) -> Answer<Extent> {
    match placement.extents.as_slice() {
        [extent] => Ok(*extent),
        _ => Err(Error::new(
            Code::InvalidReplica,
            "a record in a shard file has one extent",
        )),
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.roots).finish()
    }
}

impl Roots {
    /// What `work` answers, or as many errors when it takes too long. Time is looked at first: a process that stood still for
    /// long does not write on.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Vec<Answer<T>>>,
        count: usize,
    ) -> Vec<Answer<T>> {
        let alarm = self.clock.sleep_until(self.clock.now().after(DEADLINE));
        match select(alarm, pin!(work)).await {
            Either::Left(((), _)) => (0..count).map(|_| Err(too_late())).collect(),
            Either::Right((answers, _)) => answers,
        }
    }

    /// With these roots; writes are done when `ack` says so.
    #[must_use]
    pub fn new(roots: Vec<Root>, ack: Ack, clock: Arc<dyn Clock>) -> Self {
        Self {
            roots,
            ack,
            clock,
            shards: RwLock::default(),
        }
    }

    /// Whether nothing is mounted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The roots.
    #[must_use]
    pub fn all(&self) -> &[Root] {
        &self.roots
    }

    /// Learns what the partition calls the shard files.
    pub fn learn(&self, segments: &[SegmentStat]) {
        let mut by_directory = BTreeMap::new();
        for (number, root) in self.roots.iter().enumerate() {
            for shard in root.shards() {
                by_directory.insert(shard.directory, (number, shard.index));
            }
        }
        let known = segments.iter().filter_map(|segment| match segment.keep {
            Keep::Shared { directory, .. } => Some((segment.id, *by_directory.get(&directory)?)),
            Keep::Delegated | Keep::Owned { .. } => None,
        });
        let known = known.collect();
        *self.shards.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Whether a segment is a shard file that is mounted here, as far as was learnt.
    #[must_use]
    pub fn knows(&self, segment: SegmentId) -> bool {
        self.find(segment).is_ok()
    }

    fn find(&self, segment: SegmentId) -> Answer<(usize, u32)> {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        shards
            .get(&segment)
            .copied()
            .ok_or_else(|| not_here(segment))
    }

    fn locate(&self, placement: &Placement) -> Answer<(usize, Place)> {
        let (root, shard) = self.find(placement.segment)?;
        let extent = extent_of(placement)?;
        Ok((root, Place { shard, extent }))
    }

    /// Writes records of a tenant; answers with the sums of their payloads.
    pub async fn write(&self, tenant: &str, ops: &[WriteOp<'_>]) -> Vec<Answer<Crc32>> {
        let mut refused = Vec::new();
        let mut groups: BTreeMap<usize, (Vec<usize>, Vec<ShardWrite<'_>>)> = BTreeMap::new();
        for (position, op) in ops.iter().enumerate() {
            match self.prepare(tenant, op) {
                Ok((root, write)) => {
                    let (positions, writes) = groups.entry(root).or_default();
                    positions.push(position);
                    writes.push(write);
                }
                Err(error) => refused.push((vec![position], vec![Err(error)])),
            }
        }
        let writes = groups.into_iter().map(|(root, (positions, writes))| {
            let root = &self.roots[root];
            async move {
                let count = writes.len();
                let group = self.in_time(root.write_many(&writes), count).await;
                (positions, group)
            }
        });
        scatter(ops.len(), join_all(writes).await.into_iter().chain(refused))
    }

    fn prepare<'a>(&self, tenant: &'a str, op: &'a WriteOp<'_>) -> Answer<(usize, ShardWrite<'a>)> {
        let (root, place) = self.locate(&op.target.placement)?;
        let name = op.name.ok_or_else(nameless)?;
        let write = ShardWrite {
            name: Name {
                tenant,
                key: name.key,
                ticket: op.ticket,
            },
            tags: name.tags,
            place,
            parts: op.parts,
            ack: self.ack,
        };
        Ok((root, write))
    }

    /// Reads ranges of records of a tenant. What is not the record that was asked for is an error.
    pub async fn read(&self, tenant: &str, ops: &mut [ReadOp<'_>]) -> Vec<Answer<ReadSums>> {
        let count = ops.len();
        let mut refused = Vec::new();
        type Reads<'a> = Vec<(ShardRead<'a>, &'a mut [u8])>;
        let mut groups: BTreeMap<usize, (Vec<usize>, Reads<'_>)> = BTreeMap::new();
        for (position, op) in ops.iter_mut().enumerate() {
            let located = self.locate(&op.source.placement);
            let named = op.name.ok_or_else(nameless);
            match located.and_then(|(root, place)| Ok((root, place, named?))) {
                Ok((root, place, key)) => {
                    let read = ShardRead {
                        name: Name {
                            tenant,
                            key,
                            ticket: op.ticket,
                        },
                        place,
                        object_len: op.object_len,
                        offset: op.offset,
                        want_table: op.want_table,
                    };
                    let (positions, reads) = groups.entry(root).or_default();
                    positions.push(position);
                    reads.push((read, &mut *op.into));
                }
                Err(error) => refused.push((vec![position], vec![Err(error)])),
            }
        }
        let reads = groups.into_iter().map(|(root, (positions, mut reads))| {
            let root = &self.roots[root];
            async move {
                let count = reads.len();
                let group = self.in_time(root.read_many(&mut reads), count).await;
                (positions, group)
            }
        });
        scatter(count, join_all(reads).await.into_iter().chain(refused))
    }
}

fn nameless() -> Error {
    Error::new(
        Code::InvalidParams,
        "an operation on a shard file names its object",
    )
}
