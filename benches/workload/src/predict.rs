//! The policy-only run: the hit rate of a policy at a capacity in blocks, without payload.
//!
//! Drives the engine's own policy objects by the method of the reference tables, each block of size one: for each
//! request, the leading run of present blocks is a hit; then all blocks are used from the last to the first, a present
//! one touched and an absent one inserted, after evictions while the store is full.

use crate::{Request, Totals};
use std::collections::HashMap;
use ziggurat_base::{
    ByteCount, Code, Error, Result,
    hash::{BuildIntHasher, mix},
};
use ziggurat_engine::{
    Row,
    evict::{EvictionPolicy, PolicyKind, ROWS_SPARED},
};

/// The most blocks that a prediction can hold.
pub const CAPACITY_BLOCKS_MAX: u64 = (Row::MAX - ROWS_SPARED) as u64;

/// What to predict.
#[derive(Clone, Copy, Debug)]
pub struct PredictOptions {
    /// The policy.
    pub policy: PolicyKind,
    /// Blocks that the store holds.
    pub capacity_blocks: u64,
    /// Stop after this many requests.
    pub requests_max: Option<u64>,
}

/// Runs the requests through the policy.
///
/// # Errors
/// [`Code::InvalidParams`] for a capacity of 0 or above [`CAPACITY_BLOCKS_MAX`], and whatever `requests` gives.
pub fn predict(
    requests: impl IntoIterator<Item = Result<Request>>,
    options: &PredictOptions,
) -> Result<Totals> {
    let mut cache = Cache::new(options)?;
    let mut totals = Totals::default();
    let requests_max = options.requests_max.unwrap_or(u64::MAX);
    for request in requests
        .into_iter()
        .take(usize::try_from(requests_max).unwrap_or(usize::MAX))
    {
        let request = request?;
        let run = request.blocks.iter().take_while(|id| cache.has(**id));
        totals.count(&request, run.count());
        for id in request.blocks.iter().rev() {
            cache.use_block(*id);
        }
    }
    totals.evictions = cache.evictions;
    Ok(totals)
}

/// A store without payload: which blocks are present, in which rows.
#[derive(Debug)]
struct Cache {
    policy: Box<dyn EvictionPolicy>,
    rows: HashMap<u64, Row, BuildIntHasher>,
    /// The block in each row; what a spare row holds means nothing.
    ids: Vec<u64>,
    spare: Vec<Row>,
    capacity: usize,
    evictions: u64,
}

impl Cache {
    fn new(options: &PredictOptions) -> Result<Self> {
        let capacity = options.capacity_blocks;
        if !(1..=CAPACITY_BLOCKS_MAX).contains(&capacity) {
            return Err(Error::new(
                Code::InvalidParams,
                format!("a capacity of {capacity} blocks: give 1 to {CAPACITY_BLOCKS_MAX} blocks"),
            ));
        }
        let mut policy = options.policy.build();
        policy.set_capacity(ByteCount(capacity));
        Ok(Self {
            policy,
            rows: HashMap::default(),
            ids: Vec::new(),
            spare: Vec::new(),
            capacity: capacity as usize,
            evictions: 0,
        })
    }

    fn has(&self, id: u64) -> bool {
        self.rows.contains_key(&id)
    }

    fn use_block(&mut self, id: u64) {
        if let Some(row) = self.rows.get(&id) {
            return self.policy.touch(*row);
        }
        while self.rows.len() >= self.capacity {
            self.evict();
        }
        let row = self.spare.pop().unwrap_or(Row(self.ids.len() as u32));
        if row.index() == self.ids.len() {
            self.ids.push(id);
        }
        self.ids[row.index()] = id;
        self.rows.insert(id, row);
        self.policy.insert(row, mix(id), ByteCount(1));
    }

    fn evict(&mut self) {
        let row = loop {
            let mut steps = u32::MAX;
            if let Some(row) = self.policy.propose(&mut |_| false, &mut steps) {
                break row;
            }
            assert_eq!(steps, 0, "with nothing held, something can go");
        };
        self.policy.evicted(row);
        self.rows.remove(&self.ids[row.index()]);
        self.spare.push(row);
        self.evictions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY_BLOCKS_MAX, PredictOptions, predict};
    use crate::{PolicyKind, Request, Totals};
    use std::collections::VecDeque;
    use ziggurat_base::{Code, Error, hash::Dice};

    fn options(policy: PolicyKind, capacity_blocks: u64) -> PredictOptions {
        PredictOptions {
            policy,
            capacity_blocks,
            requests_max: None,
        }
    }

    /// Prompts over a few growing prefixes.
    fn requests(seed: u64) -> Vec<Request> {
        let mut dice = Dice::new(seed);
        (0..2_000)
            .map(|at| {
                let chain = dice.below(20);
                let len = 1 + dice.below(12);
                Request {
                    timestamp_ms: at,
                    input_length: len * 512 - dice.below(512),
                    output_length: 1,
                    blocks: (0..len).map(|block| chain * 100 + block).collect(),
                }
            })
            .collect()
    }

    /// The method of the tables with a queue; recency moves used blocks to its end.
    fn naive(requests: &[Request], capacity: usize, recency: bool) -> Totals {
        let mut queue = VecDeque::new();
        let mut totals = Totals::default();
        let mut evictions = 0;
        for request in requests {
            let present = |id: &&u64| queue.contains(*id);
            totals.count(request, request.blocks.iter().take_while(present).count());
            for id in request.blocks.iter().rev() {
                let known = queue.iter().position(|other| other == id);
                match known {
                    Some(at) if recency => drop(queue.remove(at)),
                    Some(_) => continue,
                    None if queue.len() == capacity => {
                        queue.pop_front();
                        evictions += 1;
                    }
                    None => {}
                }
                queue.push_back(*id);
            }
        }
        totals.evictions = evictions;
        totals
    }

    #[test]
    fn predictions_are_those_of_the_naive_model() {
        for seed in 0..3 {
            let requests = requests(seed);
            for capacity in [1, 3, 11, 40, 100, 1_000] {
                for (policy, recency) in [(PolicyKind::Lru, true), (PolicyKind::Fifo, false)] {
                    let got = predict(requests.iter().cloned().map(Ok), &options(policy, capacity))
                        .unwrap();
                    assert_eq!(got, naive(&requests, capacity as usize, recency));
                }
            }
        }
    }

    #[test]
    fn everything_fits_in_the_largest_store() {
        for policy in PolicyKind::ALL {
            let got = predict(
                requests(1).into_iter().map(Ok),
                &options(policy, CAPACITY_BLOCKS_MAX),
            )
            .unwrap();
            assert_eq!(got.evictions, 0);
            assert!(got.prefix_token_hit_rate > 0.9);
        }
    }

    #[test]
    fn a_limit_ends_the_run_before_what_follows() {
        let bad = Err(Error::from(Code::InvalidParams));
        let limited = PredictOptions {
            requests_max: Some(5),
            ..options(PolicyKind::Lru, 10)
        };
        let with_bad = || requests(2).into_iter().take(5).map(Ok).chain([bad.clone()]);
        assert_eq!(predict(with_bad(), &limited).unwrap().requests, 5);
        assert!(predict(with_bad(), &options(PolicyKind::Lru, 10)).is_err());
    }

    #[test]
    fn an_impossible_capacity_is_named() {
        for capacity in [0, CAPACITY_BLOCKS_MAX + 1] {
            let error = predict([], &options(PolicyKind::Lru, capacity)).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
            assert!(error.what().contains(&capacity.to_string()), "{error}");
        }
    }
}
