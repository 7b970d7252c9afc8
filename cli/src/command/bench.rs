//! `ziggurat bench`: how fast it is on this machine, beside what the machine can do without it.

mod codec;
mod recovery;
mod restart;
mod ssd;

use crate::{
    answer::{Answer, Exit},
    progress,
    screen::Screen,
    table::{Paint, Table},
};
use clap::{Subcommand, ValueEnum};
use indicatif::ProgressBar;
use std::time::Duration;
use ziggurat_base::{ByteCount, Result, unit::parse_span};
use ziggurat_workload::bench::{
    CatalogOptions, CatalogReport, DataOptions, DataReport, FailoverOptions, FailoverReport,
    Pinning, Program, RpcOptions, RpcReport, Subject, catalog, data, failover, peer, rpc,
};

const EXAMPLES: &str = "\
Examples:
  ziggurat bench catalog --keys 10000000 --json
  ziggurat bench data --rounds 9
  ziggurat bench rpc --pin one-core
  ziggurat bench failover --json
  ziggurat bench restart --dir /mnt/nvme0 --json
  ziggurat bench codec --sample kv.bin --json
  ziggurat bench ssd --dir /mnt/nvme0 --json
  ziggurat bench dfs --dir /mnt/shared --json";

/// Measure the speed on this machine beside its limits
///
/// Servers are processes of their own on loopback and end with the measurement. docs/benchmarks.md says how each figure is
/// made. Close other programs first: the limits are measured in the same run, but a busy machine blurs both.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The metadata partition alone: look-ups, puts and removals per CPU second, memory per key, longest call
    Catalog {
        /// Keys of 32 random bytes, one replica each
        #[arg(long, value_name = "NUMBER", default_value_t = CatalogOptions::default().keys)]
        keys: u64,
        /// Runs; the best counts
        #[arg(long, value_name = "NUMBER", default_value_t = CatalogOptions::default().runs)]
        runs: u32,
    },
    /// Payload: in process beside memcpy, over TCP between processes beside a bare socket loop
    Data {
        /// Rounds; their median counts
        #[arg(long, value_name = "NUMBER", default_value_t = DataOptions::default().rounds)]
        rounds: u32,
        /// Memory that each side walks through, so that every byte is cold
        #[arg(long, value_name = "SIZE", default_value_t = ByteCount(DataOptions::default().pool as u64))]
        pool: ByteCount,
        /// Leave TCP out
        #[arg(long)]
        in_process: bool,
        /// Which cores the processes may use
        #[arg(long, value_name = "CORES", default_value = "free")]
        pin: Pin,
    },
    /// Small calls over sockets: keys per second and latencies, beside a bare echo
    Rpc {
        /// How long each row is measured
        #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse_span)]
        span: Duration,
        /// Which cores the processes may use
        #[arg(long, value_name = "CORES", default_value = "free")]
        pin: Pin,
    },
    /// Kill one of two nodes under load: what readers of either feel
    Failover {
        /// How long readers run before the death, and as long after it
        #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_span)]
        span: Duration,
        /// Payloads derive from it
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        seed: u64,
    },
    /// Compression on SSD: ratio and cost on keys and values of a transformer with random weights, and on a sample
    Codec(codec::Arguments),
    /// The SSD tier on a directory beside fio, which has to be installed
    Ssd(ssd::Arguments),
    /// Shard files on a directory beside fio, which has to be installed
    Dfs(ssd::Arguments),
    /// How long an SSD directory with many records takes to open, and what its index takes
    Recovery(recovery::Arguments),
    /// How long after a restart of node or master all objects on an SSD directory are readable
    Restart(restart::Arguments),
    /// A server of a measurement
    #[command(hide = true)]
    Peer {
        /// What to be
        spec: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pin {
    /// Whichever the system picks
    Free,
    /// All on core 0
    OneCore,
    /// The measuring process on core 0, its servers on core 1
    TwoCores,
}

impl From<Pin> for Pinning {
    fn from(pin: Pin) -> Self {
        match pin {
            Pin::Free => Self::Free,
            Pin::OneCore => Self::OneCore,
            Pin::TwoCores => Self::TwoCores,
        }
    }
}

/// It knows how far it has to go, and has a bar of its own.
fn beside_fio(
    arguments: &ssd::Arguments,
    subject: Subject,
    bar: &ProgressBar,
    screen: &Screen,
) -> Result<Answer> {
    bar.finish_and_clear();
    ssd::run(arguments, subject, screen)
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    let bar = progress::bar(None, "bench");
    let mut tell = |what: &str| {
        bar.inc(1);
        bar.set_message(what.to_owned());
    };
    let program = Program::this(&["bench", "peer"])?;
    let answer = match &arguments.what {
        What::Catalog { keys, runs } => {
            let options = CatalogOptions {
                keys: *keys,
                runs: *runs,
            };
            let report = catalog::catalog(&options, &mut tell)?;
            Answer::done(catalog_text(&report, screen), &report)
        }
        What::Data {
            rounds,
            pool,
            in_process,
            pin,
        } => {
            let options = DataOptions {
                rounds: *rounds,
                pool: usize::try_from(pool.0).unwrap_or(usize::MAX),
                program: (!in_process).then_some(program),
                pinning: (*pin).into(),
            };
            let report = data::data(&options, &mut tell)?;
            Answer::done(data_text(&report, screen), &report)
        }
        What::Rpc { span, pin } => {
            let options = RpcOptions {
                span: *span,
                program,
                pinning: (*pin).into(),
            };
            let report = rpc::rpc(&options, &mut tell)?;
            Answer::done(rpc_text(&report, screen), &report)
        }
        What::Failover { span, seed } => {
            let options = FailoverOptions {
                span: *span,
                seed: *seed,
                ..FailoverOptions::new(program)
            };
            let report = failover::failover(&options, &mut tell)?;
            let exit = if report.wrong_bytes > 0 {
                Exit::Failed
            } else {
                Exit::Done
            };
            Answer::done(failover_text(&report, screen), &report).ending(exit)
        }
        What::Codec(arguments) => codec::run(arguments, screen, &mut tell)?,
        What::Ssd(arguments) => beside_fio(arguments, Subject::Tier, &bar, screen)?,
        What::Dfs(arguments) => beside_fio(arguments, Subject::ShardFile, &bar, screen)?,
        What::Recovery(arguments) => {
            bar.finish_and_clear();
            recovery::run(arguments, screen)?
        }
        What::Restart(arguments) => restart::run(arguments, program, screen, &mut tell)?,
        What::Peer { spec } => {
            peer::serve(spec)?;
            Answer::done("", &serde_json::json!({}))
        }
    };
    bar.finish_and_clear();
    Ok(answer)
}

fn millions(rate: f64) -> String {
    format!("{:.2} M/s", rate / 1e6)
}

fn catalog_text(report: &CatalogReport, screen: &Screen) -> String {
    let mut table = Table::new(screen, ["per CPU second of one core", "speed"]);
    for (what, rate) in [
        ("locate, one by one", report.locate_per_s),
        ("locate, batches of 128", report.locate_batched_per_s),
        ("put and end, batches of 128", report.put_per_s),
        ("remove, batches of 128", report.remove_per_s),
    ] {
        table.row([(what.into(), Paint::Plain), (millions(rate), Paint::Strong)]);
    }
    table.row([
        ("dependent load from memory".into(), Paint::Dim),
        (format!("{:.0} ns", report.dependent_load_ns), Paint::Dim),
    ]);
    let mut turns = Table::new(screen, ["longest call of", "time"]);
    for (phase, micros) in &report.turns_us {
        turns.row([
            ((*phase).into(), Paint::Plain),
            (format!("{micros:.0} us"), Paint::Strong),
        ]);
    }
    format!(
        "{} keys, best of {} runs\n\n{}\n{}\n{:.1} bytes per key; longest call {:.0} us\n",
        report.keys,
        report.runs,
        table.text(),
        turns.text(),
        report.bytes_per_key,
        report.max_turn_us
    )
}

fn data_text(report: &DataReport, screen: &Screen) -> String {
    let headings = [
        "",
        "bytes",
        "batch",
        "GB/s",
        "limit",
        "ratio",
        "best",
        "best limit",
        "objects/s",
    ];
    let mut table = Table::new(screen, headings);
    for row in &report.rows {
        table.row([
            (row.name.into(), Paint::Plain),
            (ByteCount(row.bytes).to_string(), Paint::Plain),
            (row.batch.to_string(), Paint::Plain),
            (format!("{:.2}", row.gbps), Paint::Strong),
            (format!("{:.2}", row.limit_gbps), Paint::Dim),
            (format!("{:.2}", row.ratio), Paint::Strong),
            (format!("{:.2}", row.best_gbps), Paint::Plain),
            (format!("{:.2}", row.best_limit_gbps), Paint::Dim),
            (format!("{:.0}", row.ops_per_s), Paint::Plain),
        ]);
    }
    let rounds = report.rounds;
    format!(
        "medians of {rounds} rounds over {}\n\n{}",
        ByteCount(report.pool),
        table.text()
    )
}

fn rpc_text(report: &RpcReport, screen: &Screen) -> String {
    let mut table = Table::new(
        screen,
        ["", "batch", "keys/s", "p50", "p99", "bare echo p50"],
    );
    let micros = |micros: f64| format!("{micros:.1} us");
    for row in &report.rows {
        table.row([
            (row.name.into(), Paint::Plain),
            (row.batch.to_string(), Paint::Plain),
            (format!("{:.0}", row.keys_per_s), Paint::Strong),
            (micros(row.p50_us), Paint::Strong),
            (micros(row.p99_us), Paint::Plain),
            (micros(row.floor_us), Paint::Dim),
        ]);
    }
    table.text()
}

fn failover_text(report: &FailoverReport, screen: &Screen) -> String {
    let mut table = Table::new(screen, ["reads of the living node", "reads", "p99"]);
    for (when, reads, p99) in [
        ("before", report.reads_before, report.p99_before_us),
        ("after", report.reads_after, report.p99_after_us),
    ] {
        table.row([
            (when.into(), Paint::Plain),
            (reads.to_string(), Paint::Plain),
            (format!("{p99:.0} us"), Paint::Strong),
        ]);
    }
    let answers = report.dead_answers.iter();
    let answers: Vec<_> = answers
        .map(|(code, count)| format!("{code} {count}"))
        .collect();
    format!(
        "{}\np99 ratio {:.2}\n\nreads of the dead node: {} failed over, {} did not; without another replica: {}\n\
         longest wait for an answer {:.1} ms\nwrong bytes: {}   errors: {}\n",
        table.text(),
        report.p99_ratio,
        report.failed_over,
        report.not_failed_over,
        answers.join(", "),
        report.dead_answer_ms_max,
        report.wrong_bytes,
        report.errors
    )
}
