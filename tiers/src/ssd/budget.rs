//! How much may be written to a directory over time, so that its drive lives as long as it should.
//!
//! Everything that reaches the drive is paid from one bucket: payloads, headers, padding, copies, footers, tombstones. Who
//! brings objects pays for a whole batch before it is begun, and waits until what was owed before is made up for; who would
//! wait for too long is refused. What the log itself needs (heads, footers, tombstones) is written at once and owed.

use super::SsdTier;
use std::{
    fmt,
    ops::Add,
    str::FromStr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use ziggurat_base::{ByteCount, Code, Error, Result, Ticket, Timestamp, unit::human_span};
use ziggurat_engine::shelf::holdings::Names;

const DAY_SECONDS: f64 = 86_400.0;

/// The most that may be saved up: what was not written for so long may be written at once. A directory begins with it.
pub const BURST: Duration = Duration::from_secs(60);

/// The longest that objects wait for the budget; well below the time for which a partition keeps them in memory.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The longest that cleaning waits before it copies. All who wait behind it have paid already, each for what it brings.
pub(super) const COPY_PATIENCE: Duration = Duration::from_secs(20);

/// The most directory sizes a day that a budget can be.
const DRIVES_MAX: f64 = 1000.0;

/// A limit of what is written to one directory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteBudget {
    /// Bytes a second.
    PerSecond(ByteCount),
    /// The size of the directory so often a day, as makers of drives state endurance.
    DrivesPerDay(f64),
}

impl WriteBudget {
    /// Bytes a second for a directory of some capacity; at least one.
    #[must_use]
    pub fn rate(self, capacity: ByteCount) -> u64 {
        let rate = match self {
            Self::PerSecond(bytes) => bytes.0,
            Self::DrivesPerDay(often) => (capacity.0 as f64 * often / DAY_SECONDS) as u64,
        };
        rate.max(1)
    }
}

impl fmt::Display for WriteBudget {
    /// So that it reads back to the same: [`ByteCount`] rounds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match self {
            Self::PerSecond(ByteCount(bytes)) => {
                let unit = UNITS.iter().find(|(_, size)| bytes.is_multiple_of(*size));
                let (unit, size) = unit.copied().unwrap_or(("B", 1));
                f.pad(&format!("{}{unit}/s", bytes / size))
            }
            Self::DrivesPerDay(often) => f.pad(&format!("{often:?}dwpd")),
        }
    }
}

impl FromStr for WriteBudget {
    type Err = Error;

    /// `200MiB/s` or `1.5dwpd`.
    fn from_str(text: &str) -> Result<Self> {
        let budget = match text.trim().strip_suffix("dwpd") {
            Some(number) => number.trim().parse().ok().map(Self::DrivesPerDay),
            None => {
                let size = text.trim().strip_suffix("/s");
                size.and_then(|size| Some(Self::PerSecond(size.parse().ok()?)))
            }
        };
        let is_sound = |budget: &Self| match *budget {
            Self::PerSecond(bytes) => bytes.0 > 0,
            Self::DrivesPerDay(often) => often > 0.0 && often <= DRIVES_MAX,
        };
        budget.filter(is_sound).ok_or_else(|| {
            let what = format!(
                "{text:?} is no write budget: write bytes a second, for example 200MiB/s, or how often a day the \
                 directory may be written over, for example 1.0dwpd (at most {DRIVES_MAX}); both more than 0"
            );
            Error::new(Code::InvalidParams, what)
        })
    }
}

/// What a budget has done since its directory was opened; all zero without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStats {
    /// Bytes a second that may be written.
    pub rate: u64,
    /// Bytes that it has allowed so far, the burst of the start included.
    pub allowed: u64,
    /// Bytes of it that were used.
    pub used: u64,
    /// Batches, and files to be cleaned, that waited for it.
    pub waits: u64,
    /// Bytes of the batches among them.
    pub waited_bytes: u64,
    /// How long they waited, added up.
    pub waited: Duration,
    /// Objects that were refused because they would have waited for too long.
    pub refused: u64,
    /// Records that were evicted because there was nothing left to copy them with.
    pub uncopied: u64,
}

impl BudgetStats {
    /// The share of what was allowed that was used; 0 without a budget. More than 1 where the log needed more.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.allowed == 0 {
            return 0.0;
        }
        self.used as f64 / self.allowed as f64
    }
}

