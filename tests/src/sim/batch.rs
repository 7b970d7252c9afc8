//! Many seeds at once, on all cores, and what they came to together.

use super::{
    coverage::Coverage,
    outcome::{Outcome, Violation},
    run::{Telling, run},
};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use ziggurat_engine::state::Seen;

/// So many seeds are run twice, and must give the same history.
pub const TWICE: u64 = 16;

/// Between two lines about progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Seeds that were run.
    pub seeds: u64,
    /// Operations of their clients.
    pub ops: u64,
    /// What went wrong on purpose, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// How operations ended.
    pub answers: BTreeMap<String, u64>,
    /// Reads that gave wrong bytes.
    pub wrong_bytes: u64,
    /// Rules that were broken, by seed.
    pub violations: Vec<(u64, Violation)>,
    /// State × event cells that were tried.
    pub seen: Seen,
    /// Wall time.
    pub seconds: f64,
}

/// When a batch stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After the last seed.
    End,
    /// At the first violation.
    Violation,
}

impl Batch {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.ops += outcome.ops;
        self.wrong_bytes += outcome.wrong_bytes;
        for (kind, count) in outcome.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (answer, count) in outcome.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        self.seen.join(&outcome.seen);
        let found = outcome.violations.into_iter();
        self.violations
            .extend(found.map(|violation| (seed, violation)));
    }

    /// How much of the life cycles was visited.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        Coverage::of(&self.seen)
    }
}

/// Runs seeds on every core; `say` hears of progress.
#[must_use]
pub fn batch(seeds: Range<u64>, until: Until, say: impl Fn(&str) + Sync) -> Batch {
    let started = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new((Batch::default(), started));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = checked(seed, seed - seeds.start < TWICE);
            let broken = !outcome.violations.is_empty();
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.0.add(seed, outcome);
            if all.1.elapsed() >= PROGRESS {
                all.1 = Instant::now();
                let (done, count) = (all.0.seeds, seeds.end - seeds.start);
                say(&format!(
                    "{done} of {count} seeds, {} violations",
                    all.0.violations.len()
                ));
            }
            if broken && until == Until::Violation {
                next.store(seeds.end, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (mut batch, _) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    batch.violations.sort_by_key(|(seed, _)| *seed);
    batch.seconds = started.elapsed().as_secs_f64();
    batch
}

/// Runs a seed, and once more when its history is to be compared.
fn checked(seed: u64, twice: bool) -> Outcome {
    let mut outcome = run(seed, Telling::Silent);
    if twice {
        let again = run(seed, Telling::Silent);
        if again.trace != outcome.trace {
            let what = format!("{:x} and {:x}", outcome.trace, again.trace);
            outcome.violation("not_deterministic", what);
        }
    }
    outcome
}
