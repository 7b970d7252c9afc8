//! The memory that a keeper takes objects over from.

use std::fmt;
use ziggurat_base::{ByteCount, MemberId, Placement, Result, Ticket};
use ziggurat_engine::port::{ReadOp, ReadSums};
use ziggurat_tiers::dram::DramTier;

/// The owner of the memory, as a keeper sees it.
pub trait Lender: Send + Sync + fmt::Debug {
    /// The incarnation that serves the memory now.
    fn member(&self) -> MemberId;
    /// Bytes of the memory.
    fn capacity(&self) -> ByteCount;
    /// Reads a range. It is answered with success only when the version owned every byte from the first to the last.
    ///
    /// # Errors
    /// As [`DramTier::read`].
    fn read(&self, op: &mut ReadOp<'_>) -> Result<ReadSums>;
    /// Whether every byte of a replica belongs to a version.
    fn holds(&self, ticket: Ticket, placement: &Placement) -> bool;
}

impl Lender for DramTier {
    fn member(&self) -> MemberId {
        Self::member(self)
    }

    fn capacity(&self) -> ByteCount {
        Self::capacity(self)
    }

    fn read(&self, op: &mut ReadOp<'_>) -> Result<ReadSums> {
        Self::read(self, op)
    }

    fn holds(&self, ticket: Ticket, placement: &Placement) -> bool {
        Self::holds(self, ticket, placement)
    }
}
