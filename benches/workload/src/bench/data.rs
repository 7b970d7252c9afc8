//! Payload bytes: in this process beside `memcpy`, and over TCP between processes beside a bare socket loop.
//!
//! Buffers are pools of 512 MiB that are walked through in order, so that every byte is cold when its turn comes. Rounds of ours
//! and of the limit take turns; the median of each counts, and the best is told beside it, because what disturbs a round on
//! a busy machine only ever slows it down. Every byte that comes back is compared, outside of the time.

mod local;
mod tcp;

use super::{Pinning, Program, Progress, at_least_one, fits, stopwatch::median};
use crate::Payload;
use serde::Serialize;
use ziggurat_base::{ByteCount, Code, Error, Result};

/// What to measure.
#[derive(Clone, Debug)]
pub struct DataOptions {
    /// Rounds.
    pub rounds: u32,
    /// Bytes of each pool.
    pub pool: usize,
    /// The child to measure TCP with; `None` leaves TCP out.
    pub program: Option<Program>,
    /// Where the processes run.
    pub pinning: Pinning,
}

impl Default for DataOptions {
    fn default() -> Self {
        Self {
            rounds: 5,
            pool: 512 << 20,
            program: None,
            pinning: Pinning::Free,
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct DataRow {
    /// What was done where.
    pub name: &'static str,
    /// Bytes of an object.
    pub bytes: u64,
    /// Objects in a call.
    pub batch: u64,
    /// Payload bytes per second, in 10^9: of CPU time in process, else of time on the wall.
    pub gbps: f64,
    /// The same of the limit.
    pub limit_gbps: f64,
    /// `gbps / limit_gbps`.
    pub ratio: f64,
    /// The best round.
    pub best_gbps: f64,
    /// The best round of the limit.
    pub best_limit_gbps: f64,
    /// Objects per second.
    pub ops_per_s: f64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct DataReport {
    /// A line per shape and direction.
    pub rows: Vec<DataRow>,
    /// Rounds.
    pub rounds: u32,
    /// Bytes of each pool.
    pub pool: u64,
}

/// Objects of one length, so many in a call.
#[derive(Clone, Copy, Debug)]
struct Shape {
    size: usize,
    batch: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const fn shape(size: usize, batch: usize) -> Shape {
    Shape { size, batch }
}

/// The largest object; a pool holds some of them.
const SIZE_MAX: usize = 16 * MIB;

/// Pools that live at once, rounded up: source, target, the memory of a node, and that of the raw server.
const POOLS: u64 = 5;

/// Measures.
///
/// # Errors
/// `InvalidParams` for a pool that is too small; `ChecksumMismatch` when other bytes come back than were put; whatever
/// keeps a server from starting.
pub fn data(options: &DataOptions, progress: Progress<'_>) -> Result<DataReport> {
    if options.pool < SIZE_MAX {
        let what = format!("a pool of {} bytes: give at least {SIZE_MAX}", options.pool);
        return Err(Error::new(Code::InvalidParams, what));
    }
    at_least_one("rounds", options.rounds)?;
    let pool = ByteCount(options.pool as u64);
    let need = ByteCount(pool.0.saturating_mul(POOLS));
    fits(&format!("a measurement with pools of {pool}"), need)?;
    options.pinning.pin_bench()?;
    let mut rows = local::measure(options, progress)?;
    if let Some(program) = &options.program {
        rows.extend(tcp::measure(options, program, progress)?);
    }
    Ok(DataReport {
        rows,
        rounds: options.rounds,
        pool: options.pool as u64,
    })
}

/// Speeds of one shape in one direction, round by round, in GB/s.
#[derive(Debug, Default)]
struct Rounds {
    ours: Vec<f64>,
    limit: Vec<f64>,
}

impl Rounds {
    fn row(self, name: &'static str, shape: Shape) -> DataRow {
        let best = |rounds: &[f64]| rounds.iter().copied().fold(0.0, f64::max);
        let (best_gbps, best_limit_gbps) = (best(&self.ours), best(&self.limit));
        let (gbps, limit_gbps) = (median(self.ours), median(self.limit));
        DataRow {
            name,
            bytes: shape.size as u64,
            batch: shape.batch as u64,
            gbps,
            limit_gbps,
            ratio: if limit_gbps > 0.0 {
                gbps / limit_gbps
            } else {
                0.0
            },
            best_gbps,
            best_limit_gbps,
            ops_per_s: gbps * 1e9 / shape.size as f64,
        }
    }
}

/// Memory of this process: what is put, where it is read to, and keys for every object.
struct Pools {
    source: Vec<u8>,
    target: Vec<u8>,
    keys: Vec<[u8; 32]>,
}

impl Pools {
    fn new(bytes: usize) -> Self {
        let mut source = vec![0; bytes];
        // Bytes that differ from place to place.
        let payload = Payload {
            key_hash: 1,
            nonce: 2,
        };
        payload.fill(&mut source);
        Self {
            source,
            target: vec![3; bytes],
            keys: Vec::new(),
        }
    }

    /// Fresh keys, one for each object of a size.
    fn name(&mut self, round: u64, size: usize) {
        let kind = (round << 32) | size as u64;
        let count = (self.source.len() / size) as u64;
        self.keys = (0..count).map(|number| super::key(kind, number)).collect();
    }

    /// Compares what was read with what was put, and spoils it for the next time.
    fn check(&mut self, bytes: usize) -> Result<()> {
        if self.source[..bytes] != self.target[..bytes] {
            let what = "other bytes came back than were put";
            return Err(Error::new(Code::ChecksumMismatch, what));
        }
        for page in self.target.chunks_mut(4 * KIB) {
            page[0] ^= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{DataOptions, SIZE_MAX, data};
    use ziggurat_base::Code;

    #[test]
    fn every_shape_in_process_is_measured() {
        let options = DataOptions {
            rounds: 1,
            pool: SIZE_MAX,
            ..DataOptions::default()
        };
        let report = data(&options, &mut |_| {}).unwrap();
        assert_eq!(report.rows.len(), 10);
        assert!(
            report
                .rows
                .iter()
                .all(|row| row.gbps > 0.0 && row.ratio > 0.0)
        );
    }

    #[test]
    fn pools_that_cannot_be_are_refused() {
        for pool in [1000, usize::MAX] {
            let options = DataOptions {
                pool,
                ..DataOptions::default()
            };
            let error = data(&options, &mut |_| {}).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
        }
    }
}
