//! The SSD tier on real filesystems that run full, and that lose power.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "filesystems/full.rs"]
mod full;
#[path = "filesystems/power.rs"]
mod power;
#[path = "filesystems/rig.rs"]
mod rig;
