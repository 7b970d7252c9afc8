//! The disk driver: files, aligned buffers, and requests that are under way.
//!
//! It knows nothing of objects, replicas or keys. One trait, [`Disk`], is a directory on a disk, with several engines
//! behind it (docs/adr/0007-disk-driver.md).

pub mod buffer;
pub mod disk;
#[cfg(any(test, feature = "testkit"))]
mod door;
mod grains;
mod map;
#[cfg(any(test, feature = "testkit"))]
pub mod mem;

pub use buffer::{Buffer, Pool};
pub use disk::{Disk, File, FileStat, Flight, Geometry, Landed, Request, Space};
