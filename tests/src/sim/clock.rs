//! Clocks of the simulated processes: each has its own origin and its own rate.

use super::{
    promise::{Promise, promise},
    world::Sim,
};
use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};
use ziggurat_base::{Clock, Job, Timestamp, hash::Dice};

const MILLION: u128 = 1_000_000;

/// Rates differ by at most this much from the true one, to either side. Two of them together stay below the 1 % that
/// guards allow for.
const RATE_ERROR_PPM_MAX: u64 = 4_500;

/// How the clock of one process runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Local nanoseconds in a million true ones.
    per_million: u64,
    origin: u64,
}

impl Rate {
    pub(crate) fn rolled(dice: &mut Dice) -> Self {
        let error = dice.below(2 * RATE_ERROR_PPM_MAX + 1);
        Self {
            per_million: 1_000_000 - RATE_ERROR_PPM_MAX + error,
            origin: 1_000 + dice.below(1 << 40),
        }
    }

    pub(crate) fn local(self, at: Timestamp) -> Timestamp {
        let passed = u128::from(at.0) * u128::from(self.per_million) / MILLION;
        Timestamp(self.origin + passed as u64)
    }

    /// The first true instant at which the clock shows `local` or later.
    pub(crate) fn true_time(self, local: Timestamp) -> Timestamp {
        let passed = u128::from(local.0.saturating_sub(self.origin)) * MILLION;
        Timestamp(passed.div_ceil(u128::from(self.per_million)) as u64)
    }

    /// A span of this clock in true time, rounded down.
    pub(crate) fn true_span(self, span: Duration) -> Duration {
        let nanos = span.as_nanos() * MILLION / u128::from(self.per_million);
        Duration::from_nanos(nanos as u64)
    }
}

/// The clock of one process.
#[derive(Clone)]
pub(crate) struct SimClock {
    pub(crate) sim: Sim,
    pub(crate) rate: Rate,
}

impl SimClock {
    /// Waits on this clock.
    pub(crate) async fn sleep(&self, span: Duration) {
        self.sleep_until(self.now().after(span)).await;
    }

    /// Waits for a promise, but no longer than `span`.
    pub(crate) async fn within<T>(&self, span: Duration, promise: Promise<T>) -> Option<T> {
        let mut alarm = pin!(self.sleep(span));
        let mut promise = pin!(promise);
        poll_fn(|context| {
            if let Poll::Ready(value) = promise.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            alarm.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.rate.local(self.sim.now())
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        let (sim, at) = (self.sim.clone(), self.rate.true_time(at));
        Box::pin(async move {
            let (giver, woken) = promise();
            sim.with(|world| world.at(at, move |_| giver.give(())));
            woken.await;
        })
    }
}
