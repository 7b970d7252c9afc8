//! A share of something.

use std::{fmt, str::FromStr};

/// A finite number; its bounds belong to the setting.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Ratio(pub(crate) f64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Ratio {
    type Err = String;

    /// Accepts `0.9` and `90%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text, 1.0),
        };
        match number.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Self(number / scale)),
            _ => Err(format!(
                "{text:?} is not a ratio: write for example 0.9 or 90%"
            )),
        }
    }
}
