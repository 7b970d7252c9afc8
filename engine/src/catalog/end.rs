//! Ending a write: what became of its replicas, and when its object becomes readable.

use super::{
    Catalog,
    fleet::ReplicaRecord,
    rows::Place,
    writes::{Open, not_open},
};
use crate::{
    Row,
    canary::{Canary, planted},
    command::{Answer, BATCH_MAX, PutDone, PutEnd, Written},
    replica::{Replica, ReplicaEvent},
    write::{Write, WriteEvent},
};
use ziggurat_base::{Code, Error, Ticket, Timestamp};

impl Catalog {
    /// Reports on writes.
    pub fn put_end(&mut self, now: Timestamp, ends: &[PutEnd]) -> Vec<Answer<PutDone>> {
        assert!(ends.len() <= BATCH_MAX, "the caller splits larger batches");
        let answers = ends.iter().map(|end| self.put_end_one(now, end)).collect();
        self.settle();
        answers
    }

    fn put_end_one(&mut self, now: Timestamp, end: &PutEnd) -> Answer<PutDone> {
        let Some(mut open) = self.opens.open.remove(&end.ticket) else {
            return self.put_end_late(end);
        };
        let checked = self.check_end(&open, end);
        if let Err(error) = checked {
            self.opens.open.insert(end.ticket, open);
            return Err(error);
        }
        if let Some(class) = self.failed_class(&open, &end.written) {
            self.opens.open.insert(end.ticket, open);
            self.stats.puts_revoked += 1;
            self.close(end.ticket, WriteEvent::Revoke);
            let what = format!("no replica of the object was written in {class}");
            return Err(Error::new(Code::WriteFail, what));
        }
        open.crc = Some(end.crc);
        let mut failed = Vec::new();
        let published = self.table.head(open.row).ticket == end.ticket;
        let before = self.extent_count(open.row);
        let in_memory = self.in_memory(open.row);
        let mut fresh = Vec::new();
        let records = match self.table.head(open.row).place() {
            Place::Side(side) if published => std::mem::take(self.sides.get_mut(side)),
            _ => std::mem::take(&mut open.replicas),
        };
        let mut kept = Vec::with_capacity(records.len());
        for mut record in records {
            let result = match &end.written {
                Written::All => Some(true),
                Written::Each(list) => list[usize::from(record.position)],
            };
            if record.state == Replica::Writing && !self.fleet.slot(record.slot).serves() {
                self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
                continue;
            }
            match (record.state, result) {
                (Replica::Writing, Some(true)) => {
                    self.seen.must(&mut record.state, ReplicaEvent::Commit);
                    fresh.push(record.slot);
                }
                (Replica::Writing, Some(false)) => {
                    failed.push(record);
                    continue;
                }
                _ => {}
            }
            kept.push(record);
        }
        let row = open.row;
        let answer = self.settle_write(now, end.ticket, open, kept, failed, published);
        if answer.is_ok() {
            self.recount_extents(row, before);
            if !fresh.is_empty() {
                self.note_memory(row, in_memory);
                self.note_shared(row);
                self.tell_committed(row, |record| fresh.contains(&record.slot));
                self.expect_offload(now, row);
            }
        }
        answer
    }