impl Add for BudgetStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rate: self.rate + other.rate,
            allowed: self.allowed + other.allowed,
            used: self.used + other.used,
            waits: self.waits + other.waits,
            waited_bytes: self.waited_bytes + other.waited_bytes,
            waited: self.waited + other.waited,
            refused: self.refused + other.refused,
            uncopied: self.uncopied + other.uncopied,
        }
    }
}

/// Billionths of a byte: what comes in within a nanosecond at one byte a second.
type Parts = i128;

const PARTS: Parts = 1_000_000_000;

#[derive(Debug)]
struct Bucket {
    /// What may be written; less than nothing when it is owed.
    left: Parts,
    /// When that was.
    at: Timestamp,
    stats: BudgetStats,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Governor {
    rate: u64,
    begun: Timestamp,
    bucket: Mutex<Bucket>,
}

impl Governor {
    pub(super) fn new(rate: u64, now: Timestamp) -> Self {
        let bucket = Bucket {
            left: full(rate),
            at: now,
            stats: BudgetStats::default(),
        };
        Self {
            rate,
            begun: now,
            bucket: Mutex::new(bucket),
        }
    }

    /// The bucket as it is now.
    fn at(&self, now: Timestamp) -> MutexGuard<'_, Bucket> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let came = now.since(bucket.at).as_nanos() as Parts * Parts::from(self.rate);
        bucket.left = (bucket.left + came).min(full(self.rate));
        bucket.at = bucket.at.max(now);
        bucket
    }

