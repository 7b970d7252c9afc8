//! SSD directories in a cluster, over loopback: objects leave memory and are read back from another process' point of
//! view, a node that restarts is warm, and what was removed while it was away stays away.
#![forbid(unsafe_code)]

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use ziggurat_base::ByteCount;
use ziggurat_engine::command::Keep;
use ziggurat_store::{
    CatalogConfig, ConnectOptions, Force, Master, MasterOptions, MemoryOptions, Node, NodeOptions,
    Prefetched, Priority, PutOptions, PutRequest, SsdOptions, SsdPath, Store, SystemClock,
};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn master(state: &Path) -> Master {
    let options = MasterOptions {
        listen: ANY,
        admin: None,
        state_dir: Some(state.into()),
        catalog: CatalogConfig {
            member_ttl: Duration::from_secs(2),
            lease: Duration::from_secs(2),
            ..CatalogConfig::default()
        },
        clock: Arc::new(SystemClock::default()),
    };
    Master::start(options).await.expect("a master starts")
}

async fn node(master: &Master, name: &str, dram: u64, ssd: Option<&Path>) -> Node {
    let directories = ssd.map(|path| SsdPath {
        path: path.into(),
        size: Some(ByteCount::mib(256)),
    });
    let options = NodeOptions {
        master: master.address().to_string(),
        listen: ANY,
        advertise: None,
        admin: None,
        segment_name: name.into(),
        memory: MemoryOptions {
            dram: ByteCount::mib(dram),
            ..MemoryOptions::default()
        },
        dfs: Default::default(),
        ssd: SsdOptions {
            directories: directories.into_iter().collect(),
            file_bytes: ByteCount::mib(8),
            staging: ByteCount::mib(32),
            ..SsdOptions::default()
        },
        eager: true,
        session: Default::default(),
        limits: Default::default(),
        patience: Duration::from_secs(10),
    };
    Node::start(options).await.expect("a node starts")
}

async fn connect(master: &Master) -> Store {
    let options = ConnectOptions::new(master.address().to_string());
    Store::connect(options).await.expect("a client connects")
}

fn payload(number: usize) -> Vec<u8> {
    let len = [100, 70_000, 300_000, 1_000_000][number % 4] + number;
    (0..len)
        .map(|i| (i * 13 + number * 5 + i / 251) as u8)
        .collect()
}

fn key(number: usize) -> String {
    format!("object/{number}")
}

/// Waits until the store says so; a condition that never comes fails the test.
async fn until(what: &str, mut ready: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !ready().await {
        assert!(Instant::now() < end, "{what} did not come");
        sleep(Duration::from_millis(20)).await;
    }
}

