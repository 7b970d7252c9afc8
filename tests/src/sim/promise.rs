//! One value on its way from the world to a task.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// Where the value comes from. Dropping it without a word leaves the other side waiting, as a lost message does.
#[derive(Debug)]
pub(crate) struct Giver<T>(Arc<Mutex<Slot<T>>>);

/// Where it goes.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Mutex<Slot<T>>>);

/// Both ends.
pub(crate) fn promise<T>() -> (Giver<T>, Promise<T>) {
    let slot = Arc::new(Mutex::new(Slot {
        value: None,
        waker: None,
    }));
    (Giver(slot.clone()), Promise(slot))
}

impl<T> Clone for Giver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Giver<T> {
    /// Keeps the promise; a second value is dropped.
    pub(crate) fn give(&self, value: T) {
        let mut slot = self.0.lock().expect("one thread");
        if slot.value.is_none() {
            slot.value = Some(value);
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
    }
}

impl<T> Future for Promise<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.0.lock().expect("one thread");
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
