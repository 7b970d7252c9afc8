//! A store with an SSD directory: nothing that was put is lost for want of memory, a restart is warm, and what was removed
//! stays away.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, path::Path};
use ziggurat_base::{ByteCount, Code, Result};
use ziggurat_store::{Blocking, Force, MemoryOptions, OpenOptions, SsdOptions, SsdPath, Store};

fn open(dir: &Path, dram: ByteCount, ssd: ByteCount) -> Result<Blocking> {
    let options = OpenOptions {
        memory: MemoryOptions {
            dram,
            ..MemoryOptions::default()
        },
        ssd: SsdOptions {
            directories: vec![SsdPath {
                path: dir.into(),
                size: Some(ssd),
            }],
            file_bytes: ByteCount::mib(8),
            staging: ByteCount::mib(32),
            ..SsdOptions::default()
        },
        ..OpenOptions::default()
    };
    Ok(Store::open(options)?.blocking())
}

fn payload(number: usize) -> Vec<u8> {
    let len = [0, 1, 5000, 70_000, 300_000][number % 5] + number;
    (0..len)
        .map(|i| (i * 31 + number * 7 + i / 255) as u8)
        .collect()
}

fn key(number: usize) -> String {
    format!("object/{number}")
}

#[test]
fn four_times_the_memory_is_kept_and_read_back() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let store = open(dir.path(), ByteCount::mib(16), ByteCount::mib(512)).unwrap();
    let count = 64 * 16 * 4 / 75 * 5;
    for number in 0..count {
        store.put(key(number), payload(number)).unwrap();
    }
    for number in 0..count {
        assert_eq!(
            store.get(key(number)).unwrap(),
            Some(payload(number)),
            "{number}"
        );
    }
    let part = store.get_range(key(4), 70_000, 100_000).unwrap().unwrap();
    assert_eq!(part, payload(4)[70_000..170_000]);
    let ssd = store.store().ssd().expect("there is a directory");
    assert!(ssd.total.reads > 0, "{ssd:?}");
    let stats = store.stats().unwrap();
    assert_eq!(stats.objects, count as u64);
    assert_eq!(stats.unkept, 0, "nothing was lost: {stats:?}");
}

#[test]
fn a_restart_is_warm_and_brings_nothing_back() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let store = open(dir.path(), ByteCount::mib(64), ByteCount::mib(512)).unwrap();
    for number in 0..100 {
        store.put(key(number), payload(number)).unwrap();
    }
    store.close();
    let mut removed = BTreeSet::new();
    for number in (0..100).step_by(3) {
        store.remove(key(number), Force::Yes).unwrap();
        removed.insert(number);
    }
    store.put("object/3", b"another value").unwrap();
    store.close();
    drop(store);
    for _ in 0..2 {
        let store = open(dir.path(), ByteCount::mib(64), ByteCount::mib(512)).unwrap();
        assert!(store.store().ssd().unwrap().recovered > 100 - 34);
        for number in 0..100 {
            let expected = match number {
                3 => Some(b"another value".to_vec()),
                _ => (!removed.contains(&number)).then(|| payload(number)),
            };
            assert_eq!(store.get(key(number)).unwrap(), expected, "{number}");
        }
    }
}

#[test]
fn a_directory_that_is_taken_or_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let _first = open(dir.path(), ByteCount::mib(16), ByteCount::mib(64)).unwrap();
    let wrong = |path: &Path, size| {
        let error = open(path, ByteCount::mib(16), size).err().unwrap();
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
        error.code()
    };
    assert_eq!(wrong(dir.path(), ByteCount::mib(64)), Code::FileLockFail);
    assert_eq!(
        wrong(&dir.path().join("absent"), ByteCount::mib(64)),
        Code::FileNotFound
    );
    let other = tempfile::tempdir().expect("a scratch directory");
    assert_eq!(wrong(other.path(), ByteCount(1 << 60)), Code::InvalidParams);
    assert_eq!(wrong(other.path(), ByteCount::mib(1)), Code::InvalidParams);
}
