//! `ziggurat ssd` with the real binary, on a directory that a replay has filled.

mod process {
    pub(crate) mod report;
}

use process::report::run;
use serde_json::Value;
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A trace of `count` requests for one block each, none of them twice.
fn trace(dir: &Path, count: u64) -> PathBuf {
    let trace = dir.join("trace.jsonl");
    let mut lines = String::new();
    for number in 0..count {
        lines += &format!(
            r#"{{"timestamp": {number}, "input_length": 512, "output_length": 1, "hash_ids": [{number}]}}"#
        );
        lines.push('\n');
    }
    fs::write(&trace, lines).expect("a trace");
    trace
}

/// A directory with ten blocks of 8 KiB.
fn filled() -> TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let trace = trace(dir.path(), 10);
    let ssd = dir.path().join("ssd");
    fs::create_dir(&ssd).expect("a directory");
    let ssd = format!("--ssd={}:64MiB", ssd.display());
    let arguments = [
        "replay",
        "--trace",
        text(&trace),
        "--dram=1MiB",
        "--block-bytes=8KiB",
        "--ssd-write-budget=1GiB/s",
        "--ssd-codec=zstd",
        &ssd,
    ];
    let (code, report) = run(&arguments);
    assert_eq!(code, Some(0), "{report}");
    let budget = &report["write_budget"];
    assert_eq!(
        budget["bytes_per_second"].as_u64(),
        Some(1 << 30),
        "{report}"
    );
    assert_eq!(budget["objects_refused"].as_u64(), Some(0), "{report}");
    dir
}

#[test]
fn a_sound_directory_is_listed_proved_and_dumped() {
    let dir = filled();
    let ssd = dir.path().join("ssd");
    let (code, report) = run(&["ssd", "inspect", text(&ssd)]);
    assert_eq!(code, Some(0), "{report}");
    let objects = report["objects"].as_u64().expect("a count");
    assert!(objects >= 10, "{report}");
    assert_eq!(report["foreign"], Value::from(Vec::<Value>::new()));
    // Payloads of a replay are noise.
    assert_eq!(report["codecs"]["none"]["objects"], report["objects"]);

    let (code, proved) = run(&["ssd", "verify", text(&ssd)]);
    assert_eq!(code, Some(0), "{proved}");
    assert_eq!(proved["bytes"], report["bytes"]);

    let (code, list) = run(&["ssd", "dump", text(&ssd), "--limit=3"]);
    assert_eq!((code, &list["truncated"]), (Some(0), &true.into()));
    let first = &list["objects"][0];
    let key = first["key"].as_str().expect("a key");
    let value = dir.path().join("value");
    let output = format!("--output={}", value.display());
    let (code, dumped) = run(&["ssd", "dump", text(&ssd), "--key", key, &output]);
    assert_eq!(code, Some(0), "{dumped}");
    let bytes = fs::read(&value).expect("it was written");
    assert_eq!(Some(bytes.len() as u64), first["len"].as_u64());
    let sum = format!("{:08x}", ziggurat_base::Crc32::of(&bytes).0);
    assert_eq!(first["crc32"], sum.as_str());

    let (code, _) = run(&["ssd", "dump", text(&ssd), "--key=nobody", &output]);
    assert_eq!(code, Some(3));
    let (code, cleared) = run(&["ssd", "gc", text(&ssd)]);
    assert_eq!(code, Some(0), "{cleared}");
    assert_eq!(cleared["objects"].as_u64(), Some(objects), "{cleared}");
    let (code, proved) = run(&["ssd", "verify", text(&ssd)]);
    assert_eq!(code, Some(0), "{proved}");
}

#[test]
fn a_flipped_byte_is_named_by_file_offset_and_key() {
    let dir = filled();
    let ssd = dir.path().join("ssd");
    let (_, list) = run(&["ssd", "dump", text(&ssd)]);
    let object = &list["objects"][4];
    let name = format!("{}.log", object["file"].as_str().expect("a file"));
    let at = object["offset"].as_u64().expect("an offset") + 100;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(ssd.join(&name))
        .expect("the file of the object");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is there");
    file.write_all_at(&[byte[0] ^ 1], at)
        .expect("it can be damaged");

    let (code, report) = run(&["ssd", "verify", text(&ssd)]);
    assert_eq!(code, Some(1), "{report}");
    let faults = report["faults"].as_array().expect("faults");
    assert_eq!(faults.len(), 1, "{report}");
    assert_eq!(faults[0]["file"], name.as_str());
    assert_eq!(faults[0]["offset"], object["offset"]);
    assert_eq!(faults[0]["key"], object["key"]);

    let key = object["key"].as_str().expect("a key");
    let (code, refused) = run(&["ssd", "dump", text(&ssd), "--key", key, "--output=-"]);
    assert_eq!(code, Some(1), "{refused}");
    assert_eq!(refused["error"]["name"], "CHECKSUM_MISMATCH");
}

