//! The header of one record: which version of which key it is, where it lies, and what proves its payload.

use super::{
    BLOCK, Reader, TENANT_MAX, begin, close, damaged, hint_number, hint_of, only_encoding,
};
use ziggurat_base::{
    Crc32, Extent, ObjectKey, Result, Ticket,
    checksum::{chunk_count, table_len},
    key::KEY_LEN_MAX,
};
use ziggurat_engine::{
    command::OwnedTags,
    shard_record::{FIXED, header_len, payload_len, record_len},
};

/// How a header begins.
pub const MAGIC: &[u8; 8] = b"ZGDFSREC";

const WHAT: &str = "header of a record";

/// Bytes of a header without its chunk table, at most.
const NAMES_MAX: u64 = FIXED + (TENANT_MAX + 3 * KEY_LEN_MAX + 3) as u64;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose shard file it lies in.
    pub root: u128,
    /// The number of the shard file.
    pub shard: u32,
    /// All of its bytes, counted from where records begin.
    pub extent: Extent,
    /// The version.
    pub ticket: Ticket,
    /// Name of the tenant: numbers of tenants end with the partition's life.
    pub tenant: Box<str>,
    /// The key.
    pub key: ObjectKey,
    /// What the object is related to.
    pub tags: OwnedTags,
    /// Bytes of the payload.
    pub len: u64,
    /// Sum of the payload.
    pub crc: Crc32,
    /// Sums of its chunks; empty up to one chunk.
    pub table: Vec<Crc32>,
}

/// What the first block of a header says before it is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Bytes of the header, whole blocks.
    pub len: u32,
    /// The number of the shard file.
    pub shard: u32,
    /// Whose it is.
    pub root: u128,
    /// All of its bytes.
    pub extent: Extent,
    /// The version.
    pub ticket: Ticket,
}

impl Peek {
    /// Looks at the first block; `None` where no header begins.
    #[must_use]
    pub fn of(block: &[u8]) -> Option<Self> {
        let rest = block.strip_prefix(MAGIC)?;
        let mut read = Reader { rest, what: WHAT };
        read.bytes(8).ok()?;
        let (len, shard) = (read.u32().ok()?, read.u32().ok()?);
        let root = read.u128().ok()?;
        let extent = Extent::new(read.u64().ok()?, read.u64().ok()?);
        // No more than the longest names and the sums of what fits into the extent: nobody is made to read more.
        let most = NAMES_MAX + table_len(extent.len);
        let is_possible = u64::from(len).is_multiple_of(BLOCK)
            && (BLOCK..=most.next_multiple_of(BLOCK)).contains(&u64::from(len));
        is_possible.then_some(Self {
            len,
            shard,
            root,
            extent,
            ticket: Ticket(read.u64().ok()?),
        })
    }
}

impl Header {
    /// Bytes of the header: whole blocks.
    #[must_use]
    pub fn encoded_len(&self) -> u64 {
        header_len(
            &self.tenant,
            self.key.as_key(),
            &self.tags.as_tags(),
            self.len,
        )
    }

    /// Bytes of the whole record in a root with this alignment.
    #[must_use]
    pub fn record_len(&self, alignment: u64) -> u64 {
        let tags = self.tags.as_tags();
        record_len(&self.tenant, self.key.as_key(), &tags, self.len, alignment)
    }

    /// Where the payload begins, counted as extents are.
    #[must_use]
    pub fn payload_at(&self) -> u64 {
        self.extent.end() - payload_len(self.len)
    }

    /// Writes the header.
    ///
    /// # Panics
    /// When the table is not that of a payload of this length, or the tenant's name is too long: who writes has checked
    /// both.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.tenant.len() <= TENANT_MAX, "a checked tenant name");
        assert!(
            self.table.len() as u64 == table_len(self.len) / 4,
            "a chunk table of another length"
        );
        let whole = self.encoded_len();
        let names = [
            self.tenant.as_bytes(),
            self.key.as_key().bytes(),
            bytes_of(self.tags.parent.as_ref()),
            bytes_of(self.tags.group.as_ref()),
        ];
        let mut out = begin(MAGIC);
        out.reserve(whole as usize);
        out.extend_from_slice(&[hint_number(self.tags.hint), 0]);
        out.extend_from_slice(&(whole as u32).to_le_bytes());
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.root.to_le_bytes());
        for number in [self.extent.offset, self.extent.len, self.ticket.0, self.len] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.crc.0.to_le_bytes());
        for name in names {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        }
        out.extend_from_slice(&[0; 12]);
        debug_assert_eq!(out.len() as u64, FIXED);
        for name in names {
            out.extend_from_slice(name);
        }
        out.resize(out.len().next_multiple_of(4), 0);
        for sum in &self.table {
            out.extend_from_slice(&sum.0.to_le_bytes());
        }
        let out = close(out);
        debug_assert_eq!(out.len() as u64, whole);
        out
    }

    /// Reads a header from all of its blocks.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a newer format.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut read = Reader::open(bytes, MAGIC, WHAT)?;
        let hint = hint_of(read.u8()?)?;
        read.exactly(&[0])?;
        let (whole, shard, root) = (read.u32()?, read.u32()?, read.u128()?);
        if whole as usize != bytes.len() {
            return Err(damaged("a header of another length"));
        }
        let extent = Extent::new(read.u64()?, read.u64()?);
        let (ticket, len) = (Ticket(read.u64()?), read.u64()?);
        let crc = Crc32(read.u32()?);
        let lens = [read.u16()?, read.u16()?, read.u16()?, read.u16()?].map(usize::from);
        read.exactly(&[0; 12])?;
        let tenant = read.text(lens[0])?.into();
        let key = ObjectKey::new(read.bytes(lens[1])?)?;
        let tags = OwnedTags {
            parent: read.key(lens[2])?,
            group: read.key(lens[3])?,
            hint,
        };
        let names: usize = lens.iter().sum();
        read.exactly(&[0; 3][..names.next_multiple_of(4) - names])?;
        let count = match table_len(len) {
            0 => 0,
            _ => usize::try_from(chunk_count(len)).unwrap_or(usize::MAX),
        };
        let sums = read.bytes(count.saturating_mul(4))?.as_chunks::<4>().0;
        let header = Self {
            root,
            shard,
            extent,
            ticket,
            tenant,
            key,
            tags,
            len,
            crc,
            table: sums
                .iter()
                .map(|sum| Crc32(u32::from_le_bytes(*sum)))
                .collect(),
        };
        // The payload lies behind the header and inside of the extent, whose end is a number.
        let room = extent.len.checked_sub(u64::from(whole));
        let is_inside = extent.offset.checked_add(extent.len).is_some()
            && room.is_some_and(|room| payload_len(len) <= room);
        if !is_inside || lens[0] > TENANT_MAX || header.encoded_len() != u64::from(whole) {
            return Err(damaged("a header that contradicts itself"));
        }
        let again = header.encode();
        only_encoding(header, &again, bytes, WHAT)
    }
}

fn bytes_of(key: Option<&ObjectKey>) -> &[u8] {
    key.map_or(&[], |key| key.as_key().bytes())
}
