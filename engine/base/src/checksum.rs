//! Proof of bytes: CRC-32 (ISO-HDLC) of the payload, and of each of its 64 KiB chunks.
//!
//! The object's checksum equals the combination of its chunks' checksums, so one pass over the bytes gives both. A
//! payload of up to one chunk has no table; a longer one has a [`ChunkTable`] beside it, which makes ranged reads
//! provable: the table is proved against the object's checksum and each chunk against the table.

use crate::{Code, Error};

/// Size of a chunk in bytes. Payloads are cut by payload offset, the last chunk may be shorter.
pub const CHUNK: usize = 64 * 1024;

/// A CRC-32 (ISO-HDLC) of some bytes. The sum of no bytes is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Crc32(pub u32);

impl Crc32 {
    /// Sums `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc32fast::hash(bytes))
    }

    /// The sum of these bytes followed by `more`.
    #[must_use]
    pub fn then(self, more: &[u8]) -> Self {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        hasher.update(more);
        Self(hasher.finalize())
    }

    /// The sum of these bytes followed by `len` bytes whose sum is `next`.
    #[must_use]
    pub fn combine(self, next: Self, len: u64) -> Self {
        let mut first = crc32fast::Hasher::new_with_initial_len(self.0, 0);
        first.combine(&crc32fast::Hasher::new_with_initial_len(next.0, len));
        Self(first.finalize())
    }
}

/// Number of chunks of a payload of `len` bytes; an empty payload has none.
#[must_use]
pub fn chunk_count(len: u64) -> u64 {
    len.div_ceil(CHUNK as u64)
}

/// Bytes that the chunk table of a payload of `len` bytes takes beside it: 0 up to one chunk, else 4 for each.
#[must_use]
pub fn table_len(len: u64) -> u64 {
    if len <= CHUNK as u64 {
        0
    } else {
        4 * chunk_count(len)
    }
}

/// The checksums of the chunks of one payload, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkTable {
    len: u64,
    sums: Vec<Crc32>,
}

impl ChunkTable {
    /// Sums a payload.
    #[must_use]
    pub fn of(payload: &[u8]) -> Self {
        Self {
            len: payload.len() as u64,
            sums: payload.chunks(CHUNK).map(Crc32::of).collect(),
        }
    }

    /// Takes sums that were computed elsewhere.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] when their number does not fit a payload of `len` bytes.
    pub fn from_sums(len: u64, sums: Vec<Crc32>) -> Result<Self, Error> {
        if sums.len() as u64 != chunk_count(len) {
            return Err(Error::new(
                Code::InvalidParams,
                format!("{} chunk sums for a payload of {len} bytes", sums.len()),
            ));
        }
        Ok(Self { len, sums })
    }

    /// Bytes of the payload.
    #[must_use]
    pub fn payload_len(&self) -> u64 {
        self.len
    }

    /// The sums, one per chunk.
    #[must_use]
    pub fn sums(&self) -> &[Crc32] {
        &self.sums
    }

    /// The checksum of the whole payload.
    #[must_use]
    pub fn object_crc(&self) -> Crc32 {
        let mut left = self.len;
        self.sums.iter().fold(Crc32::default(), |crc, sum| {
            let here = left.min(CHUNK as u64);
            left -= here;
            crc.combine(*sum, here)
        })
    }

    /// The table as it lies beside the payload: 4 bytes little-endian per chunk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.sums
            .iter()
            .flat_map(|sum| sum.0.to_le_bytes())
            .collect()
    }

    /// Reads a table and proves it against the checksum of the object.
    ///
    /// # Errors
    /// [`Code::ChecksumMismatch`] when it has another length or does not combine to `object_crc`.
    pub fn proved(bytes: &[u8], len: u64, object_crc: Crc32) -> Result<Self, Error> {
        let (words, rest) = bytes.as_chunks::<4>();
        let sums: Vec<_> = words
            .iter()
            .map(|w| Crc32(u32::from_le_bytes(*w)))
            .collect();
        let table = Self { len, sums };
        let whole = rest.is_empty() && table.sums.len() as u64 == chunk_count(len);
        if !whole || table.object_crc() != object_crc {
            return Err(Error::new(
                Code::ChecksumMismatch,
                "the chunk table does not belong to this object",
            ));
        }
        Ok(table)
    }
}

