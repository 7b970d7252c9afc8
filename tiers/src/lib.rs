//! What a node owns: the tiers whose bytes it alone may touch. Today its memory, [`dram::DramTier`].
//!
//! A tier moves bytes at an extent that somebody else chose and owns its format, nothing else. Refused here: the master,
//! the network, other nodes' tiers, and every decision about who may write or read (that is the engine's shelf).
#![forbid(unsafe_code)]

pub mod dram;
pub mod ssd;
