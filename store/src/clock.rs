//! The machine's monotone clock.

use std::time::Instant;
use ziggurat_base::{Clock, Job, Timestamp};

/// Time since the clock was made, from the monotone clock of the machine. Sleeps in any executor.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // One step beyond the origin: zero means "never" in leases.
        Timestamp::ZERO
            .after(self.origin.elapsed())
            .after(std::time::Duration::from_nanos(1))
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        let span = at.since(self.now());
        Box::pin(async move {
            if !span.is_zero() {
                futures_timer::Delay::new(span).await;
            }
        })
    }
}
