//! The run itself: requests through a store, with every byte that comes back checked.
//!
//! For each request, in order: the leading run of present blocks is read and verified; then all blocks are used from the
//! last to the first, a present one touched and an absent one put. So a run does what [`crate::predict()`] does, and the
//! two may be compared. It never sleeps unless a pace is asked for.

use crate::{Payload, Request, payload::Origin};
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};
use ziggurat_base::{
    Code, Error, Key, ManualClock, Result, SegmentId, TenantId, Timestamp, hash::key_hash,
};
use ziggurat_client::{Client, PutOptions, PutOutcome, PutRequest};
use ziggurat_engine::command::{BATCH_MAX, Recency};

/// Blocks that are read or put in one call.
const LOT: usize = 64;
const _: () = assert!(LOT <= BATCH_MAX);

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Payload bytes of a block.
    pub block_bytes: u64,
    /// Payloads derive from it.
    pub seed: u64,
    /// Stop after this many requests.
    pub requests_max: Option<u64>,
    /// Replay the pauses between requests, this many times as fast; none when `None`.
    pub pace: Option<f64>,
    /// Moved to the time of each request, for a store whose leases live in that time.
    pub clock: Option<ManualClock>,
    /// The segments that are on SSD: a block whose best replica is there is found there.
    pub ssd: HashSet<SegmentId>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Requests done.
    pub requests: u64,
    /// Payload bytes moved.
    pub bytes: u64,
    /// Share of blocks found so far, 0 to 1.
    pub hit_rate: f64,
}

/// Blocks read, by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// From memory.
    pub dram: u64,
    /// From SSD.
    pub ssd: u64,
}

impl Hits {
    /// From anywhere.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.dram + self.ssd
    }
}

/// Latencies of calls, each of up to 64 blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Calls.
    pub count: u64,
    /// Half of them took at most this long, in microseconds.
    pub p50_us: f64,
    /// 99 in 100 took at most this long, in microseconds.
    pub p99_us: f64,
    /// Payload bytes per second inside the calls, in 10^9.
    pub gbps: f64,
}

/// What the write budgets of all SSD directories together have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BudgetReport {
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// The share of what was allowed that was used.
    pub share_used: f64,
    /// Batches, and files to be cleaned, that waited.
    pub waits: u64,
    /// How long they waited, added up.
    pub seconds_waited: f64,
    /// Objects that were refused because they would have waited for too long.
    pub objects_refused: u64,
    /// Records that were evicted because there was nothing left to copy them with.
    pub records_not_copied: u64,
}

/// What a run has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    /// Requests.
    pub requests: u64,
    /// Blocks of all requests.
    pub blocks: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens of leading runs of present blocks.
    pub hit_tokens: u64,
    /// `hit_tokens / prompt_tokens`, 0 to 1.
    pub prefix_token_hit_rate: f64,
    /// Blocks read, by tier.
    pub hits: Hits,
    /// Payload bytes read.
    pub bytes_read: u64,
    /// Payload bytes written.
    pub bytes_written: u64,
    /// Records that the SSD directories held at the start; filled in by whoever opened them.
    pub recovered_objects: u64,
    /// Bytes written to SSD: payloads, headers, padding, copies.
    pub ssd_bytes_written: u64,
    /// Bytes written to SSD for each byte of payload that came there; 0 without any.
    pub write_amplification: f64,
    /// Bytes written to SSD for each read that it answered; 0 without any.
    pub ssd_bytes_per_hit: f64,
    /// Bytes that the payloads that came to SSD take there; fewer than they have where they are compressed.
    pub ssd_bytes_stored: u64,
    /// How many of them are compressed.
    pub ssd_objects_compressed: u64,
    /// What the write budget has done; none without one.
    pub write_budget: Option<BudgetReport>,
    /// Objects evicted meanwhile; filled in by whoever can see the partition.
    pub evictions: u64,
    /// Objects that came back from SSD into memory meanwhile; filled in by whoever can see the partition.
    pub promoted: u64,
    /// Those that were wanted there and found no room.
    pub promotions_dropped: u64,
    /// Payloads that were not what was put. Anything but 0 is the end of trust.
    pub wrong_bytes: u64,
    /// Coded errors that were neither a miss nor back-pressure that was retried.
    pub errors: u64,
    /// The first such error.
    pub first_error: Option<String>,
    /// Wall time.
    pub seconds: f64,
    /// Reads.
    pub get: Latency,
    /// Writes.
    pub put: Latency,
}

#[derive(Debug, Default)]
struct Timings {
    nanos: Vec<u64>,
    bytes: u64,
}

