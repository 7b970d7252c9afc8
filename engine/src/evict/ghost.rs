//! What was evicted not long ago: hashes of keys, first in, first out.
//!
//! A table of hashes that grows by splitting one bucket at a time (linear hashing) and entries in chunks, so that no call
//! moves the whole of it. Owns hashes of what is gone; refuses to know rows of what is there.

use super::list::Lists;
use crate::Row;
use ziggurat_base::{ByteCount, hash::mix};

/// The list of what is remembered.
const REMEMBERED: usize = 0;

/// The list of entries that are free for reuse.
const SPARE: usize = 1;

/// Bucket heads per chunk.
const CHUNK: usize = 4096;

/// End of a bucket's chain.
const NONE: u32 = u32::MAX;

/// Hashes that one call forgets at most when the bound has come down.
const FORGET_MAX: u32 = 2;

/// One hash and the next entry of its bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Shade {
    hash: u64,
    next: u32,
}

/// A bounded memory of hashes.
#[derive(Debug)]
pub(super) struct Ghost {
    shades: Lists<Shade, 2>,
    /// Entries ever made; the numbers below are remembered or spare.
    made: u32,
    remembered: u32,
    heads: Vec<Box<[u32; CHUNK]>>,
    /// Buckets in use, at least 1.
    buckets: usize,
}

impl Ghost {
    pub(super) fn new() -> Self {
        Self {
            shades: Lists::new(),
            made: 0,
            remembered: 0,
            heads: vec![Box::new([NONE; CHUNK])],
            buckets: 1,
        }
    }

    /// Remembers `hash`; what is over `keys_max` is forgotten, the oldest first, a few in each call.
    pub(super) fn remember(&mut self, hash: u64, keys_max: u64) {
        self.grow();
        let entry = self.shades.oldest(SPARE).unwrap_or(Row(self.made));
        if entry.0 == self.made {
            self.made += 1;
        } else {
            self.shades.take(entry);
        }
        let head = self.head(self.bucket(hash));
        let next = std::mem::replace(head, entry.0);
        self.shades.push(REMEMBERED, entry, Shade { hash, next });
        self.remembered += 1;
        for _ in 0..FORGET_MAX {
            if u64::from(self.remembered) > keys_max
                && let Some(oldest) = self.shades.oldest(REMEMBERED)
            {
                self.forget(oldest);
            }
        }
    }

    /// Whether `hash` is remembered; it is forgotten by that.
    pub(super) fn recall(&mut self, hash: u64) -> bool {
        let mut at = *self.head(self.bucket(hash));
        while at != NONE {
            let shade = *self.shades.item(Row(at));
            if shade.hash == hash {
                self.forget(Row(at));
                return true;
            }
            at = shade.next;
        }
        false
    }

    pub(super) fn memory(&self) -> ByteCount {
        let heads = self.heads.len() * size_of::<[u32; CHUNK]>()
            + self.heads.capacity() * size_of::<Box<[u32; CHUNK]>>();
        ByteCount(self.shades.memory().0 + heads as u64)
    }

    /// Takes an entry out of its bucket and makes it spare.
    fn forget(&mut self, entry: Row) {
        let Shade { hash, next } = *self.shades.item(entry);
        let bucket = self.bucket(hash);
        let mut at = *self.head(bucket);
        if at == entry.0 {
            *self.head(bucket) = next;
        } else {
            while self.shades.item(Row(at)).next != entry.0 {
                at = self.shades.item(Row(at)).next;
            }
            self.shades.item_mut(Row(at)).next = next;
        }
        self.shades.requeue(SPARE, entry);
        self.remembered -= 1;
    }

    fn head(&mut self, bucket: usize) -> &mut u32 {
        &mut self.heads[bucket / CHUNK][bucket % CHUNK]
    }

    /// The bucket of a hash: its low bits, one bit more for the buckets that were split in this round.
    fn bucket(&self, hash: u64) -> usize {
        let spread = mix(hash) as usize;
        let round = self.buckets.next_power_of_two();
        let bucket = spread & (round - 1);
        if bucket < self.buckets {
            bucket
        } else {
            bucket - round / 2
        }
    }

    /// Splits one bucket when there are more entries than buckets.
    fn grow(&mut self) {
        if (self.remembered as usize) < self.buckets {
            return;
        }
        let new = self.buckets;
        if new / CHUNK == self.heads.len() {
            self.heads.push(Box::new([NONE; CHUNK]));
        }
        self.buckets += 1;
        let old = new - self.buckets.next_power_of_two() / 2;
        let mut at = std::mem::replace(self.head(old), NONE);
        while at != NONE {
            let hash = self.shades.item(Row(at)).hash;
            let head = self.head(self.bucket(hash));
            let first = std::mem::replace(head, at);
            at = std::mem::replace(&mut self.shades.item_mut(Row(at)).next, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ghost;
    use std::collections::VecDeque;
    use ziggurat_base::hash::Dice;

    #[test]
    fn remembers_exactly_the_last_keys_and_each_once() {
        let mut dice = Dice::new(4);
        let mut ghost = Ghost::new();
        let mut naive = VecDeque::new();
        for step in 0..200_000_u64 {
            let keys_max = if step < 100_000 { 9_000 } else { 300 };
            let hash = dice.below(20_000);
            let known = naive.iter().position(|known| *known == hash);
            if step % 101 == 0 {
                assert_eq!(ghost.recall(hash), known.is_some());
                known.and_then(|at| naive.remove(at));
            } else if known.is_none() {
                ghost.remember(hash, keys_max);
                naive.push_back(hash);
                for _ in 0..2 {
                    if naive.len() as u64 > keys_max {
                        naive.pop_front();
                    }
                }
            }
        }
        assert_eq!(ghost.remembered as usize, naive.len());
        assert!(ghost.made < 9_002, "entries are reused: {}", ghost.made);
    }
}
