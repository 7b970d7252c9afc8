//! Commands to nodes that go beyond the engine's effects: what foreign clients need, who name space by opaque tokens and
//! cannot prove their bytes.
//!
//! The partition's process orders, the node carries out and reports under the same serial number. Orders come at least once:
//! one that comes again is answered again.

use ziggurat_base::{ByteCount, Crc32, Job, MemberId, Placement, SegmentId, Ticket};
use ziggurat_engine::command::Answer;
pub use ziggurat_engine::token::{Announce, TokenRange, TokenUse};

/// Asks the owner of memory for the sum of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prove {
    /// The version. Its write tokens end here.
    pub ticket: Ticket,
    /// Where its payload lies; the node lays the chunk table beside it.
    pub placement: Placement,
    /// Bytes of the whole payload.
    pub object_len: u64,
}

/// What a node is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCommand {
    /// Honour tokens. Answered by [`Outcome::Done`].
    Announce(Announce),
    /// Sum a payload. Answered by [`Outcome::Proof`].
    Prove(Prove),
    /// Mount a segment for a foreign client. Answered by [`Outcome::Hosted`] once it is mounted.
    Host {
        /// Its name.
        name: Box<str>,
        /// Its size.
        capacity: ByteCount,
    },
    /// Unmount a segment that was hosted. Answered by [`Outcome::Done`].
    Unhost {
        /// The segment.
        segment: SegmentId,
    },
}

/// A command with the number that its report repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Unique among the orders of an era.
    pub serial: u64,
    /// What to do.
    pub command: NodeCommand,
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The sum of the payload.
    Proof(Crc32),
    /// The mounted segment.
    Hosted(SegmentId),
}

/// A node's answer to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The node.
    pub member: MemberId,
    /// The order.
    pub serial: u64,
    /// What came of it.
    pub outcome: Answer<Outcome>,
}

/// A metadata partition as the source of orders.
pub trait OrderApi: Send + Sync {
    /// What a node has to do beside its effects: completes when there is something, at least once each. An error means that
    /// the member is gone.
    fn orders(&self, member: MemberId) -> Job<'_, Answer<Vec<Order>>>;
    /// Answers an order. One that is not waited for any more is passed over.
    fn report<'a>(&'a self, report: &'a Report) -> Job<'a, Answer<()>>;
}
