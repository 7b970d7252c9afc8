use super::{Codec, Index, decode, encode_chunk, index_len};
use proptest::prelude::*;
use ziggurat_base::{CHUNK, Code, Result};

const PACKING: [Codec; 2] = [Codec::Zstd, Codec::Planes];

/// A payload as a tier stores it.
fn encode(codec: Codec, level: u8, payload: &[u8]) -> Vec<u8> {
    let (mut lens, mut bodies) = (Vec::new(), Vec::new());
    for chunk in payload.chunks(CHUNK) {
        let start = bodies.len();
        encode_chunk(codec, level, chunk, &mut bodies).expect("there is memory");
        lens.push((bodies.len() - start) as u32);
    }
    let mut stored = Index::encode(&lens);
    stored.extend(bodies);
    stored
}

fn decoded(codec: Codec, len: usize, stored: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    decode(codec, len as u64, stored, &mut |bytes| {
        out.extend_from_slice(bytes);
        assert!(out.len() <= len, "no more than the record says");
    })?;
    Ok(out)
}

/// Numbers of two bytes with few exponents, some noise, and an end that fits no pair.
fn numbers(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = ziggurat_base::hash::Dice::new(seed);
    let mut bytes = Vec::with_capacity(len + 2);
    while bytes.len() < len {
        let roll = dice.roll();
        bytes.extend([roll as u8, 0x3e + (roll >> 62) as u8]);
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn what_can_be_compressed_is_and_what_cannot_does_not_grow() {
    for codec in PACKING {
        let payload = numbers(3 * CHUNK + 77, 1);
        let stored = encode(codec, 1, &payload);
        assert!(stored.len() < payload.len() * 9 / 10, "{codec}");
        assert_eq!(decoded(codec, payload.len(), &stored).unwrap(), payload);
        let mut dice = ziggurat_base::hash::Dice::new(2);
        let noise: Vec<u8> = (0..2 * CHUNK).map(|_| dice.roll() as u8).collect();
        let stored = encode(codec, 1, &noise);
        assert_eq!(
            stored.len() as u64,
            2 * CHUNK as u64 + index_len(2 * CHUNK as u64)
        );
        assert_eq!(decoded(codec, noise.len(), &stored).unwrap(), noise);
    }
    // What a split of the bytes is for.
    let payload = numbers(CHUNK, 3);
    assert!(encode(Codec::Planes, 1, &payload).len() < encode(Codec::Zstd, 1, &payload).len());
}

#[test]
fn an_index_that_contradicts_its_record_is_refused() {
    let len = 2 * CHUNK as u64;
    let index = Index::encode(&[10, 20]);
    assert_eq!(Index::decode(&index, len, 38).unwrap().span(1..2), 18..38);
    let code = |index: &[u8], len, stored| Index::decode(index, len, stored).map_err(|e| e.code());
    for (lens, stored) in [
        ([10, 20], 37),
        ([10, 20], 39),
        ([0, 30], 38),
        ([10, CHUNK as u32 + 1], 10 + CHUNK as u64 + 9),
        ([u32::MAX, u32::MAX], 38),
    ] {
        let index = Index::encode(&lens);
        assert_eq!(code(&index, len, stored), Err(Code::ChecksumMismatch));
    }
    assert_eq!(code(&index, u64::MAX, 38), Err(Code::ChecksumMismatch));
    assert_eq!(code(&[], 0, 0), Err(Code::ChecksumMismatch));
    assert_eq!(code(&[], 5, 6), Err(Code::ChecksumMismatch));
}

proptest! {
    #[test]
    fn payloads_come_back(
        bytes in prop::collection::vec(any::<u8>(), 1..300),
        len in prop::sample::select(vec![1, 2, 3, 299, 5000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5]),
        level in 1_u8..6,
    ) {
        let payload: Vec<u8> = bytes.iter().copied().cycle().take(len).collect();
        for codec in PACKING {
            let stored = encode(codec, level, &payload);
            prop_assert_eq!(&decoded(codec, len, &stored).unwrap(), &payload);
        }
    }

    #[test]
    fn damage_is_an_error_or_other_bytes_and_never_more_of_them(
        at in any::<prop::sample::Index>(), bit in 0..8_u8, cut in any::<prop::sample::Index>(),
    ) {
        let payload = numbers(CHUNK + 1001, 5);
        for codec in PACKING {
            let mut stored = encode(codec, 1, &payload);
            let _cut_is_refused = decoded(codec, payload.len(), &stored[..cut.index(stored.len())]).unwrap_err();
            let at = at.index(stored.len());
            stored[at] ^= 1_u8 << bit;
            let _error_or_bytes = decoded(codec, payload.len(), &stored);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000), len in 0..200_000_usize) {
        for codec in Codec::ALL {
            let _error_or_bytes = decoded(codec, len, &bytes);
        }
    }
}
