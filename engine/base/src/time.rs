//! Time as an argument: [`Timestamp`] is monotone and counted from an origin that its clock chose.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A boxed future, the return type of every port.
pub type Job<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Monotone time in nanoseconds since the origin of its clock. Never compared across processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// `self + span`, saturating at the end of time (584 years).
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// The span from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The only source of time above the shells.
pub trait Clock: Send + Sync {
    /// The current time. Never goes back.
    fn now(&self) -> Timestamp;
    /// Completes once `now() >= at`.
    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()>;
}

/// A clock that moves only when told: trace replay and tests. Sleeping moves it, so nothing ever waits.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
}

impl ManualClock {
    /// Moves forward to `to`; earlier times are ignored.
    pub fn advance_to(&self, to: Timestamp) {
        self.now.fetch_max(to.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        self.advance_to(at);
        Box::pin(std::future::ready(()))
    }
}
