//! Group C: leases that end while bytes are under way.

use super::{
    cluster::{Cluster, NodeWish, Spans, eventually, is_unavailable},
    proxy::{Proxy, Way},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::task::JoinHandle;
use ziggurat_base::Result;
use ziggurat_store::{Force, Recency, Store};
use ziggurat_tests::field::payload;

const MIB: usize = 1 << 20;

/// Long enough that most of it is still in its segment when the reader stands still.
const LEN: usize = 8 * MIB;

/// What tells the payloads of the two objects apart.
const ONE: u64 = 1;
const TWO: u64 = 2;

const SEGMENT_MIB: u64 = 25;

/// What one read gave: whose bytes are right, from which byte on, and the answer.
type Got = (u64, usize, Result<Option<Vec<u8>>>);

/// Reads under way.
type Reading = JoinHandle<Vec<Got>>;

/// A way to read one or two objects of 8 MiB.
type Variant = fn(Store) -> Reading;

fn get(store: Store) -> Reading {
    tokio::spawn(async move { vec![(ONE, 0, store.get("one").await)] })
}

fn get_many(store: Store) -> Reading {
    tokio::spawn(async move {
        let got = store.get_many(&[b"one", b"two"]).await;
        let got = [ONE, TWO].into_iter().zip(got);
        got.map(|(salt, got)| (salt, 0, got)).collect()
    })
}

fn get_many_into(store: Store) -> Reading {
    tokio::spawn(async move {
        let mut rooms = [vec![0xa5; LEN], vec![0xa5; LEN]];
        let [one, two] = &mut rooms;
        let lens = store
            .get_many_into(&[b"one", b"two"], &mut [one, two], Recency::Touch)
            .await;
        let got = [ONE, TWO].into_iter().zip(lens.into_iter().zip(rooms));
        got.map(|(salt, (len, room))| (salt, 0, len.map(|len| len.map(|_| room))))
            .collect()
    })
}

fn get_range(store: Store) -> Reading {
    tokio::spawn(async move {
        let from = MIB + 17;
        let got = store.get_range("two", from as u64, 6 * MIB as u64).await;
        vec![(TWO, from, got)]
    })
}

/// A read stands still in mid-transfer until its lease has ended and its range holds other objects.
async fn read_late(cluster: &Cluster, proxy: &Proxy, variant: Variant) -> Result<()> {
    let writer = cluster.connect().await;
    for (key, salt) in [("one", ONE), ("two", TWO)] {
        writer.put(key, payload(LEN, salt)).await?;
    }
    let reader = cluster.connect().await;
    let gate = proxy.bar_next(Way::Down, 256 << 10);
    let reading = variant(reader);
    gate.reached().await;
    let fresh = AtomicU64::new(0);
    let put_fresh = async || {
        let number = fresh.fetch_add(1, Ordering::Relaxed);
        writer.put(format!("new{number}"), vec![0xee; MIB]).await
    };
    // Whoever was used last goes last: the read objects, as soon as their leases have ended.
    let keys: [&[u8]; 2] = [b"one", b"two"];
    eventually("both objects are evicted", async || {
        put_fresh().await.expect("there is something to evict");
        let left = writer.stat_many(&keys).await;
        left.iter().all(|stat| *stat == Ok(None))
    })
    .await;
    for _ in 0..SEGMENT_MIB {
        put_fresh().await?;
    }
    gate.open();
    let limit = Duration::from_secs(20);
    let answers = tokio::time::timeout(limit, reading).await;
    for (salt, from, answer) in answers.expect("bounded").expect("no panic") {
        match answer {
            Ok(None) => {}
            Ok(Some(got)) => {
                let right = payload(LEN, salt);
                assert!(
                    got == right[from..from + got.len()],
                    "foreign bytes were believed"
                );
            }
            Err(error) => assert!(is_unavailable(&error), "{error}"),
        }
    }
    writer.remove_matching("^new", Force::Yes).await?;
    Ok(())
}

#[tokio::test]
async fn a_read_whose_lease_ends_half_way_never_has_foreign_bytes() -> Result<()> {
    let proxy = Proxy::start().await;
    let mut cluster = Cluster::start(Spans {
        lease_ms: 500,
        ..Spans::default()
    })
    .await;
    cluster
        .add(&NodeWish::new("n", SEGMENT_MIB).behind(&proxy))
        .await;
    for variant in [get as Variant, get_many, get_many_into, get_range] {
        read_late(&cluster, &proxy, variant).await?;
    }
    cluster.finish().await;
    Ok(())
}
