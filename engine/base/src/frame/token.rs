//! The meta of a frame by token: how a foreign client names bytes without knowing where they lie.

use super::BODY_LEN_MAX;
use crate::{Code, Error};

/// Bytes of an encoded [`TokenSpan`].
pub const TOKEN_SPAN_LEN: usize = 24;

/// A range of the bytes that a token stands for: meta of a `Write` or `Read` with the flag [`super::BY_TOKEN`].
///
/// ```text
/// token u64 | offset u64 | len u64
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSpan {
    /// The token; what it stands for is known to the node alone.
    pub token: u64,
    /// First byte of the range, counted from the start of what the token stands for. Any number.
    pub offset: u64,
    /// Bytes in the range, at most [`BODY_LEN_MAX`].
    pub len: u64,
}

impl TokenSpan {
    /// The span as it goes over the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; TOKEN_SPAN_LEN] {
        let mut out = [0; TOKEN_SPAN_LEN];
        for (at, word) in [self.token, self.offset, self.len].iter().enumerate() {
            out[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads a span; whether it lies inside the token's bytes is for the node to check.
    ///
    /// # Errors
    /// [`Code::DeserializeFail`] for a wrong length, [`Code::InvalidParams`] for a range that no frame can have.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (words, rest) = bytes.as_chunks::<8>();
        let &[token, offset, len] = words else {
            return Err(wrong_length());
        };
        if !rest.is_empty() {
            return Err(wrong_length());
        }
        let span = Self {
            token: u64::from_le_bytes(token),
            offset: u64::from_le_bytes(offset),
            len: u64::from_le_bytes(len),
        };
        if span.len > BODY_LEN_MAX || span.offset.checked_add(span.len).is_none() {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "{} bytes at {} in one frame: at most {BODY_LEN_MAX} are possible",
                    span.len, span.offset
                ),
            ));
        }
        Ok(span)
    }
}

fn wrong_length() -> Error {
    Error::new(
        Code::DeserializeFail,
        format!("a span by token has {TOKEN_SPAN_LEN} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::{BODY_LEN_MAX, TOKEN_SPAN_LEN, TokenSpan};
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_the_documented_one() {
        let span = TokenSpan {
            token: 0x0102_0304_0506_0708,
            offset: 5,
            len: 0x1_0000,
        };
        let hex: String = span.encode().iter().map(|b| format!("{b:02x}")).collect();
        let golden = "080706050403020105000000000000000000010000000000";
        assert_eq!(hex, golden);
    }

    #[test]
    fn impossible_ranges_are_refused() {
        let span = |offset, len| {
            TokenSpan {
                token: 1,
                offset,
                len,
            }
            .encode()
        };
        assert!(TokenSpan::decode(&span(u64::MAX - 1, 1)).is_ok());
        assert!(TokenSpan::decode(&span(u64::MAX, 1)).is_err());
        assert!(TokenSpan::decode(&span(0, BODY_LEN_MAX)).is_ok());
        assert!(TokenSpan::decode(&span(0, BODY_LEN_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn what_is_accepted_has_one_encoding(bytes in prop::collection::vec(any::<u8>(), 0..40), len in 0..2 * BODY_LEN_MAX) {
            let mut bytes = bytes;
            if let Some(end) = bytes.get_mut(16..24) {
                end.copy_from_slice(&len.to_le_bytes());
            }
            match TokenSpan::decode(&bytes) {
                Ok(span) => prop_assert_eq!(&span.encode()[..], &bytes[..]),
                Err(_) if bytes.len() != TOKEN_SPAN_LEN || len > BODY_LEN_MAX => {}
                Err(_) => {
                    let offset = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
                    prop_assert!(offset.checked_add(len).is_none());
                }
            }
        }
    }
}
