//! What is true of a partition after every call. Cited by number in asserts, tests and docs.
//!
//! * **I1** Extents held by replicas of any state are disjoint within their segment and lie inside it.
//! * **I2** Of each segment that serves, free space plus the footprints of what is held is its capacity.
//! * **I3** Space is held by exactly one record: readable, being written, waiting for a fence, or cooling.
//! * **I4** A key leads to the row that has it, and every row in use is found by its key.
//! * **I5** A row in use has a readable version, or an open write, or both.
//! * **I6** The policy is told of every readable version with a replica in memory, and of nothing else: it has as many rows
//!   as there are such objects (a row that it does not know, or knows already, it refuses by itself).
//! * **I7** Tickets are unique; every ticket in use is at most the newest one issued.
//! * **I8** An open write and its row name each other.
//! * **I9** A leased object is not evicted (asserted where it would happen).
//! * **I10** Counters agree with what is counted: objects, extents, used bytes, references.
//! * **I11**, **I12** belong to the shelf: a lower or fenced ticket never writes; a read of another version is refused.
//! * **I13** One call takes at most `STEPS_MAX` steps beyond its batch.
//! * **I14** A replica on a segment that its owner allocates is readable, and the bytes stored there are the sum of theirs.
//! * **I15** What waits for its owner to take it over is marked so, and readable; nothing else is.
//! * **I16** A version that a directory owes is not readable from it.
//! * **I17** A copy on its way into memory is one of the readable version of a row that is marked, of which nothing is readable
//!   in memory, and its replica is being written; no other row is marked.
//! * **I18** The policy of shard files is told of every readable version with a replica in one, and of nothing else; what is
//!   leaving them is counted in bytes.

use super::{
    Catalog, ReplicaRecord,
    rows::{Head, Place},
    table::Probe,
};
use crate::{Row, replica::Replica};
use std::collections::BTreeMap;
use ziggurat_base::Extent;

impl Catalog {
    /// Checks every invariant; takes time in proportion to the number of objects.
    ///
    /// # Panics
    /// When one is broken, naming it.
    pub fn check(&self) {
        let held = self.check_rows();
        self.check_writes();
        self.check_offloads();
        self.check_copies();
        self.check_space(held);
    }

    /// I4 to I8; returns the replica records of all rows.
    fn check_rows(&self) -> Vec<ReplicaRecord> {
        let mut held = Vec::new();
        let (mut rows, mut objects, mut extents, mut tagged) = (0, 0, 0, 0);
        let (mut in_memory, mut in_shards) = (0, 0);
        for number in 0..self.table.rows.end() {
            let row = Row(number);
            let Some(head) = self.table.rows.get(row) else {
                continue;
            };
            rows += 1;
            tagged += usize::from(head.tagged());
            let probe = Probe::new(head.tenant, self.table.rows.key(row));
            assert_eq!(
                self.table.find(probe),
                Some(row),
                "I4: a row is found by its key"
            );
            assert!(
                head.readable() || head.writing(),
                "I5: row {row:?} has neither version nor write"
            );
            assert_eq!(
                head.writing(),
                self.opens.by_row.contains_key(&row),
                "I8: {row:?}"
            );
            assert!(head.ticket <= self.newest_ticket(), "I7: {}", head.ticket);
            extents += self.extent_count(row);
            match head.place() {
                Place::Nowhere => continue,
                Place::Inline { .. } | Place::Side(_) => {
                    let records = self.records(row);
                    let whole = |r: &ReplicaRecord| {
                        let held = r.extents.len().0;
                        held == head.len || (held > head.len && self.fleet.slot(r.slot).is_shared())
                    };
                    assert!(
                        !records.is_empty() && records.iter().all(whole),
                        "I3: {records:?}"
                    );
                    self.check_owners(head, &records);
                    held.extend_from_slice(&records);
                }
            }
            let in_shard = |r: &ReplicaRecord| {
                r.state == Replica::Readable && self.fleet.slot(r.slot).is_shared()
            };
            let is_in_shard = self.records(row).iter().any(in_shard);
            assert_eq!(is_in_shard, head.in_shard(), "I18: row {row:?}");
            objects += 1;
            in_shards += u64::from(is_in_shard);
            in_memory += u64::from(self.in_memory(row));
        }
        assert_eq!(rows, self.table.rows.count(), "I10: rows");
        assert_eq!(tagged, self.tags.count(), "I10: tags");
        assert_eq!(
            self.policy.len(),
            in_memory,
            "I6: rows of the policy and readable versions in memory"
        );
        assert_eq!(self.shared.objects(), in_shards, "I18: rows of the policy");
        assert_eq!(
            (objects, extents),
            (self.stats.objects, self.stats.extents),
            "I10: objects and extents"
        );
        held
    }

    /// I14 and I16 for one row.
    fn check_owners(&self, head: &Head, records: &[ReplicaRecord]) {
        for record in records {
            let slot = self.fleet.slot(record.slot);
            let Some(directory) = slot.directory() else {
                continue;
            };
            assert!(
                record.state == Replica::Readable || slot.is_shared(),
                "I14: {record:?}"
            );
            let mut debts = self.directories.debts(directory);
            assert!(
                !self.fleet.slot(record.slot).serves() || debts.all(|t| t != head.ticket),
                "I16: {} of {directory}",
                head.ticket
            );
        }
    }

