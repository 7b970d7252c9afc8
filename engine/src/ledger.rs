//! What the owner of space tells its partition of what it holds: an ordered stream for each segment.
//!
//! A stream begins with a snapshot in pages and goes on with numbered changes. An exact repetition of the last batch is
//! harmless; anything else that is out of order is refused with `LedgerOutOfOrder`, and the owner begins a new snapshot with
//! a higher generation. What the snapshot that is committed last did not name is not believed any more.

use crate::command::OwnedTags;
use std::sync::Arc;
use ziggurat_base::{Crc32, ObjectKey, Placement, Ticket};

/// One version that an owner holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which version.
    pub version: Version,
    /// Bytes of its payload.
    pub len: u64,
    /// Bytes that it takes at its owner; for delegated space its length.
    pub stored_len: u64,
    /// Sum of its payload.
    pub crc: Crc32,
    /// What the object is related to.
    pub tags: OwnedTags,
    /// Where it lies in delegated space; `None` where the owner finds it by its ticket.
    pub placement: Option<Placement>,
}

/// A version with the names that lead to it. Tenants go by name, for their numbers end with the partition's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The tenant's name.
    pub tenant: Arc<str>,
    /// The key.
    pub key: ObjectKey,
    /// The write that made it.
    pub ticket: Ticket,
}

/// One change of what an owner holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It holds this now, and can be read.
    Present(Holding),
    /// It does not hold this any more: evicted, or unreadable.
    Gone(Version),
    /// It will not take this version over from memory; the version may leave memory without it.
    Refused(Version),
    /// Acknowledges [`crate::command::Effect::Discard`], [`crate::command::Effect::Bury`] or
    /// [`crate::command::Effect::Retired`]: the owner does not hold the
    /// version in this segment, also not after a crash, and nothing under way will write it there. What came of a transfer
    /// of the version to another segment of the owner was told before.
    Forgotten(Ticket),
    /// In delegated space: the write of [`crate::command::Effect::Promote`] has copied its version whole and proved it. Taken
    /// when the version is readable from there now; otherwise the write is fenced, or was.
    Copied(Ticket),
    /// In delegated space: the write of [`crate::command::Effect::Promote`] will come to nothing.
    NotCopied(Ticket),
}

/// One batch of a segment's stream; at most [`crate::command::BATCH_MAX`] items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerBatch {
    /// A snapshot begins.
    Begin {
        /// Higher than any before it on this mount.
        generation: u64,
    },
    /// Some of what is held, in any order.
    Page {
        /// The snapshot.
        generation: u64,
        /// Counts from 0.
        number: u64,
        /// What is held.
        holdings: Vec<Holding>,
    },
    /// The snapshot is complete.
    Commit {
        /// The snapshot.
        generation: u64,
        /// The change after which the snapshot was begun: the next delta goes on from here.
        sequence: u64,
    },
    /// Changes in their order.
    Delta {
        /// The snapshot that they follow.
        generation: u64,
        /// The change before the first of them.
        after: u64,
        /// The changes.
        changes: Vec<Change>,
    },
}

/// What the partition makes of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is believed.
    Taken,
    /// The version is dead. The owner drops it when [`crate::command::Effect::Discard`] comes, which follows everything that
    /// it was told of the version before.
    Discard,
}

/// Answer to a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerReply {
    /// One for each holding or change, by position. Only what is present or copied can be discarded.
    pub verdicts: Vec<Verdict>,
    /// In the answer to the beginning of a snapshot: nothing is allocated in the segment before it is committed.
    pub is_first: bool,
}
