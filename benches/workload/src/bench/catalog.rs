//! The metadata partition alone, on one thread, with as many keys as wished.
//!
//! Time of the catalog is an argument of its calls, so leases and grace periods pass in no time. What counts is the CPU time of
//! the thread inside the calls; making keys and dropping answers is outside. A run goes through all phases with a fresh
//! catalog; the best run of several counts, as the first one pays for memory that the others find mapped.

mod phases;

use super::{Progress, at_least_one, fits, key, limits, stopwatch::per_second};
use phases::Bench;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{ByteCount, Code, Error, Result};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct CatalogOptions {
    /// Keys of 32 random bytes, each with one replica of 1 byte.
    pub keys: u64,
    /// Runs; the best counts.
    pub runs: u32,
}

impl Default for CatalogOptions {
    fn default() -> Self {
        Self {
            keys: 10_000_000,
            runs: 3,
        }
    }
}

/// The fewest keys that fill the batches of every phase.
const KEYS_MIN: u64 = 1024;

/// The most keys that the numbers of rows have room for, with those that are added to the full partition.
const KEYS_MAX: u64 = 1_000_000_000;

/// Memory that a key takes while the partition grows, at most, with the names that the phases hold.
const KEY_BYTES_MAX: u64 = 256;

/// What was seen. Rates are per CPU second of one core.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CatalogReport {
    /// Look-ups one by one, of random keys that are there.
    pub locate_per_s: f64,
    /// The same in batches of 128.
    pub locate_batched_per_s: f64,
    /// Objects begun and ended in batches of 128.
    pub put_per_s: f64,
    /// Objects removed in batches of 128.
    pub remove_per_s: f64,
    /// Growth of the resident memory of the process over the keys of the first run.
    pub bytes_per_key: f64,
    /// Longest single call of a run, in microseconds of CPU time; of the best run.
    pub max_turn_us: f64,
    /// One load from memory whose address the last one gave, in nanoseconds: what a look-up waits for two or three times.
    pub dependent_load_ns: f64,
    /// Keys.
    pub keys: u64,
    /// Runs.
    pub runs: u32,
    /// Longest call of each phase, in microseconds; of its best run.
    pub turns_us: BTreeMap<&'static str, f64>,
}

/// What one run has seen.
#[derive(Debug, Default)]
struct Run {
    put: Pace,
    locate: Pace,
    locate_batched: Pace,
    remove: Pace,
    bytes_per_key: f64,
    turns: BTreeMap<&'static str, Duration>,
}

/// Items, and the time that they took.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    items: u64,
    span: Duration,
}

impl Pace {
    fn per_second(self) -> f64 {
        per_second(self.items, self.span)
    }
}

/// Measures.
///
/// # Errors
/// `InvalidParams` for a number of keys that cannot be; those of the catalog, which are none when it is right.
pub fn catalog(options: &CatalogOptions, progress: Progress<'_>) -> Result<CatalogReport> {
    if !(KEYS_MIN..=KEYS_MAX).contains(&options.keys) {
        let what = format!(
            "{} keys: give --keys from {KEYS_MIN} to {KEYS_MAX}",
            options.keys
        );
        return Err(Error::new(Code::InvalidParams, what));
    }
    at_least_one("runs", options.runs)?;
    let need = ByteCount(options.keys * KEY_BYTES_MAX);
    fits(&format!("a partition of {} keys", options.keys), need)?;
    let mut report = CatalogReport {
        keys: options.keys,
        runs: options.runs,
        max_turn_us: f64::MAX,
        dependent_load_ns: f64::MAX,
        ..CatalogReport::default()
    };
    for number in 1..=report.runs {
        let mut told = |phase: &str| progress(&format!("run {number}: {phase}"));
        told("dependent loads");
        report.dependent_load_ns = report.dependent_load_ns.min(limits::dependent_load_ns());
        let run = Bench::new(options.keys)?.run(&mut told)?;
        if number == 1 {
            report.bytes_per_key = run.bytes_per_key;
        }
        report.take_best(&run);
    }
    Ok(report)
}

impl CatalogReport {
    fn take_best(&mut self, run: &Run) {
        let rates = [
            (&mut self.put_per_s, run.put),
            (&mut self.locate_per_s, run.locate),
            (&mut self.locate_batched_per_s, run.locate_batched),
            (&mut self.remove_per_s, run.remove),
        ];
        for (best, pace) in rates {
            *best = best.max(pace.per_second());
        }
        let micros = |span: &Duration| span.as_secs_f64() * 1e6;
        let longest = run.turns.values().max().map_or(0.0, micros);
        self.max_turn_us = self.max_turn_us.min(longest);
        for (phase, span) in &run.turns {
            let best = self.turns_us.entry(phase).or_insert(f64::MAX);
            *best = best.min(micros(span));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CatalogOptions, catalog};
    use ziggurat_base::Code;

    #[test]
    fn every_phase_is_measured() {
        let options = CatalogOptions {
            keys: 5000,
            runs: 2,
        };
        let report = catalog(&options, &mut |_| {}).unwrap();
        let rates = [
            report.locate_per_s,
            report.locate_batched_per_s,
            report.put_per_s,
            report.remove_per_s,
        ];
        assert!(rates.iter().all(|rate| *rate > 0.0), "{report:?}");
        assert!(
            report.max_turn_us > 0.0 && report.turns_us.len() == 11,
            "{report:?}"
        );
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for (keys, runs) in [(3, 1), (u64::MAX, 1), (5000, 0)] {
            let error = catalog(&CatalogOptions { keys, runs }, &mut |_| {}).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
        }
    }
}
