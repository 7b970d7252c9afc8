//! The disk driver: files, aligned buffers, and requests that are under way.
//!
//! It knows nothing of objects, replicas or keys. One trait, [`Disk`], is a directory on a disk, with several engines
//! behind it (docs/adr/0007-disk-driver.md).

pub mod disk;

pub use disk::{Disk, File, FileStat, Flight, Geometry, Landed, Request, Space};
