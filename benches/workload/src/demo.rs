//! The demonstration: a seeded chat workload through an in-process store, with every byte checked, beside the exact
//! prediction of what must be found.

use crate::{
    Chat, ChatOptions, PolicyKind, PredictOptions, Totals,
    chat::unique_blocks,
    predict,
    replay::{BudgetReport, Progress, RunOptions, RunReport, run},
};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, sync::Arc, time::Duration};
use ziggurat_base::{
    ByteCount, Clock, Code, Error, Job, ManualClock, Result, SegmentId, Timestamp,
};
use ziggurat_engine::{catalog, command::Keep, space::AllocatorKind};
use ziggurat_store::{
    MemoryOptions, OpenOptions, Packing, PromotionMode, SsdOptions, SsdPath, Store, SystemClock,
    WriteBudget,
};

/// What to demonstrate.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Everything derives from it.
    pub seed: u64,
    /// Memory and SSD of the store.
    pub tiers: Tiers,
    /// Payload bytes of a block.
    pub block_bytes: ByteCount,
    /// Payload of all distinct blocks together, at least.
    pub payload: ByteCount,
    /// Who leaves.
    pub policy: PolicyKind,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            tiers: Tiers {
                dram: ByteCount::mib(256),
                ssd: Vec::new(),
                logical_cap: None,
                write_budget: None,
                packing: Packing::default(),
                promotion: PromotionMode::Off,
            },
            block_bytes: ByteCount::kib(64),
            payload: ByteCount::mib(1280),
            policy: PolicyKind::default(),
        }
    }
}

/// What was seen, and what the policy alone predicts.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// The run.
    #[serde(flatten)]
    pub run: RunReport,
    /// The policy-only run over the same requests at the same capacity.
    pub predicted: Totals,
    /// Payload of all distinct blocks together.
    pub payload_bytes: u64,
    /// Blocks that the tiers hold.
    pub capacity_blocks: u64,
    /// Name of the policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
}

/// Distinct blocks that one session of the default workload brings.
const BLOCKS_PER_SESSION: u64 = 18;

/// The default workload, scaled by its number of sessions.
fn chat_options(options: &DemoOptions) -> Result<ChatOptions> {
    let blocks = options.payload.0.div_ceil(options.block_bytes.0.max(1));
    let sessions = u32::try_from(blocks.div_ceil(BLOCKS_PER_SESSION)).map_err(|_| {
        Error::new(
            Code::InvalidParams,
            format!(
                "{} of payload are too many blocks: give less --payload",
                options.payload
            ),
        )
    })?;
    let plain = ChatOptions::default();
    Ok(ChatOptions {
        seed: options.seed,
        sessions,
        sessions_at_once: plain.sessions_at_once.min(sessions),
        ..plain
    })
}

/// Whole blocks that `dram` bytes of memory hold, with what belongs to each.
///
/// # Errors
/// `InvalidParams` when not even one does.
pub fn capacity_blocks(dram: ByteCount, block_bytes: ByteCount) -> Result<u64> {
    let space = AllocatorKind::Offset.build(dram.0);
    let table = ziggurat_base::checksum::table_len(block_bytes.0);
    let lens = [block_bytes.0, table];
    let one: u64 = lens
        .iter()
        .filter(|len| **len > 0)
        .map(|len| space.footprint(*len))
        .sum();
    match space.capacity().checked_div(one) {
        Some(blocks) if blocks > 0 => Ok(blocks),
        _ => Err(Error::new(
            Code::InvalidParams,
            format!("{dram} of memory does not hold one block of {block_bytes}: give more --dram"),
        )),
    }
}

/// The tiers of a store in this process.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Memory.
    pub dram: ByteCount,
    /// SSD directories; none for memory alone.
    pub ssd: Vec<SsdPath>,
    /// The most payload that each directory holds, as it came.
    pub logical_cap: Option<ByteCount>,
    /// How much may be written to each directory; in a replay that nothing paces, in the time of the trace.
    pub write_budget: Option<WriteBudget>,
    /// How payloads are stored there.
    pub packing: Packing,
    /// When what is read from SSD comes back into memory. The prediction knows of no such thing: it is exact without.
    pub promotion: PromotionMode,
}

/// What payloads of an earlier run in the same directory derive from.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    seed: u64,
    block_bytes: u64,
}

impl Tiers {
    /// Blocks that the tiers hold together, as far as that is known. An SSD directory holds what memory holds too.
    ///
    /// # Errors
    /// As [`capacity_blocks`].
    pub fn capacity_blocks(&self, block_bytes: ByteCount) -> Result<u64> {
        let memory = capacity_blocks(self.dram, block_bytes)?;
        let on_ssd = |ssd: &SsdPath| {
            let bounds = [ssd.size, self.logical_cap].into_iter().flatten();
            let least = bounds.map(|bound| bound.0 / block_bytes.0.max(1)).min();
            least.unwrap_or(u64::MAX)
        };
        let below = self.ssd.iter().map(on_ssd).fold(0, u64::saturating_add);
        Ok(memory.max(below).min(u64::from(u32::MAX / 2)))
    }

