//! What lives on when the master dies: objects in memory and on SSD come back, and what was removed stays away, whoever was
//! away at the time.

use super::cluster::{Cluster, NodeWish, Spans, eventually};
use std::{path::Path, time::Duration};
use tempfile::tempdir;
use ziggurat_base::Result;
use ziggurat_engine::command::Keep;
use ziggurat_store::{Force, Store};
use ziggurat_tests::field::payload;

const KEYS: u64 = 2000;

fn key(number: u64) -> String {
    format!("k{number}")
}

fn value(number: u64) -> Vec<u8> {
    let len = [100, 1000, 5000, 70_000][number as usize % 4] + number as usize;
    payload(len, number)
}

async fn put_all(store: &Store, count: u64) -> Result<()> {
    for number in 0..count {
        store.put(key(number), value(number)).await?;
    }
    Ok(())
}

/// Every key is as `is_there` says, and of right bytes.
async fn assert_there(store: &Store, count: u64, is_there: impl Fn(u64) -> bool) -> Result<()> {
    for number in 0..count {
        let found = store.get(key(number)).await?;
        assert_eq!(found.is_some(), is_there(number), "{number}");
        assert!(found.is_none_or(|found| found == value(number)), "{number}");
    }
    Ok(())
}

async fn objects(store: &Store, count: u64) {
    eventually("the objects are as many as expected", async || {
        store
            .stats()
            .await
            .is_ok_and(|stats| stats.objects == count)
    })
    .await;
}

#[tokio::test]
async fn memory_is_readable_again_after_the_death_of_its_master() -> Result<()> {
    let state = tempdir().expect("a directory");
    for state in [None, Some(state.path())] {
        let mut cluster = Cluster::keeping(Spans::PATIENT, state).await;
        for name in ["a", "b"] {
            cluster.add(&NodeWish::new(name, 64)).await;
        }
        let store = cluster.connect().await;
        put_all(&store, 500).await?;
        for number in (0..500).step_by(5) {
            store.remove(key(number), Force::Yes).await?;
        }
        // A second life, and a third: what came back comes back again.
        for _ in 0..2 {
            cluster.restart_master().await;
            let store = cluster.connect().await;
            objects(&store, 400).await;
            assert_there(&store, 500, |number| number % 5 != 0).await?;
            // Its space is not given to others, and the rest is.
            store.put("new", value(3)).await?;
            assert_eq!(store.get("new").await?, Some(value(3)));
            store.remove("new", Force::Yes).await?;
        }
        cluster.finish().await;
    }
    Ok(())
}

/// Puts objects until all of them are on SSD, and ends their node; the node's memory is gone with it.
async fn only_on_ssd(cluster: &mut Cluster, disk: &Path) -> Result<Store> {
    cluster.add(&NodeWish::new("n", 128).on(disk)).await;
    let store = cluster.connect().await;
    put_all(&store, KEYS).await?;
    eventually("the last object is on SSD", async || {
        store
            .stats()
            .await
            .is_ok_and(|stats| stats.owned_replicas == KEYS)
    })
    .await;
    cluster.kill("n");
    Ok(store)
}

/// When the objects are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    AtOnce,
    AfterTheTimeToLive,
    AfterTheRestart,
}

async fn exactly_the_others_are_read(when: When) -> Result<()> {
    let (state, disk) = (
        tempdir().expect("a directory"),
        tempdir().expect("a directory"),
    );
    let mut cluster = Cluster::keeping(Spans::default(), Some(state.path())).await;
    let mut store = only_on_ssd(&mut cluster, disk.path()).await?;
    match when {
        When::AtOnce => {}
        When::AfterTheTimeToLive => {
            eventually("the owner is taken for dead", async || {
                store.stats().await.is_ok_and(|stats| stats.objects == 0)
            })
            .await;
        }
        When::AfterTheRestart => {
            cluster.restart_master().await;
            store = cluster.connect().await;
        }
    }
    for number in 0..KEYS / 2 {
        // Not there is an answer too: the owner is away.
        let _removed = store.remove(key(number), Force::Yes).await;
    }
    cluster.restart_master().await;
    let node = NodeWish::new("n", 128).on(disk.path());
    cluster.add(&node).await;
    let store = cluster.connect().await;
    objects(&store, KEYS / 2).await;
    assert_there(&store, KEYS, |number| number >= KEYS / 2).await?;
    let segments = store.segments().await?;
    assert!(
        segments
            .iter()
            .any(|s| s.keep != Keep::Delegated && s.replicas == KEYS / 2)
    );
    cluster.master.assert_alive();
    Ok(())
}

#[tokio::test]
async fn what_was_removed_while_its_owner_was_down_stays_away() -> Result<()> {
    exactly_the_others_are_read(When::AtOnce).await
}

#[tokio::test]
async fn what_was_removed_after_its_owner_was_given_up_stays_away() -> Result<()> {
    exactly_the_others_are_read(When::AfterTheTimeToLive).await
}

#[tokio::test]
async fn what_was_removed_after_the_masters_restart_stays_away() -> Result<()> {
    exactly_the_others_are_read(When::AfterTheRestart).await
}

#[tokio::test]
async fn memory_that_was_away_for_too_long_is_given_up() -> Result<()> {
    let spans = Spans::default();
    let mut cluster = Cluster::of(spans, &["n"], 32).await;
    let store = cluster.connect().await;
    put_all(&store, 20).await?;
    cluster.master.kill();
    tokio::time::sleep(Duration::from_millis(spans.ttl_ms)).await;
    cluster.start_master().await;
    let store = cluster.connect().await;
    cluster.segments(&store, 1).await;
    store.put("new", value(1)).await?;
    assert_there(&store, 20, |_| false).await?;
    cluster.finish().await;
    Ok(())
}
