//! The predictions reproduce the reference tables on the public traces, which are not part of this repository.

use std::path::{Path, PathBuf};
use ziggurat_engine::testkit::skip::skip;
use ziggurat_workload::{PolicyKind, PredictOptions, Trace, predict};

/// Names the folder of the traces.
const FOLDER_VARIABLE: &str = "ZIGGURAT_TRACES";

/// A prediction may differ by this much from a table, which is rounded to two places of a per cent.
const TOLERANCE: f64 = 0.0002;

type Row = &'static [(u64, f64)];

const CONVERSATION_LRU: Row = &[
    (1_000, 4.54),
    (3_000, 6.66),
    (5_860, 13.88),
    (10_000, 21.57),
    (20_000, 29.35),
    (30_000, 33.22),
    (50_000, 36.15),
    (100_000, 37.08),
];

const CONVERSATION_S3_FIFO: Row = &[
    (1_000, 5.67),
    (3_000, 8.94),
    (5_860, 15.56),
    (10_000, 19.91),
    (20_000, 25.79),
    (30_000, 31.03),
    (50_000, 35.59),
    (100_000, 36.95),
];

const SYNTHETIC_LRU: Row = &[
    (500, 4.60),
    (1_000, 8.57),
    (3_000, 19.42),
    (5_860, 31.51),
    (10_000, 43.18),
    (20_000, 58.22),
    (30_000, 63.56),
];

const SYNTHETIC_S3_FIFO: Row = &[
    (500, 5.12),
    (1_000, 8.82),
    (3_000, 19.06),
    (5_860, 31.47),
    (10_000, 42.41),
    (20_000, 57.20),
    (30_000, 62.28),
];

/// The table has this row head first; the order within a request hardly matters to it.
const CONVERSATION_FIFO_HEAD_FIRST: Row = &[(1_000, 4.42), (5_860, 12.72), (30_000, 30.02)];

fn trace(test: &str, name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
    let path = folder.map(|folder| folder.join(name));
    if let Some(path) = path.filter(|path| path.is_file()) {
        return Some(path);
    }
    let why = format!("{test} needs {name}; {FOLDER_VARIABLE} names its folder");
    skip("public_traces", "traces", &why);
    None
}

fn assert_row(path: &Path, policy: PolicyKind, row: Row, tolerance: f64) {
    for (capacity_blocks, per_cent) in row {
        let options = PredictOptions {
            policy,
            capacity_blocks: *capacity_blocks,
            requests_max: None,
        };
        let requests = Trace::open(path).expect("the file is there");
        let totals = predict(requests, &options).expect("the trace is well formed");
        let got = totals.prefix_token_hit_rate;
        println!(
            "{policy:8} {capacity_blocks:7} {:6.2} table {per_cent:6.2}",
            100.0 * got
        );
        assert!(
            (got - per_cent / 100.0).abs() <= tolerance,
            "{policy} at {capacity_blocks} blocks: {got:.4}, the table has {per_cent} %"
        );
    }
}

#[test]
fn conversation_rates_are_those_of_the_tables() {
    let test = "conversation_rates_are_those_of_the_tables";
    let Some(path) = trace(test, "conversation_trace.jsonl") else {
        return;
    };
    assert_row(&path, PolicyKind::Lru, CONVERSATION_LRU, TOLERANCE);
    assert_row(&path, PolicyKind::S3Fifo, CONVERSATION_S3_FIFO, TOLERANCE);
    assert_row(&path, PolicyKind::Fifo, CONVERSATION_FIFO_HEAD_FIRST, 0.005);
}

#[test]
fn synthetic_rates_are_those_of_the_tables() {
    let test = "synthetic_rates_are_those_of_the_tables";
    let Some(path) = trace(test, "synthetic_trace.jsonl") else {
        return;
    };
    assert_row(&path, PolicyKind::Lru, SYNTHETIC_LRU, TOLERANCE);
    assert_row(&path, PolicyKind::S3Fifo, SYNTHETIC_S3_FIFO, TOLERANCE);
}
