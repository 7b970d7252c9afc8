//! `ziggurat bench restart`: how long until everything on SSD is readable again.

use crate::{
    answer::{Answer, Exit},
    screen::Screen,
    table::{Paint, Table},
};
use std::{path::PathBuf, time::Duration};
use ziggurat_base::{ByteCount, Result, unit::parse_span};
use ziggurat_workload::bench::{Program, Progress, RestartOptions, RestartReport, restart};

/// Words of `bench restart`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Directory on the disk to measure; what is made in it is removed afterwards
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Objects on SSD, of 4 to 16 KiB
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000)]
    objects: u64,
    /// How long the master waits for a silent node before it gives it up
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    client_ttl: Duration,
    /// Payloads derive from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(
    arguments: &Arguments,
    program: Program,
    screen: &Screen,
    progress: Progress<'_>,
) -> Result<Answer> {
    let options = RestartOptions {
        objects: arguments.objects,
        member_ttl: arguments.client_ttl,
        seed: arguments.seed,
        ..RestartOptions::new(arguments.dir.clone(), program)
    };
    let report = restart::restart(&options, progress)?;
    let is_all = report.rows.iter().all(|row| row.readable == row.objects);
    let exit = if is_all && report.wrong_bytes == 0 {
        Exit::Done
    } else {
        Exit::Failed
    };
    Ok(Answer::done(text(&report, screen), &report).ending(exit))
}

fn text(report: &RestartReport, screen: &Screen) -> String {
    let headings = [
        "what was killed",
        "away",
        "readable",
        "after",
        "all read in",
        "longest batch",
    ];
    let mut table = Table::new(screen, headings);
    for row in &report.rows {
        table.row([
            (row.case.replace('_', " "), Paint::Plain),
            (format!("{:.1} s", row.away_s), Paint::Plain),
            (
                format!("{} of {}", row.readable, row.objects),
                Paint::Strong,
            ),
            (format!("{:.2} s", row.seconds), Paint::Strong),
            (format!("{:.2} s", row.read_s), Paint::Plain),
            (format!("{:.1} ms", row.batch_ms_max), Paint::Dim),
        ]);
    }
    format!(
        "{} of payload; a silent node is given up after {:.1} s\n\n{}\nwrong bytes: {}\n",
        ByteCount(report.payload_bytes),
        report.member_ttl_s,
        table.text(),
        report.wrong_bytes
    )
}
