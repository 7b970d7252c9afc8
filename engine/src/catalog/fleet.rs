//! The segments of a partition and the space in them.

use crate::{
    command::{SegmentStat, Target},
    place,
    replica::{Replica, ReplicaEvent},
    segment::{Segment, SegmentEvent},
    space::{AllocatorKind, GRAIN, SpaceMap},
    state::Seen,
};
use std::collections::BTreeMap;
use ziggurat_base::{
    ByteCount, Extent, Extents, MemberId, Placement, SegmentId, Timestamp, checksum::table_len,
    extent::EXTENTS_MAX,
};

/// One replica as the catalog keeps it.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaRecord {
    pub(crate) state: Replica,
    pub(crate) slot: u16,
    /// Its place in the grant of its write.
    pub(crate) position: u8,
    pub(crate) extents: Extents,
    pub(crate) check: Option<Extent>,
}

/// Where the sweep of a lost segment has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SweepAt {
    pub(crate) next_row: u32,
}

/// One segment.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: SegmentId,
    pub(crate) name: Box<str>,
    pub(crate) member: MemberId,
    pub(crate) state: Segment,
    pub(crate) space: Box<dyn SpaceMap>,
    /// Replica records that refer to the slot, whatever their state; it is reused when none is left.
    pub(crate) references: u64,
    pub(crate) finish_at: Timestamp,
    pub(crate) sweep: SweepAt,
}

impl Slot {
    /// Whether its bytes may be read.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.state, Segment::Mounted | Segment::Unmounting)
    }
}

/// Bytes of a payload and its chunk table.
fn whole_len(len: u64) -> u64 {
    len.saturating_add(table_len(len))
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    slots: Vec<Option<Slot>>,
    /// Slots that take new objects, in the order of mounting.
    usable: Vec<u16>,
    by_id: BTreeMap<SegmentId, u16>,
    by_name: BTreeMap<Box<str>, u16>,
    next_id: u32,
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    /// Bytes of the largest segment that takes objects; 0 when there is none.
    pub(crate) largest_capacity: u64,
}

impl place::Fleet for Fleet {
    fn count(&self) -> usize {
        self.usable.len()
    }

    fn free_ratio(&self, index: usize) -> f64 {
        let space = &self.slot(self.usable[index]).space;
        space.free() as f64 / space.capacity() as f64
    }
}

impl Fleet {
    pub(crate) fn slot(&self, slot: u16) -> &Slot {
        self.slots[usize::from(slot)]
            .as_ref()
            .expect("a replica record keeps its slot")
    }

    pub(crate) fn slot_mut(&mut self, slot: u16) -> &mut Slot {
        self.slots[usize::from(slot)]
            .as_mut()
            .expect("a replica record keeps its slot")
    }

