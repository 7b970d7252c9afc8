//! Waiting until something is true, in any executor.

use std::{
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// Wakes everybody who waits for a condition, so that they look again.
#[derive(Debug, Default)]
pub struct Signal {
    waiting: Mutex<Vec<Waker>>,
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has changed.
    pub fn raise(&self) {
        let waiting = std::mem::take(&mut *self.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Completes once `ready` gives something; it is asked at once and after every change.
    pub async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            // In the line before looking, so that a change in between is not missed.
            let waker = context.waker();
            let mut waiting = self.lock();
            if !waiting.iter().any(|other| other.will_wake(waker)) {
                waiting.push(waker.clone());
            }
            drop(waiting);
            ready().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
