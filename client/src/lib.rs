//! What an application calls. A [`Client`] runs the engine's journeys over ports: the same code in process, linked to a
//! cluster, and in the simulator.
#![forbid(unsafe_code)]

pub mod client;
pub mod options;
pub mod remote;

mod carry;
mod fleet;
mod rooms;

pub use client::Client;
pub use options::{PutOptions, PutRequest};
pub use remote::{Remote, RemoteOptions};
pub use ziggurat_engine::journey::PutOutcome;