impl Timings {
    fn add(&mut self, span: Duration, bytes: u64) {
        self.nanos
            .push(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        self.bytes += bytes;
    }

    fn summary(mut self) -> Latency {
        self.nanos.sort_unstable();
        let at = |share: f64| {
            let index = ((self.nanos.len() as f64 * share) as usize)
                .min(self.nanos.len().saturating_sub(1));
            self.nanos
                .get(index)
                .map_or(0.0, |nanos| *nanos as f64 / 1e3)
        };
        let seconds = self.nanos.iter().sum::<u64>() as f64 / 1e9;
        Latency {
            count: self.nanos.len() as u64,
            p50_us: at(0.5),
            p99_us: at(0.99),
            gbps: if seconds > 0.0 {
                self.bytes as f64 / seconds / 1e9
            } else {
                0.0
            },
        }
    }
}

/// One block on its way: its key and what its payload must be.
#[derive(Clone, Copy, Debug)]
struct Block {
    id: u64,
    key: [u8; 16],
    hash: u64,
}

impl Block {
    fn new(id: u64) -> Self {
        let mut key = [0; 16];
        for (place, byte) in key.iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(id >> (60 - 4 * place)) as usize & 15];
        }
        let hash = key_hash(TenantId(0), Key::new(&key).expect("16 bytes are a key"));
        Self { id, key, hash }
    }
}

/// Where a block is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Ssd,
}

struct Runner<'a> {
    client: &'a Client,
    options: &'a RunOptions,
    report: RunReport,
    gets: Timings,
    puts: Timings,
    /// How often each block was put: the version of its payload.
    versions: HashMap<u64, u64>,
    room: Vec<Vec<u8>>,
}

