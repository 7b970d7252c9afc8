//! Demo and replay with the real binary, at a size that takes no time.

mod process {
    pub(crate) mod report;
}

use process::report::run;
use std::{io::Write, process::Command};

/// A trace of `count` requests that share their first block.
fn trace(count: u64) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for number in 0..count {
        let (own, at) = (number % 7 + 1, number * 100);
        writeln!(
            file,
            r#"{{"timestamp": {at}, "input_length": 1024, "output_length": 1, "hash_ids": [0, {own}]}}"#
        )
        .expect("it takes a line");
    }
    file
}

fn path(trace: &tempfile::NamedTempFile) -> &str {
    trace.path().to_str().expect("UTF-8")
}

#[test]
fn a_demo_finds_what_the_policy_predicts_and_no_wrong_byte() {
    let (code, report) = run(&[
        "demo",
        "--dram=4MiB",
        "--payload=16MiB",
        "--block-bytes=16KiB",
        "--no-ssd",
    ]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["wrong_bytes"], &report["errors"]),
        (&0.into(), &0.into())
    );
    assert!(report["hits"]["dram"].as_u64() > Some(0));
    assert_eq!(report["evictions"], report["predicted"]["evictions"]);
    assert_eq!(report["hits"]["dram"], report["predicted"]["hits"]);
}

#[test]
fn a_demo_finds_on_ssd_what_memory_has_no_room_for() {
    let (code, report) = run(&[
        "demo",
        "--dram=4MiB",
        "--payload=16MiB",
        "--block-bytes=16KiB",
    ]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["wrong_bytes"], &report["errors"]),
        (&0.into(), &0.into())
    );
    let (dram, ssd) = (&report["hits"]["dram"], &report["hits"]["ssd"]);
    assert!(
        dram.as_u64() > Some(0) && ssd.as_u64() > Some(0),
        "{report}"
    );
    let all = dram.as_u64().unwrap_or(0) + ssd.as_u64().unwrap_or(0);
    assert_eq!(
        Some(all),
        report["predicted"]["hits"].as_u64(),
        "nothing is lost between the tiers"
    );
    assert!(report["ssd_bytes_written"].as_u64() > Some(16 << 20));
}

#[test]
fn a_replay_finds_what_an_earlier_one_has_left_on_ssd() {
    let trace = trace(50);
    let dir = tempfile::tempdir().expect("a scratch directory");
    let ssd = format!("--ssd={}:64MiB", dir.path().display());
    let arguments = ["replay", "--trace", path(&trace), "--dram=1MiB", &ssd];
    let (code, first) = run(&arguments);
    assert_eq!(code, Some(0), "{first}");
    assert_eq!(first["recovered_objects"], 0);
    let (code, second) = run(&arguments);
    assert_eq!(code, Some(0), "{second}");
    assert_eq!(second["wrong_bytes"], 0);
    assert!(second["recovered_objects"].as_u64() > Some(0), "{second}");
    assert_eq!(
        second["prefix_token_hit_rate"], 1.0,
        "everything was there from the start"
    );
    let mut other = arguments.to_vec();
    other.push("--seed=2");
    assert_eq!(
        Command::new(env!("CARGO_BIN_EXE_ziggurat"))
            .args(&other)
            .status()
            .expect("it runs")
            .code(),
        Some(2)
    );
}

#[test]
fn replay_in_process_agrees_with_the_policy_alone() {
    let trace = trace(50);
    let (code, here) = run(&["replay", "--trace", path(&trace), "--dram=1MiB"]);
    assert_eq!(code, Some(0), "{here}");
    assert_eq!(
        (&here["requests"], &here["wrong_bytes"]),
        (&50.into(), &0.into())
    );
    let (code, alone) = run(&[
        "replay",
        "--trace",
        path(&trace),
        "--policy-only",
        "--capacity-blocks=100",
    ]);
    assert_eq!(code, Some(0), "{alone}");
    assert_eq!(here["hit_tokens"], alone["hit_tokens"]);
    assert_eq!(here["hits"], alone["hits"], "the same shape in both");
}

#[test]
fn a_pace_replays_the_pauses() {
    let trace = trace(4);
    let (code, report) = run(&["replay", "--trace", path(&trace), "--dram=1MiB", "--pace=2"]);
    assert_eq!(code, Some(0), "{report}");
    assert!(report["seconds"].as_f64() >= Some(0.15), "{report}");
}

#[test]
fn a_broken_line_and_a_missing_file_end_with_2() {
    let mut broken = trace(2);
    writeln!(broken, "{{\"timestamp\": -1}}").expect("it takes a line");
    let (code, report) = run(&["replay", "--trace", path(&broken), "--dram=1MiB"]);
    assert_eq!(code, Some(2));
    let what = report["error"]["what"].as_str().expect("a text");
    assert!(what.contains("line 3"), "{what}");
    let (code, _) = run(&["replay", "--trace", "no-such-file"]);
    assert_eq!(code, Some(2));
}

#[test]
fn numbers_that_cannot_be_end_with_2() {
    let trace = trace(1);
    for bad in [
        &["--pace=0"][..],
        &["--policy=clock"],
        &["--dram=-1"],
        &["--block-bytes=0"],
        &["--policy-only"],
        &["--policy-only", "--capacity-blocks=0"],
        &["--dram=1KiB"],
    ] {
        let arguments = [&["replay", "--trace", path(&trace)], bad].concat();
        let (code, report) = run(&arguments);
        assert_eq!(code, Some(2), "{bad:?}: {report}");
    }
}
