//! A store with an SSD directory: nothing that was put is lost for want of memory, a restart is warm, and what was removed
//! stays away.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, path::Path, time::Duration};
use ziggurat_base::{ByteCount, Code, Result};
use ziggurat_engine::command::Keep;
use ziggurat_store::{
    Blocking, Codec, Force, MemoryOptions, OpenOptions, Packing, Prefetched, Priority, SsdOptions,
    SsdPath, Store,
};

fn open(dir: &Path, dram: ByteCount, ssd: ByteCount) -> Result<Blocking> {
    open_with(dir, dram, ssd, Packing::default())
}

fn open_with(dir: &Path, dram: ByteCount, ssd: ByteCount, packing: Packing) -> Result<Blocking> {
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
            packing,
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

/// Waits until it is so; what never comes fails the test.
fn until(store: &Blocking, what: &str, ready: impl Fn() -> bool) {
    let clock = &store.store().ports().clock;
    let end = clock.now().after(Duration::from_secs(30));
    while !ready() {
        assert!(clock.now() < end, "{what} did not come");
        let soon = clock.now().after(Duration::from_millis(2));
        store.wait(clock.sleep_until(soon));
    }
}

fn large() -> Vec<u8> {
    (0..(9 << 20) + 17)
        .map(|i: usize| (i * 7 + i / 253) as u8)
        .collect()
}

/// Objects that lie only on SSD: an earlier store has put them.
fn only_on_ssd(dir: &Path, codec: Codec) -> Blocking {
    let packing = Packing {
        codec,
        ..Packing::default()
    };
    let open = || {
        let opened = open_with(dir, ByteCount::mib(64), ByteCount::mib(512), packing);
        opened.expect("the directory can be used")
    };
    let store = open();
    for number in 0..20 {
        let stored = store.put(key(number), payload(number));
        stored.expect("there is room");
    }
    store.put("large", large()).expect("there is room");
    store.close();
    drop(store);
    open()
}

fn is_in_memory(store: &Blocking, key: &str) -> bool {
    let stat = store.stat(key).expect("in process");
    let stat = stat.expect("it is there");
    let segments = store.segments().expect("in process");
    let best = stat.replicas.as_slice()[0].placement.segment;
    let segment = segments.iter().find(|segment| segment.id == best);
    segment.is_some_and(|segment| segment.keep == Keep::Delegated)
}

#[test]
fn what_is_read_again_comes_back_into_memory() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let store = only_on_ssd(dir.path(), Codec::Plain);
    assert_eq!(store.get("large").unwrap(), Some(large()));
    assert_eq!(store.stats().unwrap().promoting, 0, "once is not often");
    assert_eq!(store.get("large").unwrap(), Some(large()));
    until(&store, "the large object in memory", || {
        is_in_memory(&store, "large")
    });
    let stats = store.stats().unwrap();
    assert_eq!(
        (stats.promoted, stats.promotions_failed),
        (1, 0),
        "{stats:?}"
    );
    let reads = store.store().ssd().unwrap().total;
    assert_eq!(store.get("large").unwrap(), Some(large()));
    let part = store.get_range("large", 5 << 20, 100_000).unwrap().unwrap();
    assert_eq!(part, large()[5 << 20..][..100_000]);
    let after = store.store().ssd().unwrap().total;
    assert_eq!(after.reads, reads.reads, "from memory");
    store.remove("large", Force::Yes).unwrap();
    assert_eq!(store.get("large").unwrap(), None);
    store.put("large", b"another").unwrap();
    assert_eq!(
        store.get("large").unwrap().as_deref(),
        Some(&b"another"[..])
    );
    store.close();
    assert_eq!(
        store.store().ssd().unwrap().total.written,
        1,
        "a copy is not written again"
    );
}

#[test]
fn what_is_wished_for_comes_before_it_is_read() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let store = only_on_ssd(dir.path(), Codec::Plain);
    let keys: Vec<_> = (0..20).map(key).collect();
    let mut keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    keys.push(b"absent");
    let answers = store.prefetch_many(&keys, Priority::High);
    let (absent, others) = answers.split_last().unwrap();
    assert_eq!(*absent, Ok(None));
    for answer in others {
        assert!(
            matches!(
                answer,
                Ok(Some(Prefetched::InMemory | Prefetched::UnderWay))
            ),
            "{answer:?}"
        );
    }
    for number in 0..20 {
        until(&store, "an object in memory", || {
            is_in_memory(&store, &key(number))
        });
    }
    let again = store.prefetch_many(&keys, Priority::Low);
    assert_eq!(again[..20], vec![Ok(Some(Prefetched::InMemory)); 20]);
    for number in 0..20 {
        assert_eq!(store.get(key(number)).unwrap(), Some(payload(number)));
    }
    assert_eq!(
        store.store().ssd().unwrap().total.reads,
        0,
        "nobody read from there"
    );
    for _ in 0..50 {
        let begun = store.prefetch_many(&[b"large"], Priority::Normal).remove(0);
        assert_eq!(begun, Ok(Some(Prefetched::UnderWay)));
        let stopped = store.cancel_prefetch(&[b"large"]).remove(0).unwrap();
        if stopped == Some(Prefetched::InMemory) {
            break;
        }
    }
    assert_eq!(store.get("large").unwrap(), Some(large()));
    until(&store, "the end of what was cancelled", || {
        let stats = store.stats().unwrap();
        (stats.promoting, stats.writes_closing) == (0, 0)
    });
}

#[test]
fn what_lies_packed_on_ssd_comes_back_as_it_was_put() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let store = only_on_ssd(dir.path(), Codec::Zstd);
    let keys = [&b"large"[..], b"object/4"];
    let answers = store.prefetch_many(&keys, Priority::Normal);
    assert_eq!(answers, vec![Ok(Some(Prefetched::UnderWay)); 2]);
    for key in ["large", "object/4"] {
        until(&store, "an object in memory", || is_in_memory(&store, key));
    }
    assert_eq!(store.get("large").unwrap(), Some(large()));
    assert_eq!(store.get("object/4").unwrap(), Some(payload(4)));
    let ssd = store.store().ssd().unwrap().total;
    assert_eq!(ssd.reads, 0, "from memory");
    let plain: usize = (0..20).map(|n| payload(n).len()).sum::<usize>() + large().len();
    assert!(ssd.live_bytes < plain as u64 / 2, "it was packed: {ssd:?}");
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