/// Runs the requests through the store behind `client`.
///
/// # Errors
/// Whatever `requests` gives. Errors of the store are counted, not returned.
pub async fn run(
    client: &Client,
    requests: impl IntoIterator<Item = Result<Request>>,
    options: &RunOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<RunReport> {
    if options.block_bytes == 0 {
        return Err(Error::new(
            Code::InvalidParams,
            "a block of 0 bytes: give --block-bytes at least 1",
        ));
    }
    let size =
        usize::try_from(options.block_bytes).map_err(|_| Error::from(Code::InvalidParams))?;
    let mut runner = Runner {
        client,
        options,
        report: RunReport::default(),
        gets: Timings::default(),
        puts: Timings::default(),
        versions: HashMap::new(),
        room: vec![vec![0; size]; LOT],
    };
    let began = Instant::now();
    let requests_max =
        usize::try_from(options.requests_max.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    for request in requests.into_iter().take(requests_max) {
        let request = request?;
        runner.keep_time(&request, began).await;
        runner.request(&request).await;
        let report = &runner.report;
        progress(Progress {
            requests: report.requests,
            bytes: report.bytes_read + report.bytes_written,
            hit_rate: report.hits.all() as f64 / report.blocks.max(1) as f64,
        });
    }
    let Runner {
        mut report,
        gets,
        puts,
        ..
    } = runner;
    report.seconds = began.elapsed().as_secs_f64();
    report.get = gets.summary();
    report.put = puts.summary();
    Ok(report)
}

impl Runner<'_> {
    async fn keep_time(&self, request: &Request, began: Instant) {
        let at = Duration::from_millis(request.timestamp_ms);
        if let Some(clock) = &self.options.clock {
            // One millisecond beyond the origin, which means "never" in leases.
            clock.advance_to(Timestamp::ZERO.after(at + Duration::from_millis(1)));
        }
        let Some(pace) = self.options.pace.filter(|pace| *pace > 0.0) else {
            return;
        };
        let wait = at.div_f64(pace).saturating_sub(began.elapsed());
        let clock = &self.client.ports().clock;
        clock.sleep_until(clock.now().after(wait)).await;
    }

    async fn request(&mut self, request: &Request) {
        let blocks: Vec<_> = request.blocks.iter().map(|id| Block::new(*id)).collect();
        let present = self.present(&blocks).await;
        let run = present.iter().take_while(|place| place.is_some()).count();
        let read = self.read(&blocks[..run]).await;
        let on_ssd = present
            .iter()
            .take(read)
            .filter(|place| **place == Some(Place::Ssd))
            .count();
        let report = &mut self.report;
        report.requests += 1;
        report.blocks += blocks.len() as u64;
        report.prompt_tokens += request.input_length;
        report.hit_tokens += request.hit_tokens(read);
        report.hits.dram += (read - on_ssd) as u64;
        report.hits.ssd += on_ssd as u64;
        report.prefix_token_hit_rate =
            report.hit_tokens as f64 / report.prompt_tokens.max(1) as f64;
        let last_first: Vec<_> = blocks.iter().rev().copied().collect();
        for lot in last_first.chunks(LOT) {
            self.use_lot(lot).await;
        }
    }

    /// Where the best replica of each block is; takes no guard and counts as no use.
    async fn present(&mut self, blocks: &[Block]) -> Vec<Option<Place>> {
        let keys: Vec<&[u8]> = blocks.iter().map(|block| &block.key[..]).collect();
        let stats = self.client.stat_many(&keys).await;
        stats
            .into_iter()
            .map(|stat| {
                let stat = self.noted(stat).flatten()?;
                let best = stat.replicas.as_slice().first()?;
                Some(match self.options.ssd.contains(&best.placement.segment) {
                    true => Place::Ssd,
                    false => Place::Memory,
                })
            })
            .collect()
    }

    /// Keeps count of errors.
    fn noted<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.report.errors += 1;
                self.report
                    .first_error
                    .get_or_insert_with(|| error.to_string());
                None
            }
        }
    }

    /// Reads and verifies; says how many of the first blocks were there and right.
    async fn read(&mut self, blocks: &[Block]) -> usize {
        let mut run = 0;
        for lot in blocks.chunks(LOT) {
            let keys: Vec<&[u8]> = lot.iter().map(|block| &block.key[..]).collect();
            let mut room = std::mem::take(&mut self.room);
            let mut buffers: Vec<&mut [u8]> = room
                .iter_mut()
                .take(lot.len())
                .map(|room| &mut room[..])
                .collect();
            let began = Instant::now();
            let answers = self
                .client
                .get_many_into(&keys, &mut buffers, Recency::Keep)
                .await;
            let span = began.elapsed();
            let mut bytes = 0;
            let mut right = 0;
            for ((block, answer), buffer) in lot.iter().zip(answers).zip(&room) {
                let Some(len) = self.noted(answer).flatten() else {
                    continue;
                };
                bytes += len;
                if self.verify(*block, &buffer[..len as usize]) {
                    right += usize::from(right == run % LOT);
                    run += 1;
                }
            }
            self.room = room;
            self.report.bytes_read += bytes;
            self.gets.add(span, bytes);
            if right < lot.len() {
                break;
            }
        }
        run
    }

    fn verify(&mut self, block: Block, bytes: &[u8]) -> bool {
        let whole = bytes.len() as u64 == self.options.block_bytes;
        let right = match self.versions.get(&block.id) {
            Some(version) => self.payload(block, *version).check(bytes).is_ok(),
            // A block that an earlier run has put: any of its first versions.
            None => (1..=16).any(|version| self.payload(block, version).check(bytes).is_ok()),
        };
        self.report.wrong_bytes += u64::from(!(whole && right));
        whole && right
    }

    fn payload(&self, block: Block, version: u64) -> Payload {
        Origin {
            seed: self.options.seed,
            key_hash: block.hash,
            version,
        }
        .into()
    }

    /// Uses blocks in this order: a present one is touched, an absent one put; neighbours of a kind in one call.
    async fn use_lot(&mut self, lot: &[Block]) {
        let mut rest = lot;
        while !rest.is_empty() {
            // Looked up anew for each group: a put may have evicted what was there a moment ago.
            let present = self.present(rest).await;
            let kind = present[0].is_some();
            let same = present
                .iter()
                .take_while(|present| present.is_some() == kind)
                .count();
            let (now, later) = rest.split_at(same);
            if kind {
                let keys: Vec<&[u8]> = now.iter().map(|block| &block.key[..]).collect();
                let touched = self.client.touch(&keys).await;
                self.noted(touched);
            } else {
                self.put(now).await;
            }
            rest = later;
        }
    }

    async fn put(&mut self, blocks: &[Block]) {
        let mut room = std::mem::take(&mut self.room);
        for (block, room) in blocks.iter().zip(&mut room) {
            let version = self.versions.get(&block.id).copied().unwrap_or(0) + 1;
            self.payload(*block, version).fill(room);
        }
        let parts: Vec<[&[u8]; 1]> = room
            .iter()
            .take(blocks.len())
            .map(|room| [&room[..]])
            .collect();
        let requests: Vec<_> = blocks
            .iter()
            .zip(&parts)
            .map(|(block, parts)| PutRequest::new(&block.key, parts))
            .collect();
        let began = Instant::now();
        let answers = self
            .client
            .put_many(&requests, &PutOptions::default())
            .await;
        let span = began.elapsed();
        let mut bytes = 0;
        for (block, answer) in blocks.iter().zip(answers) {
            if let Some(PutOutcome::Stored { .. }) = self.noted(answer) {
                *self.versions.entry(block.id).or_default() += 1;
                bytes += self.options.block_bytes;
            }
        }
        self.room = room;
        self.report.bytes_written += bytes;
        self.puts.add(span, bytes);
    }
}
