//! Giving a write up: by its writer, by another one, by time. Unfinished space is fenced, then free.

use super::{
    Catalog,
    fleet::ReplicaRecord,
    rows::Place,
    writes::{Closing, not_open},
};
use crate::{
    canary::{Canary, planted},
    command::{Answer, BATCH_MAX, Effect},
    replica::{Replica, ReplicaEvent},
    write::{Write, WriteEvent},
};
use ziggurat_base::{Error, MemberId, SegmentId, Ticket, Timestamp};

impl Catalog {
    /// Gives writes up at the wish of their writers.
    pub fn revoke(&mut self, tickets: &[Ticket]) -> Vec<Answer<()>> {
        assert!(
            tickets.len() <= BATCH_MAX,
            "the caller splits larger batches"
        );
        let revoke = |ticket: &Ticket| {
            if !self.opens.open.contains_key(ticket) {
                return Err(self.refuse_closing(*ticket, WriteEvent::Revoke));
            }
            self.stats.puts_revoked += 1;
            self.close(*ticket, WriteEvent::Revoke);
            Ok(())
        };
        let answers = tickets.iter().map(revoke).collect();
        self.settle();
        answers
    }

    fn refuse_closing(&mut self, ticket: Ticket, event: WriteEvent) -> Error {
        if let Some(closing) = self.opens.closing.get_mut(&ticket) {
            let refused = self.seen.step(&mut closing.write, event);
            debug_assert!(
                refused.is_err(),
                "a closing write takes no orders from its writer"
            );
        }
        not_open(ticket)
    }

    /// Gives writers more time.
    pub fn renew(&mut self, now: Timestamp, tickets: &[Ticket]) -> Vec<Answer<()>> {
        assert!(
            tickets.len() <= BATCH_MAX,
            "the caller splits larger batches"
        );
        let renew = |ticket: &Ticket| match self.opens.open.get_mut(ticket) {
            Some(open) => {
                open.since = now;
                Ok(())
            }
            None => Err(not_open(*ticket)),
        };
        tickets.iter().map(renew).collect()
    }

    /// Ends an open write without a result: what is unfinished is fenced, then freed.
    pub(super) fn close(&mut self, ticket: Ticket, event: WriteEvent) {
        let mut open = self
            .opens
            .open
            .remove(&ticket)
            .expect("only an open write is closed");
        self.opens.by_row.remove(&open.row);
        self.table.head_mut(open.row).set_writing(false);
        let mut unfinished = std::mem::take(&mut open.replicas);
        if let Place::Side(side) = self.table.head(open.row).place() {
            let before = self.extent_count(open.row);
            let records = self.sides.get_mut(side);
            unfinished.extend(records.extract_if(.., |r| r.state == Replica::Writing));
            self.recount_extents(open.row, before);
        }
        self.give_up(ticket, unfinished, event);
        if !self.table.head(open.row).readable() {
            self.drop_row(open.row);
        }
    }

    /// Fences unfinished replicas; their space is held until the owner has acknowledged.
    pub(super) fn give_up(
        &mut self,
        ticket: Ticket,
        replicas: Vec<ReplicaRecord>,
        event: WriteEvent,
    ) {
        let mut write = Write::Open;
        let mut fencing = Vec::with_capacity(replicas.len());
        for mut record in replicas {
            if !self.fleet.slot(record.slot).serves() {
                self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
                continue;
            }
            self.seen.must(&mut record.state, ReplicaEvent::Abandon);
            if self.fleet.slot(record.slot).is_shared() {
                self.lay_out(Timestamp::ZERO, ticket, record);
                continue;
            }
            let target = self.fleet.target(&record);
            if planted(Canary::SpaceReusedEarly) {
                self.fleet
                    .free(record, ReplicaEvent::Fenced, &mut self.seen);
                continue;
            }
            self.effects.push(Effect::Fence {
                member: target.member,
                ticket,
                placement: target.placement,
            });
            fencing.push(record);
        }
        if fencing.is_empty() {
            return;
        }
        if let Some(closing) = self.opens.closing.get_mut(&ticket) {
            closing.replicas.extend(fencing);
            return;
        }
        self.seen.must(&mut write, event);
        self.opens.closing.insert(
            ticket,
            Closing {
                write,
                replicas: fencing,
            },
        );
    }

    /// The owner refuses a ticket from now on: its space is free. Repetitions change nothing.
    pub fn fenced(&mut self, member: MemberId, ticket: Ticket, segment: SegmentId) {
        let owned = self
            .fleet
            .find(segment)
            .filter(|slot| self.fleet.slot(*slot).member == member);
        if let (Some(slot), Some(closing)) = (owned, self.opens.closing.get_mut(&ticket)) {
            let done: Vec<_> = closing
                .replicas
                .extract_if(.., |r| r.slot == slot)
                .collect();
            self.settle_closing(ticket, done, ReplicaEvent::Fenced);
        }
        self.settle();
    }

    /// Frees replicas that were taken out of a closing write, and the write itself when they were its last.
    pub(super) fn settle_closing(
        &mut self,
        ticket: Ticket,
        done: Vec<ReplicaRecord>,
        event: ReplicaEvent,
    ) {
        for record in done {
            self.fleet.free(record, event, &mut self.seen);
        }
        if let Some(mut closing) = self.opens.closing.remove(&ticket) {
            if closing.replicas.is_empty() {
                self.seen.must(&mut closing.write, WriteEvent::Settle);
            } else {
                self.opens.closing.insert(ticket, closing);
            }
        }
    }

    /// What a member has to fence, to forget and to discard, whether it was told or not: for a member whose stream broke.
    #[must_use]
    pub fn debts(&self, member: MemberId) -> Vec<Effect> {
        let mut debts = self.unforgotten(member);
        debts.extend(self.copies_of(member));
        let closing = self.opens.closing.iter();
        let records = closing
            .flat_map(|(ticket, c)| c.replicas.iter().map(|r| (*ticket, self.fleet.target(r))));
        let fences = records
            .filter(|(_, target)| target.member == member)
            .map(|(ticket, t)| Effect::Fence {
                member,
                ticket,
                placement: t.placement,
            });
        debts.extend(fences);
        debts
    }
}
