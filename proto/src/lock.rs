//! Locks that are held for a few instructions, never across an await.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. A holder that panicked left a consistent state: every critical section here is a few moves.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
