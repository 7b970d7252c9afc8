//! Taking replicas away that nobody uses: whole objects, or what lies of them on one segment.

use super::{Catalog, feed::Retirement, get::Ahead};
use crate::{
    Row,
    command::{Force, Keys},
    replica::Replica,
};
use ziggurat_base::Timestamp;

impl Catalog {
    /// Clears objects whose leases have ended and that are not being written; what is left alone is `false`. With the name
    /// of a segment only what lies on it goes, and the object with its last replica.
    pub fn clear(&mut self, now: Timestamp, keys: Keys<'_>, segment: Option<&str>) -> Vec<bool> {
        let slot = segment.map(|name| self.fleet.named(name));
        let mut cleared = Vec::with_capacity(keys.keys.len());
        self.for_each_row(keys, Ahead::Removal, |catalog, _, _, row| {
            cleared.push(match (row, slot) {
                (None, _) | (_, Some(None)) => false,
                (Some(row), None) => catalog.clear_row(now, row),
                (Some(row), Some(Some(slot))) => catalog.clear_on(now, row, slot),
            });
        });
        self.settle();
        cleared
    }

    fn is_unused(&self, now: Timestamp, row: Row) -> bool {
        let head = self.table.head(row);
        self.serves(row) && !head.leased(now) && !head.writing()
    }

    fn clear_row(&mut self, now: Timestamp, row: Row) -> bool {
        self.is_unused(now, row) && self.remove_row(now, row, Force::No).is_ok()
    }

    fn clear_on(&mut self, now: Timestamp, row: Row, slot: u16) -> bool {
        if !self.is_unused(now, row) {
            return false;
        }
        let records = self.records(row);
        let serves_elsewhere = |r: &super::ReplicaRecord| {
            r.slot != slot && r.state == Replica::Readable && self.fleet.slot(r.slot).serves()
        };
        if !records.iter().any(|r| r.slot == slot) {
            return false;
        }
        if !records.iter().any(serves_elsewhere) {
            return self.clear_row(now, row);
        }
        let in_memory = self.in_memory(row);
        match self.fleet.slot(slot).directory() {
            Some(_) if self.fleet.slot(slot).is_shared() => {}
            Some(directory) => {
                let ticket = self.table.head(row).ticket;
                self.directories.owe(directory, ticket);
                self.push_discard(slot, ticket);
            }
            None => self.tell_retired(row, Retirement::LetGo, |here| here == slot),
        }
        // Its lease has ended, so that its space is free at once.
        self.drop_replicas(now, row, |_, record| record.slot == slot);
        self.note_memory(row, in_memory);
        true
    }
}
