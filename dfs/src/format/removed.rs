//! A removal log: the tickets of versions that must not come back, a page for each time that some were added.

use super::{BLOCK, Reader, begin, close, damaged, only_encoding};
use ziggurat_base::{Result, Ticket};

const HEAD_MAGIC: &[u8; 8] = b"ZGDFSREM";
const PAGE_MAGIC: &[u8; 8] = b"ZGDFSRMP";

/// How the name of a log begins; 16 hexadecimal digits and [`SUFFIX`] follow.
pub const PREFIX: &str = "removed-";

/// How the name of a log ends.
pub const SUFFIX: &str = ".zig";

/// Bytes of a page in front of its entries.
const FIXED: usize = 64;

/// Bytes of an entry.
const ENTRY: usize = 16;

/// The most entries of a page.
pub const ENTRIES_MAX: usize = (BLOCK as usize - FIXED) / ENTRY;

/// The name of a log.
#[must_use]
pub fn name(number: u64) -> String {
    format!("{PREFIX}{number:016x}{SUFFIX}")
}

/// Whether a file is a log.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let number = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX));
    number.is_some_and(|digits| {
        digits.len() == 16
            && digits
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// The first block of a log of this root.
#[must_use]
pub fn encode_head(root: u128) -> Vec<u8> {
    let mut out = begin(HEAD_MAGIC);
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&root.to_le_bytes());
    close(out)
}

/// Whose log this is, by its first block.
///
/// # Errors
/// `ChecksumMismatch` for damage, `InvalidVersion` for a log of a later release.
pub fn decode_head(bytes: &[u8]) -> Result<u128> {
    const WHAT: &str = "head of a removal log";
    let mut read = Reader::open(bytes, HEAD_MAGIC, WHAT)?;
    read.exactly(&[0; 2])?;
    let root = read.u128()?;
    only_encoding(root, &encode_head(root), bytes, WHAT)
}

/// One version that must not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The version.
    pub ticket: Ticket,
    /// [`ziggurat_base::hash::key_digest`] of its key: older versions of the key are dead too. 0 where the record was
    /// not there any more to say it.
    pub digest: u64,
}

/// A page of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Whose log it is in.
    pub root: u128,
    /// Its number in the log; the head is number 0.
    pub number: u32,
    /// What was removed.
    pub entries: Vec<Removed>,
}

impl Page {
    /// Writes the page.
    ///
    /// # Panics
    /// With more than [`ENTRIES_MAX`] entries.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= ENTRIES_MAX, "a page has its limit");
        let mut out = begin(PAGE_MAGIC);
        out.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.root.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.resize(FIXED, 0);
        for entry in &self.entries {
            out.extend_from_slice(&entry.ticket.0.to_le_bytes());
            out.extend_from_slice(&entry.digest.to_le_bytes());
        }
        close(out)
    }

    /// Reads a page.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a log of a later release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "page of a removal log";
        let mut read = Reader::open(bytes, PAGE_MAGIC, WHAT)?;
        let count = usize::from(read.u16()?);
        let (root, number) = (read.u128()?, read.u32()?);
        read.exactly(&[0; 28])?;
        if count > ENTRIES_MAX || number == 0 {
            return Err(damaged("a page of a removal log that contradicts itself"));
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(Removed {
                ticket: Ticket(read.u64()?),
                digest: read.u64()?,
            });
        }
        let page = Self {
            root,
            number,
            entries,
        };
        let again = page.encode();
        only_encoding(page, &again, bytes, WHAT)
    }
}
