//! S3-FIFO: what is used only once passes through a small queue and does not disturb the main one.
//!
//! The rules are those of the reference tables, with bytes for blocks: the small queue has a tenth of the capacity, the
//! main queue the rest. A use raises a row's counter, to 3 at most. Room is made in the small queue while it is at or over
//! its share or the main one is empty, else in the main queue. The oldest row of the small queue moves to the main queue
//! with its counter at 0 when that was above 1, after room has been made there; otherwise it leaves and its hash is
//! remembered. The oldest row of the main queue goes to its young end with its counter lowered, or leaves when that was 0.
//! A key that is remembered when it comes back enters the main queue.
//!
//! As many hashes are remembered as the main queue can hold rows, taking the present mean length of all rows.
//!
//! A held row that would have to leave goes to the young end of its queue instead.

use super::{EvictionPolicy, ghost::Ghost, list::Lists};
use crate::Row;
use ziggurat_base::ByteCount;

/// Counters stop here.
const USES_MAX: u64 = 3;

/// A row of the small queue with more uses than this stays, in the main queue.
const USES_TO_LEAVE: u64 = 1;

/// The small queue has one part in this many of the capacity.
const SMALL_PART: u64 = 10;

/// Times that each row of the main queue may be vetoed in one call: its neighbours need that many rounds until they have
/// no uses left.
const MAIN_ROUNDS: u64 = USES_MAX + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

/// What is known of a row: the hash of its key, and its length, uses and queue in one word.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    hash: u64,
    packed: u64,
}

impl Entry {
    const LEN_SHIFT: u32 = 3;

    fn new(hash: u64, len: ByteCount, queue: Queue) -> Self {
        assert!(len.0 >> (64 - Self::LEN_SHIFT) == 0, "{len} is no length");
        let mut entry = Self {
            hash,
            packed: len.0 << Self::LEN_SHIFT,
        };
        entry.enter(queue);
        entry
    }

    fn len(self) -> u64 {
        self.packed >> Self::LEN_SHIFT
    }

    fn uses(self) -> u64 {
        self.packed & USES_MAX
    }

    fn set_uses(&mut self, uses: u64) {
        self.packed = self.packed & !USES_MAX | uses;
    }

    fn queue(self) -> Queue {
        if self.packed & 4 == 0 {
            Queue::Small
        } else {
            Queue::Main
        }
    }

    /// Enters `queue`, without uses.
    fn enter(&mut self, queue: Queue) {
        self.packed = self.packed & !7 | if queue == Queue::Main { 4 } else { 0 };
    }
}

/// What a queue holds, and the bytes that it may hold.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    rows: u64,
    bytes: u64,
    share: u64,
}

impl Load {
    fn add(&mut self, len: u64) {
        self.rows += 1;
        self.bytes += len;
    }

    fn subtract(&mut self, len: u64) {
        self.rows -= 1;
        self.bytes -= len;
    }
}

/// Rows that were vetoed in one call.
#[derive(Debug, Default)]
struct Vetoes {
    small: u64,
    main: u64,
}

/// The policy.
#[derive(Debug)]
pub struct S3Fifo {
    lists: Lists<Entry, 2>,
    small: Load,
    main: Load,
    ghost: Ghost,
}

impl Default for S3Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl S3Fifo {
    /// An empty policy.
    #[must_use]
    pub fn new() -> Self {
        Self {
            lists: Lists::new(),
            small: Load::default(),
            main: Load::default(),
            ghost: Ghost::new(),
        }
    }

