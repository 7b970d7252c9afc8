//! Every decision of Ziggurat and no I/O.
//!
//! Shared state is a synchronous machine (`catalog`, `shelf`): plain functions that take `now`. A journey is an async
//! function over ports (`journey`, `port`). docs/ARCHITECTURE.md has the map of this crate.
#![forbid(unsafe_code)]

pub mod evict;
pub mod row;
pub mod space;

pub use row::Row;
