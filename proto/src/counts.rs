//! What a server counts: requests by kind with their latency, connections, and why it closed some. Lock-free; a page of
//! metrics takes a snapshot.

use crate::wire::request::Call;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use ziggurat_base::{Code, Error};

/// Buckets of a latency histogram: bucket i counts calls of less than 2^i ns that are in no bucket before it. The last one,
/// from about 9 minutes on, takes the rest.
pub const BUCKETS: usize = 40;

/// Declares an enum of counters with names for metrics.
macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$what])* $variant,)* }

        impl $name {
            /// All of them, in the order of the snapshot.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The label in metrics.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

kinds! {
    /// A kind of request.
    CallKind {
        /// `put_start`.
        PutStart = "put_start",
        /// `put_end`.
        PutEnd = "put_end",
        /// `revoke`.
        Revoke = "revoke",
        /// `renew`.
        Renew = "renew",
        /// `locate`.
        Locate = "locate",
        /// `exist`.
        Exist = "exist",
        /// `touch`.
        Touch = "touch",
        /// `remove`.
        Remove = "remove",
        /// `scan`.
        Scan = "scan",
        /// `stat`.
        Stat = "stat",
        /// `prefetch`.
        Prefetch = "prefetch",
        /// `join`.
        Join = "join",
        /// `ping`.
        Ping = "ping",
        /// `leave`.
        Leave = "leave",
        /// `tenant`.
        Tenant = "tenant",
        /// `mount`.
        Mount = "mount",
        /// `unmount`.
        Unmount = "unmount",
        /// `fenced`.
        Fenced = "fenced",
        /// `segments`.
        Segments = "segments",
        /// `stats`.
        Stats = "stats",
        /// A subscription.
        Watch = "watch",
        /// A report on an order.
        Report = "report",
        /// A batch of a ledger.
        Ledger = "ledger",
        /// `GetReplicaList` of the seed's service.
        SeedGetReplicaList = "seed_get_replica_list",
        /// `GetReplicaListByRegex` of the seed's service.
        SeedGetReplicaListByRegex = "seed_get_replica_list_by_regex",
        /// `BatchQueryIp` of the seed's service.
        SeedBatchQueryIp = "seed_batch_query_ip",
        /// `BatchReplicaClear` of the seed's service.
        SeedBatchReplicaClear = "seed_batch_replica_clear",
        /// `PutStart` of the seed's service.
        SeedPutStart = "seed_put_start",
        /// `PutEnd` of the seed's service.
        SeedPutEnd = "seed_put_end",
        /// `Remove` of the seed's service.
        SeedRemove = "seed_remove",
        /// `RemoveByRegex` of the seed's service.
        SeedRemoveByRegex = "seed_remove_by_regex",
        /// `MountSegment` of the seed's service.
        SeedMountSegment = "seed_mount_segment",
        /// `UnmountSegment` of the seed's service.
        SeedUnmountSegment = "seed_unmount_segment",
    }
}

impl CallKind {
    /// The kind of a call.
    pub(crate) fn of(call: &Call) -> Self {
        match call {
            Call::PutStart(_) => Self::PutStart,
            Call::PutEnd(_) => Self::PutEnd,
            Call::Revoke(_) => Self::Revoke,
            Call::Renew(_) => Self::Renew,
            Call::Locate(_) => Self::Locate,
            Call::Exist(_) => Self::Exist,
            Call::Touch(_) => Self::Touch,
            Call::Remove(_) => Self::Remove,
            Call::Scan(_) => Self::Scan,
            Call::Stat(_) => Self::Stat,
            Call::Prefetch(_) => Self::Prefetch,
            Call::Join(_) => Self::Join,
            Call::Ping(_) => Self::Ping,
            Call::Leave(_) => Self::Leave,
            Call::Tenant(_) => Self::Tenant,
            Call::Mount(_) => Self::Mount,
            Call::Unmount(_) => Self::Unmount,
            Call::Fenced(_) => Self::Fenced,
            Call::Segments(_) => Self::Segments,
            Call::Stats(_) => Self::Stats,
            Call::Watch(_) => Self::Watch,
            Call::Report(_) => Self::Report,
            Call::Ledger(_) => Self::Ledger,
        }
    }
}

kinds! {
    /// Why a connection was closed by the server.
    CloseReason {
        /// It began with neither of the two protocols.
        Preface = "preface",
        /// It said nothing, or not enough, for too long.
        Silent = "silent",
        /// A frame header was damaged or of a kind that has no place here.
        Frame = "frame",
        /// A message could not be decoded or contradicted itself.
        Message = "message",
        /// The versions do not overlap.
        Version = "version",
        /// The hello was refused for another reason, such as an unknown tenant.
        Refused = "refused",
        /// There were too many connections.
        TooMany = "too_many",
        /// It did not take its answers.
        Stalled = "stalled",
        /// HTTP/2 on a server without the seed's service.
        NoSeed = "no_seed",
    }
}

/// Counters of one kind of request.
#[derive(Debug)]
struct CallCounts {
    failed: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// All counters of a server.
#[derive(Debug)]
pub struct Counts {
    calls: [CallCounts; CallKind::ALL.len()],
    closed: [AtomicU64; CloseReason::ALL.len()],
    opened: AtomicU64,
    ended: AtomicU64,
    pushes: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            calls: std::array::from_fn(|_| CallCounts {
                failed: zero(),
                buckets: std::array::from_fn(|_| zero()),
            }),
            closed: std::array::from_fn(|_| zero()),
            opened: zero(),
            ended: zero(),
            pushes: zero(),
        }
    }
}

