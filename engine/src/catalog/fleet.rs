//! The segments of a partition and the space in them.

use super::ledger::Ledger;
use crate::{
    command::{Keep, SegmentStat, Stock, Target, Targets},
    place,
    replica::{Replica, ReplicaEvent},
    segment::{Segment, SegmentEvent},
    space::{AllocatorKind, GRAIN, SpaceMap},
    state::Seen,
};
use std::collections::BTreeMap;
use ziggurat_base::{
    ByteCount, DirectoryId, Extent, Extents, MemberId, Placement, SegmentId, Ticket, Timestamp,
    checksum::table_len, extent::EXTENTS_MAX,
};

/// One replica as the catalog keeps it.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaRecord {
    pub(crate) state: Replica,
    pub(crate) slot: u16,
    /// Its place in the grant of its write.
    pub(crate) position: u8,
    /// On an owned segment the payload itself, from 0 on.
    pub(crate) extents: Extents,
    pub(crate) check: Option<Extent>,
    /// Bytes at the owner of an owned segment; 0 on a delegated one.
    pub(crate) stored: u64,
}

impl ReplicaRecord {
    /// A replica that its owner says it holds.
    pub(crate) fn owned(slot: u16, len: u64, stored: u64) -> Self {
        Self {
            state: Replica::Readable,
            slot,
            position: 0,
            extents: Extents::One(Extent::new(0, len)),
            check: None,
            stored,
        }
    }
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
    pub(crate) keep: Keep,
    pub(crate) stock: Stock,
    /// Whether its owner is fed with what becomes readable here.
    pub(crate) feeds: bool,
    /// Of no byte when the owner allocates.
    pub(crate) space: Box<dyn SpaceMap>,
    /// Bytes offered, and bytes stored, when the owner allocates.
    offered: u64,
    pub(crate) stored: u64,
    /// Bytes that readers were sent to an owned segment for, lately: it counts half after a second.
    pub(crate) load: u64,
    /// What its owner has told of it.
    pub(crate) ledger: Ledger,
    /// Whether a snapshot under way is about to replace this view of the segment.
    pub(crate) is_old: bool,
    /// Versions that the owner was told to be retired and has not forgotten, with the digests of keys of which a version may
    /// still be on its way from here to another segment of the owner.
    pub(crate) retired: BTreeMap<Ticket, Option<u64>>,
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

    /// What the partition remembers it by when it outlives processes.
    pub(crate) fn directory(&self) -> Option<DirectoryId> {
        match self.keep {
            Keep::Delegated => None,
            Keep::Owned { directory } | Keep::Shared { directory, .. } => Some(directory),
        }
    }

    /// What ranks it among those that hold the same version: memory first, then the disk that has least to do, then shard files.
    fn rank(&self) -> (u8, u64) {
        let kind = match self.keep {
            Keep::Delegated => 0,
            Keep::Owned { .. } => 1,
            Keep::Shared { .. } => 2,
        };
        (kind, self.load)
    }

    /// Whether its owner has yet to tell what an earlier life has put here.
    pub(crate) fn is_offering(&self) -> bool {
        self.stock == Stock::Held && !self.ledger.is_known()
    }

    /// Whether the owner allocates.
    pub(crate) fn is_owned(&self) -> bool {
        matches!(self.keep, Keep::Owned { .. })
    }

    /// Whether it is a shard file.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.keep, Keep::Shared { .. })
    }

    /// What extents in a shard file are multiples of.
    pub(crate) fn alignment(&self) -> u64 {
        match self.keep {
            Keep::Shared { alignment, .. } => alignment.into(),
            Keep::Delegated | Keep::Owned { .. } => GRAIN,
        }
    }

    /// Whether it is memory of a member.
    pub(crate) fn is_memory(&self) -> bool {
        self.keep == Keep::Delegated
    }
}

