//! The SSD tier on a directory, or a root of shard files, beside fio with the same block size and depth past the page cache.
//!
//! Reads: one log file is filled with objects of a block each; then fio reads places of that very file, and the tier reads
//! objects of it, all proved. Writes: fio fills a file whose space was taken before, and the tier offloads objects into such a
//! file, in batches as a node makes them, each durable when it is answered. A shard file is written as by a client, object by
//! object, and made durable at the end, as fio does. A round is fio, tier, fio; when the two halves of
//! fio differ by more than a fifth, the disk had other work, and the round is tried again, a limited number of times. The
//! ratio of a row is the median over its rounds, each against the mean of its own halves.

mod bed;
mod files;
mod fill;
mod fio;
mod goods;
pub mod recovery;
mod shape;

pub use shape::{Subject, names};

use super::{Progress, at_least_one, fits, scratch::Scratch, stopwatch::median};
use bed::{Bed, TierBed};
use files::RootBed;
use fio::{Fio, Target};
use goods::Goods;
use serde::Serialize;
use shape::{Shape, Way};
use std::{path::PathBuf, time::Duration};
use ziggurat_base::{ByteCount, Code, Error, Result, hash::mix};
use ziggurat_io::Pages;

/// What to measure.
#[derive(Clone, Debug)]
pub struct SsdOptions {
    /// What is measured.
    pub subject: Subject,
    /// Where: files are made below it, and removed afterwards.
    pub directory: PathBuf,
    /// Bytes of the files; a round of writes has three of them at once.
    pub bytes: ByteCount,
    /// Rounds of each row.
    pub rounds: u32,
    /// How long each half of fio and the tier read in a round.
    pub span: Duration,
    /// Pages of the buffers of the tier; those of fio are small.
    pub pages: Pages,
    /// Names of the rows that are wanted; all when empty.
    pub rows: Vec<String>,
}

impl SsdOptions {
    /// The whole measurement.
    #[must_use]
    pub fn new(subject: Subject, directory: PathBuf) -> Self {
        Self {
            subject,
            directory,
            bytes: ByteCount::gib(1),
            rounds: 5,
            span: Duration::from_secs(1),
            pages: Pages::Huge,
            rows: Vec::new(),
        }
    }

    /// A small one, that shows that everything runs.
    #[must_use]
    pub fn quick(subject: Subject, directory: PathBuf) -> Self {
        Self {
            bytes: BYTES_MIN,
            rounds: 1,
            span: Duration::from_millis(200),
            ..Self::new(subject, directory)
        }
    }

    /// How often progress is told when no round has to be tried again.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let rows = Shape::all(self.subject).unwrap_or_default();
        let rows = rows.iter().filter(|shape| self.wants(shape));
        rows.map(|shape| {
            let filling = u64::from(shape.way == Way::Read);
            1 + filling + 3 * u64::from(self.rounds)
        })
        .sum()
    }

    fn wants(&self, shape: &Shape) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| row == shape.name)
    }

    fn check(&self) -> Result<Vec<Shape>> {
        let refuse = |what| Err(Error::new(Code::InvalidParams, what));
        at_least_one("rounds", self.rounds)?;
        if self.bytes < BYTES_MIN {
            return refuse(format!(
                "files of {}: give --bytes at least {BYTES_MIN}",
                self.bytes
            ));
        }
        if self.span < SPAN_MIN {
            return refuse(format!(
                "a span of {:?} is too short to measure: give --span at least {SPAN_MIN:?}",
                self.span
            ));
        }
        let known: Vec<_> = names(self.subject).collect();
        if let Some(row) = self.rows.iter().find(|row| !known.contains(&row.as_str())) {
            return refuse(format!(
                "there is no row {row:?}: give one of {}",
                known.join(", ")
            ));
        }
        let mut shapes = Shape::all(self.subject)?;
        shapes.retain(|shape| self.wants(shape));
        Ok(shapes)
    }
}

/// The least size of the files.
const BYTES_MIN: ByteCount = ByteCount::mib(64);