impl Counts {
    /// Counts a request.
    pub(crate) fn call(&self, kind: CallKind, took: Duration, is_ok: bool) {
        let calls = &self.calls[kind as usize];
        add(&calls.buckets[bucket(took)]);
        if !is_ok {
            add(&calls.failed);
        }
    }

    pub(crate) fn close(&self, reason: CloseReason) {
        add(&self.closed[reason as usize]);
    }

    /// Counts a connection until the guard is dropped.
    pub(crate) fn open(&self) -> OpenConnection<'_> {
        add(&self.opened);
        OpenConnection(self)
    }

    pub(crate) fn push(&self) {
        add(&self.pushes);
    }

    /// All numbers at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let calls = CallKind::ALL.iter().zip(&self.calls).map(|(kind, calls)| {
            let buckets: [u64; BUCKETS] = std::array::from_fn(|i| get(&calls.buckets[i]));
            CallSnapshot {
                kind: *kind,
                count: buckets.iter().sum(),
                failed: get(&calls.failed),
                buckets,
            }
        });
        let closed = CloseReason::ALL.iter().zip(&self.closed);
        let (ended, opened) = (get(&self.ended), get(&self.opened));
        Snapshot {
            calls: calls.collect(),
            closed: closed
                .map(|(reason, count)| (*reason, get(count)))
                .collect(),
            connections: opened,
            connections_open: opened.saturating_sub(ended),
            pushes: get(&self.pushes),
        }
    }
}

/// Counts a connection as open.
pub(crate) struct OpenConnection<'a>(&'a Counts);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        add(&self.0.ended);
    }
}

/// One kind of request in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSnapshot {
    /// The kind.
    pub kind: CallKind,
    /// Requests, whatever came of them.
    pub count: u64,
    /// Requests that failed as a whole.
    pub failed: u64,
    /// Time from the decoded request to the encoded answer, see [`BUCKETS`].
    pub buckets: [u64; BUCKETS],
}

/// A server in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// By kind of request.
    pub calls: Vec<CallSnapshot>,
    /// Closed connections by reason.
    pub closed: Vec<(CloseReason, u64)>,
    /// Connections since the start.
    pub connections: u64,
    /// Connections at this moment.
    pub connections_open: u64,
    /// Frames that were sent unasked.
    pub pushes: u64,
}

impl Snapshot {
    /// Connections closed for `reason`.
    #[must_use]
    pub fn closed(&self, reason: CloseReason) -> u64 {
        let found = self.closed.iter().find(|(some, _)| *some == reason);
        found.map_or(0, |(_, count)| *count)
    }

    /// Requests of a kind.
    #[must_use]
    pub fn call(&self, kind: CallKind) -> Option<&CallSnapshot> {
        self.calls.iter().find(|call| call.kind == kind)
    }
}

/// Why a connection is closed whose frame or message has this fault.
pub(crate) fn reason_of(error: &Error) -> CloseReason {
    match error.code() {
        Code::InvalidVersion => CloseReason::Version,
        Code::DeserializeFail => CloseReason::Frame,
        _ => CloseReason::Refused,
    }
}

fn bucket(took: Duration) -> usize {
    let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    ((u64::BITS - nanos.leading_zeros()) as usize).min(BUCKETS - 1)
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, CallKind, CloseReason, Counts, bucket};
    use std::time::Duration;

    #[test]
    fn buckets_are_powers_of_two() {
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::from_nanos(1)), 1);
        assert_eq!(bucket(Duration::from_nanos(1023)), 10);
        assert_eq!(bucket(Duration::from_nanos(1024)), 11);
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_snapshot_has_every_kind() {
        let counts = Counts::default();
        counts.call(CallKind::Report, Duration::from_nanos(5), false);
        counts.close(CloseReason::NoSeed);
        let open = counts.open();
        let snapshot = counts.snapshot();
        let report = snapshot.call(CallKind::Report).unwrap();
        assert_eq!((report.count, report.failed, report.buckets[3]), (1, 1, 1));
        assert_eq!(snapshot.closed(CloseReason::NoSeed), 1);
        assert_eq!((snapshot.connections, snapshot.connections_open), (1, 1));
        drop(open);
        assert_eq!(counts.snapshot().connections_open, 0);
    }
}
