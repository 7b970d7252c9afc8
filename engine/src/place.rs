//! On which segments a new object goes.

use std::{fmt, str::FromStr};
use ziggurat_base::{Code, Error, hash::Dice};

pub mod free_ratio_first;
pub mod random;

/// What placement may know of the segments that take objects; indices are dense.
pub trait Fleet {
    /// How many there are.
    fn count(&self) -> usize;
    /// Free bytes over capacity, 0 to 1.
    fn free_ratio(&self, index: usize) -> f64;
}

/// The most segments that one put tries.
pub const TRIES_MAX: usize = 100;

/// Orders segments for the replicas of one object.
pub trait PlacementPolicy: fmt::Debug + Send {
    /// The name used in configuration and reports.
    fn name(&self) -> &'static str;

    /// Appends to `order` the segments to try for `replicas` more replicas, best first, each at most once and no more
    /// than [`TRIES_MAX`]. `dice` is the only randomness.
    fn order(&self, replicas: usize, fleet: &dyn Fleet, dice: &mut Dice, order: &mut Vec<usize>);
}

/// The strategies that configuration can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementKind {
    /// A random segment, then its neighbours.
    #[default]
    Random,
    /// The emptiest of a small sample.
    FreeRatioFirst,
}

impl PlacementKind {
    /// The strategy itself.
    #[must_use]
    pub fn build(self) -> Box<dyn PlacementPolicy> {
        match self {
            Self::Random => Box::new(random::Random),
            Self::FreeRatioFirst => Box::new(free_ratio_first::FreeRatioFirst),
        }
    }
}

impl fmt::Display for PlacementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.build().name())
    }
}

impl FromStr for PlacementKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "random" => Ok(Self::Random),
            "free_ratio_first" => Ok(Self::FreeRatioFirst),
            _ => Err(Error::new(
                Code::InvalidParams,
                format!("{text:?} is not an allocation strategy: use random or free_ratio_first"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fleet, PlacementKind, TRIES_MAX};
    use ziggurat_base::hash::Dice;

    struct Ratios(Vec<f64>);
    impl Fleet for Ratios {
        fn count(&self) -> usize {
            self.0.len()
        }
        fn free_ratio(&self, index: usize) -> f64 {
            self.0[index]
        }
    }

    #[test]
    fn every_segment_is_tried_at_most_once() {
        for kind in [PlacementKind::Random, PlacementKind::FreeRatioFirst] {
            for count in [0, 1, 2, 7, 100, 250] {
                let fleet = Ratios((0..count).map(|i| f64::from(i) / 250.0).collect());
                let mut dice = Dice::new(9);
                let mut order = Vec::new();
                kind.build().order(2, &fleet, &mut dice, &mut order);
                assert_eq!(order.len(), fleet.count().min(TRIES_MAX), "{kind} {count}");
                let mut unique = order.clone();
                unique.sort_unstable();
                unique.dedup();
                assert_eq!(unique.len(), order.len());
                assert!(order.iter().all(|i| *i < fleet.count()));
            }
        }
    }

    #[test]
    fn free_ratio_first_prefers_the_emptiest_of_its_sample() {
        let fleet = Ratios(vec![0.1, 0.9, 0.5, 0.2]);
        let mut dice = Dice::new(1);
        for _ in 0..50 {
            let mut order = Vec::new();
            PlacementKind::FreeRatioFirst
                .build()
                .order(1, &fleet, &mut dice, &mut order);
            assert_eq!(order, [1, 2, 3, 0]);
        }
    }

    #[test]
    fn random_spreads_evenly() {
        let fleet = Ratios(vec![0.5; 8]);
        let mut dice = Dice::new(3);
        let mut hits = [0; 8];
        for _ in 0..8000 {
            let mut order = Vec::new();
            PlacementKind::Random
                .build()
                .order(1, &fleet, &mut dice, &mut order);
            hits[order[0]] += 1;
        }
        assert!(hits.iter().all(|n| (850..1150).contains(n)), "{hits:?}");
    }
}
