//! Who leaves when room is needed.
//!
//! A policy sees row numbers, hashes and lengths, never bytes, keys or time spans of leases. The catalog and the
//! policy-only replay drive the same objects, so a prediction and a run cannot differ by a second model.

mod epochs;
mod fifo;
mod ghost;
mod list;
mod lru;
mod s3_fifo;

pub use fifo::Fifo;
pub use lru::Lru;
pub use s3_fifo::S3Fifo;

use crate::Row;
use std::{fmt, str::FromStr};
use ziggurat_base::{ByteCount, Code, Error};

/// Eviction order over the readable objects of one partition.
///
/// Contract, checked by `testkit::policy_contract!`:
/// * `propose` returns only rows that were inserted and not removed, never one that `held` vetoed in the same call;
/// * every call takes a bounded number of steps; `propose` takes one from `steps` for each row that it looks at and
///   returns `None` when they are used up or nothing can go. What it learnt is kept: the rows that go do not depend on
///   how the caller divides its steps over calls;
/// * with everything unheld and enough calls, every row is proposed in the end;
/// * the caller inserts a row that is absent, and touches, removes and evicts rows that are present; anything else
///   panics, for it would be our bug. Row numbers stay [`ROWS_SPARED`] below [`Row::MAX`].
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

    /// Proposes one object to evict, which stays until `evicted` or `remove`. A held row stays; the policy may treat it as
    /// just used. With steps left, `None` means that every row is held.
    fn propose(&mut self, held: &mut dyn FnMut(Row) -> bool, steps: &mut u32) -> Option<Row>;

    /// Brings the policy's entry of `row` into the cache; a hint ahead of a batch.
    fn prefetch(&self, row: Row);

    /// Brings what a removal of `row` changes besides its own entry, which is there already, into the cache.
    fn prefetch_removal(&self, row: Row);

    /// Number of rows that are present; costs no more than reading it.
    fn len(&self) -> u64;

    /// Whether no row is present.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the policy's tables take.
    fn memory(&self) -> ByteCount;
}

/// Row numbers at the upper end that policies need for themselves.
pub const ROWS_SPARED: u32 = 1024;

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

impl PolicyKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Fifo, Self::S3Fifo];

    /// The name used in configuration and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Fifo => "fifo",
            Self::S3Fifo => "s3_fifo",
        }
    }

    /// An empty policy of this kind.
    #[must_use]
    pub fn build(self) -> Box<dyn EvictionPolicy> {
        match self {
            Self::Lru => Box::new(Lru::new()),
            Self::Fifo => Box::new(Fifo::new()),
            Self::S3Fifo => Box::new(S3Fifo::new()),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                Error::new(
                    Code::InvalidParams,
                    format!("{text:?} is not an eviction policy: use one of {names}"),
                )
            })
    }
}
