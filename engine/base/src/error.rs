//! The error that crosses every floor: a stable [`Code`] and a sentence about what was being done.

use crate::Code;
use std::{borrow::Cow, fmt};

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A code and its circumstances. The code is for programs, the text for people.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    code: Code,
    what: Cow<'static, str>,
}

impl Error {
    /// An error with its circumstances: name the value that was wrong and how to mend it.
    #[must_use]
    pub fn new(code: Code, what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            what: what.into(),
        }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The circumstances; may be empty.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The same error, told from one floor higher: `doing: what`.
    #[must_use]
    pub fn while_doing(self, doing: impl fmt::Display) -> Self {
        let what = if self.what.is_empty() {
            doing.to_string()
        } else {
            format!("{doing}: {}", self.what)
        };
        Self {
            code: self.code,
            what: what.into(),
        }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Self {
            code,
            what: Cow::Borrowed(""),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.what.is_empty() {
            self.code.cause()
        } else {
            &self.what
        };
        write!(f, "{text} ({} {})", self.code.name(), self.code.number())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
