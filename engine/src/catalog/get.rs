//! Reading: find an object and take a guard on it.

use super::{Catalog, Steps, rows::Place, table::Probe};
use crate::{
    Row,
    command::{Answer, BATCH_MAX, GetGrant, Hold, Keys, ObjectStat, Recency, Target, Targets},
    lease::LeaseEvent,
    replica::Replica,
};
use ziggurat_base::{Code, Error, Extent, Extents, Placement, Timestamp};

/// Keys that are looked up together: enough for the memory system to overlap their misses.
const GROUP: usize = 32;

/// An object gets no more lease from `exist` once nobody has read it for this many lease spans.
const IDLE_SPANS: u32 = 3;

/// What a batch will do with its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Look at them.
    Look,
    /// Take them away.
    Removal,
}

impl Catalog {
    /// Calls `each` with every key and its row, having asked for the memory of a whole group before.
    pub(super) fn for_each_row(
        &mut self,
        keys: Keys<'_>,
        ahead: Ahead,
        mut each: impl FnMut(&mut Self, usize, Probe<'_>, Option<Row>),
    ) {
        assert!(
            keys.keys.len() <= BATCH_MAX,
            "the caller splits larger batches"
        );
        if let [key] = keys.keys {
            // What lies by the number of its row is asked for at once.
            let probe = Probe::new(keys.tenant, *key);
            let guess = self.ask_for_row(probe);
            let row = self.table.find_guessed(guess, probe);
            return each(self, 0, probe, row);
        }
        for (number, group) in keys.keys.chunks(GROUP).enumerate() {
            let mut probes = [Probe::new(keys.tenant, group[0]); GROUP];
            for (probe, key) in probes.iter_mut().zip(group).skip(1) {
                *probe = Probe::new(keys.tenant, *key);
            }
            let probes = &probes[..group.len()];
            let guesses = self.ask_for_group(probes, ahead);
            for (index, (probe, guess)) in probes.iter().zip(guesses).enumerate() {
                let row = self.table.find_guessed(guess, *probe);
                each(self, number * GROUP + index, *probe, row);
            }
        }
    }

    /// Brings everything that a group will look at into the cache, step by step; says which rows these probably are.
    fn ask_for_group(&self, probes: &[Probe<'_>], ahead: Ahead) -> [Option<Row>; GROUP] {
        for probe in probes {
            self.table.prefetch(*probe);
        }
        let mut guesses = [None; GROUP];
        for (guess, probe) in guesses.iter_mut().zip(probes) {
            *guess = self.ask_for_row(*probe);
        }
        if ahead == Ahead::Removal {
            for row in guesses.iter().flatten() {
                self.ask_behind_row(*row);
            }
        }
        guesses
    }

    /// Probably the row of a key; asks for what a look at the row takes.
    fn ask_for_row(&self, probe: Probe<'_>) -> Option<Row> {
        let row = self.table.guess(probe)?;
        self.table.rows.prefetch(row);
        self.policy.prefetch(row);
        Some(row)
    }

    /// Asks for what the removal of a row that is in the cache touches.
    fn ask_behind_row(&self, row: Row) {
        self.policy.prefetch_removal(row);
        let head = self.table.head(row);
        if let Place::Inline { slot, offset } = head.place() {
            let space = &self.fleet.slot(slot).space;
            space.prefetch_release(Extent::new(offset, head.len));
        }
    }

    /// Finds objects and takes a guard on each. `None` is a miss.
    pub fn locate(
        &mut self,
        now: Timestamp,
        keys: Keys<'_>,
        recency: Recency,
    ) -> Vec<Answer<Option<GetGrant>>> {
        let mut steps = Steps::turn();
        let mut answers = Vec::with_capacity(keys.keys.len());
        self.for_each_row(keys, Ahead::Look, |catalog, _, _, row| {
            let answer = catalog.locate_row(now, row, recency, &mut steps);
            match answer {
                Ok(Some(_)) => catalog.stats.locate_hits += 1,
                Ok(None) => catalog.stats.locate_misses += 1,
                Err(_) => {}
            }
            answers.push(answer);
        });
        self.settle();
        answers
    }

    fn locate_row(
        &mut self,
        now: Timestamp,
        row: Option<Row>,
        recency: Recency,
        steps: &mut Steps,
    ) -> Answer<Option<GetGrant>> {
        let Some(row) = row else {
            return Ok(None);
        };
        let Some(replicas) = self.readable_targets(row) else {
            return self.unreadable(now, row).map(|()| None);
        };
        let mut is_below = false;
        let best = replicas.as_slice().first();
        if let Some(best) = best.filter(|_| self.fleet.has_owned()) {
            let len = self.table.head(row).len;
            is_below = self.fleet.note_load(best.placement.segment, len);
        }
        let until = now.after(self.config.lease);
        let head = self.table.head_mut(row);
        let mut lease = head.lease();
        lease.step(now, LeaseEvent::Hold, &mut self.seen);
        let term = lease.hold(now, until);
        head.set_lease(lease);
        let idle = now.since(head.used);
        head.used = now;
        let grant = GetGrant {
            ticket: head.ticket,
            len: head.len,
            crc: head.crc,
            replicas,
            hold: Hold {
                row,
                ticket: head.ticket,
                term,
            },
            span: self.config.lease,
        };
        if recency == Recency::Touch {
            if self.in_memory(row) {
                self.policy.touch(row);
            }
            self.touch_shared(row);
        }
        if is_below {
            self.note_hit(now, row, idle, steps);
        }
        Ok(Some(grant))
    }

    /// Where the readable version of a row lies now; `None` when nothing of it can be read.
    pub(super) fn readable_targets(&self, row: Row) -> Option<Targets> {
        let head = self.table.head(row);
        match head.place() {
            Place::Nowhere => None,
            Place::Inline { slot, offset } => {
                let slot = self.fleet.slot(slot);
                let start = if slot.is_owned() { 0 } else { offset };
                let extents = Extents::One(Extent::new(start, head.len));
                let placement = Placement {
                    segment: slot.id,
                    extents,
                    check: None,
                };
                slot.serves().then_some(Targets::One(Target {
                    member: slot.member,
                    placement,
                }))
            }
            Place::Side(side) => {
                let readable = self
                    .sides
                    .get(side)
                    .iter()
                    .filter(|r| r.state == Replica::Readable);
                let serving = readable.filter(|r| self.fleet.slot(r.slot).serves());
                let targets = self.fleet.ranked(serving);
                (!targets.as_slice().is_empty()).then_some(targets)
            }
        }
    }

    /// A row without anything to read: not yet, or not any more.
    pub(super) fn unreadable(&mut self, now: Timestamp, row: Row) -> Answer<()> {
        if self.table.head(row).readable() {
            // The version is lost with its segments; what was still being written of it goes with it.
            self.lose(now, row);
            return Ok(());
        }
        Err(Error::new(
            Code::ReplicaIsNotReady,
            "the object is being written",
        ))
    }

    /// Whether objects are readable. Promises each its lease, unless nobody reads it; recency stays as it is.
    pub fn exist(&mut self, now: Timestamp, keys: Keys<'_>) -> Vec<Answer<bool>> {
        let mut answers = Vec::with_capacity(keys.keys.len());
        self.for_each_row(keys, Ahead::Look, |catalog, _, _, row| {
            let found = row.is_some_and(|row| catalog.exist_row(now, row));
            if found {
                catalog.stats.exist_hits += 1;
            } else {
                catalog.stats.exist_misses += 1;
            }
            answers.push(Ok(found));
        });
        self.settle();
        answers
    }

    fn exist_row(&mut self, now: Timestamp, row: Row) -> bool {
        if !self.serves(row) {
            return false;
        }
        let idle = self.config.lease * IDLE_SPANS;
        let until = now.after(self.config.lease);
        let head = self.table.head_mut(row);
        if now.since(head.used) <= idle {
            let mut lease = head.lease();
            lease.step(now, LeaseEvent::Promise, &mut self.seen);
            lease.promise(now, until);
            head.set_lease(lease);
        }
        true
    }

    /// Whether something of the row can be read; as [`Catalog::readable_targets`], without making the targets.
    pub(super) fn serves(&self, row: Row) -> bool {
        match self.table.head(row).place() {
            Place::Nowhere => false,
            Place::Inline { slot, .. } => self.fleet.slot(slot).serves(),
            Place::Side(side) => {
                let mut replicas = self.sides.get(side).iter();
                replicas.any(|r| r.state == Replica::Readable && self.fleet.slot(r.slot).serves())
            }
        }
    }

    /// Marks objects as just used, in this order.
    pub fn touch(&mut self, keys: Keys<'_>) {
        self.for_each_row(keys, Ahead::Look, |catalog, _, _, row| {
            let Some(row) = row else { return };
            if catalog.in_memory(row) {
                catalog.policy.touch(row);
            }
            catalog.touch_shared(row);
        });
        self.settle();
    }

    /// Takes guards back. Holds that are not valid any more are passed over.
    pub fn give_back(&mut self, now: Timestamp, holds: &[Hold]) {
        assert!(holds.len() <= BATCH_MAX, "the caller splits larger batches");
        for hold in holds {
            let Some(head) = self
                .table
                .rows
                .get(hold.row)
                .filter(|head| head.ticket == hold.ticket)
            else {
                continue;
            };
            let before = head.lease();
            let mut lease = before;
            if lease.give_back(now, hold.term) {
                before.step(now, LeaseEvent::Return, &mut self.seen);
                self.stats.holds_returned += 1;
            }
            self.table.head_mut(hold.row).set_lease(lease);
        }
        self.settle();
    }

    /// Everything about objects, for people. Takes no guard and leaves recency as it is.
    #[must_use]
    pub fn stat(&self, now: Timestamp, keys: Keys<'_>) -> Vec<Answer<Option<ObjectStat>>> {
        let one = |key| {
            let row = self.table.find(Probe::new(keys.tenant, key))?;
            let replicas = self.readable_targets(row)?;
            let head = self.table.head(row);
            let tags = self.tags.get(row);
            Some(ObjectStat {
                len: head.len,
                ticket: head.ticket,
                crc: head.crc,
                replicas,
                lease: head.lease().until.since(now),
                parent: tags.and_then(|t| t.parent.clone()),
                group: tags.and_then(|t| t.group.clone()),
                hint: tags.map_or_else(Default::default, |t| t.hint),
            })
        };
        keys.keys.iter().map(|key| Ok(one(*key))).collect()
    }
}
