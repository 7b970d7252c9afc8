//! `ziggurat bench ssd` and `ziggurat bench dfs`: the SSD tier, and a root of shard files, beside fio.

use crate::{
    answer::Answer,
    progress,
    screen::Screen,
    table::{Paint, Table},
};
use std::{path::PathBuf, time::Duration};
use ziggurat_base::{ByteCount, Result, unit::parse_span};
use ziggurat_workload::bench::{Pages, SsdOptions, SsdReport, Subject, ssd};

/// Words of `bench ssd` and `bench dfs`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Directory on the disk to measure; what is made in it is removed afterwards
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Size of the files, of which there are three at once; 1GiB, with --quick 64MiB
    #[arg(long, value_name = "SIZE")]
    bytes: Option<ByteCount>,
    /// Rounds of fio, ours, fio; their median counts; 5, with --quick 1
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// How long each of the three reads; 1s, with --quick 200ms
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    span: Option<Duration>,
    /// Only these rows, by their names in the report
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    rows: Vec<String>,
    /// Buffers in small pages, like those of fio
    #[arg(long)]
    small_pages: bool,
    /// A small run that shows that everything works; its figures mean little
    #[arg(long)]
    quick: bool,
}

impl Arguments {
    fn options(&self, subject: Subject) -> SsdOptions {
        let dir = self.dir.clone();
        let base = if self.quick {
            SsdOptions::quick(subject, dir)
        } else {
            SsdOptions::new(subject, dir)
        };
        SsdOptions {
            bytes: self.bytes.unwrap_or(base.bytes),
            rounds: self.rounds.unwrap_or(base.rounds),
            span: self.span.unwrap_or(base.span),
            rows: self.rows.clone(),
            pages: if self.small_pages {
                Pages::Small
            } else {
                Pages::Huge
            },
            ..base
        }
    }
}

pub(super) fn run(arguments: &Arguments, subject: Subject, screen: &Screen) -> Result<Answer> {
    let options = arguments.options(subject);
    let bar = progress::bar(Some(options.steps()), "bench");
    let report = ssd::ssd(&options, &mut |what| {
        // A round that is tried again was not foreseen.
        if bar.length() == Some(bar.position()) {
            bar.inc_length(1);
        }
        bar.inc(1);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    let report = report?;
    Ok(Answer::done(text(&report, screen), &report))
}

fn text(report: &SsdReport, screen: &Screen) -> String {
    let headings = [
        "", "bytes", "depth", "GB/s", "fio", "per s", "fio", "ratio", "least", "greatest",
        "CPU s/GB", "fio", "unsteady",
    ];
    let mut table = Table::new(screen, headings);
    for row in &report.rows {
        table.row([
            (row.name.into(), Paint::Plain),
            (ByteCount(row.block_bytes).to_string(), Paint::Plain),
            (row.depth.to_string(), Paint::Plain),
            (format!("{:.2}", row.gbps), Paint::Strong),
            (format!("{:.2}", row.limit_gbps), Paint::Dim),
            (format!("{:.0}", row.iops), Paint::Strong),
            (format!("{:.0}", row.limit_iops), Paint::Dim),
            (format!("{:.2}", row.ratio), Paint::Strong),
            (format!("{:.2}", row.ratio_least), Paint::Plain),
            (format!("{:.2}", row.ratio_greatest), Paint::Plain),
            (format!("{:.3}", row.cpu_s_per_gb), Paint::Strong),
            (format!("{:.3}", row.limit_cpu_s_per_gb), Paint::Dim),
            (
                format!("{}, {} kept", row.unsteady, row.unsteady_kept),
                if row.unsteady_kept > 0 {
                    Paint::Warn
                } else {
                    Paint::Plain
                },
            ),
        ]);
    }
    format!(
        "{}, files of {}, buffers in {} pages\n{}\n\n{}",
        report.fio,
        ByteCount(report.bytes),
        report.pages,
        report.engine,
        table.text()
    )
}
