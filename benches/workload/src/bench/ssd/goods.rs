//! What is written: objects of one length whose bytes lie in memory, with their sums.

use crate::Payload;
use ziggurat_base::{ByteCount, Crc32};

/// Memory that the payloads share at most: more than the caches of a processor.
const MEMORY_MAX: ByteCount = ByteCount::mib(256);

/// Bytes at either end of a payload that are compared when it comes back; that all are right is for the tier to prove.
const ENDS: usize = 64;

/// See the module.
pub(super) struct Goods {
    bytes: Vec<u8>,
    block: usize,
    sums: Vec<Crc32>,
    /// Objects in all; those that are a multiple of the sums apart have the same bytes.
    pub(super) count: u64,
}

impl Goods {
    /// Memory that they take.
    pub(super) fn memory(bytes: ByteCount) -> ByteCount {
        bytes.min(MEMORY_MAX)
    }

    /// Objects of `block` bytes each, `bytes` in all.
    pub(super) fn new(bytes: ByteCount, block: u64) -> Self {
        let mut memory = vec![0; Self::memory(bytes).0 as usize];
        let payload = Payload {
            key_hash: block,
            nonce: 3,
        };
        payload.fill(&mut memory);
        let block = block as usize;
        Self {
            sums: memory.chunks_exact(block).map(Crc32::of).collect(),
            bytes: memory,
            block,
            count: bytes.0 / block as u64,
        }
    }

    /// Bytes of one.
    pub(super) fn block(&self) -> u64 {
        self.block as u64
    }

    /// The bytes of an object, and their sum.
    pub(super) fn get(&self, number: u64) -> (&[u8], Crc32) {
        let place = number as usize % self.sums.len();
        let start = place * self.block;
        (&self.bytes[start..start + self.block], self.sums[place])
    }

    /// Whether these are the bytes of an object, as far as its ends tell.
    pub(super) fn is(&self, number: u64, seen: &[u8]) -> bool {
        let (wanted, _) = self.get(number);
        let ends = |bytes: &[u8]| {
            [
                bytes.first_chunk::<ENDS>().copied(),
                bytes.last_chunk().copied(),
            ]
        };
        seen.len() == wanted.len() && ends(seen) == ends(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::Goods;
    use ziggurat_base::{ByteCount, Crc32};

    #[test]
    fn objects_differ_and_are_known_again() {
        let goods = Goods::new(ByteCount(1 << 20), 4096);
        assert_eq!((goods.count, goods.block()), (256, 4096));
        let (bytes, crc) = goods.get(3);
        assert_eq!(crc, Crc32::of(bytes));
        assert!(goods.is(3, bytes) && !goods.is(4, bytes) && !goods.is(3, &bytes[1..]));
        assert_eq!(goods.get(0).0, goods.get(256).0);
    }
}
