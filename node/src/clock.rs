//! The node's clock: how long ago it was started.

use tokio::time::Instant;
use ziggurat_base::{Clock, Job, Timestamp};

/// Time since the node was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uptime {
    origin: Instant,
}

impl Uptime {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Clock for Uptime {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO.after(self.origin.elapsed())
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }
}
