//! A real filesystem without room: the tier takes nothing, reads go on, and it resumes by itself.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use pollster::block_on;
use std::{env, fs, path::Path, process::Command, sync::Arc, time::Duration};
use ziggurat_base::{ByteCount, Clock, Code, Crc32, DirectoryId, Key, ManualClock, Result, Ticket};
use ziggurat_engine::{command::Hint, shelf::holdings::Names, testkit::skip::skip};
use ziggurat_io::{Choice, Options as DiskOptions, Pool};
use ziggurat_tiers::ssd::{Item, News, Options, Recovered, SsdTier, Wanted};

/// Set in a child: the directory to use.
const CHILD: &str = "ZIGGURAT_TIERS_CHILD";

const LEN: usize = 600_000;

fn payload(ticket: u64) -> Vec<u8> {
    (0..LEN)
        .map(|at| (at as u64 * 31 + ticket * 7) as u8)
        .collect()
}

fn open(directory: &Path, engine: Choice, clock: &ManualClock) -> (SsdTier, Recovered) {
    let options = DiskOptions {
        engine,
        ..DiskOptions::default()
    };
    let (disk, _) = ziggurat_io::open(directory, &Pool::new(8 << 20).unwrap(), &options).unwrap();
    let tier = Options {
        capacity: ByteCount::mib(64),
        file_bytes: ByteCount::mib(2),
        batch_bytes: ByteCount::mib(1),
        ..Options::default()
    };
    let opened = SsdTier::open(disk, Arc::new(clock.clone()), tier, DirectoryId(1));
    block_on(opened).unwrap()
}

fn append(tier: &SsdTier, ticket: u64) -> Result<()> {
    let bytes = payload(ticket);
    let key = format!("key/{ticket}");
    let mut source = &bytes[..];
    let mut items = [Item {
        names: Names {
            tenant: "default",
            key: Key::new(key.as_bytes()).unwrap(),
            parent: None,
            group: None,
        },
        ticket: Ticket(ticket),
        len: LEN as u64,
        crc: Crc32::of(&bytes),
        hint: Hint::None,
        pinned: false,
        source: &mut source,
    }];
    block_on(tier.append(&mut items)).remove(0)
}

fn is_there(tier: &SsdTier, ticket: u64) -> bool {
    let found = block_on(tier.read(&Wanted::whole(Ticket(ticket), LEN as u64)));
    found.is_ok_and(|found| found.bytes() == payload(ticket))
}

/// Runs the test again in a child that has a filesystem of its own at `directory`.
fn again_on_tmpfs(test: &str, directory: &Path, size: &str) {
    let script = format!(
        "exec unshare -m sh -ec 'mount -t tmpfs -o size={size} tmpfs {}; exec \"$@\"' sh \"$@\"",
        directory.display()
    );
    let output = Command::new("sh")
        .args(["-ec", &script, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "the child ran nothing: {text}");
}

#[test]
fn a_full_filesystem_makes_the_tier_read_only_until_it_has_room() {
    const TEST: &str = "a_full_filesystem_makes_the_tier_read_only_until_it_has_room";
    if let Some(directory) = env::var_os(CHILD) {
        for engine in [Choice::Uring, Choice::Threads] {
            fills_and_resumes(directory.as_ref(), engine);
        }
        return;
    }
    let mounts = Command::new("unshare").args(["-m", "true"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        skip(
            "a_full_filesystem_makes_the_tier_read_only",
            "root",
            "only root, and outside of a chroot, can mount a small filesystem",
        );
        return;
    }
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    again_on_tmpfs(TEST, folder.path(), "24m");
}

fn fills_and_resumes(directory: &Path, engine: Choice) {
    let clock = ManualClock::default();
    let (tier, _) = open(directory, engine, &clock);
    let foreign = directory.join("foreign");
    fs::write(&foreign, vec![1; 12 << 20]).unwrap();
    // Other people's files take the room, long before the directory has its size.
    let mut taken = 0;
    let refused = loop {
        match append(&tier, taken + 1) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Code::NoAvailableHandle, "{refused}");
    assert!((3..40).contains(&taken), "{taken}");
    let stats = tier.stats();
    assert!(stats.full && stats.file_bytes < stats.capacity, "{stats:?}");
    // Nothing is tried before a second has passed; then one batch is.
    let errors = stats.write_errors;
    let paused = append(&tier, 101).unwrap_err();
    assert_eq!(paused.code(), Code::UnableOffloading);
    assert_eq!(tier.stats().write_errors, errors);
    let later = || clock.advance_to(clock.now().after(Duration::from_secs(1)));
    later();
    assert_eq!(
        append(&tier, 102).unwrap_err().code(),
        Code::NoAvailableHandle
    );
    assert!((1..=taken).all(|ticket| is_there(&tier, ticket)));
    let news = tier.take_news();
    let refused = news
        .iter()
        .filter(|one| matches!(one, News::Refused { .. }));
    assert_eq!(
        refused.count(),
        3,
        "each is told, and nothing is evicted: {news:?}"
    );
    // Room again: the next trial ends it.
    fs::remove_file(&foreign).unwrap();
    later();
    append(&tier, 103).unwrap();
    append(&tier, 104).unwrap();
    assert!(!tier.stats().full);
    drop(tier);
    let (tier, recovered) = open(directory, engine, &clock);
    assert_eq!(recovered.remarks, [""; 0], "no partial file is left");
    assert_eq!(recovered.records, taken + 2);
    assert!((1..=taken).chain([103, 104]).all(|t| is_there(&tier, t)));
    drop(tier);
    for entry in fs::read_dir(directory).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}
