//! A [`SpaceMap`] of slabs: each slab of [`SLAB`] bytes is cut into equal slots of one size class, so that objects of
//! one size never fragment the space of another.
//!
//! A slab without an object goes back to the free slabs and may serve any class next. Longer extents take whole slabs,
//! next to each other; the free slabs are an [`OffsetSpace`] of their own, which joins neighbours.
//!
//! Limits, the price of the classes:
//! * An extent takes its whole slot: up to a quarter more than its length, and a whole number of slabs when longer than
//!   the largest class (about half a slab). The capacity is a whole number of slabs.
//! * Free slots serve their class only. An extent fails while slots of other classes are free.
//! * Pieces of [`SpaceMap::reserve_pieces`] are whole slabs but the last; slots of 64 KiB and more do not add up.

use super::{GRAIN, PAGE, SpaceMap, offset::OffsetSpace};
use ziggurat_base::Extent;

/// Bytes of a slab.
pub const SLAB: u64 = 4 << 20;

/// Ends a list of slabs.
const NONE: u32 = u32::MAX;

/// Allocator of one segment by size classes; see the [module](self).
#[derive(Debug)]
pub struct SlabSpace {
    /// The slabs that no class has, and the extents of whole slabs.
    whole: OffsetSpace,
    used: u64,
    classes: Vec<Class>,
    slabs: Vec<Slab>,
}

#[derive(Debug)]
struct Class {
    slot_len: u64,
    /// The first slab of this class with a free slot.
    open: u32,
    /// Slabs in that list.
    open_count: u64,
}

/// A slab that a class has; without slots otherwise.
#[derive(Clone, Debug)]
struct Slab {
    class: u32,
    used: u32,
    /// A bit for each slot in use, and the first word that may have a clear one.
    slots: Box<[u64]>,
    first_open: u32,
    previous: u32,
    next: u32,
}

impl Slab {
    fn uncut() -> Self {
        Self {
            class: 0,
            used: 0,
            slots: Box::default(),
            first_open: 0,
            previous: NONE,
            next: NONE,
        }
    }
}

