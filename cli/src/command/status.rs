//! `ziggurat status`: what a cluster holds.

use crate::{
    answer::Answer,
    config::{Config, Flags, ForClient},
    screen::Screen,
    table::{Paint, Table},
};
use serde_json::json;
use ziggurat_base::{ByteCount, Result};

/// Tell what a cluster holds: objects, memory, segments
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ziggurat status\n  ziggurat status --master head:50051 --json"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    flags: Flags<ForClient>,
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    let store = Config::load(&arguments.flags)?.connect(screen)?;
    let (stats, segments) = (store.stats()?, store.segments()?);
    let share =
        |part: u64, whole: u64| format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64);
    let mut table = Table::new(
        screen,
        [
            "segment",
            "owner",
            "state",
            "capacity",
            "used",
            "largest free",
            "replicas",
        ],
    );
    for segment in &segments {
        table.row([
            (segment.name.to_string(), Paint::Strong),
            (segment.address.to_string(), Paint::Plain),
            (format!("{:?}", segment.state).to_lowercase(), Paint::Plain),
            (segment.capacity.to_string(), Paint::Plain),
            (share(segment.used.0, segment.capacity.0), Paint::Plain),
            (segment.largest_free.to_string(), Paint::Dim),
            (segment.replicas.to_string(), Paint::Plain),
        ]);
    }
    let text = format!(
        "{} objects, {} of {} used ({}), {} members\nlocate: {} found, {} not; evicted {}; open writes {}\n\n{}",
        stats.objects,
        ByteCount(stats.used),
        ByteCount(stats.capacity),
        share(stats.used, stats.capacity),
        stats.members,
        stats.locate_hits,
        stats.locate_misses,
        stats.evicted,
        stats.writes_open + stats.writes_closing,
        table.text()
    );
    let listed: Vec<_> = segments
        .iter()
        .map(|s| {
            json!({
                "name": s.name, "address": s.address, "state": format!("{:?}", s.state).to_lowercase(),
                "capacity": s.capacity.0, "used": s.used.0, "largest_free": s.largest_free.0, "replicas": s.replicas,
            })
        })
        .collect();
    let report = json!({
        "objects": stats.objects, "capacity": stats.capacity, "used": stats.used, "members": stats.members,
        "locate_hits": stats.locate_hits, "locate_misses": stats.locate_misses, "evicted": stats.evicted,
        "writes_open": stats.writes_open, "writes_closing": stats.writes_closing, "segments": listed,
    });
    Ok(Answer::done(text, &report))
}
