//! The file that says which directory this is.

use super::{PAGE, Reader, VERSION, damaged, newer};
use ziggurat_base::{DirectoryId, Result};

const MAGIC: &[u8; 8] = b"ZGDIR\0\0\0";
const SUM_AT: usize = 8;

/// The name of the file.
pub const NAME: &str = "ziggurat.id";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The directory.
    pub directory: DirectoryId,
}

impl Identity {
    /// The whole file, one page.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAGE as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.directory.0.to_le_bytes());
        out.resize(PAGE as usize, 0);
        super::seal(&mut out, SUM_AT);
        out
    }

    /// Reads the file.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a directory of a later release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let page = Reader::new(bytes).bytes(PAGE as usize)?;
        let mut read = Reader::new(page);
        read.exactly(MAGIC, "directory of this store")?;
        super::check_seal(page, SUM_AT, "directory's identity")?;
        read.u32()?;
        let version = read.u16()?;
        if version > VERSION {
            return Err(newer("the directory", version));
        }
        read.exactly(&[0; 2], "identity of this version")?;
        let identity = Self {
            directory: DirectoryId(read.u128()?),
        };
        if identity.encode() == page {
            Ok(identity)
        } else {
            Err(damaged("an identity with bytes behind its end"))
        }
    }
}