#[test]
fn what_is_no_directory_of_the_store_is_left_as_it_is() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    for what in ["inspect", "verify", "dump", "gc"] {
        let (code, report) = run(&["ssd", what, text(dir.path())]);
        assert_eq!(code, Some(2), "{report}");
        let told = report["error"]["what"].as_str().expect("words");
        assert!(
            told.contains(text(dir.path())) && told.contains("--ssd"),
            "{told}"
        );
        let (code, report) = run(&["ssd", what, text(&dir.path().join("nothing"))]);
        assert_eq!(code, Some(2), "{report}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0);
}

#[test]
fn a_directory_that_is_served_is_refused() {
    let dir = filled();
    let ssd = dir.path().join("ssd");
    let lock = OpenOptions::new()
        .write(true)
        .open(ssd.join("lock"))
        .expect("the lock of the directory");
    lock.lock().expect("nobody serves it");
    for what in ["inspect", "verify", "dump", "gc"] {
        let (code, report) = run(&["ssd", what, text(&ssd)]);
        assert_eq!(code, Some(1), "{report}");
        assert_eq!(report["error"]["name"], "FILE_LOCK_FAIL", "{report}");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_named_before_anything_is_made() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("a file");
    let none = dir.path().join("none");
    fs::create_dir(dir.path().join("sub")).expect("a directory");
    let twice = format!("{0}:64MiB,{0}/sub/..", text(dir.path()));
    let small = format!("{}:0", text(dir.path()));
    let large = format!("{}:900000TiB", text(dir.path()));
    let cases = [
        (text(&none), 2, "FILE_NOT_FOUND", "none"),
        (text(&file), 1, "FILE_OPEN_FAIL", "file"),
        (&twice, 2, "INVALID_PARAMS", "give each once"),
        (&small, 2, "INVALID_PARAMS", "0B"),
        (&large, 2, "INVALID_PARAMS", "900000TiB"),
    ];
    for (ssd, exit, name, told) in cases {
        let ssd = format!("--ssd={ssd}");
        let serve = ["rpc", "data", "admin"].map(|port| format!("--{port}-address=127.0.0.1:0"));
        for (start, ports) in [("demo", &[][..]), ("serve", &serve)] {
            let mut arguments = vec![start, "--dram=4MiB", &ssd];
            arguments.extend(ports.iter().map(String::as_str));
            let (code, report) = run(&arguments);
            assert_eq!(
                (code, &report["error"]["name"]),
                (Some(exit), &name.into()),
                "{report}"
            );
            let what = report["error"]["what"].as_str().expect("words");
            assert!(what.contains(told), "{start} {ssd}: {what}");
        }
    }
    let left: Vec<_> = fs::read_dir(dir.path()).expect("listed").collect();
    assert!(!none.exists(), "{left:?}");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "another process tells nothing but by the files that it makes"
)]
fn a_replay_that_was_killed_goes_on_with_what_it_had_written() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let trace = trace(dir.path(), 3000);
    let ssd = dir.path().join("ssd");
    fs::create_dir(&ssd).expect("a directory");
    let place = format!("--ssd={}:512MiB", ssd.display());
    let arguments = [
        "replay",
        "--trace",
        text(&trace),
        "--dram=8MiB",
        "--block-bytes=64KiB",
        &place,
    ];
    let mut first = Command::new(env!("CARGO_BIN_EXE_ziggurat"))
        .args(arguments)
        .env_clear()
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary was built");
    // The second file is begun when the first is full.
    while !ssd.join("00000002.log").exists() {
        let ended = first.try_wait().expect("it is ours");
        assert!(ended.is_none(), "it ended before it had filled a file");
        thread::sleep(Duration::from_millis(1));
    }
    first.kill().expect("it is ours");
    first.wait().expect("it is ours");

    let (code, report) = run(&arguments);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["wrong_bytes"], &report["errors"]),
        (&0.into(), &0.into()),
        "{report}"
    );
    let recovered = report["recovered_objects"].as_u64().expect("a count");
    assert!(
        recovered > 100,
        "most of a file of 64 MiB was told and kept: {report}"
    );
    let hits = report["hits"]["ssd"].as_u64().expect("a count");
    assert!(hits > 100, "{report}");
    let (code, proved) = run(&["ssd", "verify", text(&ssd)]);
    assert_eq!(code, Some(0), "{proved}");
}
