//! A store node: it gives memory to the pool, serves it over TCP, and does what its master asks.
//!
//! The shelf in its tier decides which version may write and be read where; the node only moves bytes and words. While
//! the master is away it goes on serving reads that were granted. When the master has forgotten it, it comes back as
//! another incarnation with empty segments, and nobody who knew the old one is answered.
#![forbid(unsafe_code)]

pub mod host;
pub mod keeper;
pub mod lender;
pub mod memory;
pub mod node;
pub mod offline;
pub mod ssd;

mod admin;
mod clock;
mod duty;
mod fetch;
mod foreign;
mod metrics;
mod signal;

pub use host::NodeHost;
pub use keeper::{Directory, Keeper, Offload};
pub use lender::Lender;
pub use memory::MemoryOptions;
pub use node::{Node, NodeOptions};
pub use signal::Signal;
pub use ssd::{SsdOptions, SsdPath};
