//! Settings as the library takes them.

use super::groups::{Client, Cluster, Master, Node, Partition, Shared, Watch};
use std::sync::Arc;
use ziggurat_base::memory::Pages;
use ziggurat_store::{
    CatalogConfig, ConnectOptions, DfsOptions, MasterOptions, MemoryOptions, NodeOptions,
    OffloadMode, Packing, SsdOptions, SsdPath, SystemClock,
};

/// What else is in the process of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside<'a> {
    /// The partition, whose process shows the node as well.
    Partition(&'a Partition),
    /// Nothing.
    Nothing(&'a Watch),
}

impl Partition {
    fn catalog(&self) -> CatalogConfig {
        CatalogConfig {
            lease: self.lease,
            write_discard: self.put_start_discard_timeout,
            write_release: self.put_start_release_timeout,
            member_ttl: self.client_ttl,
            high_watermark: self.eviction_high_watermark_ratio.0,
            evict_ratio: self.eviction_ratio.0,
            policy: self.eviction_policy,
            placement: self.allocation_strategy,
            allocator: self.memory_allocator,
            offload: self.ssd_offload,
            promotion: self.ssd_promotion,
            promotion_window: self.ssd_promotion_window,
            promotion_budget: self.ssd_promotion_budget,
            dfs_cooling: self.dfs_cooling,
            dfs_high_watermark: self.dfs_high_watermark_ratio.0,
            dfs_low_watermark: self.dfs_low_watermark_ratio.0,
            seed: self.seed,
            ..CatalogConfig::default()
        }
    }
}

impl Master {
    /// A master with this partition. What it has to keep goes beside the node's objects, when it is one process with a node
    /// that has SSD directories and nothing else is said.
    pub(crate) fn options(&self, partition: &Partition, node: Option<&Node>) -> MasterOptions {
        let ssd = node.and_then(|node| node.ssd.as_ref()?.0.first());
        let beside = ssd.map(SsdPath::state_dir);
        MasterOptions {
            listen: self.rpc_address,
            admin: Some(self.admin_address),
            state_dir: partition.state_dir.clone().or(beside),
            catalog: partition.catalog(),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl Node {
    /// A node of this cluster: beside its partition in one process, or watched by itself.
    pub(crate) fn options(
        &self,
        cluster: &Cluster,
        shared: &Shared,
        beside: Beside<'_>,
    ) -> NodeOptions {
        let (partition, admin) = match beside {
            Beside::Partition(partition) => (Some(partition), None),
            Beside::Nothing(watch) => (None, watch.node_admin_address.address()),
        };
        NodeOptions {
            master: cluster.master_address.to_string(),
            listen: self.data_address,
            admin,
            advertise: self.advertise_address.as_ref().map(ToString::to_string),
            segment_name: self.segment_name.clone().unwrap_or_else(|| self.own_name()),
            memory: self.memory(),
            ssd: self.ssd(),
            dfs: shared.options(),
            eager: partition.is_none_or(|p| p.ssd_offload == OffloadMode::Eager),
            session: Default::default(),
            limits: Default::default(),
            patience: self.join_timeout,
        }
    }

    /// The SSD directories of this node.
    pub(crate) fn ssd(&self) -> SsdOptions {
        SsdOptions {
            directories: self
                .ssd
                .as_ref()
                .map_or_else(Vec::new, |list| list.0.clone()),
            file_bytes: self.ssd_file_bytes,
            logical_cap: self.ssd_logical_cap,
            durability: self.ssd_durability,
            policy: self.ssd_policy,
            staging: self.ssd_staging,
            write_budget: self.ssd_write_budget,
            packing: Packing {
                codec: self.ssd_codec,
                level: u8::try_from(self.ssd_codec_level).expect("a checked level"),
            },
            ..SsdOptions::default()
        }
    }

    fn memory(&self) -> MemoryOptions {
        MemoryOptions {
            dram: self.dram,
            segments: self.segments,
            pages: if self.huge_pages {
                Pages::Huge
            } else {
                Pages::Normal
            },
            populate: self.populate,
            numa_node: self.numa_node,
            hosted_max: self.hosted_max,
            ..MemoryOptions::default()
        }
    }

    /// Host and port, so that the same node has the same name after a restart; where the port is any, the process stands
    /// in for it.
    fn own_name(&self) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let number = match self.data_address.port() {
            0 => std::process::id(),
            port => port.into(),
        };
        match host.trim() {
            "" => format!("node-{number}"),
            host => format!("{host}-{number}"),
        }
    }
}

impl Shared {
    /// The roots that are mounted here.
    pub(crate) fn options(&self) -> DfsOptions {
        let roots = self.dfs.as_ref();
        DfsOptions {
            roots: roots.map_or_else(Vec::new, |list| list.0.clone()),
            cluster: self.dfs_cluster.clone(),
            ack: self.dfs_acknowledge,
            staging: self.dfs_staging,
            ..DfsOptions::default()
        }
    }
}

impl Client {
    /// The way to this cluster.
    pub(crate) fn options(&self, cluster: &Cluster, shared: &Shared) -> ConnectOptions {
        let mut options = ConnectOptions::new(cluster.master_address.to_string());
        options.remote.tenant.clone_from(&self.tenant);
        options.remote.session.connect_deadline = self.connect_timeout;
        options.remote.session.deadline = self.request_timeout;
        options.remote.peers.answer_limit = self.request_timeout;
        options.remote.dfs = shared.options();
        options.patience.room = self.put_wait;
        options
    }
}
