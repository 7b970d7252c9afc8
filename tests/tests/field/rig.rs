//! Stores to test with: one in process, one as a cluster over loopback in one process.

use std::{net::SocketAddr, sync::Arc, time::Duration};
use ziggurat_base::ByteCount;
use ziggurat_store::{
    CatalogConfig, ConnectOptions, Master, MasterOptions, MemoryOptions, Node, NodeOptions,
    OpenOptions, Store, SystemClock,
};
pub(crate) use ziggurat_tests::field::payload;

pub(crate) const ANY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Leases short enough for a test to wait for.
pub(crate) fn config(lease_ms: u64) -> CatalogConfig {
    CatalogConfig {
        lease: Duration::from_millis(lease_ms),
        member_ttl: Duration::from_secs(2),
        ..CatalogConfig::default()
    }
}

/// A store in process with segments of `mib` MiB.
pub(crate) fn in_process(config: CatalogConfig, mib: u64, segments: u16) -> Store {
    Store::open(OpenOptions {
        memory: MemoryOptions {
            dram: ByteCount::mib(mib * u64::from(segments)),
            segments,
            ..MemoryOptions::default()
        },
        catalog: config,
        ..OpenOptions::default()
    })
    .expect("an in-process store opens")
}

/// A master with its nodes.
pub(crate) struct Cluster {
    pub(crate) master: Master,
    pub(crate) nodes: Vec<Node>,
}

impl Cluster {
    /// Nodes of `mib` MiB each, with segments named `n0`, `n1`, …
    pub(crate) async fn start(config: CatalogConfig, mib: u64, nodes: usize) -> Self {
        let options = MasterOptions {
            listen: ANY,
            admin: None,
            state_dir: None,
            catalog: config,
            clock: Arc::new(SystemClock::default()),
        };
        let master = Master::start(options).await.expect("a master starts");
        let mut cluster = Self {
            master,
            nodes: Vec::new(),
        };
        for number in 0..nodes {
            let options = NodeOptions {
                ssd: Default::default(),
                dfs: Default::default(),
                eager: true,
                master: cluster.master.address().to_string(),
                listen: ANY,
                advertise: None,
                admin: None,
                segment_name: format!("n{number}"),
                memory: MemoryOptions {
                    dram: ByteCount::mib(mib),
                    ..MemoryOptions::default()
                },
                session: Default::default(),
                limits: Default::default(),
                patience: Duration::from_secs(10),
            };
            cluster
                .nodes
                .push(Node::start(options).await.expect("a node starts"));
        }
        cluster
    }

    pub(crate) async fn connect(&self) -> Store {
        let options = ConnectOptions::new(self.master.address().to_string());
        Store::connect(options).await.expect("a client connects")
    }
}
