//! Time as measurements see it.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time that the calling thread has taken so far.
pub(super) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// CPU time that all threads of this process have taken so far, those of the kernel that work for it included.
pub(super) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // The kernel gives neither negative times nor more than 10^9 nanoseconds.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Does `work` and says how much CPU time of this thread it took.
pub(super) fn cpu_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = thread_cpu();
    let done = work();
    (done, thread_cpu() - before)
}

/// So many per second; 0 when no time has passed.
pub(super) fn per_second(count: u64, span: Duration) -> f64 {
    if span.is_zero() {
        return 0.0;
    }
    count as f64 / span.as_secs_f64()
}

/// Spans of many calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    nanos: Vec<u64>,
}

impl Spans {
    pub(super) fn add(&mut self, span: Duration) {
        self.nanos
            .push(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn count(&self) -> u64 {
        self.nanos.len() as u64
    }

    /// The span, in microseconds, that this share of the calls did not exceed; 0 without calls.
    pub(super) fn share_us(&mut self, share: f64) -> f64 {
        self.nanos.sort_unstable();
        let last = self.nanos.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.nanos.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e3)
    }
}

/// The middle of several figures; 0 without any.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{Spans, median, per_second};
    use std::time::Duration;

    #[test]
    fn shares_are_taken_from_the_sorted_spans() {
        let mut spans = Spans::default();
        assert_eq!(spans.share_us(0.5), 0.0);
        for micros in (1..=101).rev() {
            spans.add(Duration::from_micros(micros));
        }
        assert_eq!((spans.share_us(0.0), spans.share_us(0.5)), (1.0, 51.0));
        assert_eq!((spans.share_us(0.99), spans.share_us(1.0)), (100.0, 101.0));
    }

    #[test]
    fn figures_of_nothing_are_zero() {
        assert_eq!(
            (median(Vec::new()), per_second(5, Duration::ZERO)),
            (0.0, 0.0)
        );
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
