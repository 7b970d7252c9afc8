//! Groups A and F: what callers see of a node that is killed, replaced, or taken out of service.

use super::cluster::{Cluster, NodeWish, Spans, eventually, is_unavailable, put_on, within};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use ziggurat_base::{Error, Key, Result};
use ziggurat_engine::{
    command::{GetGrant, Keys},
    port::ReadOp,
};
use ziggurat_store::{Force, PutOptions, Recency, Store};
use ziggurat_tests::field::payload;

/// A call that meets a dead node ends within this time.
const BOUND: Duration = Duration::from_secs(2);

/// One answer of a read, whatever way it was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Value(Vec<u8>),
    Miss,
    Unavailable,
}

fn found(answer: Result<Option<Vec<u8>>>) -> Found {
    match answer {
        Ok(Some(value)) => Found::Value(value),
        Ok(None) => Found::Miss,
        Err(error) => {
            assert!(is_unavailable(&error), "{error}");
            Found::Unavailable
        }
    }
}

/// What each of the ways to read gives for some keys.
async fn read_in_every_way(store: &Store, keys: &[&[u8]]) -> Vec<(&'static str, Vec<Found>)> {
    let mut ways = Vec::new();
    let many = within(BOUND, "get_many", store.get_many(keys)).await;
    ways.push(("get_many", many.into_iter().map(found).collect()));
    let mut rooms = vec![vec![0xa5; 64]; keys.len()];
    let mut into: Vec<_> = rooms.iter_mut().map(|room| &mut room[..]).collect();
    let lens = store.get_many_into(keys, &mut into, Recency::Touch);
    let lens = within(BOUND, "get_many_into", lens).await;
    let cut = |(len, room): (Result<Option<u64>>, Vec<u8>)| {
        found(len.map(|len| len.map(|len| room[..len as usize].to_vec())))
    };
    ways.push((
        "get_many_into",
        lens.into_iter().zip(rooms).map(cut).collect(),
    ));
    let (mut one, mut into, mut range, mut range_into) = (vec![], vec![], vec![], vec![]);
    for key in keys {
        one.push(found(within(BOUND, "get", store.get(key)).await));
        let mut room = vec![0xa5; 64];
        let len = within(BOUND, "get_into", store.get_into(key, &mut room)).await;
        into.push(cut((len, room)));
        let call = store.get_range(key, 0, 0);
        range.push(found(within(BOUND, "get_range", call).await));
        let mut room = vec![0xa5; 0];
        let call = store.get_range_into(key, 0, &mut room);
        let len = within(BOUND, "get_range_into", call).await;
        range_into.push(cut((len, room)));
    }
    ways.extend([("get", one), ("get_into", into)]);
    ways.extend([("get_range", range), ("get_range_into", range_into)]);
    ways
}