impl SlabSpace {
    /// Manages `capacity` bytes, rounded down to [`SLAB`], all of them free.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let count = (capacity / SLAB) as usize;
        let class = |slot_len| Class {
            slot_len,
            open: NONE,
            open_count: 0,
        };
        Self {
            whole: OffsetSpace::new(count as u64 * SLAB),
            used: 0,
            classes: slot_lens().map(class).collect(),
            slabs: vec![Slab::uncut(); count],
        }
    }

    /// The class of an extent; `None` when it takes whole slabs.
    fn class_of(&self, len: u64) -> Option<usize> {
        let class = self.classes.partition_point(|class| class.slot_len < len);
        (class < self.classes.len()).then_some(class)
    }

    /// A slab of `class` with a free slot.
    fn open_slab(&mut self, class: usize) -> Option<usize> {
        if self.classes[class].open != NONE {
            return Some(self.classes[class].open as usize);
        }
        let slab = (self.whole.reserve(SLAB)?.offset / SLAB) as usize;
        self.cut(slab, class);
        Some(slab)
    }

    /// Puts a slab into the list of those of its class with a free slot.
    fn open(&mut self, slab: usize) {
        let class = &mut self.classes[self.slabs[slab].class as usize];
        let next = std::mem::replace(&mut class.open, slab as u32);
        class.open_count += 1;
        (self.slabs[slab].previous, self.slabs[slab].next) = (NONE, next);
        if next != NONE {
            self.slabs[next as usize].previous = slab as u32;
        }
    }

    /// Takes a slab out of that list.
    fn close(&mut self, slab: usize) {
        let Slab {
            class,
            previous,
            next,
            ..
        } = self.slabs[slab];
        let class = &mut self.classes[class as usize];
        class.open_count -= 1;
        match previous {
            NONE => class.open = next,
            _ => self.slabs[previous as usize].next = next,
        }
        if next != NONE {
            self.slabs[next as usize].previous = previous;
        }
    }

    /// Gives a free slab to a class.
    fn cut(&mut self, slab: usize, class: usize) {
        let slots = slots_of(self.classes[class].slot_len);
        let mut bits = vec![0; slots.div_ceil(64)].into_boxed_slice();
        if let Some(last) = bits.last_mut() {
            // Slots that do not exist are never free.
            *last = !(u64::MAX >> (slots.next_multiple_of(64) - slots));
        }
        self.slabs[slab] = Slab {
            class: class as u32,
            slots: bits,
            ..Slab::uncut()
        };
        self.open(slab);
    }

    /// Takes one slot of a slab that has it free.
    fn fill(&mut self, slab: usize, word: usize, bit: usize) {
        let state = &mut self.slabs[slab];
        let class = state.class as usize;
        state.slots[word] |= 1 << bit;
        state.used += 1;
        if state.used as usize == slots_of(self.classes[class].slot_len) {
            self.close(slab);
        }
    }

    /// Takes the slot at `offset` for a class, cutting its slab when nobody has that.
    fn restore_slot(&mut self, class: usize, offset: u64) -> bool {
        let slot_len = self.classes[class].slot_len;
        let (slab, within) = ((offset / SLAB) as usize, offset % SLAB);
        if slab >= self.slabs.len() || !within.is_multiple_of(slot_len) || within + slot_len > SLAB
        {
            return false;
        }
        if self.slabs[slab].slots.is_empty() {
            if !self.whole.restore(Extent::new(slab as u64 * SLAB, SLAB)) {
                return false;
            }
            self.cut(slab, class);
        }
        let index = within / slot_len;
        let (word, bit) = ((index / 64) as usize, (index % 64) as usize);
        let state = &self.slabs[slab];
        if state.class as usize != class || state.slots[word] >> bit & 1 == 1 {
            return false;
        }
        self.fill(slab, word, bit);
        true
    }

    fn take_slot(&mut self, class: usize) -> Option<u64> {
        let slab = self.open_slab(class)?;
        let slot_len = self.classes[class].slot_len;
        let state = &mut self.slabs[slab];
        let from = state.first_open as usize;
        let clear = state.slots[from..]
            .iter()
            .position(|word| *word != u64::MAX);
        let word = from + clear.expect("an open slab has a free slot");
        let bit = state.slots[word].trailing_ones() as usize;
        state.first_open = word as u32;
        self.fill(slab, word, bit);
        Some(slab as u64 * SLAB + (word * 64 + bit) as u64 * slot_len)
    }

    fn give_slot(&mut self, class: usize, offset: u64) {
        let slot_len = self.classes[class].slot_len;
        let (slab, within) = ((offset / SLAB) as usize, offset % SLAB);
        let (word, bit) = ((within / slot_len / 64) as usize, within / slot_len % 64);
        let in_use = |slab: &&mut Slab| {
            slab.class as usize == class
                && within.is_multiple_of(slot_len)
                && slab
                    .slots
                    .get(word)
                    .is_some_and(|word| word >> bit & 1 == 1)
                && within + slot_len <= SLAB
        };
        let state = self.slabs.get_mut(slab).filter(in_use);
        let state = state.expect("an extent that is given back lies in a slot in use");
        state.slots[word] &= !(1 << bit);
        state.first_open = state.first_open.min(word as u32);
        state.used -= 1;
        let used = state.used as usize;
        if used + 1 == slots_of(slot_len) {
            self.open(slab);
        }
        if used == 0 {
            self.close(slab);
            self.slabs[slab] = Slab::uncut();
            self.whole.release(Extent::new(slab as u64 * SLAB, SLAB));
        }
    }
}

/// Slot lengths, each about a quarter above the last, up to half a slab: above that a slab has one slot anyway.
fn slot_lens() -> impl Iterator<Item = u64> {
    let next = |len: &u64| {
        let unit = if *len < PAGE { GRAIN } else { PAGE };
        let quarter_more = (len + len / 4) / unit * unit;
        let next = quarter_more.max(len + unit);
        // Extents from a page up start on pages, so their slots are pages; no class steps over that border.
        Some(if *len < PAGE { next.min(PAGE) } else { next })
    };
    std::iter::successors(Some(GRAIN), next).take_while(|len| *len <= SLAB / 2)
}

