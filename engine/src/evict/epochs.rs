//! Spans of recency: which of at most [`EPOCHS_MAX`] spans of time a row was last used in.
//!
//! Time is a number that grows by one with every span. Neighbouring spans that have become thin, because their rows were
//! used again, are joined, so that the table stays small while every span holds at most its quota of rows. Owns numbers,
//! counts and the assignment of list numbers; refuses to know rows.
//!
//! Invariant: `last` ascends, and `rows[i]` is the number of rows whose number lies in `(last[i - 1], last[i]]`, plus those
//! that are noted in `left`. Finding the span of a number takes a search; done at once it would stand behind the cache
//! miss for the row and keep the processor from starting the next one, so departures are noted and counted in lots.

use ziggurat_base::ByteCount;

/// Spans in the table, and lists that the policy needs for them.
pub(super) const EPOCHS_MAX: usize = 1024;

/// A span holds at most this part of the rows. Joining leaves at most `2 * SHARE + 1` spans, about half of the table.
pub(super) const SHARE: usize = 256;

/// Spans joined in one call, so that a call stays short when every join misses the cache.
const JOINS_MAX: usize = 128;

/// Departures noted before they are counted.
const LEFT_MAX: usize = 256;

/// The table. Entries before `first` are drained and dead.
#[derive(Debug)]
pub(super) struct Epochs {
    last: Vec<u64>,
    rows: Vec<u32>,
    list: Vec<u16>,
    first: usize,
    spare: Vec<u16>,
    /// Numbers of rows that have left their spans and are still counted there.
    left: Vec<u64>,
}

impl Epochs {
    pub(super) fn new() -> Self {
        let mut epochs = Self {
            last: Vec::with_capacity(EPOCHS_MAX),
            rows: Vec::with_capacity(EPOCHS_MAX),
            list: Vec::with_capacity(EPOCHS_MAX),
            first: 0,
            spare: (0..EPOCHS_MAX as u16).rev().collect(),
            left: Vec::with_capacity(LEFT_MAX),
        };
        epochs.append(1);
        epochs
    }

    /// The present span: its number.
    pub(super) fn present(&self) -> u64 {
        self.last[self.last.len() - 1]
    }

    /// Rows last used in the present span, and those that have gone since.
    pub(super) fn present_rows(&self) -> u32 {
        self.rows[self.rows.len() - 1]
    }

    /// The list of the span that `epoch` lies in.
    pub(super) fn list_of(&self, epoch: u64) -> usize {
        usize::from(self.list[self.find(epoch)])
    }

    /// The oldest span: its last number and its list.
    pub(super) fn oldest(&self) -> (u64, usize) {
        (self.last[self.first], usize::from(self.list[self.first]))
    }

    /// A row is used now, for the first time or after `leave`.
    pub(super) fn enter(&mut self) {
        let present = self.rows.len() - 1;
        self.rows[present] += 1;
    }

    /// A row that was last used in `epoch` is used again or has gone.
    pub(super) fn leave(&mut self, epoch: u64) {
        self.left.push(epoch);
        if self.left.len() == LEFT_MAX {
            self.count_left();
        }
    }

    fn count_left(&mut self) {
        for at in 0..self.left.len() {
            let span = self.find(self.left[at]);
            self.rows[span] -= 1;
        }
        self.left.clear();
    }

    /// Forgets the oldest span, whose list must be empty. False when only the present one is left.
    pub(super) fn drop_oldest(&mut self) -> bool {
        if self.first + 1 == self.last.len() {
            return false;
        }
        self.count_left();
        assert_eq!(
            self.rows[self.first], 0,
            "a row of the oldest span is linked in a younger one"
        );
        self.spare.push(self.list[self.first]);
        self.first += 1;
        true
    }

