//! Memory that outlives the partition: what its owner offers again to the next life of it.
//!
//! A partition that begins expects such offers for as long as an owner that its predecessor knew may still make one: an
//! owner gives its memory up when it has been silent for nearly the time to live, and a partition forgets an owner only after
//! all of it. So whatever an earlier life has promised of a key while it did not know an owner any more, that owner says
//! nothing against it.
//!
//! All memory together counts as one directory that is away meanwhile ([`MEMORY`]): its debts name removed versions whose
//! owners have not acknowledged that, and debts of keys cover what is removed or put before everybody has told what it
//! holds. Without anybody who keeps records, a removal is answered when its owners have acknowledged it ([`Retiring`]):
//! then there is nothing to remember.

use super::{
    Catalog,
    directories::{MEMORY, Snapshot},
    fleet::ReplicaRecord,
    table::Probe,
};
use crate::{
    Row,
    canary::{Canary, planted},
    command::Stock,
    ledger::{Holding, Verdict},
    replica::{Replica, ReplicaEvent},
    write::WriteEvent,
};
use ziggurat_base::{Placement, SegmentId, Ticket, Timestamp, hash::key_digest};

/// A version that its owner has been told to be retired and has not forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retiring {
    /// In whose memory it lies.
    pub segment: SegmentId,
    /// The version.
    pub ticket: Ticket,
}

impl Catalog {
    /// Expects owners of an earlier life of the partition to offer their memory. To be called once, after
    /// [`Catalog::absorb`], by whoever serves owners in other processes.
    pub fn expect_memory(&mut self, now: Timestamp) {
        self.memory_until = Some(now.after(self.config.member_ttl));
        self.directories.expect_memory();
    }

    /// Whether memory of an earlier life may still come.
    pub(super) fn expects_memory(&self) -> bool {
        self.memory_until.is_some()
    }

    /// Nobody who could still offer its memory is left, and nobody is in the middle of telling what is in it: what is removed
    /// or put until then must be remembered by key, for the next life may be offered it.
    pub(super) fn end_expecting(&mut self, now: Timestamp) {
        let is_over = self.memory_until.is_some_and(|until| until <= now);
        if is_over && !self.fleet.is_any_offering() {
            self.memory_until = None;
            self.directories.settled(MEMORY, Snapshot::First);
        }
    }

    /// What has to be acknowledged before the answer of the last call leaves, when nobody keeps records.
    pub fn take_waits(&mut self) -> Vec<Retiring> {
        self.feed.take_waits()
    }

    /// Whether the owner of a version has yet to acknowledge that it is retired.
    #[must_use]
    pub fn is_retiring(&self, retiring: &Retiring) -> bool {
        let slot = self.fleet.find(retiring.segment);
        slot.is_some_and(|slot| {
            let here = self.fleet.slot(slot);
            here.retired.contains_key(&retiring.ticket)
        })
    }

    /// Judges what lies in delegated space. A holding is named only in the first snapshot; in later ones it is known.
    pub(super) fn adopt_memory(&mut self, now: Timestamp, slot: u16, holding: &Holding) -> Verdict {
        let Some(placement) = &holding.placement else {
            return Verdict::Discard;
        };
        if self.is_known(slot, holding, placement) {
            return Verdict::Taken;
        }
        let taken = self.restore(now, slot, holding, placement).is_some();
        match taken {
            true => self.stats.adopted += 1,
            false => self.stats.discarded += 1,
        }
        if taken {
            Verdict::Taken
        } else {
            Verdict::Discard
        }
    }

    fn is_known(&self, slot: u16, holding: &Holding, placement: &Placement) -> bool {
        let Some(row) = self.row_of(&holding.version) else {
            return false;
        };
        let here = |r: &ReplicaRecord| {
            r.slot == slot && r.state == Replica::Readable && r.extents == placement.extents
        };
        self.records(row).iter().any(here)
    }

    /// Makes a version readable where it lies; `None` when it is dead, or its space cannot be its own.
    fn restore(
        &mut self,
        now: Timestamp,
        slot: u16,
        holding: &Holding,
        placement: &Placement,
    ) -> Option<Row> {
        let version = &holding.version;
        let here = self.fleet.slot(slot);
        let is_offered = here.is_offering() && here.id == placement.segment;
        if !is_offered
            || !self.expects_memory()
            || version.ticket == Ticket::NONE
            || version.ticket > self.newest_ticket()
            || (self.directories.owes(MEMORY, version.ticket)
                && !planted(Canary::DeadMemoryAdopted))
        {
            return None;
        }
        let tenant = self.tenant(&version.tenant).ok()?;
        let probe = Probe::new(tenant, version.key.as_key());
        let known = self.table.find(probe);
        let is_dead = match known {
            Some(row) => {
                let head = self.table.head(row);
                let same = head.readable() && head.ticket == version.ticket;
                !same || (head.len, head.crc) != (holding.len, holding.crc)
            }
            None => {
                let digest = key_digest(&version.tenant, version.key.as_key());
                self.directories.refuses(MEMORY, digest, version.ticket)
                    && !planted(Canary::DeadMemoryAdopted)
            }
        };
        if is_dead {
            return None;
        }
        let record = self.fleet.restore(slot, holding.len, placement)?;
        let row = match known {
            Some(row) => {
                let in_memory = self.in_memory(row);
                self.add_memory_record(row, record);
                self.note_memory(row, in_memory);
                self.stop_copy(row, WriteEvent::Preempt);
                row
            }
            None => {
                let Some(row) = self.table.insert(probe) else {
                    self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
                    return None;
                };
                self.fill_row(now, row, holding, record);
                self.note_memory(row, false);
                row
            }
        };
        self.expect_offload(now, row);
        Some(row)
    }

    /// Whether what lies in memory on a slot may be offered to a later life of the partition.
    pub(super) fn outlives(&self, slot: u16) -> bool {
        let here = self.fleet.slot(slot);
        here.is_memory() && here.stock != Stock::Volatile
    }
}
