//! What goes wrong, and when: a hook that sees every request, and a plan for single ones.

use super::Counts;
use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use ziggurat_base::{Code, Error, Timestamp};

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// [`Request::Read`](crate::Request::Read).
    Read,
    /// [`Request::Write`](crate::Request::Write), its sync included.
    Write,
    /// [`Request::Sync`](crate::Request::Sync).
    Sync,
    /// [`File::punch`](crate::File::punch).
    Punch,
    /// [`Disk::create`](crate::Disk::create).
    Create,
    /// [`Disk::open`](crate::Disk::open).
    Open,
    /// [`Disk::remove`](crate::Disk::remove).
    Remove,
    /// [`Disk::rename`](crate::Disk::rename).
    Rename,
    /// [`Disk::sync_names`](crate::Disk::sync_names).
    SyncNames,
    /// [`Disk::list`](crate::Disk::list).
    List,
    /// [`Disk::space`](crate::Disk::space).
    Space,
}

/// A request, as a hook sees it before it is carried out.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// The kind.
    pub op: Op,
    /// The file; empty for what concerns the directory.
    pub file: &'a str,
    /// The bytes of the file; empty when it has none.
    pub range: Range<u64>,
    /// Counts the requests of this kind from 1.
    pub count: u64,
    /// When; the origin on a disk without a clock.
    pub now: Timestamp,
}

/// What a hook decides. The default is that all goes well at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// How long the request takes.
    pub delay: Duration,
}

impl From<Fault> for Verdict {
    fn from(fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::default()
        }
    }
}

impl From<Duration> for Verdict {
    fn from(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }
}

/// What can go wrong. The last four are told to nobody: the request succeeds. They do nothing to requests without bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails (`EIO`). A write leaves its first blocks, which may be none.
    Fails {
        /// How many blocks a write leaves.
        blocks: u64,
    },
    /// The filesystem is full (`ENOSPC`); nothing is written.
    Full,
    /// A write leaves nothing.
    Lost,
    /// A write leaves its first blocks only.
    Torn {
        /// How many.
        blocks: u64,
    },
    /// A write goes to another place of the same file, a read comes from there.
    Misplaced {
        /// The first byte of that place, cut to whole blocks; what would end behind the file is left out.
        offset: u64,
    },
    /// A bit of what is written or read is flipped.
    Rot {
        /// Which, counted from the first of the request and modulo their number.
        bit: u64,
    },
}

impl Fault {
    /// The plain `EIO`.
    pub const EIO: Self = Self::Fails { blocks: 0 };

    /// Whether the request says that it failed.
    pub(super) fn is_told(self) -> bool {
        matches!(self, Self::Fails { .. } | Self::Full)
    }

    /// What a request that failed says.
    pub(super) fn error(self, op: Op, file: &str) -> Error {
        let (code, cause) = match (self, op) {
            (Self::Full, _) => (Code::NoAvailableHandle, "No space left on device"),
            (_, Op::Read | Op::List | Op::Space) => (Code::FileReadFail, "Input/output error"),
            (_, Op::Open) => (Code::FileOpenFail, "Input/output error"),
            _ => (Code::FileWriteFail, "Input/output error"),
        };
        Error::new(
            code,
            format!("{op:?} of `{file}` on the simulated disk: {cause}"),
        )
    }
}

/// Decides what happens to a request.
pub type Hook = Box<dyn FnMut(&Attempt<'_>) -> Verdict + Send>;

#[derive(Default)]
pub(super) struct Faults {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hook: Option<Hook>,
    counts: BTreeMap<Op, u64>,
    plan: BTreeMap<(Op, u64), Fault>,
}

impl Faults {
    pub(super) fn set(&self, hook: Hook) {
        self.state().hook = Some(hook);
    }

    pub(super) fn plan(&self, op: Op, nth: u64, fault: Fault) {
        assert!(nth > 0, "the first request is number 1");
        let mut state = self.state();
        let count = state.counts.get(&op).copied().unwrap_or_default();
        state.plan.insert((op, count + nth), fault);
    }

    pub(super) fn judge(&self, op: Op, file: &str, range: Range<u64>, now: Timestamp) -> Verdict {
        let mut state = self.state();
        let state = &mut *state;
        let count = state.counts.entry(op).or_default();
        *count += 1;
        let attempt = Attempt {
            op,
            file,
            range,
            count: *count,
            now,
        };
        let mut verdict = state
            .hook
            .as_mut()
            .map_or_else(Verdict::default, |hook| hook(&attempt));
        if let Some(fault) = state.plan.remove(&(op, *count)) {
            verdict.fault = Some(fault);
        }
        verdict
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter(Mutex<Counts>);

impl Counter {
    pub(super) fn add(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn get(&self) -> Counts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
