//! A master and nodes as processes, and the two checks with which every test ends: nobody has died, and the accounting is
//! back at its base.

use super::{party::Party, proxy::Proxy};
use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_engine::command::Keep;
use ziggurat_store::{ConnectOptions, DfsOptions, Force, PutOptions, RootPath, Store};

/// Whatever is bound to happen happens within this time, also on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Size of a root that a node makes.
pub(crate) const ROOT_MIB: u64 = 64;

/// Spans of the master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) lease_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) discard_ms: u64,
    pub(crate) release_ms: u64,
    pub(crate) watermark: f64,
}

impl Spans {
    /// Spans within which nobody who comes back at once has been given up, also on a machine that is busy with other things.
    pub(crate) const PATIENT: Self = Self {
        lease_ms: 300,
        ttl_ms: 20_000,
        discard_ms: 600,
        release_ms: 1500,
        watermark: 1.0,
    };
}

impl Default for Spans {
    fn default() -> Self {
        Self {
            lease_ms: 300,
            // Longer than a busy machine keeps a process from its processor.
            ttl_ms: 3000,
            discard_ms: 600,
            release_ms: 1500,
            watermark: 1.0,
        }
    }
}

/// A node that a test wants.
#[derive(Clone)]
pub(crate) struct NodeWish<'a> {
    pub(crate) name: &'a str,
    pub(crate) mib: u64,
    /// Where it reaches the master, when not directly.
    pub(crate) master: Option<String>,
    pub(crate) listen: Option<String>,
    /// What clients go through to reach it.
    pub(crate) proxy: Option<&'a Proxy>,
    pub(crate) grace_ms: u64,
    /// Its directory on SSD.
    pub(crate) ssd: Option<&'a Path>,
    /// What it may take of it.
    pub(crate) ssd_mib: u64,
    /// A root of shard files that it carries.
    pub(crate) dfs: Option<&'a Path>,
}

impl<'a> NodeWish<'a> {
    /// A node that is reached directly, with its only segment called as itself.
    pub(crate) fn new(name: &'a str, mib: u64) -> Self {
        Self {
            name,
            mib,
            master: None,
            listen: None,
            proxy: None,
            grace_ms: 0,
            ssd: None,
            ssd_mib: 256,
            dfs: None,
        }
    }

    /// The same with a directory on SSD.
    pub(crate) fn on(self, disk: &'a Path) -> Self {
        Self {
            ssd: Some(disk),
            ..self
        }
    }

    /// The same with a root of shard files; who comes first makes it.
    pub(crate) fn carrying(self, root: &'a Path) -> Self {
        Self {
            dfs: Some(root),
            ..self
        }
    }

    /// The same behind a proxy.
    pub(crate) fn behind(self, proxy: &'a Proxy) -> Self {
        Self {
            proxy: Some(proxy),
            ..self
        }
    }
}

/// See the module.
pub(crate) struct Cluster {
    pub(crate) master: Party,
    /// The second in which it had started at the latest.
    started: u64,
    /// What a master in its place is started with.
    arguments: Vec<String>,
    address: String,
    nodes: BTreeMap<String, (Party, String)>,
}

impl Cluster {
    /// A master without nodes.
    pub(crate) async fn start(spans: Spans) -> Self {
        Self::keeping(spans, None).await
    }

    /// The same, with a state directory.
    pub(crate) async fn keeping(spans: Spans, state: Option<&Path>) -> Self {
        let mut arguments = vec![
            "master".to_owned(),
            format!("--lease-ms={}", spans.lease_ms),
            format!("--ttl-ms={}", spans.ttl_ms),
            format!("--discard-ms={}", spans.discard_ms),
            format!("--release-ms={}", spans.release_ms),
            format!("--watermark={}", spans.watermark),
        ];
        arguments.extend(state.map(|dir| format!("--state-dir={}", dir.display())));
        let mut master = Party::start(&arguments);
        let address = address_of(&master.line().await);
        arguments.push(format!("--listen={address}"));
        Self {
            master,
            started: second(),
            arguments,
            address,
            nodes: BTreeMap::new(),
        }
    }

    /// `kill -9` for the master, and another one at its place.
    pub(crate) async fn restart_master(&mut self) {
        self.master.kill();
        self.start_master().await;
    }

