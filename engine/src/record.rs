//! Durable facts of a partition: what must outlive it so that the dead stay dead.
//!
//! They come out of the catalog in order and are on disk before the call that made them is answered. A later life of the
//! partition absorbs them in the same order. Leases, recency and open writes are never among them.

use ziggurat_base::{DirectoryId, Ticket};

/// Why dead versions of a key must be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A directory was absent: nobody knows what it holds of the key.
    Absence,
    /// A version of the key was on its way to an owner when the partition let go of it.
    Flight,
}

/// One durable fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// This directory was mounted once: while it is away, it may hold what the partition knows nothing of.
    Directory {
        /// Its identity.
        directory: DirectoryId,
    },
    /// The directory must not bring this version back.
    Debt {
        /// Its identity.
        directory: DirectoryId,
        /// The version.
        ticket: Ticket,
    },
    /// The directory's owner does not hold the version any more.
    DebtPaid {
        /// Its identity.
        directory: DirectoryId,
        /// The version.
        ticket: Ticket,
    },
    /// Nothing at or below this ticket comes back from the directory.
    Floor {
        /// Its identity.
        directory: DirectoryId,
        /// The floor.
        ticket: Ticket,
    },
    /// No version of a key up to this ticket comes back from anywhere.
    KeyDebt {
        /// [`ziggurat_base::hash::key_digest`] of the key. A foreign key of the same digest is taken for dead: a miss, never
        /// a wrong byte.
        digest: u64,
        /// The newest dead version.
        upto: Ticket,
        /// Why.
        cause: Cause,
    },
    /// What was on its way has arrived: the debt of this key is paid.
    KeyPaid {
        /// The key.
        digest: u64,
    },
    /// Every directory is there: all debts of keys for want of one are paid.
    AbsencePaid,
}
