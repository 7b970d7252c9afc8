//! Nouns: identifiers, units, time, keys, extents, checksums, memory, error codes and the frame header.
//!
//! Floor 0 of the house: no policy, no I/O beyond mapping memory, no async runtime. Everything above may use it.

pub mod checksum;
pub mod code;
pub mod copy;
pub mod error;
pub mod extent;
pub mod frame;
pub mod hash;
pub mod id;
pub mod key;
pub mod memory;
pub mod prefetch;
pub mod ticket;
pub mod time;
pub mod unit;

pub use checksum::{CHUNK, ChunkTable, Crc32};
pub use code::Code;
pub use error::{Error, Result};
pub use extent::{Extent, Extents, Placement};
pub use id::{DirectoryId, MemberId, SegmentId, TenantId};
pub use key::{Key, ObjectKey};
pub use ticket::{Era, Ticket};
pub use time::{Clock, Job, ManualClock, Timestamp};
pub use unit::ByteCount;
