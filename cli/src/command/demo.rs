//! `ziggurat demo`: a chat workload through an in-process store, every byte checked.

use crate::{
    answer::{Answer, Exit},
    progress,
    screen::Screen,
    table::{Paint, Table},
};
use indicatif::ProgressBar;
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_store::{Codec, LEVEL_MAX, Packing, PromotionMode, SsdPath, WriteBudget};
use ziggurat_workload::{
    PolicyKind, Totals,
    demo::{DemoOptions, DemoReport, Tiers, demo},
    replay::{BudgetReport, Progress, RunReport},
};

const EXAMPLES: &str = "\
Examples:
  ziggurat demo
  ziggurat demo --dram 512MiB --policy s3_fifo --seed 7 --json";

/// Run a chat workload through a store in this process and check every byte
///
/// Conversations with shared system prompts and growing prefixes; the store has a quarter of the memory that they would
/// need. Prints what was found beside what the eviction policy alone predicts. Exit code 1 when a byte is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Everything derives from it: the requests and every payload
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Memory of the store
    #[arg(long, value_name = "SIZE", default_value_t = DemoOptions::default().tiers.dram)]
    dram: ByteCount,
    /// SSD directories below it; a temporary one of 4 times the memory when not given
    #[arg(
        long,
        value_name = "DIR[:SIZE][,DIR…]",
        value_delimiter = ',',
        conflicts_with = "no_ssd"
    )]
    ssd: Vec<SsdPath>,
    /// The most payload that each SSD directory holds, counted as it came
    #[arg(long, value_name = "SIZE", conflicts_with = "no_ssd")]
    ssd_logical_cap: Option<ByteCount>,
    /// How much may be written to each SSD directory: 200MiB/s, or its size so often a day (1.0dwpd)
    #[arg(long, value_name = "RATE", conflicts_with = "no_ssd")]
    ssd_write_budget: Option<WriteBudget>,
    /// How payloads are stored on SSD: none, zstd or bf16-planes+zstd
    #[arg(long, value_name = "CODEC", default_value_t, conflicts_with = "no_ssd")]
    ssd_codec: Codec,
    /// How hard Zstandard tries, 1 to 19
    #[arg(long, value_name = "NUMBER", default_value_t = Packing::default().level, value_parser = clap::value_parser!(u8).range(1..=i64::from(LEVEL_MAX)))]
    ssd_codec_level: u8,
    /// When what is read from SSD comes back into memory: off, first-hit or second-hit; the prediction is exact when off
    #[arg(long, value_name = "MODE", default_value_t = DemoOptions::default().tiers.promotion, conflicts_with = "no_ssd")]
    promotion: PromotionMode,
    /// Memory alone
    #[arg(long)]
    no_ssd: bool,
    /// Payload of all distinct blocks together, at least
    #[arg(long, value_name = "SIZE", default_value_t = DemoOptions::default().payload)]
    payload: ByteCount,
    /// Payload of one block
    #[arg(long, value_name = "SIZE", default_value_t = DemoOptions::default().block_bytes)]
    block_bytes: ByteCount,
    /// Who leaves when room is needed: lru, fifo or s3_fifo
    #[arg(long, value_name = "POLICY", default_value_t)]
    policy: PolicyKind,
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    // Goes with everything in it when the run is over.
    let mut scratch = None;
    let ssd = match (arguments.no_ssd, arguments.ssd.as_slice()) {
        (true, _) => Vec::new(),
        (false, []) => {
            let folder = scratch.insert(scratch_folder()?);
            let size = ByteCount(4 * arguments.payload.0.max(arguments.dram.0)).max(SSD_LEAST);
            vec![SsdPath {
                path: folder.path().into(),
                size: Some(size),
            }]
        }
        (false, given) => given.to_vec(),
    };
    let options = DemoOptions {
        seed: arguments.seed,
        tiers: Tiers {
            dram: arguments.dram,
            ssd,
            logical_cap: arguments.ssd_logical_cap,
            write_budget: arguments.ssd_write_budget,
            packing: Packing {
                codec: arguments.ssd_codec,
                level: arguments.ssd_codec_level,
            },
            promotion: arguments.promotion,
        },
        block_bytes: arguments.block_bytes,
        payload: arguments.payload,
        policy: arguments.policy,
    };
    let bar = progress::bar(None, "requests");
    let report = pollster::block_on(demo(&options, &mut |progress| show(&bar, progress)));
    bar.finish_and_clear();
    let report = report?;
    let exit = verdict(&report.run);
    Ok(Answer::done(text(&report, screen), &report).ending(exit))
}