/// The shortest span.
const SPAN_MIN: Duration = Duration::from_millis(50);

/// How much the halves of a round may differ.
const UNREST_MAX: f64 = 0.2;

/// Files of a round that are on disk at once, and a quarter of one for headers and footers.
const FILES_QUARTERS: u64 = 13;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speed {
    bytes_per_s: f64,
    cpu_s_per_gb: f64,
}

/// One round, in 10^9 bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SsdRound {
    /// fio, before.
    pub before_gbps: f64,
    /// The tier.
    pub gbps: f64,
    /// fio, after.
    pub after_gbps: f64,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct SsdRow {
    /// The job.
    pub name: &'static str,
    /// Bytes of an object, and of a request of fio.
    pub block_bytes: u64,
    /// Reads under way, or requests of fio when it writes: the tier has as many appends under way as a node.
    pub depth: u64,
    /// Payload bytes per second, in 10^9; the median of the rounds, as all that follows.
    pub gbps: f64,
    /// Objects per second.
    pub iops: f64,
    /// Bytes per second of fio, in 10^9.
    pub limit_gbps: f64,
    /// Requests per second of fio.
    pub limit_iops: f64,
    /// The tier to fio: of bytes from 64 KiB on, of requests below.
    pub ratio: f64,
    /// The least ratio of a round.
    pub ratio_least: f64,
    /// The greatest ratio of a round.
    pub ratio_greatest: f64,
    /// Seconds of CPU time of this process for 10^9 bytes.
    pub cpu_s_per_gb: f64,
    /// The same of fio.
    pub limit_cpu_s_per_gb: f64,
    /// Rounds whose halves of fio differed by more than a fifth.
    pub unsteady: u32,
    /// How many of them count all the same, because no round was left to try again.
    pub unsteady_kept: u32,
    /// The rounds that count.
    pub rounds: Vec<SsdRound>,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct SsdReport {
    /// A line per job.
    pub rows: Vec<SsdRow>,
    /// Bytes of the files.
    pub bytes: u64,
    /// Milliseconds of a read.
    pub span_ms: u64,
    /// Pages of the buffers: `huge` or `small`.
    pub pages: &'static str,
    /// How the tier drives the disk, and why not better.
    pub engine: String,
    /// The version of fio.
    pub fio: String,
}

/// Measures.
///
/// # Errors
/// `FileNotFound` when fio is not installed; `InvalidParams` for options out of range and for a directory that cannot be used or
/// has no room; `ChecksumMismatch` when other bytes come back than were written; whatever fio or the disk refuse.
pub fn ssd(options: &SsdOptions, progress: Progress<'_>) -> Result<SsdReport> {
    let shapes = options.check()?;
    let fio = Fio::find()?;
    let scratch = Scratch::new(&options.directory)?;
    scratch.has_room(ByteCount(
        options.bytes.0.saturating_mul(FILES_QUARTERS) / 4,
    ))?;
    fits(
        "the payload of the measurement",
        Goods::memory(options.bytes),
    )?;
    let mut report = SsdReport {
        rows: Vec::new(),
        bytes: options.bytes.0,
        span_ms: u64::try_from(options.span.as_millis()).unwrap_or(u64::MAX),
        pages: match options.pages {
            Pages::Huge => "huge",
            Pages::Small => "small",
        },
        engine: String::new(),
        fio: fio.version.clone(),
    };
    for shape in shapes {
        progress(&format!("{}: payload", shape.name));
        let mut bench = Bench {
            options,
            fio: &fio,
            scratch: &scratch,
            goods: Goods::new(options.bytes, shape.block),
            shape,
            engine: String::new(),
        };
        let row = match shape.way {
            Way::Read => bench.reads(progress),
            Way::Write => bench.writes(progress),
        };
        report.rows.push(row?);
        report.engine = bench.engine;
    }
    Ok(report)
}

/// A row under measurement.
struct Bench<'a> {
    options: &'a SsdOptions,
    fio: &'a Fio,
    scratch: &'a Scratch,
    goods: Goods,
    shape: Shape,
    engine: String,
}

