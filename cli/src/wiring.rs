//! From settings to what the library takes.

use crate::config::{Address, Settings};
use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};
use ziggurat_base::{Code, Error, Result, memory::Pages};
use ziggurat_store::{
    Blocking, CatalogConfig, ConnectOptions, MasterOptions, MemoryOptions, NodeOptions, Patience,
    RemoteOptions, SystemClock,
};

/// How long a node tries to reach its master before it gives up at the start.
const MASTER_PATIENCE: Duration = Duration::from_secs(30);

/// The first address that a name leads to.
fn resolved(address: &Address) -> Result<SocketAddr> {
    let wrong = |why: String| {
        Error::new(
            Code::InvalidParams,
            format!("{address} cannot be listened on: {why}"),
        )
    };
    let mut found = address
        .as_str()
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| wrong("the name leads to no address".into()))
}

/// The partition's tunables.
pub(crate) fn catalog(settings: &Settings) -> CatalogConfig {
    let partition = &settings.partition;
    CatalogConfig {
        lease: partition.lease,
        write_discard: partition.put_start_discard_timeout,
        write_release: partition.put_start_release_timeout,
        member_ttl: partition.client_ttl,
        high_watermark: partition.eviction_high_watermark_ratio.0,
        evict_ratio: partition.eviction_ratio.0,
        policy: partition.eviction_policy,
        placement: partition.allocation_strategy,
        allocator: partition.memory_allocator,
        seed: partition.seed,
        ..CatalogConfig::default()
    }
}

/// A master.
pub(crate) fn master(settings: &Settings) -> Result<MasterOptions> {
    Ok(MasterOptions {
        listen: resolved(&settings.master.rpc_address)?,
        admin: Some(resolved(&settings.master.admin_address)?),
        state_dir: settings.partition.state_dir.clone(),
        catalog: catalog(settings),
        clock: Arc::new(SystemClock::default()),
    })
}

/// A node.
pub(crate) fn node(settings: &Settings) -> Result<NodeOptions> {
    let node = &settings.node;
    let listen = resolved(&node.data_address)?;
    let host =
        || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "host".into());
    let name = node
        .segment_name
        .clone()
        .unwrap_or_else(|| format!("{}:{}", host().trim(), listen.port()));
    Ok(NodeOptions {
        master: settings.cluster.master_address.as_str().into(),
        listen,
        advertise: None,
        segment_name: name,
        memory: MemoryOptions {
            dram: node.dram,
            segments: node.segments,
            pages: if node.huge_pages {
                Pages::Huge
            } else {
                Pages::Normal
            },
            populate: node.populate,
            numa_node: node.numa_node,
        },
        session: Default::default(),
        limits: Default::default(),
        patience: MASTER_PATIENCE,
    })
}

/// A client of the cluster.
pub(crate) fn connect(settings: &Settings) -> Result<Blocking> {
    let client = &settings.client;
    let mut options = ConnectOptions::new(settings.cluster.master_address.as_str());
    options.remote = RemoteOptions {
        tenant: client.tenant.clone(),
        ..options.remote
    };
    options.remote.session.connect_deadline = client.connect_timeout;
    options.remote.session.deadline = client.request_timeout;
    options.patience = Patience {
        room: client.put_wait,
        ..Patience::default()
    };
    Blocking::connect(options)
}