fn slots_of(slot_len: u64) -> usize {
    (SLAB / slot_len) as usize
}

impl SpaceMap for SlabSpace {
    fn capacity(&self) -> u64 {
        self.whole.capacity()
    }

    fn free(&self) -> u64 {
        self.capacity() - self.used
    }

    fn largest_free(&self) -> u64 {
        let open = |class: &&Class| class.open != NONE;
        let slot = self.classes.iter().rev().find(open);
        match self.whole.largest_free() {
            0 => slot.map_or(0, |class| class.slot_len),
            slabs => slabs,
        }
    }

    /// Runs of free slabs, and slabs with a free slot.
    fn free_ranges(&self) -> u64 {
        let open = self.classes.iter().map(|class| class.open_count);
        self.whole.free_ranges() + open.sum::<u64>()
    }

    fn reserve(&mut self, len: u64) -> Option<Extent> {
        assert!(len > 0, "an empty payload needs no space");
        if len > self.capacity() {
            return None;
        }
        let offset = match self.class_of(len) {
            Some(class) => self.take_slot(class)?,
            None => self.whole.reserve(self.footprint(len))?.offset,
        };
        self.used += self.footprint(len);
        Some(Extent::new(offset, len))
    }

    /// See the limits of the [module](self).
    fn reserve_pieces(&mut self, len: u64, pieces_max: usize) -> Option<Vec<Extent>> {
        assert!(pieces_max > 0, "something in no piece is nothing");
        if let Some(extent) = self.reserve(len) {
            return Some(vec![extent]);
        }
        let rest = len % SLAB;
        let slabs_max = pieces_max - usize::from(rest > 0);
        if len < SLAB || slabs_max == 0 {
            return None;
        }
        let mut pieces = self.whole.reserve_pieces(len - rest, slabs_max)?;
        self.used += len - rest;
        if rest > 0 {
            match self.reserve(rest) {
                Some(last) => pieces.push(last),
                None => {
                    pieces.drain(..).for_each(|piece| self.release(piece));
                    return None;
                }
            }
        }
        Some(pieces)
    }

    fn restore(&mut self, extent: Extent) -> bool {
        let footprint = self.footprint(extent.len);
        let is_back = match self.class_of(extent.len) {
            _ if extent.len == 0 || footprint > self.capacity() => false,
            Some(class) => self.restore_slot(class, extent.offset),
            None => {
                extent.offset.is_multiple_of(SLAB)
                    && self.whole.restore(Extent::new(extent.offset, footprint))
            }
        };
        self.used += if is_back { footprint } else { 0 };
        is_back
    }

    fn restored(&mut self) {
        self.whole.restored();
    }

    fn release(&mut self, extent: Extent) {
        assert!(extent.len > 0, "no extent is empty: {extent:?}");
        let footprint = self.footprint(extent.len);
        match self.class_of(extent.len) {
            Some(class) => self.give_slot(class, extent.offset),
            None => {
                let first = usize::try_from(extent.offset / SLAB).ok();
                let state = first.and_then(|slab| self.slabs.get(slab));
                assert!(
                    extent.offset.is_multiple_of(SLAB)
                        && state.is_some_and(|slab| slab.slots.is_empty()),
                    "no such extent is in use: {extent:?}"
                );
                self.whole.release(Extent::new(extent.offset, footprint));
            }
        }
        self.used -= footprint;
    }

    /// Slots of a slab share their bookkeeping: there is nothing to wait for.
    fn prefetch_release(&self, _: Extent) {}

    /// The slot of its class, or whole slabs.
    fn footprint(&self, len: u64) -> u64 {
        match self.class_of(len) {
            _ if len == 0 => 0,
            Some(class) => self.classes[class].slot_len,
            None => len.checked_next_multiple_of(SLAB).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests;
