//! The stock policies in the most obvious form: scans and queues of small numbers. Slow, and right by inspection.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

/// A naive policy.
pub trait Oracle: fmt::Debug {
    /// The bytes of the store.
    fn set_capacity(&mut self, _: u64) {}
    /// A row became present.
    fn insert(&mut self, row: u32, hash: u64, len: u64);
    /// A present row is used.
    fn touch(&mut self, row: u32);
    /// A present row is gone.
    fn remove(&mut self, row: u32);
    /// Chooses and drops one row.
    fn evict(&mut self, held: &BTreeSet<u32>) -> Option<u32>;
}

/// Takes the first row that is not held; those before it go to the end.
fn first_unheld(order: &mut VecDeque<u32>, held: &BTreeSet<u32>) -> Option<u32> {
    for _ in 0..order.len() {
        let row = order.pop_front()?;
        if !held.contains(&row) {
            return Some(row);
        }
        order.push_back(row);
    }
    None
}

/// Exact recency.
#[derive(Debug, Default)]
pub struct NaiveLru {
    order: VecDeque<u32>,
}

impl NaiveLru {
    /// How many present rows were used less recently than `row`.
    #[must_use]
    pub fn rank(&self, row: u32) -> Option<usize> {
        self.order.iter().position(|other| *other == row)
    }
}

impl Oracle for NaiveLru {
    fn insert(&mut self, row: u32, _: u64, _: u64) {
        self.order.push_back(row);
    }

    fn touch(&mut self, row: u32) {
        self.remove(row);
        self.order.push_back(row);
    }

    fn remove(&mut self, row: u32) {
        self.order.retain(|other| *other != row);
    }

    fn evict(&mut self, held: &BTreeSet<u32>) -> Option<u32> {
        first_unheld(&mut self.order, held)
    }
}

/// Exact order of arrival.
#[derive(Debug, Default)]
pub struct NaiveFifo {
    order: VecDeque<u32>,
}

impl Oracle for NaiveFifo {
    fn insert(&mut self, row: u32, _: u64, _: u64) {
        self.order.push_back(row);
    }

    fn touch(&mut self, _: u32) {}

    fn remove(&mut self, row: u32) {
        self.order.retain(|other| *other != row);
    }

    fn evict(&mut self, held: &BTreeSet<u32>) -> Option<u32> {
        first_unheld(&mut self.order, held)
    }
}

/// S3-FIFO as the reference tables define it, over bytes. Knows nothing of holds.
#[derive(Debug, Default)]
pub struct NaiveS3Fifo {
    small_share: u64,
    main_share: u64,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghost: VecDeque<u64>,
    /// Hash, length and uses of each row.
    rows: BTreeMap<u32, (u64, u64, u32)>,
}

impl NaiveS3Fifo {
    fn bytes(&self, queue: &VecDeque<u32>) -> u64 {
        queue.iter().map(|row| self.rows[row].1).sum()
    }

    fn evict_from_main(&mut self) -> Option<u32> {
        loop {
            let row = self.main.pop_front()?;
            let (_, _, uses) = self.rows.get_mut(&row)?;
            if *uses == 0 {
                self.rows.remove(&row);
                return Some(row);
            }
            *uses -= 1;
            self.main.push_back(row);
        }
    }

    fn remember(&mut self, hash: u64) {
        let bytes: u64 = self.rows.values().map(|(_, len, _)| len).sum();
        let keys_max = self.main_share * self.rows.len() as u64 / bytes.max(1);
        self.ghost.push_back(hash);
        for _ in 0..2 {
            if self.ghost.len() as u64 > keys_max {
                self.ghost.pop_front();
            }
        }
    }
}

impl Oracle for NaiveS3Fifo {
    fn set_capacity(&mut self, bytes: u64) {
        self.small_share = bytes / 10;
        self.main_share = bytes - bytes / 10;
    }

    fn insert(&mut self, row: u32, hash: u64, len: u64) {
        self.rows.insert(row, (hash, len, 0));
        match self.ghost.iter().position(|known| *known == hash) {
            Some(at) => {
                self.ghost.remove(at);
                self.main.push_back(row);
            }
            None => self.small.push_back(row),
        }
    }

    fn touch(&mut self, row: u32) {
        let (_, _, uses) = self.rows.get_mut(&row).expect("the row is present");
        *uses = (*uses + 1).min(3);
    }

    fn remove(&mut self, row: u32) {
        self.rows.remove(&row);
        self.small.retain(|other| *other != row);
        self.main.retain(|other| *other != row);
    }

    fn evict(&mut self, held: &BTreeSet<u32>) -> Option<u32> {
        assert!(held.is_empty(), "this oracle knows no holds");
        loop {
            let over = !self.small.is_empty() && self.bytes(&self.small) >= self.small_share;
            if !over && !self.main.is_empty() {
                return self.evict_from_main();
            }
            let row = *self.small.front()?;
            let (hash, len, uses) = self.rows[&row];
            if uses <= 1 {
                self.remember(hash);
                self.remove(row);
                return Some(row);
            }
            let mut victim = None;
            if self.bytes(&self.main) + len > self.main_share {
                victim = self.evict_from_main();
            }
            if victim.is_none() || self.bytes(&self.main) + len <= self.main_share {
                self.small.pop_front();
                self.main.push_back(row);
                self.rows.insert(row, (hash, len, 0));
            }
            if victim.is_some() {
                return victim;
            }
        }
    }
}
