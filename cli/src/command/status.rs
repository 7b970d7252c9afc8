//! `ziggurat status`: what a cluster holds.

use crate::{
    answer::Answer,
    config::{Config, Flags, ForClient},
    screen::Screen,
    table::{Paint, Table},
};
use serde_json::{Value, json};
use ziggurat_base::{ByteCount, Result};
use ziggurat_store::{Keep, SegmentStat, Stats};

/// Tell what a cluster holds: objects, memory and SSD of each node
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
    let (stats, mut segments) = (store.stats()?, store.segments()?);
    // Node by node, the memory of each before its directories.
    segments.sort_by(|a, b| place(a).cmp(&place(b)));
    let text = format!("{}\n{}", head(&stats), table(&segments, screen).text());
    Ok(Answer::done(text, &report(&stats, &segments)))
}

fn place(segment: &SegmentStat) -> (&str, u64, &str, &str) {
    let SegmentStat {
        address,
        member,
        name,
        ..
    } = segment;
    (address, member.0, tier(segment), name)
}

/// Where the bytes of a segment are.
fn tier(segment: &SegmentStat) -> &'static str {
    match segment.keep {
        Keep::Delegated => "dram",
        Keep::Owned { .. } => "ssd",
        Keep::Shared { .. } => "dfs",
    }
}

fn state(segment: &SegmentStat) -> String {
    format!("{:?}", segment.state).to_lowercase()
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn head(stats: &Stats) -> String {
    let ssd = match stats.owned_capacity {
        0 => String::new(),
        capacity => format!(
            ", {} of {} on SSD ({})",
            ByteCount(stats.owned_used),
            ByteCount(capacity),
            share(stats.owned_used, capacity)
        ),
    };
    let dfs = match stats.dfs_capacity {
        0 => String::new(),
        capacity => format!(
            ", {} of {} in shard files ({})",
            ByteCount(stats.dfs_used),
            ByteCount(capacity),
            share(stats.dfs_used, capacity)
        ),
    };
    format!(
        "{} objects, {} of {} in memory ({}){ssd}{dfs}, {} members\n\
         locate: {} found, {} not; evicted {}; open writes {}\n",
        stats.objects,
        ByteCount(stats.used),
        ByteCount(stats.capacity),
        share(stats.used, stats.capacity),
        stats.members,
        stats.locate_hits,
        stats.locate_misses,
        stats.evicted,
        stats.writes_open + stats.writes_closing,
    )
}

fn table(segments: &[SegmentStat], screen: &Screen) -> Table {
    let headings = [
        "owner",
        "tier",
        "segment",
        "state",
        "capacity",
        "used",
        "share",
        "largest free",
        "replicas",
    ];
    let mut table = Table::new(screen, headings);
    for segment in segments {
        table.row([
            (segment.address.to_string(), Paint::Plain),
            (tier(segment).to_owned(), Paint::Plain),
            (segment.name.to_string(), Paint::Strong),
            (state(segment), Paint::Plain),
            (segment.capacity.to_string(), Paint::Plain),
            (segment.used.to_string(), Paint::Plain),
            (share(segment.used.0, segment.capacity.0), Paint::Plain),
            (segment.largest_free.to_string(), Paint::Dim),
            (segment.replicas.to_string(), Paint::Plain),
        ]);
    }
    table
}

fn report(stats: &Stats, segments: &[SegmentStat]) -> Value {
    let listed: Vec<_> = segments
        .iter()
        .map(|s| {
            json!({
                "name": s.name, "address": s.address, "member": s.member.0, "tier": tier(s), "state": state(s),
                "capacity": s.capacity.0, "used": s.used.0, "largest_free": s.largest_free.0, "replicas": s.replicas,
            })
        })
        .collect();
    json!({
        "objects": stats.objects, "capacity": stats.capacity, "used": stats.used,
        "ssd_capacity": stats.owned_capacity, "ssd_used": stats.owned_used, "ssd_replicas": stats.owned_replicas,
        "dfs_capacity": stats.dfs_capacity, "dfs_used": stats.dfs_used, "dfs_objects": stats.dfs_objects,
        "offloading": stats.offloading, "members": stats.members,
        "locate_hits": stats.locate_hits, "locate_misses": stats.locate_misses, "evicted": stats.evicted,
        "writes_open": stats.writes_open, "writes_closing": stats.writes_closing, "segments": listed,
    })
}
