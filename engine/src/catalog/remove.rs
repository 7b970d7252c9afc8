//! Taking objects away: on request, with their segments, or to make room.

use super::{Catalog, feed::Retirement, fleet::ReplicaRecord, get::Ahead, rows::Place};
use crate::{
    Row,
    command::{Answer, Force, Keys},
    replica::ReplicaEvent,
    write::WriteEvent,
};
use ziggurat_base::{Code, Error, Ticket, Timestamp};

/// The replicas of a version that was taken out of its row.
enum Taken {
    Nothing,
    One(ReplicaRecord),
    Many(Vec<ReplicaRecord>),
}

impl Catalog {
    /// Removes objects.
    pub fn remove(&mut self, now: Timestamp, keys: Keys<'_>, force: Force) -> Vec<Answer<()>> {
        let mut answers = Vec::with_capacity(keys.keys.len());
        self.for_each_row(keys, Ahead::Removal, |catalog, _, probe, row| {
            let answer = match row {
                Some(row) => catalog.remove_row(now, row, force),
                None => {
                    catalog.bury(probe.tenant, probe.key, catalog.newest_ticket());
                    Err(Code::ObjectNotFound.into())
                }
            };
            answers.push(answer);
        });
        self.settle();
        answers
    }

    pub(super) fn remove_row(&mut self, now: Timestamp, row: Row, force: Force) -> Answer<()> {
        let head = self.table.head(row);
        if !self.serves(row) {
            if head.readable() {
                // The version is lost with its segments; what was still being written of it goes with it.
                self.bury_row(row, self.newest_ticket());
                self.lose(now, row);
                return Err(Code::ObjectNotFound.into());
            }
            if force == Force::Yes {
                self.bury_row(row, self.newest_ticket());
                self.preempt(row);
                self.stats.removed += 1;
                return Ok(());
            }
            return Err(Error::new(
                Code::ReplicaIsNotReady,
                "the object is being written",
            ));
        }
        if force == Force::No && head.leased(now) {
            let left = ziggurat_base::unit::human_span(head.lease().until.since(now));
            return Err(Error::new(
                Code::ObjectHasLease,
                format!("a reader holds the object for up to {left}"),
            ));
        }
        if head.writing() {
            self.preempt(row);
        }
        self.forget_policy(row);
        self.leave_debts(row);
        self.retire(now, row);
        self.stats.removed += 1;
        Ok(())
    }

    fn preempt(&mut self, row: Row) {
        let ticket = self.opens.by_row[&row];
        self.stats.puts_preempted += 1;
        self.close(ticket, WriteEvent::Preempt);
    }

    /// The policy forgets a row that it knows of.
    pub(super) fn forget_policy(&mut self, row: Row) {
        if self.in_memory(row) {
            self.policy.remove(row);
        }
    }

    /// Takes the readable version out of a row, and the row out of the table unless it is being written. Policy and owners
    /// have been told. Space that a reader may still use cools until its guard has ended.
    pub(super) fn retire(&mut self, now: Timestamp, row: Row) {
        let head = self.table.head(row);
        if head.writing()
            && let Some(ticket) = self
                .opens
                .by_row
                .get(&row)
                .copied()
                .filter(|ticket| *ticket == head.ticket)
        {
            // Replicas of this very version are still being written.
            self.close(ticket, WriteEvent::Expire);
        }
        let head = self.table.head(row);
        let (until, ticket) = (head.lease().until, head.ticket);
        match self.take_version(row) {
            Taken::Nothing => {}
            Taken::One(record) => {
                if let Some(record) = self.retire_record(now, until, ticket, record) {
                    self.keep_cool(until, vec![record]);
                }
            }
            Taken::Many(records) => {
                let retire = |record| self.retire_record(now, until, ticket, record);
                let kept: Vec<_> = records.into_iter().filter_map(retire).collect();
                if !kept.is_empty() {
                    self.keep_cool(until, kept);
                }
            }
        }
        if !self.table.head(row).writing() {
            self.drop_row(row);
        }
    }

    /// Ends a replica that no reader can be using; hands it back when one may be.
    pub(super) fn retire_record(
        &mut self,
        now: Timestamp,
        until: Timestamp,
        ticket: Ticket,
        mut record: ReplicaRecord,
    ) -> Option<ReplicaRecord> {
        if !self.fleet.slot(record.slot).serves() {
            self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
            return None;
        }
        self.seen.must(&mut record.state, ReplicaEvent::Retire);
        if self.fleet.slot(record.slot).is_shared() {
            self.lay_out(until, ticket, record);
            return None;
        }
        // What its owner keeps, the owner guards for as long as a request takes.
        if until > now && !self.fleet.slot(record.slot).is_owned() {
            return Some(record);
        }
        self.fleet.free(record, ReplicaEvent::Cool, &mut self.seen);
        None
    }

    pub(super) fn keep_cool(&mut self, until: Timestamp, records: Vec<ReplicaRecord>) {
        self.cooling.next += 1;
        self.cooling
            .records
            .insert((until, self.cooling.next), records);
    }

    /// The version's bytes are gone with their segments: a miss from now on, for the policy too.
    pub(super) fn lose(&mut self, now: Timestamp, row: Row) {
        self.stats.lost += 1;
        self.forget_policy(row);
        self.tell_retired(row, Retirement::LetGo, |_| true);
        self.retire(now, row);
    }

    /// The replicas of the readable version; the row has none any more.
    fn take_version(&mut self, row: Row) -> Taken {
        self.end_offload(row);
        self.forget_shared(row);
        self.stop_copy(row, WriteEvent::Preempt);
        self.stats.objects -= 1;
        self.stats.extents -= self.extent_count(row);
        let head = self.table.head_mut(row);
        let (place, len) = (head.place(), head.len);
        head.set_place(Place::Nowhere);
        head.ticket = Ticket::NONE;
        head.set_asked(false);
        head.set_refused(false);
        head.set_hit(false);
        match place {
            Place::Nowhere => Taken::Nothing,
            Place::Inline { slot, offset } => Taken::One(self.fleet.inline(slot, offset, len)),
            Place::Side(side) => Taken::Many(self.sides.remove(side)),
        }
    }

    /// Removes a row without a version.
    pub(super) fn drop_row(&mut self, row: Row) {
        if self.table.head(row).tagged() {
            self.tags.remove(row);
        }
        self.table.remove(row);
    }
}
