//! What a node tells its monitors, in the text format of Prometheus.

use crate::{
    admin::{Facts, Seen},
    keeper::Offload,
};
use ziggurat_base::ByteCount;
use ziggurat_proto::admin::{Kind, Row, Text};
use ziggurat_tiers::ssd::{Recovered, Stats};
use ziggurat_transport::counts::{Counts, Fault};

/// All that a page is made of.
pub(crate) struct Numbers<'a> {
    pub(crate) is_in_touch: bool,
    pub(crate) memory: ByteCount,
    pub(crate) data: Counts,
    pub(crate) offload: Offload,
    pub(crate) directories: Vec<Seen<'a>>,
}

const DATA: &[Row<Counts>] = &[
    (
        "data_connections",
        false,
        "Connections of clients that are open.",
        |c| c.connections,
    ),
    (
        "data_greeted_total",
        true,
        "Connections that were accepted and greeted.",
        |c| c.greeted,
    ),
    (
        "data_frames_total",
        true,
        "Frames that were understood.",
        |c| c.frames_in,
    ),
    (
        "data_received_bytes_total",
        true,
        "Payload bytes received into segments.",
        |c| c.bytes_in,
    ),
    (
        "data_sent_bytes_total",
        true,
        "Payload bytes sent from segments.",
        |c| c.bytes_out,
    ),
    (
        "data_refused_total",
        true,
        "Writes and reads that were refused at once.",
        |c| c.refused,
    ),
    (
        "data_fenced_total",
        true,
        "Writes that were stopped half-way.",
        |c| c.fenced,
    ),
    (
        "data_mismatched_total",
        true,
        "Writes whose bytes did not have their sums.",
        |c| c.mismatched,
    ),
    (
        "data_unsealed_total",
        true,
        "Reads whose space went to another version while they were sent.",
        |c| c.unsealed,
    ),
];

const OFFLOAD: &[Row<Offload>] = &[
    (
        "offload_waiting",
        false,
        "Objects that wait to be taken over to SSD.",
        |o| o.waiting,
    ),
    ("offload_waiting_bytes", false, "Bytes of them.", |o| {
        o.waiting_bytes
    }),
    (
        "offload_under_way",
        false,
        "Objects that are being taken over.",
        |o| o.under_way,
    ),
    ("offload_under_way_bytes", false, "Bytes of them.", |o| {
        o.under_way_bytes
    }),
    (
        "offload_done_total",
        true,
        "Objects that were taken over.",
        |o| o.done,
    ),
    (
        "offload_dropped_total",
        true,
        "Objects that left memory before it was their turn.",
        |o| o.dropped,
    ),
    (
        "offload_refused_total",
        true,
        "Objects that no directory took: no room, or no write budget.",
        |o| o.refused,
    ),
    (
        "offload_failed_total",
        true,
        "Objects that could not be written.",
        |o| o.failed,
    ),
];

const TIER: &[Row<Stats>] = &[
    (
        "ssd_capacity_bytes",
        false,
        "Bytes that the files of a directory may take.",
        |s| s.capacity,
    ),
    (
        "ssd_logical_cap_bytes",
        false,
        "Bytes of payload that a directory may hold; 0 without a cap.",
        |s| s.logical_cap,
    ),
    ("ssd_file_bytes", false, "Bytes that they take.", |s| {
        s.file_bytes
    }),
    (
        "ssd_live_bytes",
        false,
        "Bytes on disk of payloads that are held.",
        |s| s.live_bytes,
    ),
    (
        "ssd_logical_bytes",
        false,
        "Bytes of those payloads as they came.",
        |s| s.logical_bytes,
    ),
    (
        "ssd_dead_bytes",
        false,
        "Bytes of files that are of no more use, headers and padding included.",
        Stats::dead_bytes,
    ),
    (
        "ssd_unwritten_bytes",
        false,
        "Bytes of files that wait to be written.",
        |s| s.unwritten_bytes,
    ),
    ("ssd_files", false, "Log files.", |s| s.files),
    ("ssd_objects", false, "Objects that are held.", |s| {
        s.records
    }),
    ("ssd_index_bytes", false, "Memory of the index.", |s| {
        s.index_bytes
    }),
    (
        "ssd_read_only",
        false,
        "1 while nothing is taken for want of space.",
        |s| s.full.into(),
    ),
    (
        "ssd_written_bytes_total",
        true,
        "Bytes written to the disk in all.",
        |s| s.device_bytes,
    ),
    (
        "ssd_payload_bytes_total",
        true,
        "Bytes of the payloads that were taken over.",
        |s| s.written_bytes,
    ),
    (
        "ssd_stored_bytes_total",
        true,
        "Bytes that those took on disk.",
        |s| s.stored_bytes,
    ),
    (
        "ssd_stored_total",
        true,
        "Objects that were taken over.",
        |s| s.written,
    ),
    (
        "ssd_compressed_total",
        true,
        "How many of them are compressed.",
        |s| s.compressed,
    ),
    (
        "ssd_copied_total",
        true,
        "Objects that cleaning copied forward.",
        |s| s.copied,
    ),
    ("ssd_copied_bytes_total", true, "Bytes of them.", |s| {
        s.copied_bytes
    }),
    (
        "ssd_evicted_total",
        true,
        "Objects that were evicted.",
        |s| s.evicted,
    ),
    (
        "ssd_discarded_total",
        true,
        "Objects that were dropped on request.",
        |s| s.discarded,
    ),
    (
        "ssd_write_errors_total",
        true,
        "Batches that failed.",
        |s| s.write_errors,
    ),
    ("ssd_reads_total", true, "Reads that were answered.", |s| {
        s.reads
    }),
    (
        "ssd_read_bytes_total",
        true,
        "Bytes of payload that they gave.",
        |s| s.read_bytes,
    ),
    (
        "ssd_checksum_failures_total",
        true,
        "Bytes on disk that did not have their sum.",
        |s| s.mismatched,
    ),
    (
        "ssd_damaged_total",
        true,
        "Objects dropped because they could not be read or proved.",
        |s| s.rotten,
    ),
    (
        "ssd_budget_bytes_per_second",
        false,
        "The write budget; 0 for none.",
        |s| s.budget.rate,
    ),
    (
        "ssd_budget_allowed_bytes_total",
        true,
        "Bytes that it has allowed.",
        |s| s.budget.allowed,
    ),
    (
        "ssd_budget_used_bytes_total",
        true,
        "Bytes of it that were used.",
        |s| s.budget.used,
    ),
    (
        "ssd_budget_waits_total",
        true,
        "Batches and cleanings that waited for it.",
        |s| s.budget.waits,
    ),
    (
        "ssd_budget_waited_bytes_total",
        true,
        "Bytes of the batches that waited.",
        |s| s.budget.waited_bytes,
    ),
    (
        "ssd_budget_refused_total",
        true,
        "Objects refused because they would have waited for too long.",
        |s| s.budget.refused,
    ),
    (
        "ssd_budget_uncopied_total",
        true,
        "Objects evicted because there was no budget for their copies.",
        |s| s.budget.uncopied,
    ),
];

