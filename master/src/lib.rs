//! The shell of the metadata partition: the lock around the catalog, its clock, its durable era, and the way that
//! effects take to the members. It never sees a payload byte.
#![forbid(unsafe_code)]

pub mod era;
pub mod partition;

pub use era::EraStore;
pub use partition::{EffectSink, Mailbox, Partition, Session};
