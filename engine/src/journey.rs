//! Journeys: what a client does from top to bottom, over ports. They own no state that outlives them.

pub mod get;
pub mod prefetch;
pub mod put;

pub use get::{Get, GetInto, Located};
pub use put::{Put, PutOutcome};

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

/// Bounds of the patience of journeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long a put waits for room that eviction or the end of leases will make.
    pub room: Duration,
    /// The longest pause between two questions for room.
    pub pause_max: Duration,
    /// How often a read that found its guard ended or its version replaced is begun anew.
    pub relocations: u32,
    /// Payload bytes that are moved before guards and tickets are looked at again.
    pub stretch: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            room: Duration::from_secs(2),
            pause_max: Duration::from_millis(20),
            relocations: 3,
            stretch: 64 << 20,
        }
    }
}

/// The part of a span that its holder uses: all but 1 %, so that rates of clocks may differ that much.
#[must_use]
pub fn usable(span: Duration) -> Duration {
    span - span / 100
}

/// Drives `work`; whenever `alarm` completes first, runs what `again` makes of it and goes on, until that fails.
///
/// `again` is no async closure: the future of a journey must be `Send` wherever it is spawned, and the compiler cannot
/// tell that of a future with an async closure in it.
async fn with_alarm<T, E, A: Future<Output = Result<(), E>>>(
    work: impl Future<Output = T>,
    mut again: impl FnMut() -> A,
) -> Result<T, E> {
    let mut work = pin!(work);
    loop {
        let mut alarm = pin!(again());
        let next = poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(Some(done)));
            }
            alarm.as_mut().poll(context).map(|rung| rung.map(|()| None))
        });
        if let Some(done) = next.await? {
            return Ok(done);
        }
    }
}