const RATIOS: &[Row<Stats, f64>] = &[
    (
        "ssd_write_amplification",
        false,
        "Bytes written for each byte of payload that came in.",
        Stats::write_amplification,
    ),
    (
        "ssd_written_bytes_per_hit",
        false,
        "Bytes written for each read that was answered.",
        Stats::bytes_per_hit,
    ),
    (
        "ssd_budget_share",
        false,
        "Share of what the write budget allowed that was used.",
        |s| s.budget.share(),
    ),
    (
        "ssd_budget_waited_seconds_total",
        true,
        "Time that was waited for it, added up.",
        |s| s.budget.waited.as_secs_f64(),
    ),
];

const FOUND: &[Row<Recovered>] = &[
    (
        "ssd_recovered_objects",
        false,
        "Objects that the start found.",
        |r| r.records,
    ),
    (
        "ssd_recovered_bytes",
        false,
        "Bytes on disk of them.",
        |r| r.bytes,
    ),
    (
        "ssd_recovered_proved",
        false,
        "Records that the start read to prove them.",
        |r| r.proved,
    ),
    (
        "ssd_recovered_torn",
        false,
        "Records that the end of the last process had torn.",
        |r| r.torn,
    ),
    (
        "ssd_recovery_remarks",
        false,
        "What was odd at the start; the log has the words.",
        |r| r.remarks.len() as u64,
    ),
    (
        "ssd_quarantined_files",
        false,
        "Files that could not be read and were set aside.",
        |r| r.set_aside,
    ),
];

/// The page.
pub(crate) fn text(numbers: &Numbers<'_>) -> String {
    let mut out = Text::new("ziggurat_node");
    let mut gauge = |name, help, value: u64| {
        out.head(name, Kind::Gauge, help);
        out.line(name, &[], value);
    };
    let in_touch = u64::from(numbers.is_in_touch);
    gauge("in_touch", "1 while the master answers.", in_touch);
    gauge(
        "memory_capacity_bytes",
        "Bytes of the memory for payloads.",
        numbers.memory.0,
    );
    out.rows(DATA, &[(&[], &numbers.data)]);
    let name = "data_closed_total";
    let help = "Connections that were closed for a reason.";
    out.head(name, Kind::Counter, help);
    for fault in Fault::ALL {
        let labels = [("reason", fault.name())];
        out.line(name, &labels, numbers.data.fault(fault));
    }
    out.rows(OFFLOAD, &[(&[], &numbers.offload)]);
    ssd(&mut out, &numbers.directories);
    out.finish()
}

fn ssd(out: &mut Text, directories: &[Seen<'_>]) {
    if directories.is_empty() {
        return;
    }
    let labels: Vec<_> = directories
        .iter()
        .map(|seen| [("segment", &*seen.facts.name)])
        .collect();
    let labelled = || labels.iter().map(|label| &label[..]).zip(directories);
    let stats: Vec<_> = labelled()
        .map(|(label, seen)| (label, &seen.stats))
        .collect();
    out.rows(TIER, &stats);
    out.rows(RATIOS, &stats);
    let found: Vec<_> = labelled()
        .map(|(label, seen)| (label, &seen.facts.found))
        .collect();
    out.rows(FOUND, &found);
    let name = "ssd_engine_info";
    let help = "What drives the disk, and why nothing better does; always 1.";
    out.head(name, Kind::Gauge, help);
    for seen in directories {
        engine(out, name, seen.facts);
    }
}

fn engine(
    out: &mut Text,
    name: &str,
    Facts {
        name: segment,
        engine,
        ..
    }: &Facts,
) {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let why = engine.notes.join("; ");
    let labels = [
        ("segment", &**segment),
        ("engine", engine.engine.name()),
        ("direct", yes(engine.geometry.direct)),
        ("registered_files", yes(engine.registered_files)),
        ("registered_buffers", yes(engine.registered_buffers)),
        ("why_not_better", &why),
    ];
    out.line(name, &labels, 1);
}