    /// Refuses a directory in which another seed or block size was used: its payloads could not be checked.
    ///
    /// # Errors
    /// `InvalidParams` naming both; `PersistentFail` when the note of it cannot be kept.
    pub fn check_seed(&self, seed: u64, block_bytes: ByteCount) -> Result<()> {
        let Some(first) = self.ssd.first() else {
            return Ok(());
        };
        SsdPath::check_all(&self.ssd)?;
        let here = Origin {
            seed,
            block_bytes: block_bytes.0,
        };
        let folder = first.state_dir();
        let name = folder.join("workload.json");
        let before = std::fs::read(&name).ok();
        match before.and_then(|text| serde_json::from_slice::<Origin>(&text).ok()) {
            Some(before) if before != here => Err(Error::new(
                Code::InvalidParams,
                format!(
                    "{} holds blocks of {} from seed {}: give these, or another directory",
                    first.path.display(),
                    ByteCount(before.block_bytes),
                    before.seed
                ),
            )),
            Some(_) => Ok(()),
            None => {
                let text = serde_json::to_vec(&here).unwrap_or_default();
                let written =
                    std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&name, text));
                written.map_err(|error| {
                    Error::new(
                        Code::PersistentFail,
                        format!("{} cannot be written: {error}", name.display()),
                    )
                })
            }
        }
    }
}

/// The trace's clock where disks are in play: a wait takes the time that it says, for what is waited for is real.
struct TraceClock {
    trace: Arc<dyn Clock>,
    real: SystemClock,
}

impl Clock for TraceClock {
    fn now(&self) -> Timestamp {
        self.trace.now()
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        let span = at.since(self.now());
        let real = self.real.sleep_until(self.real.now().after(span));
        let trace = Arc::clone(&self.trace);
        Box::pin(async move {
            real.await;
            trace.sleep_until(at).await;
        })
    }
}

/// An in-process store for exact replay: it evicts on demand only. Its time is the trace's when `clock` is moved by the
/// run.
///
/// # Errors
/// As [`Store::open`].
pub fn open_for_replay(tiers: &Tiers, policy: PolicyKind, clock: Arc<dyn Clock>) -> Result<Store> {
    let clock = match tiers.ssd.is_empty() {
        true => clock,
        false => Arc::new(TraceClock {
            trace: clock,
            real: SystemClock::default(),
        }),
    };
    Store::open(OpenOptions {
        memory: MemoryOptions {
            dram: tiers.dram,
            ..MemoryOptions::default()
        },
        ssd: SsdOptions {
            directories: tiers.ssd.clone(),
            logical_cap: tiers.logical_cap,
            write_budget: tiers.write_budget,
            packing: tiers.packing,
            ..SsdOptions::default()
        },
        catalog: catalog::Config {
            policy,
            high_watermark: 1.0,
            promotion: tiers.promotion,
            // In the trace's time a second is nothing; the SSD is waited for in real time.
            offload_patience: Duration::from_secs(1 << 32),
            offload_share: 1.0,
            ..catalog::Config::default()
        },
        clock,
        ..OpenOptions::default()
    })
}

/// The segments of a store that are on SSD.
///
/// # Errors
/// When the master cannot be asked.
pub async fn ssd_segments(store: &Store) -> Result<HashSet<SegmentId>> {
    let segments = store.segments().await?;
    let owned = segments
        .iter()
        .filter(|segment| segment.keep != Keep::Delegated);
    Ok(owned.map(|segment| segment.id).collect())
}

/// Adds what the SSD directories of this process have seen.
pub fn tell_ssd(store: &Store, report: &mut RunReport) {
    if let Some(ssd) = store.ssd() {
        report.recovered_objects = ssd.recovered;
        report.ssd_bytes_written = ssd.total.device_bytes;
        report.write_amplification = ssd.total.write_amplification();
        report.ssd_bytes_per_hit = ssd.total.bytes_per_hit();
        report.ssd_bytes_stored = ssd.total.stored_bytes;
        report.ssd_objects_compressed = ssd.total.compressed;
        let budget = ssd.total.budget;
        report.write_budget = (budget.rate > 0).then(|| BudgetReport {
            bytes_per_second: budget.rate,
            share_used: budget.share(),
            waits: budget.waits,
            seconds_waited: budget.waited.as_secs_f64(),
            objects_refused: budget.refused,
            records_not_copied: budget.uncopied,
        });
    }
}

/// Runs the demonstration.
///
/// # Errors
/// As [`Store::open`] and [`crate::predict()`]; errors of calls are counted in the report.
pub async fn demo(
    options: &DemoOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<DemoReport> {
    let capacity_blocks = options.tiers.capacity_blocks(options.block_bytes)?;
    let requests: Vec<_> = Chat::new(chat_options(options)?)?.collect();
    let predicted = predict(
        requests.iter().cloned().map(Ok),
        &PredictOptions {
            policy: options.policy,
            capacity_blocks,
            requests_max: None,
        },
    )?;
    let clock = ManualClock::default();
    options
        .tiers
        .check_seed(options.seed, options.block_bytes)?;
    let store = open_for_replay(&options.tiers, options.policy, Arc::new(clock.clone()))?;
    let run_options = RunOptions {
        block_bytes: options.block_bytes.0,
        seed: options.seed,
        requests_max: None,
        pace: None,
        clock: Some(clock),
        ssd: ssd_segments(&store).await?,
    };
    let payload_bytes = unique_blocks(requests.iter().cloned()) * options.block_bytes.0;
    let mut run = run(&store, requests.into_iter().map(Ok), &run_options, progress).await?;
    store.close().await;
    tell_ssd(&store, &mut run);
    let stats = store.stats().await?;
    run.evictions = stats.evicted + stats.demoted;
    run.promoted = stats.promoted;
    run.promotions_dropped = stats.promotions_dropped;
    Ok(DemoReport {
        run,
        predicted,
        payload_bytes,
        capacity_blocks,
        policy: options.policy.to_string(),
        seed: options.seed,
    })
}
