//! Group B: writers that die, freeze, or lose their node half-way.

use super::{
    cluster::{Cluster, NodeWish, PATIENCE, Spans, eventually, is_unavailable, put_on, within},
    party::Party,
    proxy::{Proxy, Way},
};
use std::time::Duration;
use ziggurat_base::{Code, Result};
use ziggurat_store::{Force, PutOutcome, Store};
use ziggurat_tests::field::payload;

const MIB: usize = 1 << 20;

/// The code of a refusal.
fn code<T: std::fmt::Debug>(answer: Result<T>) -> Code {
    answer.expect_err("it is refused").code()
}

/// Starts a writer of 4 MiB whose transfer stands still after the first MiB, and kills it there.
async fn die_in_mid_transfer(cluster: &Cluster, proxy: &Proxy, key: &str) {
    let gate = proxy.bar_next(Way::Up, MIB as u64);
    let mut writer = cluster.writer(key, 4 * MIB, 1).await;
    gate.reached().await;
    writer.kill();
    // What it had sent comes late.
    gate.open();
}

#[tokio::test]
async fn a_writer_that_is_killed_in_mid_transfer_blocks_its_key_for_a_bounded_time() -> Result<()> {
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::start(Spans {
        // Its death must not be noticed first.
        ttl_ms: 20_000,
        discard_ms: 3000,
        release_ms: 4500,
        ..Spans::default()
    })
    .await;
    cluster.add(&NodeWish::new("n", 64).behind(&proxy)).await;
    let store = cluster.connect().await;
    for (key, dead) in [("taken-over", 1), ("left-alone", 2)] {
        die_in_mid_transfer(&cluster, &proxy, key).await;
        assert_eq!(
            code(store.put(key, b"new").await),
            Code::ObjectAlreadyExists
        );
        assert_eq!(code(store.get(key).await), Code::ReplicaIsNotReady);
        assert_eq!(
            code(store.remove(key, Force::No).await),
            Code::ReplicaIsNotReady
        );
        assert!(!store.exist(key).await?);
        assert_eq!(store.stats().await?.writes_open, dead);
    }

    let new = payload(4 * MIB, 2);
    eventually("another writer takes the key over", async || {
        match store.put("taken-over", &new).await {
            Ok(stored) => stored == PutOutcome::Stored { replicas: 1 },
            Err(error) => {
                assert_eq!(error.code(), Code::ObjectAlreadyExists, "{error}");
                false
            }
        }
    })
    .await;
    eventually("the space of both dead writes returns", async || {
        let stats = store.stats().await.expect("the master answers");
        stats.writes_open + stats.writes_closing == 0 && stats.used < 5 * MIB as u64
    })
    .await;
    assert!(store.get("taken-over").await?.as_deref() == Some(&new[..]));
    assert_eq!(
        store.get("left-alone").await?,
        None,
        "a clean miss in the end"
    );
    assert_eq!(
        code(store.remove("left-alone", Force::No).await),
        Code::ObjectNotFound
    );
    store.put("left-alone", &new).await?;
    store.remove("taken-over", Force::Yes).await?;
    cluster.finish().await;
    Ok(())
}

/// Checks that every object of the filling is whole; returns how many there are.
async fn scan(store: &Store, count: u64) -> u64 {
    let mut there = 0;
    for number in 0..count {
        if let Some(got) = store.get(format!("fill{number}")).await.expect("readable") {
            assert!(
                got == payload(MIB, 100 + number),
                "fill{number} has changed"
            );
            there += 1;
        }
    }
    there
}

#[tokio::test]
async fn a_writer_that_wakes_after_its_range_was_given_away_damages_nobody() -> Result<()> {
    const ZOMBIE_MIB: u64 = 12;
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::start(Spans::default()).await;
    cluster.add(&NodeWish::new("n", 20).behind(&proxy)).await;
    let gate = proxy.bar_next(Way::Up, 3 * MIB as u64);
    let mut writer = cluster.writer("zombie", ZOMBIE_MIB as usize * MIB, 9).await;
    gate.reached().await;
    writer.stop();

    // Of 20 MiB the zombie has 12: fourteen objects of 1 MiB have room only once its range is given away.
    let store = cluster.connect().await;
    eventually("the zombie's space returns", async || {
        let stats = store.stats().await.expect("the master answers");
        stats.used == 0 && stats.writes_open + stats.writes_closing == 0
    })
    .await;
    for number in 0..14 {
        store
            .put(format!("fill{number}"), payload(MIB, 100 + number))
            .await?;
    }
    assert_eq!(scan(&store, 14).await, 14, "the range is in use again");

    let before = proxy.passed();
    writer.go_on();
    gate.open();
    let told = writer.last_line().await;
    assert!(
        told["error"].is_string(),
        "a late write has not been done: {told}"
    );
    assert!(!writer.end().await.success());
    assert!(
        proxy.passed() > before,
        "bytes that had been under way have come"
    );
    for _ in 0..3 {
        assert_eq!(scan(&store, 14).await, 14);
    }
    assert_eq!(store.get("zombie").await?, None);
    cluster.finish().await;
    Ok(())
}