#[tokio::test]
async fn miss_error_and_empty_are_three_answers_in_every_way_to_read() -> Result<()> {
    let mut cluster = Cluster::of(
        Spans {
            ttl_ms: 8000,
            ..Spans::default()
        },
        &["a", "b"],
        16,
    )
    .await;
    let store = cluster.connect().await;
    put_on(&store, "a", "present", b"value").await?;
    put_on(&store, "a", "empty", b"").await?;
    put_on(&store, "b", "on-b", b"other").await?;
    cluster.kill("b");
    let keys: [&[u8]; 4] = [b"present", b"never-put", b"on-b", b"empty"];
    for (way, answers) in read_in_every_way(&store, &keys).await {
        let ranged = way.starts_with("get_range");
        let value = if ranged { vec![] } else { b"value".to_vec() };
        let right = [
            Found::Value(value),
            Found::Miss,
            Found::Unavailable,
            Found::Value(vec![]),
        ];
        assert_eq!(answers, right, "{way}");
    }
    eventually("a dead node's objects become misses", async || {
        found(store.get("on-b").await) == Found::Miss
    })
    .await;
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn reads_of_a_killed_node_fail_over_or_fail_fast() -> Result<()> {
    let mut cluster = Cluster::of(
        Spans {
            ttl_ms: 4000,
            ..Spans::default()
        },
        &["a", "b"],
        32,
    )
    .await;
    let store = cluster.connect().await;
    let value = |i: u64| payload(20_000, i);
    for i in 0..100 {
        let segment = if i % 2 == 0 { "a" } else { "b" };
        put_on(&store, segment, &format!("one{i}"), &value(i)).await?;
        let both = PutOptions::replicas(2).preferring(["a", "b"]);
        store
            .put_parts(format!("two{i}"), &[&value(i)], &both)
            .await?;
    }
    cluster.kill("a");
    let killed = Instant::now();
    let mut rounds = 0;
    loop {
        let mut missed = 0;
        for i in 0..100 {
            let two = store.get(format!("two{i}"));
            let two = within(BOUND, "a read with another replica", two).await?;
            assert!(two == Some(value(i)), "two{i} has another replica");
            let one = store.get(format!("one{i}"));
            match found(within(BOUND, "a read without", one).await) {
                Found::Value(got) => assert!(i % 2 == 1 && got == value(i), "one{i}"),
                Found::Miss => missed += 1,
                Found::Unavailable => assert!(i % 2 == 0, "one{i} is on a living node"),
            }
        }
        rounds += 1;
        if missed == 50 {
            break;
        }
        assert!(
            killed.elapsed() < Duration::from_secs(30),
            "never a clean miss"
        );
    }
    assert!(
        rounds > 1,
        "the first round was before the time to live ended"
    );
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn reads_of_a_frozen_node_fail_over_in_bounded_time() -> Result<()> {
    // One answer's patience, and what a machine that is busy adds to it.
    const LIMIT: Duration = Duration::from_secs(9);
    let cluster = Cluster::of(
        Spans {
            lease_ms: 10_000,
            ttl_ms: 10_000,
            ..Spans::default()
        },
        &["a", "b"],
        32,
    )
    .await;
    let store = cluster.connect().await;
    for i in 0..8 {
        let both = PutOptions::replicas(2).preferring(["a", "b"]);
        let value = payload(20_000, i);
        store.put_parts(format!("two{i}"), &[&value], &both).await?;
        put_on(&store, "b", &format!("one{i}"), &value).await?;
    }
    cluster.node("a").stop();
    let reads = (0..8).map(|i| {
        let store = store.clone();
        tokio::spawn(async move { (i, store.get(format!("two{i}")).await) })
    });
    let reads: Vec<_> = reads.collect();
    // Who wants nothing of it does not notice.
    for i in 0..8 {
        let got = within(
            BOUND,
            "a read of another node",
            store.get(format!("one{i}")),
        )
        .await?;
        assert!(got == Some(payload(20_000, i)), "one{i}");
    }
    for read in reads {
        let (i, got) = within(LIMIT, "a read with another replica", read)
            .await
            .expect("no panic");
        assert!(
            got? == Some(payload(20_000, i)),
            "two{i} has another replica"
        );
    }
    cluster.node("a").go_on();
    cluster.segments(&store, 2).await;
    cluster.finish().await;
    Ok(())
}

/// Asks where objects are, as a reader that is slow to follow.
async fn locate(store: &Store, names: &[String]) -> Result<Vec<GetGrant>> {
    let keys: Vec<_> = names
        .iter()
        .map(|name| Key::new(name.as_bytes()).expect("a good key"))
        .collect();
    let keys = Keys {
        tenant: store.tenant(),
        keys: &keys,
    };
    let grants = store.ports().metadata.locate(keys, Recency::Touch).await?;
    grants
        .into_iter()
        .map(|grant| Ok(grant?.expect("it is there")))
        .collect()
}

/// Reads with an old grant.
async fn read_as_granted(store: &Store, grant: &GetGrant) -> Result<(), Error> {
    let mut buffer = vec![0; grant.len as usize];
    let mut op = [ReadOp {
        name: None,
        ticket: grant.ticket,
        source: &grant.replicas.as_slice()[0],
        object_len: grant.len,
        offset: 0,
        into: &mut buffer,
        want_table: false,
    }];
    store.ports().data.read(&mut op).await.remove(0).map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_process_at_an_old_address_answers_for_nothing_of_the_old_one() -> Result<()> {
    const KEYS: u64 = 50;
    let mut cluster = Cluster::of(
        Spans {
            ttl_ms: 20_000,
            lease_ms: 20_000,
            ..Spans::default()
        },
        &["a"],
        16,
    )
    .await;
    let store = cluster.connect().await;
    let names: Vec<_> = (0..KEYS).map(|i| format!("k{i}")).collect();
    for (name, i) in names.iter().zip(0..) {
        store.put(name, payload(50_000, i)).await?;
    }
    let grants = locate(&store, &names).await?;

    let (over, reads) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let reading = {
        let (store, over, reads) = (store.clone(), over.clone(), reads.clone());
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) || reads.load(Ordering::Relaxed) < 1000 {
                let i = reads.fetch_add(1, Ordering::Relaxed) % KEYS;
                if let Found::Value(got) = found(store.get(format!("k{i}")).await) {
                    assert!(got == payload(50_000, i), "k{i} has a wrong value");
                }
            }
        })
    };
    eventually("the reader reads", async || {
        reads.load(Ordering::Relaxed) > 50
    })
    .await;
    let listen = Some(cluster.kill("a"));
    cluster
        .add(&NodeWish {
            listen,
            ..NodeWish::new("a", 16)
        })
        .await;
    // The master has not waited for the old one to fall silent, and the new memory fills with something else.
    for name in &names {
        assert_eq!(store.get(name).await?, None, "{name} went with its process");
        store.put(format!("new-{name}"), vec![0xee; 50_000]).await?;
    }
    for grant in &grants {
        let refused = read_as_granted(&store, grant).await;
        let refused = refused.expect_err("an old grant is not for the new process");
        assert!(is_unavailable(&refused), "{refused}");
    }
    over.store(true, Ordering::Relaxed);
    reading.await.expect("the reader has seen no wrong value");
    let stats = store.stats().await?;
    assert_eq!(
        (stats.segments, stats.capacity),
        (1, 16 << 20),
        "counted once"
    );
    cluster.finish().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_leaves_while_it_is_read() -> Result<()> {
    const KEYS: u64 = 1000;
    let mut cluster = Cluster::of(Spans::default(), &["b"], 64).await;
    cluster
        .add(&NodeWish {
            grace_ms: 500,
            ..NodeWish::new("a", 64)
        })
        .await;
    let store = cluster.connect().await;
    for i in 0..KEYS {
        let segment = if i % 2 == 0 { "a" } else { "b" };
        put_on(&store, segment, &format!("k{i}"), &payload(32 << 10, i)).await?;
    }
    let (over, reads) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let readers: Vec<_> = (0..8)
        .map(|reader| {
            let (store, over, reads) = (store.clone(), over.clone(), reads.clone());
            tokio::spawn(async move {
                let mut i = reader * KEYS / 8;
                while !over.load(Ordering::Relaxed) {
                    i = (i + 1) % KEYS;
                    reads.fetch_add(1, Ordering::Relaxed);
                    if let Found::Value(got) = found(store.get(format!("k{i}")).await) {
                        assert!(got == payload(32 << 10, i), "k{i} has a wrong value");
                    }
                }
            })
        })
        .collect();
    eventually("the readers read", async || {
        reads.load(Ordering::Relaxed) > 500
    })
    .await;
    let (mut node, _) = cluster.take("a");
    node.terminate();
    assert!(node.end().await.success(), "scale-in is an orderly end");
    cluster.segments(&store, 1).await;
    let stats = store.stats().await?;
    assert_eq!(stats.objects, KEYS / 2, "its metadata went with it");
    over.store(true, Ordering::Relaxed);
    for reader in readers {
        within(BOUND, "a reader", reader)
            .await
            .expect("no wrong value");
    }
    for i in 0..KEYS {
        let right = (i % 2 == 1).then(|| payload(32 << 10, i));
        assert!(store.get(format!("k{i}")).await? == right, "k{i}");
    }
    store.remove("k1", Force::Yes).await?;
    within(BOUND, "close", store.close()).await;
    cluster.finish().await;
    Ok(())
}