    /// Starts a new span. In a full table, thin neighbours are joined first, `quota` rows at most together; `join(target,
    /// source)` must put the rows of the list `source` at the old end of `target`.
    pub(super) fn begin(&mut self, quota: u32, join: impl FnMut(usize, usize)) {
        let next = self.present() + 1;
        if self.last.len() == EPOCHS_MAX {
            self.count_left();
            self.compact(quota, join);
        }
        self.append(next);
    }

    pub(super) fn memory(&self) -> ByteCount {
        let spans = EPOCHS_MAX * (size_of::<u64>() + size_of::<u32>() + 2 * size_of::<u16>());
        ByteCount((spans + LEFT_MAX * size_of::<u64>()) as u64)
    }

    fn append(&mut self, epoch: u64) {
        let list = self.spare.pop().expect("there is a list for every span");
        self.last.push(epoch);
        self.rows.push(0);
        self.list.push(list);
    }

    /// Position of the span that `epoch` lies in.
    fn find(&self, epoch: u64) -> usize {
        self.first + self.last[self.first..].partition_point(|last| *last < epoch)
    }

    /// Moves the living spans to the front and joins thin neighbours on the way. The present span is left alone.
    fn compact(&mut self, quota: u32, mut join: impl FnMut(usize, usize)) {
        let present = self.last.len() - 1;
        let mut joins = 0;
        let mut to = 0;
        self.keep(self.first, to);
        for from in self.first + 1..=present {
            let together = self.rows[to].saturating_add(self.rows[from]);
            if from < present && together <= quota && joins < JOINS_MAX {
                join(usize::from(self.list[from]), usize::from(self.list[to]));
                self.spare.push(self.list[to]);
                self.keep(from, to);
                self.rows[to] = together;
                joins += 1;
            } else {
                to += 1;
                self.keep(from, to);
            }
        }
        self.first = 0;
        self.last.truncate(to + 1);
        self.rows.truncate(to + 1);
        self.list.truncate(to + 1);
        assert!(to + 1 < EPOCHS_MAX, "joining makes room");
    }

    fn keep(&mut self, from: usize, to: usize) {
        self.last[to] = self.last[from];
        self.rows[to] = self.rows[from];
        self.list[to] = self.list[from];
    }
}

#[cfg(test)]
mod tests {
    use super::{EPOCHS_MAX, Epochs, SHARE};

    #[test]
    fn a_full_table_joins_what_is_thin_and_keeps_the_counts() {
        let mut epochs = Epochs::new();
        for _ in 0..10 * EPOCHS_MAX {
            epochs.enter();
            epochs.begin(16, |target, source| assert_ne!(target, source));
        }
        assert!(epochs.last.len() <= EPOCHS_MAX);
        assert_eq!(epochs.rows.iter().sum::<u32>() as usize, 10 * EPOCHS_MAX);
        assert!(epochs.rows.iter().all(|rows| *rows <= 16));
        assert!(epochs.last.is_sorted());
    }

    #[test]
    fn there_is_always_room_when_the_quota_is_a_share_of_the_rows() {
        for rows in [0, 1, 2, SHARE - 1, 2 * SHARE - 1, 2 * SHARE, 5000, 100_000] {
            let quota = (rows / SHARE).max(1) as u32;
            let mut epochs = Epochs::new();
            for _ in 0..rows {
                if epochs.present_rows() >= quota {
                    epochs.begin(quota, |_, _| ());
                }
                epochs.enter();
            }
            for step in 0..20_000_u64 {
                epochs.count_left();
                // One row after another is used again, the oldest first or the youngest first.
                let epoch = match step % 3 {
                    0 => epochs.present(),
                    _ => epochs.last[epochs.rows.iter().position(|rows| *rows > 0).unwrap_or(0)],
                };
                if rows > 0 {
                    epochs.leave(epoch);
                    epochs.begin(quota, |_, _| ());
                    epochs.enter();
                }
            }
            epochs.count_left();
            assert_eq!(epochs.rows.iter().sum::<u32>() as usize, rows);
        }
    }
}