    /// I15.
    fn check_offloads(&self) {
        let mut bytes = 0;
        for (row, waiting) in self.offloads.rows() {
            let head = self.table.rows.get(row);
            let marked = head.is_some_and(|h| h.offloading() && h.readable());
            assert!(marked, "I15: row {row:?} waits without a mark");
            bytes += waiting;
        }
        assert_eq!(bytes, self.offloads.bytes, "I15: bytes that wait");
        let marked = (0..self.table.rows.end())
            .filter_map(|row| self.table.rows.get(Row(row)))
            .filter(|head| head.offloading());
        assert_eq!(marked.count() as u64, self.offloads.count(), "I15: marks");
    }

    /// I17.
    fn check_copies(&self) {
        for (row, version, record) in self.copies.rows() {
            let head = self.table.rows.get(row);
            let is_good = head.is_some_and(|h| h.copying() && h.readable() && h.ticket == version);
            assert!(is_good, "I17: {version} of row {row:?} is copied");
            assert!(!self.in_memory(row), "I17: {version} is in memory");
            assert_eq!(record.state, Replica::Writing, "I17: {version}");
        }
        let marked = (0..self.table.rows.end())
            .filter_map(|row| self.table.rows.get(Row(row)))
            .filter(|head| head.copying());
        assert_eq!(marked.count() as u64, self.copies.count(), "I17: marks");
    }

    fn check_writes(&self) {
        assert_eq!(
            self.opens.open.len(),
            self.opens.by_row.len(),
            "I8: writes and their rows"
        );
        for (ticket, open) in &self.opens.open {
            assert_eq!(
                self.opens.by_row.get(&open.row),
                Some(ticket),
                "I8: write {ticket}"
            );
            assert!(*ticket <= self.newest_ticket(), "I7: {ticket}");
            let states = open.replicas.iter().all(|r| r.state == Replica::Writing);
            assert!(states, "I3: write {ticket} keeps {:?}", open.replicas);
        }
        for (ticket, closing) in &self.opens.closing {
            let fencing = closing.replicas.iter().all(|r| r.state == Replica::Fencing);
            assert!(
                fencing && !closing.replicas.is_empty(),
                "I3: closing {ticket} keeps {:?}",
                closing.replicas
            );
        }
    }

    /// I1 to I3 and I10 for space.
    fn check_space(&self, rows: Vec<ReplicaRecord>) {
        let open = self.opens.open.values().flat_map(|o| &o.replicas);
        let closing = self.opens.closing.values().flat_map(|c| &c.replicas);
        let cooling = self.cooling.records.values().flatten();
        let copies = self.copies.rows().map(|(_, _, record)| record);
        let mut by_slot: BTreeMap<u16, Vec<Extent>> = BTreeMap::new();
        let mut references: BTreeMap<u16, u64> = BTreeMap::new();
        let mut stored: BTreeMap<u16, u64> = BTreeMap::new();
        let unfinished = open.chain(closing).chain(copies);
        let leaving = self.shared.records();
        for record in rows.iter().chain(unfinished).chain(cooling).chain(leaving) {
            *references.entry(record.slot).or_default() += 1;
            if self.fleet.slot(record.slot).is_owned() {
                *stored.entry(record.slot).or_default() += record.stored;
                continue;
            }
            let extents = record
                .extents
                .as_slice()
                .iter()
                .chain(&record.check)
                .filter(|e| e.len > 0);
            by_slot.entry(record.slot).or_default().extend(extents);
        }
        for (slot, here) in self.fleet.slots() {
            assert_eq!(
                references.get(&slot).copied().unwrap_or(0),
                here.references,
                "I10: references of {}",
                here.id
            );
            let bytes = stored.get(&slot).copied().unwrap_or(0);
            assert_eq!(bytes, here.stored, "I14: bytes stored in {}", here.id);
        }
        self.check_extents(by_slot);
    }

    /// I1, I2, I10 and I18 for what is held on each slot.
    fn check_extents(&self, mut by_slot: BTreeMap<u16, Vec<Extent>>) {
        let (mut used_in_all, mut in_shards) = (0, 0);
        for (slot, here) in self.fleet.slots().filter(|(_, slot)| slot.serves()) {
            let mut extents = by_slot.remove(&slot).unwrap_or_default();
            extents.sort_by_key(|e| e.offset);
            for pair in extents.windows(2) {
                assert!(
                    !pair[0].overlaps(pair[1]),
                    "I1: {pair:?} overlap in {}",
                    here.id
                );
            }
            assert!(
                extents
                    .last()
                    .is_none_or(|e| e.end() <= here.space.capacity()),
                "I1: {extents:?} leave {}",
                here.id
            );
            let used: u64 = extents.iter().map(|e| here.space.footprint(e.len)).sum();
            assert_eq!(
                used + here.space.free(),
                here.space.capacity(),
                "I2: {}",
                here.id
            );
            match here.is_shared() {
                true => in_shards += used,
                false => used_in_all += used,
            }
        }
        assert_eq!(used_in_all, self.fleet.used, "I10: used bytes");
        assert_eq!(
            in_shards, self.fleet.shared_used,
            "I10: used bytes of shards"
        );
        let leaving = self
            .shared
            .records()
            .map(|r| r.extents.len().0)
            .sum::<u64>();
        assert_eq!(
            leaving,
            self.shared.leaving_bytes(),
            "I18: bytes that leave"
        );
    }
}
