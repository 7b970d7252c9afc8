//! Scenarios with real processes: killed, stopped, and cut off from one another.

mod cluster;
mod deaths;
mod endings;
mod party;
mod proxy;
mod reads;
mod revival;
mod scale;
mod silence;
mod writers;
