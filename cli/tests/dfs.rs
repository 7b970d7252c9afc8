//! `ziggurat dfs` with the real binary.

mod process {
    pub(crate) mod report;
}

use process::report::run;
use std::{fs::OpenOptions, os::unix::fs::FileExt as _, path::Path};
use tempfile::TempDir;
use ziggurat_base::{Extent, Key, Ticket};
use ziggurat_engine::{command::Tags, shard_record::record_len};
use ziggurat_store::dfs::{
    Ack, Name, Place, ShardWrite,
    format::index,
    offline::{Directory, read_index},
};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

const SHAPE: [&str; 4] = [
    "--shards=2",
    "--shard-size=8MiB",
    "--cluster=mine",
    "--alignment=8KiB",
];

fn formatted() -> TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let mut arguments = vec!["dfs", "format", text(dir.path())];
    arguments.extend(SHAPE);
    let (code, report) = run(&arguments);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (report["shards"].as_u64(), report["alignment"].as_u64()),
        (Some(2), Some(8192))
    );
    dir
}

/// Ten objects in each of two shard files, as a client writes them.
fn fill(path: &Path) {
    let directory = Directory::to_change(path).expect("a directory");
    let root = directory.root(Some("mine")).expect("a root");
    for number in 0..20 {
        let key = format!("key/{}", number % 15);
        let payload = vec![number as u8; 100_000];
        let key = Key::new(key.as_bytes()).expect("a good key");
        let len = record_len("default", key, &Tags::default(), 100_000, 8192);
        let write = ShardWrite {
            name: Name {
                tenant: "default",
                key,
                ticket: Ticket(number + 1),
            },
            tags: Tags::default(),
            place: Place {
                shard: (number % 2) as u32,
                extent: Extent::new(number / 2 * 131_072, len),
            },
            parts: &[&payload],
            ack: Ack::Synced,
        };
        pollster::block_on(root.write(&write)).expect("there is room");
    }
}

#[test]
fn a_root_is_made_looked_into_proved_recovered_and_grown() {
    let dir = formatted();
    fill(dir.path());
    let root = text(dir.path());
    let (code, report) = run(&["dfs", "inspect", root]);
    assert_eq!(
        (code, report["objects"].as_u64()),
        (Some(0), Some(20)),
        "{report}"
    );
    assert_eq!(report["cluster"], "mine");
    assert_eq!(report["shards"][1]["objects"].as_u64(), Some(10));
    assert_eq!(
        report["tenants"]["default"]["bytes"].as_u64(),
        Some(2_000_000)
    );

    let (code, report) = run(&["dfs", "verify", root]);
    assert_eq!(code, Some(0), "{report}");
    let counts =
        ["shards", "objects", "overlaps", "corrupt", "torn"].map(|name| report[name].as_u64());
    assert_eq!(counts, [2, 20, 0, 0, 0].map(Some));

    let (code, report) = run(&["dfs", "recover", root, "--compact"]);
    assert_eq!(code, Some(0), "{report}");
    let counts = ["objects", "stale", "corrupt", "unproven"].map(|name| report[name].as_u64());
    assert_eq!(counts, [15, 5, 0, 0].map(Some));
    let inside = read_index(&dir.path().join(index::NAME)).expect("a good index");
    assert_eq!(inside.entries.len(), 15);
    let elsewhere = tempfile::tempdir().expect("a scratch directory");
    let file = elsewhere.path().join("kv.index");
    let (code, report) = run(&["dfs", "recover", root, "--index", text(&file)]);
    assert_eq!(
        (code, report["index"].as_str()),
        (Some(0), file.to_str()),
        "{report}"
    );
    assert_eq!(read_index(&file).expect("a good index"), inside);

    let (code, report) = run(&["dfs", "grow", root, "--shards=3"]);
    assert_eq!(
        (code, report["shards"].as_u64()),
        (Some(0), Some(3)),
        "{report}"
    );
    let (code, report) = run(&["dfs", "grow", root, "--shards=2"]);
    assert_eq!(code, Some(2), "{report}");
}

#[test]
fn damage_is_told_by_file_offset_and_key() {
    let dir = formatted();
    fill(dir.path());
    let shard = dir.path().join("shard-0001.zig");
    let file = OpenOptions::new()
        .write(true)
        .open(shard)
        .expect("a shard file");
    // The second record there: its payload ends with the extent.
    let at = 65_536 + 131_072 + 106_496 - 4096;
    file.write_all_at(&[0xff], at).expect("a byte");
    let (code, report) = run(&["dfs", "verify", text(dir.path())]);
    assert_eq!(
        (code, report["corrupt"].as_u64()),
        (Some(1), Some(1)),
        "{report}"
    );
    let fault = &report["faults"][0];
    assert_eq!(
        (fault["file"].as_str(), fault["key"].as_str()),
        (Some("shard-0001.zig"), Some("key/3"))
    );
    let offset = fault["offset"].as_u64().expect("an offset");
    assert!(offset <= at && at - offset < 65_536, "{fault}");
}

#[test]
fn what_cannot_be_a_root_is_refused_with_a_mend() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let root = text(dir.path());
    for command in ["inspect", "verify", "recover"] {
        let (code, report) = run(&["dfs", command, root]);
        let error = report["error"].to_string();
        assert!(
            code != Some(0) && error.contains("dfs format"),
            "{command}: {report}"
        );
    }
    let (code, report) = run(&["dfs", "format", root, "--alignment=5KiB"]);
    assert!(
        code == Some(2) && report.to_string().contains("power of two"),
        "{report}"
    );
    std::fs::write(dir.path().join("mine.txt"), "notes").expect("a file");
    let (code, report) = run(&["dfs", "format", root, "--shard-size=8MiB"]);
    assert!(
        code == Some(1) && report.to_string().contains("mine.txt"),
        "{report}"
    );
    let (code, _) = run(&["dfs", "inspect", "/nowhere"]);
    assert_eq!(code, Some(2));
}
