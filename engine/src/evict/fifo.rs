//! Oldest goes first, however often it is used.
//!
//! A held row that comes up goes to the young end: looking past it would cost a step in every later call.

use super::{EvictionPolicy, list::Lists};
use crate::Row;
use ziggurat_base::ByteCount;

/// The only list.
const QUEUE: usize = 0;

/// The policy.
#[derive(Debug)]
pub struct Fifo {
    rows: Lists<(), 1>,
    population: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Fifo {
    /// An empty policy.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rows: Lists::new(),
            population: 0,
        }
    }
}

impl EvictionPolicy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn set_capacity(&mut self, _: ByteCount) {}

    fn insert(&mut self, row: Row, _: u64, _: ByteCount) {
        self.rows.push(QUEUE, row, ());
        self.population += 1;
    }

    fn touch(&mut self, _: Row) {}

    fn remove(&mut self, row: Row) {
        self.rows.take(row);
        self.population -= 1;
    }

    fn evicted(&mut self, row: Row) {
        self.remove(row);
    }

    fn propose(&mut self, held: &mut dyn FnMut(Row) -> bool, steps: &mut u32) -> Option<Row> {
        for _ in 0..self.population {
            if *steps == 0 {
                break;
            }
            *steps -= 1;
            let row = self.rows.oldest(QUEUE)?;
            if !held(row) {
                return Some(row);
            }
            self.rows.requeue(QUEUE, row);
        }
        None
    }

    /// Nothing: a use does not look at the row.
    fn prefetch(&self, _: Row) {}

    fn prefetch_removal(&self, row: Row) {
        self.rows.prefetch_neighbours(row);
    }

    fn len(&self) -> u64 {
        u64::from(self.population)
    }

    fn memory(&self) -> ByteCount {
        self.rows.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::Fifo;
    use crate::testkit::evict::{NaiveFifo, compare, histories};
    use proptest::prelude::*;

    crate::policy_contract!(contract, Box::new(Fifo::new()));

    proptest! {
        #[test]
        fn victims_are_those_of_the_oracle(history in histories(60, 2, 20)) {
            compare(Box::new(Fifo::new()), &mut NaiveFifo::default(), 40, &history);
        }
    }
}
