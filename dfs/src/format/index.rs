//! An index of a root: every object that was found and where it lies, in one file. It proves nothing: each read proves the
//! record that it names.

use super::{Reader, TENANT_MAX, begin, close, damaged, hint_number, hint_of, only_encoding};
use crate::Found;
use ziggurat_base::{Crc32, Extent, ObjectKey, Result, Ticket};
use ziggurat_engine::command::OwnedTags;

const MAGIC: &[u8; 8] = b"ZGDFSIDX";
const WHAT: &str = "index of a root";

/// The name of the index in its root.
pub const NAME: &str = "index.zig";

/// Bytes of an entry in front of its names.
const FIXED: usize = 56;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Of which root.
    pub root: u128,
    /// What was found, with the number of its shard file.
    pub entries: Vec<(u32, Found)>,
}

fn bytes_of(key: Option<&ObjectKey>) -> &[u8] {
    key.map_or(&[], |key| key.as_key().bytes())
}

impl Index {
    /// The whole file.
    ///
    /// # Panics
    /// With a tenant's name that is too long for a record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.root.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u64).to_le_bytes());
        out.resize(64, 0);
        for (shard, found) in &self.entries {
            encode_entry(*shard, found, &mut out);
        }
        close(out)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for an index of a later release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut read = Reader::open(bytes, MAGIC, WHAT)?;
        read.exactly(&[0; 2])?;
        let (root, count) = (read.u128()?, read.u64()?);
        read.exactly(&[0; 24])?;
        if count > (read.rest.len() / FIXED) as u64 {
            return Err(damaged("an index with more entries than it has room for"));
        }
        let mut entries = Vec::with_capacity(count as usize);
        for _ in 0..count {
            entries.push(decode_entry(&mut read)?);
        }
        let index = Self { root, entries };
        let again = index.encode();
        only_encoding(index, &again, bytes, WHAT)
    }
}

fn encode_entry(shard: u32, found: &Found, out: &mut Vec<u8>) {
    assert!(found.tenant.len() <= TENANT_MAX, "a tenant of a record");
    let names = [
        found.tenant.as_bytes(),
        found.key.as_key().bytes(),
        bytes_of(found.tags.parent.as_ref()),
        bytes_of(found.tags.group.as_ref()),
    ];
    let start = out.len();
    out.extend_from_slice(&shard.to_le_bytes());
    out.extend_from_slice(&found.crc.0.to_le_bytes());
    for number in [
        found.extent.offset,
        found.extent.len,
        found.ticket.0,
        found.len,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for name in names {
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    }
    out.push(hint_number(found.tags.hint));
    out.extend_from_slice(&[0; 7]);
    debug_assert_eq!(out.len() - start, FIXED);
    for name in names {
        out.extend_from_slice(name);
    }
    out.resize(out.len().next_multiple_of(8), 0);
}

fn decode_entry(read: &mut Reader<'_>) -> Result<(u32, Found)> {
    let (shard, crc) = (read.u32()?, Crc32(read.u32()?));
    let extent = Extent::new(read.u64()?, read.u64()?);
    let (ticket, len) = (Ticket(read.u64()?), read.u64()?);
    let lens = [read.u16()?, read.u16()?, read.u16()?, read.u16()?].map(usize::from);
    let hint = hint_of(read.u8()?)?;
    read.exactly(&[0; 7])?;
    if lens[0] > TENANT_MAX {
        return Err(damaged("a tenant's name that is too long"));
    }
    let tenant = read.text(lens[0])?.into();
    let key = ObjectKey::new(read.bytes(lens[1])?)?;
    let tags = OwnedTags {
        parent: read.key(lens[2])?,
        group: read.key(lens[3])?,
        hint,
    };
    let names: usize = lens.iter().sum();
    read.exactly(&[0; 7][..names.next_multiple_of(8) - names])?;
    let found = Found {
        tenant,
        key,
        ticket,
        len,
        crc,
        tags,
        extent,
    };
    Ok((shard, found))
}