/// A segment to be mounted.
pub(crate) struct Mounting<'a> {
    pub(crate) member: MemberId,
    pub(crate) name: &'a str,
    pub(crate) capacity: u64,
    pub(crate) keep: Keep,
    pub(crate) stock: Stock,
    pub(crate) feeds: bool,
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
    /// The owned segments of members that serve any, without old views.
    owned: BTreeMap<MemberId, Vec<u16>>,
    /// The segments that take new objects, by member.
    lent: BTreeMap<MemberId, Vec<u16>>,
    /// Shard files, in the order of mounting, and those that take new objects.
    shards: Vec<u16>,
    pub(crate) open_shards: Vec<u16>,
    /// Bytes of the shard files, and those in use.
    pub(crate) shared_capacity: u64,
    pub(crate) shared_used: u64,
    /// Segments whose owners are fed.
    pub(crate) fed: u32,
    /// Bytes of memory that the partition allocates, and those in use.
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

    /// The owned segments that a member serves.
    pub(crate) fn owned_by(&self, member: MemberId) -> &[u16] {
        self.owned.get(&member).map_or(&[], Vec::as_slice)
    }

    /// The segments of a member that take new objects.
    pub(crate) fn lent_by(&self, member: MemberId) -> &[u16] {
        self.lent.get(&member).map_or(&[], Vec::as_slice)
    }

    /// The slot at which a directory is served.
    pub(crate) fn of_directory(&self, directory: DirectoryId) -> Option<u16> {
        let here = |slot: &&u16| self.slot(**slot).directory() == Some(directory);
        let all = self.owned.values().flatten().chain(&self.shards);
        all.into_iter().find(here).copied()
    }

    /// The shard files.
    pub(crate) fn shards(&self) -> &[u16] {
        &self.shards
    }

    /// Adds a segment; `None` when 65,536 are mounted.
    pub(crate) fn mount(
        &mut self,
        mounting: &Mounting<'_>,
        kind: AllocatorKind,
    ) -> Option<SegmentId> {
        let id = SegmentId(self.next_id + 1);
        let slot = self.add(id, mounting, kind)?;
        self.next_id += 1;
        self.by_name.insert(mounting.name.into(), slot);
        match mounting.keep {
            Keep::Delegated => {
                self.capacity += self.slot(slot).space.capacity();
                self.fed += u32::from(mounting.feeds);
                if !self.slot(slot).is_offering() {
                    self.take_into_use(slot);
                }
            }
            Keep::Owned { .. } => self.owned.entry(mounting.member).or_default().push(slot),
            Keep::Shared { .. } => {
                self.shared_capacity += self.slot(slot).space.capacity();
                self.shards.push(slot);
            }
        }
        Some(id)
    }

    fn add(&mut self, id: SegmentId, mounting: &Mounting<'_>, kind: AllocatorKind) -> Option<u16> {
        let free = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        let slot = u16::try_from(free).ok()?;
        let delegated = match mounting.keep {
            Keep::Delegated => mounting.capacity / GRAIN * GRAIN,
            Keep::Owned { .. } => 0,
            Keep::Shared { alignment, .. } => {
                mounting.capacity / u64::from(alignment) * u64::from(alignment)
            }
        };
        let new = Slot {
            id,
            name: mounting.name.into(),
            member: mounting.member,
            state: Segment::Mounted,
            keep: mounting.keep,
            stock: match mounting.keep {
                Keep::Delegated if mounting.feeds => mounting.stock,
                Keep::Delegated | Keep::Owned { .. } => Stock::Volatile,
                Keep::Shared { .. } => Stock::Held,
            },
            feeds: mounting.feeds && mounting.keep == Keep::Delegated,
            space: match mounting.keep {
                // Where all lengths are multiples of the alignment, its extents begin on one too.
                Keep::Shared { .. } => AllocatorKind::Offset.build(delegated),
                Keep::Delegated | Keep::Owned { .. } => kind.build(delegated),
            },
            offered: mounting.capacity,
            stored: 0,
            load: 0,
            ledger: Ledger::default(),
            is_old: false,
            retired: BTreeMap::new(),
            references: 0,
            finish_at: Timestamp::ZERO,
            sweep: SweepAt { next_row: 0 },
        };
        if free == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[free] = Some(new);
        self.by_id.insert(id, slot);
        Some(slot)
    }

    /// Begins a new view of an owned segment beside the old one, which stays readable until it is lost; `None` when there are
    /// no more slots.
    pub(crate) fn renew(&mut self, old: u16, kind: AllocatorKind) -> Option<u16> {
        let here = self.slot(old);
        let (id, state, finish_at) = (here.id, here.state, here.finish_at);
        let (name, member) = (here.name.clone(), here.member);
        let mounting = Mounting {
            member,
            name: &name,
            capacity: here.offered,
            keep: here.keep,
            stock: Stock::Volatile,
            feeds: false,
        };
        let new = self.add(id, &mounting, kind)?;
        let slot = self.slot_mut(new);
        (slot.state, slot.finish_at) = (state, finish_at);
        self.slot_mut(old).is_old = true;
        self.by_name.insert(name, new);
        for slot in self.owned.get_mut(&member).into_iter().flatten() {
            if *slot == old {
                *slot = new;
            }
        }
        Some(new)
    }

    /// Moves a segment along its life; the first step away from `Mounted` takes it out of placement.
    pub(crate) fn step(&mut self, slot: u16, event: SegmentEvent, seen: &mut Seen) {
        let here = self.slot_mut(slot);
        seen.must(&mut here.state, event);
        let (state, id, name, member) = (here.state, here.id, here.name.clone(), here.member);
        let (capacity, free) = (here.space.capacity(), here.space.free());
        if matches!(event, SegmentEvent::Finish | SegmentEvent::Lose) {
            here.retired.clear();
            let fed = u32::from(std::mem::take(&mut here.feeds));
            self.fed -= fed;
            self.capacity -= capacity;
            self.used -= capacity - free;
            if self.by_name.get(&name) == Some(&slot) {
                self.by_name.remove(&name);
            }
            if let Some(owned) = self.owned.get_mut(&member) {
                owned.retain(|other| *other != slot);
            }
            self.owned.retain(|_, owned| !owned.is_empty());
        }
        self.usable.retain(|other| *other != slot);
        if let Some(lent) = self.lent.get_mut(&member) {
            lent.retain(|other| *other != slot);
        }
        self.lent.retain(|_, lent| !lent.is_empty());
        self.measure();
        if state == Segment::Gone {
            if self.by_id.get(&id) == Some(&slot) {
                self.by_id.remove(&id);
            }
            self.slots[usize::from(slot)] = None;
        }
    }

    /// The owner has told what an earlier life has put on a slot: it takes new objects from now on.
    pub(crate) fn open(&mut self, slot: u16) {
        let here = self.slot_mut(slot);
        here.space.restored();
        if here.is_shared() {
            self.open_shards.push(slot);
        } else if here.state == Segment::Mounted {
            self.take_into_use(slot);
        }
    }

    fn take_into_use(&mut self, slot: u16) {
        self.usable.push(slot);
        self.lent
            .entry(self.slot(slot).member)
            .or_default()
            .push(slot);
        self.measure();
    }

    /// Whether a segment will take objects once its owner has told what is in it.
    pub(crate) fn is_any_offering(&self) -> bool {
        self.slots()
            .any(|(_, s)| s.serves() && s.is_offering() && s.is_memory())
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
        if !here.is_memory() {
            return None;
        }
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
            stored: 0,
        })
    }

    /// Takes the space that a replica had in an earlier life; `None`, changing nothing, when it cannot have been its own.
    pub(crate) fn restore(
        &mut self,
        slot: u16,
        len: u64,
        placement: &Placement,
    ) -> Option<ReplicaRecord> {
        let table = placement.check.map_or(0, |check| check.len);
        if placement.extents.len().0 != len || table != table_len(len) {
            return None;
        }
        let here = self.slot_mut(slot);
        let before = here.space.free();
        let mut taken: Vec<Extent> = Vec::with_capacity(2);
        for extent in placement.all().filter(|extent| extent.len > 0) {
            if !here.space.restore(extent) {
                taken.into_iter().for_each(|t| here.space.release(t));
                return None;
            }
            taken.push(extent);
        }
        here.references += 1;
        let used = before - here.space.free();
        self.used += used;
        Some(ReplicaRecord {
            state: Replica::Readable,
            slot,
            position: 0,
            extents: placement.extents.clone(),
            check: placement.check,
            stored: 0,
        })
    }

    /// Counts a replica on an owned segment.
    pub(crate) fn take_owned(&mut self, record: &ReplicaRecord) {
        let here = self.slot_mut(record.slot);
        assert!(
            here.is_owned(),
            "only its owner stores without a reservation"
        );
        here.references += 1;
        here.stored += record.stored;
    }

    /// Stops counting a replica on an owned segment whose record was replaced by another one.
    pub(crate) fn let_go(&mut self, record: &ReplicaRecord) {
        let here = self.slot_mut(record.slot);
        here.references -= 1;
        here.stored -= record.stored;
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
        if here.is_owned() {
            here.stored -= record.stored;
            return;
        }
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
        if here.is_shared() {
            self.shared_used -= back;
        } else {
            self.used -= back;
        }
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

    /// The one replica of a row that has no side record: where it lies, and how many bytes it takes there when the owner
    /// allocates.
    pub(crate) fn inline(&self, slot: u16, offset: u64, len: u64) -> ReplicaRecord {
        if self.slot(slot).is_owned() {
            return ReplicaRecord::owned(slot, len, offset);
        }
        ReplicaRecord {
            state: Replica::Readable,
            slot,
            position: 0,
            // What lies in a shard file is never inline.
            extents: Extents::One(Extent::new(offset, len)),
            check: None,
            stored: 0,
        }
    }

    /// The replica as clients see it.
    pub(crate) fn target(&self, record: &ReplicaRecord) -> Target {
        let slot = self.slot(record.slot);
        Target {
            member: match slot.is_shared() {
                true => MemberId::NOBODY,
                false => slot.member,
            },
            placement: Placement {
                segment: slot.id,
                extents: record.extents.clone(),
                check: record.check,
            },
        }
    }

    /// Takes space for one record in a shard file.
    pub(crate) fn reserve_record(&mut self, slot: u16, len: u64) -> Option<ReplicaRecord> {
        let here = self.slot_mut(slot);
        let before = here.space.free();
        let extents = Extents::One(here.space.reserve(len)?);
        here.references += 1;
        self.shared_used += before - here.space.free();
        Some(ReplicaRecord {
            state: Replica::Writing,
            slot,
            position: 0,
            extents,
            check: None,
            stored: 0,
        })
    }

    /// Takes the space that a record had in an earlier life; `None` when it cannot have been its own.
    pub(crate) fn restore_record(&mut self, slot: u16, extents: &Extents) -> Option<ReplicaRecord> {
        let Extents::One(extent) = extents else {
            return None;
        };
        let here = self.slot_mut(slot);
        let before = here.space.free();
        if extent.len == 0 || !here.space.restore(*extent) {
            return None;
        }
        here.references += 1;
        self.shared_used += before - here.space.free();
        Some(ReplicaRecord {
            state: Replica::Readable,
            slot,
            position: 0,
            extents: extents.clone(),
            check: None,
            stored: 0,
        })
    }

    /// Whether any owner allocates.
    pub(crate) fn has_owned(&self) -> bool {
        !self.owned.is_empty()
    }

    /// Some replicas as clients see them, best first.
    pub(crate) fn ranked<'a>(&self, records: impl Iterator<Item = &'a ReplicaRecord>) -> Targets {
        let mut records: Vec<_> = records.collect();
        records.sort_by_key(|record| self.slot(record.slot).rank());
        records.into_iter().map(|r| self.target(r)).collect()
    }

    /// A reader was sent to a segment; says whether it is an owned one.
    pub(crate) fn note_load(&mut self, id: SegmentId, bytes: u64) -> bool {
        let owned = self.find(id).filter(|slot| self.slot(*slot).is_owned());
        if let Some(slot) = owned {
            self.slot_mut(slot).load += bytes;
        }
        owned.is_some()
    }

    /// What readers were sent for counts less as time goes by.
    pub(crate) fn cool_loads(&mut self) {
        self.slots.iter_mut().flatten().for_each(|s| s.load /= 2);
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
        let here = self.slot(slot);
        here.is_memory() && whole_len(len) <= here.space.capacity()
    }

    /// Whether some segment that takes objects could ever hold it.
    pub(crate) fn could_hold_anywhere(&self, len: u64) -> bool {
        whole_len(len) <= self.largest_capacity
    }

    /// A segment as people see it.
    pub(crate) fn stat(&self, slot: &Slot, address: &str) -> SegmentStat {
        let (capacity, used, largest_free) = match slot.keep {
            Keep::Delegated | Keep::Shared { .. } => (
                slot.space.capacity(),
                slot.space.capacity() - slot.space.free(),
                slot.space.largest_free(),
            ),
            Keep::Owned { .. } => {
                let views = self.slots().filter(|(_, other)| other.id == slot.id);
                let used = views.map(|(_, view)| view.stored).sum();
                (slot.offered, used, slot.offered.saturating_sub(used))
            }
        };
        SegmentStat {
            id: slot.id,
            name: slot.name.clone(),
            member: slot.member,
            address: address.into(),
            state: slot.state,
            capacity: ByteCount(capacity),
            used: ByteCount(used),
            largest_free: ByteCount(largest_free),
            replicas: slot.references,
            keep: slot.keep,
        }
    }

    /// Segments that may be read.
    pub(crate) fn serving(&self) -> u64 {
        let serving = self.slots().filter(|(_, s)| s.serves() && !s.is_old);
        serving.count() as u64
    }

    /// Bytes offered and stored, and replicas, on segments that their owners allocate.
    pub(crate) fn owned_stats(&self) -> (u64, u64, u64) {
        let owned = self.slots().filter(|(_, s)| s.is_owned() && s.serves());
        owned.fold((0, 0, 0), |(offered, stored, replicas), (_, slot)| {
            let new = if slot.is_old { 0 } else { slot.offered };
            let all = replicas + slot.references;
            (offered + new, stored + slot.stored, all)
        })
    }
}
