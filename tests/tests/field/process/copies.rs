//! The same key on several SSDs, and removals that reach an owner late.

use super::{
    cluster::{Cluster, NodeWish, PATIENCE, Spans, eventually, put_on},
    disks::{count_right, disk, key, on_ssd, put_all, reborn},
    proxy::{Proxy, Way},
};
use ziggurat_base::Result;
use ziggurat_store::{Force, PutOptions};
use ziggurat_tests::field::payload;

const LEN: usize = 100_000;

/// Scenario 38: a key is removed while its owner stands still, and put again elsewhere. The old version does not come back
/// and does not take the new one along.
#[tokio::test]
async fn a_late_removal_spares_what_was_put_since() -> Result<()> {
    const COUNT: usize = 40;
    let (one, two, state) = (disk(), disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wishes = [
        NodeWish::new("a", 32).on(one.path()),
        NodeWish::new("b", 32).on(two.path()),
    ];
    for wish in &wishes {
        cluster.add(wish).await;
    }
    let store = cluster.connect().await;
    for number in 0..COUNT {
        put_on(&store, "a", &key(number), &payload(LEN, 1)).await?;
    }
    on_ssd(&store, COUNT as u64).await;
    reborn(&mut cluster, &wishes[0]).await;
    on_ssd(&store, COUNT as u64).await;
    cluster.node("a").stop();
    for number in 0..COUNT {
        store.remove(key(number), Force::Yes).await?;
        // Every second one is put where the owner of the old version cannot reach it.
        if number % 2 == 0 {
            put_on(&store, "b", &key(number), &payload(LEN, 2)).await?;
        }
    }
    cluster.node("a").go_on();
    for number in (1..COUNT).step_by(2) {
        put_on(&store, "a", &key(number), &payload(LEN, 2)).await?;
    }
    on_ssd(&store, COUNT as u64).await;
    eventually("nothing is owed", async || {
        store.stats().await.is_ok_and(|stats| stats.debts == 0)
    })
    .await;
    for wish in &wishes {
        reborn(&mut cluster, wish).await;
    }
    on_ssd(&store, COUNT as u64).await;
    for number in 0..COUNT {
        let found = store.get(key(number)).await?;
        assert!(found == Some(payload(LEN, 2)), "object {number}");
    }
    cluster.finish().await;
    Ok(())
}

/// Scenario 39: what the owner tells is lost on its way, again and again. It is told again, and nothing counts twice.
#[tokio::test]
async fn what_is_told_twice_counts_once() -> Result<()> {
    const COUNT: usize = 100;
    let (disk, state) = (disk(), disk());
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    proxy.aim(cluster.address());
    let wish = NodeWish {
        master: Some(proxy.address()),
        ..NodeWish::new("n", 32).on(disk.path())
    };
    cluster.add(&wish).await;
    let store = cluster.connect().await;
    for number in 0..COUNT {
        store.put(key(number), payload(LEN, number as u64)).await?;
        if number % 20 == 10 {
            // What is on its way in either direction is lost.
            proxy.cut();
            tokio::task::yield_now().await;
            proxy.mend();
        }
    }
    on_ssd(&store, COUNT as u64).await;
    let used = store.stats().await?.owned_used;
    assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT);
    // What the master has counted is what the next process finds.
    reborn(&mut cluster, &wish).await;
    on_ssd(&store, COUNT as u64).await;
    assert_eq!(store.stats().await?.owned_used, used);
    assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT);
    cluster.finish().await;
    Ok(())
}

/// Scenario 53: an owner dies in the middle of a batch that it serves from its SSD. The other copies are read.
#[tokio::test]
async fn a_batch_goes_on_with_the_other_ssd_when_an_owner_dies() -> Result<()> {
    const COUNT: usize = 40;
    let (one, two, state) = (disk(), disk(), disk());
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    // Of different layout: one holds objects that the other does not.
    let first = NodeWish::new("a", 32).on(one.path()).behind(&proxy);
    let second = NodeWish::new("b", 32).on(two.path());
    cluster.add(&first).await;
    let store = cluster.connect().await;
    for number in 0..10 {
        store
            .put(format!("before{number}"), payload(LEN, 0))
            .await?;
    }
    cluster.add(&second).await;
    let options = PutOptions::replicas(2);
    for number in 0..COUNT {
        let value = payload(LEN, number as u64);
        store.put_parts(key(number), &[&value], &options).await?;
    }
    on_ssd(&store, 2 * COUNT as u64 + 10).await;
    for wish in [&first, &second] {
        reborn(&mut cluster, wish).await;
    }
    on_ssd(&store, 2 * COUNT as u64 + 10).await;
    let reader = cluster.connect().await;
    let gate = proxy.bar_next(Way::Down, 150_000);
    let reading = tokio::spawn(async move {
        let keys: Vec<_> = (0..COUNT).map(key).collect();
        let keys: Vec<_> = keys.iter().map(String::as_bytes).collect();
        reader.get_many(&keys).await
    });
    gate.reached().await;
    cluster.kill("a");
    gate.open();
    let answers = tokio::time::timeout(PATIENCE, reading).await;
    for (number, value) in answers
        .expect("bounded")
        .expect("no panic")
        .into_iter()
        .enumerate()
    {
        assert!(
            value? == Some(payload(LEN, number as u64)),
            "object {number}"
        );
    }
    put_all(&store, COUNT, LEN).await?;
    cluster.finish().await;
    Ok(())
}
