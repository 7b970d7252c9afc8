//! Which grains of an arena are in use: a bit for each, and a search for the first run that is long enough.
//!
//! Freed neighbours become one run without any work, and low addresses are used again first, so that memory which is warm
//! stays warm.

/// Size and alignment of what is handed out: a page, and what every device takes.
pub(crate) const GRAIN: usize = 4096;

const BITS: usize = u64::BITS as usize;

/// See the module.
#[derive(Debug)]
pub(crate) struct Grains {
    /// One bit for each grain, set when it is in use; bits behind the last grain are set for ever.
    words: Vec<u64>,
    count: usize,
    free: usize,
    /// Every word before this one is full.
    first: usize,
}

impl Grains {
    /// `count` grains, all free.
    pub(crate) fn new(count: usize) -> Self {
        let mut words = vec![0; count.div_ceil(BITS)];
        let spare = words.len() * BITS - count;
        if let Some(last) = words.last_mut().filter(|_| spare > 0) {
            *last = u64::MAX << (BITS - spare);
        }
        Self {
            words,
            count,
            free: count,
            first: 0,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// Takes the first run of `len` free grains and returns the index of its first.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        assert!(len > 0, "a run has at least one grain");
        if len > self.free {
            return None;
        }
        let start = self.find(len)?;
        self.each_word(start, len, |word, mask| *word |= mask);
        self.free -= len;
        Some(start)
    }

    /// Gives a run back, or a part of one.
    pub(crate) fn give(&mut self, start: usize, len: usize) {
        assert!(
            start + len <= self.count,
            "{len} grains at {start} lie outside the arena"
        );
        self.each_word(start, len, |word, mask| {
            assert!(*word & mask == mask, "grains at {start} are free already");
            *word &= !mask;
        });
        self.free += len;
        self.first = self.first.min(start / BITS);
    }

    fn find(&mut self, len: usize) -> Option<usize> {
        while self.words.get(self.first) == Some(&u64::MAX) {
            self.first += 1;
        }
        let mut at = self.first * BITS;
        loop {
            let start = self.next(at, Bit::Free)?;
            let end = self.next(start, Bit::InUse).unwrap_or(self.count);
            if end - start >= len {
                return Some(start);
            }
            at = end;
        }
    }

    /// The first grain of this kind from `at` on.
    fn next(&self, at: usize, bit: Bit) -> Option<usize> {
        let mut index = at / BITS;
        let mut hidden = (1_u64 << (at % BITS)) - 1;
        while let Some(word) = self.words.get(index) {
            let wanted = match bit {
                Bit::InUse => *word,
                Bit::Free => !*word,
            } & !hidden;
            if wanted != 0 {
                return Some(index * BITS + wanted.trailing_zeros() as usize);
            }
            hidden = 0;
            index += 1;
        }
        None
    }

    fn each_word(&mut self, start: usize, len: usize, mut change: impl FnMut(&mut u64, u64)) {
        let end = start + len;
        let mut at = start;
        while at < end {
            let here = (end - at).min(BITS - at % BITS);
            let mask = (u64::MAX >> (BITS - here)) << (at % BITS);
            change(&mut self.words[at / BITS], mask);
            at += here;
        }
    }
}

#[derive(Clone, Copy)]
enum Bit {
    Free,
    InUse,
}

#[cfg(test)]
mod tests {
    use super::Grains;
    use proptest::prelude::*;

    /// The naive books: one flag for each grain.
    fn first_run(flags: &[bool], len: usize) -> Option<usize> {
        (0..=flags.len().checked_sub(len)?)
            .find(|start| flags[*start..start + len].iter().all(|in_use| !in_use))
    }

    proptest! {
        #[test]
        fn runs_are_those_of_the_naive_books(
            count in 1_usize..300,
            steps in prop::collection::vec((any::<bool>(), 1_usize..90, any::<prop::sample::Index>()), 1..120),
        ) {
            let mut grains = Grains::new(count);
            let mut flags = vec![false; count];
            let mut runs: Vec<(usize, usize)> = Vec::new();
            for (take, len, which) in steps {
                if take {
                    let got = grains.take(len);
                    prop_assert_eq!(got, first_run(&flags, len));
                    if let Some(start) = got {
                        flags[start..start + len].fill(true);
                        runs.push((start, len));
                    }
                } else if !runs.is_empty() {
                    let (start, len) = runs.swap_remove(which.index(runs.len()));
                    grains.give(start, len);
                    flags[start..start + len].fill(false);
                }
                prop_assert_eq!(grains.free(), flags.iter().filter(|in_use| !**in_use).count());
            }
        }
    }

    #[test]
    fn the_last_word_ends_with_the_arena() {
        for count in [1, 63, 64, 65, 128] {
            let mut grains = Grains::new(count);
            assert_eq!(grains.take(count), Some(0));
            assert_eq!(grains.take(1), None);
            grains.give(0, count);
            assert_eq!(grains.take(count + 1), None);
            assert_eq!(grains.free(), count);
        }
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn what_is_free_is_not_given_back() {
        let mut grains = Grains::new(8);
        grains.take(2);
        grains.give(1, 2);
    }
}
