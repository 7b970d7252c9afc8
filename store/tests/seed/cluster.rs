//! A cluster in this process, whose master's clock the test can push on.

use crate::client::Foreign;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use ziggurat_base::{ByteCount, Clock, Job, Timestamp};
use ziggurat_engine::command::Stats;
use ziggurat_store::{
    CatalogConfig, ConnectOptions, Master, MasterOptions, MemoryOptions, Node, NodeOptions, Store,
    SystemClock,
};

pub(crate) const ANY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const LEASE: Duration = Duration::from_secs(10);

/// The machine's clock, and what the test adds to it.
#[derive(Clone, Default)]
struct Shifted {
    machine: SystemClock,
    extra: Arc<AtomicU64>,
}

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        let extra = self.extra.load(Ordering::SeqCst);
        self.machine.now().after(Duration::from_nanos(extra))
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }
}

pub(crate) struct Cluster {
    clock: Shifted,
    pub(crate) master: Master,
    pub(crate) nodes: Vec<Node>,
}

impl Cluster {
    /// Nodes of 16 MiB each, with segments named `n0`, `n1`, …
    pub(crate) async fn start(nodes: usize) -> Self {
        Self::start_with(nodes, Duration::from_secs(60)).await
    }

    /// The same, with a time to live of members.
    pub(crate) async fn start_with(nodes: usize, member_ttl: Duration) -> Self {
        let clock = Shifted::default();
        let options = MasterOptions {
            listen: ANY,
            admin: None,
            state_dir: None,
            catalog: CatalogConfig {
                lease: LEASE,
                member_ttl,
                paranoid: true,
                ..CatalogConfig::default()
            },
            clock: Arc::new(clock.clone()),
        };
        let mut cluster = Self {
            clock,
            master: Master::start(options).await.unwrap(),
            nodes: Vec::new(),
        };
        for number in 0..nodes {
            let master = cluster.master.address();
            cluster.add_node(&format!("n{number}"), master).await;
        }
        cluster
    }

    /// One more node, which finds its master at this address.
    pub(crate) async fn add_node(&mut self, name: &str, master: SocketAddr) {
        let options = NodeOptions {
            ssd: Default::default(),
            dfs: Default::default(),
            eager: true,
            master: master.to_string(),
            listen: ANY,
            advertise: None,
            admin: None,
            segment_name: name.into(),
            memory: MemoryOptions {
                dram: ByteCount::mib(16),
                ..MemoryOptions::default()
            },
            session: Default::default(),
            limits: Default::default(),
            patience: Duration::from_secs(10),
        };
        self.nodes.push(Node::start(options).await.unwrap());
    }

    pub(crate) async fn client(&self) -> Foreign {
        Foreign::connect(&self.master.address().to_string()).await
    }

    pub(crate) async fn store(&self) -> Store {
        let options = ConnectOptions::new(self.master.address().to_string());
        Store::connect(options).await.unwrap()
    }

    /// Lets the master's time pass until every lease is over.
    pub(crate) fn pass(&self) {
        self.pass_span(LEASE);
    }

    pub(crate) fn pass_span(&self, span: Duration) {
        self.clock
            .extra
            .fetch_add(span.as_nanos() as u64, Ordering::SeqCst);
    }

    pub(crate) fn stats(&self) -> Stats {
        self.master.partition().stats_now()
    }

    pub(crate) fn writes_open(&self) -> u64 {
        self.master.partition().stats_now().writes_open
    }
}

/// Waits for what comes by itself, at most 20 s.
pub(crate) async fn comes(what: &str, mut is_there: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_there() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn payload(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 31 / 7) as u8 ^ salt).collect()
}
