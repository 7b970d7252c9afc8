//! The demonstration: a seeded chat workload through an in-process store, with every byte checked, beside the exact
//! prediction of what must be found.

use crate::{
    Chat, ChatOptions, PolicyKind, PredictOptions, Totals,
    chat::unique_blocks,
    predict,
    replay::{Progress, RunOptions, RunReport, run},
};
use serde::Serialize;
use std::sync::Arc;
use ziggurat_base::{ByteCount, Clock, Code, Error, ManualClock, Result};
use ziggurat_engine::{catalog, space::AllocatorKind};
use ziggurat_store::{MemoryOptions, OpenOptions, Store};

/// What to demonstrate.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Everything derives from it.
    pub seed: u64,
    /// Memory of the store.
    pub dram: ByteCount,
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
            dram: ByteCount::mib(256),
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
    /// Blocks that the memory holds.
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

/// An in-process store for exact replay: it evicts on demand only. Its time is the trace's when `clock` is moved by the
/// run.
///
/// # Errors
/// As [`Store::open`].
pub fn open_for_replay(
    dram: ByteCount,
    policy: PolicyKind,
    clock: Arc<dyn Clock>,
) -> Result<Store> {
    Store::open(OpenOptions {
        memory: MemoryOptions {
            dram,
            ..MemoryOptions::default()
        },
        catalog: catalog::Config {
            policy,
            high_watermark: 1.0,
            ..catalog::Config::default()
        },
        clock,
        ..OpenOptions::default()
    })
}

/// Runs the demonstration.
///
/// # Errors
/// As [`Store::open`] and [`crate::predict()`]; errors of calls are counted in the report.
pub async fn demo(
    options: &DemoOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<DemoReport> {
    let capacity_blocks = capacity_blocks(options.dram, options.block_bytes)?;
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
    let store = open_for_replay(options.dram, options.policy, Arc::new(clock.clone()))?;
    let run_options = RunOptions {
        block_bytes: options.block_bytes.0,
        seed: options.seed,
        requests_max: None,
        pace: None,
        clock: Some(clock),
    };
    let payload_bytes = unique_blocks(requests.iter().cloned()) * options.block_bytes.0;
    let mut run = run(&store, requests.into_iter().map(Ok), &run_options, progress).await?;
    run.evictions = store.stats().await?.evicted;
    Ok(DemoReport {
        run,
        predicted,
        payload_bytes,
        capacity_blocks,
        policy: options.policy.to_string(),
        seed: options.seed,
    })
}