/// The speeds of a round: fio, tier, fio.
type Round = [Speed; 3];

impl Bench<'_> {
    fn bed(&mut self) -> Result<Box<dyn Bed>> {
        let folder = self.scratch.fresh("tier")?;
        let (goods, pages) = (&self.goods, self.options.pages);
        let bed: Box<dyn Bed> = match self.options.subject {
            Subject::Tier => Box::new(TierBed::make(folder, goods, pages)?),
            Subject::ShardFile => Box::new(RootBed::make(folder, goods, self.shape.depth, pages)?),
        };
        bed.engine().clone_into(&mut self.engine);
        Ok(bed)
    }

    fn reads(&mut self, progress: Progress<'_>) -> Result<SsdRow> {
        let shape = self.shape;
        progress(&format!("{}: fill a file", shape.name));
        let bed = self.bed()?;
        bed.write(&self.goods)?;
        self.scratch.settle()?;
        let file = bed.file()?;
        let target = Target {
            file: &file,
            bytes: self.options.bytes.0,
            span: self.options.span,
        };
        let row = self.rounds(progress, &mut |bench, number, progress| {
            progress(&format!("{} round {number}: fio", shape.name));
            let before = bench.fio.run(shape, target)?;
            progress(&format!("{} round {number}: tier", shape.name));
            let seed = mix(number.into());
            let ours = bed.read(&bench.goods, shape.depth, bench.options.span, seed)?;
            progress(&format!("{} round {number}: fio again", shape.name));
            Ok([before, ours, bench.fio.run(shape, target)?])
        });
        drop(bed);
        self.scratch.remove(&self.scratch.path("tier"))?;
        row
    }

    fn writes(&mut self, progress: Progress<'_>) -> Result<SsdRow> {
        let shape = self.shape;
        self.rounds(progress, &mut |bench, number, progress| {
            let files = ["before", "after"].map(|name| bench.scratch.path(name));
            let target = |file| Target {
                file,
                bytes: bench.options.bytes.0,
                span: bench.options.span,
            };
            let targets = [target(&files[0]), target(&files[1])];
            progress(&format!("{} round {number}: fio", shape.name));
            let before = bench.fio.run(shape, targets[0])?;
            progress(&format!("{} round {number}: tier", shape.name));
            let bed = bench.bed()?;
            let ours = bed.write(&bench.goods)?;
            drop(bed);
            progress(&format!("{} round {number}: fio again", shape.name));
            let after = bench.fio.run(shape, targets[1])?;
            for file in &files {
                bench.scratch.remove(file)?;
            }
            bench.scratch.remove(&bench.scratch.path("tier"))?;
            bench.scratch.settle()?;
            Ok([before, ours, after])
        })
    }

    fn rounds(
        &mut self,
        progress: Progress<'_>,
        round: &mut dyn FnMut(&mut Self, u32, Progress<'_>) -> Result<Round>,
    ) -> Result<SsdRow> {
        let wanted = self.options.rounds;
        let (mut kept, mut unsteady, mut unsteady_kept) = (Vec::new(), 0, 0);
        let mut number = 0;
        while kept.len() < wanted as usize {
            number += 1;
            let speeds = round(self, number, progress)?;
            if !is_steady(&speeds) {
                unsteady += 1;
                // As many are tried again as are wanted in all.
                if unsteady <= wanted {
                    continue;
                }
                unsteady_kept += 1;
            }
            kept.push(speeds);
        }
        Ok(row(self.shape, &kept, (unsteady, unsteady_kept)))
    }
}

fn is_steady([before, _, after]: &Round) -> bool {
    let (least, most) = (
        before.bytes_per_s.min(after.bytes_per_s),
        before.bytes_per_s.max(after.bytes_per_s),
    );
    most - least <= UNREST_MAX * most
}