/// Collects chunk sums while payload bytes pass in any cut; see [`Summer::finish`].
#[derive(Clone, Debug, Default)]
pub struct Summer {
    len: u64,
    open: Crc32,
    sums: Vec<Crc32>,
}

impl Summer {
    /// Sums the next bytes of the payload.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(self.room()));
            self.push(Crc32(0).then(now), now.len());
            bytes = rest;
        }
    }

    /// Bytes until the end of the current chunk: the most that [`Summer::push`] may take at once.
    #[must_use]
    pub fn room(&self) -> usize {
        CHUNK - (self.len % CHUNK as u64) as usize
    }

    /// Takes the sum of the next `len` bytes, which must lie in one chunk.
    pub fn push(&mut self, sum: Crc32, len: usize) {
        assert!(len <= self.room(), "a piece of a sum must not span chunks");
        if len == 0 {
            return;
        }
        let fresh = self.len.is_multiple_of(CHUNK as u64);
        self.open = if fresh {
            sum
        } else {
            self.open.combine(sum, len as u64)
        };
        self.len += len as u64;
        if self.len.is_multiple_of(CHUNK as u64) {
            self.sums.push(self.open);
        }
    }

    /// The sum of all that passed.
    #[must_use]
    pub fn crc(&self) -> Crc32 {
        let whole = self
            .sums
            .iter()
            .fold(Crc32::default(), |crc, sum| crc.combine(*sum, CHUNK as u64));
        match self.len % CHUNK as u64 {
            0 => whole,
            open_len => whole.combine(self.open, open_len),
        }
    }

    /// The table of all that passed.
    #[must_use]
    pub fn finish(mut self) -> ChunkTable {
        if !self.len.is_multiple_of(CHUNK as u64) {
            self.sums.push(self.open);
        }
        ChunkTable {
            len: self.len,
            sums: self.sums,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, ChunkTable, Crc32, Summer, table_len};
    use proptest::prelude::*;

    fn payload(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    #[test]
    fn known_vector() {
        assert_eq!(Crc32::of(b"123456789").0, 0xcbf4_3926);
        assert_eq!(Crc32::of(b""), Crc32::default());
    }

    #[test]
    fn table_proves_itself_and_nothing_else() {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 17] {
            let bytes = payload(len);
            let table = ChunkTable::of(&bytes);
            let crc = Crc32::of(&bytes);
            assert_eq!(table.object_crc(), crc, "{len}");
            let mut encoded = table.encode();
            assert_eq!(
                ChunkTable::proved(&encoded, len as u64, crc).unwrap(),
                table
            );
            if len > CHUNK {
                assert_eq!(encoded.len() as u64, table_len(len as u64));
            }
            if let Some(byte) = encoded.first_mut() {
                *byte ^= 1;
                assert!(ChunkTable::proved(&encoded, len as u64, crc).is_err());
                assert!(ChunkTable::proved(&encoded[1..], len as u64, crc).is_err());
            }
        }
    }

    proptest! {
        #[test]
        fn summer_is_blind_to_the_cut(len in 0..3 * CHUNK, cuts in prop::collection::vec(1..80_000_usize, 0..12)) {
            let bytes = payload(len);
            let mut summer = Summer::default();
            let mut rest = &bytes[..];
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                summer.update(now);
                rest = later;
            }
            summer.update(rest);
            prop_assert_eq!(summer.crc(), Crc32::of(&bytes));
            prop_assert_eq!(summer.finish(), ChunkTable::of(&bytes));
        }
    }
}
