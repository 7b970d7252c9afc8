//! What a shard file says of itself, twice: the whole one of the higher generation counts, the other one is written next.

use super::{BLOCK, Reader, begin, close, only_encoding};
use ziggurat_base::{Code, Era, Result};

const MAGIC: &[u8; 8] = b"ZGDFSSUP";

/// Blocks at the start of a shard file that hold copies.
pub const COPIES: u64 = 2;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Whose shard file this is.
    pub root: u128,
    /// Its number there.
    pub shard: u32,
    /// Extents are multiples of this many bytes.
    pub alignment: u32,
    /// Bytes of the file.
    pub shard_bytes: u64,
    /// Counts the copies that were written, from 1.
    pub generation: u64,
    /// The life of the partition that allocates here.
    pub era: Era,
}

impl Superblock {
    /// One copy, one block.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.root.to_le_bytes());
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.alignment.to_le_bytes());
        out.extend_from_slice(&self.shard_bytes.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.era.0.to_le_bytes());
        close(out)
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a shard file of a later release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "superblock of a shard file";
        let mut read = Reader::open(bytes, MAGIC, WHAT)?;
        read.exactly(&[0; 2])?;
        let superblock = Self {
            root: read.u128()?,
            shard: read.u32()?,
            alignment: read.u32()?,
            shard_bytes: read.u64()?,
            generation: read.u64()?,
            era: Era(read.u32()?),
        };
        let again = superblock.encode();
        only_encoding(superblock, &again, bytes, WHAT)
    }

    /// The one that counts of the copies at the start of a file, and which copy it is.
    ///
    /// # Errors
    /// As [`Superblock::decode`], when none is whole.
    pub fn newest(start: &[u8]) -> Result<(Self, u64)> {
        let mut newest: Option<(Self, u64)> = None;
        let mut trouble = None;
        for (copy, block) in (0..COPIES).zip(start.chunks(BLOCK as usize)) {
            match Self::decode(block) {
                Ok(one) if newest.is_none_or(|(best, _)| one.generation > best.generation) => {
                    newest = Some((one, copy));
                }
                Ok(_) => {}
                // A later release has it, whatever the other copy says.
                Err(error) if error.code() == Code::InvalidVersion => return Err(error),
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        newest.ok_or_else(|| {
            trouble.unwrap_or_else(|| super::damaged("the file ends before its superblock"))
        })
    }
}
