//! The library that people use.
//!
//! ```
//! # fn main() -> ziggurat_base::Result<()> {
//! use ziggurat_store::{OpenOptions, Store};
//!
//! let store = Store::open(OpenOptions::default())?.blocking();
//! store.put("prompt/1", b"some KV cache")?;
//! assert_eq!(store.get("prompt/1")?.as_deref(), Some(&b"some KV cache"[..]));
//! assert_eq!(store.get("prompt/2")?, None);
//! # Ok(())
//! # }
//! ```
//!
//! [`Store::open`] puts catalog, memory and client into this process, without a socket. A [`Store`] is used like the
//! [`Client`] that it dereferences to; [`Blocking`] is the same for callers without an async runtime.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod clock;
pub mod open;
pub mod serve;

mod beside;
mod local;
mod ssd;

pub use blocking::Blocking;
pub use clock::SystemClock;
pub use open::{ConnectOptions, OpenOptions, Store};
pub use serve::{ServeOptions, Served};
pub use ziggurat_client::{Client, PutOptions, PutOutcome, PutRequest, RemoteOptions};
/// Shard files on a shared filesystem.
pub use ziggurat_dfs as dfs;
pub use ziggurat_dfs::{Ack, Options as DfsOptions, RootPath};
pub use ziggurat_engine::command::{
    Force, Keep, ObjectStat, Prefetched, Priority, Recency, SegmentStat, Stats,
};
pub use ziggurat_engine::{
    canary::BUILT_IN as CANARIES_BUILT_IN,
    catalog::{Config as CatalogConfig, OffloadMode, PromotionMode},
    evict::PolicyKind,
    journey::Patience,
    place::PlacementKind,
    space::AllocatorKind,
};
pub use ziggurat_master::{Master, MasterOptions};
pub use ziggurat_node::{
    MemoryOptions, Node, NodeOptions, SsdOptions, SsdPath, memory::available_memory, offline,
};
pub use ziggurat_proto::hello::VERSIONS;
pub use ziggurat_tiers::ssd::{
    BudgetStats, Codec, Durability, LEVEL_MAX, LOGICAL_CAP_MIN, Packing, Stats as TierStats,
    WriteBudget,
    offline::{Placed, Stored},
};
