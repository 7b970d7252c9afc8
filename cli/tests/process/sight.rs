//! What an operator sees of running servers: HTTP of each process, and SSD beside memory.

use crate::{Server, ask, last_object, put};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

const ANY: &str = "127.0.0.1:0";

/// Whatever is to be seen is seen within this time, also on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

/// The body of a page.
fn page(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let ask = format!("GET {path} HTTP/1.1\r\nHost: ziggurat\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).expect("it hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    body.to_owned()
}

fn health(address: &str) -> Value {
    serde_json::from_str(&page(address, "/health")).expect("JSON")
}

/// The number of a metric, whatever its labels.
fn number(metrics: &str, name: &str) -> f64 {
    let named = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    let line = metrics.lines().find(named);
    let line = line.unwrap_or_else(|| panic!("{name} is not in {metrics}"));
    let (_, number) = line.rsplit_once(' ').expect("a number");
    number.parse().expect("a number")
}

/// Waits until a page says so.
#[expect(
    clippy::disallowed_methods,
    reason = "another process tells nothing but by its pages"
)]
fn until(address: &str, name: &str, wanted: f64) -> String {
    let began = Instant::now();
    loop {
        let metrics = page(address, "/metrics");
        if number(&metrics, name) >= wanted {
            return metrics;
        }
        assert!(began.elapsed() < PATIENCE, "{name} did not come: {metrics}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn disk(directory: &Path) -> String {
    format!("--ssd={}:64MiB", directory.display())
}

#[test]
fn a_process_with_both_halves_shows_both_at_one_place() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let ports = ["rpc", "admin", "data"].map(|port| format!("--{port}-address={ANY}"));
    let [rpc, admin, data] = &ports;
    let server = Server::start(&["serve", "--dram=64MiB", &disk(dir.path()), rpc, admin, data]);
    let at = server.address("admin_address");
    for key in ["a", "b"] {
        assert_eq!(last_object(&put(&server, key, &[7; 5000]))["stored"], true);
    }
    let metrics = until(at, "ziggurat_node_ssd_objects", 2.0);
    for (name, expected) in [
        ("ziggurat_master_objects", 2.0),
        ("ziggurat_master_owned_replicas", 2.0),
        ("ziggurat_node_in_touch", 1.0),
        ("ziggurat_node_memory_capacity_bytes", f64::from(64 << 20)),
        ("ziggurat_node_offload_done_total", 2.0),
        ("ziggurat_node_offload_failed_total", 0.0),
        ("ziggurat_node_ssd_payload_bytes_total", 10_000.0),
        ("ziggurat_node_ssd_logical_bytes", 10_000.0),
        ("ziggurat_node_ssd_read_only", 0.0),
        ("ziggurat_node_ssd_checksum_failures_total", 0.0),
        ("ziggurat_node_ssd_quarantined_files", 0.0),
        ("ziggurat_node_ssd_budget_bytes_per_second", 0.0),
        ("ziggurat_node_ssd_engine_info", 1.0),
    ] {
        assert_eq!(number(&metrics, name), expected, "{name} in {metrics}");
    }
    assert!(number(&metrics, "ziggurat_node_ssd_write_amplification") > 1.0);
    let heads: Vec<_> = metrics
        .lines()
        .filter(|l| l.starts_with("# TYPE"))
        .collect();
    let mut once = heads.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), heads.len(), "each metric has one head");

    let health = health(at);
    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(
        (&health["objects"], &health["ssd_objects"]),
        (&2.into(), &2.into())
    );
    let summary = page(at, "/metrics/summary");
    assert!(
        summary.contains("objects 2 |") && summary.contains("2 objects |"),
        "{summary}"
    );

    let status = last_object(&ask(&server, &["status", "--json"]));
    let segments = status["segments"].as_array().expect("segments");
    let tiers: Vec<_> = segments.iter().map(|s| s["tier"].as_str()).collect();
    assert_eq!(tiers, [Some("dram"), Some("ssd")], "{status}");
    assert_eq!(status["ssd_capacity"], 64 << 20, "{status}");
    assert_eq!(segments[1]["used"], status["ssd_used"], "{status}");
    assert_eq!(segments[1]["replicas"], 2, "{status}");
    let shown = ask(&server, &["status"]).stdout;
    let shown = String::from_utf8(shown).expect("words");
    assert!(shown.contains("on SSD"), "{shown}");
    assert!(shown.lines().any(|line| line.contains(" ssd ")), "{shown}");
}

#[test]
fn a_node_shows_itself_unless_it_is_told_not_to() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let state = format!("--state-dir={}", dir.path().display());
    let ssd = dir.path().join("ssd");
    std::fs::create_dir(&ssd).expect("a directory");
    let master = Server::start(&[
        "master",
        "--rpc-address",
        ANY,
        "--admin-address",
        ANY,
        &state,
    ]);
    let address = master.address("rpc_address").to_owned();
    let node = |name: &str, admin: &str, more: &[&str]| {
        let at = [
            "--data-address",
            ANY,
            "--master",
            &address,
            "--node-admin-address",
            admin,
        ];
        let what = [
            "node",
            "--dram=16MiB",
            "--unmount-grace=0s",
            "--segment-name",
            name,
        ];
        Server::start(&[&what[..], &at, more].concat())
    };
    let seen = node("seen", ANY, &[&disk(&ssd), "--ssd-write-budget=1MiB/s"]);
    let at = seen.address("admin_address");
    let metrics = page(at, "/metrics");
    assert_eq!(
        number(&metrics, "ziggurat_node_ssd_budget_bytes_per_second"),
        f64::from(1 << 20)
    );
    assert!(!metrics.contains("ziggurat_master_"), "{metrics}");
    assert_eq!(page(at, "/get_all_segments"), "seen\nseen-ssd-0\n");
    assert_eq!(health(at)["ssd_directories"], 1);
    let unseen = node("unseen", "off", &[]);
    assert_eq!(unseen.ready["admin_address"], Value::Null);

    assert_eq!(master.stop().0, Some(0));
    let began = Instant::now();
    while health(at)["status"] != "no-master" {
        assert!(began.elapsed() < PATIENCE, "nobody noticed");
    }
    assert_eq!(number(&page(at, "/metrics"), "ziggurat_node_in_touch"), 0.0);
}
