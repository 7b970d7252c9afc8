//! Byte counts and spans as people write them: `64KiB`, `1.5 GiB`, `500ms`, `10s`.

use crate::{Code, Error};
use std::{fmt, str::FromStr, time::Duration};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

const BINARY: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl ByteCount {
    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = *BINARY
            .iter()
            .find(|(_, size)| self.0 >= *size)
            .unwrap_or(&BINARY[BINARY.len() - 1]);
        if self.0.is_multiple_of(size) {
            return f.pad(&format!("{}{unit}", self.0 / size));
        }
        f.pad(&format!("{:.2}{unit}", self.0 as f64 / size as f64))
    }
}

/// Splits `12.5 MiB` into the number and the unit in lower case.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let number = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim().to_ascii_lowercase()))
}

impl FromStr for ByteCount {
    type Err = Error;

    /// Accepts a whole or decimal number with `B`, `KiB`/`K`/`KB`, `MiB`…, `TiB`; all units are powers of 1024.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::new(
                Code::InvalidParams,
                format!("{text:?} is not a size: write for example 64KiB, 1.5GiB or 4096"),
            )
        };
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let size: u64 = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1 << 40,
            _ => return Err(wrong()),
        };
        let bytes = number * size as f64;
        if !(0.0..9.0e18).contains(&bytes) {
            return Err(wrong());
        }
        Ok(Self(bytes.round() as u64))
    }
}

/// Parses a span: a number with `ns`, `us`, `ms`, `s`, `m` or `min`, `h`.
///
/// # Errors
/// [`Code::InvalidParams`] naming the text.
pub fn parse_span(text: &str) -> Result<Duration, Error> {
    let wrong = || {
        Error::new(
            Code::InvalidParams,
            format!("{text:?} is not a duration: write for example 500ms, 10s or 5min"),
        )
    };
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit.as_str() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// A span as people write it, with the largest unit that leaves at least 1: `12.3ms`.
#[must_use]
pub fn human_span(span: Duration) -> String {
    const UNITS: [(f64, &str); 6] = [
        (3600.0, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "us"),
        (1e-9, "ns"),
    ];
    let seconds = span.as_secs_f64();
    let (size, unit) = *UNITS
        .iter()
        .find(|(size, _)| seconds >= *size)
        .unwrap_or(&UNITS[5]);
    let number = seconds / size;
    if (number - number.round()).abs() < 1e-9 {
        format!("{number:.0}{unit}")
    } else {
        format!("{number:.1}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteCount, human_span, parse_span};
    use std::time::Duration;

    #[test]
    fn sizes_round_trip() {
        for text in ["0B", "4096B", "64KiB", "1GiB", "3TiB"] {
            let size: ByteCount = text.parse().unwrap();
            assert_eq!(size, size.to_string().parse().unwrap(), "{text}");
        }
        assert_eq!("1.5 GiB".parse::<ByteCount>().unwrap().0, 3 << 29);
        for text in ["", "-1", "1XB", "GiB", "99999999TiB", "1e3"] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn spans_round_trip() {
        for text in ["500ms", "10s", "5min", "2h", "3us"] {
            assert_eq!(human_span(parse_span(text).unwrap()), text);
        }
        assert_eq!(parse_span("1.5s").unwrap(), Duration::from_millis(1500));
        for text in ["", "10", "-1s", "1y"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
