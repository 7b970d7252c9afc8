//! How long a directory with many records takes to open, and what its index takes in memory.
//!
//! Small objects are offloaded as a node does it, the directory is closed in order, and opened again by another tier: nothing
//! of it is in this process any more, and files are read past the page cache where the filesystem permits it.

use super::fill;
use crate::bench::{Progress, failed, fits, scratch::Scratch};
use pollster::block_on;
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use ziggurat_base::{ByteCount, Code, Crc32, Error, Result, hash::Dice};
use ziggurat_io::Pages;
use ziggurat_tiers::ssd::{BATCH_OBJECTS, Options, Recovered, SsdTier, Wanted};

/// What to measure.
#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    /// Where: files are made below it, and removed afterwards.
    pub directory: PathBuf,
    /// Records.
    pub records: u64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryReport {
    /// Records that were found.
    pub records: u64,
    /// Bytes of the payload of each.
    pub payload_bytes: u64,
    /// Log files.
    pub files: u64,
    /// Bytes of the log files.
    pub file_bytes: u64,
    /// From the call to the answer, in seconds.
    pub open_s: f64,
    /// Records that were proved by reading their payload.
    pub proved: u64,
    /// Bytes of the index for each record, its key left out.
    pub index_bytes_per_record: f64,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// How the disk was driven, and why not better.
    pub engine: String,
}

/// Bytes of a payload: less than any block, as recovery has to do with headers.
const PAYLOAD: [u8; 100] = [7; 100];

/// On disk a record takes a block at most, and its header twice.
const RECORD_BYTES: u64 = 4096 + 512;

/// Records that are read in the end, to see that they are what was written.
const PROBES: u64 = 1000;

/// Measures.
///
/// # Errors
/// `InvalidParams` for no records, and for a directory that cannot be used or has no room; `Internal` when not all records are
/// found; whatever the disk refuses.
pub fn recovery(options: &RecoveryOptions, progress: Progress<'_>) -> Result<RecoveryReport> {
    if options.records == 0 {
        let what = "0 records: give --records at least 1";
        return Err(Error::new(Code::InvalidParams, what));
    }
    let scratch = Scratch::new(&options.directory)?;
    let bytes = ByteCount(
        options
            .records
            .saturating_mul(RECORD_BYTES)
            .saturating_add(1 << 30),
    );
    scratch.has_room(bytes)?;
    fits("the index", ByteCount(options.records.saturating_mul(256)))?;
    let folder = scratch.fresh("recovery")?;
    progress(&format!("write {} records", options.records));
    let open = || {
        let options = Options {
            capacity: bytes,
            ..Options::default()
        };
        fill::open(&folder, Pages::Huge, options)
    };
    let (tier, _, _) = open()?;
    let crc = Crc32::of(&PAYLOAD);
    fill::fill(&tier, options.records, BATCH_OBJECTS as u64, &|_| {
        (&PAYLOAD, crc)
    })?;
    block_on(tier.seal_all());
    drop(tier);
    scratch.settle()?;
    progress("open the directory");
    let began = Instant::now();
    let (tier, recovered, engine) = open()?;
    let open_s = began.elapsed().as_secs_f64();
    progress("read some of them");
    check(&tier, options.records, &recovered)?;
    let stats = tier.stats();
    let key_bytes = crate::bench::key(5, 0).len() as u64;
    Ok(RecoveryReport {
        records: recovered.records,
        payload_bytes: PAYLOAD.len() as u64,
        files: stats.files,
        file_bytes: stats.file_bytes,
        open_s,
        proved: recovered.proved,
        index_bytes_per_record: stats.index_bytes as f64 / recovered.records as f64
            - key_bytes as f64,
        key_bytes,
        engine,
    })
}

fn check(tier: &SsdTier, records: u64, recovered: &Recovered) -> Result<()> {
    if recovered.records != records {
        let what = format!(
            "of {records} records there are {}: {recovered:?}",
            recovered.records
        );
        return Err(failed("open the directory", what));
    }
    let dice = &mut Dice::new(1);
    for _ in 0..PROBES.min(records) {
        let ticket = fill::ticket(dice.below(records));
        let found = block_on(tier.read(&Wanted::whole(ticket, PAYLOAD.len() as u64)))?;
        if found.bytes() != PAYLOAD {
            let what = format!("{ticket} came back with other bytes than were written");
            return Err(Error::new(Code::ChecksumMismatch, what));
        }
    }
    Ok(())
}
