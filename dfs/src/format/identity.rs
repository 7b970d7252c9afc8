//! The file that says which root this is, and how it is cut.

use super::{ALIGNMENT_MAX, ALIGNMENT_MIN, BLOCK, Reader, begin, close, only_encoding};
use ziggurat_base::{Code, Error, Result};

const MAGIC: &[u8; 8] = b"ZGDFSROT";

/// The name of the file.
pub const NAME: &str = "root.zig";

/// The longest name of a cluster, in bytes.
pub const CLUSTER_MAX: usize = 256;

/// The most shard files of a root.
pub const SHARDS_MAX: u32 = 9999;

/// The shortest shard file: one that holds something behind its start whatever the alignment.
pub const SHARD_BYTES_MIN: u64 = 256 << 10;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which root; never 0.
    pub root: u128,
    /// Whose.
    pub cluster: Box<str>,
    /// Bytes of each shard file.
    pub shard_bytes: u64,
    /// Extents are multiples of this many bytes.
    pub alignment: u32,
    /// Shard files that were made whole; 0 while a new root is being made.
    pub shards: u32,
}

impl Identity {
    /// Whether every number is one that a root may have.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] names the value and its bounds.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(Code::InvalidParams, what));
        let cluster = &self.cluster;
        if cluster.is_empty() || cluster.len() > CLUSTER_MAX || cluster.contains(char::is_control) {
            return wrong(format!(
                "{cluster:?} is no name of a cluster: use 1 to {CLUSTER_MAX} bytes of text"
            ));
        }
        let alignment = u64::from(self.alignment);
        if !alignment.is_power_of_two() || !(ALIGNMENT_MIN..=ALIGNMENT_MAX).contains(&alignment) {
            return wrong(format!(
                "extents of a root cannot be aligned to {alignment}: use a power of two from {ALIGNMENT_MIN} to \
                 {ALIGNMENT_MAX}"
            ));
        }
        if self.shard_bytes < SHARD_BYTES_MIN
            || !self.shard_bytes.is_multiple_of(BLOCK)
            || self.shard_bytes > i64::MAX as u64
        {
            return wrong(format!(
                "a shard file cannot have {} bytes: give it at least {SHARD_BYTES_MIN}, in multiples of {BLOCK}",
                self.shard_bytes
            ));
        }
        if self.shards > SHARDS_MAX {
            return wrong(format!(
                "a root cannot have {} shard files: {SHARDS_MAX} at most",
                self.shards
            ));
        }
        if self.root == 0 {
            return wrong("0 is not the number of a root".into());
        }
        Ok(())
    }

    /// The whole file, one block.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.root.to_le_bytes());
        out.extend_from_slice(&self.shard_bytes.to_le_bytes());
        out.extend_from_slice(&self.alignment.to_le_bytes());
        out.extend_from_slice(&self.shards.to_le_bytes());
        out.extend_from_slice(&(self.cluster.len() as u16).to_le_bytes());
        out.extend_from_slice(&[0; 14]);
        out.extend_from_slice(self.cluster.as_bytes());
        close(out)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a root of a later release, `InvalidParams` for numbers that
    /// no root has.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "identity of a root";
        let mut read = Reader::open(bytes, MAGIC, WHAT)?;
        read.exactly(&[0; 2])?;
        let (root, shard_bytes) = (read.u128()?, read.u64()?);
        let (alignment, shards) = (read.u32()?, read.u32()?);
        let len = usize::from(read.u16()?);
        read.exactly(&[0; 14])?;
        let identity = Self {
            root,
            cluster: read.text(len)?.into(),
            shard_bytes,
            alignment,
            shards,
        };
        identity.check()?;
        let again = identity.encode();
        only_encoding(identity, &again, bytes, WHAT)
    }
}