const COUNT: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_leave_memory_and_are_read_back_from_ssd() {
    let (state, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = master(state.path()).await;
    let _node = node(&master, "one", 16, Some(disk.path())).await;
    let store = connect(&master).await;
    for number in 0..COUNT {
        store.put(key(number), payload(number)).await.unwrap();
    }
    for number in 0..COUNT {
        assert_eq!(
            store.get(key(number)).await.unwrap(),
            Some(payload(number)),
            "{number}"
        );
    }
    let keys: Vec<_> = (0..COUNT).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    for (number, value) in store.get_many(&keys).await.into_iter().enumerate() {
        assert!(value.unwrap() == Some(payload(number)), "{number}");
    }
    let part = store
        .get_range(key(3), 100_000, 200_000)
        .await
        .unwrap()
        .unwrap();
    assert!(part == payload(3)[100_000..300_000]);
    let stats = store.stats().await.unwrap();
    assert_eq!(
        (stats.objects, stats.unkept),
        (COUNT as u64, 0),
        "{stats:?}"
    );
    assert!(stats.demoted > 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wished_for_is_copied_into_the_memory_of_its_node() {
    let (state, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = master(state.path()).await;
    let _node = node(&master, "one", 32, Some(disk.path())).await;
    let store = connect(&master).await;
    for number in 0..COUNT {
        store.put(key(number), payload(number)).await.unwrap();
    }
    let in_memory = async |number: usize| {
        let stat = store.stat(key(number)).await.unwrap().expect("it is there");
        let segments = store.segments().await.unwrap();
        let best = stat.replicas.as_slice()[0].placement.segment;
        let mut memory = segments.iter().filter(|s| s.keep == Keep::Delegated);
        memory.any(|segment| segment.id == best)
    };
    assert!(!in_memory(0).await, "the oldest have left memory");
    let keys: Vec<_> = (0..8).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let answers = store.prefetch_many(&keys, Priority::Normal).await;
    let is_coming = |answer: &Result<Option<Prefetched>, _>| {
        matches!(
            answer,
            Ok(Some(Prefetched::InMemory | Prefetched::UnderWay))
        )
    };
    assert!(answers.iter().all(is_coming), "{answers:?}");
    for number in 0..8 {
        until("an object in memory", async || in_memory(number).await).await;
        assert!(store.get(key(number)).await.unwrap() == Some(payload(number)));
    }
    let stopped = store.cancel_prefetch(&keys).await;
    assert_eq!(stopped, vec![Ok(Some(Prefetched::InMemory)); 8]);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.promoted, stats.unkept), (8, 0), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_is_warm_and_what_was_removed_meanwhile_stays_away() {
    let (state, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = master(state.path()).await;
    let first = node(&master, "one", 64, Some(disk.path())).await;
    let store = connect(&master).await;
    for number in 0..COUNT / 4 {
        store.put(key(number), payload(number)).await.unwrap();
    }
    until("the last object on SSD", async || {
        store.stats().await.unwrap().owned_replicas == COUNT as u64 / 4
    })
    .await;
    // As a crash would end it.
    drop(first);
    sleep(Duration::from_millis(300)).await;
    for number in (0..COUNT / 4).step_by(2) {
        let _gone = store.remove(key(number), Force::Yes).await;
    }
    let second = node(&master, "two", 64, Some(disk.path())).await;
    until("the other half at the new node", async || {
        let segments = store.segments().await.unwrap();
        let mut of_second = segments
            .iter()
            .filter(|s| s.member == second.member() && s.keep != Keep::Delegated);
        of_second.any(|s| s.replicas == COUNT as u64 / 8)
    })
    .await;
    for number in 0..COUNT / 4 {
        let expected = (number % 2 == 1).then(|| payload(number));
        assert!(
            store.get(key(number)).await.unwrap() == expected,
            "{number}"
        );
    }
    drop(second);
}

/// A client in the process of a node moves bytes of that node itself, and those of others over the network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_beside_a_node_needs_no_socket_for_what_is_there() {
    let (state, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = master(state.path()).await;
    let near = node(&master, "near", 16, Some(disk.path())).await;
    let options = ConnectOptions::new(master.address().to_string());
    let store = Store::connect_beside(options, &near).await.unwrap();
    // More than its memory holds, so that some are on its SSD alone.
    let is_near = |number: usize| !number.is_multiple_of(3);
    for number in (0..COUNT).filter(|number| is_near(*number)) {
        store.put(key(number), payload(number)).await.unwrap();
    }
    let far = node(&master, "far", 64, None).await;
    for number in (0..COUNT).filter(|number| !is_near(*number)) {
        let options = PutOptions::default().preferring(["far"]);
        let value = payload(number);
        let stored = store.put_parts(key(number), &[&value[..]], &options).await;
        stored.unwrap();
    }
    let keys: Vec<_> = (0..COUNT).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let two = PutOptions::replicas(2);
    let both = PutRequest::new(b"on both", &[b"value"]);
    assert!(store.put_many(&[both], &two).await.remove(0).is_ok());
    for (number, value) in store.get_many(&keys).await.into_iter().enumerate() {
        assert!(value.unwrap() == Some(payload(number)), "{number}");
    }
    let stats = store.stats().await.unwrap();
    assert!(stats.demoted > 0, "{stats:?}");
    let (near_counts, far_counts) = (near.counts(), far.counts());
    assert_eq!((near_counts.bytes_in, near_counts.bytes_out), (0, 0));
    assert!(far_counts.bytes_in > 0 && far_counts.bytes_out > 0);
    // It may end before the store.
    near.stop(Duration::ZERO).await;
    for number in 0..COUNT {
        let found = store.get(key(number)).await.unwrap();
        let right = (!is_near(number)).then(|| payload(number));
        assert!(found == right, "{number}");
    }
    assert_eq!(store.get("on both").await.unwrap(), Some(b"value".to_vec()));
}
