//! Who leaves when room is needed.
//!
//! A policy sees row numbers, hashes and lengths, never bytes, keys or time spans of leases. The catalog and the
//! policy-only replay drive the same objects, so a prediction and a run cannot differ by a second model.

use crate::Row;
use std::fmt;
use ziggurat_base::ByteCount;

/// Eviction order over the readable objects of one partition.
///
/// Contract, checked by `testkit::policy_contract!`:
/// * `propose` returns only rows that were inserted and not removed, never one that `held` vetoed in the same call;
/// * every call takes a bounded number of steps; `propose` takes one from `steps` for each row that it looks at and
///   returns `None` when they are used up or nothing can go;
/// * with everything unheld and enough calls, every row is proposed in the end.
pub trait EvictionPolicy: fmt::Debug + Send {
    /// The name used in configuration and reports.
    fn name(&self) -> &'static str;

    /// The bytes that the policy may assume to be available; called at the start and when segments come or go.
    fn set_capacity(&mut self, capacity: ByteCount);

    /// An object of `len` bytes became readable. `hash` identifies its key, also after it has gone and come back.
    fn insert(&mut self, row: Row, hash: u64, len: ByteCount);

    /// The object was read.
    fn touch(&mut self, row: Row);

    /// The object is gone for another reason than this policy's proposal.
    fn remove(&mut self, row: Row);

    /// The object that was proposed has been evicted.
    fn evicted(&mut self, row: Row);

    /// Proposes one object to evict. A held row stays; the policy may treat it as just used.
    fn propose(&mut self, held: &mut dyn FnMut(Row) -> bool, steps: &mut u32) -> Option<Row>;

    /// Brings the policy's entry of `row` into the cache; a hint ahead of a batch.
    fn prefetch(&self, row: Row);

    /// Bytes of memory that the policy's tables take.
    fn memory(&self) -> ByteCount;
}

/// The policies that configuration can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Least recently used goes first.
    #[default]
    Lru,
    /// Oldest goes first.
    Fifo,
    /// S3-FIFO: a small probation queue, a main queue, and a ghost of what left the small one.
    S3Fifo,
}
