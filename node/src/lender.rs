//! The memory that a keeper takes objects over from.

use std::fmt;
use ziggurat_base::{MemberId, Result};
use ziggurat_engine::port::{ReadOp, ReadSums};
use ziggurat_tiers::dram::DramTier;

/// The owner of the memory, as a keeper sees it.
pub trait Lender: Send + Sync + fmt::Debug {
    /// The incarnation that serves the memory now.
    fn member(&self) -> MemberId;
    /// Reads a range. It is answered with success only when the version owned every byte from the first to the last.
    ///
    /// # Errors
    /// As [`DramTier::read`].
    fn read(&self, op: &mut ReadOp<'_>) -> Result<ReadSums>;
}

impl Lender for DramTier {
    fn member(&self) -> MemberId {
        Self::member(self)
    }

    fn read(&self, op: &mut ReadOp<'_>) -> Result<ReadSums> {
        Self::read(self, op)
    }
}
