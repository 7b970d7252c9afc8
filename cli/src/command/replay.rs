//! `ziggurat replay`: a prompt trace through a store, every byte checked, or through the policy alone.

use super::demo::{comparison, movement, show, verdict};
use crate::{answer::Answer, progress, screen::Screen};
use std::path::PathBuf;
use ziggurat_base::{ByteCount, Result};
use ziggurat_store::{
    Blocking, Codec, ConnectOptions, LEVEL_MAX, Packing, PromotionMode, SsdPath, WriteBudget,
};
use ziggurat_workload::{
    PolicyKind, ReplayOptions, ReplayReport,
    demo::Tiers,
    trace_replay::{replay_in_cluster, replay_in_process, replay_policy_only},
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
    /// SSD directories below it; what an earlier run with the same seed left in them is found again
    #[arg(long, value_name = "DIR[:SIZE][,DIR…]", value_delimiter = ',', conflicts_with_all = ["cluster", "policy_only"])]
    ssd: Vec<SsdPath>,
    /// The most payload that each SSD directory holds, counted as it came
    #[arg(long, value_name = "SIZE", requires = "ssd")]
    ssd_logical_cap: Option<ByteCount>,
    /// How much may be written to each SSD directory: 200MiB/s, or its size so often a day (1.0dwpd); a second is one of the
    /// trace
    #[arg(long, value_name = "RATE", requires = "ssd")]
    ssd_write_budget: Option<WriteBudget>,
    /// How payloads are stored on SSD: none, zstd or bf16-planes+zstd
    #[arg(long, value_name = "CODEC", default_value_t, requires = "ssd")]
    ssd_codec: Codec,
    /// How hard Zstandard tries, 1 to 19
    #[arg(long, value_name = "NUMBER", default_value_t = Packing::default().level, value_parser = clap::value_parser!(u8).range(1..=i64::from(LEVEL_MAX)))]
    ssd_codec_level: u8,
    /// When what is read from SSD comes back into memory: off, first-hit or second-hit; the prediction is exact when off
    #[arg(long, value_name = "MODE", default_value_t = PromotionMode::Off, conflicts_with_all = ["cluster", "policy_only"])]
    promotion: PromotionMode,
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
    #[arg(long, value_name = "FACTOR", value_parser = pace)]
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

fn pace(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(pace) if pace.is_finite() && pace > 0.0 => Ok(pace),
        _ => Err("give a number above 0; 1 is the trace's own pace".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    let options = ReplayOptions {
        trace: arguments.trace.clone(),
        block_bytes: arguments.block_bytes,
        seed: arguments.seed,
        requests_max: arguments.limit,
        pace: arguments.pace,
    };
    let policy = arguments.policy;
    if let Some(capacity_blocks) = arguments.capacity_blocks {
        let report = replay_policy_only(&options, policy, capacity_blocks)?;
        return Ok(Answer::done(summary(&report), &report));
    }
    let bar = progress::bar(arguments.limit, "requests");
    let mut shown = |progress| show(&bar, progress);
    let report = match &arguments.cluster {
        Some(master) => {
            let store = Blocking::connect(ConnectOptions::new(master.as_str()))?;
            store.wait(replay_in_cluster(&options, store.store(), &mut shown))
        }
        None => pollster::block_on(replay_in_process(
            &options,
            &Tiers {
                dram: arguments.dram,
                ssd: arguments.ssd.clone(),
                logical_cap: arguments.ssd_logical_cap,
                write_budget: arguments.ssd_write_budget,
                packing: Packing {
                    codec: arguments.ssd_codec,
                    level: arguments.ssd_codec_level,
                },
                promotion: arguments.promotion,
            },
            policy,
            &mut shown,
        )),
    };
    bar.finish_and_clear();
    let report = report?;
    let exit = verdict(&report.run);
    Ok(Answer::done(text(&report, screen), &report).ending(exit))
}

/// The run in one line, and its policy where it is known.
fn summary(report: &ReplayReport) -> String {
    let run = &report.run;
    let place = match (report.policy, report.capacity_blocks) {
        (Some(policy), Some(blocks)) => format!(" through memory for {blocks}, policy {policy}"),
        _ => String::new(),
    };
    format!(
        "{} requests, {} blocks{place}\nprefix token hit rate {:.2} %, {} blocks found, {} evictions, {} promoted, {:.1} s\n",
        run.requests,
        run.blocks,
        run.prefix_token_hit_rate * 100.0,
        run.hits.all(),
        run.evictions,
        run.promoted,
        run.seconds
    )
}

fn text(report: &ReplayReport, screen: &Screen) -> String {
    let beside = report
        .predicted
        .as_ref()
        .map(|predicted| format!("\n{}", comparison(&report.run, predicted, screen)));
    format!(
        "{}{}\n{}",
        summary(report),
        beside.unwrap_or_default(),
        movement(&report.run, screen)
    )
}
