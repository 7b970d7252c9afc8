//! The SSD tier on real filesystems that run full, are slow, or lose power.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "filesystems/full.rs"]
mod full;
#[path = "filesystems/power.rs"]
mod power;
#[path = "filesystems/rig.rs"]
mod rig;
#[path = "filesystems/slow.rs"]
mod slow;
#[path = "filesystems/throttle.rs"]
mod throttle;
