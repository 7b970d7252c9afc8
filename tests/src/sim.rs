//! The simulator: one seed, one history.
//!
//! A seeded executor, clock, network and memory behind the ports; everything above them is the product's own code: the
//! journeys of clients, the catalog as the master's brain, the shelf as each node's. The shells here do what the real
//! ones do and nothing more. Oracles watch what truly happens: `oracle` for values, `books` for space, the catalog's own
//! invariants, and liveness once faults have stopped.

pub mod batch;
mod books;
mod call;
#[cfg(feature = "canary")]
pub mod canaries;
mod client;
mod clock;
pub mod coverage;
mod disk;
mod executor;
mod faults;
mod ledger;
mod master;
mod network;
mod node;
mod oracle;
pub mod outcome;
mod params;
mod payload;
mod promise;
mod root;
mod run;
mod settle;
mod world;

pub use outcome::{Outcome, Violation};
pub use run::{Telling, run};
