//! Shard files on real filesystems: through both engines at once, read by who may only read, and on one that is too small.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use pollster::block_on;
use std::{env, fs, path::Path, process::Command, sync::Arc};
use ziggurat_base::{Code, Crc32, Extent, Key, Result, Ticket};
use ziggurat_dfs::{
    Ack, Layout, Name, Place, Root, ShardRead, ShardWrite,
    offline::{Directory, Logs},
};
use ziggurat_engine::{command::Tags, shard_record::record_len, testkit::skip::skip};
use ziggurat_io::{Choice, Options, Pool};

/// Set in a child: the directory to use.
const CHILD: &str = "ZIGGURAT_DFS_CHILD";

const LEN: usize = 600_000;

fn layout(shard_bytes: u64) -> Layout {
    Layout {
        cluster: "test".into(),
        shard_bytes,
        alignment: 4096,
        shards: 2,
    }
}

fn disk(path: &Path, engine: Choice) -> Arc<dyn ziggurat_io::Disk> {
    let options = Options {
        engine,
        ..Options::default()
    };
    ziggurat_io::open(path, &Pool::new(8 << 20).unwrap(), &options)
        .unwrap()
        .0
}

fn payload(ticket: u64) -> Vec<u8> {
    (0..LEN)
        .map(|at| (at as u64 * 31 + ticket * 7) as u8)
        .collect()
}

fn key(text: &str) -> Key<'_> {
    Key::new(text.as_bytes()).unwrap()
}

fn place(ticket: u64) -> Place {
    let name = format!("key/{ticket}");
    let len = record_len("default", key(&name), &Tags::default(), LEN as u64, 4096);
    Place {
        shard: (ticket % 2) as u32,
        extent: Extent::new(ticket / 2 * (640 << 10), len),
    }
}

fn name(text: &str, ticket: u64) -> Name<'_> {
    Name {
        tenant: "default",
        key: key(text),
        ticket: Ticket(ticket),
    }
}

fn write(root: &Root, ticket: u64, ack: Ack) -> Result<Crc32> {
    let (text, bytes) = (format!("key/{ticket}"), payload(ticket));
    let write = ShardWrite {
        name: name(&text, ticket),
        tags: Tags::default(),
        place: place(ticket),
        parts: &[&bytes],
        ack,
    };
    block_on(root.write(&write))
}