    fn load(&mut self, queue: Queue) -> &mut Load {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    /// The queue in which room is made; `None` when all of both is held.
    fn source(&self, vetoes: &Vetoes) -> Option<Queue> {
        let small = self.small.rows > vetoes.small;
        let main = self.main_may_give(vetoes);
        match (small, main) {
            (true, true) if self.small.bytes >= self.small.share => Some(Queue::Small),
            (_, true) => Some(Queue::Main),
            (true, false) => Some(Queue::Small),
            (false, false) => None,
        }
    }

    fn main_may_give(&self, vetoes: &Vetoes) -> bool {
        self.main.rows * MAIN_ROUNDS > vetoes.main
    }

    /// Looks at the oldest row of the small queue.
    fn look_at_small(
        &mut self,
        held: &mut dyn FnMut(Row) -> bool,
        vetoes: &mut Vetoes,
    ) -> Option<Row> {
        let row = self.lists.oldest(Queue::Small as usize)?;
        let entry = *self.lists.item(row);
        if entry.uses() > USES_TO_LEAVE {
            let full = self.main.bytes + entry.len() > self.main.share;
            if !(full && self.main_may_give(vetoes)) {
                self.promote(row);
                return None;
            }
            let victim = self.look_at_main(held, vetoes)?;
            let room = self.main.bytes - self.lists.item(victim).len();
            if room + entry.len() <= self.main.share {
                self.promote(row);
            }
            return Some(victim);
        }
        if held(row) {
            self.lists.requeue(Queue::Small as usize, row);
            vetoes.small += 1;
            return None;
        }
        Some(row)
    }

    /// Looks at the oldest row of the main queue.
    fn look_at_main(
        &mut self,
        held: &mut dyn FnMut(Row) -> bool,
        vetoes: &mut Vetoes,
    ) -> Option<Row> {
        let row = self.lists.oldest(Queue::Main as usize)?;
        let entry = self.lists.item_mut(row);
        if entry.uses() > 0 {
            entry.set_uses(entry.uses() - 1);
        } else if held(row) {
            vetoes.main += 1;
        } else {
            return Some(row);
        }
        self.lists.requeue(Queue::Main as usize, row);
        None
    }

    /// Moves a row from the small queue to the main one.
    fn promote(&mut self, row: Row) {
        let entry = self.lists.item_mut(row);
        entry.enter(Queue::Main);
        let len = entry.len();
        self.lists.requeue(Queue::Main as usize, row);
        self.small.subtract(len);
        self.main.add(len);
    }

    /// The number of hashes to remember.
    fn ghost_keys_max(&self) -> u64 {
        let rows = self.small.rows + self.main.rows;
        let bytes = (self.small.bytes + self.main.bytes).max(1);
        let keys = u128::from(self.main.share) * u128::from(rows) / u128::from(bytes);
        u64::try_from(keys).unwrap_or(u64::MAX)
    }
}

impl EvictionPolicy for S3Fifo {
    fn name(&self) -> &'static str {
        "s3_fifo"
    }

    fn set_capacity(&mut self, capacity: ByteCount) {
        self.small.share = capacity.0 / SMALL_PART;
        self.main.share = capacity.0 - self.small.share;
    }

    fn insert(&mut self, row: Row, hash: u64, len: ByteCount) {
        let queue = if self.ghost.recall(hash) {
            Queue::Main
        } else {
            Queue::Small
        };
        self.lists
            .push(queue as usize, row, Entry::new(hash, len, queue));
        self.load(queue).add(len.0);
    }

    fn touch(&mut self, row: Row) {
        let entry = self.lists.item_mut(row);
        entry.set_uses((entry.uses() + 1).min(USES_MAX));
    }

    fn remove(&mut self, row: Row) {
        let entry = self.lists.take(row);
        self.load(entry.queue()).subtract(entry.len());
    }

    fn evicted(&mut self, row: Row) {
        let entry = *self.lists.item(row);
        if entry.queue() == Queue::Small {
            self.ghost.remember(entry.hash, self.ghost_keys_max());
        }
        self.remove(row);
    }

    fn propose(&mut self, held: &mut dyn FnMut(Row) -> bool, steps: &mut u32) -> Option<Row> {
        let mut vetoes = Vetoes::default();
        while *steps > 0 {
            let queue = self.source(&vetoes)?;
            *steps -= 1;
            let victim = match queue {
                Queue::Small => self.look_at_small(held, &mut vetoes),
                Queue::Main => self.look_at_main(held, &mut vetoes),
            };
            if victim.is_some() {
                return victim;
            }
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
        self.small.rows + self.main.rows
    }

    fn memory(&self) -> ByteCount {
        ByteCount(self.lists.memory().0 + self.ghost.memory().0)
    }
}

#[cfg(test)]
mod tests {
    use super::S3Fifo;
    use crate::testkit::evict::{NaiveS3Fifo, Step, compare, histories};
    use proptest::prelude::*;
    use ziggurat_base::hash::Dice;

    crate::policy_contract!(contract, Box::new(S3Fifo::new()));

    proptest! {
        #[test]
        fn victims_are_those_of_the_oracle(history in histories(60, 2, 0), capacity in 1..50_u64) {
            compare(Box::new(S3Fifo::new()), &mut NaiveS3Fifo::default(), capacity, &history);
        }

        #[test]
        fn victims_of_any_length_are_those_of_the_oracle(history in histories(60, 40, 0), capacity in 1..900_u64) {
            compare(Box::new(S3Fifo::new()), &mut NaiveS3Fifo::default(), capacity, &history);
        }
    }

    #[test]
    fn a_long_run_with_a_busy_ghost_agrees_with_the_oracle() {
        let mut dice = Dice::new(1);
        let history: Vec<Step> = (0..60_000)
            .map(|_| {
                // Squared, so that small keys are popular.
                let part = dice.below(1_000) * dice.below(1_000);
                Step::Access {
                    key: part / 1_500,
                    len: 1,
                }
            })
            .collect();
        let victims = compare(
            Box::new(S3Fifo::new()),
            &mut NaiveS3Fifo::default(),
            100,
            &history,
        );
        assert!(victims > 10_000);
    }

    #[test]
    fn an_entry_takes_sixteen_bytes() {
        assert_eq!(size_of::<super::Entry>(), 16);
    }
}
