//! The contract of [`EvictionPolicy`] as tests, and naive oracles of the stock policies.
//!
//! [`Watched`] drives a policy and asserts the contract at every call; [`policy_contract!`](crate::policy_contract) runs
//! the suite; [`compare`] plays one history on a policy and an oracle and asserts equal victims.

pub mod contract;
mod oracle;

pub use oracle::{NaiveFifo, NaiveLru, NaiveS3Fifo, Oracle};

use crate::{Row, evict::EvictionPolicy};
use std::collections::{BTreeMap, BTreeSet};
use ziggurat_base::ByteCount;

/// More steps than any test needs, few enough to end soon when they are not counted.
const STEPS_MAX: u32 = 1 << 22;

/// A policy together with what it was told; asserts the contract at every call.
#[derive(Debug)]
pub struct Watched {
    policy: Box<dyn EvictionPolicy>,
    present: BTreeSet<u32>,
}

impl Watched {
    /// Watches an empty policy with `capacity` bytes.
    #[must_use]
    pub fn new(mut policy: Box<dyn EvictionPolicy>, capacity: u64) -> Self {
        policy.set_capacity(ByteCount(capacity));
        Self {
            policy,
            present: BTreeSet::new(),
        }
    }

    /// The rows that are present.
    #[must_use]
    pub fn present(&self) -> &BTreeSet<u32> {
        &self.present
    }

    /// Inserts an absent row.
    pub fn insert(&mut self, row: u32, hash: u64, len: u64) {
        assert!(self.present.insert(row), "the test inserts {row} twice");
        self.policy.insert(Row(row), hash, ByteCount(len));
        self.assert_len();
    }

    /// Uses a present row.
    pub fn touch(&mut self, row: u32) {
        assert!(self.present.contains(&row), "the test touches absent {row}");
        self.policy.prefetch(Row(row));
        self.policy.touch(Row(row));
    }

    /// Removes a present row.
    pub fn remove(&mut self, row: u32) {
        assert!(self.present.remove(&row), "the test removes absent {row}");
        self.policy.remove(Row(row));
        self.assert_len();
    }

    fn assert_len(&self) {
        let (len, present) = (self.policy.len(), self.present.len() as u64);
        assert_eq!(len, present, "the policy counts what is present");
    }

    /// One call of `propose`: the row is present, was not vetoed, and every look was paid for.
    pub fn propose(&mut self, held: &BTreeSet<u32>, steps: &mut u32) -> Option<u32> {
        let before = *steps;
        let mut looks = 0;
        let row = self.policy.propose(
            &mut |row| {
                looks += 1;
                assert!(self.present.contains(&row.0), "{row:?} is not present");
                held.contains(&row.0)
            },
            steps,
        );
        assert!(*steps <= before, "steps are taken, never given");
        self.assert_len();
        assert!(
            looks <= before - *steps,
            "{looks} rows for {} steps",
            before - *steps
        );
        if let Some(Row(row)) = row {
            assert!(self.present.contains(&row), "{row} is not present");
            assert!(!held.contains(&row), "{row} is held");
            assert!(looks > 0, "{row} is proposed without asking");
        } else if *steps > 0 {
            assert!(self.present.is_subset(held), "an unheld row could go");
        }
        row.map(|row| row.0)
    }

    /// Evicts one row, with calls of `steps` each; `None` when all is held.
    pub fn evict(&mut self, held: &BTreeSet<u32>, steps: u32) -> Option<u32> {
        for _ in 0..STEPS_MAX / steps {
            let mut left = steps;
            if let Some(row) = self.propose(held, &mut left) {
                self.present.remove(&row);
                self.policy.evicted(Row(row));
                self.assert_len();
                return Some(row);
            }
            if left > 0 {
                return None;
            }
        }
        panic!("no row was proposed in {STEPS_MAX} steps");
    }
}

/// One step of a history. Keys are small numbers; a key's row is chosen by the driver.
#[derive(Clone, Debug)]
pub enum Step {
    /// Uses the key if it is present, else evicts until it fits and inserts it.
    Access {
        /// The key.
        key: u64,
        /// Its length, when it has to be inserted.
        len: u64,
    },
    /// Removes the key if it is present.
    Remove(u64),
    /// Evicts one row, with these keys held.
    Evict(BTreeSet<u64>),
}

/// A policy and an oracle in the same store.
#[derive(Debug)]
struct Match<'a> {
    policy: Watched,
    oracle: &'a mut dyn Oracle,
    capacity: u64,
    bytes: u64,
    /// Row and length of each key that is present.
    keys: BTreeMap<u64, (u32, u64)>,
    spare: Vec<u32>,
    victims: usize,
}

impl Match<'_> {
    fn play(&mut self, step: &Step) {
        match *step {
            Step::Access { key, len } => self.access(key, len),
            Step::Remove(key) => {
                if let Some((row, len)) = self.keys.remove(&key) {
                    self.policy.remove(row);
                    self.oracle.remove(row);
                    self.bytes -= len;
                    self.spare.push(row);
                }
            }
            Step::Evict(ref held) => {
                let rows = held.iter().filter_map(|key| self.keys.get(key));
                let held = rows.map(|(row, _)| *row).collect();
                self.evict(&held);
            }
        }
    }

    fn access(&mut self, key: u64, len: u64) {
        if let Some((row, _)) = self.keys.get(&key) {
            self.policy.touch(*row);
            self.oracle.touch(*row);
            return;
        }
        while self.bytes + len > self.capacity && !self.keys.is_empty() {
            self.evict(&BTreeSet::new());
        }
        let row = self.spare.pop().unwrap_or(self.keys.len() as u32);
        self.policy.insert(row, key, len);
        self.oracle.insert(row, key, len);
        self.keys.insert(key, (row, len));
        self.bytes += len;
    }

    fn evict(&mut self, held: &BTreeSet<u32>) {
        // Few steps a call, unless the vetoes of one call have to cover everything.
        let steps = if held.is_empty() { 3 } else { STEPS_MAX };
        let got = self.policy.evict(held, steps);
        let want = self.oracle.evict(held);
        assert_eq!(got, want, "victim number {}", self.victims);
        self.victims += usize::from(got.is_some());
        let gone = self.keys.extract_if(.., |_, (row, _)| Some(*row) == got);
        for (_, (row, len)) in gone {
            self.spare.push(row);
            self.bytes -= len;
        }
    }
}

/// Plays `history` in a store of exactly `capacity` bytes on the policy and the oracle, which must agree on every victim.
/// Returns the number of victims.
pub fn compare(
    policy: Box<dyn EvictionPolicy>,
    oracle: &mut dyn Oracle,
    capacity: u64,
    history: &[Step],
) -> usize {
    oracle.set_capacity(capacity);
    let mut game = Match {
        policy: Watched::new(policy, capacity),
        oracle,
        capacity,
        bytes: 0,
        keys: BTreeMap::new(),
        spare: Vec::new(),
        victims: 0,
    };
    for step in history {
        game.play(step);
    }
    game.victims
}

/// Histories over `keys` keys with lengths below `len_end`; some steps evict with `held_max` keys held at most.
#[cfg(test)]
pub(crate) fn histories(
    keys: u64,
    len_end: u64,
    held_max: usize,
) -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::{collection, prelude::*};
    let step = prop_oneof![
        20 => (0..keys, 1..len_end).prop_map(|(key, len)| Step::Access { key, len }),
        1 => (0..keys).prop_map(Step::Remove),
        2 => collection::btree_set(0..keys, 0..=held_max).prop_map(Step::Evict),
    ];
    collection::vec(step, 1..600)
}
