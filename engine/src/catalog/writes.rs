//! The writes of a partition whose tickets are out: open ones, and those that were given up and wait for their fence.

use super::fleet::ReplicaRecord;
use crate::{Row, write::Write};
use std::collections::BTreeMap;
use ziggurat_base::{Code, Crc32, Error, MemberId, Ticket, Timestamp};

/// A write whose ticket is out.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) row: Row,
    pub(super) writer: MemberId,
    /// When it was granted or last renewed.
    pub(super) since: Timestamp,
    /// When it was granted.
    pub(super) started: Timestamp,
    pub(super) len: u64,
    pub(super) crc: Option<Crc32>,
    /// Replicas that were granted.
    pub(super) granted: u8,
    /// Empty once the object is readable: then its side record has them.
    pub(super) replicas: Vec<ReplicaRecord>,
}

/// A write that was given up and whose space waits for its fence.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) write: Write,
    pub(super) replicas: Vec<ReplicaRecord>,
}

/// Recently ended writes, so that a repeated `put_end` gets the same answer.
const RECENT: usize = 4096;

/// The open and closing writes of a partition.
#[derive(Debug)]
pub(super) struct Opens {
    pub(super) open: BTreeMap<Ticket, Open>,
    pub(super) by_row: BTreeMap<Row, Ticket>,
    pub(super) closing: BTreeMap<Ticket, Closing>,
    /// The write that the search for old ones looked at last.
    pub(super) swept: Ticket,
    recent: Box<[(Ticket, Row)]>,
}

impl Default for Opens {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            by_row: BTreeMap::new(),
            closing: BTreeMap::new(),
            swept: Ticket::NONE,
            recent: vec![(Ticket::NONE, Row(0)); RECENT].into_boxed_slice(),
        }
    }
}

impl Opens {
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.open.len() as u64, self.closing.len() as u64)
    }

    pub(super) fn recent(&mut self, ticket: Ticket) -> &mut (Ticket, Row) {
        &mut self.recent[ticket.serial() as usize % RECENT]
    }
}

/// A write that cannot be reported on any more.
pub(super) fn not_open(ticket: Ticket) -> Error {
    Error::new(
        Code::InvalidWrite,
        format!("write {ticket} is not open: it was ended, given up or pre-empted"),
    )
}
