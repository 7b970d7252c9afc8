//! What the tests from the field and their helper process have in common.

/// Bytes that differ from salt to salt and from place to place.
#[must_use]
pub fn payload(len: usize, salt: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| {
            (i.wrapping_mul(2_654_435_761)
                .wrapping_add(salt.wrapping_mul(977))
                >> 7) as u8
        })
        .collect()
}

/// The value of a numbered key: whoever reads it can tell whether it is right.
#[must_use]
pub fn value_of(number: u64) -> Vec<u8> {
    payload((number.wrapping_mul(7919) % 48_000) as usize, number)
}

#[cfg(test)]
mod tests {
    use super::{payload, value_of};

    #[test]
    fn values_of_different_keys_differ() {
        assert_ne!(payload(4096, 1), payload(4096, 2));
        assert_ne!(payload(4096, 1)[..2048], payload(4096, 1)[2048..]);
        let values: std::collections::BTreeSet<_> = (0..100).map(value_of).collect();
        assert_eq!(values.len(), 100);
    }
}
