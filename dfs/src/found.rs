//! Names and places of records.

use crate::format::record::Header;
use ziggurat_base::{Crc32, Extent, Key, ObjectKey, Ticket};
use ziggurat_engine::command::OwnedTags;

/// Which version of which key of which tenant: what a record must say before it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// Name of the tenant.
    pub tenant: &'a str,
    /// The key.
    pub key: Key<'a>,
    /// The version.
    pub ticket: Ticket,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the shard file.
    pub shard: u32,
    /// All of its bytes, counted from where the records of the file begin.
    pub extent: Extent,
}

/// A record that was found by its header. Its payload is not proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name of the tenant.
    pub tenant: Box<str>,
    /// The key.
    pub key: ObjectKey,
    /// The version.
    pub ticket: Ticket,
    /// Bytes of the payload.
    pub len: u64,
    /// Sum of the payload.
    pub crc: Crc32,
    /// What the object is related to.
    pub tags: OwnedTags,
    /// All bytes of the record.
    pub extent: Extent,
}

impl Found {
    /// The names.
    #[must_use]
    pub fn name(&self) -> Name<'_> {
        Name {
            tenant: &self.tenant,
            key: self.key.as_key(),
            ticket: self.ticket,
        }
    }
}

impl From<Header> for Found {
    fn from(header: Header) -> Self {
        Self {
            tenant: header.tenant,
            key: header.key,
            ticket: header.ticket,
            len: header.len,
            crc: header.crc,
            tags: header.tags,
            extent: header.extent,
        }
    }
}
