//! The network: how long a message is under way, and whether it arrives.

use super::world::Process;
use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{Timestamp, hash::Dice};

/// How bad the network of one seed is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// A usual delay.
    pub(crate) usual: Duration,
    /// The longest one, even when everything is slow.
    pub(crate) longest: Duration,
    /// Messages in a thousand that take up to the longest.
    pub(crate) tail_permille: u64,
    /// Messages in a thousand that are lost.
    pub(crate) loss_permille: u64,
    /// Data writes in a thousand that arrive once more, later.
    pub(crate) twice_permille: u64,
    /// Data messages in a hundred thousand that arrive with a flipped bit.
    pub(crate) flip_per_100k: u64,
}

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives after this time.
    Arrives(Duration),
    /// It never does. The sender notices after this time, if at all.
    Lost(Option<Duration>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) weather: Weather,
    dice: Dice,
    cuts: BTreeMap<(Process, Process), Timestamp>,
    slow_until: Timestamp,
    /// No faults any more: quick and without loss.
    calm: bool,
}

/// How much slower everything is when it is slow.
const SLOWNESS: u32 = 30;

impl Network {
    pub(crate) fn new(weather: Weather, seed: u64) -> Self {
        Self {
            weather,
            dice: Dice::new(seed),
            cuts: BTreeMap::new(),
            slow_until: Timestamp::ZERO,
            calm: false,
        }
    }

    /// Nothing passes between two processes until `until`.
    pub(crate) fn cut(&mut self, one: Process, other: Process, until: Timestamp) {
        let pair = (one.min(other), one.max(other));
        let end = self.cuts.entry(pair).or_default();
        *end = until.max(*end);
    }

    /// Everything is slow until `until`.
    pub(crate) fn slow(&mut self, until: Timestamp) {
        self.slow_until = self.slow_until.max(until);
    }

    /// Faults stop.
    pub(crate) fn calm(&mut self) {
        self.calm = true;
        self.cuts.clear();
        self.slow_until = Timestamp::ZERO;
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.dice.below(most.as_nanos() as u64 + 1))
    }

    /// How long a message or a step is under way.
    pub(crate) fn delay(&mut self, now: Timestamp) -> Duration {
        let Weather {
            usual,
            longest,
            tail_permille,
            ..
        } = self.weather;
        let roll = self.dice.below(1000);
        let most = match roll {
            _ if self.calm => usual,
            _ if roll < tail_permille => longest,
            _ if roll < tail_permille + 10 => longest / 8,
            _ if roll < tail_permille + 80 => usual * 20,
            _ => usual,
        };
        let slowness = if now < self.slow_until { SLOWNESS } else { 1 };
        ((usual / 4 + self.up_to(most)) * slowness).min(longest)
    }

    /// Throws the dice for one message.
    pub(crate) fn fate(&mut self, now: Timestamp, from: Process, to: Process) -> Fate {
        let delay = self.delay(now);
        if self.calm {
            return Fate::Arrives(delay);
        }
        let cut = self.cuts.get(&(from.min(to), from.max(to))).copied();
        if let Some(end) = cut.filter(|end| *end > now) {
            // Half of what is sent into a cut waits in the sender's socket and arrives once it is mended.
            return if self.dice.below(2) == 0 {
                Fate::Arrives((end.since(now) + delay).min(self.weather.longest))
            } else {
                Fate::Lost(None)
            };
        }
        if self.dice.below(1000) < self.weather.loss_permille {
            let noticed = self.dice.below(2) == 0;
            return Fate::Lost(noticed.then_some(delay));
        }
        Fate::Arrives(delay)
    }

    /// Whether, and how much later, a data write arrives once more.
    pub(crate) fn twice(&mut self, now: Timestamp) -> Option<Duration> {
        let twice = !self.calm && self.dice.below(1000) < self.weather.twice_permille;
        twice.then(|| {
            let most = self.weather.longest;
            self.up_to(most) + self.delay(now)
        })
    }

    /// The bit that flips in a data message of `len` bytes, if one does.
    pub(crate) fn flip(&mut self, len: usize) -> Option<(usize, u8)> {
        let flips = !self.calm && self.dice.below(100_000) < self.weather.flip_per_100k;
        (flips && len > 0).then(|| {
            let byte = self.dice.below(len as u64) as usize;
            (byte, 1 << self.dice.below(8))
        })
    }
}
