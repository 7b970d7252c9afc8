//! The disk driver: files, aligned buffers, and requests that are under way.
//!
//! It knows nothing of objects, replicas or keys. One trait, [`Disk`], is a directory on a disk, with several engines
//! behind it (docs/adr/0007-disk-driver.md).

mod answer;
pub mod buffer;
mod cause;
pub mod disk;
mod door;
mod grains;
mod helper;
mod local;
mod map;
#[cfg(any(test, feature = "testkit"))]
pub mod mem;
pub mod open;
mod sys;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod threads;
mod uring;

pub use buffer::{Buffer, Pages, Pool};
pub use disk::{Disk, File, FileStat, Flight, Geometry, Landed, Request, Space};
pub use open::{Choice, Direct, EngineKind, Options, Report, check_directory, open, open_to_read};
