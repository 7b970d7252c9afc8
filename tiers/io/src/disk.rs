//! The port: what the SSD tier needs from a disk.
//!
//! A request owns its buffer from the moment it is started until it has landed, so nothing that the caller does with the
//! future can leave a device writing into memory that is somebody else's.
//!
//! Errors name file, range and what the kernel said. Their codes: `NoAvailableHandle` when the filesystem is full (or the
//! quota), `FileReadFail` and `FileWriteFail` when a transfer or a sync fails, `FileNotFound` for a name that is not
//! there, `FileOpenFail` for what cannot be opened or exists already, `InvalidParams` for names that are paths and ranges
//! outside a file, `FileInvalidBuffer` for what is not aligned, `NotSupported` for holes that the filesystem cannot make,
//! `Cancelled` when the engine ended first. A sync that failed vouches for nothing, and neither does the next one for
//! what the failed one should have covered: write it again, elsewhere.

use crate::buffer::{Buffer, Pool};
use std::{fmt, sync::Arc};
use ziggurat_base::{Job, Result};

/// What the disk asks of addresses, offsets and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Memory addresses are multiples of this many bytes; a power of two.
    pub memory: u32,
    /// Offsets in files and lengths are multiples of this many bytes; a power of two, at most 4096.
    pub block: u32,
    /// Whether requests go past the page cache.
    pub direct: bool,
}

impl Geometry {
    /// `len` rounded up to whole blocks.
    #[must_use]
    pub fn round(&self, len: u64) -> u64 {
        len.next_multiple_of(u64::from(self.block))
    }
}

/// How much room the filesystem has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that this process may still take.
    pub free: u64,
}

/// One file of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// One directory on a disk. Names are plain file names, never paths.
pub trait Disk: Send + Sync + fmt::Debug {
    /// What requests must be aligned to.
    fn geometry(&self) -> Geometry;
    /// Where buffers come from.
    fn pool(&self) -> &Pool;
    /// How much room there is.
    fn space(&self) -> Job<'_, Result<Space>>;
    /// The plain files of the directory, in the order of their names.
    fn list(&self) -> Job<'_, Result<Vec<FileStat>>>;
    /// Makes a file of `len` bytes whose blocks are allocated and read as zeros. Nothing is left behind when it fails. The
    /// name survives a crash only after [`Disk::sync_names`]; when it does, so do length and zeros.
    fn create<'a>(&'a self, name: &'a str, len: u64) -> Job<'a, Result<Arc<dyn File>>>;
    /// Opens a file for reading and writing.
    fn open<'a>(&'a self, name: &'a str) -> Job<'a, Result<Arc<dyn File>>>;
    /// Removes a name. Requests under way on the open file land as if nothing had happened.
    fn remove<'a>(&'a self, name: &'a str) -> Job<'a, Result<()>>;
    /// Gives a file another name, replacing what has it.
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> Job<'a, Result<()>>;
    /// Makes the names durable: what was created, renamed and removed before.
    fn sync_names(&self) -> Job<'_, Result<()>>;
}

/// An open file.
pub trait File: Send + Sync + fmt::Debug {
    /// Its length in bytes, as of opening or creation.
    fn len(&self) -> u64;
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Starts requests, all at once, and returns their flights in the same order. They may land in any order, whether or
    /// not the flights are awaited.
    fn start(&self, requests: Vec<Request>) -> Vec<Flight>;
    /// Gives a range of whole blocks back to the filesystem; it reads as zeros afterwards.
    fn punch(&self, offset: u64, len: u64) -> Job<'_, Result<()>>;
}

/// What to do with a buffer. Its address, its length and the offset are aligned as [`Geometry`] says.
#[derive(Debug)]
pub enum Request {
    /// Fills the whole buffer from `offset` on. A file that ends before is an error.
    Read {
        /// First byte in the file.
        offset: u64,
        /// Where to; its length is the range's.
        buffer: Buffer,
    },
    /// Writes the whole buffer at `offset`, within the length of the file.
    Write {
        /// First byte in the file.
        offset: u64,
        /// What.
        buffer: Buffer,
        /// Lands only after the data of the file, this write included, is durable.
        sync: bool,
    },
    /// Makes the data of all writes that have landed durable.
    Sync,
}

/// A request under way.
pub type Flight = Job<'static, Landed>;

/// A request that is over.
#[derive(Debug)]
pub struct Landed {
    /// The buffer of a read or write. After a failed read it has any content.
    pub buffer: Option<Buffer>,
    /// Whether everything was read, written or synced: short transfers are gone on with by the engine.
    pub result: Result<()>,
}
