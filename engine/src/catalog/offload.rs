//! Space below memory: objects stay in memory until their owner has taken them over, and leave it without leaving the store.
//!
//! The protection is bounded in bytes and in time, so that an owner that has got stuck never blocks memory for ever: what
//! exceeds the bounds is evicted like anything else, and counted when it is lost by that.

use super::{Catalog, feed::Retirement, fleet::Fleet, rows::Head};
use crate::{Row, command::Effect, ledger::Version, replica::Replica};
use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};
use ziggurat_base::{Code, Error, Timestamp};

/// When an owner is to take an object over from memory into its own space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffloadMode {
    /// As soon as it is readable.
    #[default]
    Eager,
    /// When it is next to be evicted.
    OnEvict,
    /// Never.
    Off,
}

impl fmt::Display for OffloadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Eager => "eager",
            Self::OnEvict => "on-evict",
            Self::Off => "off",
        })
    }
}

impl FromStr for OffloadMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "eager" => Ok(Self::Eager),
            "on-evict" | "on_evict" => Ok(Self::OnEvict),
            "off" => Ok(Self::Off),
            _ => Err(Error::new(
                Code::InvalidParams,
                format!("{text:?} is not a way to offload: use eager, on-evict or off"),
            )),
        }
    }
}

/// Objects that one turn may ask owners to take over.
pub(super) const ASK_MAX: usize = 64;

/// The most objects that wait for their owner.
const WAITING_MAX: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    since: Timestamp,
    bytes: u64,
}

/// The objects that wait for their owner to take them over.
#[derive(Debug, Default)]
pub(super) struct Offloads {
    by_row: BTreeMap<Row, Waiting>,
    in_order: BTreeMap<u64, Row>,
    next: u64,
    pub(super) bytes: u64,
}

impl Offloads {
    pub(super) fn count(&self) -> u64 {
        self.by_row.len() as u64
    }

    fn begin(&mut self, now: Timestamp, row: Row, bytes: u64) {
        self.next += 1;
        let waiting = Waiting {
            number: self.next,
            since: now,
            bytes,
        };
        let before = self.by_row.insert(row, waiting);
        assert!(before.is_none(), "an object waits once");
        self.in_order.insert(self.next, row);
        self.bytes += bytes;
    }

    fn end(&mut self, row: Row) {
        if let Some(waiting) = self.by_row.remove(&row) {
            self.in_order.remove(&waiting.number);
            self.bytes -= waiting.bytes;
        }
    }

    /// The object that has waited longest, when it has waited too long or too much waits.
    fn lapsed(&self, now: Timestamp, patience: Duration, bytes_max: u64) -> Option<Row> {
        let (_, row) = self.in_order.first_key_value()?;
        let waited = now.since(self.by_row[row].since);
        let too_much = self.bytes > bytes_max || self.by_row.len() > WAITING_MAX;
        (too_much || waited >= patience).then_some(*row)
    }

    /// The rows that wait, with their bytes.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Row, u64)> + '_ {
        self.by_row.iter().map(|(row, w)| (*row, w.bytes))
    }
}

/// Whether an owner that could take the object over is alive.
pub(super) fn has_keeper(fleet: &Fleet, slot: u16) -> bool {
    let here = fleet.slot(slot);
    here.feeds && !fleet.owned_by(here.member).is_empty()
}

impl Catalog {
    /// Whether the owner of a replica in memory could take the object over.
    fn could_be_kept(&self, row: Row) -> bool {
        let records = self.records(row);
        let mut readable = records.iter().filter(|r| r.state == Replica::Readable);
        readable.any(|r| has_keeper(&self.fleet, r.slot))
    }

    pub(super) fn is_kept(&self, row: Row) -> bool {
        let records = self.records(row);
        records.iter().any(|r| {
            let slot = self.fleet.slot(r.slot);
            r.state == Replica::Readable && !slot.is_memory() && slot.serves()
        })
    }

