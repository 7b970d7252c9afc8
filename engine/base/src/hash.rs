//! The one hash of keys. XXH3-64 seeded with the tenant: fixed by its specification, so it may be stored and compared
//! across builds and machines.

use crate::{Key, TenantId};
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Hashes a key within its tenant.
#[must_use]
pub fn key_hash(tenant: TenantId, key: Key<'_>) -> u64 {
    xxh3_64_with_seed(key.bytes(), u64::from(tenant.0))
}

/// Hashes a key within its tenant by the tenant's name, so that the digest outlives the numbers of tenants. Stored.
#[must_use]
pub fn key_digest(tenant: &str, key: Key<'_>) -> u64 {
    xxh3_64_with_seed(key.bytes(), xxh3_64(tenant.as_bytes()))
}

/// Spreads a number over 64 bits (the finaliser of SplitMix64): a hash of integers and a step of a seeded generator.
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A seeded generator of numbers for placement and sampling: SplitMix64. Same seed, same sequence.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts the sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(bound)) >> 64) as u64
    }
}

/// Hasher of the integer keys inside one process: fixed, so that a seed gives one history.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

/// `BuildHasher` for [`IntHasher`].
pub type BuildIntHasher = BuildHasherDefault<IntHasher>;

#[cfg(test)]
mod tests {
    use super::{key_digest, key_hash};
    use crate::{Key, TenantId};

    #[test]
    fn key_hash_is_the_same_on_every_machine() {
        let golden = [
            ("a", 0, 0xe6c6_32b6_1e96_4e1f_u64),
            ("prompt/0001", 0, 0x92bd_a1e2_b730_ef4a),
            ("a", 7, 0x9ed5_888b_c5a2_a094),
        ];
        for (text, tenant, want) in golden {
            let got = key_hash(TenantId(tenant), Key::new(text.as_bytes()).unwrap());
            assert_eq!(got, want, "{text} in tenant {tenant}: {got:#x}");
        }
    }

    #[test]
    fn key_digest_is_the_same_on_every_machine() {
        let golden = [
            ("default", 0x701f_4d56_9730_ed7f_u64),
            ("t1", 0x873e_ee29_ad13_7959),
        ];
        for (tenant, want) in golden {
            let got = key_digest(tenant, Key::new(b"a").unwrap());
            assert_eq!(got, want, "in tenant {tenant}: {got:#x}");
        }
    }
}
