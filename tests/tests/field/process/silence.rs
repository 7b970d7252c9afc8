//! Groups F and G: partitions and stalls that last longer than the time to live.

use super::{
    cluster::{Cluster, NodeWish, Spans, eventually, put_on},
    proxy::Proxy,
};
use std::time::{Duration, Instant};
use ziggurat_base::Result;
use ziggurat_store::Store;
use ziggurat_tests::field::payload;

/// Longer than a busy machine keeps a process from its processor.
const TTL: Duration = Duration::from_millis(2500);

fn spans() -> Spans {
    Spans {
        ttl_ms: TTL.as_millis() as u64,
        ..Spans::default()
    }
}

/// Puts thirty objects on each node, and reads all that has ever been put.
async fn put_and_check(store: &Store, round: u64) -> Result<()> {
    for number in 0..30 {
        let salt = round * 100 + number;
        for segment in ["a", "b"] {
            let key = format!("{segment}{salt}");
            put_on(store, segment, &key, &payload(60_000, salt)).await?;
        }
    }
    for salt in (0..=round).flat_map(|round| (0..30).map(move |n| round * 100 + n)) {
        let right = payload(60_000, salt);
        assert!(
            store.get(format!("b{salt}")).await?.as_ref() == Some(&right),
            "b{salt}"
        );
        let on_a = store.get(format!("a{salt}")).await?;
        let this_round = salt / 100 == round;
        assert!(
            on_a == this_round.then_some(right),
            "a{salt} in round {round}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_was_cut_off_comes_back_empty_and_is_counted_once() -> Result<()> {
    let to_master = Proxy::start().await;
    let mut cluster = Cluster::of(spans(), &["b"], 32).await;
    to_master.aim(cluster.address());
    cluster
        .add(&NodeWish {
            master: Some(to_master.address()),
            ..NodeWish::new("a", 32)
        })
        .await;
    let store = cluster.connect().await;
    let begin: [fn(&Proxy); 2] = [Proxy::freeze, Proxy::cut];
    for round in 0..4 {
        put_and_check(&store, round).await?;
        begin[round as usize % 2](&to_master);
        cluster.segments(&store, 1).await;
        for number in 0..30 {
            let key = format!("a{}", round * 100 + number);
            assert_eq!(store.get(&key).await?, None, "others see a clean miss");
        }
        to_master.mend();
        cluster.segments(&store, 2).await;
        let stats = store.stats().await?;
        assert_eq!(stats.capacity, 64 << 20, "counted once");
    }
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn a_master_that_stood_still_does_not_take_others_for_dead() -> Result<()> {
    let cluster = Cluster::of(spans(), &["a", "b", "c"], 16).await;
    let store = cluster.connect().await;
    for i in 0..300 {
        store.put(format!("k{i}"), payload(5000, i)).await?;
    }
    cluster.master.stop();
    // The span is the fault itself: there is nothing to wait for but time.
    tokio::time::sleep(TTL * 2).await;
    cluster.master.go_on();
    let woke = Instant::now();
    let mut asked = 0;
    while woke.elapsed() < TTL * 2 {
        let stats = store.stats().await?;
        let here = (stats.objects, stats.segments, stats.members_expired);
        assert_eq!(here, (300, 3, 0), "nobody was dead");
        asked += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(asked > 10, "the master answers");
    for i in 0..300 {
        assert!(
            store.get(format!("k{i}")).await? == Some(payload(5000, i)),
            "k{i}"
        );
    }
    eventually("its accounting is as before", async || {
        store.stats().await.expect("it answers").members == 4
    })
    .await;
    cluster.finish().await;
    Ok(())
}
