//! The replicas of the readable version of a row, wherever they are kept: in the row itself or in a side record.
//!
//! Replicas in memory come before those that owners keep, so that readers find the faster ones first.

use super::{Catalog, fleet::ReplicaRecord, rows::Place};
use crate::{Row, replica::Replica};
use std::borrow::Cow;
use ziggurat_base::{ByteCount, Extents, Timestamp};

impl Catalog {
    /// All of them, whatever their state.
    pub(super) fn records(&self, row: Row) -> Cow<'_, [ReplicaRecord]> {
        let head = self.table.head(row);
        match head.place() {
            Place::Nowhere => Cow::Borrowed(&[]),
            Place::Inline { slot, offset } => {
                Cow::Owned(vec![self.fleet.inline(slot, offset, head.len)])
            }
            Place::Side(side) => Cow::Borrowed(self.sides.get(side)),
        }
    }

    /// Where records are kept: in the row when there is one readable replica in one piece without a chunk table.
    pub(super) fn place_of(&mut self, records: Vec<ReplicaRecord>) -> Place {
        if let [only] = records.as_slice()
            && only.check.is_none()
            && only.state == Replica::Readable
            && let Extents::One(extent) = only.extents
            && !self.fleet.slot(only.slot).is_shared()
        {
            let offset = match self.fleet.slot(only.slot).is_owned() {
                true => only.stored,
                false => extent.offset,
            };
            return Place::Inline {
                slot: only.slot,
                offset,
            };
        }
        Place::Side(self.sides.insert(records))
    }

    /// Replaces the records of a row; there is at least one.
    pub(super) fn set_records(&mut self, row: Row, records: Vec<ReplicaRecord>) {
        assert!(!records.is_empty(), "a readable version has a replica");
        let before = self.extent_count(row);
        if let Place::Side(side) = self.table.head(row).place() {
            self.sides.remove(side);
        }
        let place = self.place_of(records);
        self.table.head_mut(row).set_place(place);
        self.recount_extents(row, before);
    }

    /// Adds a record that an owner keeps.
    pub(super) fn add_record(&mut self, row: Row, record: ReplicaRecord) {
        let mut records = self.records(row).into_owned();
        records.push(record);
        self.set_records(row, records);
    }

    /// Adds a record of a replica in memory, before those that owners keep.
    pub(super) fn add_memory_record(&mut self, row: Row, record: ReplicaRecord) {
        let mut records = self.records(row).into_owned();
        records.insert(0, record);
        self.set_records(row, records);
    }

    /// Puts a record in the place of another one.
    pub(super) fn replace_record(&mut self, row: Row, old: &ReplicaRecord, new: ReplicaRecord) {
        let mut records = self.records(row).into_owned();
        let here = records.iter_mut().find(|r| r.slot == old.slot);
        *here.expect("a row has the record that was found in it") = new;
        self.set_records(row, records);
    }

    /// Whether a replica lies in memory: then the eviction policy knows of the row.
    pub(super) fn in_memory(&self, row: Row) -> bool {
        let in_memory = |slot: u16| self.fleet.slot(slot).is_memory();
        match self.table.head(row).place() {
            Place::Nowhere => false,
            Place::Inline { slot, .. } => in_memory(slot),
            Place::Side(side) => {
                let mut records = self.sides.get(side).iter();
                records.any(|r| r.state == Replica::Readable && in_memory(r.slot))
            }
        }
    }

    /// Bytes of memory that its readable replicas take.
    pub(super) fn memory_of(&self, row: Row) -> u64 {
        let len = self.table.head(row).len;
        let records = self.records(row);
        let readable = records.iter().filter(|r| r.state == Replica::Readable);
        readable
            .filter(|r| self.fleet.slot(r.slot).is_memory())
            .map(|r| self.fleet.footprint(r.slot, len))
            .sum()
    }

    /// The policy learns of a row that had replicas in memory before, or had not.
    pub(super) fn note_memory(&mut self, row: Row, before: bool) {
        match (before, self.in_memory(row)) {
            (true, false) => self.policy.remove(row),
            (false, true) => {
                let held = ByteCount(self.memory_of(row).max(1));
                let hash = self.table.head(row).hash;
                self.policy.insert(row, hash, held);
            }
            _ => {}
        }
    }

    /// Ends the readable replicas that `which` names; others stay. Space that a reader may still use cools. The caller tells
    /// the policy.
    pub(super) fn drop_replicas(
        &mut self,
        now: Timestamp,
        row: Row,
        which: impl Fn(&Self, &ReplicaRecord) -> bool,
    ) {
        let records = self.records(row).into_owned();
        let named = |r: &ReplicaRecord| r.state == Replica::Readable && which(self, r);
        let (gone, kept): (Vec<_>, Vec<_>) = records.into_iter().partition(named);
        let (until, ticket) = (
            self.table.head(row).lease().until,
            self.table.head(row).ticket,
        );
        self.set_records(row, kept);
        self.note_shared(row);
        let retire = |record| self.retire_record(now, until, ticket, record);
        let cooling: Vec<_> = gone.into_iter().filter_map(retire).collect();
        if !cooling.is_empty() {
            self.keep_cool(until, cooling);
        }
    }
}
