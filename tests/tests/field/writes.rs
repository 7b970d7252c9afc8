//! Group B: the life of a put and its space.

use super::rig::{Cluster, config, in_process, payload};
use std::{sync::Arc, time::Duration};
use ziggurat_base::{
    Code, Key, Result, TenantId,
    memory::{Pages, Region, RegionOptions},
};
use ziggurat_engine::{
    command::{Keys, PutAnswer, PutEnd, PutItem, Recency, Wish, Written},
    port::WriteOp,
};
use ziggurat_store::{CatalogConfig, Force, PutOutcome, Store};

fn key(text: &str) -> Key<'_> {
    Key::new(text.as_bytes()).expect("a good key")
}

/// Asks for space and does nothing with it, as a writer that has died.
async fn zombie(store: &Store, text: &str, len: u64) -> ziggurat_engine::command::PutGrant {
    let items = [PutItem::new(key(text), len)];
    let started = store
        .ports()
        .metadata
        .put_start(store.tenant(), &items, &Wish::default())
        .await;
    match started.expect("answered").remove(0).expect("granted") {
        PutAnswer::Granted(grant) => grant,
        PutAnswer::Existed => panic!("{text} exists"),
    }
}

fn impatient() -> CatalogConfig {
    CatalogConfig {
        write_discard: Duration::from_millis(300),
        write_release: Duration::from_millis(900),
        ..config(100)
    }
}

async fn settled(store: &Store, used: u64) -> Result<()> {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let stats = store.stats().await?;
        if stats.used == used && stats.writes_open + stats.writes_closing == 0 {
            return Ok(());
        }
        assert!(
            std::time::Instant::now() < deadline,
            "space comes back: {stats:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_writer_that_vanishes_blocks_its_key_for_a_bounded_time() -> Result<()> {
    let cluster = Cluster::start(impatient(), 64, 1).await;
    let (dead, store) = (cluster.connect().await, cluster.connect().await);
    let grant = zombie(&dead, "k", 4 << 20).await;
    assert_eq!(
        store.put("k", b"new").await.unwrap_err().code(),
        Code::ObjectAlreadyExists
    );
    assert_eq!(
        store.get("k").await.unwrap_err().code(),
        Code::ReplicaIsNotReady
    );
    assert_eq!(
        store.remove("k", Force::No).await.unwrap_err().code(),
        Code::ReplicaIsNotReady
    );
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert_eq!(
        store.put("k", b"new").await?,
        PutOutcome::Stored { replicas: 1 }
    );
    assert_eq!(store.get("k").await?, Some(b"new".to_vec()));
    let end = PutEnd {
        ticket: grant.ticket,
        crc: Default::default(),
        written: Written::All,
    };
    let late = dead.ports().metadata.put_end(&[end]).await?.remove(0);
    assert_eq!(late.unwrap_err().code(), Code::InvalidWrite);
    store.remove("k", Force::Yes).await?;
    settled(&store, 0).await
}

#[tokio::test]
async fn a_zombie_that_wakes_up_damages_nobody() -> Result<()> {
    let cluster = Cluster::start(impatient(), 8, 1).await;
    let (stalled, store) = (cluster.connect().await, cluster.connect().await);
    let grant = zombie(&stalled, "k", 1 << 20).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    // The segment is filled, so that the stalled writer's range is given away again.
    for i in 0..7 {
        store.put(format!("fill{i}"), payload(1 << 20, i)).await?;
    }
    let foreign = vec![0xee; 1 << 20];
    let target = &grant.targets.as_slice()[0];
    let op = WriteOp {
        name: None,
        ticket: grant.ticket,
        target,
        parts: &[&foreign],
        len: 1 << 20,
    };
    let refused = stalled
        .ports()
        .data
        .write(&[op])
        .await
        .remove(0)
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidWrite, "{refused}");
    for i in 0..7 {
        let got = store.get(format!("fill{i}")).await?;
        assert!(got.is_none_or(|got| got == payload(1 << 20, i)), "fill{i}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_into_a_full_store_wait_for_room_and_succeed() -> Result<()> {
    let store = in_process(
        CatalogConfig {
            lease: Duration::from_millis(50),
            ..config(50)
        },
        64,
        1,
    );
    let store = Arc::new(store);
    let writers = (0..16).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for i in 0..125 {
                let name = format!("w{writer}-{i}");
                let began = std::time::Instant::now();
                store
                    .put(&name, payload(1 << 20, writer))
                    .await
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(
                    began.elapsed() < Duration::from_secs(2),
                    "{name} waited {:?}",
                    began.elapsed()
                );
                store
                    .get(&name)
                    .await
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no writer failed");
    }
    let stats = store.stats().await?;
    assert!(
        stats.puts_ended == 2000 && stats.evicted > 1900,
        "{stats:?}"
    );
    Ok(())
}

#[tokio::test]
async fn guards_that_nobody_gives_back_end_by_themselves() -> Result<()> {
    let config = CatalogConfig {
        high_watermark: 1.0,
        ..config(60)
    };
    let store = in_process(config, 8, 1);
    for round in 0..50_u64 {
        for i in 0..8 {
            store
                .put(format!("k{round}-{i}"), payload(1 << 20, i))
                .await?;
        }
        // Looked up and never read: no hold comes back.
        let names: Vec<_> = (0..8).map(|i| format!("k{round}-{i}")).collect();
        let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
        let keys = Keys {
            tenant: TenantId(0),
            keys: &keys,
        };
        store.ports().metadata.locate(keys, Recency::Touch).await?;
    }
    let stats = store.stats().await?;
    assert_eq!(
        stats.objects, 7,
        "as many as fit, each with its chunk table"
    );
    Ok(())
}

#[tokio::test]
async fn a_transfer_that_fails_leaves_nothing_behind() -> Result<()> {
    let mut cluster = Cluster::start(config(100), 32, 2).await;
    let store = cluster.connect().await;
    let victim = cluster.nodes.remove(0);
    let address = victim.address().to_owned();
    drop(victim);
    let on_dead = ziggurat_store::PutOptions::default().preferring(["n0"]);
    let began = std::time::Instant::now();
    let failed = store
        .put_parts("k", &[&payload(8 << 20, 1)], &on_dead)
        .await
        .unwrap_err();
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?} for {address}",
        began.elapsed()
    );
    assert!(
        matches!(
            failed.code(),
            Code::RpcFail | Code::TransferFail | Code::RpcTimeout
        ),
        "{failed}"
    );
    assert!(!store.exist("k").await?);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(
        store
            .put_parts("k", &[&payload(8 << 20, 1)], &on_dead)
            .await?,
        PutOutcome::Stored { replicas: 1 }
    );
    assert_eq!(store.get("k").await?, Some(payload(8 << 20, 1)));
    store.remove("k", Force::Yes).await?;
    settled(&store, 0).await
}

#[test]
fn huge_pages_are_there_or_refused_by_name() {
    let asked = RegionOptions {
        len: 5 << 20,
        pages: Pages::Huge,
        ..RegionOptions::default()
    };
    match Region::create(&asked) {
        Ok(region) => assert_eq!(
            region.len(),
            6 << 20,
            "rounded up to whole pages, all of it usable"
        ),
        Err(error) => {
            assert_eq!(error.code(), Code::NoAvailableHandle);
            assert!(error.what().contains("5MiB"), "{error}");
        }
    }
}
