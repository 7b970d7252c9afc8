//! `ziggurat bench recovery`: how long a directory takes to open.

use crate::{
    answer::Answer,
    progress,
    screen::Screen,
    table::{Paint, Table},
};
use std::path::PathBuf;
use ziggurat_base::{ByteCount, Result};
use ziggurat_workload::bench::{RecoveryOptions, RecoveryReport, ssd::recovery};

/// Words of `bench recovery`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Directory on the disk to measure; what is made in it is removed afterwards
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Records in the directory
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    records: u64,
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    let options = RecoveryOptions {
        directory: arguments.dir.clone(),
        records: arguments.records,
    };
    let bar = progress::bar(None, "bench recovery");
    let report = recovery::recovery(&options, &mut |what| {
        bar.inc(1);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    let report = report?;
    Ok(Answer::done(text(&report, screen), &report))
}

fn text(report: &RecoveryReport, screen: &Screen) -> String {
    let mut table = Table::new(screen, ["", ""]);
    let per_second = report.records as f64 / report.open_s;
    for (what, value) in [
        (
            "records",
            format!("{}, of {} bytes", report.records, report.payload_bytes),
        ),
        (
            "files",
            format!("{}, {}", report.files, ByteCount(report.file_bytes)),
        ),
        (
            "opened in",
            format!("{:.2} s, {per_second:.0} records/s", report.open_s),
        ),
        ("payloads read", report.proved.to_string()),
        (
            "index",
            format!(
                "{:.1} bytes a record beside its key of {}",
                report.index_bytes_per_record, report.key_bytes
            ),
        ),
    ] {
        table.row([(what.into(), Paint::Plain), (value, Paint::Strong)]);
    }
    format!("{}\n\n{}", report.engine, table.text())
}
