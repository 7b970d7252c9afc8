//! The code behind `ziggurat bench`: each measurement is a function from options to a report that can be serialized.
//!
//! A figure stands beside its limit, measured in the same run by the same means: a `memcpy` over equally cold memory, or a
//! bare loop over a socket with the same options. Work that stays on one thread is timed by the CPU time of that thread,
//! so that neighbours on a busy machine do not count; work that waits for another process is timed by the clock on the
//! wall. docs/benchmarks.md has the method and what was seen.
//!
//! Servers are processes of their own: this program, started again with the words of [`Program`] (see [`peer`]).

pub mod catalog;
pub mod codec;
pub mod data;
pub mod failover;
mod limits;
pub mod peer;
pub mod restart;
pub mod rpc;
mod scratch;
pub mod ssd;
mod stopwatch;

pub use catalog::{CatalogOptions, CatalogReport};
pub use codec::{CodecOptions, CodecReport};
pub use data::{DataOptions, DataReport};
pub use failover::{FailoverOptions, FailoverReport};
pub use peer::{Pinning, Program};
pub use restart::{RestartOptions, RestartReport, RestartRow};
pub use rpc::{RpcOptions, RpcReport};
pub use ssd::{
    SsdOptions, SsdReport, Subject,
    recovery::{RecoveryOptions, RecoveryReport},
};
pub use ziggurat_io::Pages;

use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_store::available_memory;

/// Told in words how far a measurement is.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// Makes an error of ours from one of the system.
fn failed(doing: &str, error: impl std::fmt::Display) -> Error {
    Error::new(Code::Internal, format!("{doing}: {error}"))
}

/// Refuses a measurement of nothing: `what` names the option.
fn at_least_one(what: &str, number: u32) -> Result<()> {
    if number > 0 {
        return Ok(());
    }
    Err(Error::new(
        Code::InvalidParams,
        format!("0 {what}: give at least 1"),
    ))
}

/// Refuses what would push the machine into swapping or worse.
fn fits(what: &str, need: ByteCount) -> Result<()> {
    match available_memory() {
        Some(available) if need > available => Err(Error::new(
            Code::InvalidParams,
            format!(
                "{what} needs {need} of memory, this machine has {available} available: give less"
            ),
        )),
        _ => Ok(()),
    }
}

/// The numbered key of a kind: 32 bytes that look random, so that neither order nor prefix helps anybody.
fn key(kind: u64, number: u64) -> [u8; 32] {
    use ziggurat_base::hash::{Dice, mix};
    let mut dice = Dice::new(mix(kind) ^ number);
    let mut key = [0; 32];
    for word in key.chunks_exact_mut(8) {
        word.copy_from_slice(&dice.roll().to_le_bytes());
    }
    key
}