    /// The object has become readable: with eager offload it stays in memory until its owner has taken it over.
    pub(super) fn expect_offload(&mut self, now: Timestamp, row: Row) {
        let eager = self.config.offload == OffloadMode::Eager && self.fleet.fed > 0;
        let is_new = eager && !self.table.head(row).asked() && !self.is_kept(row);
        if is_new && self.could_be_kept(row) {
            self.begin_offload(now, row);
        }
    }

    fn begin_offload(&mut self, now: Timestamp, row: Row) {
        let bytes = self.memory_of(row);
        let head = self.table.head_mut(row);
        head.set_asked(true);
        head.set_offloading(true);
        self.offloads.begin(now, row, bytes);
    }

    /// The object does not wait any more.
    pub(super) fn end_offload(&mut self, row: Row) {
        let head = self.table.head_mut(row);
        if head.offloading() {
            head.set_offloading(false);
            self.offloads.end(row);
        }
    }

    /// Wants objects out of memory that nobody keeps yet.
    pub(super) fn ask_offload(&mut self, now: Timestamp, rows: Vec<Row>) {
        for row in rows {
            // A policy may come round to the same row twice in one proposal.
            if self.table.head(row).asked() {
                continue;
            }
            self.begin_offload(now, row);
            let ticket = self.table.head(row).ticket;
            let records = self.records(row);
            let keeper = records
                .iter()
                .find(|r| r.state == Replica::Readable && has_keeper(&self.fleet, r.slot));
            let slot = keeper.map(|r| self.fleet.slot(r.slot));
            let asked = slot.map(|slot| Effect::Offload {
                member: slot.member,
                segment: slot.id,
                ticket,
            });
            self.effects.extend(asked);
        }
    }

    /// Ends the waiting of what has waited too long, or is too much.
    pub(super) fn lapse_offloads(&mut self, now: Timestamp, mut take: impl FnMut() -> bool) {
        let share = (self.fleet.capacity as f64 * self.config.offload_share) as u64;
        let patience = self.config.offload_patience;
        while let Some(row) = self.offloads.lapsed(now, patience, share) {
            if !take() {
                break;
            }
            self.end_offload(row);
        }
    }

    /// The owner will not take a version over: it may leave memory without it.
    pub(super) fn refuse_offload(&mut self, slot: u16, version: &Version) {
        let member = self.fleet.slot(slot).member;
        let Some(row) = self.row_of(version) else {
            return;
        };
        let records = self.records(row);
        let mine = records
            .iter()
            .any(|r| self.fleet.slot(r.slot).member == member);
        if mine {
            let head = self.table.head_mut(row);
            head.set_asked(true);
            head.set_refused(true);
            self.end_offload(row);
        }
    }

    /// Takes a proposed object out of memory, and out of the store when nobody keeps it.
    pub(super) fn evict_row(&mut self, now: Timestamp, row: Row) {
        self.policy.evicted(row);
        self.end_offload(row);
        self.tell_retired(row, Retirement::LetGo, |_| true);
        if self.is_kept(row) {
            self.stats.demoted += 1;
            self.table.head_mut(row).set_hit(false);
            self.drop_replicas(now, row, |catalog, record| {
                catalog.fleet.slot(record.slot).is_memory()
            });
            return;
        }
        let head = self.table.head(row);
        self.stats.evicted += 1;
        self.stats.evicted_bytes += head.len;
        let wanted = self.config.offload != OffloadMode::Off && !head.refused();
        self.stats.unkept += u64::from(wanted && self.could_be_kept(row));
        self.retire(now, row);
    }
}

/// What eviction may do with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It may go.
    Free,
    /// Its owner is taking it over.
    Waits,
    /// Its owner has to be asked first.
    Ask,
}

impl Leave {
    /// Judges by the row's head and what is known of its replicas.
    pub(super) fn of(head: &Head, mode: OffloadMode, keeper: bool, kept: bool) -> Self {
        if kept || !keeper {
            Self::Free
        } else if head.offloading() {
            Self::Waits
        } else if mode == OffloadMode::OnEvict && !head.asked() {
            Self::Ask
        } else {
            Self::Free
        }
    }
}