    /// The kind of space in which all replicas of an unpublished write have failed: each kind that was asked for needs a good
    /// one.
    fn failed_class(&self, open: &Open, written: &Written) -> Option<&'static str> {
        let Written::Each(list) = written else {
            return None;
        };
        let is_failed = |shared: bool| {
            let mut class = open
                .replicas
                .iter()
                .filter(|r| self.fleet.slot(r.slot).is_shared() == shared)
                .peekable();
            class.peek().is_some() && class.all(|r| list[usize::from(r.position)] == Some(false))
        };
        match (is_failed(false), is_failed(true)) {
            (true, _) => Some("memory"),
            (_, true) => Some("a shard file"),
            _ => None,
        }
    }

    fn check_end(&self, open: &Open, end: &PutEnd) -> Answer<()> {
        if open.crc.is_some_and(|crc| crc != end.crc) {
            return Err(Error::new(
                Code::ChecksumMismatch,
                "two reports on one write give different sums",
            ));
        }
        let count = usize::from(open.granted);
        match &end.written {
            Written::Each(list) if list.len() != count => Err(Error::new(
                Code::InvalidParams,
                format!("{} results for {count} replicas", list.len()),
            )),
            _ => Ok(()),
        }
    }

    /// Publishes what is good, keeps waiting for what is not known, gives up what failed.
    fn settle_write(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        open: Open,
        kept: Vec<ReplicaRecord>,
        failed: Vec<ReplicaRecord>,
        published: bool,
    ) -> Answer<PutDone> {
        let row = open.row;
        let readable = kept.iter().filter(|r| r.state == Replica::Readable).count();
        let waiting = kept.iter().any(|r| r.state == Replica::Writing);
        let mut write = Write::Open;
        if readable == 0 && !waiting {
            // Nothing good can come any more: the write ends as if its writer had given it up.
            self.opens.open.insert(
                ticket,
                Open {
                    replicas: failed,
                    ..open
                },
            );
            self.stats.puts_revoked += 1;
            self.close(ticket, WriteEvent::Revoke);
            return Err(Error::new(
                Code::WriteFail,
                "no replica of the object was written",
            ));
        }
        self.give_up(ticket, failed, WriteEvent::Revoke);
        if readable == 0 {
            self.opens.open.insert(
                ticket,
                Open {
                    replicas: kept,
                    ..open
                },
            );
            return Ok(PutDone { replicas: 0 });
        }
        self.publish(now, ticket, &open, kept, published);
        if waiting {
            self.opens.open.insert(
                ticket,
                Open {
                    replicas: Vec::new(),
                    ..open
                },
            );
        } else {
            self.seen.must(&mut write, WriteEvent::End);
            self.opens.by_row.remove(&row);
            self.table.head_mut(row).set_writing(false);
            *self.opens.recent(ticket) = (ticket, row);
        }
        Ok(PutDone {
            replicas: readable as u32,
        })
    }

    fn publish(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        open: &Open,
        replicas: Vec<ReplicaRecord>,
        published: bool,
    ) {
        let row = open.row;
        if published && let Place::Side(side) = self.table.head(row).place() {
            *self.sides.get_mut(side) = replicas;
            return;
        }
        let place = self.place_of(replicas);
        let head = self.table.head_mut(row);
        head.set_place(place);
        head.ticket = ticket;
        head.len = open.len;
        head.crc = open.crc.expect("a write is published with its sum");
        head.used = now;
        self.stats.puts_ended += 1;
        self.stats.objects += 1;
        self.bury_row(row, Ticket(ticket.0 - 1));
    }

    /// Takes the extents of a row into the count, of which `before` are in it.
    pub(super) fn recount_extents(&mut self, row: Row, before: u64) {
        self.stats.extents = self.stats.extents - before + self.extent_count(row);
    }

    /// Extents of the readable version of a row that the partition has allocated.
    pub(super) fn extent_count(&self, row: Row) -> u64 {
        let allocated = |slot: u16| !self.fleet.slot(slot).is_owned();
        match self.table.head(row).place() {
            Place::Nowhere => 0,
            Place::Inline { slot, .. } => u64::from(allocated(slot)),
            Place::Side(side) => {
                let records = self.sides.get(side).iter();
                let records = records.filter(|r| allocated(r.slot));
                records.map(|r| r.extents.as_slice().len() as u64).sum()
            }
        }
    }

    /// A report on a write that is not open: the repetition of the last one, or too late.
    fn put_end_late(&mut self, end: &PutEnd) -> Answer<PutDone> {
        let (ticket, row) = *self.opens.recent(end.ticket);
        if ticket == end.ticket
            && let Some(head) = self
                .table
                .rows
                .get(row)
                .filter(|head| head.ticket == ticket)
        {
            if head.crc != end.crc {
                return Err(Error::new(
                    Code::ChecksumMismatch,
                    "two reports on one write give different sums",
                ));
            }
            let replicas = self
                .readable_targets(row)
                .map_or(0, |t| t.as_slice().len() as u32);
            return Ok(PutDone { replicas });
        }
        if let Some(closing) = self.opens.closing.get_mut(&end.ticket) {
            if planted(Canary::LatePutEndAccepted) {
                let replicas = closing.replicas.len() as u32;
                return Ok(PutDone { replicas });
            }
            let refused = self.seen.step(&mut closing.write, WriteEvent::End);
            debug_assert!(refused.is_err(), "a closing write cannot end");
            for record in &mut closing.replicas {
                let refused = self.seen.step(&mut record.state, ReplicaEvent::Commit);
                debug_assert!(refused.is_err(), "a given-up replica cannot be committed");
            }
        }
        Err(not_open(end.ticket))
    }
}
