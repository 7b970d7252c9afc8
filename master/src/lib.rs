//! The shell of the metadata partition: the lock around the catalog, its clock, its durable era, the way that effects
//! take to the members, its port for members and clients, and what it shows to people and their monitors. It never sees a
//! payload byte.
#![forbid(unsafe_code)]

pub mod admin;
pub mod era;
pub mod journal;
pub mod mailbox;
pub mod metrics;
pub mod orders;
pub mod outbox;
pub mod partition;
pub mod process;
pub mod seed;

pub use era::EraStore;
pub use journal::Journal;
pub use mailbox::Mailbox;
pub use outbox::EffectSink;
pub use partition::{Partition, Session};
pub use process::{Master, MasterOptions};
pub use seed::{Seed, SeedCounts};
