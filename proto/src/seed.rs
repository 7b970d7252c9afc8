//! The seed's `MasterService` for foreign clients: gRPC on the port of our own frames, with the seed's names.
//!
//! This module turns its messages into calls of a [`SeedBackend`] and answers into messages. It checks what can be checked
//! without a partition; everything that must be decided is the backend's. Every answer is a gRPC success; what happened is
//! in `status_code`, with the numbers of docs/errors.md. docs/seed-protocol.md has all mends and deviations.

mod convert;
mod http2;
#[expect(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::too_many_lines,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated code; the schema has the words"
)]
pub mod message {
    //! Generated messages and stubs of mooncake_store.proto.
    include!(concat!(env!("OUT_DIR"), "/mooncake_store.rs"));
}
mod service;

#[cfg(any(test, feature = "testkit"))]
pub(crate) use convert::{clear as check_clear, put as check_put};
pub(crate) use http2::{PREFACE, serve};

use std::fmt;
use ziggurat_base::{Job, Key, ObjectKey, SegmentId};
use ziggurat_engine::command::{Answer, Wish};

/// A foreign client: one gRPC connection. The seed's messages have no client in them, so whoever shares a connection is one
/// client, and a new connection is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u64);

/// The identity that the seed's clients give themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId {
    /// First half.
    pub first: u64,
    /// Second half.
    pub second: u64,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.second)
    }
}

/// A piece of a payload and the token that opens it at the node that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The segment.
    pub segment: SegmentId,
    /// Where it is served, host:port.
    pub endpoint: Box<str>,
    /// Names the piece in frames of the data plane; 0 in lists that only describe.
    pub token: u64,
    /// Bytes of the piece.
    pub len: u64,
}

/// Whether a replica can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It is being written.
    Processing,
    /// It can be read.
    Complete,
}

/// One replica: its handles in the order of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Whether it can be read.
    pub state: ReplicaState,
    /// The pieces; one of length 0 for an empty payload.
    pub handles: Vec<Handle>,
}

/// An object and its replicas.
pub type ObjectReplicas = (ObjectKey, Vec<Replica>);

/// A client and the IP addresses of its segments.
pub type ClientAddresses = (ClientId, Vec<String>);

/// What a foreign put says about soft pins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftPin {
    /// As it was.
    #[default]
    Preserve,
    /// On, for so many milliseconds, or for the partition's default.
    Enable(Option<u64>),
    /// Off.
    Disable,
}

/// A foreign put.
#[derive(Clone, Debug)]
pub struct SeedPut<'a> {
    /// The key, in the tenant `default`.
    pub key: Key<'a>,
    /// Lengths of the slices, one handle each; their sum is the length of the payload. One of 0 for an empty payload.
    pub slices: Vec<u64>,
    /// Replicas and preferred segments.
    pub wish: Wish,
    /// Soft pin.
    pub soft_pin: SoftPin,
    /// Never evicted.
    pub hard_pin: bool,
}

impl SeedPut<'_> {
    /// Bytes of the payload.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.slices.iter().sum()
    }

    /// Whether the payload is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which objects a foreign client clears.
#[derive(Clone, Debug)]
pub struct Clear<'a> {
    /// The objects.
    pub keys: Vec<Key<'a>>,
    /// Who clears. Puts name nobody, so it is not compared with anything.
    pub client: ClientId,
    /// Only replicas on this segment; all when absent.
    pub segment: Option<&'a str>,
}

/// What serves foreign clients: a partition together with its nodes' streams.
pub trait SeedBackend: Send + Sync {
    /// Readable replicas of an object, under a lease, with tokens that the nodes have acknowledged.
    fn get_replica_list<'a>(&'a self, peer: Peer, key: Key<'a>) -> Job<'a, Answer<Vec<Replica>>>;
    /// Every object of which the pattern is found in the key, under a lease, without tokens. Keys that are no UTF-8 are not
    /// listed.
    fn get_replica_list_by_regex<'a>(
        &'a self,
        peer: Peer,
        regex: &'a str,
    ) -> Job<'a, Answer<Vec<ObjectReplicas>>>;
    /// IP addresses of the segments of clients; clients without any are left out.
    fn batch_query_ip<'a>(
        &'a self,
        clients: &'a [ClientId],
    ) -> Job<'a, Answer<Vec<ClientAddresses>>>;
    /// Clears what nobody uses: objects whose leases have ended, or what lies of them on one segment; of which keys it did.
    fn batch_replica_clear<'a>(&'a self, clear: &'a Clear<'a>) -> Job<'a, Answer<Vec<ObjectKey>>>;
    /// Reserves space; completes when every node has acknowledged the tokens of its replicas.
    fn put_start<'a>(&'a self, peer: Peer, put: &'a SeedPut<'a>) -> Job<'a, Answer<Vec<Replica>>>;
    /// Ends the open write of this peer and key: the owners of its memory sum it first. `InvalidWrite` when there is none.
    fn put_end<'a>(&'a self, peer: Peer, key: Key<'a>) -> Job<'a, Answer<()>>;
    /// Removes an object.
    fn remove<'a>(&'a self, peer: Peer, key: Key<'a>) -> Job<'a, Answer<()>>;
    /// Removes every object of which the pattern is found in the key; how many it did remove.
    fn remove_by_regex<'a>(&'a self, peer: Peer, regex: &'a str) -> Job<'a, Answer<u64>>;
    /// Has a node give `size` bytes to the pool under this name; completes when they are mounted.
    fn mount_segment<'a>(&'a self, peer: Peer, name: &'a str, size: u64) -> Job<'a, Answer<()>>;
    /// Takes them back.
    fn unmount_segment<'a>(&'a self, peer: Peer, name: &'a str) -> Job<'a, Answer<()>>;
    /// The connection has ended: its open writes are to be given up.
    fn gone(&self, peer: Peer);
}
