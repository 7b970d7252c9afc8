//! What a master tells its monitors, in the text format of Prometheus.

use crate::SeedCounts;
use ziggurat_engine::command::{Keep, SegmentStat, Stats};
use ziggurat_proto::{
    admin::{Kind, Row, Text},
    counts::Snapshot,
};

const ROWS: &[Row<Stats>] = &[
    ("objects", false, "Readable objects.", |s| s.objects),
    ("writes_open", false, "Writes whose ticket is out.", |s| {
        s.writes_open
    }),
    (
        "writes_closing",
        false,
        "Given-up writes whose space waits for a fence.",
        |s| s.writes_closing,
    ),
    (
        "capacity_bytes",
        false,
        "Bytes of all mounted segments.",
        |s| s.capacity,
    ),
    ("used_bytes", false, "Bytes of them in use.", |s| s.used),
    (
        "largest_free_bytes",
        false,
        "Longest free extent of any segment.",
        |s| s.largest_free,
    ),
    ("extents", false, "Extents of all readable replicas.", |s| {
        s.extents
    }),
    ("segments", false, "Mounted segments.", |s| s.segments),
    ("members", false, "Living members.", |s| s.members),
    (
        "table_bytes",
        false,
        "Memory of the partition's own tables.",
        |s| s.table_bytes,
    ),
    (
        "puts_granted_total",
        true,
        "put_start that were granted.",
        |s| s.puts_granted,
    ),
    (
        "puts_existed_total",
        true,
        "put_start of a readable key.",
        |s| s.puts_existed,
    ),
    (
        "puts_refused_writing_total",
        true,
        "put_start of a key that somebody was writing.",
        |s| s.puts_refused_writing,
    ),
    (
        "puts_refused_space_total",
        true,
        "put_start that found no room.",
        |s| s.puts_refused_space,
    ),
    (
        "puts_partial_total",
        true,
        "Grants with fewer replicas than wished.",
        |s| s.puts_partial,
    ),
    (
        "puts_ended_total",
        true,
        "Objects that became readable.",
        |s| s.puts_ended,
    ),
    (
        "puts_revoked_total",
        true,
        "Writes given up by their writers.",
        |s| s.puts_revoked,
    ),
    (
        "puts_preempted_total",
        true,
        "Writes pre-empted by another writer of the key.",
        |s| s.puts_preempted,
    ),
    (
        "puts_expired_total",
        true,
        "Writes given up because of age or their writer's death.",
        |s| s.puts_expired,
    ),
    (
        "locate_hits_total",
        true,
        "locate that found the object.",
        |s| s.locate_hits,
    ),
    ("locate_misses_total", true, "locate that did not.", |s| {
        s.locate_misses
    }),
    (
        "exist_hits_total",
        true,
        "exist that found the object.",
        |s| s.exist_hits,
    ),
    ("exist_misses_total", true, "exist that did not.", |s| {
        s.exist_misses
    }),
    (
        "leases_returned_total",
        true,
        "Leases ended by their last reader.",
        |s| s.holds_returned,
    ),
    (
        "objects_removed_total",
        true,
        "Objects removed on request.",
        |s| s.removed,
    ),
    ("objects_evicted_total", true, "Objects evicted.", |s| {
        s.evicted
    }),
    (
        "evicted_bytes_total",
        true,
        "Payload bytes of evicted objects.",
        |s| s.evicted_bytes,
    ),
    (
        "objects_lost_total",
        true,
        "Objects lost with their segments.",
        |s| s.lost,
    ),
    (
        "members_expired_total",
        true,
        "Members that fell silent.",
        |s| s.members_expired,
    ),
    (
        "owned_capacity_bytes",
        false,
        "Bytes of segments that their owners allocate.",
        |s| s.owned_capacity,
    ),
    ("owned_used_bytes", false, "Bytes stored there.", |s| {
        s.owned_used
    }),
    ("owned_replicas", false, "Replicas there.", |s| {
        s.owned_replicas
    }),
    (
        "dfs_capacity_bytes",
        false,
        "Bytes of all shard files.",
        |s| s.dfs_capacity,
    ),
    ("dfs_used_bytes", false, "Bytes of them in use.", |s| {
        s.dfs_used
    }),
    ("dfs_objects", false, "Objects in shard files.", |s| {
        s.dfs_objects
    }),
    (
        "dfs_cooling",
        false,
        "Dead versions whose space in shard files cools or waits to be buried.",
        |s| s.dfs_cooling,
    ),
    (
        "dfs_evicted_total",
        true,
        "Replicas evicted from shard files.",
        |s| s.dfs_evicted,
    ),
    (
        "replicas_adopted_total",
        true,
        "Replicas taken over from what owners hold.",
        |s| s.adopted,
    ),
    (
        "replicas_discarded_total",
        true,
        "Versions that owners held and had to discard.",
        |s| s.discarded,
    ),
    (
        "objects_dropped_total",
        true,
        "Objects whose last replica its owner dropped.",
        |s| s.dropped,
    ),
    (
        "objects_demoted_total",
        true,
        "Objects that left memory and stayed readable elsewhere.",
        |s| s.demoted,
    ),
    (
        "objects_unkept_total",
        true,
        "Objects evicted before their owner had taken them over.",
        |s| s.unkept,
    ),
    (
        "offloading",
        false,
        "Objects that wait in memory for their owner.",
        |s| s.offloading,
    ),
    ("offloading_bytes", false, "Bytes of them.", |s| {
        s.offloading_bytes
    }),
    (
        "promoting",
        false,
        "Objects on their way from SSD into memory.",
        |s| s.promoting,
    ),
    (
        "promoting_bytes",
        false,
        "Bytes of memory that wait for them.",
        |s| s.promoting_bytes,
    ),
    (
        "promoted_total",
        true,
        "Objects that came from SSD into memory.",
        |s| s.promoted,
    ),
    (
        "promoted_bytes_total",
        true,
        "Bytes of their payloads.",
        |s| s.promoted_bytes,
    ),
    (
        "promotions_dropped_total",
        true,
        "Objects that were wanted in memory and found no room there.",
        |s| s.promotions_dropped,
    ),
    (
        "promotions_failed_total",
        true,
        "Objects that were on their way into memory and did not arrive.",
        |s| s.promotions_failed,
    ),
    (
        "directories_absent",
        false,
        "Directories that have not told what they hold.",
        |s| s.directories_absent,
    ),
    (
        "debts",
        false,
        "Dead versions that directories have yet to forget.",
        |s| s.debts,
    ),
    (
        "key_debts",
        false,
        "Keys of which dead versions are remembered.",
        |s| s.key_debts,
    ),
];

