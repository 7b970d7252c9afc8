//! A log file: its head, the mark that seals it, and the footer with all its records.

use super::{
    PAGE, Reader, VERSION, damaged, newer, pages,
    record::{Form, Record},
};
use ziggurat_base::{DirectoryId, Result};

const MAGIC: &[u8; 8] = b"ZGLOG\0\0\0";
const SEAL_MAGIC: &[u8; 8] = b"ZGSEAL\0\0";
const FOOTER_MAGIC: &[u8; 8] = b"ZGFOOT\0\0";

const SUM_AT: usize = 8;
const FOOTER_FIXED: usize = 40;

/// Where the first batch begins: behind the head and the seal, a page each.
pub const FIRST_BATCH: u64 = 2 * PAGE;

/// Where the seal lies.
pub const SEAL_AT: u64 = PAGE;

/// What a file says of itself at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// The directory that it belongs to.
    pub directory: DirectoryId,
    /// Its number there.
    pub number: u32,
    /// Payloads begin on multiples of this many bytes.
    pub block: u32,
}

impl FileHead {
    /// The first page.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAGE as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.directory.0.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.block.to_le_bytes());
        out.resize(PAGE as usize, 0);
        super::seal(&mut out, SUM_AT);
        out
    }

    /// Reads the first page.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a newer format.
    pub fn decode(page: &[u8]) -> Result<Self> {
        let page = Reader::new(page).bytes(PAGE as usize)?;
        let mut read = Reader::new(page);
        read.exactly(MAGIC, "log file")?;
        super::check_seal(page, SUM_AT, "log file's head")?;
        read.u32()?;
        let version = read.u16()?;
        if version > VERSION {
            return Err(newer("a log file", version));
        }
        read.exactly(&[0; 2], "log file of this version")?;
        let head = Self {
            directory: DirectoryId(read.u128()?),
            number: read.u32()?,
            block: read.u32()?,
        };
        if head.encode() == page {
            Ok(head)
        } else {
            Err(damaged("a log file's head with bytes behind its end"))
        }
    }
}

/// The mark that a file is complete, and where its footer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The number of the file.
    pub number: u32,
    /// First byte of the footer.
    pub footer_at: u64,
    /// Bytes of it.
    pub footer_len: u64,
}

impl Seal {
    /// The second page.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAGE as usize);
        out.extend_from_slice(SEAL_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.footer_at.to_le_bytes());
        out.extend_from_slice(&self.footer_len.to_le_bytes());
        out.resize(PAGE as usize, 0);
        super::seal(&mut out, SUM_AT);
        out
    }

    /// Reads the second page; `None` when the file is not sealed.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage: the file is read as if it were not sealed.
    pub fn decode(page: &[u8]) -> Result<Option<Self>> {
        let page = Reader::new(page).bytes(PAGE as usize)?;
        if page.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut read = Reader::new(page);
        read.exactly(SEAL_MAGIC, "seal")?;
        super::check_seal(page, SUM_AT, "seal")?;
        read.u32()?;
        let seal = Self {
            number: read.u32()?,
            footer_at: read.u64()?,
            footer_len: read.u64()?,
        };
        if seal.encode() == page {
            Ok(Some(seal))
        } else {
            Err(damaged("a seal with bytes behind its end"))
        }
    }
}

/// Bytes of the footer for records whose headers take `headers` bytes in it.
#[must_use]
pub fn footer_len(headers: u64) -> u64 {
    pages(FOOTER_FIXED as u64 + headers)
}

/// Writes the footer, filled up with zeros to whole pages.
#[must_use]
pub fn encode_footer(number: u32, records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(FOOTER_MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(records.len() as u64).to_le_bytes());
    out.extend_from_slice(&[0; 16]);
    debug_assert_eq!(out.len(), FOOTER_FIXED);
    for record in records {
        record.encode_into(Form::Footer, &mut out);
    }
    let len = out.len() as u64;
    out[24..32].copy_from_slice(&len.to_le_bytes());
    super::seal(&mut out, SUM_AT);
    out.resize(pages(len) as usize, 0);
    out
}

/// Reads the footer of file `number`.
///
/// # Errors
/// `ChecksumMismatch` for damage: the file is read as if it were not sealed.
pub fn decode_footer(number: u32, bytes: &[u8]) -> Result<Vec<Record>> {
    let mut read = Reader::new(bytes);
    read.exactly(FOOTER_MAGIC, "footer")?;
    read.u32()?;
    let (file, count, len) = (read.u32()?, read.u64()?, read.u64()?);
    read.exactly(&[0; 8], "footer of this version")?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let bytes = Reader::new(bytes).bytes(len)?;
    super::check_seal(bytes, SUM_AT, "footer")?;
    if file != number || len < FOOTER_FIXED {
        return Err(damaged("the footer of another file"));
    }
    let mut rest = &bytes[FOOTER_FIXED..];
    let mut records = Vec::new();
    for _ in 0..count {
        let (record, form, len) = Record::decode(rest)?;
        if form != Form::Footer {
            return Err(damaged("a footer with a full header in it"));
        }
        records.push(record);
        rest = &rest[len..];
    }
    if rest.is_empty() {
        Ok(records)
    } else {
        Err(damaged("a footer with bytes behind its records"))
    }
}
