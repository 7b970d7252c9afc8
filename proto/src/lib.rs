//! Ziggurat on the wire: messages, their client and their server. It converts and adapts; it takes no decisions.
//!
//! * [`session`]: a metadata partition at the other end of a connection, behind the engine's ports.
//! * [`server`]: the other end, for whatever implements [`Partition`].
//! * [`hello`]: who speaks which version. [`order`]: commands to nodes beyond the engine's effects.
//! * [`seed`]: the seed's gRPC service for foreign clients, over a [`SeedBackend`].
//! * [`counts`]: what a server counts. [`admin`]: HTTP for people and their monitors.
//!
//! The schema is ziggurat.proto; frames are `ziggurat_base::frame`. docs/adr/0004-hot-stream.md says why not gRPC.
#![forbid(unsafe_code)]

pub mod admin;
mod convert;
pub mod counts;
mod frames;
pub mod hello;
mod lock;
pub mod order;
pub mod partition;
pub mod seed;
pub mod server;
pub mod session;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod wire;

pub use partition::Partition;
pub use seed::SeedBackend;
pub use server::{Limits, Service};
pub use session::{Session, SessionOptions};
