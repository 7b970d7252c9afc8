//! Every setting, once. A line is: help, name, type, default, and the values that it takes.

use super::{
    address::Address,
    bounds::Bounds,
    ratio::Ratio,
    resolve::Resolver,
    setting::{Group, Setting, settings},
    value::Value,
};
use std::{ops::Bound, path::PathBuf, time::Duration};
use ziggurat_base::ByteCount;
use ziggurat_store::{
    AllocatorKind, CatalogConfig, OpenOptions, Patience, PlacementKind, PolicyKind,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

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
        /// Where the era is kept, so that no ticket is issued twice after a restart.
        state_dir: Option<PathBuf> = OpenOptions::default().state_dir;
        /// Start of the sequence of random numbers of placement.
        seed: u64 = CatalogConfig::default().seed;
    }
    /// A cluster: how nodes and clients find it.
    cluster: Cluster {
        /// Where the master is reached.
        master_address: Address = local(50051);
    }
    /// A master: where it listens. Read by `master` and `serve`.
    master: Master {
        /// Where nodes and clients reach the master.
        rpc_address: Address = local(50051);
        /// Where health and metrics are served over HTTP.
        admin_address: Address = local(9003);
    }
    /// A node: the memory that it gives. Read by `node` and `serve`.
    node: Node {
        /// Where clients read and write payloads.
        data_address: Address = local(50052);
        /// Name of the segments, unique in the cluster; derived from the host and the data address when not set.
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
        /// How long a node that is told to stop waits for its readers.
        unmount_grace: Duration = Duration::from_secs(10), in Duration::ZERO..=HOUR;
    }
    /// A client. Read by the commands that act on keys.
    client: Client {
        /// Whose objects.
        tenant: String = OpenOptions::default().tenant;
        /// How long to try to reach the master.
        connect_timeout: Duration = Duration::from_secs(5), in MILLISECOND..=HOUR;
        /// How long to wait for one answer.
        request_timeout: Duration = Duration::from_secs(30), in MILLISECOND..=HOUR;
        /// How long a put waits for room that eviction will make.
        put_wait: Duration = Patience::default().room, in Duration::ZERO..=HOUR;
    }
}

fn local(port: u16) -> Address {
    format!("127.0.0.1:{port}")
        .parse()
        .expect("a host and a port")
}

impl Settings {
    /// What is in force when nobody says anything.
    #[cfg(test)]
    pub(crate) fn defaults() -> Self {
        let config = super::Config::resolve(super::layers::Layers::default());
        config.expect("the defaults are sound").settings
    }

    /// What contradicts something else; each value for itself is right already.
    pub(super) fn check(&self, resolver: &mut Resolver<'_>) {
        let Self {
            partition,
            master,
            node,
            ..
        } = self;
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
        if node.dram.0 / u64::from(node.segments) < SEGMENT_LEAST.0 {
            let must = format!("must give at least {SEGMENT_LEAST} to each of");
            resolver.contradiction("dram", &must, "segments");
        }
        let listeners = [
            ("rpc-address", &master.rpc_address),
            ("admin-address", &master.admin_address),
            ("data-address", &node.data_address),
        ];
        for (index, (name, address)) in listeners.iter().enumerate() {
            let is_taken = |(_, taken): &&(&str, &Address)| taken == address;
            let other = listeners[..index].iter().find(is_taken);
            if let Some((other, _)) = other.filter(|_| !address.is_any_port()) {
                resolver.contradiction(name, "must differ from", other);
            }
        }
    }
}
