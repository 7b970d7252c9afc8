//! How two ends agree on a protocol: the meta of `Hello` and `Welcome`.
//!
//! ```text
//! version min u16 | version max u16 | role u8 | zero u8 × 3        (8 bytes, little-endian)
//! ```
//!
//! The side that connects says what it speaks; the other picks the highest version that both do and answers it as its
//! `min` and `max`. Without one it answers its own range with status `InvalidVersion`, counts it and closes.
//! docs/versioning.md has the table of versions.

use ziggurat_base::{Code, Error, Result};

/// Bytes of the message.
pub const HELLO_LEN: usize = 8;

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest that is spoken.
    pub min: u16,
    /// The newest that is spoken.
    pub max: u16,
}

/// What this build speaks on data connections.
pub const DATA_VERSIONS: Versions = Versions { min: 1, max: 1 };

impl Versions {
    /// The highest version in both ranges.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u16> {
        let max = self.max.min(other.max);
        (max >= self.min.max(other.min)).then_some(max)
    }

    /// The error of a pair of ends that have no version in common.
    #[must_use]
    pub fn refuse(self, other: Self) -> Error {
        let what = format!(
            "the peer speaks protocol versions {} to {}, this process {} to {}: upgrade the older one",
            other.min, other.max, self.min, self.max
        );
        Error::new(Code::InvalidVersion, what)
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A client library.
    Client = 1,
    /// A node.
    Node = 2,
    /// A metadata partition.
    Master = 3,
}

/// The message of both frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the sender speaks; in a `Welcome` the version that it picked.
    pub versions: Versions,
    /// Who it is.
    pub role: Role,
}

impl Hello {
    /// The message as it goes over the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; HELLO_LEN] {
        let [min0, min1] = self.versions.min.to_le_bytes();
        let [max0, max1] = self.versions.max.to_le_bytes();
        [min0, min1, max0, max1, self.role as u8, 0, 0, 0]
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`Code::DeserializeFail`] for another length, an unknown role or an empty range.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &'static str| Error::new(Code::DeserializeFail, what);
        let &[min0, min1, max0, max1, role, 0, 0, 0] = bytes else {
            return Err(wrong(
                "a greeting has another length or is not padded with zeros",
            ));
        };
        let role = match role {
            1 => Role::Client,
            2 => Role::Node,
            3 => Role::Master,
            _ => return Err(wrong("a greeting of an unknown role")),
        };
        let versions = Versions {
            min: u16::from_le_bytes([min0, min1]),
            max: u16::from_le_bytes([max0, max1]),
        };
        if versions.min > versions.max {
            return Err(wrong("a greeting with an empty range of versions"));
        }
        Ok(Self { versions, role })
    }
}

#[cfg(test)]
mod tests {
    use super::{Hello, Role, Versions};
    use proptest::prelude::*;

    #[test]
    fn the_highest_common_version_is_picked() {
        let range = |min, max| Versions { min, max };
        assert_eq!(range(1, 3).common(range(2, 9)), Some(3));
        assert_eq!(range(4, 4).common(range(1, 4)), Some(4));
        assert_eq!(range(1, 3).common(range(4, 9)), None);
    }

    #[test]
    fn layout_is_the_documented_one() {
        let versions = Versions {
            min: 1,
            max: 0x0203,
        };
        let hello = Hello {
            versions,
            role: Role::Node,
        };
        assert_eq!(hello.encode(), [1, 0, 3, 2, 2, 0, 0, 0]);
        assert_eq!(Hello::decode(&hello.encode()).unwrap(), hello);
    }

    proptest! {
        #[test]
        fn decoder_never_panics(bytes in prop::collection::vec(0..4_u8, 0..12)) {
            if let Ok(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(&hello.encode()[..], &bytes[..]);
            }
        }
    }
}
