//! A tier on a directory with one log file, driven from one thread as a node drives it.

use super::{Speed, fill, goods::Goods};
use crate::bench::{failed, stopwatch::process_cpu};
use futures_util::future::join_all;
use pollster::block_on;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use ziggurat_base::{
    ByteCount, Code, Error, Job, Result,
    hash::{Dice, mix},
};
use ziggurat_io::Pages;
use ziggurat_tiers::ssd::{BATCH_BYTES, BATCH_OBJECTS, Options, SsdTier, Wanted};

/// Bytes that a record takes beside its payload, in front of it and in the footer, at most.
const RECORD_BYTES: u64 = 512;

/// The tier makes files that are smaller than an eighth of its capacity.
const FILES_MIN: u64 = 8;

/// What is measured, on a directory of its own.
pub(super) trait Bed {
    /// How the disk is driven.
    fn engine(&self) -> &str;
    /// The file that all objects lie in.
    fn file(&self) -> Result<PathBuf>;
    /// Writes all goods.
    fn write(&self, goods: &Goods) -> Result<Speed>;
    /// Reads one object after the other, in any order, until then; how many.
    fn reader<'a>(&'a self, goods: &'a Goods, dice: Dice, until: Instant) -> Job<'a, Result<u64>>;

    /// Reads objects in any order for a while, `depth` at a time.
    fn read(&self, goods: &Goods, depth: usize, span: Duration, seed: u64) -> Result<Speed> {
        let watch = Watch::start();
        let until = watch.began + span;
        let readers = (0..depth as u64).map(|reader| {
            let dice = Dice::new(mix(seed ^ mix(reader)));
            self.reader(goods, dice, until)
        });
        let ended = block_on(join_all(readers));
        let count = ended.into_iter().sum::<Result<u64>>()?;
        Ok(watch.stop(count * goods.block()))
    }
}

/// See the module.
pub(super) struct TierBed {
    tier: SsdTier,
    folder: PathBuf,
    engine: String,
}

impl TierBed {
    /// An empty tier with room for all goods in one file. The file is there already, with its space taken.
    pub(super) fn make(folder: PathBuf, goods: &Goods, pages: Pages) -> Result<Self> {
        let payload = goods.count * goods.block();
        // Each batch ends on a page and has headers of its own.
        let file = payload + payload / 32 + goods.count * RECORD_BYTES + (16 << 20);
        let options = Options {
            capacity: ByteCount(file * FILES_MIN),
            file_bytes: ByteCount(file),
            ..Options::default()
        };
        let (tier, _, engine) = fill::open(&folder, pages, options)?;
        let bed = Self {
            tier,
            folder,
            engine,
        };
        // One object more, behind the others by its number, so that the file is made.
        let more = goods.count..goods.count + 1;
        block_on(fill::append(&bed.tier, more, &|number| goods.get(number)))?;
        Ok(bed)
    }

    /// Reads one object after the other; how many.
    async fn read_until(&self, goods: &Goods, mut dice: Dice, until: Instant) -> Result<u64> {
        let mut count = 0;
        while Instant::now() < until {
            let number = dice.below(goods.count);
            let wanted = Wanted::whole(fill::ticket(number), goods.block());
            let found = self.tier.read(&wanted).await?;
            if !goods.is(number, found.bytes()) {
                let what = format!("object {number} came back with other bytes than were written");
                return Err(Error::new(Code::ChecksumMismatch, what));
            }
            count += 1;
        }
        Ok(count)
    }
}

impl Bed for TierBed {
    fn engine(&self) -> &str {
        &self.engine
    }

    fn file(&self) -> Result<PathBuf> {
        let files = block_on(self.tier.disk().list())?;
        let mut logs = files
            .iter()
            .filter(|file| file.name.ends_with(".log") && file.name != "tombs.log");
        match (logs.next(), logs.next()) {
            (Some(log), None) => Ok(self.folder.join(&log.name)),
            _ => Err(failed("find the log file", "there is not exactly one")),
        }
    }

    fn write(&self, goods: &Goods) -> Result<Speed> {
        let group = (BATCH_BYTES.0 / goods.block()).clamp(1, BATCH_OBJECTS as u64);
        let watch = Watch::start();
        fill::fill(&self.tier, goods.count, group, &|number| goods.get(number))?;
        Ok(watch.stop(goods.count * goods.block()))
    }

    fn reader<'a>(&'a self, goods: &'a Goods, dice: Dice, until: Instant) -> Job<'a, Result<u64>> {
        Box::pin(self.read_until(goods, dice, until))
    }
}

/// Time on the wall and of the processors.
pub(super) struct Watch {
    began: Instant,
    cpu: Duration,
}

impl Watch {
    pub(super) fn start() -> Self {
        Self {
            began: Instant::now(),
            cpu: process_cpu(),
        }
    }

    pub(super) fn stop(self, bytes: u64) -> Speed {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu = (process_cpu() - self.cpu).as_secs_f64();
        Speed {
            bytes_per_s: bytes as f64 / seconds,
            cpu_s_per_gb: cpu / (bytes as f64 / 1e9),
        }
    }
}
