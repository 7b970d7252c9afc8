//! One hash table from hash to row number: open addressing with the hash beside the number.
//!
//! A slot is 8 bytes, so the one cache line that a look-up waits for has both the answer and the proof that it is
//! probably right; and growth moves slots without looking at the rows, which lie anywhere in memory.

/// Slots of the first allocation.
const SLOTS_MIN: usize = 8;

/// A slot: 32 bits of hash above, row number below. Row numbers are never all ones.
const EMPTY: u64 = u64::MAX;

/// See the module. Linear probing; removal closes the gap, so there are no tombstones.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    slots: Box<[u64]>,
    count: usize,
}

fn slot(hash: u32, row: u32) -> u64 {
    (u64::from(hash) << 32) | u64::from(row)
}

fn row_of(slot: u64) -> u32 {
    slot as u32
}

fn hash_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

impl Buckets {
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The first slot of this hash that `same` accepts: its position and its row. There is always an empty slot to end at.
    #[inline]
    fn position(&self, hash: u32, same: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        // Without slots this is no position of any.
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let slot = *self.slots.get(at)?;
            if slot == EMPTY {
                return None;
            }
            if hash_of(slot) == hash && same(row_of(slot)) {
                return Some((at, row_of(slot)));
            }
            at = (at + 1) & mask;
        }
    }

    /// The first row of this hash that `same` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash, same).map(|(_, row)| row)
    }

    /// Where a look-up of `hash` will begin.
    pub(super) fn line(&self, hash: u32) -> Option<&u64> {
        self.slots
            .get(hash as usize & self.slots.len().wrapping_sub(1))
    }

    /// Adds a row that is not there.
    pub(super) fn insert(&mut self, hash: u32, row: u32) {
        // At most three quarters full: a look-up of what is not there ends after a few slots.
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.place(slot(hash, row));
        self.count += 1;
    }

    fn place(&mut self, slot: u64) {
        let mask = self.mask();
        let mut at = hash_of(slot) as usize & mask;
        while self.slots[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        let larger = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; larger].into_boxed_slice());
        for slot in old.into_iter().filter(|slot| *slot != EMPTY) {
            self.place(slot);
        }
    }

    /// Removes a row that is there.
    pub(super) fn remove(&mut self, hash: u32, row: u32) {
        let found = self.position(hash, |other| other == row);
        let (mut gap, _) = found.expect("a row in use is in its table");
        let mask = self.mask();
        let mut next = gap;
        loop {
            next = (next + 1) & mask;
            let slot = self.slots[next];
            if slot == EMPTY {
                break;
            }
            // A slot may move back to the gap unless its own place lies behind it.
            let home = hash_of(slot) as usize & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(gap) & mask) {
                self.slots[gap] = slot;
                gap = next;
            }
        }
        self.slots[gap] = EMPTY;
        self.count -= 1;
    }

    /// Bytes of memory taken.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::Buckets;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(ops in prop::collection::vec((any::<bool>(), 0..24_u32, 0..40_u32), 1..400)) {
            let mut buckets = Buckets::default();
            let mut oracle = BTreeSet::new();
            for (add, hash, row) in ops {
                // Few hashes, so that probes run into each other and around the end.
                let hash = hash.wrapping_mul(0x2000_0001);
                if add && oracle.insert((hash, row)) {
                    buckets.insert(hash, row);
                } else if !add && oracle.remove(&(hash, row)) {
                    buckets.remove(hash, row);
                }
                for (hash, row) in &oracle {
                    prop_assert_eq!(buckets.find(*hash, |r| r == *row), Some(*row));
                }
                prop_assert_eq!(buckets.count, oracle.len());
                prop_assert_eq!(buckets.find(7, |_| true), None);
            }
        }
    }
}
