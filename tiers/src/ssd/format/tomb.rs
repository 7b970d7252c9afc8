//! The log of tombstones: records that are dead although their file lives. A tombstone counts as long as the file that
//! it names.
//!
//! The log is pages of tombstones, each page proved by itself and written as a whole, so that a torn write loses at most
//! the tombstones of one group commit, none of which was acknowledged.

use super::{PAGE, Reader, damaged};
use ziggurat_base::{DirectoryId, Result, Ticket};

const MAGIC: &[u8; 4] = b"ZTMB";
const SUM_AT: usize = 4;
const FIXED: usize = 32;
const ENTRY: usize = 12;

/// The most tombstones of one page.
pub const PER_PAGE: usize = (PAGE as usize - FIXED) / ENTRY;

/// A record that is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tomb {
    /// The file that it lies in.
    pub file: u32,
    /// Its version.
    pub ticket: Ticket,
}

/// Writes one page of at most [`PER_PAGE`] tombstones. `number` is the page's place in the log.
///
/// # Panics
/// When there are more.
#[must_use]
pub fn encode_page(directory: DirectoryId, number: u32, tombs: &[Tomb]) -> Vec<u8> {
    assert!(tombs.len() <= PER_PAGE, "too many tombstones for a page");
    let mut out = Vec::with_capacity(PAGE as usize);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(tombs.len() as u32).to_le_bytes());
    out.extend_from_slice(&directory.0.to_le_bytes());
    debug_assert_eq!(out.len(), FIXED);
    for tomb in tombs {
        out.extend_from_slice(&tomb.file.to_le_bytes());
        out.extend_from_slice(&tomb.ticket.0.to_le_bytes());
    }
    out.resize(PAGE as usize, 0);
    super::seal(&mut out, SUM_AT);
    out
}

/// Reads page `number` of the log of a directory.
///
/// # Errors
/// `ChecksumMismatch` when it was never written, is torn, or belongs elsewhere.
pub fn decode_page(directory: DirectoryId, number: u32, page: &[u8]) -> Result<Vec<Tomb>> {
    let page = Reader::new(page).bytes(PAGE as usize)?;
    let mut read = Reader::new(page);
    read.exactly(MAGIC, "page of tombstones")?;
    super::check_seal(page, SUM_AT, "page of tombstones")?;
    read.u32()?;
    let (here, count, home) = (read.u32()?, read.u32()?, read.u128()?);
    if here != number || home != directory.0 {
        return Err(damaged("a page of tombstones of another place"));
    }
    if count as usize > PER_PAGE {
        return Err(damaged("a page of more tombstones than it can hold"));
    }
    let mut tombs = Vec::with_capacity(count as usize);
    for _ in 0..count {
        tombs.push(Tomb {
            file: read.u32()?,
            ticket: Ticket(read.u64()?),
        });
    }
    Ok(tombs)
}
