//! Making room: eviction ahead of need above the watermark, and on demand.

use super::{
    Catalog, Steps,
    offload::{self, ASK_MAX, Leave},
    rows::Place,
};
use crate::{Row, replica::Replica};
use ziggurat_base::Timestamp;

/// Objects evicted ahead of need by one `put_start`: the writers share the work, and none waits long.
const AHEAD_MAX: u32 = 64;

/// Steps that freeing one cooled replica counts for: the free space around it may lie anywhere in memory.
const COOL_STEPS: u32 = 2;

/// What a step towards room has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Some space is free that was not before.
    Made,
    /// Nothing now, but time or another turn will free some.
    Later,
    /// Nothing that could ever go.
    Never,
}

impl Catalog {
    /// Evicts ahead of need while the partition is above its watermark.
    pub(super) fn relieve(&mut self, now: Timestamp, steps: &mut Steps) {
        let capacity = self.fleet.capacity as f64;
        let high = capacity * self.config.high_watermark;
        let low = capacity * (self.config.high_watermark - self.config.evict_ratio).max(0.0);
        self.evicting |= self.config.high_watermark < 1.0 && self.fleet.used as f64 > high;
        let mut ahead = Steps(AHEAD_MAX.min(steps.0));
        while self.evicting {
            self.evicting = self.fleet.used as f64 > low;
            if !self.evicting || ahead.0 == 0 || self.evict_one(now, 0, &mut ahead) != Room::Made {
                break;
            }
        }
        steps.0 -= AHEAD_MAX.min(steps.0) - ahead.0;
    }

    /// Frees some space on a segment that could hold `len` bytes: cooled space first, then the next victim.
    pub(super) fn make_free(&mut self, now: Timestamp, len: u64, steps: &mut Steps) -> Room {
        if self.cool(now, steps) {
            return Room::Made;
        }
        self.evict_one(now, len, steps)
    }

    fn evict_one(&mut self, now: Timestamp, len: u64, steps: &mut Steps) -> Room {
        self.lapse_offloads(now, || steps.take());
        let (mode, mut asks) = (self.config.offload, Vec::new());
        let Self {
            policy,
            table,
            fleet,
            sides,
            ..
        } = self;
        let useful = |slot: u16| fleet.could_hold(slot, len);
        let mut vetoes = 0_u32;
        let mut held = |row: Row| {
            let head = table.head(row);
            let (here, keeper, kept) = match head.place() {
                Place::Nowhere => (false, false, false),
                Place::Inline { slot, .. } => {
                    (useful(slot), offload::has_keeper(fleet, slot), false)
                }
                Place::Side(side) => {
                    let all = || sides.get(side).iter();
                    let kept = |r: &super::ReplicaRecord| {
                        let slot = fleet.slot(r.slot);
                        r.state == Replica::Readable && !slot.is_memory() && slot.serves()
                    };
                    let keeper = all().any(|r| offload::has_keeper(fleet, r.slot));
                    (all().any(|r| useful(r.slot)), keeper, all().any(kept))
                }
            };
            let mut held = head.leased(now) || head.writing() || !here;
            if !held {
                let leave = Leave::of(head, mode, keeper, kept);
                if leave == Leave::Ask && asks.len() < ASK_MAX {
                    asks.push(row);
                }
                held = leave != Leave::Free;
            }
            vetoes += u32::from(held);
            held
        };
        let victim = policy.propose(&mut held, &mut steps.0);
        self.ask_offload(now, asks);
        let Some(row) = victim else {
            let waiting = vetoes > 0 || steps.0 == 0 || !self.cooling.records.is_empty();
            let (open, closing) = self.opens.counts();
            return if waiting || open + closing + self.copies.count() > 0 {
                Room::Later
            } else {
                Room::Never
            };
        };
        assert!(
            !self.table.head(row).leased(now),
            "I9: a leased object is never evicted"
        );
        self.evict_row(now, row);
        Room::Made
    }

    /// Frees space whose last guard has ended; says whether there was any.
    pub(super) fn cool(&mut self, now: Timestamp, steps: &mut Steps) -> bool {
        let mut freed = false;
        while let Some(entry) = self.cooling.records.first_entry() {
            if entry.key().0 > now || !steps.take_many(COOL_STEPS) {
                break;
            }
            for record in entry.remove() {
                self.fleet
                    .free(record, crate::replica::ReplicaEvent::Cool, &mut self.seen);
                freed = true;
            }
        }
        freed
    }
}