/// Whether an object is there; what is has the right bytes.
fn is_there(root: &Root, ticket: u64) -> bool {
    let text = format!("key/{ticket}");
    let read = ShardRead {
        name: name(&text, ticket),
        place: place(ticket),
        object_len: LEN as u64,
        offset: 0,
        want_table: false,
    };
    let mut into = vec![0; LEN];
    match block_on(root.read(&read, &mut into)) {
        Ok(_) => {
            assert!(into == payload(ticket), "object {ticket}");
            true
        }
        Err(error) => {
            let is_miss = [Code::ReplicaIsGone, Code::ChecksumMismatch];
            assert!(is_miss.contains(&error.code()), "{error}");
            false
        }
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn two_clients_with_different_engines_read_each_other() {
    let folder = folder();
    let path = folder.path();
    let layout = layout(16 << 20);
    let made = Root::format(disk(path, Choice::Threads), &layout, 7);
    let one = block_on(made).unwrap();
    let other = block_on(Root::open(disk(path, Choice::Auto), Some("test"), 8)).unwrap();
    for ticket in 1..=20 {
        let (root, ack) = match ticket % 3 {
            0 => (&one, Ack::Written),
            _ => (&other, Ack::Synced),
        };
        assert_eq!(
            write(root, ticket, ack).unwrap(),
            Crc32::of(&payload(ticket))
        );
    }
    let reader = ziggurat_io::open_to_read(path, &Pool::new(8 << 20).unwrap()).unwrap();
    let reader = block_on(Root::open(reader, None, 9)).unwrap();
    for root in [&one, &other, &reader] {
        assert!((1..=20).all(|ticket| is_there(root, ticket)));
    }
    let gone = (Ticket(4), place(4).extent);
    block_on(other.discard(0, &[gone])).unwrap();
    assert!(
        [&one, &other, &reader]
            .iter()
            .all(|root| !is_there(root, 4))
    );
    let error = block_on(reader.discard(0, &[gone])).unwrap_err();
    assert!(
        matches!(error.code(), Code::NotSupported | Code::FileWriteFail),
        "{error}"
    );
    let directory = Directory::to_read(path).unwrap();
    let found = directory.verify(&mut |_, _| {}).unwrap();
    assert_eq!(
        (
            found.objects,
            found.corrupt,
            found.overlaps,
            found.faults.len()
        ),
        (19, 0, 0, 0)
    );
    let found = directory.recover(Logs::Keep, &mut |_, _| {}).unwrap();
    assert_eq!((found.objects, found.stale, found.unproven), (19, 0, 0));
}

#[test]
fn what_is_open_stays_readable_when_its_name_is_lost() {
    let folder = folder();
    let (path, layout) = (folder.path(), layout(16 << 20));
    let root = block_on(Root::format(disk(path, Choice::Threads), &layout, 7)).unwrap();
    write(&root, 2, Ack::Synced).unwrap();
    fs::remove_file(path.join("shard-0000.zig")).unwrap();
    assert!(is_there(&root, 2));
    let error = block_on(Root::open(disk(path, Choice::Threads), None, 8)).unwrap_err();
    assert_eq!(error.code(), Code::FileNotFound, "{error}");
    fs::remove_file(path.join("root.zig")).unwrap();
    let error = block_on(root.check_mount()).unwrap_err();
    assert_eq!(error.code(), Code::DfsServiceUnavailable, "{error}");
}

#[test]
fn a_filesystem_that_is_too_small_is_told_and_gone_on_with_when_it_has_room() {
    const TEST: &str = "a_filesystem_that_is_too_small_is_told_and_gone_on_with_when_it_has_room";
    if let Some(path) = env::var_os(CHILD) {
        fills_and_resumes(Path::new(&path));
        return;
    }
    let mounts = Command::new("unshare").args(["-m", "true"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        skip(
            "a_filesystem_that_is_too_small_is_told",
            "mounts",
            "only root, and outside of a chroot, can mount a small filesystem",
        );
        return;
    }
    let folder = folder();
    let script = "mount -t tmpfs -o size=32m tmpfs $0; shift; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-ec", script])
        .arg(folder.path())
        .arg("--")
        .arg(env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "the child ran nothing: {text}");
}

fn fills_and_resumes(path: &Path) {
    let layout = layout(24 << 20);
    let error = Directory::to_change(path)
        .unwrap()
        .format(&layout)
        .unwrap_err();
    assert_eq!(error.code(), Code::NoAvailableHandle, "{error}");
    assert!(error.what().contains("shard-0001.zig of 2"), "{error}");
    let error = Directory::to_change(path).unwrap().root(None).unwrap_err();
    assert_eq!(error.code(), Code::DfsServiceUnavailable, "{error}");
    // A process that was killed in the middle of allocation leaves a part of the file.
    fs::write(path.join("shard-0001.zig"), vec![0; 1 << 20]).unwrap();
    let larger = Command::new("mount")
        .args(["-o", "remount,size=80m"])
        .arg(path)
        .status();
    assert!(larger.unwrap().success());
    let root = Directory::to_change(path).unwrap().format(&layout).unwrap();
    assert_eq!(root.shards().len(), 2);
    for ticket in 1..=10 {
        write(&root, ticket, Ack::Synced).unwrap();
    }
    assert!((1..=10).all(|ticket| is_there(&root, ticket)));
    // Nothing that was allocated is taken away by what others write.
    let others = fs::write(path.join("others"), vec![1; 60 << 20]);
    assert!(others.is_err(), "there is no room for that");
    for ticket in 11..=20 {
        write(&root, ticket, Ack::Synced).unwrap();
    }
    let error = block_on(root.grow(3)).unwrap_err();
    assert_eq!(error.code(), Code::NoAvailableHandle, "{error}");
    fs::remove_file(path.join("others")).unwrap();
    assert_eq!(block_on(root.grow(3)).unwrap().after, 3);
    assert!((1..=20).all(|ticket| is_there(&root, ticket)));
}
