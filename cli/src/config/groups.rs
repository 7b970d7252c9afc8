//! Every setting, once. A line is: help, name, type, default, and the values that it takes.

use super::{
    address::Address,
    bounds::Bounds,
    flags::{ForNode, ForServe, Selection},
    listener::Listener,
    paths::Paths,
    ratio::Ratio,
    resolve::Resolver,
    setting::{Group, Setting, settings},
    value::Value,
};
use std::{net::SocketAddr, ops::Bound, path::PathBuf, time::Duration};
use ziggurat_base::ByteCount;
use ziggurat_store::{
    Ack, AllocatorKind, CatalogConfig, Codec, ConnectOptions, DfsOptions, Durability, LEVEL_MAX,
    LOGICAL_CAP_MIN, OffloadMode, OpenOptions, Patience, PlacementKind, PolicyKind, PromotionMode,
    RootPath, SsdOptions, SsdPath, WriteBudget,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Where a master listens and where it is looked for.
const MASTER_PORT: u16 = 50051;

/// The least memory of one segment.
const SEGMENT_LEAST: ByteCount = ByteCount::kib(4);

settings! {
    /// The metadata partition: leases, eviction, placement. Read by a master and by `serve`.
    partition: Partition {
        /// How long a reader's guard protects an object.
        lease: Duration = CatalogConfig::default().lease, in MILLISECOND..=DAY;
        /// After this time another writer of the key may take over an open write.
        put_start_discard_timeout: Duration = CatalogConfig::default().write_discard, in MILLISECOND..=DAY;
        /// After this time an open write is given up in any case.
        put_start_release_timeout: Duration = CatalogConfig::default().write_release, in MILLISECOND..=DAY;
        /// A node or client that is silent for longer is dead.
        client_ttl: Duration = CatalogConfig::default().member_ttl, in MILLISECOND * 100..=HOUR;
        /// Share of the memory above which objects are evicted ahead of need; 1 evicts on demand only.
        eviction_high_watermark_ratio: Ratio = Ratio(CatalogConfig::default().high_watermark),
            in (Bound::Excluded(Ratio(0.0)), Bound::Included(Ratio(1.0)));
        /// Share of the memory that is made free below the watermark once eviction has begun.
        eviction_ratio: Ratio = Ratio(CatalogConfig::default().evict_ratio), in Ratio(0.0)..Ratio(1.0);
        /// Who leaves when room is needed.
        eviction_policy: PolicyKind = CatalogConfig::default().policy;
        /// On which segments a new object goes.
        allocation_strategy: PlacementKind = CatalogConfig::default().placement;
        /// How the space of a segment is cut.
        memory_allocator: AllocatorKind = CatalogConfig::default().allocator;
        /// When objects in memory are taken over to SSD by nodes that have some: as soon as they are readable, when they are
        /// next to be evicted, or never.
        ssd_offload: OffloadMode = CatalogConfig::default().offload;
        /// When objects that are read from SSD come back into the memory beside it: when they are read again in time, at once, or
        /// never.
        ssd_promotion: PromotionMode = CatalogConfig::default().promotion;
        /// Within this time an object has to be read again to come back into memory.
        ssd_promotion_window: Duration = CatalogConfig::default().promotion_window, in MILLISECOND..=DAY;
        /// The most memory of a node that may wait for objects on their way from SSD, half of it for those that nobody wished
        /// for; never more than an eighth of its memory. At 0 nothing comes back.
        ssd_promotion_budget: ByteCount = CatalogConfig::default().promotion_budget;
        /// How long the space of a version in a shard file is kept when nobody may write or read it any more: longer than any
        /// writer may stall. At least twice client-ttl, too.
        dfs_cooling: Duration = CatalogConfig::default().dfs_cooling, in CatalogConfig::default().dfs_cooling..=DAY;
        /// Share of all shard files above which objects leave them; 1 evicts on demand only.
        dfs_high_watermark_ratio: Ratio = Ratio(CatalogConfig::default().dfs_high_watermark),
            in (Bound::Excluded(Ratio(0.0)), Bound::Included(Ratio(1.0)));
        /// Share of all shard files at which that ends.
        dfs_low_watermark_ratio: Ratio = Ratio(CatalogConfig::default().dfs_low_watermark), in Ratio(0.0)..Ratio(1.0);
        /// Where the era is kept, so that no ticket is issued twice after a restart, and what must not come back from SSD.
        state_dir: Option<PathBuf> = OpenOptions::default().state_dir;
        /// Start of the sequence of random numbers of placement.
        seed: u64 = CatalogConfig::default().seed;
    }
    /// A cluster: how nodes and clients find it.
    cluster: Cluster {
        /// Where the master is reached.
        master_address: Address = local(MASTER_PORT);
    }
    /// A master: where it listens. Read by `master` and `serve`.
    master: Master {
        /// Where nodes and clients reach the master.
        rpc_address: SocketAddr = local(MASTER_PORT);
        /// Where health and metrics are served over HTTP.
        admin_address: SocketAddr = local(9003);
    }
    /// A node: the memory that it gives. Read by `node` and `serve`.
    node: Node {
        /// Where the node listens for clients that read and write payloads.
        data_address: SocketAddr = local(50052);
        /// Where clients reach the node, when that is not where it listens.
        advertise_address: Option<Address> = None;
        /// Name of the segments, unique in the cluster; made of the host and the port when not set.
        segment_name: Option<String> = None;
        /// Memory for payloads.
        dram: ByteCount = OpenOptions::default().memory.dram, in SEGMENT_LEAST..;
        /// Into how many segments of equal size the memory is divided; replicas of an object go on different ones.
        segments: u16 = OpenOptions::default().memory.segments, in 1..=1024;
        /// Take reserved huge pages of 2 MiB, and fail when there are too few.
        huge_pages: bool = false;
        /// Touch all memory at the start, so that no put pays for it later.
        populate: bool = OpenOptions::default().memory.populate;
        /// Bind the memory to this NUMA node.
        numa_node: Option<u32> = OpenOptions::default().memory.numa_node;
        /// The most memory that foreign clients may mount on this node beside its own; as much as `dram` when not set.
        hosted_max: Option<ByteCount> = OpenOptions::default().memory.hosted_max;
        /// Directories on SSD below the memory; one without a size takes 90 % of what is free.
        ssd: Option<Paths<SsdPath>> = None;
        /// The most payload that each SSD directory holds, counted as it came: less than its size bounds where it is compressed.
        /// Who is to leave then is for ssd-policy to say. Without one as much as fits.
        ssd_logical_cap: Option<ByteCount> = SsdOptions::default().logical_cap, in Some(LOGICAL_CAP_MIN)..;
        /// Who leaves when an SSD directory is full.
        ssd_policy: PolicyKind = SsdOptions::default().policy;
        /// When a record on SSD counts as persistent.
        ssd_durability: Durability = SsdOptions::default().durability;
        /// Size of a log file on SSD.
        ssd_file_bytes: ByteCount = SsdOptions::default().file_bytes, in ByteCount::mib(1)..=ByteCount::gib(64);
        /// Memory for what is on its way to and from SSD, shared by all directories.
        ssd_staging: ByteCount = SsdOptions::default().staging, in ByteCount::mib(16)..=ByteCount::gib(64);
        /// How much may be written to each SSD directory: bytes a second (200MiB/s), or the directory's size so often a day
        /// (1.0dwpd). A minute of it may be saved up; what would wait longer than 10 s is not taken over. Without one as much
        /// as comes.
        ssd_write_budget: Option<WriteBudget> = SsdOptions::default().write_budget;
        /// How payloads are stored on SSD: as they come, or compressed where that saves an eighth; bf16-planes+zstd splits
        /// numbers of two bytes first. What is there already stays as it is.
        ssd_codec: Codec = SsdOptions::default().packing.codec;
        /// How hard Zstandard tries.
        ssd_codec_level: u16 = SsdOptions::default().packing.level.into(), in 1..=u16::from(LEVEL_MAX);
        /// How long a node that starts waits for its master.
        join_timeout: Duration = Duration::from_secs(30), in MILLISECOND..=DAY;
        /// How long a node that is told to stop keeps its objects readable.
        unmount_grace: Duration = Duration::from_secs(10), in Duration::ZERO..=HOUR;
    }
    /// A node as a process of its own: its HTTP. Read by `node`; `serve` shows its node on `admin-address`.
    watch: Watch {
        /// Where health and metrics of the node are served over HTTP, or off for nowhere.
        node_admin_address: Listener = Listener::At(local(9004));
    }
    /// Shared filesystems: the roots of shard files that are mounted here. Read by `node`, `serve` and the commands that act on
    /// keys.
    shared: Shared {
        /// Roots of shard files; where there is none yet, one is made if it has a size.
        dfs: Option<Paths<RootPath>> = None;
        /// The cluster whose roots they must be.
        dfs_cluster: String = DfsOptions::default().cluster;
        /// When a put has reached a shard file: when the filesystem has taken its bytes, or when they are durable.
        dfs_acknowledge: Ack = DfsOptions::default().ack;
        /// Memory for what is on its way to and from shard files.
        dfs_staging: ByteCount = DfsOptions::default().staging, in ByteCount::mib(16)..=ByteCount::gib(64);
    }
    /// A client. Read by the commands that act on keys.
    client: Client {
        /// Whose objects.
        tenant: String = OpenOptions::default().tenant;
        /// How long to try to reach the master.
        connect_timeout: Duration = ConnectOptions::new("").remote.session.connect_deadline, in MILLISECOND..=HOUR;
        /// How long to wait for one answer.
        request_timeout: Duration = ConnectOptions::new("").remote.session.deadline, in MILLISECOND..=HOUR;
        /// How long a put waits for room that eviction will make.
        put_wait: Duration = Patience::default().room, in Duration::ZERO..=HOUR;
    }
}

/// A port of this machine that others do not see.
fn local<A: From<SocketAddr>>(port: u16) -> A {
    SocketAddr::from(([127, 0, 0, 1], port)).into()
}

impl Settings {
    /// What is in force when nobody says anything.
    #[cfg(test)]
    pub(crate) fn defaults() -> Self {
        let config = super::Config::resolve(super::layers::Layers::default(), &[]);
        config.expect("the defaults are sound").settings
    }

    /// What contradicts something else, for a command that reads `groups`; each value for itself is right already.
    pub(super) fn check(&self, resolver: &mut Resolver<'_>, groups: &[&str]) {
        if groups.contains(&"partition") {
            self.check_partition(resolver);
        }
        if groups.contains(&"node") {
            self.check_node(resolver);
        }
        // Each may listen where it likes unless they are one process.
        if groups == ForServe::GROUPS {
            Self::check_listeners(
                resolver,
                &[
                    ("rpc-address", self.master.rpc_address),
                    ("admin-address", self.master.admin_address),
                    ("data-address", self.node.data_address),
                ],
            );
        }
        if groups == ForNode::GROUPS
            && let Some(admin) = self.watch.node_admin_address.address()
        {
            Self::check_listeners(
                resolver,
                &[
                    ("data-address", self.node.data_address),
                    ("node-admin-address", admin),
                ],
            );
        }
    }

    fn check_partition(&self, resolver: &mut Resolver<'_>) {
        let partition = &self.partition;
        if partition.put_start_release_timeout <= partition.put_start_discard_timeout {
            resolver.contradiction(
                "put-start-release-timeout",
                "must be longer than",
                "put-start-discard-timeout",
            );
        }
        if partition.eviction_ratio >= partition.eviction_high_watermark_ratio {
            resolver.contradiction(
                "eviction-ratio",
                "must be less than",
                "eviction-high-watermark-ratio",
            );
        }
        if partition.dfs_low_watermark_ratio >= partition.dfs_high_watermark_ratio {
            resolver.contradiction(
                "dfs-low-watermark-ratio",
                "must be less than",
                "dfs-high-watermark-ratio",
            );
        }
        if partition.dfs_cooling < partition.client_ttl * 2 {
            resolver.contradiction("dfs-cooling", "must be at least twice", "client-ttl");
        }
    }

    fn check_node(&self, resolver: &mut Resolver<'_>) {
        let node = &self.node;
        if node.dram.0 / u64::from(node.segments) < SEGMENT_LEAST.0 {
            let must = format!("must give at least {SEGMENT_LEAST} to each of");
            resolver.contradiction("dram", &must, "segments");
        }
        if node.data_address.ip().is_unspecified() && node.advertise_address.is_none() {
            resolver.incomplete(
                "data-address",
                "listens everywhere: give the address that clients use as advertise-address",
            );
        }
    }

    fn check_listeners(resolver: &mut Resolver<'_>, listeners: &[(&str, SocketAddr)]) {
        for (index, (name, address)) in listeners.iter().enumerate() {
            let mut before = listeners[..index].iter();
            let other = before.find(|(_, taken)| taken == address);
            // With port 0 each gets its own.
            if let Some((other, _)) = other.filter(|_| address.port() != 0) {
                resolver.contradiction(name, "must differ from", other);
            }
        }
    }
}
