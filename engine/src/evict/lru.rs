//! Least recently used goes first, at one cache miss per use.
//!
//! Relinking a row at every use would touch three nodes. Here a use only writes the number of the present span of time
//! ([`Epochs`]) into the row's own node; there is one list per span, and a row is moved to the list of its span when it
//! comes up at the old end of the oldest one. A span ends when `population / 256` rows were last used in it.
//!
//! How exact it is: a victim is one of the `max(1, population / 256)` least recently used rows, of the population at the
//! time when its span was the present one; below 512 rows that is exact. One exception keeps the cost of a single
//! eviction bounded: when [`PATIENCE`] rows in a row turn out to have been used meanwhile, the least recently used of
//! those is the victim.
//!
//! A held row counts as used when it comes up.

use super::{
    EvictionPolicy,
    epochs::{EPOCHS_MAX, Epochs, SHARE},
    list::Lists,
};
use crate::Row;
use ziggurat_base::ByteCount;

/// Rows that one search may find to be used meanwhile before the best of them has to go. More than the population for
/// which the order is exact, so that the exception does not reach it.
const PATIENCE: u32 = 1024;

/// The policy.
#[derive(Debug)]
pub struct Lru {
    /// The item of a row is the span in which it was last used.
    lists: Lists<u64, EPOCHS_MAX>,
    epochs: Epochs,
    population: u32,
    search: Search,
}

/// The search for one victim. It outlives a call whose steps are used up, so that the victims do not depend on how the
/// caller divides its steps.
#[derive(Debug, Default)]
struct Search {
    /// Rows that were found to be used meanwhile.
    passed: u32,
    /// The least recently used of those, and the span in which it was used.
    best: Option<(Row, u64)>,
}

impl Search {
    fn pass(&mut self, row: Row, epoch: u64) {
        self.passed += 1;
        if self.best.is_none_or(|(_, best)| epoch < best) {
            self.best = Some((row, epoch));
        }
    }
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Lru {
    /// An empty policy.
    #[must_use]
    pub fn new() -> Self {
        Self {
            lists: Lists::new(),
            epochs: Epochs::new(),
            population: 0,
            search: Search::default(),
        }
    }

    /// The span that a use now belongs to; starts one when the present one has its fill.
    fn epoch(&mut self) -> u64 {
        let quota = (self.population / SHARE as u32).max(1);
        if self.epochs.present_rows() >= quota {
            let lists = &mut self.lists;
            self.epochs
                .begin(quota, |target, source| lists.join_older(target, source));
        }
        self.epochs.present()
    }

    /// The row at the old end of the oldest list and the last number of that list's span.
    fn oldest(&mut self) -> Option<(Row, u64)> {
        loop {
            let (last, list) = self.epochs.oldest();
            if let Some(row) = self.lists.oldest(list) {
                return Some((row, last));
            }
            if !self.epochs.drop_oldest() {
                return None;
            }
        }
    }

    /// A held row has come up: it is used, and linked where it belongs.
    fn requeue(&mut self, row: Row) {
        self.touch(row);
        let list = self.epochs.list_of(self.epochs.present());
        self.lists.requeue(list, row);
    }

    /// What the search has to settle for: the best row that it passed, if it is as it was then.
    fn settle(&mut self) -> Option<Row> {
        if self.search.passed < PATIENCE {
            return None;
        }
        let (row, epoch) = std::mem::take(&mut self.search).best?;
        (self.lists.contains(row) && *self.lists.item(row) == epoch).then_some(row)
    }

    fn forget(&mut self, row: Row) {
        let epoch = self.lists.take(row);
        self.epochs.leave(epoch);
        self.population -= 1;
    }
}

impl EvictionPolicy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn set_capacity(&mut self, _: ByteCount) {}

    fn insert(&mut self, row: Row, _: u64, _: ByteCount) {
        self.population += 1;
        let epoch = self.epoch();
        self.epochs.enter();
        self.lists.push(self.epochs.list_of(epoch), row, epoch);
    }

    fn touch(&mut self, row: Row) {
        let before = *self.lists.item(row);
        if before == self.epochs.present() {
            return;
        }
        let epoch = self.epoch();
        *self.lists.item_mut(row) = epoch;
        self.epochs.leave(before);
        self.epochs.enter();
    }

    fn remove(&mut self, row: Row) {
        self.forget(row);
    }

    fn evicted(&mut self, row: Row) {
        self.forget(row);
    }

