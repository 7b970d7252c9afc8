//! A store in this process.

use crate::{
    beside::Beside,
    blocking::Blocking,
    clock::SystemClock,
    local::{LocalData, LocalNode},
    ssd::Background,
};
use std::{fmt, ops::Deref, path::PathBuf, sync::Arc};
use ziggurat_base::{ByteCount, Clock, Code, Era, Error, MemberId, Result};
use ziggurat_client::{Client, Remote, RemoteOptions};
use ziggurat_dfs::Options as DfsOptions;
use ziggurat_engine::{
    catalog::{self, OffloadMode},
    command::{Keep, MemberOffer, SegmentOffer, SegmentStat, Stats},
    journey::Patience,
    port::{DataPlane, Ports},
};
use ziggurat_master::{EraStore, Partition};
use ziggurat_node::{Keeper, MemoryOptions, Node, SsdOptions, ssd::Opened};
use ziggurat_proto::SessionOptions;
use ziggurat_tiers::{dram::DramTier, ssd::Stats as TierStats};
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
            dfs: DfsOptions::default(),
            carries: false,
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
    /// Directories on SSD that outlive the process.
    pub ssd: SsdOptions,
    /// Where the era and what must not come back are kept; a folder of the first SSD directory when not set, and without
    /// one the clock of the machine stands in.
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
            ssd: SsdOptions::default(),
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
    /// Serves the SSD directories of this process.
    background: Option<Arc<Background>>,
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
        // Disks live in real time, whatever clock the catalog has.
        let real: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let opened = options.ssd.open("local-ssd", &real)?;
        let eras = EraStore::open(state_dir(&options)?.as_deref())?;
        let partition = Partition::open(options.catalog.clone(), options.clock.clone(), eras)?;
        let offer = MemberOffer {
            address: "".into(),
            in_process: true,
            feed: !opened.is_empty(),
            promotes: !opened.is_empty(),
        };
        let member = partition.join_now(&offer)?.member;
        let tier = Arc::new(DramTier::new(member));
        let directories = opened.iter().map(|one| one.directory.clone()).collect();
        let eager = options.catalog.offload == OffloadMode::Eager;
        let keeper = Arc::new(Keeper::new(tier.clone(), directories, eager));
        let node = LocalNode {
            tier: tier.clone(),
            partition: Arc::downgrade(&partition),
            member,
            keeper: keeper.clone(),
        };
        partition.attach(member, Arc::new(node));
        for (number, region) in regions.into_iter().enumerate() {
            let offer = SegmentOffer {
                name: format!("local-{number}").into(),
                capacity: ByteCount(region.len()),
                highest_era: Era(0),
                keep: Keep::Delegated,
                stock: Default::default(),
            };
            let id = partition.mount_now(member, &offer)?;
            tier.mount_shared(id, region)?;
            keeper.add_memory(id);
        }
        let background = serve(&keeper, opened, &partition, (member, real))?;
        let ports = Ports {
            clock: options.clock,
            metadata: Arc::new(partition.session(member)),
            data: Arc::new(LocalData { tier, keeper }),
        };
        let tenant = partition.tenant_now(&options.tenant)?;
        Ok(Self {
            client: Client::new(ports, tenant, options.patience),
            home: Home::Here(partition),
            background,
        })
    }

    /// Connects to a cluster. Needs a tokio runtime; see [`Blocking::connect`] for callers without one.
    ///
    /// # Errors
    /// As [`Remote::connect`].
    pub async fn connect(options: ConnectOptions) -> Result<Self> {
        let (remote, clock) = reach(options.remote).await?;
        let data = remote.clone();
        Ok(Self::over(remote, data, clock, options.patience))
    }

    /// Connects to the cluster that a node of this process belongs to: what lies on that node is copied by the calling
    /// thread, without a socket. The node may end before the store.
    ///
    /// # Errors
    /// As [`Remote::connect`].
    pub async fn connect_beside(options: ConnectOptions, node: &Node) -> Result<Self> {
        let (remote, clock) = reach(options.remote).await?;
        let data = Arc::new(Beside::new(remote.clone(), node));
        Ok(Self::over(remote, data, clock, options.patience))
    }

    fn over(
        remote: Arc<Remote>,
        data: Arc<dyn DataPlane>,
        clock: Arc<dyn Clock>,
        patience: Patience,
    ) -> Self {
        let ports = Ports {
            clock,
            metadata: remote.clone(),
            data,
        };
        Self {
            client: Client::new(ports, remote.tenant(), patience),
            home: Home::There(remote),
            background: None,
        }
    }

    /// The same store for callers without an async runtime.
    #[must_use]
    pub fn blocking(self) -> Blocking {
        Blocking::new(self)
    }

    /// Says goodbye to a cluster: guards are given back at once instead of running out, open writes are void. In process:
    /// waits until everything that was put is on SSD, if there is one.
    pub async fn close(&self) {
        if let Home::There(remote) = &self.home {
            remote.close().await;
        }
        if let Some(background) = &self.background {
            background.keeper.drained().await;
            background.keeper.seal().await;
        }
    }

    /// The SSD directories of this process in numbers, added up; `None` without any.
    #[must_use]
    pub fn ssd(&self) -> Option<SsdStats> {
        let background = self.background.as_ref()?;
        let tiers = background.keeper.tiers().map(|tier| tier.stats());
        Some(SsdStats {
            recovered: background.recovered,
            total: tiers.fold(TierStats::default(), add),
        })
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

/// Connects to a cluster, on the machine's clock.
async fn reach(options: RemoteOptions) -> Result<(Arc<Remote>, Arc<dyn Clock>)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    Ok((Remote::connect(options, clock.clone()).await?, clock))
}

