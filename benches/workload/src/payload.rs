//! Payloads that prove where they belong: every byte follows from the key and a nonce, and the first bytes are the nonce.
//!
//! A payload is a stream of little-endian words, cut at its length: the nonce, the hash of the key, then a sequence in
//! which no word repeats. So a wrong object, an old version, a shifted or a torn range all differ. The nonce derives
//! from the seed of a run, the key and its version: a restarted run can tell what must be there.

use std::fmt;
use ziggurat_base::hash::mix;

const WORD: usize = size_of::<u64>();

/// Words in front of the sequence.
const HEAD_WORDS: usize = 2;

/// Words that are compared at once before a difference is located.
const LOT_WORDS: usize = 64;

/// Step of the sequence: odd, so that it takes all values before one repeats.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a value of the sequence over its word: odd, so that different values give different words.
const SPREAD: u64 = 0xd6e8_feb8_6659_fd93;

/// Where the bytes of one version of one key come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Hash of the key.
    pub key_hash: u64,
    /// Tells versions and runs apart.
    pub nonce: u64,
}

/// What a nonce derives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Seed of the run.
    pub seed: u64,
    /// Hash of the key.
    pub key_hash: u64,
    /// Which of the values of the key, counted by the run.
    pub version: u64,
}

impl From<Origin> for Payload {
    fn from(origin: Origin) -> Self {
        Self {
            key_hash: origin.key_hash,
            nonce: mix(mix(mix(origin.seed) ^ origin.key_hash).wrapping_add(origin.version)),
        }
    }
}

/// The first byte that is not as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its offset.
    pub first_bad_offset: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong byte at offset {}", self.first_bad_offset)
    }
}

impl std::error::Error for Mismatch {}

impl Payload {
    /// Writes the payload over all of `target`.
    pub fn fill(self, target: &mut [u8]) {
        let start = self.start();
        let head = target.len().min(HEAD_WORDS * WORD);
        let (head, rest) = target.split_at_mut(head);
        head.copy_from_slice(&self.head()[..head.len()]);
        let mut words = rest.chunks_exact_mut(WORD);
        let mut value = start;
        for word in &mut words {
            word.copy_from_slice(&spread(value).to_le_bytes());
            value = value.wrapping_add(STEP);
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&spread(value).to_le_bytes()[..tail.len()]);
    }

    /// Compares all of `bytes` with the payload of that length.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check(self, bytes: &[u8]) -> Result<(), Mismatch> {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_WORDS * WORD));
        compare(head, &self.head()[..head.len()], 0)?;
        let mut value = self.start();
        let mut offset = head.len();
        for lot in rest.chunks(LOT_WORDS * WORD) {
            if !self.lot_is_right(lot, value) {
                for word in lot.chunks(WORD) {
                    compare(word, &spread(value).to_le_bytes()[..word.len()], offset)?;
                    value = value.wrapping_add(STEP);
                    offset += word.len();
                }
                continue;
            }
            value = value.wrapping_add(STEP.wrapping_mul(LOT_WORDS as u64));
            offset += lot.len();
        }
        Ok(())
    }

    /// The nonce of the payload in `bytes`, when they are long enough to hold one.
    #[must_use]
    pub fn nonce_in(bytes: &[u8]) -> Option<u64> {
        bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// Whether a full lot is right, without saying where it is not; a shorter one is never said to be right.
    fn lot_is_right(self, lot: &[u8], mut value: u64) -> bool {
        let mut difference = 0;
        let (words, rest) = lot.as_chunks::<WORD>();
        for word in words {
            difference |= u64::from_le_bytes(*word) ^ spread(value);
            value = value.wrapping_add(STEP);
        }
        difference == 0 && rest.is_empty() && words.len() == LOT_WORDS
    }

    fn head(self) -> [u8; HEAD_WORDS * WORD] {
        (u128::from(self.key_hash) << 64 | u128::from(self.nonce)).to_le_bytes()
    }

    /// The first value of the sequence.
    fn start(self) -> u64 {
        mix(self.nonce ^ mix(self.key_hash))
    }
}

fn spread(value: u64) -> u64 {
    let word = value.wrapping_mul(SPREAD);
    word ^ (word >> 32)
}

fn compare(got: &[u8], want: &[u8], offset: usize) -> Result<(), Mismatch> {
    match got.iter().zip(want).position(|(got, want)| got != want) {
        Some(at) => Err(Mismatch {
            first_bad_offset: offset + at,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Mismatch, Origin, Payload};
    use std::collections::BTreeSet;

    const ORIGIN: Origin = Origin {
        seed: 7,
        key_hash: 0x1234,
        version: 1,
    };

    fn filled(payload: Payload, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        payload.fill(&mut bytes);
        bytes
    }

    #[test]
    fn any_length_is_right_and_any_flipped_bit_is_found() {
        let payload = Payload::from(ORIGIN);
        for len in (0..70).chain([511, 512, 527, 528, 529, 1040, 4096, 5000]) {
            let bytes = filled(payload, len);
            assert_eq!(payload.check(&bytes), Ok(()), "{len} bytes");
            for at in 0..len {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << (at % 8);
                let want = Mismatch {
                    first_bad_offset: at,
                };
                assert_eq!(payload.check(&bad), Err(want), "{len} bytes");
            }
        }
    }

    #[test]
    fn the_nonce_can_be_read_back() {
        let payload = Payload::from(ORIGIN);
        for len in [8, 9, 100] {
            assert_eq!(
                Payload::nonce_in(&filled(payload, len)),
                Some(payload.nonce)
            );
        }
        assert_eq!(Payload::nonce_in(&filled(payload, 7)), None);
    }

    #[test]
    fn another_key_version_or_seed_is_wrong() {
        let bytes = filled(ORIGIN.into(), 256);
        for other in [
            Origin { seed: 8, ..ORIGIN },
            Origin {
                key_hash: 3,
                ..ORIGIN
            },
            Origin {
                version: 2,
                ..ORIGIN
            },
        ] {
            assert!(Payload::from(other).check(&bytes).is_err());
        }
    }

    #[test]
    fn the_origin_is_the_same_on_every_machine() {
        assert_eq!(Payload::from(ORIGIN).nonce, 0x34d9_4dde_d402_ed8a);
        assert_eq!(
            filled(ORIGIN.into(), 24)[16..],
            [72, 81, 186, 44, 62, 42, 119, 225]
        );
    }

    #[test]
    fn no_word_repeats_so_that_a_shifted_range_is_wrong() {
        let bytes = filled(ORIGIN.into(), 1 << 20);
        let words: BTreeSet<&[u8]> = bytes.chunks(8).collect();
        assert_eq!(words.len(), 1 << 17);
    }
}
