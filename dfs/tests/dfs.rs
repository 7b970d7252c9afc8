//! Shard files over a simulated disk: what is acknowledged is there, what was removed stays away, and no byte is wrong.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "dfs/crash.rs"]
mod crash;
#[path = "dfs/data.rs"]
mod data;
#[path = "dfs/format.rs"]
mod format;
#[path = "dfs/offline.rs"]
mod offline;
#[path = "dfs/removal.rs"]
mod removal;
#[path = "dfs/rig.rs"]
mod rig;
#[path = "dfs/root.rs"]
mod root;
#[path = "dfs/scan.rs"]
mod scan;
