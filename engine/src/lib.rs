//! Every decision of Ziggurat and no I/O.
//!
//! Shared state is a synchronous machine (`catalog`, `shelf`): plain functions that take `now`. A journey is an async
//! function over ports (`journey`, `port`). docs/ARCHITECTURE.md has the map of this crate.
#![forbid(unsafe_code)]

pub mod canary;
pub mod catalog;
pub mod command;
pub mod evict;
pub mod journey;
pub mod lease;
pub mod ledger;
pub mod member;
pub mod place;
pub mod port;
pub mod record;
pub mod replica;
pub mod row;
pub mod segment;
pub mod shard_record;
pub mod shelf;
pub mod space;
pub mod state;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod token;
pub mod write;

pub use row::Row;
