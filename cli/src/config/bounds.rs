//! Which values of a type a setting takes.

use super::value::Value;
use std::{
    fmt,
    ops::{Bound, RangeBounds},
};

/// A range with its description.
pub(crate) struct Bounds<T> {
    text: String,
    holds: Box<dyn Fn(&T) -> bool>,
}

impl<T> fmt::Debug for Bounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> Bounds<T> {
    /// Whether a value is inside.
    pub(crate) fn hold(&self, value: &T) -> bool {
        (self.holds)(value)
    }

    /// The range in words: `more than 0, at most 1`.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl<T: Value + PartialOrd + 'static> Bounds<T> {
    /// The bounds of a range.
    pub(crate) fn of(range: impl RangeBounds<T> + 'static) -> Self {
        let low = match range.start_bound() {
            Bound::Included(low) => Some(format!("at least {}", shown(low))),
            Bound::Excluded(low) => Some(format!("more than {}", shown(low))),
            Bound::Unbounded => None,
        };
        let high = match range.end_bound() {
            Bound::Included(high) => Some(format!("at most {}", shown(high))),
            Bound::Excluded(high) => Some(format!("less than {}", shown(high))),
            Bound::Unbounded => None,
        };
        let words: Vec<_> = low.into_iter().chain(high).collect();
        Self {
            text: words.join(", "),
            holds: Box::new(move |value| range.contains(value)),
        }
    }
}

fn shown(value: &impl Value) -> String {
    value.show().unwrap_or_default()
}