    /// For how long something is owed when so much is left.
    fn debt(&self, left: Parts) -> Duration {
        let rate = Parts::from(self.rate);
        let nanos = ((-left).max(0) + rate - 1) / rate;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Pays for `bytes` if they need not wait longer than `patience`: who has paid waits for as long as the answer says, and
    /// nobody who comes later goes before. One that is larger than the burst is let in like others, and owed. The other
    /// answer is how long it would have been.
    pub(super) fn pay(
        &self,
        now: Timestamp,
        bytes: u64,
        patience: Duration,
    ) -> std::result::Result<Duration, Duration> {
        let mut bucket = self.at(now);
        let wait = self.debt(bucket.left);
        if wait > patience {
            return Err(wait);
        }
        bucket.take(bytes);
        bucket.note_wait(wait, bytes);
        Ok(wait)
    }

    /// For how long copies would wait that are made on behalf of something that has paid `paid` itself.
    pub(super) fn wait_to_copy(&self, now: Timestamp, paid: u64) -> Duration {
        let mut bucket = self.at(now);
        let wait = self.debt(bucket.left + Parts::from(paid) * PARTS);
        if wait <= COPY_PATIENCE {
            bucket.note_wait(wait, 0);
        }
        wait
    }

    /// Whether `bytes`, or all that can be saved up, are there and not needed by anybody.
    pub(super) fn has_spare(&self, now: Timestamp, bytes: u64) -> bool {
        self.at(now).left >= (Parts::from(bytes) * PARTS).min(full(self.rate))
    }

    /// Pays for what is written in any case.
    pub(super) fn owe(&self, now: Timestamp, bytes: u64) {
        self.at(now).take(bytes);
    }

    /// What was paid for was not written.
    pub(super) fn give_back(&self, now: Timestamp, bytes: u64) {
        let mut bucket = self.at(now);
        bucket.left = (bucket.left + Parts::from(bytes) * PARTS).min(full(self.rate));
        bucket.stats.used = bucket.stats.used.saturating_sub(bytes);
    }

    /// How many bytes could be brought now so that none waits longer than `patience`.
    pub(super) fn reach(&self, now: Timestamp, patience: Duration) -> u64 {
        let more = patience.as_nanos() as Parts * Parts::from(self.rate);
        let bytes = (self.at(now).left + more).max(0) / PARTS;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn note_refused(&self, now: Timestamp, objects: u64) {
        self.at(now).stats.refused += objects;
    }

    pub(super) fn note_uncopied(&self, now: Timestamp, records: u64) {
        self.at(now).stats.uncopied += records;
    }

    pub(super) fn stats(&self, now: Timestamp) -> BudgetStats {
        let came = now.since(self.begun).as_nanos() as Parts * Parts::from(self.rate);
        let allowed = (full(self.rate) + came) / PARTS;
        BudgetStats {
            rate: self.rate,
            allowed: u64::try_from(allowed).unwrap_or(u64::MAX),
            ..self.at(now).stats
        }
    }
}

impl Bucket {
    fn take(&mut self, bytes: u64) {
        self.left -= Parts::from(bytes) * PARTS;
        self.stats.used += bytes;
    }

    fn note_wait(&mut self, wait: Duration, bytes: u64) {
        if wait.is_zero() {
            return;
        }
        self.stats.waits += 1;
        self.stats.waited_bytes += bytes;
        self.stats.waited += wait;
    }
}

fn full(rate: u64) -> Parts {
    Parts::from(rate) * BURST.as_nanos() as Parts
}

impl SsdTier {
    /// Pays for a batch, and waits until its turn has come.
    ///
    /// # Errors
    /// `UnableOffloading` when it would have waited for too long: nothing was paid then.
    pub(super) async fn afford(&self, bytes: u64, objects: usize) -> Result<()> {
        let Some(governor) = &self.governor else {
            return Ok(());
        };
        let now = self.clock.now();
        match governor.pay(now, bytes, PATIENCE) {
            Ok(wait) => {
                self.sleep(now, wait).await;
                Ok(())
            }
            Err(wait) => {
                governor.note_refused(now, objects as u64);
                let what = format!(
                    "the write budget of the SSD directory, {}B/s, is used up for another {}: raise ssd-write-budget, \
                     or put less",
                    governor.rate,
                    human_span(wait)
                );
                Err(Error::new(Code::UnableOffloading, what))
            }
        }
    }

    /// Waits until copies may be made; whether they may. Each batch of them is owed when it is made. They are for something
    /// that has paid `paid`, which is not held against them.
    pub(super) async fn afford_copies(&self, paid: u64) -> bool {
        let Some(governor) = &self.governor else {
            return true;
        };
        let now = self.clock.now();
        let wait = governor.wait_to_copy(now, paid);
        if wait > COPY_PATIENCE {
            return false;
        }
        self.sleep(now, wait).await;
        true
    }

    /// Without a wait there is nothing to ask the clock for.
    async fn sleep(&self, now: Timestamp, wait: Duration) {
        if !wait.is_zero() {
            self.clock.sleep_until(now.after(wait)).await;
        }
    }

    /// Whether so much could be copied without anybody waiting for it.
    pub(super) fn has_spare_budget(&self, bytes: u64) -> bool {
        let governor = self.governor.as_ref();
        governor.is_none_or(|governor| governor.has_spare(self.clock.now(), bytes))
    }

    /// So much is written whatever the budget says.
    pub(super) fn owe(&self, bytes: u64) {
        if let Some(governor) = &self.governor {
            governor.owe(self.clock.now(), bytes);
        }
    }

    /// So much was paid for and is not written.
    pub(super) fn give_back(&self, bytes: u64) {
        if let Some(governor) = &self.governor {
            governor.give_back(self.clock.now(), bytes);
        }
    }

    /// Notes records that were evicted for want of budget.
    pub(super) fn note_uncopied(&self, records: usize) {
        if let Some(governor) = &self.governor {
            governor.note_uncopied(self.clock.now(), records as u64);
        }
    }

    /// How many bytes could be brought now so that none waits for the write budget longer than `patience`.
    #[must_use]
    pub fn reach(&self, patience: Duration) -> u64 {
        let governor = self.governor.as_ref();
        governor.map_or(u64::MAX, |governor| {
            governor.reach(self.clock.now(), patience)
        })
    }

    /// Refuses a version that is not brought at all, because the write budget is too far behind. It is told as one that
    /// could not be written.
    pub async fn turn_away(&self, ticket: Ticket, names: &Names<'_>) {
        if let Some(governor) = &self.governor {
            governor.note_refused(self.clock.now(), 1);
        }
        self.refuse(ticket, names).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST, Governor, PATIENCE, WriteBudget};
    use proptest::prelude::*;
    use std::time::Duration;
    use ziggurat_base::{ByteCount, Timestamp};

    #[test]
    fn a_budget_reads_back_what_it_shows() {
        for (text, budget, shown) in [
            (
                "200MiB/s",
                WriteBudget::PerSecond(ByteCount::mib(200)),
                "200MiB/s",
            ),
            (
                "1500 B/s",
                WriteBudget::PerSecond(ByteCount(1500)),
                "1500B/s",
            ),
            ("1.0dwpd", WriteBudget::DrivesPerDay(1.0), "1.0dwpd"),
            (" 0.3 dwpd", WriteBudget::DrivesPerDay(0.3), "0.3dwpd"),
        ] {
            assert_eq!(text.parse::<WriteBudget>().unwrap(), budget);
            assert_eq!(budget.to_string(), shown);
            assert_eq!(shown.parse::<WriteBudget>().unwrap(), budget);
        }
    }

    #[test]
    fn what_is_no_budget_is_named_with_its_mend() {
        for bad in [
            "", "0/s", "0dwpd", "-1dwpd", "nandwpd", "infdwpd", "2000dwpd", "many", "1dwpm", "/s",
            "200MiB", "4MiB/s/s",
        ] {
            let error = bad.parse::<WriteBudget>().unwrap_err();
            let what = error.what();
            assert!(what.contains(&format!("{bad:?}")), "{what}");
            assert!(what.contains("200MiB/s") && what.contains("1.0dwpd"));
        }
    }

    #[test]
    fn a_drive_a_day_is_its_size_in_a_day() {
        let drive = ByteCount(86_400 << 20);
        assert_eq!(WriteBudget::DrivesPerDay(1.0).rate(drive), 1 << 20);
        assert_eq!(WriteBudget::DrivesPerDay(0.1).rate(ByteCount(1000)), 1);
    }

    #[test]
    fn who_comes_later_waits_behind_who_came_before() {
        let governor = Governor::new(1000, Timestamp(0));
        let pay = |now, bytes| governor.pay(now, bytes, PATIENCE);
        let (start, seconds) = (Timestamp(0), Duration::from_secs);
        // More than the burst: let in, and owed.
        assert_eq!(pay(start, 64_000), Ok(Duration::ZERO));
        let about = |wait: Result<Duration, Duration>| match wait {
            Ok(wait) => Ok(wait.as_millis()),
            Err(wait) => Err(wait.as_millis()),
        };
        assert_eq!(about(pay(start, 3000)), Ok(4000));
        assert_eq!(about(pay(start, 5000)), Ok(7000));
        assert_eq!(about(pay(start, 1)), Err(12_000));
        assert_eq!(governor.reach(start, PATIENCE), 0);
        let later = start.after(seconds(9));
        assert_eq!(about(pay(later, 1)), Ok(3000));
        governor.give_back(later, 5001);
        assert_eq!(governor.reach(later, Duration::ZERO), 2000);
        assert!(!governor.has_spare(later, 2001) && governor.has_spare(later, 2000));
        let stats = governor.stats(later);
        assert_eq!((stats.waits, stats.waited.as_secs()), (3, 14));
        assert_eq!(stats.waited_bytes, 8001);
        assert_eq!((stats.used, stats.allowed), (67_000, 69_000));
        // No more is saved up than the burst, however long nothing comes.
        let much_later = later.after(seconds(86_400));
        assert_eq!(governor.reach(much_later, Duration::ZERO), 60_000);
        assert!(governor.has_spare(much_later, u64::MAX));
    }

    proptest! {
        #[test]
        fn never_more_is_written_than_was_saved_and_came_in(
            rate in 1_u64..1_000_000,
            steps in prop::collection::vec((0_u64..2_000_000_000, 1_u64..5_000_000), 1..200),
        ) {
            let governor = Governor::new(rate, Timestamp(0));
            let (mut now, mut written) = (Timestamp(0), 0_u64);
            for (pause, bytes) in steps {
                now = now.after(Duration::from_nanos(pause));
                let before = governor.reach(now, PATIENCE);
                match governor.pay(now, bytes, PATIENCE) {
                    Ok(wait) => {
                        // What was let in before is covered when this is begun.
                        let seconds = now.after(wait).0 as f64 / 1e9 + BURST.as_secs_f64();
                        prop_assert!(wait <= PATIENCE);
                        prop_assert!(written as f64 <= rate as f64 * seconds * (1.0 + 1e-9) + 1.0);
                        written += bytes;
                    }
                    Err(wait) => {
                        prop_assert!(wait > PATIENCE && before == 0);
                    }
                }
                prop_assert_eq!(governor.stats(now).used, written);
            }
        }
    }
}