    fn propose(&mut self, held: &mut dyn FnMut(Row) -> bool, steps: &mut u32) -> Option<Row> {
        // Two rounds of vetoes: one in which used rows find their place, and one that has seen every row.
        let mut vetoes = 2 * u64::from(self.population);
        while *steps > 0 && vetoes > 0 {
            let (row, last) = self.oldest()?;
            *steps -= 1;
            let used = *self.lists.item(row);
            let candidate = if used <= last {
                Some(row)
            } else {
                self.lists.requeue(self.epochs.list_of(used), row);
                self.search.pass(row, used);
                self.settle()
            };
            match candidate {
                Some(row) if held(row) => {
                    self.requeue(row);
                    vetoes -= 1;
                }
                Some(row) => {
                    self.search = Search::default();
                    return Some(row);
                }
                None => {}
            }
        }
        if vetoes == 0 {
            self.search = Search::default();
        }
        None
    }

    fn prefetch(&self, row: Row) {
        self.lists.prefetch(row);
    }

    fn prefetch_removal(&self, row: Row) {
        self.lists.prefetch_neighbours(row);
    }

    fn len(&self) -> u64 {
        u64::from(self.population)
    }

    fn memory(&self) -> ByteCount {
        ByteCount(self.lists.memory().0 + self.epochs.memory().0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Lru, PATIENCE};
    use crate::{
        Row,
        evict::EvictionPolicy,
        testkit::evict::{NaiveLru, Oracle, Step, compare, histories},
    };
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use ziggurat_base::{ByteCount, hash::Dice};

    crate::policy_contract!(contract, Box::new(Lru::new()));

    proptest! {
        #[test]
        fn few_rows_go_exactly_in_order(history in histories(60, 2, 20)) {
            compare(Box::new(Lru::new()), &mut NaiveLru::default(), 40, &history);
        }
    }

    #[test]
    fn five_hundred_rows_go_exactly_in_order_over_many_spans() {
        let mut dice = Dice::new(3);
        // Most uses go to a few hot keys, so that spans grow thin and are joined again and again.
        let history: Vec<Step> = (0..60_000)
            .map(|_| {
                let keys = [4, 40, 400, 1_000][dice.below(4) as usize];
                Step::Access {
                    key: dice.below(keys),
                    len: 1,
                }
            })
            .collect();
        let victims = compare(
            Box::new(Lru::new()),
            &mut NaiveLru::default(),
            511,
            &history,
        );
        assert!(victims > 1_000);
    }

    /// A policy and its oracle with `rows` rows, used by chance, hot ones more often.
    fn used(rows: u32, uses: u64, seed: u64) -> (Lru, NaiveLru) {
        let mut dice = Dice::new(seed);
        let (mut lru, mut naive) = (Lru::new(), NaiveLru::default());
        for row in 0..rows {
            lru.insert(Row(row), 0, ByteCount(1));
            naive.insert(row, 0, 1);
        }
        for _ in 0..uses {
            let hot = [rows / 100, rows / 10, rows][dice.below(3) as usize];
            let row = dice.below(u64::from(hot.max(1))) as u32;
            lru.touch(Row(row));
            naive.touch(row);
        }
        (lru, naive)
    }

    #[test]
    fn a_victim_is_one_of_the_least_recently_used_256th() {
        for (rows, uses) in [
            (700, 3_000),
            (5_000, 20_000),
            (5_000, 100_000),
            (9_000, 4_000),
        ] {
            let (mut lru, mut naive) = used(rows, uses, u64::from(rows));
            let bound = (rows / 256).max(1) as usize;
            let mut left = rows;
            while let Some(Row(row)) = lru.propose(&mut |_| false, &mut u32::MAX.clone()) {
                let rank = naive.rank(row).expect("the row is present");
                assert!(
                    rank < bound,
                    "rank {rank} of {left}, with {rows} rows at first"
                );
                lru.evicted(Row(row));
                naive.remove(row);
                left -= 1;
            }
            assert_eq!(left, 0);
        }
    }

    #[test]
    fn one_victim_takes_bounded_steps_even_when_all_rows_were_used() {
        const ROWS: u32 = 50_000;
        let mut lru = Lru::new();
        for row in 0..ROWS {
            lru.insert(Row(row), 0, ByteCount(1));
        }
        for row in (0..ROWS).rev() {
            lru.touch(Row(row));
        }
        let mut rows = BTreeSet::new();
        for _ in 0..100 {
            let mut steps = 2 * PATIENCE;
            let row = lru.propose(&mut |_| false, &mut steps).expect("one can go");
            assert!(2 * PATIENCE - steps <= PATIENCE);
            lru.evicted(row);
            assert!(rows.insert(row));
        }
    }

    #[test]
    fn a_hundred_times_as_many_uses_as_rows_cost_no_more_memory() {
        let (few, _) = used(1_000, 10, 1);
        let (many, _) = used(1_000, 100_000, 1);
        assert_eq!(few.memory(), many.memory());
    }
}
