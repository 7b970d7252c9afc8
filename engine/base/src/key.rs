//! Object keys: 1 to 4096 bytes, any bytes. Checked once at the door, trusted inside.

use crate::{Code, Error};
use std::fmt;

/// The longest key, in bytes.
pub const KEY_LEN_MAX: usize = 4096;

/// A checked key, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// Checks the length.
    ///
    /// # Errors
    /// [`Code::InvalidKey`] for an empty key or one longer than [`KEY_LEN_MAX`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        match bytes.len() {
            0 => Err(Error::new(
                Code::InvalidKey,
                "the key is empty: a key has 1 to 4096 bytes",
            )),
            1..=KEY_LEN_MAX => Ok(Self(bytes)),
            len => Err(Error::new(
                Code::InvalidKey,
                format!("the key is {len} bytes long: a key has 1 to {KEY_LEN_MAX} bytes"),
            )),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// An owned copy.
    #[must_use]
    pub fn to_owned(self) -> ObjectKey {
        ObjectKey(self.0.into())
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) if !text.chars().any(char::is_control) => f.write_str(text),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

/// A checked key, owned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Box<[u8]>);

impl ObjectKey {
    /// Checks and copies `bytes`.
    ///
    /// # Errors
    /// As [`Key::new`].
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        Key::new(bytes.as_ref()).map(Key::to_owned)
    }

    /// Borrows.
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        Key(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_key(), f)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_key(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::{KEY_LEN_MAX, Key};
    use crate::Code;

    #[test]
    fn length_is_checked_at_the_door() {
        assert_eq!(Key::new(b"").unwrap_err().code(), Code::InvalidKey);
        let long = vec![b'k'; KEY_LEN_MAX + 1];
        assert_eq!(Key::new(&long).unwrap_err().code(), Code::InvalidKey);
        assert!(Key::new(&long[1..]).is_ok());
        assert!(Key::new(b"\0").is_ok());
    }

    #[test]
    fn control_characters_are_escaped_for_people() {
        assert_eq!(Key::new(b"a\nb").unwrap().to_string(), "a\\nb");
        assert_eq!(Key::new("é/1".as_bytes()).unwrap().to_string(), "é/1");
    }
}
