//! Where something is reached: `HOST:PORT`.

use std::{fmt, net::SocketAddr, str::FromStr};

/// A checked `HOST:PORT`; the host is a name or an address, IPv6 in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(String);

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("{text:?} is not an address: {why}; write for example 127.0.0.1:50051")
        };
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| wrong("the port is missing"))?;
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.contains(':') && !is_bracketed {
            return Err(wrong("an IPv6 address needs brackets"));
        }
        match port.parse::<u16>() {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(_) => Err(wrong("the port is a number from 0 to 65535")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in [
            "127.0.0.1:50051",
            "master.example:1",
            "[::1]:9003",
            "localhost:0",
        ] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        for bad in ["", "host", ":1", "host:", "host:65536", "::1:80", "host:x"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
