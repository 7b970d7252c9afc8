//! Moves bytes between processes: the framed TCP data plane, both ends of it.
//!
//! [`server::Server`] serves a [`ziggurat_engine::port::Host`]: requests are admitted by it, bytes go straight to and
//! from its memory, sums are taken while they are hot. [`client::Peer`] is the other end: a pool of connections to one
//! address. [`fabric::Fabric`] keeps one peer per address. docs/versioning.md says how the two ends agree on a protocol.
//!
//! Refused here: what the bytes mean, who may read or write them, and which replica to ask.
#![forbid(unsafe_code)]

pub mod client;
pub mod counts;
pub mod fabric;
pub mod hello;
pub mod server;
pub mod socket;
mod wire;
