//! A batch: one block of record headers, then their payloads.

use super::{
    PAGE, Reader, VERSION, damaged, newer, pages,
    record::{Form, Record},
};
use ziggurat_base::Result;

const MAGIC: &[u8; 8] = b"ZGBATCH1";

/// Bytes of the fixed part.
pub const FIXED: usize = 64;

const SUM_AT: usize = 8;

/// The most bytes that the headers of one batch may take: those of one object of 1 TiB with its chunk table.
pub const HEADERS_MAX: u64 = 80 << 20;

/// The fixed part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the file that it was written to.
    pub file: u32,
    /// Where in it: the batch and its file prove each other.
    pub at: u64,
    /// Everything before this offset was durable when the batch was written.
    pub synced: u64,
    /// Records.
    pub count: u32,
    /// Bytes of the headers, this fixed part included.
    pub headers_len: u32,
    /// Bytes of the whole batch, a multiple of [`PAGE`].
    pub len: u64,
}

/// Bytes that the headers of `records` take in front of a batch, rounded up to pages.
#[must_use]
pub fn headers_len<'a>(records: impl IntoIterator<Item = &'a Record>) -> u64 {
    let records = records.into_iter();
    pages(
        FIXED as u64
            + records
                .map(|r| r.encoded_len(Form::Full) as u64)
                .sum::<u64>(),
    )
}

/// Writes the headers of a batch, filled up with zeros to whole pages.
///
/// # Panics
/// When the headers are longer than [`HEADERS_MAX`]: the tier cuts batches before.
#[must_use]
pub fn encode(file: u32, at: u64, synced: u64, len: u64, records: &[Record]) -> Vec<u8> {
    let mut out = Vec::with_capacity(headers_len(records) as usize);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&file.to_le_bytes());
    out.extend_from_slice(&(records.len() as u32).to_le_bytes());
    for number in [at, synced, len] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&[0; 16]);
    debug_assert_eq!(out.len(), FIXED);
    for record in records {
        record.encode_into(Form::Full, &mut out);
    }
    assert!(out.len() as u64 <= HEADERS_MAX, "a batch was not cut");
    let headers_len = out.len() as u32;
    out[48..52].copy_from_slice(&headers_len.to_le_bytes());
    super::seal(&mut out, SUM_AT);
    out.resize(pages(out.len() as u64) as usize, 0);
    out
}

impl Head {
    /// Reads the fixed part, which is not proved yet: it says how many bytes prove it.
    ///
    /// # Errors
    /// `ChecksumMismatch` when this is no batch, `InvalidVersion` for a newer format.
    pub fn peek(bytes: &[u8]) -> Result<Self> {
        let mut read = Reader::new(bytes);
        read.exactly(MAGIC, "batch")?;
        read.u32()?;
        let version = read.u16()?;
        if version > VERSION {
            return Err(newer("a batch", version));
        }
        read.exactly(&[0; 2], "batch of this version")?;
        let (file, count) = (read.u32()?, read.u32()?);
        let (at, synced, len) = (read.u64()?, read.u64()?, read.u64()?);
        let headers_len = read.u32()?;
        read.exactly(&[0; 12], "batch of this version")?;
        let head = Self {
            file,
            at,
            synced,
            count,
            headers_len,
            len,
        };
        let headers = pages(u64::from(headers_len));
        let sane = headers_len as usize >= FIXED
            && headers <= HEADERS_MAX
            && headers <= len
            && at.checked_add(len).is_some();
        if !sane || !len.is_multiple_of(PAGE) || synced > at {
            return Err(damaged("a batch that contradicts itself"));
        }
        Ok(head)
    }

    /// Proves and reads all headers; `bytes` has at least `headers_len` of them.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a newer format.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<Record>)> {
        let head = Self::peek(bytes)?;
        let bytes = Reader::new(bytes).bytes(head.headers_len as usize)?;
        super::check_seal(bytes, SUM_AT, "batch")?;
        let mut rest = &bytes[FIXED..];
        let mut records = Vec::new();
        let end = head.at.saturating_add(head.len);
        for _ in 0..head.count {
            let header_at = head.at + (bytes.len() - rest.len()) as u64;
            let (record, form, len) = Record::decode(rest)?;
            let inside = record.at >= head.at + u64::from(head.headers_len)
                && record
                    .at
                    .checked_add(record.stored_len)
                    .is_some_and(|to| to <= end);
            if form != Form::Full || record.header_at != header_at || !inside {
                return Err(damaged("a record that lies outside its batch"));
            }
            records.push(record);
            rest = &rest[len..];
        }
        if !rest.is_empty() {
            return Err(damaged("a batch with bytes behind its records"));
        }
        Ok((head, records))
    }
}
