//! The bytes on disk, exactly as docs/formats/ssd-log.md describes them. Encoders and decoders only: no file is touched
//! here. A decoder accepts nothing that its encoder would not have written and never panics.

pub mod batch;
pub mod codec;
pub mod file;
pub mod identity;
pub mod record;
pub mod tomb;

use std::borrow::Cow;
use ziggurat_base::{Code, Crc32, Error, Result};

/// The version of everything in a directory. A directory of a newer one is refused, older ones are read.
pub const VERSION: u16 = 1;

/// Headers, footers and batches begin on multiples of this many bytes, payloads on multiples of the directory's block.
pub const PAGE: u64 = 4096;

/// `len` rounded up to whole pages.
#[must_use]
pub fn pages(len: u64) -> u64 {
    len.next_multiple_of(PAGE)
}

/// Bytes that are not what they should be.
pub(crate) fn damaged(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(Code::ChecksumMismatch, what)
}

/// A directory or file that a later release wrote.
pub(crate) fn newer(what: &str, version: u16) -> Error {
    Error::new(
        Code::InvalidVersion,
        format!(
            "{what} has format version {version}, this release reads up to {VERSION}: use the release that wrote it"
        ),
    )
}

/// Takes little-endian numbers off the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (now, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| damaged("the bytes end too early"))?;
        self.rest = rest;
        Ok(now)
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (now, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| damaged("the bytes end too early"))?;
        self.rest = rest;
        Ok(*now)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Bytes that must be what they are in every file of this version.
    pub(crate) fn exactly(&mut self, want: &[u8], what: &str) -> Result<()> {
        if self.bytes(want.len())? == want {
            return Ok(());
        }
        Err(damaged(format!("this is no {what}")))
    }
}

/// Sums everything behind the first `skip` bytes and lays the sum there.
pub(crate) fn seal(bytes: &mut [u8], at: usize) {
    let crc = Crc32::of(&bytes[at + 4..]);
    bytes[at..at + 4].copy_from_slice(&crc.0.to_le_bytes());
}

/// Whether the sum at `at` is that of everything behind it.
pub(crate) fn check_seal(bytes: &[u8], at: usize, what: &str) -> Result<()> {
    let sum = bytes.get(at..at + 4);
    let rest = bytes.get(at + 4..);
    match (sum, rest) {
        (Some(sum), Some(rest)) if Crc32::of(rest).0.to_le_bytes() == sum => Ok(()),
        _ => Err(damaged(format!("the sum of this {what} is wrong"))),
    }
}
