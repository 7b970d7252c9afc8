//! The first two messages of a connection: who speaks, which versions, and what a partition tells everybody.
//! docs/versioning.md has the policy.

use std::{fmt, time::Duration};
use ziggurat_base::{Code, Era, Error, TenantId};

/// The protocol versions that this build speaks.
pub const VERSIONS: Versions = Versions { min: 1, max: 1 };

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl Versions {
    /// The newest version that both sides speak.
    ///
    /// # Errors
    /// `InvalidVersion` naming both ranges.
    pub fn common(self, peer: Self) -> Result<u16, Error> {
        let (min, max) = (self.min.max(peer.min), self.max.min(peer.max));
        if min <= max {
            return Ok(max);
        }
        let older = if peer.max < self.min {
            "peer"
        } else {
            "server"
        };
        let what = format!(
            "the peer speaks protocol versions {peer}, this server {self}: upgrade the {older}"
        );
        Err(Error::new(Code::InvalidVersion, what))
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

/// What connects. For logs and counters; it gives no rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// A kind that this build does not know.
    Unknown,
    /// A client library.
    Client,
    /// A node.
    Node,
    /// A command-line tool.
    Tool,
}

/// First words of the side that connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What it speaks.
    pub versions: Versions,
    /// What it is.
    pub kind: PeerKind,
    /// Version of its software, for people.
    pub software: String,
    /// Name of the tenant whose keys it will name; the connection learns its number.
    pub tenant: String,
}

impl Hello {
    /// The hello of this build, for the tenant `default`.
    #[must_use]
    pub fn new(kind: PeerKind) -> Self {
        Self {
            versions: VERSIONS,
            kind,
            software: env!("CARGO_PKG_VERSION").into(),
            tenant: "default".into(),
        }
    }
}

/// What a partition tells everybody who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its era at this moment.
    pub era: Era,
    /// The span of a lease.
    pub lease: Duration,
    /// Silence of a member longer than this is death.
    pub time_to_live: Duration,
}

/// Answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both sides speak from here on.
    pub version: u16,
    /// Version of the server's software, for people.
    pub software: String,
    /// What the partition tells everybody.
    pub greeting: Greeting,
    /// Number of the tenant that the hello named.
    pub tenant: TenantId,
    /// The most items of a batch.
    pub batch_max: u32,
}

#[cfg(test)]
mod tests {
    use super::Versions;
    use ziggurat_base::Code;

    #[test]
    fn the_newest_common_version_is_chosen() {
        let ours = Versions { min: 2, max: 4 };
        assert_eq!(ours.common(Versions { min: 1, max: 3 }).unwrap(), 3);
        assert_eq!(ours.common(Versions { min: 4, max: 9 }).unwrap(), 4);
        let error = ours.common(Versions { min: 1, max: 1 }).unwrap_err();
        assert_eq!(error.code(), Code::InvalidVersion);
        assert!(error.what().contains("1 to 1") && error.what().contains("2 to 4"));
        assert!(error.what().ends_with("upgrade the peer"));
    }
}
