//! Which bins hold a span: one bit each, and one bit per word above them, so that the next one is two steps away.

use super::span::BINS;

const WORDS: usize = BINS.div_ceil(64);
const _: () = assert!(WORDS <= 64, "one word must summarise all of them");

/// A set of bin numbers.
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    words: [u64; WORDS],
    summary: u64,
}

impl Bitmap {
    pub(super) fn new() -> Self {
        Self {
            words: [0; WORDS],
            summary: 0,
        }
    }

    pub(super) fn insert(&mut self, bin: usize) {
        self.words[bin / 64] |= 1 << (bin % 64);
        self.summary |= 1 << (bin / 64);
    }

    pub(super) fn remove(&mut self, bin: usize) {
        self.words[bin / 64] &= !(1 << (bin % 64));
        if self.words[bin / 64] == 0 {
            self.summary &= !(1 << (bin / 64));
        }
    }

    /// The smallest member that is at least `bin`.
    pub(super) fn at_or_above(&self, bin: usize) -> Option<usize> {
        let here = self.words.get(bin / 64)? & (u64::MAX << (bin % 64));
        if here != 0 {
            return Some(bin / 64 * 64 + here.trailing_zeros() as usize);
        }
        let above = self.summary & u64::MAX.checked_shl(bin as u32 / 64 + 1).unwrap_or(0);
        let word = (above != 0).then(|| above.trailing_zeros() as usize)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The largest member that is below `bin`.
    pub(super) fn below(&self, bin: usize) -> Option<usize> {
        let word = (bin / 64).min(WORDS - 1);
        let kept = (bin - word * 64).min(64) as u32;
        let here = self.words[word] & !u64::MAX.checked_shl(kept).unwrap_or(0);
        if here != 0 {
            return Some(word * 64 + here.ilog2() as usize);
        }
        let lower = self.summary & !(u64::MAX << word);
        let word = lower.checked_ilog2()? as usize;
        Some(word * 64 + self.words[word].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::span::BINS, Bitmap};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn finds_what_a_sorted_set_finds(
            steps in prop::collection::vec((any::<bool>(), 0..BINS), 0..60),
            probes in prop::collection::vec(0..=BINS, 20),
        ) {
            let mut bitmap = Bitmap::new();
            let mut set = BTreeSet::new();
            for (add, bin) in steps {
                if add {
                    bitmap.insert(bin);
                    set.insert(bin);
                } else {
                    bitmap.remove(bin);
                    set.remove(&bin);
                }
            }
            for bin in probes {
                prop_assert_eq!(bitmap.at_or_above(bin), set.range(bin..).next().copied());
                prop_assert_eq!(bitmap.below(bin), set.range(..bin).next_back().copied());
            }
        }
    }
}
