//! Where something is reached: `HOST:PORT`.

use std::{
    fmt,
    net::{Ipv6Addr, SocketAddr},
    str::FromStr,
};

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
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let bracketed = rest.split_once(']').filter(|(host, _)| is_ipv6(host));
                let (host, rest) = bracketed.ok_or_else(|| wrong("no IPv6 address in brackets"))?;
                let port = rest.strip_prefix(':');
                (host, port.ok_or_else(|| wrong("the port is missing"))?)
            }
            None if is_ipv6(text) => return Err(wrong("an IPv6 address needs brackets")),
            None => text
                .rsplit_once(':')
                .ok_or_else(|| wrong("the port is missing"))?,
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        let is_bracketed = text.starts_with('[');
        let is_odd = |c: char| matches!(c, ':' | '/' | '[' | ']' | '@') || c.is_whitespace();
        if !is_bracketed && host.contains(is_odd) {
            return Err(wrong("the host is neither a name nor an address"));
        }
        match port.parse::<u16>() {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(_) => Err(wrong("the port is a number from 0 to 65535")),
        }
    }
}

fn is_ipv6(host: &str) -> bool {
    host.parse::<Ipv6Addr>().is_ok()
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
        let why = |text: &str| text.parse::<Address>().unwrap_err();
        for (bad, part) in [
            ("", "port is missing"),
            ("host", "port is missing"),
            ("[::1]", "port is missing"),
            (":1", "host is missing"),
            ("host:", "from 0 to 65535"),
            ("host:65536", "from 0 to 65535"),
            ("host:x", "from 0 to 65535"),
            ("::1", "needs brackets"),
            ("::1:80", "needs brackets"),
            ("[::g]:80", "no IPv6 address"),
            ("[::1:80", "no IPv6 address"),
            ("http://host:80", "neither a name"),
            ("me@host:80", "neither a name"),
            ("a host:80", "neither a name"),
            ("a:b:80", "neither a name"),
        ] {
            assert!(why(bad).contains(part), "{bad}: {}", why(bad));
        }
    }
}
