//! What time alone moves: silent members, old writes, ended guards, grace periods, and the sweep of lost segments.

use super::{Catalog, Steps, rows::Place};
use crate::{
    Row,
    member::MemberEvent,
    replica::{Replica, ReplicaEvent},
    segment::{Segment, SegmentEvent},
    write::WriteEvent,
};
use std::time::Duration;
use ziggurat_base::{Ticket, Timestamp};

/// Ticks further apart than this share of the members' time to live are a stall of our own.
const STALL_SHARE: u32 = 4;

/// Steps that giving up one write counts for: it looks at a dozen places that may lie anywhere in memory.
const EXPIRY_STEPS: u32 = 4;

/// What readers were sent to a disk for counts half after so long.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// What a tick has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticked {
    /// There is more to do at once: tick again.
    pub more: bool,
}

impl Catalog {
    /// Moves every life cycle that time alone moves, in a bounded number of steps. To be called some ten times in the
    /// members' time to live, and again at once while it says so.
    pub fn tick(&mut self, now: Timestamp) -> Ticked {
        let mut steps = Steps::turn();
        self.forgive_own_stall(now);
        for member in self.members.silent(now, self.config.member_ttl) {
            self.stats.members_expired += 1;
            self.part(member, MemberEvent::Expire);
        }
        self.finish_unmounts(now);
        self.cool(now, &mut steps);
        self.cool_shards(now, &mut steps);
        self.expire_writes(now, &mut steps);
        self.expire_copies(now, &mut steps);
        self.sweep(now, &mut steps);
        self.lapse_offloads(now, || steps.take());
        self.end_expecting(now);
        self.cool_loads(now);
        for (directory, ticket) in self.directories.settle(|| steps.take()) {
            if let Some(slot) = self.fleet.of_directory(directory) {
                self.push_discard(slot, ticket);
            }
        }
        self.feed_again(&mut steps);
        self.relieve(now, &mut steps);
        self.relieve_shards(now, &mut steps);
        self.settle();
        Ticked { more: steps.0 == 0 }
    }

    fn forgive_own_stall(&mut self, now: Timestamp) {
        let gap = now.since(self.last_tick);
        if self.last_tick > Timestamp::ZERO && gap > self.config.member_ttl / STALL_SHARE {
            self.members.forgive(gap);
        }
        self.last_tick = self.last_tick.max(now);
    }

    fn cool_loads(&mut self, now: Timestamp) {
        if now.since(self.loads_cooled) >= LOAD_PAUSE {
            self.loads_cooled = now;
            self.fleet.cool_loads();
        }
    }

    fn finish_unmounts(&mut self, now: Timestamp) {
        let due = |state, at| state == Segment::Unmounting && at <= now;
        let due: Vec<_> = self
            .fleet
            .slots()
            .filter(|(_, s)| due(s.state, s.finish_at) && !s.is_old)
            .map(|(slot, _)| slot)
            .collect();
        for slot in due {
            self.lose_segment(slot, SegmentEvent::Finish);
            self.policy
                .set_capacity(ziggurat_base::ByteCount(self.fleet.capacity));
        }
    }

    /// Gives up writes that are too old or whose writer is gone. Goes round through all of them.
    fn expire_writes(&mut self, now: Timestamp, steps: &mut Steps) {
        let mut after = self.opens.swept;
        let release: Duration = self.config.write_release;
        for _ in 0..self.opens.open.len() {
            if !steps.take() {
                break;
            }
            let next = self
                .opens
                .open
                .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded))
                .next();
            let Some((ticket, open)) = next.or_else(|| self.opens.open.first_key_value()) else {
                break;
            };
            after = *ticket;
            if now.since(open.started) >= release || !self.members.alive(open.writer) {
                steps.take_many(EXPIRY_STEPS - 1);
                self.stats.puts_expired += 1;
                self.close(after, WriteEvent::Expire);
            }
        }
        self.opens.swept = after;
    }

    /// Drops the replicas of lost segments, then the segments.
    fn sweep(&mut self, now: Timestamp, steps: &mut Steps) {
        let lost: Vec<_> = self
            .fleet
            .slots()
            .filter(|(_, s)| s.state == Segment::Sweeping)
            .map(|(slot, _)| slot)
            .collect();
        for slot in lost {
            if self.sweep_rows(now, slot, steps) && self.fleet.slot(slot).references > 0 {
                self.sweep_writes(slot, steps);
            }
            if self.fleet.slot(slot).references == 0 {
                self.fleet.step(slot, SegmentEvent::Swept, &mut self.seen);
            }
        }
    }

    /// Looks at the rows in steps; says whether it has come to the end.
    fn sweep_rows(&mut self, now: Timestamp, slot: u16, steps: &mut Steps) -> bool {
        let end = self.table.rows.end();
        let mut next = self.fleet.slot(slot).sweep.next_row;
        while next < end && self.fleet.slot(slot).references > 0 && steps.take() {
            self.sweep_row(now, Row(next), slot);
            next = self.table.rows.skip_empty(next + 1);
        }
        self.fleet.slot_mut(slot).sweep.next_row = next;
        next >= end
    }

    fn sweep_row(&mut self, now: Timestamp, row: Row, slot: u16) {
        let Some(head) = self.table.rows.get(row) else {
            return;
        };
        match head.place() {
            Place::Inline { slot: here, .. } if here == slot => self.lose(now, row),
            Place::Side(side) if self.sides.get(side).iter().any(|r| r.slot == slot) => {
                if !self.serves(row) {
                    self.lose(now, row);
                    return;
                }
                let in_memory = self.in_memory(row);
                let extents = self.extent_count(row);
                let gone: Vec<_> = self
                    .sides
                    .get_mut(side)
                    .extract_if(.., |r| r.slot == slot && r.state == Replica::Readable)
                    .collect();
                for record in gone {
                    self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
                }
                self.recount_extents(row, extents);
                self.note_memory(row, in_memory);
            }
            _ => {}
        }
    }

    /// Drops what no row has: unfinished, given-up and cooling replicas on the slot.
    fn sweep_writes(&mut self, slot: u16, steps: &mut Steps) {
        let on_slot = |t: &Ticket, replicas: &[super::ReplicaRecord]| {
            replicas.iter().any(|r| r.slot == slot).then_some(*t)
        };
        let closing: Vec<_> = self
            .opens
            .closing
            .iter()
            .filter_map(|(t, c)| on_slot(t, &c.replicas))
            .collect();
        for ticket in closing {
            if !steps.take() {
                return;
            }
            let replicas = &mut self
                .opens
                .closing
                .get_mut(&ticket)
                .expect("just found")
                .replicas;
            let done = replicas.extract_if(.., |r| r.slot == slot).collect();
            self.settle_closing(ticket, done, ReplicaEvent::Lose);
        }
        let cooling: Vec<_> = self
            .cooling
            .records
            .iter()
            .filter(|(_, c)| c.iter().any(|r| r.slot == slot))
            .map(|(at, _)| *at)
            .collect();
        for at in cooling {
            if !steps.take() {
                return;
            }
            let records = self.cooling.records.remove(&at).expect("just found");
            let (gone, kept): (Vec<_>, Vec<_>) = records.into_iter().partition(|r| r.slot == slot);
            for record in gone {
                self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
            }
            if !kept.is_empty() {
                self.cooling.records.insert(at, kept);
            }
        }
        // Replicas of open writes are dropped by their next report, revocation or expiry.
    }
}