/// The least size of the temporary directory: a few log files.
const SSD_LEAST: ByteCount = ByteCount::mib(64);

fn scratch_folder() -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("ziggurat-demo-").tempdir();
    folder.map_err(|error| {
        Error::new(
            Code::FileOpenFail,
            format!("no temporary directory can be made: {error}: set TMPDIR, or give --ssd DIR or --no-ssd"),
        )
    })
}

/// Shows how far a run is.
pub(super) fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_position(progress.requests);
    bar.set_message(format!(
        "{} moved, {:.0} % found",
        ByteCount(progress.bytes),
        progress.hit_rate * 100.0
    ));
}

/// Wrong bytes are a failure, whatever else went well.
pub(super) fn verdict(run: &RunReport) -> Exit {
    if run.wrong_bytes > 0 || run.errors > 0 {
        Exit::Failed
    } else {
        Exit::Done
    }
}

fn text(report: &DemoReport, screen: &Screen) -> String {
    let run = &report.run;
    format!(
        "{} requests, {} blocks; {} of distinct payload through room for {} blocks, policy {}\n\n{}\n{}",
        run.requests,
        run.blocks,
        ByteCount(report.payload_bytes),
        report.capacity_blocks,
        report.policy,
        comparison(run, &report.predicted, screen),
        movement(run, screen)
    )
}

/// What was found beside what the policy alone predicts.
pub(super) fn comparison(run: &RunReport, predicted: &Totals, screen: &Screen) -> String {
    let mut table = Table::new(screen, ["", "this run", "policy alone"]);
    let mut row = |what: &str, here: String, there: String| {
        table.row([
            (what.into(), Paint::Plain),
            (here, Paint::Strong),
            (there, Paint::Dim),
        ]);
    };
    let rate = |rate: f64| format!("{:.2} %", rate * 100.0);
    row(
        "prefix token hit rate",
        rate(run.prefix_token_hit_rate),
        rate(predicted.prefix_token_hit_rate),
    );
    row(
        "blocks found",
        run.hits.all().to_string(),
        predicted.hits.to_string(),
    );
    row("… in memory", run.hits.dram.to_string(), String::new());
    row("… on SSD", run.hits.ssd.to_string(), String::new());
    row("… brought back", run.promoted.to_string(), String::new());
    row(
        "evictions",
        run.evictions.to_string(),
        predicted.evictions.to_string(),
    );
    table.text()
}

/// What the write budget has done, in a line.
fn budget(report: BudgetReport) -> String {
    format!(
        "write budget: {}/s, {:.0} % used, {:.1} s waited, {} objects refused, {} records not copied\n",
        ByteCount(report.bytes_per_second),
        report.share_used * 100.0,
        report.seconds_waited,
        report.objects_refused,
        report.records_not_copied
    )
}

/// What was moved, how fast, and whether it was right.
pub(super) fn movement(run: &RunReport, screen: &Screen) -> String {
    let mut table = Table::new(screen, ["", "moved", "speed", "p50", "p99"]);
    for (what, bytes, latency) in [
        ("read", run.bytes_read, run.get),
        ("written", run.bytes_written, run.put),
    ] {
        table.row([
            (what.into(), Paint::Plain),
            (ByteCount(bytes).to_string(), Paint::Plain),
            (format!("{:.2} GB/s", latency.gbps), Paint::Strong),
            (format!("{:.0} us", latency.p50_us), Paint::Plain),
            (format!("{:.0} us", latency.p99_us), Paint::Plain),
        ]);
    }
    let first = run
        .first_error
        .as_ref()
        .map(|e| format!("first error: {e}\n"))
        .unwrap_or_default();
    let budget = run.write_budget.map(budget).unwrap_or_default();
    format!(
        "{}\n{budget}wrong bytes: {}   errors: {}   {:.1} s\n{first}",
        table.text(),
        run.wrong_bytes,
        run.errors,
        run.seconds
    )
}
