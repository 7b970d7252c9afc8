//! Something wrong with a configuration.

use super::layers::Origin;
use std::fmt;
use ziggurat_base::{Code, Error};

/// One fault: where, and what with its mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// Who gave the value.
    pub(crate) origin: Origin,
    /// The value, why it cannot be, and what to write instead.
    pub(crate) what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.what)
    }
}

/// One error for all faults, in the order file, environment, flags.
pub(super) fn error_of(mut faults: Vec<Fault>) -> Error {
    faults.sort();
    let lines: Vec<_> = faults.iter().map(Fault::to_string).collect();
    let what = match &lines[..] {
        [line] => format!("the configuration has a fault: {line}"),
        _ => format!(
            "the configuration has {} faults:\n  {}",
            lines.len(),
            lines.join("\n  ")
        ),
    };
    Error::new(Code::ConfigInvalid, what)
}