/// The SSD directories of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdStats {
    /// Records that were found when the directories were opened.
    pub recovered: u64,
    /// All directories together.
    pub total: TierStats,
}

fn add(sum: TierStats, one: TierStats) -> TierStats {
    TierStats {
        records: sum.records + one.records,
        logical_bytes: sum.logical_bytes + one.logical_bytes,
        live_bytes: sum.live_bytes + one.live_bytes,
        file_bytes: sum.file_bytes + one.file_bytes,
        unwritten_bytes: sum.unwritten_bytes + one.unwritten_bytes,
        capacity: sum.capacity + one.capacity,
        logical_cap: sum.logical_cap + one.logical_cap,
        files: sum.files + one.files,
        index_bytes: sum.index_bytes + one.index_bytes,
        written: sum.written + one.written,
        written_bytes: sum.written_bytes + one.written_bytes,
        stored_bytes: sum.stored_bytes + one.stored_bytes,
        compressed: sum.compressed + one.compressed,
        device_bytes: sum.device_bytes + one.device_bytes,
        copied: sum.copied + one.copied,
        copied_bytes: sum.copied_bytes + one.copied_bytes,
        reads: sum.reads + one.reads,
        read_bytes: sum.read_bytes + one.read_bytes,
        rotten: sum.rotten + one.rotten,
        mismatched: sum.mismatched + one.mismatched,
        evicted: sum.evicted + one.evicted,
        discarded: sum.discarded + one.discarded,
        write_errors: sum.write_errors + one.write_errors,
        budget: sum.budget + one.budget,
        full: sum.full || one.full,
    }
}

/// Where the durable facts of the partition are kept.
fn state_dir(options: &OpenOptions) -> Result<Option<PathBuf>> {
    if options.state_dir.is_some() {
        return Ok(options.state_dir.clone());
    }
    let Some(first) = options.ssd.directories.first() else {
        return Ok(None);
    };
    let path = first.state_dir();
    std::fs::create_dir_all(&path).map_err(|error| {
        Error::new(
            Code::PersistentFail,
            format!(
                "{} cannot be made: {error}: check permissions",
                path.display()
            ),
        )
    })?;
    Ok(Some(path))
}

/// Mounts the directories and starts the thread that serves them.
fn serve(
    keeper: &Arc<Keeper>,
    opened: Vec<Opened>,
    partition: &Arc<Partition>,
    (member, clock): (MemberId, Arc<dyn Clock>),
) -> Result<Option<Arc<Background>>> {
    if opened.is_empty() {
        return Ok(None);
    }
    pollster::block_on(keeper.mount(&**partition, member))?;
    let background = Background::start(keeper.clone(), opened, partition.clone(), member, clock)?;
    // Everything that the directories hold is readable when the store is open.
    pollster::block_on(keeper.told());
    Ok(Some(Arc::new(background)))
}
