//! One answer from one thread to whoever waits for it: how requests land and calls return.

use crate::disk::Landed;
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use ziggurat_base::{Code, Error, Result};

/// What is answered when whoever should have answered is gone.
pub(crate) trait Abandoned {
    /// The answer.
    fn abandoned() -> Self;
}

fn gone() -> Error {
    let what = "the disk engine ended before it had done this; the log says why";
    Error::new(Code::Cancelled, what)
}

impl Abandoned for Landed {
    fn abandoned() -> Self {
        Self {
            buffer: None,
            result: Err(gone()),
        }
    }
}

impl<T> Abandoned for Result<T> {
    fn abandoned() -> Self {
        Err(gone())
    }
}

/// Both ends of an answer that is to come.
pub(crate) fn answer<T: Abandoned>() -> (Giver<T>, Waiter<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Waiting(None))));
    (Giver(Some(Arc::clone(&slot))), Waiter(slot))
}

#[derive(Debug)]
struct Slot<T>(Mutex<State<T>>);

#[derive(Debug)]
enum State<T> {
    Waiting(Option<Waker>),
    Given(T),
    /// The waiter has left, or has the answer.
    Over,
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the answer. Dropping it gives [`Abandoned::abandoned`].
#[derive(Debug)]
pub(crate) struct Giver<T: Abandoned>(Option<Arc<Slot<T>>>);

impl<T: Abandoned> Giver<T> {
    /// Gives the answer, which is dropped when nobody waits any more.
    pub(crate) fn give(mut self, value: T) {
        self.put(value);
    }

    fn put(&mut self, value: T) {
        let Some(slot) = self.0.take() else { return };
        let mut state = slot.state();
        let State::Waiting(waker) = &mut *state else {
            // A value may give a buffer back, which takes locks of its own.
            drop(state);
            return drop(value);
        };
        let waker = waker.take();
        *state = State::Given(value);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: Abandoned> Drop for Giver<T> {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.put(T::abandoned());
        }
    }
}

/// Waits for the answer.
#[derive(Debug)]
pub(crate) struct Waiter<T>(Arc<Slot<T>>);

impl<T> Future for Waiter<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.state();
        match std::mem::replace(&mut *state, State::Over) {
            State::Given(value) => Poll::Ready(value),
            State::Waiting(Some(waker)) if waker.will_wake(context.waker()) => {
                *state = State::Waiting(Some(waker));
                Poll::Pending
            }
            State::Waiting(before) => {
                *state = State::Waiting(Some(context.waker().clone()));
                drop(state);
                drop(before);
                Poll::Pending
            }
            State::Over => panic!("an answer is given once"),
        }
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *self.0.state(), State::Over);
        // Not under the lock: it may be a buffer, or a waker of somebody else.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::answer;
    use crate::{Landed, Pool};
    use pollster::block_on;
    use ziggurat_base::{Code, Result};

    #[test]
    fn an_answer_comes_from_another_thread() {
        let (giver, waiter) = answer::<Result<u32>>();
        let thread = std::thread::spawn(move || block_on(waiter));
        giver.give(Ok(5));
        assert_eq!(thread.join().unwrap().unwrap(), 5);
    }

    #[test]
    fn whoever_is_gone_has_answered() {
        let (giver, waiter) = answer::<Landed>();
        drop(giver);
        assert_eq!(block_on(waiter).result.unwrap_err().code(), Code::Cancelled);
    }

    #[test]
    fn an_answer_that_nobody_fetches_is_dropped() {
        let pool = Pool::new(4096).unwrap();
        let landed = || Landed {
            buffer: pool.try_take(1),
            result: Ok(()),
        };
        let (giver, waiter) = answer();
        drop(waiter);
        giver.give(landed());
        assert_eq!(pool.in_use(), 0);
        let (giver, waiter) = answer();
        giver.give(landed());
        assert_eq!(pool.in_use(), 4096);
        drop(waiter);
        assert_eq!(pool.in_use(), 0);
    }
}
