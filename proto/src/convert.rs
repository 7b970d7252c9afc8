//! Between the words of the engine and the messages of the wire, both ways. Pure functions: nothing here waits, logs or
//! decides.
//!
//! What comes from outside is checked here once. A message that contradicts itself (columns of different lengths, bits for
//! items that do not exist) is `DeserializeFail`: its sender is broken. A well-formed message that asks for something out
//! of bounds is `InvalidParams` or `InvalidKey`: its sender is told.

pub(crate) mod batch;
pub(crate) mod get;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod member;
pub(crate) mod order;
pub(crate) mod places;
pub(crate) mod put;

use std::time::Duration;
use ziggurat_base::{Code, Error};

/// The peer sent something that contradicts itself.
pub(crate) fn broken(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Code::DeserializeFail, what)
}

/// A span as it travels.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