    /// Every slot in use.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u16, &Slot)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, s)| Some((i as u16, s.as_ref()?)))
    }

    /// The slot of the `index`-th segment that takes objects.
    pub(crate) fn usable(&self, index: usize) -> u16 {
        self.usable[index]
    }

    pub(crate) fn find(&self, id: SegmentId) -> Option<u16> {
        self.by_id.get(&id).copied()
    }

    /// The slot of a mounted segment by name.
    pub(crate) fn named(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }

    /// Adds a segment; `None` when 65,536 are mounted.
    pub(crate) fn mount(
        &mut self,
        member: MemberId,
        name: &str,
        capacity: u64,
        kind: AllocatorKind,
    ) -> Option<SegmentId> {
        let free = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        let slot = u16::try_from(free).ok()?;
        self.next_id += 1;
        let id = SegmentId(self.next_id);
        let space = kind.build(capacity / GRAIN * GRAIN);
        self.capacity += space.capacity();
        let new = Slot {
            id,
            name: name.into(),
            member,
            state: Segment::Mounted,
            space,
            references: 0,
            finish_at: Timestamp::ZERO,
            sweep: SweepAt { next_row: 0 },
        };
        if free == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[free] = Some(new);
        self.usable.push(slot);
        self.by_id.insert(id, slot);
        self.by_name.insert(name.into(), slot);
        self.measure();
        Some(id)
    }

    /// Moves a segment along its life; the first step away from `Mounted` takes it out of placement.
    pub(crate) fn step(&mut self, slot: u16, event: SegmentEvent, seen: &mut Seen) {
        let here = self.slot_mut(slot);
        seen.must(&mut here.state, event);
        let (state, capacity) = (here.state, here.space.capacity());
        let used = capacity - here.space.free();
        let (id, name) = (here.id, here.name.clone());
        self.usable.retain(|other| *other != slot);
        self.measure();
        if matches!(event, SegmentEvent::Finish | SegmentEvent::Lose) {
            self.capacity -= capacity;
            self.used -= used;
            self.by_name.remove(&name);
        }
        if state == Segment::Gone {
            self.by_id.remove(&id);
            self.slots[usize::from(slot)] = None;
        }
    }

    fn measure(&mut self) {
        let capacities = self
            .usable
            .iter()
            .map(|slot| self.slot(*slot).space.capacity());
        self.largest_capacity = capacities.max().unwrap_or(0);
    }

    /// Bytes of space that a payload of `len` bytes takes on a slot, with its chunk table.
    pub(crate) fn footprint(&self, slot: u16, len: u64) -> u64 {
        let space = &self.slot(slot).space;
        [len, table_len(len)]
            .into_iter()
            .filter(|n| *n > 0)
            .map(|n| space.footprint(n))
            .sum()
    }

    /// Takes space for one replica in one piece.
    pub(crate) fn reserve(&mut self, slot: u16, len: u64) -> Option<ReplicaRecord> {
        self.reserve_with(slot, len, |space| Some(Extents::One(space.reserve(len)?)))
    }

    /// Takes space for one replica in several pieces.
    pub(crate) fn reserve_pieces(&mut self, slot: u16, len: u64) -> Option<ReplicaRecord> {
        if self.slot(slot).space.free() < self.footprint(slot, len) {
            return None;
        }
        self.reserve_with(slot, len, |space| {
            let pieces = space.reserve_pieces(len, EXTENTS_MAX)?;
            Some(Extents::checked(&pieces).expect("a space map keeps the rules of extents"))
        })
    }

    fn reserve_with(
        &mut self,
        slot: u16,
        len: u64,
        payload: impl FnOnce(&mut dyn SpaceMap) -> Option<Extents>,
    ) -> Option<ReplicaRecord> {
        let here = self.slot_mut(slot);
        let before = here.space.free();
        let extents = if len == 0 {
            Extents::One(Extent::default())
        } else {
            payload(&mut *here.space)?
        };
        let table = table_len(len);
        let check = if table > 0 {
            let Some(check) = here.space.reserve(table) else {
                for extent in extents.as_slice() {
                    here.space.release(*extent);
                }
                return None;
            };
            Some(check)
        } else {
            None
        };
        here.references += 1;
        let taken = before - here.space.free();
        self.used += taken;
        Some(ReplicaRecord {
            state: Replica::Writing,
            slot,
            position: 0,
            extents,
            check,
        })
    }

    /// Drops a record whose life is over: its space is free again, unless the segment has gone with it.
    pub(crate) fn drop_record(&mut self, record: &ReplicaRecord) {
        assert_eq!(
            record.state,
            Replica::Freed,
            "only the record of a freed replica is dropped"
        );
        let here = self.slot_mut(record.slot);
        here.references -= 1;
        if !here.serves() {
            return;
        }
        let before = here.space.free();
        for extent in record.extents.as_slice().iter().chain(&record.check) {
            if extent.len > 0 {
                here.space.release(*extent);
            }
        }
        let back = here.space.free() - before;
        self.used -= back;
    }

    /// Ends a replica by `event`, or by the loss of its segment when that came first, and drops its record.
    pub(crate) fn free(&mut self, mut record: ReplicaRecord, event: ReplicaEvent, seen: &mut Seen) {
        let event = if self.slot(record.slot).serves() {
            event
        } else {
            ReplicaEvent::Lose
        };
        seen.must(&mut record.state, event);
        self.drop_record(&record);
    }

    /// The replica as clients see it.
    pub(crate) fn target(&self, record: &ReplicaRecord) -> Target {
        let slot = self.slot(record.slot);
        Target {
            member: slot.member,
            placement: Placement {
                segment: slot.id,
                extents: record.extents.clone(),
                check: record.check,
            },
        }
    }

    /// The longest free extent of any segment that takes objects.
    pub(crate) fn largest_free(&self) -> u64 {
        self.usable
            .iter()
            .map(|slot| self.slot(*slot).space.largest_free())
            .max()
            .unwrap_or(0)
    }

    /// Whether a payload of `len` bytes with its table could ever lie on the slot.
    pub(crate) fn could_hold(&self, slot: u16, len: u64) -> bool {
        whole_len(len) <= self.slot(slot).space.capacity()
    }

    /// Whether some segment that takes objects could ever hold it.
    pub(crate) fn could_hold_anywhere(&self, len: u64) -> bool {
        whole_len(len) <= self.largest_capacity
    }

    /// A segment as people see it.
    pub(crate) fn stat(&self, slot: &Slot, address: &str) -> SegmentStat {
        let space = &slot.space;
        SegmentStat {
            id: slot.id,
            name: slot.name.clone(),
            member: slot.member,
            address: address.into(),
            state: slot.state,
            capacity: ByteCount(space.capacity()),
            used: ByteCount(space.capacity() - space.free()),
            largest_free: ByteCount(space.largest_free()),
            replicas: slot.references,
        }
    }
}
