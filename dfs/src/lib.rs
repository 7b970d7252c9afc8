//! Shard files on a shared filesystem: objects that every client which mounts the root reads and writes itself.
//!
//! A [`Root`] is one directory. Somebody else, the metadata partition, says which extent of which shard file an object has;
//! nobody owns the files, so every record describes itself and a read proves it before a byte of it is believed. Refused
//! here: allocation, eviction, the network, and every decision about who may write or read.
//! docs/formats/dfs.md has the bytes.
#![forbid(unsafe_code)]

pub mod format;
pub mod offline;

mod carrier;
mod found;
mod index;
mod options;
mod read;
mod removal;
mod root;
mod roots;
mod scan;
mod shard;
mod transfer;
mod write;

pub use carrier::Carriers;
pub use found::{Found, Name, Place};
pub use options::{CLUSTER, Options, RootPath};
pub use read::ShardRead;
pub use removal::Removals;
pub use root::{Layout, Root, ShardInfo, grow::Grown};
pub use roots::{DEADLINE, Roots};
pub use scan::{Scan, ScanCounts};
pub use shard::shard_directory;
pub use write::{Ack, ShardWrite};
