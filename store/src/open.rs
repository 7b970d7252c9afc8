//! A store in this process.

use crate::{
    blocking::Blocking,
    clock::SystemClock,
    local::{LocalData, LocalNode},
};
use std::{fmt, ops::Deref, path::PathBuf, sync::Arc};
use ziggurat_base::{
    ByteCount, Clock, Code, Era, Error, Result,
    memory::{Pages, Region, RegionOptions},
};
use ziggurat_client::Client;
use ziggurat_engine::{
    catalog,
    command::{MemberOffer, SegmentOffer, SegmentStat, Stats},
    journey::Patience,
    port::Ports,
};
use ziggurat_master::{EraStore, Partition};
use ziggurat_tiers::dram::DramTier;

/// What an in-process store should be.
#[derive(Clone)]
pub struct OpenOptions {
    /// Memory for payloads.
    pub dram: ByteCount,
    /// Into how many segments of equal size it is divided; more than one allows several replicas.
    pub segments: u16,
    /// Which pages to ask for.
    pub pages: Pages,
    /// Touch all memory at the start, so that no put pays for it later. Takes some 0.6 s for each GiB.
    pub populate: bool,
    /// Bind the memory to this NUMA node.
    pub numa_node: Option<u32>,
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
            dram: ByteCount::mib(256),
            segments: 1,
            pages: Pages::Normal,
            populate: false,
            numa_node: None,
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
            .field("dram", &self.dram)
            .field("segments", &self.segments)
            .field("catalog", &self.catalog)
            .finish_non_exhaustive()
    }
}

/// A store: used like the [`Client`] that it dereferences to. Clones share it; the memory goes with the last one.
#[derive(Clone, Debug)]
pub struct Store {
    client: Client,
    partition: Arc<Partition>,
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
        check(&options)?;
        let eras = EraStore::open(options.state_dir.as_deref())?;
        let partition = Partition::open(options.catalog.clone(), options.clock.clone(), eras)?;
        let offer = MemberOffer {
            address: "".into(),
            in_process: true,
        };
        let member = partition.join_now(&offer)?.member;
        let tier = Arc::new(DramTier::new(member));
        let node = LocalNode {
            tier: tier.clone(),
            partition: Arc::downgrade(&partition),
            member,
        };
        partition.attach(member, Arc::new(node));
        for number in 0..options.segments {
            let len = options.dram.0 / u64::from(options.segments);
            let name = format!("local-{number}");
            let region = Region::create(&RegionOptions {
                len,
                pages: options.pages,
                populate: options.populate,
                numa_node: options.numa_node,
                name: name.clone(),
            })?;
            let offer = SegmentOffer {
                name: name.into(),
                capacity: ByteCount(len),
                highest_era: Era(0),
            };
            let id = partition.mount_now(member, &offer)?;
            tier.mount(id, region)?;
        }
        let ports = Ports {
            clock: options.clock,
            metadata: Arc::new(partition.session(member)),
            data: Arc::new(LocalData { tier }),
        };
        let tenant = partition.tenant_now(&options.tenant)?;
        Ok(Self {
            client: Client::new(ports, tenant, options.patience),
            partition,
        })
    }

    /// The same store for callers without an async runtime.
    #[must_use]
    pub fn blocking(self) -> Blocking {
        Blocking::new(self)
    }

    /// The metadata partition in numbers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.partition.stats_now()
    }

    /// The segments.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentStat> {
        self.partition.segments_now()
    }
}

fn check(options: &OpenOptions) -> Result<()> {
    let wrong = |what: String| Err(Error::new(Code::InvalidParams, what));
    if options.segments == 0 {
        return wrong("0 segments: the memory needs at least 1".into());
    }
    let least = 4096 * u64::from(options.segments);
    if options.dram.0 < least {
        return wrong(format!(
            "{} of memory is too little: give at least {}",
            options.dram,
            ByteCount(least)
        ));
    }
    let Some(available) = available_memory() else {
        return Ok(());
    };
    if options.dram > available {
        return Err(Error::new(
            Code::NoAvailableHandle,
            format!(
                "{} of memory was asked for, this machine has {available} available: give less",
                options.dram
            ),
        ));
    }
    Ok(())
}

/// What the kernel says is available without swapping; `None` where it does not say.
fn available_memory() -> Option<ByteCount> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteCount::kib(kib))
}
