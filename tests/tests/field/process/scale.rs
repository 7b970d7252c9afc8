//! Group I in small: many objects, and what they cost the master.

use super::cluster::{Cluster, NodeWish, Spans, eventually, within};
use std::time::{Duration, Instant};
use ziggurat_base::{ByteCount, Era, Result};
use ziggurat_engine::{
    command::{Keep, MemberOffer, SegmentOffer},
    port::MemberApi,
};
use ziggurat_proto::{
    Session, SessionOptions,
    hello::{Hello, PeerKind},
};
use ziggurat_store::{Force, PutOptions, PutRequest, Store};

/// Puts so many objects of one byte.
async fn put_many(store: &Store, count: usize) {
    let keys: Vec<_> = (0..count).map(|i| format!("key-{i:012}")).collect();
    let parts: [&[u8]; 1] = [b"x"];
    for keys in keys.chunks(4096) {
        let puts: Vec<_> = keys
            .iter()
            .map(|key| PutRequest::new(key.as_bytes(), &parts))
            .collect();
        let answers = store.put_many(&puts, &PutOptions::default()).await;
        answers.into_iter().for_each(|answer| {
            answer.expect("there is room");
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_everything_makes_nobody_wait() -> Result<()> {
    const COUNT: usize = 50_000;
    let mut cluster = Cluster::of(Spans::default(), &["a"], 64).await;
    let store = cluster.connect().await;
    put_many(&store, COUNT).await;
    store.put("kept", b"kept").await?;
    let reader = cluster.connect().await;
    let removing = {
        let store = store.clone();
        tokio::spawn(async move {
            let names: Vec<_> = (0..COUNT).map(|i| format!("key-{i:012}")).collect();
            let keys: Vec<_> = names.iter().map(String::as_bytes).collect();
            let found = store.exist_many(&keys).await;
            assert!(found.iter().all(|found| *found == Ok(true)));
            store.remove_matching("^key-", Force::Yes).await
        })
    };
    let mut longest = Duration::ZERO;
    let mut reads = 0;
    while !removing.is_finished() || reads < 100 {
        let began = Instant::now();
        assert_eq!(reader.get("kept").await?, Some(b"kept".to_vec()));
        longest = longest.max(began.elapsed());
        reads += 1;
    }
    assert_eq!(removing.await.expect("no panic")?.removed, COUNT as u64);
    // The bound is generous: it tells a scan under the lock from none, on any machine.
    assert!(
        longest < Duration::from_millis(500),
        "a get took {longest:?}"
    );
    within(Duration::from_secs(10), "mounting", async {
        cluster.add(&NodeWish::new("b", 16)).await;
    })
    .await;
    assert_eq!(reader.get("kept").await?, Some(b"kept".to_vec()));
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn objects_and_segments_cost_the_master_little() -> Result<()> {
    const COUNT: usize = 100_000;
    let cluster = Cluster::of(Spans::default(), &["a"], 64).await;
    let store = cluster.connect().await;
    put_many(&store, 1000).await;
    let empty = cluster.master.resident();
    put_many(&store, COUNT).await;
    let full = cluster.master.resident();
    let per_key = full.saturating_sub(empty) / COUNT as u64;
    assert!(per_key < 400, "{per_key} bytes for each key");
    for _ in 0..3 {
        store.remove_matching("", Force::Yes).await?;
        put_many(&store, COUNT).await;
    }
    let again = cluster.master.resident();
    assert!(again < full + (8 << 20), "{full} bytes have become {again}");

    // A segment of a TiB that nobody serves: its tables grow with what is in it, not with its size.
    let hello = Hello::new(PeerKind::Node);
    let session = Session::connect(cluster.address(), &hello, SessionOptions::default()).await?;
    let joined = session
        .join(&MemberOffer {
            address: "127.0.0.1:1".into(),
            ..MemberOffer::default()
        })
        .await?;
    let segment = SegmentOffer {
        name: "large".into(),
        capacity: ByteCount::gib(1024),
        highest_era: Era(0),
        keep: Keep::Delegated,
        stock: Default::default(),
    };
    let before = cluster.master.resident();
    session.mount(joined.member, &segment).await?;
    assert_eq!(store.stats().await?.segments, 2);
    let grown = cluster.master.resident().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for an empty segment");
    session.leave(joined.member).await?;
    eventually("the large segment is gone", async || {
        store.stats().await.expect("the master answers").segments == 1
    })
    .await;
    cluster.finish().await;
    Ok(())
}
