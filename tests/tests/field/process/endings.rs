//! Groups F and I: clients that close twice, in the middle of things, or not at all; and what is left when all have gone.

use super::{
    cluster::{Cluster, NodeWish, Spans, eventually, is_unavailable, put_on, within},
    party::Party,
    proxy::{Proxy, Way},
};
use std::time::Duration;
use ziggurat_base::{Code, Result};
use ziggurat_tests::field::{payload, value_of};

#[tokio::test]
async fn closing_twice_is_closing_once() -> Result<()> {
    let cluster = Cluster::of(Spans::default(), &["n"], 16).await;
    let witness = cluster.connect().await;
    let store = cluster.connect().await;
    let twin = cluster.connect().await;
    store.put("k", b"v").await?;
    for _ in 0..3 {
        within(Duration::from_secs(2), "close", store.close()).await;
        within(Duration::from_secs(2), "close", store.clone().close()).await;
        // A goodbye is said once: the member is gone at once, and nobody else with it.
        assert_eq!(witness.stats().await?.members, 3);
        assert_eq!(
            store.get("k").await?,
            Some(b"v".to_vec()),
            "it may come back"
        );
        assert_eq!(twin.get("k").await?, Some(b"v".to_vec()));
    }
    drop(store);
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn closing_with_transfers_under_way_is_bounded() -> Result<()> {
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::start(Spans::default()).await;
    cluster.add(&NodeWish::new("n", 64).behind(&proxy)).await;
    let store = cluster.connect().await;
    let gate = proxy.bar_next(Way::Up, 100_000);
    let held = {
        let store = store.clone();
        tokio::spawn(async move { put_on(&store, "n", "held", &payload(4 << 20, 0)).await })
    };
    gate.reached().await;
    let others: Vec<_> = (1..10)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move { store.put(format!("k{i}"), payload(1 << 20, i)).await })
        })
        .collect();
    within(Duration::from_secs(3), "close", store.close()).await;
    gate.open();
    // Each is done or void, and says so.
    let done = within(Duration::from_secs(10), "the held put", held).await;
    if let Err(error) = done.expect("no panic") {
        let void = matches!(error.code(), Code::InvalidWrite | Code::ObjectNotFound);
        assert!(void || is_unavailable(&error), "{error}");
    }
    for (other, i) in others.into_iter().zip(1..) {
        let done = within(Duration::from_secs(10), "a put", other).await;
        let done = done.expect("no panic").is_ok();
        let got = store.get(format!("k{i}")).await?;
        assert!(
            got.is_none_or(|got| got == payload(1 << 20, i)),
            "k{i} is whole"
        );
        assert!(
            !done || store.exist(format!("k{i}")).await?,
            "k{i} was promised"
        );
    }
    cluster.finish().await;
    Ok(())
}

/// A client that does this and that until it is killed.
fn restless(cluster: &Cluster, seed: u64) -> Party {
    Party::start(&[
        "churn".to_owned(),
        format!("--master={}", cluster.address()),
        format!("--seed={seed}"),
        "--keys=400".to_owned(),
    ])
}

#[tokio::test]
async fn after_kills_and_restarts_the_accounting_returns_to_zero() -> Result<()> {
    let mut cluster = Cluster::of(
        Spans {
            watermark: 0.9,
            ..Spans::default()
        },
        &["a", "b"],
        8,
    )
    .await;
    for round in 0..5 {
        let mut clients: Vec<_> = (0..3).map(|i| restless(&cluster, round * 10 + i)).collect();
        for client in &mut clients {
            while client.line().await["ops"].as_u64() < Some(200) {}
        }
        if round % 2 == 1 {
            let listen = Some(cluster.kill("a"));
            cluster
                .add(&NodeWish {
                    listen,
                    ..NodeWish::new("a", 8)
                })
                .await;
            for client in &mut clients {
                client.line().await;
            }
        }
        for client in &mut clients {
            client.assert_alive();
            client.kill();
        }
    }
    let store = cluster.connect().await;
    for number in 0..400 {
        if let Some(got) = store.get(format!("k{number}")).await.ok().flatten() {
            assert!(got == value_of(number), "k{number} has a wrong value");
        }
    }
    eventually("what the killed were writing is given up", async || {
        let stats = store.stats().await.expect("the master answers");
        stats.writes_open + stats.writes_closing == 0 && stats.members == 3
    })
    .await;
    let stats = store.stats().await?;
    assert_eq!(stats.capacity, 16 << 20, "the sum of what is mounted");
    cluster.finish().await;
    Ok(())
}
