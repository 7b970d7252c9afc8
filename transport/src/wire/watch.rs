//! Waits for a socket, but not for ever.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Cuts a wait during which nothing happens for `limit`, or up to twice as long: one timer serves all waits of a
/// connection and is set again only when it fires, so that a wait costs no clock reading.
#[derive(Debug)]
pub(crate) struct Watch {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    moved: bool,
}

impl Watch {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            timer: Some(Box::pin(sleep(limit))),
            moved: true,
        }
    }

    /// For a caller who has a deadline of its own.
    pub(crate) fn none() -> Self {
        Self {
            limit: Duration::MAX,
            timer: None,
            moved: true,
        }
    }

    /// Waits until the socket is ready.
    ///
    /// # Errors
    /// `TimedOut` when it was not for too long, and what `ready` fails with.
    pub(crate) async fn wait(
        &mut self,
        ready: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        let mut ready = pin!(ready);
        std::future::poll_fn(|context| {
            if let Poll::Ready(result) = ready.as_mut().poll(context) {
                self.moved = true;
                return Poll::Ready(result);
            }
            let Some(timer) = &mut self.timer else {
                return Poll::Pending;
            };
            while timer.as_mut().poll(context).is_ready() {
                if !self.moved {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                self.moved = false;
                timer.as_mut().reset(Instant::now() + self.limit);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::Watch;
    use std::{future::pending, io, time::Duration};

    #[tokio::test(start_paused = true)]
    async fn a_wait_without_progress_is_cut() {
        let mut watch = Watch::new(Duration::from_secs(2));
        for _ in 0..10 {
            watch.wait(async { Ok(()) }).await.unwrap();
        }
        let cut = watch.wait(pending()).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }
}