const SEED_ROWS: &[Row<SeedCounts>] = &[
    (
        "seed_writers",
        false,
        "Foreign clients that have written.",
        |s| s.writers,
    ),
    (
        "seed_writes_open",
        false,
        "Writes of foreign clients that wait for PutEnd.",
        |s| s.writes_open,
    ),
    (
        "orders_under_way",
        false,
        "Orders to nodes that wait for their reports.",
        |s| s.orders.under_way,
    ),
    ("orders_total", true, "Orders to nodes.", |s| s.orders.given),
    (
        "orders_failed_total",
        true,
        "Orders that a node answered by an error.",
        |s| s.orders.failed,
    ),
    (
        "orders_unanswered_total",
        true,
        "Orders that no node answered in time.",
        |s| s.orders.unanswered,
    ),
    (
        "orders_refused_total",
        true,
        "Orders that were not given because too many were under way.",
        |s| s.orders.refused,
    ),
];

const SEGMENT_ROWS: &[Row<SegmentStat>] = &[
    (
        "segment_capacity_bytes",
        false,
        "Bytes of a segment.",
        |s| s.capacity.0,
    ),
    ("segment_used_bytes", false, "Bytes of it in use.", |s| {
        s.used.0
    }),
    (
        "segment_largest_free_bytes",
        false,
        "Its longest free extent.",
        |s| s.largest_free.0,
    ),
];

/// What a segment is on, as a label.
fn tier(segment: &SegmentStat) -> &'static str {
    match segment.keep {
        Keep::Delegated => "dram",
        Keep::Owned { .. } => "ssd",
        Keep::Shared { .. } => "dfs",
    }
}

/// Everything, for `/metrics`.
#[must_use]
pub fn text(
    stats: &Stats,
    segments: &[SegmentStat],
    calls: &Snapshot,
    seed: &SeedCounts,
) -> String {
    let mut out = Text::new("ziggurat_master");
    out.rows(ROWS, &[(&[], stats)]);
    out.rows(SEED_ROWS, &[(&[], seed)]);
    let labels: Vec<_> = segments
        .iter()
        .map(|segment| [("segment", &*segment.name), ("tier", tier(segment))])
        .collect();
    let labelled: Vec<_> = labels.iter().map(|l| &l[..]).zip(segments).collect();
    out.rows(SEGMENT_ROWS, &labelled);
    call_text(&mut out, calls);
    out.finish()
}

fn call_text(out: &mut Text, calls: &Snapshot) {
    out.head("calls_total", Kind::Counter, "Calls by kind and outcome.");
    for call in &calls.calls {
        let succeeded = call.count.saturating_sub(call.failed);
        for (outcome, count) in [("ok", succeeded), ("error", call.failed)] {
            let labels = [("op", call.kind.label()), ("outcome", outcome)];
            out.line("calls_total", &labels, count);
        }
    }
    out.head(
        "connections_closed_total",
        Kind::Counter,
        "Connections that were closed for a reason.",
    );
    for (reason, count) in &calls.closed {
        let labels = [("reason", reason.label())];
        out.line("connections_closed_total", &labels, *count);
    }
}

/// A few lines for people, for `/metrics/summary`.
#[must_use]
pub fn summary(stats: &Stats) -> String {
    use ziggurat_base::ByteCount;
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    format!(
        "objects {} | memory {} of {} ({:.1} %) | ssd {} of {} | segments {} | members {} | locate hits {:.1} % | \
         evicted {} | open writes {}\n",
        stats.objects,
        ByteCount(stats.used),
        ByteCount(stats.capacity),
        share(stats.used, stats.capacity),
        ByteCount(stats.owned_used),
        ByteCount(stats.owned_capacity),
        stats.segments,
        stats.members,
        share(stats.locate_hits, stats.locate_hits + stats.locate_misses),
        stats.evicted,
        stats.writes_open + stats.writes_closing,
    )
}
