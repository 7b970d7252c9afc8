//! A store in this process.

use crate::{
    blocking::Blocking,
    clock::SystemClock,
    local::{LocalData, LocalNode},
};
use std::{fmt, ops::Deref, path::PathBuf, sync::Arc};
use ziggurat_base::{ByteCount, Clock, Era, Result};
use ziggurat_client::{Client, Remote, RemoteOptions};
use ziggurat_engine::{
    catalog,
    command::{Keep, MemberOffer, SegmentOffer, SegmentStat, Stats},
    journey::Patience,
    port::Ports,
};
use ziggurat_master::{EraStore, Partition};
use ziggurat_node::MemoryOptions;
use ziggurat_proto::SessionOptions;
use ziggurat_tiers::dram::DramTier;
use ziggurat_transport::client::PeerOptions;

/// Where a cluster is and how patient to be with it.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The cluster.
    pub remote: RemoteOptions,
    /// Bounds of the patience of calls.
    pub patience: Patience,
}

impl ConnectOptions {
    /// The tenant `default` at a master.
    #[must_use]
    pub fn new(master: impl Into<String>) -> Self {
        let remote = RemoteOptions {
            master: master.into(),
            tenant: "default".into(),
            session: SessionOptions::default(),
            peers: PeerOptions::default(),
        };
        Self {
            remote,
            patience: Patience::default(),
        }
    }
}

/// What an in-process store should be.
#[derive(Clone)]
pub struct OpenOptions {
    /// Memory for payloads; several segments allow several replicas.
    pub memory: MemoryOptions,
    /// Where the era is kept; without it the clock of the machine stands in.
    pub state_dir: Option<PathBuf>,
    /// Whose objects.
    pub tenant: String,
    /// Tunables of the metadata partition.
    pub catalog: catalog::Config,
    /// Bounds of the patience of calls.
    pub patience: Patience,
    /// Time; the machine's clock by default.
    pub clock: Arc<dyn Clock>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            memory: MemoryOptions {
                dram: ByteCount::mib(256),
                ..MemoryOptions::default()
            },
            state_dir: None,
            tenant: "default".into(),
            catalog: catalog::Config::default(),
            patience: Patience::default(),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("memory", &self.memory)
            .field("catalog", &self.catalog)
            .finish_non_exhaustive()
    }
}

/// Where the metadata of a store is.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// In this process.
    Here(Arc<Partition>),
    /// At a master.
    There(Arc<Remote>),
}

/// A store: used like the [`Client`] that it dereferences to. Clones share it; in process the memory goes with the last
/// one.
#[derive(Clone, Debug)]
pub struct Store {
    client: Client,
    home: Home,
}

impl Deref for Store {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Store {
    /// Opens a store in this process: catalog, memory and client, no socket.
    ///
    /// # Errors
    /// `InvalidParams` for numbers that cannot be, `NoAvailableHandle` when the machine does not have the memory,
    /// `PersistentFail` when the state directory cannot be used.
    pub fn open(options: OpenOptions) -> Result<Self> {
        let regions = options.memory.map(|number| format!("local-{number}"))?;
        let eras = EraStore::open(options.state_dir.as_deref())?;
        let partition = Partition::open(options.catalog.clone(), options.clock.clone(), eras)?;
        let offer = MemberOffer {
            address: "".into(),
            in_process: true,
            feed: false,
        };
        let member = partition.join_now(&offer)?.member;
        let tier = Arc::new(DramTier::new(member));
        let node = LocalNode {
            tier: tier.clone(),
            partition: Arc::downgrade(&partition),
            member,
        };
        partition.attach(member, Arc::new(node));
        for (number, region) in regions.into_iter().enumerate() {
            let offer = SegmentOffer {
                name: format!("local-{number}").into(),
                capacity: ByteCount(region.len()),
                highest_era: Era(0),
                keep: Keep::Delegated,
            };
            let id = partition.mount_now(member, &offer)?;
            tier.mount_shared(id, region)?;
        }
        let ports = Ports {
            clock: options.clock,
            metadata: Arc::new(partition.session(member)),
            data: Arc::new(LocalData { tier }),
        };
        let tenant = partition.tenant_now(&options.tenant)?;
        Ok(Self {
            client: Client::new(ports, tenant, options.patience),
            home: Home::Here(partition),
        })
    }

    /// Connects to a cluster. Needs a tokio runtime; see [`Blocking::connect`] for callers without one.
    ///
    /// # Errors
    /// As [`Remote::connect`].
    pub async fn connect(options: ConnectOptions) -> Result<Self> {
        let remote = Remote::connect(options.remote).await?;
        let ports = Ports {
            clock: Arc::new(SystemClock::default()),
            metadata: remote.clone(),
            data: remote.clone(),
        };
        let client = Client::new(ports, remote.tenant(), options.patience);
        Ok(Self {
            client,
            home: Home::There(remote),
        })
    }

    /// The same store for callers without an async runtime.
    #[must_use]
    pub fn blocking(self) -> Blocking {
        Blocking::new(self)
    }

    /// Says goodbye to a cluster: guards are given back at once instead of running out, open writes are void. Nothing to
    /// do in process.
    pub async fn close(&self) {
        if let Home::There(remote) = &self.home {
            remote.close().await;
        }
    }

    /// The metadata partition in numbers.
    ///
    /// # Errors
    /// When the master cannot be asked; never in process.
    pub async fn stats(&self) -> Result<Stats> {
        match &self.home {
            Home::Here(partition) => Ok(partition.stats_now()),
            Home::There(remote) => remote.stats().await,
        }
    }

    /// The segments.
    ///
    /// # Errors
    /// When the master cannot be asked; never in process.
    pub async fn segments(&self) -> Result<Vec<SegmentStat>> {
        match &self.home {
            Home::Here(partition) => Ok(partition.segments_now()),
            Home::There(remote) => remote.segments().await,
        }
    }
}
