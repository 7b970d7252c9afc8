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

/// Rows that may be found to be used between two victims before the best of them has to go. More than the population
/// for which the order is exact, so that it is exact without exception.
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

/// The hunt for one victim, which may take several calls.
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
        self.search = Search::default();
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
                Some(row) => return Some(row),
                None => {}
            }
        }
        None
    }

    fn prefetch(&self, row: Row) {
        self.lists.prefetch(row);
    }

    fn memory(&self) -> ByteCount {
        ByteCount(self.lists.memory().0 + self.epochs.memory().0)
    }
}
