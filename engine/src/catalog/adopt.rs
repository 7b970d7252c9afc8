//! Adoption: which versions that an owner says it holds become replicas.
//!
//! The same version as the readable one becomes its replica. Another version of a key that is readable or being written is
//! refused. A key that is not there is adopted, unless the directory must not bring the version back. Whatever is refused is
//! a debt of the directory until its owner has forgotten it.

use super::{Catalog, feed::Retirement, fleet::ReplicaRecord, table::Probe};
use crate::{
    Row,
    canary::{Canary, planted},
    lease::LeaseFields,
    ledger::{Holding, Verdict, Version},
    replica::Replica,
};
use ziggurat_base::Timestamp;

/// From the first term of an adopted version to that of the next one: odd, so that all 65,536 come before one comes again,
/// and large, so that a version whose leases begin anew now and then does not run into those of the next.
const TERM_STRIDE: u16 = 0x9e37;

impl Catalog {
    pub(super) fn adopt(&mut self, now: Timestamp, slot: u16, holding: &Holding) -> Verdict {
        let version = &holding.version;
        let here = self.fleet.slot(slot);
        if here.is_shared() {
            return self.adopt_record(now, slot, holding);
        }
        let Some(directory) = here.directory() else {
            return self.adopt_memory(now, slot, holding);
        };
        if self.adopt_owned(now, slot, holding) {
            self.stats.adopted += 1;
            return Verdict::Taken;
        }
        self.stats.discarded += 1;
        self.directories.owe(directory, version.ticket);
        self.push_discard(slot, version.ticket);
        Verdict::Discard
    }

    fn adopt_owned(&mut self, now: Timestamp, slot: u16, holding: &Holding) -> bool {
        let version = &holding.version;
        let directory = self.fleet.slot(slot).directory().expect("an owned segment");
        if holding.placement.is_some()
            || version.ticket > self.newest_ticket()
            || self.directories.owes(directory, version.ticket)
        {
            return false;
        }
        let Ok(tenant) = self.tenant(&version.tenant) else {
            return false;
        };
        let probe = Probe::new(tenant, version.key.as_key());
        if let Some(row) = self.table.find(probe) {
            return self.join_row(row, slot, holding);
        }
        let digest = self.digest(tenant, version.key.as_key());
        if self.directories.refuses(directory, digest, version.ticket) {
            return false;
        }
        self.make_row(now, probe, slot, holding)
    }

    /// Adds a replica to a row when it has this very version.
    fn join_row(&mut self, row: Row, slot: u16, holding: &Holding) -> bool {
        let head = self.table.head(row);
        let same = head.readable() && head.ticket == holding.version.ticket;
        let same = same && (head.len, head.crc) == (holding.len, holding.crc);
        let is_believed = head.readable() && planted(Canary::ForeignTicketAdopted);
        if !(same || is_believed) {
            return false;
        }
        let here = &self.fleet.slot(slot).ledger.old;
        let known = |r: &ReplicaRecord| r.slot == slot || here.contains(&r.slot);
        let before = self.records(row).iter().find(|r| known(r)).cloned();
        let new = ReplicaRecord::owned(slot, holding.len, holding.stored_len);
        self.fleet.take_owned(&new);
        match before {
            Some(before) => {
                self.replace_record(row, &before, new);
                self.fleet.let_go(&before);
            }
            None => self.add_record(row, new),
        }
        self.end_offload(row);
        true
    }

    fn make_row(&mut self, now: Timestamp, probe: Probe<'_>, slot: u16, holding: &Holding) -> bool {
        let Some(row) = self.table.insert(probe) else {
            return false;
        };
        let record = ReplicaRecord::owned(slot, holding.len, holding.stored_len);
        self.fleet.take_owned(&record);
        self.fill_row(now, row, holding, record);
        true
    }

    /// Makes a version readable that an owner holds, in a row without one.
    pub(super) fn fill_row(
        &mut self,
        now: Timestamp,
        row: Row,
        holding: &Holding,
        record: ReplicaRecord,
    ) {
        let tagged = self.tags.set(row, &holding.tags.as_tags());
        // The version may have had a row before, and readers who give back what they held of that one: no term comes again
        // soon.
        self.first_term = self.first_term.wrapping_add(TERM_STRIDE);
        let lease = LeaseFields {
            term: self.first_term,
            ..LeaseFields::default()
        };
        let head = self.table.head_mut(row);
        head.set_lease(lease);
        head.ticket = holding.version.ticket;
        head.len = holding.len;
        head.crc = holding.crc;
        head.used = now;
        head.set_tagged(tagged);
        self.set_records(row, vec![record]);
        self.stats.objects += 1;
    }

    /// The owner does not hold a version any more. That pays no debt: the version may be on its way there again.
    pub(super) fn drop_version(&mut self, now: Timestamp, slot: u16, version: &Version) {
        let Some(row) = self.row_of(version) else {
            return;
        };
        let old = &self.fleet.slot(slot).ledger.old;
        let mine = |r: &ReplicaRecord| r.slot == slot || old.contains(&r.slot);
        let records = self.records(row);
        let good = |r: &ReplicaRecord| r.state == Replica::Readable;
        if !records.iter().any(|r| mine(r) && good(r)) {
            return;
        }
        if records.iter().all(|r| mine(r) || !good(r)) {
            self.stats.dropped += 1;
            self.forget_policy(row);
            self.tell_retired(row, Retirement::LetGo, |_| true);
            self.retire(now, row);
            return;
        }
        let views: Vec<_> = old.iter().copied().chain([slot]).collect();
        let in_memory = self.in_memory(row);
        self.drop_replicas(now, row, |_, r| views.contains(&r.slot));
        self.note_memory(row, in_memory);
    }

    /// The row whose readable version is this one.
    pub(super) fn row_of(&self, version: &Version) -> Option<Row> {
        let tenant = *self.tenants.get(&*version.tenant)?;
        let row = self.table.find(Probe::new(tenant, version.key.as_key()))?;
        let head = self.table.head(row);
        (head.readable() && head.ticket == version.ticket).then_some(row)
    }
}
