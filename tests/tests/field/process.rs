//! Scenarios with real processes: killed, stopped, and cut off from one another.

mod cluster;
mod copies;
mod damage;
mod deaths;
mod disks;
mod endings;
mod party;
mod proxy;
mod reads;
mod refusals;
mod revival;
mod scale;
mod shards;
mod silence;
mod writers;
