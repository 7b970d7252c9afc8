//! Payloads that say whose they are: a function of name and nonce, with the nonce in the first bytes.

use ziggurat_base::{Key, ObjectKey, TenantId, hash::key_hash};

/// A key within its tenant.
pub(crate) type Name = (TenantId, ObjectKey);

/// The bits of a word that a payload has which can be compressed.
const SPARSE: u64 = 0x03ff_03ff_03ff_03ff;

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn word(base: u64, nonce: u64, index: u64) -> u64 {
    if index == 0 {
        return nonce;
    }
    let x = (base ^ index).wrapping_mul(SPREAD);
    let x = x ^ (x >> 29);
    // Half of them can be compressed.
    if base & 1 == 0 { x } else { x & SPARSE }
}

/// One payload without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    base: u64,
    nonce: u64,
    /// Bytes.
    pub(crate) len: u64,
}

impl Payload {
    pub(crate) fn new(tenant: TenantId, key: Key<'_>, nonce: u64, len: u64) -> Self {
        let base = key_hash(tenant, key) ^ nonce.wrapping_mul(SPREAD).rotate_left(17);
        Self { base, nonce, len }
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let words = self.len.div_ceil(8);
        let mut out = Vec::with_capacity(8 * words as usize);
        for index in 0..words {
            out.extend_from_slice(&word(self.base, self.nonce, index).to_le_bytes());
        }
        out.truncate(self.len as usize);
        out
    }

    /// Whether `bytes` are those at `offset`.
    pub(crate) fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        if offset + bytes.len() as u64 > self.len {
            return false;
        }
        let mut index = offset / 8;
        let mut skip = (offset % 8) as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let expected = &word(self.base, self.nonce, index).to_le_bytes()[skip..];
            let here = expected.len().min(rest.len());
            if rest[..here] != expected[..here] {
                return false;
            }
            rest = &rest[here..];
            index += 1;
            skip = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Payload;
    use ziggurat_base::{Key, TenantId};

    #[test]
    fn ranges_agree_with_the_whole() {
        let key = Key::new(b"k").unwrap();
        let payload = Payload::new(TenantId(0), key, 7, 1001);
        let bytes = payload.bytes();
        for (from, to) in [(0, 1001), (1, 9), (8, 16), (13, 13), (990, 1001)] {
            assert!(payload.has(from as u64, &bytes[from..to]));
        }
        assert!(!payload.has(1, &bytes[0..8]));
        assert!(!payload.has(1000, &bytes[0..2]));
        let other = Payload::new(TenantId(1), key, 7, 1001);
        assert!(!other.has(16, &bytes[16..32]));
    }
}
