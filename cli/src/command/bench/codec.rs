//! `ziggurat bench codec`: what compression of the SSD tier gives and costs.

use crate::{
    answer::Answer,
    screen::Screen,
    table::{Paint, Table},
};
use std::{path::PathBuf, time::Duration};
use ziggurat_base::{ByteCount, Result, unit::parse_span};
use ziggurat_workload::bench::{CodecOptions, CodecReport, Progress, codec};

/// Words of `bench codec`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Data of your own, for example a dump of keys and values in bf16; the first 64 MiB count
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// Levels of Zstandard, 1 to 19
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = CodecOptions::default().levels)]
    level: Vec<u8>,
    /// Processor time of each direction of each row, at least
    #[arg(long, value_name = "SPAN", default_value = "500ms", value_parser = parse_span)]
    span: Duration,
    /// Everything that is made derives from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments, screen: &Screen, tell: Progress<'_>) -> Result<Answer> {
    let options = CodecOptions {
        sample: arguments.sample.clone(),
        levels: arguments.level.clone(),
        span: arguments.span,
        seed: arguments.seed,
    };
    let report = codec::codec(&options, tell)?;
    Ok(Answer::done(text(&report, screen), &report))
}

fn text(report: &CodecReport, screen: &Screen) -> String {
    let headings = [
        "data", "bytes", "codec", "level", "ratio", "pays", "in GB/s", "out GB/s",
    ];
    let mut table = Table::new(screen, headings);
    for row in &report.rows {
        table.row([
            (row.data.clone(), Paint::Plain),
            (ByteCount(row.bytes).to_string(), Paint::Dim),
            (row.codec.into(), Paint::Plain),
            (row.level.to_string(), Paint::Plain),
            (format!("{:.3}", row.ratio), Paint::Strong),
            (if row.pays { "yes" } else { "no" }.into(), Paint::Plain),
            (format!("{:.2}", row.compress_gbps), Paint::Strong),
            (format!("{:.2}", row.decompress_gbps), Paint::Strong),
        ]);
    }
    format!(
        "one core, objects of {}; the weights of the transformer are random, not learnt\n\n{}",
        ByteCount(report.object_bytes),
        table.text()
    )
}
