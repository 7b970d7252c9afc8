//! `ziggurat replay`: a prompt trace through a store, every byte checked, or through the policy alone.

use super::demo::{movement, verdict};
use crate::{answer::Answer, progress, screen::Screen};
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use ziggurat_base::{ByteCount, Code, Error, ManualClock, Result};
use ziggurat_store::{Blocking, ConnectOptions};
use ziggurat_workload::{
    PolicyKind, PredictOptions, Totals, Trace,
    demo::open_for_replay,
    predict,
    replay::{RunOptions, RunReport, run as run_requests},
};

const EXAMPLES: &str = "\
Examples:
  ziggurat replay --trace conversation_trace.jsonl --dram 1GiB --block-bytes 64KiB
  ziggurat replay --trace conversation_trace.jsonl --policy-only --capacity-blocks 5860 --policy s3_fifo
  ziggurat replay --trace conversation_trace.jsonl --cluster 127.0.0.1:50051 --limit 1000 --json";

/// Replay a prompt trace through a store and check every byte
///
/// A trace has one JSON object a line: timestamp (ms), input_length, output_length, hash_ids; one id is a block of 512
/// tokens. For each request the leading run of present blocks is read, then the others are put, last block first. Leases
/// and policies see the trace's time; nothing sleeps unless --pace is given. Exit code 1 when a byte is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The trace
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Memory of the in-process store
    #[arg(long, value_name = "SIZE", default_value_t = ByteCount::gib(1), conflicts_with = "cluster")]
    dram: ByteCount,
    /// Payload of one block
    #[arg(long, value_name = "SIZE", default_value_t = ByteCount::kib(64))]
    block_bytes: ByteCount,
    /// Who leaves when room is needed: lru, fifo or s3_fifo
    #[arg(
        long,
        value_name = "POLICY",
        default_value_t,
        conflicts_with = "cluster"
    )]
    policy: PolicyKind,
    /// Stop after so many requests
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,
    /// Payloads derive from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Replay the pauses between requests, so many times as fast
    #[arg(long, value_name = "FACTOR")]
    pace: Option<f64>,
    /// Use the cluster of this master instead of a store in process
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Option<String>,
    /// Run the policy alone, without payload
    #[arg(long, requires = "capacity_blocks", conflicts_with_all = ["cluster", "pace"])]
    policy_only: bool,
    /// Blocks that the store holds, for --policy-only
    #[arg(long, value_name = "NUMBER", requires = "policy_only")]
    capacity_blocks: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    if arguments
        .pace
        .is_some_and(|pace| !pace.is_finite() || pace <= 0.0)
    {
        return Err(Error::new(
            Code::InvalidParams,
            "--pace must be a number above 0; 1 is the trace's own pace",
        ));
    }
    let trace = Trace::open(&arguments.trace)?;
    match arguments.capacity_blocks {
        Some(capacity_blocks) => policy_only(arguments, trace, capacity_blocks),
        None => with_payload(arguments, trace, screen),
    }
}

#[derive(Serialize)]
struct Prediction {
    #[serde(flatten)]
    totals: Totals,
    policy: String,
    capacity_blocks: u64,
    seconds: f64,
}

fn policy_only(
    arguments: &Arguments,
    trace: impl Iterator<Item = Result<ziggurat_workload::Request>>,
    capacity_blocks: u64,
) -> Result<Answer> {
    let began = Instant::now();
    let options = PredictOptions {
        policy: arguments.policy,
        capacity_blocks,
        requests_max: arguments.limit,
    };
    let totals = predict(trace, &options)?;
    let report = Prediction {
        totals,
        policy: arguments.policy.to_string(),
        capacity_blocks,
        seconds: began.elapsed().as_secs_f64(),
    };
    let text = format!(
        "{} requests, {} blocks through {capacity_blocks} blocks, policy {}\nprefix token hit rate {:.2} %, {} evictions, {:.2} s\n",
        totals.requests,
        totals.blocks,
        report.policy,
        totals.prefix_token_hit_rate * 100.0,
        totals.evictions,
        report.seconds
    );
    Ok(Answer::done(text, &report))
}

fn with_payload(
    arguments: &Arguments,
    trace: impl Iterator<Item = Result<ziggurat_workload::Request>>,
    screen: &Screen,
) -> Result<Answer> {
    let clock = ManualClock::default();
    let store = match &arguments.cluster {
        Some(master) => Blocking::connect(ConnectOptions::new(master.as_str()))?,
        None => open_for_replay(arguments.dram, arguments.policy, &clock)?.blocking(),
    };
    let options = RunOptions {
        block_bytes: arguments.block_bytes.0,
        seed: arguments.seed,
        requests_max: arguments.limit,
        pace: arguments.pace,
        clock: arguments.cluster.is_none().then_some(clock),
    };
    let bar = progress::bar(arguments.limit, "requests");
    let evicted_before = store.stats()?.evicted;
    let report = store.wait(run_requests(
        store.store(),
        trace,
        &options,
        &mut |progress| {
            bar.set_position(progress.requests);
            bar.set_message(format!(
                "{} moved, {:.0} % found",
                ByteCount(progress.bytes),
                progress.hit_rate * 100.0
            ));
        },
    ));
    bar.finish_and_clear();
    let mut report = report?;
    report.evictions = store.stats()?.evicted - evicted_before;
    let exit = verdict(&report);
    Ok(Answer::done(text(&report, screen), &report).ending(exit))
}

fn text(report: &RunReport, screen: &Screen) -> String {
    format!(
        "{} requests, {} blocks\nprefix token hit rate {:.2} %, {} blocks found in memory, {} evictions\n\n{}",
        report.requests,
        report.blocks,
        report.prefix_token_hit_rate * 100.0,
        report.hits.dram,
        report.evictions,
        movement(report, screen)
    )
}