/// A put of 8 MiB to node `a` that stands still after the first MiB.
async fn put_until_the_gate(
    store: &Store,
    proxy: &Proxy,
    key: &'static str,
) -> tokio::task::JoinHandle<Result<()>> {
    let gate = proxy.bar_next(Way::Up, MIB as u64);
    let writing = {
        let store = store.clone();
        tokio::spawn(async move { put_on(&store, "a", key, &payload(8 * MIB, 1)).await })
    };
    gate.reached().await;
    writing
}

/// Nothing of a failed put is there.
async fn assert_nothing_is_left(store: &Store, key: &str) {
    assert!(!store.exist(key).await.expect("the master answers"));
    assert_eq!(store.get(key).await, Ok(None));
    eventually("the space of the failed put returns", async || {
        let stats = store.stats().await.expect("the master answers");
        stats.used == 0 && stats.writes_open + stats.writes_closing == 0
    })
    .await;
}

#[tokio::test]
async fn a_put_whose_node_is_killed_half_way_leaves_nothing_behind() -> Result<()> {
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::start(Spans::default()).await;
    cluster.add(&NodeWish::new("a", 32).behind(&proxy)).await;
    cluster.add(&NodeWish::new("b", 32)).await;
    let store = cluster.connect().await;
    let writing = put_until_the_gate(&store, &proxy, "k").await;
    cluster.kill("a");
    proxy.cut();
    let failed = within(Duration::from_secs(6), "the failing put", writing).await;
    let failed = failed.expect("no panic").expect_err("half is not enough");
    assert!(is_unavailable(&failed), "{failed}");
    assert_nothing_is_left(&store, "k").await;

    // Once the dead node is out, a put that prefers it goes elsewhere.
    cluster.segments(&store, 1).await;
    put_on(&store, "a", "k", &payload(8 * MIB, 2)).await?;
    assert!(store.get("k").await? == Some(payload(8 * MIB, 2)));
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn a_put_whose_connection_is_cut_leaves_nothing_behind() -> Result<()> {
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::start(Spans::default()).await;
    cluster.add(&NodeWish::new("a", 32).behind(&proxy)).await;
    let store = cluster.connect().await;
    let writing = put_until_the_gate(&store, &proxy, "k").await;
    proxy.cut();
    let failed = within(Duration::from_secs(6), "the failing put", writing).await;
    let failed = failed.expect("no panic").expect_err("half is not enough");
    assert!(is_unavailable(&failed), "{failed}");
    proxy.mend();
    assert_nothing_is_left(&store, "k").await;
    within(
        PATIENCE,
        "the next put",
        store.put("k", payload(8 * MIB, 2)),
    )
    .await?;
    assert!(store.get("k").await? == Some(payload(8 * MIB, 2)));
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn a_process_that_ends_without_a_goodbye_is_forgotten() -> Result<()> {
    let cluster = Cluster::of(Spans::default(), &["n"], 16).await;
    let store = cluster.connect().await;
    let mut writers: Vec<Party> = Vec::new();
    for salt in 0..4 {
        writers.push(cluster.writer(&format!("k{salt}"), 1000, salt).await);
    }
    for writer in &mut writers {
        assert!(writer.last_line().await["stored"].is_string());
        assert!(writer.end().await.success());
    }
    for salt in 0..4 {
        assert_eq!(
            store.get(format!("k{salt}")).await?,
            Some(payload(1000, salt))
        );
    }
    eventually("members that fell silent are forgotten", async || {
        store.stats().await.expect("the master answers").members == 2
    })
    .await;
    cluster.finish().await;
    Ok(())
}