    /// A master at the place of one that was killed. Without a state directory its era is the second in which it starts,
    /// which has to be a later one.
    pub(crate) async fn start_master(&mut self) {
        while second() <= self.started {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.master = Party::start(&self.arguments);
        assert_eq!(address_of(&self.master.line().await), self.address);
        self.started = second();
    }

    /// A master with nodes of `mib` MiB.
    pub(crate) async fn of(spans: Spans, names: &[&str], mib: u64) -> Self {
        let mut cluster = Self::start(spans).await;
        for name in names {
            cluster.add(&NodeWish::new(name, mib)).await;
        }
        cluster
    }

    /// Starts a node and waits until it has mounted.
    pub(crate) async fn add(&mut self, wish: &NodeWish<'_>) {
        let master = wish.master.as_ref().unwrap_or(&self.address);
        let mut arguments = vec![
            "node".to_owned(),
            format!("--master={master}"),
            format!("--name={}", wish.name),
            format!("--mib={}", wish.mib),
            format!("--grace-ms={}", wish.grace_ms),
        ];
        arguments.extend(wish.listen.as_ref().map(|at| format!("--listen={at}")));
        let advertised = wish.proxy.map(Proxy::address);
        arguments.extend(advertised.map(|at| format!("--advertise={at}")));
        let ssd = wish
            .ssd
            .map(|dir| format!("--ssd={}:{}MiB", dir.display(), wish.ssd_mib));
        arguments.extend(ssd);
        let dfs = wish
            .dfs
            .map(|dir| format!("--dfs={}:{ROOT_MIB}MiB", dir.display()));
        arguments.extend(dfs);
        let mut node = Party::start(&arguments);
        let line = node.line().await;
        node.admin = line["admin"].as_str().map(str::to_owned);
        let address = address_of(&line);
        if let Some(proxy) = wish.proxy {
            proxy.aim(&address);
        }
        self.nodes.insert(wish.name.to_owned(), (node, address));
    }

    /// Where the master is reached.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The process of a node.
    pub(crate) fn node(&self, name: &str) -> &Party {
        &self.nodes[name].0
    }

    /// Takes a node out of those that have to live; where it listened is told with it.
    pub(crate) fn take(&mut self, name: &str) -> (Party, String) {
        self.nodes.remove(name).expect("a node of this name")
    }

    /// `kill -9` for a node; returns where it listened.
    pub(crate) fn kill(&mut self, name: &str) -> String {
        let (mut node, address) = self.take(name);
        node.kill();
        address
    }

    /// A client in this process.
    pub(crate) async fn connect(&self) -> Store {
        let options = ConnectOptions::new(&self.address);
        Store::connect(options).await.expect("a client connects")
    }

    /// A client in this process that has a root mounted.
    pub(crate) async fn connect_with(&self, root: &Path) -> Store {
        self.connect_as(root, None, false).await
    }

    /// The same, which makes the root and carries its shard files.
    pub(crate) async fn connect_carrying(&self, root: &Path) -> Store {
        self.connect_as(root, Some(ByteCount::mib(ROOT_MIB)), true)
            .await
    }

    async fn connect_as(&self, root: &Path, size: Option<ByteCount>, carries: bool) -> Store {
        let mut options = ConnectOptions::new(&self.address);
        options.remote.dfs = DfsOptions {
            roots: vec![RootPath {
                path: root.to_owned(),
                size,
            }],
            staging: ByteCount::mib(32),
            ..DfsOptions::default()
        };
        options.remote.carries = carries;
        Store::connect(options).await.expect("a client connects")
    }

    /// A process that puts one object; it has connected.
    pub(crate) async fn writer(&self, key: &str, len: usize, salt: u64) -> Party {
        let mut writer = Party::start(&[
            "put".to_owned(),
            format!("--master={}", self.address),
            format!("--key={key}"),
            format!("--len={len}"),
            format!("--salt={salt}"),
        ]);
        assert_eq!(writer.line().await["connected"], true);
        writer
    }

    /// Waits until the master knows so many segments.
    pub(crate) async fn segments(&self, store: &Store, count: usize) {
        eventually("the segments are as many as expected", async || {
            let segments = store.segments().await;
            segments.is_ok_and(|segments| segments.len() == count)
        })
        .await;
    }

    /// The two common checks, and an orderly end.
    pub(crate) async fn finish(mut self) {
        self.master.assert_alive();
        self.nodes
            .values_mut()
            .for_each(|(node, _)| node.assert_alive());
        let store = self.connect().await;
        store
            .remove_matching("", Force::Yes)
            .await
            .expect("removed");
        let nodes = self.nodes.len();
        eventually("the accounting returns to its base", async || {
            let stats = store.stats().await.expect("the master answers");
            let segments = store.segments().await.expect("the master answers");
            let given = segments.iter().filter(|s| s.keep == Keep::Delegated);
            let (count, capacity) = given.fold((0, 0), |(n, all), s| (n + 1, all + s.capacity.0));
            // What was in shard files cools for longer than anybody waits.
            let kept = segments
                .iter()
                .filter(|s| !matches!(s.keep, Keep::Shared { .. }));
            let held: u64 = kept.map(|s| s.used.0 + s.replicas).sum();
            let objects = stats.objects + stats.extents + stats.used + held;
            let writes = stats.writes_open + stats.writes_closing;
            (objects, writes, count) == (0, 0, nodes) && stats.capacity == capacity
        })
        .await;
        store.close().await;
        for (node, _) in self.nodes.values_mut() {
            node.terminate();
            assert!(node.end().await.success(), "a node ends in order");
        }
        self.master.terminate();
        assert!(
            self.master.end().await.success(),
            "the master ends in order"
        );
    }
}

/// The second that it is, by the clock of the machine.
fn second() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is set").as_secs()
}

/// Where a party listens, by the first line that it tells.
fn address_of(line: &serde_json::Value) -> String {
    let address = line["address"].as_str();
    address
        .unwrap_or_else(|| panic!("it did not start: {line}"))
        .to_owned()
}

/// Polls until `is_so`.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Awaits a call and asserts that it ended within `limit`.
pub(crate) async fn within<T>(limit: Duration, what: &str, call: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let answer = call.await;
    let took = began.elapsed();
    assert!(took < limit, "{what} took {took:?}, the limit is {limit:?}");
    answer
}

/// Puts on a named segment.
pub(crate) async fn put_on(store: &Store, segment: &str, key: &str, value: &[u8]) -> Result<()> {
    let options = PutOptions::default().preferring([segment]);
    store.put_parts(key, &[value], &options).await.map(drop)
}

/// Whether an error says that a node cannot be reached, or not in time, or has not got the bytes any more: neither a
/// value nor a miss.
pub(crate) fn is_unavailable(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::RpcFail
            | Code::RpcTimeout
            | Code::TransferFail
            | Code::ClientNotFound
            | Code::ReplicaIsGone
            | Code::LeaseExpired
    )
}
