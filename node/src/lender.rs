//! The memory that a keeper takes objects over from, and brings them back into.

use std::fmt;
use ziggurat_base::{ByteCount, MemberId, Placement, Result, Ticket, frame::Span};
use ziggurat_engine::port::{Access, Host, ReadOp, ReadSums, WriteSlot};
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
    /// Admits a write of this node.
    ///
    /// # Errors
    /// As [`Host::open_write`].
    fn open_write(&self, access: Access, span: &Span) -> Result<Box<dyn WriteSlot>>;
    /// A write of this node has copied a version whole; as [`DramTier::copied`].
    ///
    /// # Errors
    /// As [`DramTier::copied`].
    fn copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> Result<()>;
    /// Whether it has, and nothing has come over it since.
    fn is_copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> bool;
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

    fn open_write(&self, access: Access, span: &Span) -> Result<Box<dyn WriteSlot>> {
        Host::open_write(self, access, span)
    }

    fn copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> Result<()> {
        Self::copied(self, write, version, placement)
    }

    fn is_copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> bool {
        Self::is_copied(self, write, version, placement)
    }
}
