//! The bytes of a root, exactly as docs/formats/dfs.md describes them. Encoders and decoders only: no file is touched here.
//! A decoder accepts nothing that its encoder would not have written and never panics.

pub mod census;
pub mod identity;
pub mod index;
pub mod record;
pub mod removed;
pub mod superblock;

use std::borrow::Cow;
use ziggurat_base::{Code, Crc32, Error, ObjectKey, Result};
use ziggurat_engine::command::Hint;

pub use ziggurat_engine::shard_record::{ALIGNMENT_MAX, ALIGNMENT_MIN, BLOCK};

/// The version of everything in a root. A root of a newer one is refused, older ones are read.
pub const VERSION: u16 = 1;

/// Records begin here, or at the next multiple of the root's alignment.
pub const DATA_START: u64 = 64 << 10;

/// The longest tenant name, in bytes.
pub const TENANT_MAX: usize = 255;

/// Where the sum of everything lies; it is that of all bytes behind it.
const SUM_AT: usize = 8;

/// Bytes that are not what they should be.
pub(crate) fn damaged(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(Code::ChecksumMismatch, what)
}

/// A magic, room for the sum, the version: how everything begins.
fn begin(magic: &[u8; 8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK as usize);
    out.extend_from_slice(magic);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out
}

/// Fills up to whole blocks and lays the sum.
fn close(mut out: Vec<u8>) -> Vec<u8> {
    out.resize(out.len().next_multiple_of(BLOCK as usize), 0);
    let crc = Crc32::of(&out[SUM_AT + 4..]);
    out[SUM_AT..SUM_AT + 4].copy_from_slice(&crc.0.to_le_bytes());
    out
}

/// Takes little-endian numbers off the front of what was proved.
#[derive(Clone, Copy, Debug)]
struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Proves magic and sum of `bytes`, and goes on behind the version.
    fn open(bytes: &'a [u8], magic: &[u8; 8], what: &'static str) -> Result<Self> {
        let mut read = Self { rest: bytes, what };
        read.exactly(magic)?;
        let sum = read.u32()?;
        if Crc32::of(read.rest).0 != sum {
            return Err(damaged(format!("the sum of this {what} is wrong")));
        }
        let version = read.u16()?;
        if version > VERSION {
            let what = format!(
                "this {what} has format version {version}, this release reads up to {VERSION}: use the release that \
                 wrote it"
            );
            return Err(Error::new(Code::InvalidVersion, what));
        }
        Ok(read)
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (now, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| damaged(format!("this {} ends too early", self.what)))?;
        self.rest = rest;
        Ok(now)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes(N)?.first_chunk::<N>();
        Ok(*bytes.expect("as many bytes as were asked for"))
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn u128(&mut self) -> Result<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Bytes that are what they are in everything of this version.
    fn exactly(&mut self, want: &[u8]) -> Result<()> {
        if self.bytes(want.len())? == want {
            return Ok(());
        }
        Err(damaged(format!("this is no {}", self.what)))
    }

    fn text(&mut self, len: usize) -> Result<&'a str> {
        let bytes = self.bytes(len)?;
        let what = self.what;
        std::str::from_utf8(bytes)
            .map_err(|_| damaged(format!("a name in this {what} that is no text")))
    }

    /// A key, or none where its length is 0.
    fn key(&mut self, len: usize) -> Result<Option<ObjectKey>> {
        let bytes = self.bytes(len)?;
        (len > 0).then(|| ObjectKey::new(bytes)).transpose()
    }
}

/// What was decoded must encode to the bytes that it came from.
fn only_encoding<T>(value: T, again: &[u8], bytes: &[u8], what: &str) -> Result<T> {
    if again == bytes {
        return Ok(value);
    }
    Err(damaged(format!("this {what} contradicts itself")))
}

fn hint_number(hint: Hint) -> u8 {
    match hint {
        Hint::None => 0,
        Hint::Cold => 1,
        Hint::Hot => 2,
    }
}

fn hint_of(number: u8) -> Result<Hint> {
    match number {
        0 => Ok(Hint::None),
        1 => Ok(Hint::Cold),
        2 => Ok(Hint::Hot),
        _ => Err(damaged("a hint that does not exist")),
    }
}
