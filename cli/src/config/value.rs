//! The types of settings: how each is read from text and written so that it reads back the same.

use super::{address::Address, listener::Listener, paths::Paths, ratio::Ratio};
use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};
use ziggurat_base::{ByteCount, Error, unit::parse_span};
use ziggurat_store::{
    Ack, AllocatorKind, Codec, Durability, OffloadMode, PlacementKind, PolicyKind, PromotionMode,
    RootPath, SsdPath, WriteBudget,
};

/// A type that settings can have.
pub(crate) trait Value: Sized {
    /// What stands for a value in help.
    const NAME: &'static str;
    /// Whether the flag may stand alone, for "on".
    const IS_SWITCH: bool = false;

    /// Reads a value; the error names the text and says how to write it.
    fn parse(text: &str) -> Result<Self, String>;

    /// Text that [`Value::parse`] reads back to the same value; `None` when the value is "not set".
    fn show(&self) -> Option<String>;

    /// What the user should know about a text that was accepted.
    fn remark(_text: &str) -> Option<String> {
        None
    }
}

fn coded<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: Error| error.what().to_owned())
}

fn listener(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not an address to listen on: write for example 127.0.0.1:50051")
    })
}

impl Value for ByteCount {
    const NAME: &'static str = "SIZE";

    fn parse(text: &str) -> Result<Self, String> {
        coded(text)
    }

    /// The largest unit that needs no fraction; `Display` rounds.
    fn show(&self) -> Option<String> {
        const UNITS: [(&str, u64); 4] = [
            ("TiB", 1 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
        ];
        let unit = UNITS
            .iter()
            .find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        Some(match unit {
            Some((unit, size)) => format!("{}{unit}", self.0 / size),
            None => format!("{}B", self.0),
        })
    }
}

impl Value for Duration {
    const NAME: &'static str = "TIME";

    fn parse(text: &str) -> Result<Self, String> {
        parse_span(text).map_err(|error| error.what().to_owned())
    }

    /// The largest unit that needs no fraction; the human form rounds.
    fn show(&self) -> Option<String> {
        const UNITS: [(&str, u128); 5] = [
            ("h", 3_600_000_000_000),
            ("min", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
        ];
        let nanos = self.as_nanos();
        if nanos == 0 {
            return Some("0s".to_owned());
        }
        let unit = UNITS.iter().find(|(_, size)| nanos.is_multiple_of(*size));
        Some(match unit {
            Some((unit, size)) => format!("{}{unit}", nanos / size),
            None => format!("{nanos}ns"),
        })
    }
}

impl Value for bool {
    const NAME: &'static str = "on|off";
    const IS_SWITCH: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err(format!("{text:?} is not a switch: write on or off")),
        }
    }

    fn show(&self) -> Option<String> {
        Some(if *self { "on" } else { "off" }.to_owned())
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            const NAME: &'static str = "N";

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("{text:?} is not a whole number from 0 to {}", <$type>::MAX))
            }

            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}
whole_numbers!(u16, u32, u64);

/// Types whose own reading and writing is as it should be.
macro_rules! plain {
    ($($type:ty, $name:literal, $parse:expr;)*) => {$(
        impl Value for $type {
            const NAME: &'static str = $name;

            fn parse(text: &str) -> Result<Self, String> {
                $parse(text)
            }

            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}
plain! {
    Ratio, "RATIO", str::parse;
    Address, "HOST:PORT", str::parse;
    SocketAddr, "IP:PORT", listener;
    Listener, "IP:PORT|off", str::parse;
    PolicyKind, "lru|fifo|s3_fifo", coded;
    PlacementKind, "random|free_ratio_first", coded;
    Paths<SsdPath>, "DIR[:SIZE][,DIR…]", coded;
    Paths<RootPath>, "DIR[:SIZE][,DIR…]", coded;
    Ack, "written|synced", coded;
    Durability, "buffered|batch|object", coded;
    OffloadMode, "eager|on-evict|off", coded;
    WriteBudget, "RATE", coded;
    Codec, "none|zstd|bf16-planes+zstd", coded;
    PromotionMode, "off|first-hit|second-hit", coded;
}

impl Value for AllocatorKind {
    const NAME: &'static str = "offset|slab";

    fn parse(text: &str) -> Result<Self, String> {
        coded(text)
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn remark(text: &str) -> Option<String> {
        (text == "cachelib").then(|| {
            "\"cachelib\" is the name of another store's allocator; slab, the same idea, is used: write slab".to_owned()
        })
    }
}

impl Value for String {
    const NAME: &'static str = "NAME";

    fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("the name is empty: give at least one character".to_owned()),
            name => Ok(name.to_owned()),
        }
    }

    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Value for PathBuf {
    const NAME: &'static str = "DIR";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("the path is empty: give a directory".to_owned()),
            path => Ok(path.into()),
        }
    }

    fn show(&self) -> Option<String> {
        Some(self.display().to_string())
    }
}

impl<T: Value> Value for Option<T> {
    const NAME: &'static str = T::NAME;
    const IS_SWITCH: bool = T::IS_SWITCH;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(Value::show)
    }

    fn remark(text: &str) -> Option<String> {
        T::remark(text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ratio, Value};
    use std::{fmt::Debug, time::Duration};
    use ziggurat_base::ByteCount;
    use ziggurat_store::{AllocatorKind, PolicyKind};

    fn reads_back<T: Value + PartialEq + Debug>(value: &T) {
        let text = value.show().unwrap();
        assert_eq!(T::parse(&text).as_ref(), Ok(value), "{text}");
    }

    #[test]
    fn what_is_shown_reads_back_to_the_same_value() {
        for bytes in [0, 1, 1023, 1024, 1_000_000_001, 3 << 29, 5 << 40] {
            reads_back(&ByteCount(bytes));
        }
        for nanos in [0, 1, 1_250_000_000, 90_000_000_000, 7_200_000_000_000] {
            reads_back(&Duration::from_nanos(nanos));
        }
        for ratio in [0.0, 0.05, 0.9, 1.0] {
            reads_back(&Ratio(ratio));
        }
        for policy in PolicyKind::ALL {
            reads_back(&policy);
        }
        reads_back(&true);
        reads_back(&u64::MAX);
    }

    #[test]
    fn percent_is_a_ratio() {
        assert_eq!(Ratio::parse("90%"), Ok(Ratio(0.9)));
        for bad in ["", "nan", "inf", "%", "a lot"] {
            assert!(Ratio::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_other_stores_allocator_is_accepted_with_a_remark() {
        assert_eq!(AllocatorKind::parse("cachelib"), Ok(AllocatorKind::Slab));
        assert!(AllocatorKind::remark("cachelib").is_some());
        assert!(AllocatorKind::remark("slab").is_none());
    }
}
