//! `ziggurat bench` at tiny sizes: every measurement runs, with its servers as processes, and has the promised keys. No
//! figure is judged here.

use serde_json::Value;
use std::process::Command;
use ziggurat_engine::testkit::skip::skip;

/// Runs a measurement; its object.
fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_ziggurat"))
        .args([&["bench"], arguments, &["--json"]].concat())
        .env_clear()
        .output()
        .expect("the binary was built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = text.lines().last().expect("a last line");
    serde_json::from_str(line).expect("JSON")
}

fn has_numbers(report: &Value, keys: &[&str]) {
    for key in keys {
        assert!(report[key].is_number(), "{key}: {report}");
    }
}

#[test]
fn what_cannot_be_measured_is_a_usage_error_that_names_it() {
    for (arguments, named) in [
        (&["catalog", "--keys", "3"][..], "3 keys"),
        (&["catalog", "--runs", "0"], "0 runs"),
        (&["data", "--pool", "16TiB"], "16TiB"),
        (&["data", "--pool", "1KiB"], "1024 bytes"),
        (&["data", "--rounds", "0"], "0 rounds"),
        (&["rpc", "--span", "0s"], "0s"),
        (&["rpc", "--pin", "three-cores"], "three-cores"),
        (&["failover", "--span", "1s"], "1s"),
        (&["ssd"], "--dir"),
        (&["ssd", "--dir", ".", "--rounds", "0"], "0 rounds"),
        (&["ssd", "--dir", ".", "--bytes", "1MiB"], "1MiB"),
        (&["ssd", "--dir", ".", "--rows", "read_5k"], "read_5k"),
        (&["restart", "--dir", ".", "--objects", "0"], "0 objects"),
        (&["restart", "--dir", "/nowhere"], "/nowhere"),
        (&["dfs", "--dir", ".", "--rows", "read_4k"], "read_16m"),
        (&["peer", "x"], "not for people"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_ziggurat"))
            .arg("bench")
            .args(arguments)
            .env_clear()
            .output()
            .expect("the binary was built");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(named), "{arguments:?}: {errors}");
    }
}

#[test]
fn catalog_tells_rates_memory_and_the_longest_call() {
    let report = bench(&["catalog", "--keys", "2000", "--runs", "1"]);
    let keys = [
        "locate_per_s",
        "locate_batched_per_s",
        "put_per_s",
        "remove_per_s",
        "bytes_per_key",
        "max_turn_us",
    ];
    has_numbers(&report, &keys);
}

#[test]
fn data_compares_each_shape_with_its_limit() {
    let report = bench(&["data", "--rounds", "1", "--pool", "16MiB"]);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 26);
    for row in rows {
        has_numbers(row, &["bytes", "gbps", "limit_gbps", "ratio"]);
        assert!(
            row["name"].is_string() && row["ratio"].as_f64() > Some(0.0),
            "{row}"
        );
    }
}

#[test]
fn rpc_measures_each_call_alone_and_in_batches() {
    let report = bench(&["rpc", "--span", "20ms"]);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 10);
    for row in rows {
        has_numbers(
            row,
            &["batch", "keys_per_s", "p50_us", "p99_us", "floor_us"],
        );
        assert!(
            row["name"].is_string() && row["p50_us"].as_f64() > Some(0.0),
            "{row}"
        );
    }
}

#[test]
fn failover_gives_right_bytes_or_a_code() {
    let report = bench(&["failover", "--span", "2500ms"]);
    has_numbers(&report, &["p99_ratio", "dead_answer_ms_max"]);
    assert_eq!(report["wrong_bytes"], 0, "{report}");
    assert_eq!(report["errors"], 0, "{report}");
    assert_eq!(report["not_failed_over"], 0, "{report}");
    assert!(report["failed_over"].as_u64() > Some(0), "{report}");
}

#[test]
fn ssd_without_fio_says_what_to_install() {
    let output = Command::new(env!("CARGO_BIN_EXE_ziggurat"))
        .args(["bench", "ssd", "--dir", ".", "--json"])
        .env_clear()
        .env("PATH", "/nowhere")
        .output()
        .expect("the binary was built");
    let errors = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("package `fio`"), "{errors}");
}

#[test]
fn ssd_stands_beside_fio_and_leaves_nothing_behind() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skip(
            "ssd_stands_beside_fio_and_leaves_nothing_behind",
            "tool",
            "fio is not installed",
        );
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = folder.path().to_str().expect("UTF-8");
    let tier = ["read_4k", "read_64k", "read_1m", "write_64k", "write_1m"];
    check_rows(&bench(&["ssd", "--dir", path, "--quick"]), &tier);
    let files = [
        "read_1m",
        "read_4m",
        "read_16m",
        "write_1m",
        "write_4m",
        "write_16m",
    ];
    check_rows(&bench(&["dfs", "--dir", path, "--quick"]), &files);
    let left = std::fs::read_dir(folder.path()).expect("it is there");
    assert_eq!(left.count(), 0);
}

fn check_rows(report: &Value, wanted: &[&str]) {
    let rows = report["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, wanted);
    for row in rows {
        let keys = [
            "block_bytes",
            "depth",
            "gbps",
            "iops",
            "limit_gbps",
            "limit_iops",
            "ratio",
            "cpu_s_per_gb",
            "unsteady",
        ];
        has_numbers(row, &keys);
        assert!(row["ratio"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["rounds"].as_array().map(Vec::len), Some(1), "{row}");
    }
}

#[test]
fn recovery_finds_every_record_without_reading_payloads() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = folder.path().to_str().expect("UTF-8");
    let report = bench(&["recovery", "--dir", path, "--records", "3000"]);
    has_numbers(&report, &["open_s", "index_bytes_per_record", "file_bytes"]);
    assert_eq!(report["records"], 3000, "{report}");
    assert_eq!(report["proved"], 0, "{report}");
    assert_eq!(folder.path().read_dir().expect("listed").count(), 0);
}

#[test]
fn restart_finds_everything_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = folder.path().to_str().expect("UTF-8");
    let wish = ["--objects", "1000", "--client-ttl", "2s"];
    let report = bench(&[&["restart", "--dir", path], &wish[..]].concat());
    has_numbers(&report, &["payload_bytes", "member_ttl_s"]);
    assert_eq!(report["wrong_bytes"], 0, "{report}");
    let rows = report["rows"].as_array().expect("rows");
    let cases: Vec<_> = rows.iter().map(|row| row["case"].as_str()).collect();
    let all = [
        "node_same_address",
        "node_other_address",
        "node_given_up",
        "master",
    ];
    assert_eq!(cases, all.map(Some), "{report}");
    for row in rows {
        has_numbers(row, &["seconds", "away_s", "read_s", "batch_ms_max"]);
        assert_eq!(
            (&row["objects"], &row["readable"]),
            (&1000.into(), &1000.into()),
            "{row}"
        );
    }
    assert_eq!(folder.path().read_dir().expect("listed").count(), 0);
}
