//! Group C: leases.

use super::rig::{Cluster, config, in_process, payload};
use std::time::Duration;
use ziggurat_base::{Code, Key, Result};
use ziggurat_engine::{
    command::{Keys, Recency},
    port::ReadOp,
};
use ziggurat_store::{CatalogConfig, Force, Store};

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Looks a key up, waits until the lease is over and the space has other content, then reads with the old grant.
async fn late_read(store: &Store) -> Result<()> {
    store.put("old", payload(1 << 20, 1)).await?;
    let keys = [Key::new(b"old")?];
    let keys = Keys {
        tenant: store.tenant(),
        keys: &keys,
    };
    let grant = store
        .ports()
        .metadata
        .locate(keys, Recency::Touch)
        .await?
        .remove(0)?
        .expect("it is there");
    pause(600).await;
    for i in 0..24 {
        store
            .put(format!("new{i}"), payload(1 << 20, 100 + i))
            .await?;
    }
    assert_eq!(store.get("old").await?, None, "it was evicted");
    let mut buffer = vec![0xa5; 1 << 20];
    let mut op = [ReadOp {
        name: None,
        ticket: grant.ticket,
        source: &grant.replicas.as_slice()[0],
        object_len: grant.len,
        offset: 0,
        into: &mut buffer,
        want_table: false,
    }];
    let late = store.ports().data.read(&mut op).await.remove(0);
    let gone = late.expect_err("the owner does not send what belongs to another version");
    assert_eq!(gone.code(), Code::ReplicaIsGone, "{gone}");
    Ok(())
}

#[tokio::test]
async fn a_read_after_its_lease_gets_no_foreign_byte() -> Result<()> {
    let config = CatalogConfig {
        high_watermark: 1.0,
        ..config(500)
    };
    late_read(&in_process(config.clone(), 8, 1)).await?;
    let cluster = Cluster::start(config, 8, 1).await;
    late_read(&cluster.connect().await).await
}

#[tokio::test]
async fn removal_under_a_lease_follows_the_table() -> Result<()> {
    let store = in_process(config(300), 16, 1);
    let code = |result: Result<()>| result.map_or_else(|error| error.code(), |()| Code::Ok);
    store.put("k", b"v").await?;
    assert!(store.exist("k").await?);
    assert_eq!(
        code(store.remove("k", Force::No).await),
        Code::ObjectHasLease
    );
    assert!(store.exist("k").await?, "a refused removal changes nothing");
    assert_eq!(code(store.remove("k", Force::Yes).await), Code::Ok);
    assert!(!store.exist("k").await?);
    assert_eq!(
        code(store.remove("k", Force::No).await),
        Code::ObjectNotFound
    );
    // A finished read gives its lease back: nobody has to wait.
    store.put("k", b"v").await?;
    store.get("k").await?;
    assert_eq!(code(store.remove("k", Force::No).await), Code::Ok);
    store.put("k", b"v").await?;
    store.exist("k").await?;
    pause(350).await;
    assert_eq!(
        code(store.remove("k", Force::No).await),
        Code::Ok,
        "a promise ends with its span"
    );
    Ok(())
}

#[tokio::test]
async fn remove_all_spares_what_is_leased_and_it_stays_whole() -> Result<()> {
    let cluster = Cluster::start(config(400), 16, 1).await;
    let store = cluster.connect().await;
    let value = |i: u64| payload(100_000, i);
    for i in 0..10 {
        store.put(format!("k{i}"), value(i)).await?;
    }
    store.exist_many(&[b"k0", b"k4", b"k9"]).await;
    let removed = store.remove_matching("", Force::No).await?;
    assert_eq!((removed.removed, removed.leased), (7, 3));
    for i in 0..10 {
        let found = store.get(format!("k{i}")).await?;
        assert_eq!(found, [0, 4, 9].contains(&i).then(|| value(i)), "k{i}");
        store.put(format!("k{i}"), value(i)).await?;
        assert_eq!(
            store.get(format!("k{i}")).await?,
            Some(value(i)),
            "a put afterwards really stores"
        );
    }
    pause(450).await;
    assert_eq!(store.remove_matching("", Force::No).await?.removed, 10);
    assert_eq!(store.stats().await?.used, 0);
    Ok(())
}
