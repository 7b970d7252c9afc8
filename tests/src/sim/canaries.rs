//! Plants each known bug in turn: the ordinary checks must catch every one.

use super::batch::{Until, batch};
use ziggurat_engine::canary::{Canary, plant};

/// Each bug must be caught within this many seeds.
pub const SEEDS_MAX: u64 = 500;

/// What became of one planted bug.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The bug.
    pub canary: Canary,
    /// The first seed that shows it, and the rule that it breaks.
    pub seed: Option<(u64, &'static str)>,
}

/// Plants each bug and runs seeds from `from` until it is caught. The whole process has the bug meanwhile.
pub fn canaries(from: u64, say: impl Fn(&str) + Sync) -> Vec<Caught> {
    let caught = Canary::ALL.iter().map(|canary| {
        plant(Some(*canary));
        let batch = batch(from..from + SEEDS_MAX, Until::Violation, &say);
        let first = batch.violations.first();
        let seed = first.map(|(seed, violation)| (*seed, violation.rule));
        say(&format!("{canary:?}: {seed:?} in {:.1} s", batch.seconds));
        Caught {
            canary: *canary,
            seed,
        }
    });
    let caught = caught.collect();
    plant(None);
    caught
}
