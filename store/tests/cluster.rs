//! A master, nodes and a client over loopback, in one process.

use std::{net::SocketAddr, sync::Arc, time::Duration};
use ziggurat_base::{ByteCount, Code, Result};
use ziggurat_store::{
    CatalogConfig, ConnectOptions, Force, Master, MasterOptions, MemoryOptions, Node, NodeOptions,
    PutOptions, PutOutcome, Store, SystemClock,
};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn master(catalog: CatalogConfig) -> Master {
    let options = MasterOptions {
        listen: ANY,
        admin: None,
        state_dir: None,
        catalog,
        clock: Arc::new(SystemClock::default()),
    };
    Master::start(options).await.expect("a master starts")
}

fn node_options(master: &Master, name: &str) -> NodeOptions {
    NodeOptions {
        ssd: Default::default(),
        dfs: Default::default(),
        eager: true,
        master: master.address().to_string(),
        listen: ANY,
        advertise: None,
        admin: None,
        segment_name: name.into(),
        memory: MemoryOptions {
            dram: ByteCount::mib(64),
            ..MemoryOptions::default()
        },
        session: Default::default(),
        limits: Default::default(),
        patience: Duration::from_secs(5),
    }
}

async fn connect(master: &Master) -> Store {
    Store::connect(ConnectOptions::new(master.address().to_string()))
        .await
        .expect("a client connects")
}

fn payload(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 31 / 7) as u8 ^ salt).collect()
}

#[tokio::test]
async fn values_of_every_size_come_back() -> Result<()> {
    let master = master(CatalogConfig::default()).await;
    let _one = Node::start(node_options(&master, "one")).await?;
    let _two = Node::start(node_options(&master, "two")).await?;
    let store = connect(&master).await;
    for (salt, len) in [0, 1, 4096, 65_536, 65_537, 1 << 20, (9 << 20) + 13]
        .into_iter()
        .enumerate()
    {
        let key = format!("key-{len}");
        let value = payload(len, salt as u8);
        let stored = store
            .put_parts(
                &key,
                &[&value[..len / 3], &value[len / 3..]],
                &PutOptions::replicas(2),
            )
            .await?;
        assert_eq!(stored, PutOutcome::Stored { replicas: 2 }, "{len}");
        assert_eq!(store.put(&key, b"other").await?, PutOutcome::Existed);
        assert_eq!(store.get(&key).await?.as_deref(), Some(&value[..]), "{len}");
        assert_eq!(store.size(&key).await?, Some(len as u64));
        let (from, to) = (len / 5, len / 2);
        let part = store
            .get_range(&key, from as u64, (to - from) as u64)
            .await?;
        assert_eq!(part.as_deref(), Some(&value[from..to]), "range of {len}");
        assert_eq!(
            store
                .get_range(&key, len as u64, 1)
                .await
                .unwrap_err()
                .code(),
            Code::InvalidRead
        );
    }
    assert_eq!(store.get("absent").await?, None);
    assert!(store.exist("key-0").await? && !store.exist("absent").await?);
    let removed = store.remove_matching("^key-", Force::Yes).await?;
    assert_eq!(removed.removed, 7);
    assert_eq!(store.list("", 10).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_dead_node_costs_its_own_objects_only() -> Result<()> {
    let config = CatalogConfig {
        member_ttl: Duration::from_secs(2),
        ..CatalogConfig::default()
    };
    let master = master(config).await;
    let one = Node::start(node_options(&master, "one")).await?;
    let _two = Node::start(node_options(&master, "two")).await?;
    let store = connect(&master).await;
    let on = |name| PutOptions::default().preferring([name]);
    let value = payload(100_000, 3);
    store.put_parts("on-one", &[&value], &on("one")).await?;
    store.put_parts("on-two", &[&value], &on("two")).await?;
    store
        .put_parts("on-both", &[&value], &PutOptions::replicas(2))
        .await?;
    drop(one);
    let keys: [&[u8]; 4] = [b"on-two", b"never", b"on-one", b"on-both"];
    let began = std::time::Instant::now();
    let answers = store.get_many(&keys).await;
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(answers[0].as_ref().unwrap().as_deref(), Some(&value[..]));
    assert_eq!(answers[1].as_ref().unwrap(), &None);
    assert!(answers[2].is_err(), "{:?}", answers[2]);
    assert_eq!(answers[3].as_ref().unwrap().as_deref(), Some(&value[..]));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(
        store.get("on-one").await?,
        None,
        "after the time to live it is a miss"
    );
    assert_eq!(
        store.put("on-one", &value).await?,
        PutOutcome::Stored { replicas: 1 }
    );
    Ok(())
}

#[tokio::test]
async fn a_restarted_master_gets_its_nodes_and_clients_back() -> Result<()> {
    let first = master(CatalogConfig::default()).await;
    let address = first.address();
    let _one = Node::start(node_options(&first, "one")).await?;
    let store = connect(&first).await;
    store.put("before", b"1").await?;
    first.stop().await;
    let options = MasterOptions {
        listen: address,
        admin: None,
        state_dir: None,
        catalog: CatalogConfig::default(),
        clock: Arc::new(SystemClock::default()),
    };
    let second = Master::start(options).await?;
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while second.partition().stats_now().objects == 0 {
        assert!(std::time::Instant::now() < deadline, "the node comes back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.get("before").await?.as_deref(), Some(&b"1"[..]));
    assert_eq!(
        store.put("after", b"2").await?,
        PutOutcome::Stored { replicas: 1 }
    );
    assert_eq!(store.get("after").await?.as_deref(), Some(&b"2"[..]));
    Ok(())
}

#[tokio::test]
async fn a_taken_name_and_a_taken_port_are_refused_by_name() -> Result<()> {
    let master = master(CatalogConfig::default()).await;
    let one = Node::start(node_options(&master, "one")).await?;
    let taken = Node::start(node_options(&master, "one")).await.unwrap_err();
    assert_eq!(taken.code(), Code::SegmentAlreadyExists, "{taken}");
    let port: SocketAddr = one.address().parse().unwrap();
    let busy = Node::start(NodeOptions {
        listen: port,
        ..node_options(&master, "three")
    })
    .await
    .unwrap_err();
    assert!(busy.what().contains(&port.to_string()), "{busy}");
    one.stop(Duration::ZERO).await;
    assert_eq!(master.partition().stats_now().segments, 0);
    Ok(())
}