fn row(shape: Shape, rounds: &[Round], (unsteady, unsteady_kept): (u32, u32)) -> SsdRow {
    let of = |figure: &dyn Fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
    let limit = |[before, _, after]: &Round| before.bytes_per_s.midpoint(after.bytes_per_s);
    let ratios = of(&|round| round[1].bytes_per_s / limit(round));
    let bytes_per_s = median(of(&|round| round[1].bytes_per_s));
    let limit_bytes_per_s = median(of(&limit));
    let extreme = |pick: fn(f64, f64) -> f64| ratios.iter().copied().reduce(pick).unwrap_or(0.0);
    SsdRow {
        name: shape.name,
        block_bytes: shape.block,
        depth: shape.depth as u64,
        gbps: bytes_per_s / 1e9,
        iops: bytes_per_s / shape.block as f64,
        limit_gbps: limit_bytes_per_s / 1e9,
        limit_iops: limit_bytes_per_s / shape.block as f64,
        ratio_least: extreme(f64::min),
        ratio_greatest: extreme(f64::max),
        ratio: median(ratios),
        cpu_s_per_gb: median(of(&|round| round[1].cpu_s_per_gb)),
        limit_cpu_s_per_gb: median(of(&|round| {
            round[0].cpu_s_per_gb.midpoint(round[2].cpu_s_per_gb)
        })),
        unsteady,
        unsteady_kept,
        rounds: rounds
            .iter()
            .map(|[before, ours, after]| SsdRound {
                before_gbps: before.bytes_per_s / 1e9,
                gbps: ours.bytes_per_s / 1e9,
                after_gbps: after.bytes_per_s / 1e9,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MIN, Shape, Speed, SsdOptions, Subject, is_steady, row, ssd};
    use std::{path::PathBuf, time::Duration};
    use ziggurat_base::{ByteCount, Code};

    fn round(speeds: [f64; 3]) -> [Speed; 3] {
        speeds.map(|gbps| Speed {
            bytes_per_s: gbps * 1e9,
            cpu_s_per_gb: gbps / 10.0,
        })
    }

    #[test]
    fn a_round_counts_when_its_halves_agree() {
        assert!(is_steady(&round([1.0, 9.0, 0.81])) && is_steady(&round([0.81, 9.0, 1.0])));
        assert!(!is_steady(&round([1.0, 1.0, 0.79])) && !is_steady(&round([0.79, 1.0, 1.0])));
    }

    #[test]
    fn a_row_has_the_median_of_the_ratios() {
        let shape = Shape::all(Subject::Tier).unwrap()[0];
        let rounds = [[1.0, 0.5, 1.0], [1.0, 1.8, 2.0], [2.0, 1.6, 2.0]].map(round);
        let row = row(shape, &rounds, (3, 1));
        assert_eq!(
            (row.ratio_least, row.ratio, row.ratio_greatest),
            (0.5, 0.8, 1.2)
        );
        assert_eq!((row.gbps, row.limit_gbps), (1.6, 1.5));
        assert_eq!(row.iops, 1.6e9 / 4096.0);
        assert_eq!(
            (row.unsteady, row.unsteady_kept, row.rounds.len()),
            (3, 1, 3)
        );
    }

    #[test]
    fn what_cannot_be_measured_is_refused_before_anything_is_made() {
        let good = SsdOptions::quick(Subject::Tier, PathBuf::from("/nowhere"));
        let bad = [
            (
                SsdOptions {
                    rounds: 0,
                    ..good.clone()
                },
                "0 rounds",
            ),
            (
                SsdOptions {
                    bytes: ByteCount(BYTES_MIN.0 - 1),
                    ..good.clone()
                },
                "--bytes",
            ),
            (
                SsdOptions {
                    span: Duration::from_millis(1),
                    ..good.clone()
                },
                "--span",
            ),
            (
                SsdOptions {
                    rows: vec!["read_5k".into()],
                    ..good
                },
                "read_5k",
            ),
        ];
        for (options, named) in bad {
            let error = ssd(&options, &mut |_| {}).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
            assert!(error.what().contains(named), "{error}");
        }
    }
}
