//! Nodes with a directory on SSD that die, come back, and are read meanwhile.

use super::cluster::{Cluster, NodeWish, PATIENCE, Spans, eventually};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::{TempDir, tempdir};
use tokio::task::JoinSet;
use ziggurat_base::{Code, Error, Result};
use ziggurat_store::{PutOptions, PutRequest, Store};
use ziggurat_tests::field::payload;

const MIB: usize = 1 << 20;

/// A directory that lasts as long as the test.
pub(super) fn disk() -> TempDir {
    tempdir().expect("a directory")
}

pub(super) fn key(number: usize) -> String {
    format!("k{number}")
}

/// Waits until owners have told that they hold so many replicas on SSD.
pub(super) async fn on_ssd(store: &Store, replicas: u64) {
    eventually("what was put is on SSD", async || {
        let stats = store.stats().await;
        stats.is_ok_and(|stats| stats.owned_replicas == replicas)
    })
    .await;
}

/// Puts numbered objects of `len` bytes.
pub(super) async fn put_all(store: &Store, count: usize, len: usize) -> Result<()> {
    for number in 0..count {
        store.put(key(number), payload(len, number as u64)).await?;
    }
    Ok(())
}

/// Ends a node with `kill -9` and starts it anew at the same address: its memory is gone, and what it held is on SSD alone.
/// The master knows the new process when this returns, though not yet all that is on its disk.
pub(super) async fn reborn(cluster: &mut Cluster, wish: &NodeWish<'_>) {
    reborn_after(cluster, wish, Duration::ZERO).await;
}

/// The same, away for a while.
async fn reborn_after(cluster: &mut Cluster, wish: &NodeWish<'_>, away: Duration) {
    let store = cluster.connect().await;
    let owner = async || {
        let segments = store.segments().await.ok()?;
        let memory = segments.iter().find(|segment| &*segment.name == wish.name);
        memory.map(|segment| segment.member)
    };
    let before = owner().await;
    let address = cluster.kill(wish.name);
    // The fault itself: away for this long.
    tokio::time::sleep(away).await;
    cluster
        .add(&NodeWish {
            listen: Some(address),
            ..wish.clone()
        })
        .await;
    eventually("the master knows the new process", async || {
        let now = owner().await;
        now.is_some() && now != before
    })
    .await;
}

/// How many of the numbered objects are there. All that are have the right bytes; none is an error.
pub(super) async fn count_right(store: &Store, count: usize, len: usize) -> Result<usize> {
    let mut found = 0;
    for number in 0..count {
        let Some(value) = store.get(key(number)).await? else {
            continue;
        };
        assert!(value == payload(len, number as u64), "object {number}");
        found += 1;
    }
    Ok(found)
}

/// Scenario 35: what lies on the SSD of one node is read by others, in every way.
#[tokio::test]
async fn what_is_on_ssd_alone_is_read_in_every_way() -> Result<()> {
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let owner = NodeWish::new("a", 32).on(disk.path());
    cluster.add(&owner).await;
    let store = cluster.connect().await;
    for number in 0..64 {
        let value = payload(MIB, number as u64);
        store.put(key(number), value).await?;
    }
    on_ssd(&store, 64).await;
    reborn(&mut cluster, &owner).await;
    // Another one, through which nothing of it goes.
    cluster.add(&NodeWish::new("b", 32)).await;
    on_ssd(&store, 64).await;
    eventually("nothing of it is in memory", async || {
        store.stats().await.is_ok_and(|stats| stats.used == 0)
    })
    .await;

    assert_eq!(count_right(&store, 64, MIB).await?, 64);
    let mut buffer = vec![0; MIB];
    for number in 0..64 {
        let right = payload(MIB, number as u64);
        assert_eq!(
            store.get_into(key(number), &mut buffer).await?,
            Some(MIB as u64)
        );
        assert!(buffer == right, "object {number}");
        let part = store.get_range(key(number), 70_001, 200_000).await?;
        assert!(
            part.as_deref() == Some(&right[70_001..270_001]),
            "object {number}"
        );
    }
    let keys: Vec<_> = (0..64).map(key).collect();
    let keys: Vec<_> = keys.iter().map(String::as_bytes).collect();
    for (number, value) in store.get_many(&keys).await.into_iter().enumerate() {
        assert!(
            value? == Some(payload(MIB, number as u64)),
            "object {number}"
        );
    }
    cluster.finish().await;
    Ok(())
}

/// Scenario 48: whenever the owner comes back, before it is given up or after, all is readable soon, and stays so.
#[tokio::test]
async fn a_node_that_comes_back_brings_all_of_its_ssd() -> Result<()> {
    const COUNT: usize = 500;
    const LEN: usize = 3000;
    let (disk, state) = (disk(), disk());
    let spans = Spans::default();
    let mut cluster = Cluster::keeping(spans, Some(state.path())).await;
    let wish = NodeWish::new("n", 32).on(disk.path());
    cluster.add(&wish).await;
    let store = cluster.connect().await;
    put_all(&store, COUNT, LEN).await?;
    on_ssd(&store, COUNT as u64).await;
    let used = store.stats().await?.owned_used;
    let ttl = spans.ttl_ms;
    for delay in [0, ttl / 2, ttl - 100, ttl + 100] {
        let began = Instant::now();
        reborn_after(&mut cluster, &wish, Duration::from_millis(delay)).await;
        eventually("all is there again", async || {
            let stats = store.stats().await;
            stats.is_ok_and(|stats| stats.owned_replicas == COUNT as u64)
        })
        .await;
        println!("away for {delay} ms, there after {:?}", began.elapsed());
        assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT, "{delay} ms");
        assert_eq!(store.stats().await?.owned_used, used, "charged once");
    }
    tokio::time::sleep(Duration::from_millis(ttl + 2000)).await;
    assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT);
    let stats = store.stats().await?;
    assert_eq!(
        (stats.owned_replicas, stats.owned_used),
        (COUNT as u64, used)
    );
    cluster.finish().await;
    Ok(())
}

