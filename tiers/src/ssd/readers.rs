//! Who is being served from a directory, so that others can let them go first.

use std::{
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

#[derive(Debug, Default)]
struct State {
    count: usize,
    /// Those who wait until there is none.
    waiting: Vec<Waker>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<State>);

/// One reader, as long as it lives.
#[derive(Debug)]
pub(super) struct Reading<'a>(&'a Readers);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.0.lock();
            state.count -= 1;
            match state.count {
                0 => std::mem::take(&mut state.waiting),
                _ => Vec::new(),
            }
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Readers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self) -> Reading<'_> {
        self.lock().count += 1;
        Reading(self)
    }

    /// Completes when there is none.
    pub(super) async fn none(&self) {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.count == 0 {
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !state.waiting.iter().any(|other| other.will_wake(waker)) {
                state.waiting.push(waker.clone());
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::Readers;
    use futures_util::FutureExt as _;

    #[test]
    fn others_wait_until_the_last_reader_is_served() {
        let readers = Readers::default();
        assert_eq!(readers.none().now_or_never(), Some(()));
        let (first, second) = (readers.enter(), readers.enter());
        let mut waiting = Box::pin(readers.none());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        drop(first);
        assert_eq!(waiting.as_mut().now_or_never(), None);
        assert_eq!(readers.lock().waiting.len(), 1, "once in the line");
        drop(second);
        assert!(readers.lock().waiting.is_empty());
        assert_eq!(waiting.now_or_never(), Some(()));
    }
}
