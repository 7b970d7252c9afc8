//! What a server of data requests has seen, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a connection was closed by the server; each is counted on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first frame was no greeting, or one that nobody can read.
    Greeting,
    /// The two ends have no protocol version in common.
    Version,
    /// A header that is damaged, foreign or beyond the limits.
    Header,
    /// A frame that has no business here.
    Kind,
    /// Lengths in a header that do not fit its span.
    Length,
    /// A span that contradicts itself.
    Span,
    /// The connection ended in the middle of a frame.
    Truncated,
    /// A transfer made no progress for too long.
    Stalled,
    /// The socket failed.
    Broken,
    /// There are as many connections as there may be.
    Crowded,
}

impl Fault {
    /// Every fault, in the order of [`Counts::faults`].
    pub const ALL: [Self; 10] = [
        Self::Greeting,
        Self::Version,
        Self::Header,
        Self::Kind,
        Self::Length,
        Self::Span,
        Self::Truncated,
        Self::Stalled,
        Self::Broken,
        Self::Crowded,
    ];

    /// Its name, as a metric's label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Greeting => "greeting",
            Self::Version => "version",
            Self::Header => "header",
            Self::Kind => "kind",
            Self::Length => "length",
            Self::Span => "span",
            Self::Truncated => "truncated",
            Self::Stalled => "stalled",
            Self::Broken => "broken",
            Self::Crowded => "crowded",
        }
    }
}

/// A snapshot. All counters run since the start; `connections` is a gauge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were accepted and greeted.
    pub greeted: u64,
    /// Frames that were understood.
    pub frames_in: u64,
    /// Payload bytes received into segments.
    pub bytes_in: u64,
    /// Payload bytes sent from segments.
    pub bytes_out: u64,
    /// Writes and reads that the host refused at once.
    pub refused: u64,
    /// Writes that were stopped half-way: fenced, or displaced by a newer version.
    pub fenced: u64,
    /// Writes whose bytes did not have the sums that their sender gave.
    pub mismatched: u64,
    /// Reads whose space went to another version while they were sent.
    pub unsealed: u64,
    /// Connections closed, by [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
}

impl Counts {
    /// How often `fault` has closed a connection.
    #[must_use]
    pub fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}

/// The counters behind the snapshot. Each is exact; together they are not one moment.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) greeted: AtomicU64,
    pub(crate) frames_in: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) mismatched: AtomicU64,
    pub(crate) unsealed: AtomicU64,
    faults: [AtomicU64; Fault::ALL.len()],
}

/// Adds to a counter that nothing else depends on.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn fault(&self, fault: Fault) {
        add(&self.faults[fault as usize], 1);
    }

    pub(crate) fn snapshot(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            connections: get(&self.connections),
            greeted: get(&self.greeted),
            frames_in: get(&self.frames_in),
            bytes_in: get(&self.bytes_in),
            bytes_out: get(&self.bytes_out),
            refused: get(&self.refused),
            fenced: get(&self.fenced),
            mismatched: get(&self.mismatched),
            unsealed: get(&self.unsealed),
            faults: self.faults.each_ref().map(get),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn faults_are_counted_at_their_place() {
        for (i, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, i, "{}", fault.name());
        }
    }
}