/// Scenario 50: a master that is started anew is told everything by nodes that have not noticed more than that.
#[tokio::test]
async fn masters_come_and_go_over_nodes_that_stay() -> Result<()> {
    const COUNT: usize = 500;
    const LEN: usize = 3000;
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish::new("n", 32).on(disk.path());
    cluster.add(&wish).await;
    let store = cluster.connect().await;
    put_all(&store, COUNT, LEN).await?;
    on_ssd(&store, COUNT as u64).await;
    reborn(&mut cluster, &wish).await;
    for life in 0..5 {
        cluster.restart_master().await;
        let store = cluster.connect().await;
        on_ssd(&store, (COUNT + life) as u64).await;
        assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT, "life {life}");
        store.put(format!("new{life}"), payload(LEN, 0)).await?;
        on_ssd(&store, (COUNT + life + 1) as u64).await;
    }
    cluster.finish().await;
    Ok(())
}

async fn put_patiently(store: &Store, key: &str, value: &[u8]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match store.put(key, value).await {
            Ok(_) => return Ok(()),
            Err(error) if is_passing(&error) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What is to be tried again: memory is full of what is on its way to SSD.
fn is_passing(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::NoAvailableHandle | Code::Backpressure | Code::RpcTimeout
    )
}

/// Scenario 51: what was put is readable from then on, whatever goes on with it between memory and SSD.
#[tokio::test]
async fn reads_find_what_was_put_while_all_of_it_goes_to_ssd() -> Result<()> {
    const WRITERS: usize = 8;
    const EACH: usize = 40;
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish {
        ssd_mib: 1024,
        ..NodeWish::new("n", 64).on(disk.path())
    };
    cluster.add(&wish).await;
    let store = Arc::new(cluster.connect().await);
    let finished: Arc<[AtomicUsize; WRITERS]> = Arc::default();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, finished) = (Arc::clone(&store), Arc::clone(&finished));
        writers.spawn(async move {
            for turn in 0..EACH {
                let number = turn * WRITERS + writer;
                let value = payload(MIB, number as u64);
                put_patiently(&store, &key(number), &value).await?;
                finished[writer].store(turn + 1, Ordering::Release);
                // What the neighbour has just finished.
                let neighbour = (writer + 1) % WRITERS;
                if let Some(last) = finished[neighbour].load(Ordering::Acquire).checked_sub(1) {
                    let other = last * WRITERS + neighbour;
                    let found = store.get(key(other)).await?;
                    assert!(found == Some(payload(MIB, other as u64)), "object {other}");
                }
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("no panic")?;
    }
    assert_eq!(
        count_right(&store, WRITERS * EACH, MIB).await?,
        WRITERS * EACH
    );
    assert_eq!(store.stats().await?.unkept, 0);
    cluster.finish().await;
    Ok(())
}

/// Scenario 54: files are bounded by bytes, whatever the number of objects, and a start does not read them all.
#[tokio::test]
async fn many_small_objects_are_few_files() -> Result<()> {
    const COUNT: usize = 100_000;
    const BATCH: usize = 500;
    const LEN: usize = 1000;
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish {
        ssd_mib: 512,
        ..NodeWish::new("n", 256).on(disk.path())
    };
    cluster.add(&wish).await;
    let store = cluster.connect().await;
    for batch in 0..COUNT / BATCH {
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        let keys: Vec<_> = numbers.clone().map(key).collect();
        let values: Vec<_> = numbers.map(|number| payload(LEN, number as u64)).collect();
        let parts: Vec<_> = values.iter().map(|value| [value.as_slice()]).collect();
        let requests: Vec<_> = keys
            .iter()
            .zip(&parts)
            .map(|(key, parts)| PutRequest::new(key.as_bytes(), parts))
            .collect();
        for answer in store.put_many(&requests, &PutOptions::default()).await {
            answer?;
        }
    }
    on_ssd(&store, COUNT as u64).await;
    // 100,000 objects of up to a page each in files of 8 MiB, the tombstones, the identity and the lock.
    let files = fs::read_dir(disk.path()).expect("listed").count();
    assert!(files < COUNT * 4096 / (8 << 20) + 16, "{files} files");
    let open = cluster.node("n").descriptors();
    assert!(open < 256, "{open} descriptors");
    let began = Instant::now();
    reborn(&mut cluster, &wish).await;
    on_ssd(&store, COUNT as u64).await;
    println!(
        "{COUNT} objects were there again after {:?}",
        began.elapsed()
    );
    for number in (0..COUNT).step_by(997) {
        let found = store.get(key(number)).await?;
        assert!(
            found == Some(payload(LEN, number as u64)),
            "object {number}"
        );
    }
    cluster.finish().await;
    Ok(())
}

/// The names of the log files of a directory, oldest first.
pub(super) fn logs(disk: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(disk).expect("listed");
    let mut logs: Vec<_> = entries
        .map(|entry| entry.expect("listed").path())
        .filter(|path| {
            path.extension().is_some_and(|end| end == "log") && !path.ends_with("tombs.log")
        })
        .collect();
    logs.sort();
    logs
}
