//! A trace file through a store: in process beside the exact prediction, or through a cluster; or the prediction alone.

use crate::{
    PolicyKind, PredictOptions, Totals, Trace,
    demo::{Tiers, open_for_replay, ssd_segments, tell_ssd},
    predict,
    replay::{Hits, Progress, RunOptions, RunReport, run},
};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Instant};
use ziggurat_base::{ByteCount, Clock, ManualClock, Result};
use ziggurat_engine::command::Stats;
use ziggurat_store::{Store, SystemClock};

/// What to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The trace.
    pub trace: PathBuf,
    /// Payload bytes of a block.
    pub block_bytes: ByteCount,
    /// Payloads derive from it.
    pub seed: u64,
    /// Stop after this many requests.
    pub requests_max: Option<u64>,
    /// Replay the pauses between requests, this many times as fast; none when `None`.
    pub pace: Option<f64>,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// The run.
    #[serde(flatten)]
    pub run: RunReport,
    /// The policy-only run over the same requests at the same capacity, where the capacity is known.
    pub predicted: Option<Totals>,
    /// Blocks that the memory holds, where it is known.
    pub capacity_blocks: Option<u64>,
    /// Name of the policy, where it is known.
    pub policy: Option<&'static str>,
}

/// Replays in a store of this process that is opened for it, at exactly the capacity that the prediction has.
///
/// # Errors
/// As [`Store::open`] and [`crate::predict()`]; errors of calls are counted in the report.
pub async fn replay_in_process(
    options: &ReplayOptions,
    tiers: &Tiers,
    policy: PolicyKind,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<ReplayReport> {
    let capacity_blocks = tiers.capacity_blocks(options.block_bytes)?;
    let predicted = predict(
        Trace::open(&options.trace)?,
        &PredictOptions {
            policy,
            capacity_blocks,
            requests_max: options.requests_max,
        },
    )?;
    // A paced run lives in real time: a clock that is moved by hand would skip the pauses.
    let moved = options.pace.is_none().then(ManualClock::default);
    let clock: Arc<dyn Clock> = match &moved {
        Some(clock) => Arc::new(clock.clone()),
        None => Arc::new(SystemClock::default()),
    };
    tiers.check_seed(options.seed, options.block_bytes)?;
    let store = open_for_replay(tiers, policy, clock)?;
    let mut run = through(&store, options, moved, progress).await?;
    // What is on its way to SSD arrives, for the next run to find.
    store.close().await;
    tell_ssd(&store, &mut run);
    Ok(ReplayReport {
        run,
        predicted: Some(predicted),
        capacity_blocks: Some(capacity_blocks),
        policy: Some(policy.name()),
    })
}

/// Replays through a cluster as it is.
///
/// # Errors
/// When the trace cannot be read or the master not be asked; errors of calls are counted in the report.
pub async fn replay_in_cluster(
    options: &ReplayOptions,
    store: &Store,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<ReplayReport> {
    let run = through(store, options, None, progress).await?;
    Ok(ReplayReport {
        run,
        predicted: None,
        capacity_blocks: None,
        policy: None,
    })
}

async fn through(
    store: &Store,
    options: &ReplayOptions,
    clock: Option<ManualClock>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<RunReport> {
    let run_options = RunOptions {
        block_bytes: options.block_bytes.0,
        seed: options.seed,
        requests_max: options.requests_max,
        pace: options.pace,
        clock,
        ssd: ssd_segments(store).await?,
    };
    let gone = |stats: Stats| stats.evicted + stats.demoted;
    let before = store.stats().await?;
    let trace = Trace::open(&options.trace)?;
    let mut report = run(store, trace, &run_options, progress).await?;
    let after = store.stats().await?;
    report.evictions = gone(after).saturating_sub(gone(before));
    report.promoted = after.promoted.saturating_sub(before.promoted);
    report.promotions_dropped = after
        .promotions_dropped
        .saturating_sub(before.promotions_dropped);
    Ok(report)
}

/// The prediction alone, in the form of a run that moved no payload.
///
/// # Errors
/// As [`crate::predict()`].
pub fn replay_policy_only(
    options: &ReplayOptions,
    policy: PolicyKind,
    capacity_blocks: u64,
) -> Result<ReplayReport> {
    let began = Instant::now();
    let totals = predict(
        Trace::open(&options.trace)?,
        &PredictOptions {
            policy,
            capacity_blocks,
            requests_max: options.requests_max,
        },
    )?;
    let run = RunReport {
        requests: totals.requests,
        blocks: totals.blocks,
        prompt_tokens: totals.prompt_tokens,
        hit_tokens: totals.hit_tokens,
        prefix_token_hit_rate: totals.prefix_token_hit_rate,
        hits: Hits {
            dram: totals.hits,
            ssd: 0,
        },
        evictions: totals.evictions,
        seconds: began.elapsed().as_secs_f64(),
        ..RunReport::default()
    };
    Ok(ReplayReport {
        run,
        predicted: None,
        capacity_blocks: Some(capacity_blocks),
        policy: Some(policy.name()),
    })
}
