//! How much room an object takes in a shard file: what the partition that allocates it and the client that writes it must
//! agree on to the byte. docs/formats/dfs.md describes the record itself.
//!
//! ```text
//! extent: header, whole blocks │ room up to the alignment │ payload, whole blocks
//! ```
//!
//! The payload lies at the end of its extent, so that who knows the lengths of extent and object finds it without the
//! header.

use crate::command::Tags;
use ziggurat_base::{Key, checksum::table_len};

/// Headers and payloads begin on multiples of this many bytes.
pub const BLOCK: u64 = 4096;

/// Bytes of the header in front of its names.
pub const FIXED: u64 = 96;

/// The smallest alignment of extents that a root may have.
pub const ALIGNMENT_MIN: u64 = BLOCK;

/// The largest one.
pub const ALIGNMENT_MAX: u64 = 1 << 20;

fn blocks(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// Bytes of the header of an object of `len` bytes that are not filling: fixed part, names, chunk table.
#[must_use]
pub fn header_bytes(tenant: &str, key: Key<'_>, tags: &Tags<'_>, len: u64) -> u64 {
    let bytes_of = |key: Option<Key<'_>>| key.map_or(0, |key| key.bytes().len());
    let names = tenant.len() + key.bytes().len() + bytes_of(tags.parent) + bytes_of(tags.group);
    let names = (names as u64).next_multiple_of(4);
    (FIXED + names).saturating_add(table_len(len))
}

/// Bytes that the header takes: whole blocks.
#[must_use]
pub fn header_len(tenant: &str, key: Key<'_>, tags: &Tags<'_>, len: u64) -> u64 {
    blocks(header_bytes(tenant, key, tags, len))
}

/// Bytes that the payload takes: whole blocks.
#[must_use]
pub fn payload_len(len: u64) -> u64 {
    blocks(len)
}

/// Bytes of the extent of an object of `len` bytes in a root whose extents are multiples of `alignment`, a power of two
/// from [`ALIGNMENT_MIN`] to [`ALIGNMENT_MAX`]. More than any shard file has when it does not fit into 64 bits.
#[must_use]
pub fn record_len(tenant: &str, key: Key<'_>, tags: &Tags<'_>, len: u64, alignment: u64) -> u64 {
    let bytes = header_len(tenant, key, tags, len).saturating_add(payload_len(len));
    bytes
        .checked_next_multiple_of(alignment)
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{header_bytes, header_len, payload_len, record_len};
    use crate::command::Tags;
    use ziggurat_base::{CHUNK, Key};

    fn key(bytes: &[u8]) -> Key<'_> {
        Key::new(bytes).expect("a good key")
    }

    #[test]
    fn an_empty_object_is_its_header() {
        let tags = Tags::default();
        assert_eq!(header_bytes("default", key(b"k"), &tags, 0), 96 + 8);
        assert_eq!(header_len("default", key(b"k"), &tags, 0), 4096);
        assert_eq!(payload_len(0), 0);
        assert_eq!(record_len("default", key(b"k"), &tags, 0, 4096), 4096);
        assert_eq!(record_len("default", key(b"k"), &tags, 0, 1 << 20), 1 << 20);
    }

    #[test]
    fn names_and_chunk_tables_make_the_header_longer() {
        let long = [b'x'; 4096];
        let tags = Tags {
            parent: Some(key(&long)),
            group: Some(key(b"abc")),
            ..Tags::default()
        };
        assert_eq!(header_bytes("t", key(b"k"), &tags, 1), 96 + 4104);
        assert_eq!(header_len("t", key(b"k"), &tags, 1), 8192);
        let chunk = CHUNK as u64;
        let plain = Tags::default();
        assert_eq!(header_bytes("t", key(b"k"), &plain, chunk), 96 + 4);
        assert_eq!(header_bytes("t", key(b"k"), &plain, chunk + 1), 96 + 4 + 8);
        // 999 sums fill the first block: 96 + 4 + 4 × 999 = 4096.
        assert_eq!(header_len("t", key(b"k"), &plain, 999 * chunk), 4096);
        assert_eq!(header_len("t", key(b"k"), &plain, 999 * chunk + 1), 8192);
    }

    #[test]
    fn a_record_is_header_and_payload_up_to_the_alignment() {
        let tags = Tags::default();
        for alignment in [4096, 65_536, 1 << 20] {
            for len in [1, 4096, 4097, 65_536, 65_537, 5 << 20] {
                let record = record_len("default", key(b"k"), &tags, len, alignment);
                let bytes = header_len("default", key(b"k"), &tags, len) + payload_len(len);
                assert!(record.is_multiple_of(alignment) && record >= bytes);
                assert!(record - bytes < alignment, "{len} at {alignment}");
            }
        }
    }

    #[test]
    fn absurd_lengths_fit_nowhere() {
        let tags = Tags::default();
        for len in [u64::MAX, u64::MAX - 4096, u64::MAX / 2 + 1] {
            let record = record_len("t", key(b"k"), &tags, len, 4096);
            assert!(record >= len, "{len}");
        }
    }
}
