//! Where a server that is not needed listens: `IP:PORT`, or `off`.

use std::{fmt, net::SocketAddr, str::FromStr};

const OFF: &str = "off";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// Here.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

impl Listener {
    /// Where it is, if anywhere.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::At(address) => Some(address),
            Self::Off => None,
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => write!(f, "{address}"),
            Self::Off => f.write_str(OFF),
        }
    }
}

impl FromStr for Listener {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == OFF {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| {
            format!("{text:?} is not an address to listen on: write for example 127.0.0.1:9004, or {OFF}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Listener;

    #[test]
    fn a_listener_is_somewhere_or_off() {
        for text in ["127.0.0.1:9004", "[::1]:0", "off"] {
            assert_eq!(text.parse::<Listener>().unwrap().to_string(), text);
        }
        for bad in ["", "9004", "localhost:1", "OFF", "127.0.0.1"] {
            let why = bad.parse::<Listener>().unwrap_err();
            assert!(
                why.contains(&format!("{bad:?}")) && why.contains("or off"),
                "{why}"
            );
        }
        assert_eq!(Listener::Off.address(), None);
    }
}
