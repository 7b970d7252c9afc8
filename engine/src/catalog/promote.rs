//! Back into memory: a version that lies only in its owner's own space is copied into the memory of the same owner.
//!
//! A copy is a write of its own: it has a ticket above everything that was ever in its place, and its space is given back
//! like that of any write, after a fence. Its row is marked while it is under way, and it ends with the version (I17). It
//! takes free space below the watermark, or what the policy would evict next, if that stays readable elsewhere; what finds
//! no room is dropped. What may be on its way to one member is bounded in bytes.

use super::{Catalog, Steps, fleet::ReplicaRecord};
use crate::{
    Row,
    canary::{Canary, planted},
    command::{Answer, Effect, Keys, Prefetch, Prefetched, Priority},
    ledger::Verdict,
    replica::{Replica, ReplicaEvent},
    write::{Write, WriteEvent},
};
use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};
use ziggurat_base::{Code, Error, MemberId, SegmentId, Ticket, Timestamp};

/// When an object that is read from its owner's own space comes back into memory of the partition's own accord.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromotionMode {
    /// Never.
    Off,
    /// When it is read.
    FirstHit,
    /// When it is read again within a time.
    #[default]
    SecondHit,
}

impl fmt::Display for PromotionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::FirstHit => "first-hit",
            Self::SecondHit => "second-hit",
        })
    }
}

impl FromStr for PromotionMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "off" => Ok(Self::Off),
            "first-hit" | "first_hit" => Ok(Self::FirstHit),
            "second-hit" | "second_hit" => Ok(Self::SecondHit),
            _ => Err(Error::new(
                Code::InvalidParams,
                format!("{text:?} is not a way to promote: use off, first-hit or second-hit"),
            )),
        }
    }
}

/// Copies that may be on their way into the memory of one member.
const COPIES_MAX: u64 = 1024;

/// The share of a member's memory that may wait for copies: one part in so many.
const MEMORY_PARTS: u64 = 8;

/// Objects that one copy may displace, and rows that the policy may look at for each.
const VICTIMS_MAX: u32 = 8;
const LOOKS_MAX: u32 = 16;

/// A copy under way.
#[derive(Debug)]
struct Copy {
    row: Row,
    version: Ticket,
    /// Where it goes.
    record: ReplicaRecord,
    member: MemberId,
    from: SegmentId,
    since: Timestamp,
    /// Bytes of memory that wait for it.
    bytes: u64,
    priority: Option<Priority>,
}

/// What is on its way to one member.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    count: u64,
    bytes: u64,
}

/// The copies under way.
#[derive(Debug, Default)]
pub(super) struct Copies {
    by_write: BTreeMap<Ticket, Copy>,
    by_row: BTreeMap<Row, Ticket>,
    loads: BTreeMap<MemberId, Load>,
}

impl Copies {
    pub(super) fn count(&self) -> u64 {
        self.by_write.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.loads.values().map(|load| load.bytes).sum()
    }

    fn load(&self, member: MemberId) -> Load {
        self.loads.get(&member).copied().unwrap_or_default()
    }

    fn insert(&mut self, write: Ticket, copy: Copy) {
        let load = self.loads.entry(copy.member).or_default();
        load.count += 1;
        load.bytes += copy.bytes;
        let before = self.by_row.insert(copy.row, write);
        assert!(before.is_none(), "a version is copied once at a time");
        self.by_write.insert(write, copy);
    }

    fn remove(&mut self, write: Ticket) -> Option<Copy> {
        let copy = self.by_write.remove(&write)?;
        let load = self.loads.entry(copy.member).or_default();
        load.count -= 1;
        load.bytes -= copy.bytes;
        if load.count == 0 {
            self.loads.remove(&copy.member);
        }
        if self.by_row.get(&copy.row) == Some(&write) {
            self.by_row.remove(&copy.row);
        }
        Some(copy)
    }

    /// The rows whose versions are copied, with the versions and where the copies go.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Row, Ticket, &ReplicaRecord)> + '_ {
        self.by_write
            .values()
            .map(|c| (c.row, c.version, &c.record))
    }
}

fn busy(what: &str) -> Error {
    Error::new(Code::Backpressure, format!("{what}: ask again soon"))
}

impl Catalog {
    /// A version was read that lies only in its owner's own space; its last use was so long ago.
    pub(super) fn note_hit(&mut self, now: Timestamp, row: Row, idle: Duration, steps: &mut Steps) {
        let head = self.table.head_mut(row);
        let is_second = head.hit() && idle <= self.config.promotion_window;
        head.set_hit(true);
        let is_wanted = match self.config.promotion {
            PromotionMode::Off => false,
            PromotionMode::FirstHit => true,
            PromotionMode::SecondHit => is_second,
        };
        let is_new = is_wanted && !head.copying() && self.config.promotion_budget.0 > 0;
        if is_new && self.begin_copy(now, row, None, steps).is_err() {
            self.stats.promotions_dropped += 1;
        }
    }

    /// Brings objects into memory, or stops that. Takes no guard and counts as no use. `None` is a miss.
    pub fn prefetch(
        &mut self,
        now: Timestamp,
        keys: Keys<'_>,
        wish: Prefetch,
    ) -> Vec<Answer<Option<Prefetched>>> {
        let mut steps = Steps::turn();
        let mut answers = Vec::with_capacity(keys.keys.len());
        self.for_each_row(keys, super::get::Ahead::Look, |catalog, _, _, row| {
            let answer = match row {
                None => Ok(None),
                Some(row) => catalog.prefetch_row(now, row, wish, &mut steps),
            };
            let no_room = |error: &Error| error.code() == Code::NoAvailableHandle;
            let dropped = answer.as_ref().is_err_and(no_room);
            catalog.stats.promotions_dropped += u64::from(dropped);
            answers.push(answer);
        });
        self.settle();
        answers
    }

    fn prefetch_row(
        &mut self,
        now: Timestamp,
        row: Row,
        wish: Prefetch,
        steps: &mut Steps,
    ) -> Answer<Option<Prefetched>> {
        let Some(targets) = self.readable_targets(row) else {
            return self.unreadable(now, row).map(|()| None);
        };
        let best = targets.as_slice().first();
        let slot = best.and_then(|best| self.fleet.find(best.placement.segment));
        if slot.is_some_and(|slot| self.fleet.slot(slot).is_memory()) {
            return Ok(Some(Prefetched::InMemory));
        }
        let priority = match wish {
            Prefetch::Begin(priority) => priority,
            Prefetch::Cancel => {
                self.stop_copy(row, WriteEvent::Revoke);
                return Ok(Some(Prefetched::Stopped));
            }
        };
        if !self.table.head(row).copying() {
            self.begin_copy(now, row, Some(priority), steps)?;
        }
        Ok(Some(Prefetched::UnderWay))
    }

    /// Reserves memory and asks the owner to copy the version into it.
    fn begin_copy(
        &mut self,
        now: Timestamp,
        row: Row,
        priority: Option<Priority>,
        steps: &mut Steps,
    ) -> Answer<()> {
        let head = self.table.head(row);
        let (version, len) = (head.ticket, head.len);
        if head.writing() || self.in_memory(row) {
            return Err(busy(
                "a replica in memory is being written or is just going",
            ));
        }
        let (source, slots) = self.copy_path(row)?;
        let here = self.fleet.slot(source);
        let (member, from) = (here.member, here.id);
        let footprint = |slot: &u16| self.fleet.footprint(*slot, len);
        let bytes = slots.iter().map(footprint).max().unwrap_or(0);
        self.check_load(member, bytes, priority)?;
        let slots: Vec<_> = slots
            .into_iter()
            // What its owner has yet to say of the version's last stay there must not be taken for a word on this one.
            .filter(|slot| !self.fleet.slot(*slot).retired.contains_key(&version))
            .collect();
        if slots.is_empty() {
            return Err(busy("the object has just left memory"));
        }
        let Some(record) = self.room_for_copy(now, &slots, len, steps) else {
            return Err(Error::new(
                Code::NoAvailableHandle,
                "no memory beside the object is free, and what would be evicted next is in use or lies nowhere else",
            ));
        };
        let Some(write) = self.next_ticket() else {
            self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
            return Err(Error::new(
                Code::KeysUltraLimit,
                "the partition can number no more writes",
            ));
        };
        let copy = Copy {
            row,
            version,
            record,
            member,
            from,
            since: now,
            bytes,
            priority,
        };
        self.effects.push(self.copy_effect(write, &copy));
        self.table.head_mut(row).set_copying(true);
        self.copies.insert(write, copy);
        Ok(())
    }

    /// From which owned segment a version could be copied, the one with least to do first, and to which segments of memory.
    fn copy_path(&self, row: Row) -> Answer<(u16, Vec<u16>)> {
        let len = self.table.head(row).len;
        let records = self.records(row);
        let owned = records.iter().filter(|r| {
            let slot = self.fleet.slot(r.slot);
            r.state == Replica::Readable && slot.is_owned() && slot.serves()
        });
        let mut sources: Vec<_> = owned.map(|r| r.slot).collect();
        sources.sort_by_key(|slot| self.fleet.slot(*slot).load);
        let path = |source: u16| {
            let member = self.fleet.slot(source).member;
            if !self.members.promotes(member) {
                return None;
            }
            let lent = self.fleet.lent_by(member);
            let fits =
                |slot: &&u16| self.fleet.slot(**slot).feeds && self.fleet.could_hold(**slot, len);
            let slots: Vec<_> = lent.iter().filter(fits).copied().collect();
            (!slots.is_empty()).then_some((source, slots))
        };
        sources.into_iter().find_map(path).ok_or_else(|| {
            Error::new(
                Code::NoAvailableHandle,
                "no node that has the object on SSD copies it into memory of its own that could hold it",
            )
        })
    }

    /// Whether so much more may be on its way to a member. One copy may be larger than the bound, alone.
    fn check_load(&self, member: MemberId, bytes: u64, priority: Option<Priority>) -> Answer<()> {
        let budget = self.config.promotion_budget.0;
        if budget == 0 {
            return Err(Error::new(
                Code::UnavailableInCurrentMode,
                "nothing is promoted: promotion-budget is 0",
            ));
        }
        let lent = self.fleet.lent_by(member).iter();
        let memory: u64 = lent
            .map(|slot| self.fleet.slot(*slot).space.capacity())
            .sum();
        let most = match priority {
            Some(_) => budget.min(memory / MEMORY_PARTS),
            None => budget.min(memory / MEMORY_PARTS) / 2,
        };
        let load = self.copies.load(member);
        let fits = load.count < COPIES_MAX && load.bytes + bytes <= most;
        if fits || load.count == 0 {
            return Ok(());
        }
        Err(busy("enough is on its way into the node's memory"))
    }

    /// Space in one of the slots: free below the watermark, or that of what leaves next if it is readable elsewhere.
    fn room_for_copy(
        &mut self,
        now: Timestamp,
        slots: &[u16],
        len: u64,
        steps: &mut Steps,
    ) -> Option<ReplicaRecord> {
        for _ in 0..=VICTIMS_MAX {
            let ceiling = (self.fleet.capacity as f64 * self.config.high_watermark) as u64;
            let least = slots
                .iter()
                .map(|slot| self.fleet.footprint(*slot, len))
                .min()?;
            let is_below = self.fleet.used + least <= ceiling;
            let record = match is_below {
                true => self.reserve_copy(slots, len),
                false => None,
            };
            if record.is_some() {
                return record;
            }
            // Below the watermark other nodes have the room: then only what lies here makes a difference.
            let useful = if is_below { Some(slots) } else { None };
            if !self.cool(now, steps) && !self.demote_one(now, useful, steps) {
                return None;
            }
        }
        None
    }

    fn reserve_copy(&mut self, slots: &[u16], len: u64) -> Option<ReplicaRecord> {
        let mut order = slots.to_vec();
        order.sort_by_key(|slot| std::cmp::Reverse(self.fleet.slot(*slot).space.free()));
        order.into_iter().find_map(|slot| {
            let whole = self.fleet.reserve(slot, len);
            whole.or_else(|| self.fleet.reserve_pieces(slot, len))
        })
    }

    /// Takes what the policy would evict next out of memory, if it lies on one of the slots and is readable elsewhere.
    fn demote_one(&mut self, now: Timestamp, slots: Option<&[u16]>, steps: &mut Steps) -> bool {
        let Self { policy, table, .. } = self;
        let mut held = |row: Row| {
            let head = table.head(row);
            head.leased(now) || head.writing()
        };
        let most = LOOKS_MAX.min(steps.0);
        let mut left = most;
        let victim = policy.propose(&mut held, &mut left);
        steps.0 -= most - left;
        let Some(victim) = victim.filter(|victim| self.is_kept(*victim)) else {
            return false;
        };
        let lies_on = |slots: &[u16]| {
            let records = self.records(victim);
            records.iter().any(|r| slots.contains(&r.slot))
        };
        if !slots.is_none_or(lies_on) {
            return false;
        }
        self.evict_row(now, victim);
        true
    }

    fn copy_effect(&self, write: Ticket, copy: &Copy) -> Effect {
        Effect::Promote {
            member: copy.member,
            holding: Box::new(self.holding(copy.row, &copy.record)),
            from: copy.from,
            write,
            priority: copy.priority,
        }
    }

    /// What a member is asked to copy, whether it was told or not.
    pub(super) fn copies_of(&self, member: MemberId) -> impl Iterator<Item = Effect> + '_ {
        let copies = self.copies.by_write.iter();
        let mine = copies.filter(move |(_, copy)| copy.member == member);
        mine.map(|(write, copy)| self.copy_effect(*write, copy))
    }

    fn take_copy(&mut self, write: Ticket) -> Option<Copy> {
        let copy = self.copies.remove(write)?;
        if let Some(head) = self.table.rows.get(copy.row).filter(|h| h.copying())
            && head.ticket == copy.version
        {
            self.table.head_mut(copy.row).set_copying(false);
        }
        Some(copy)
    }

    fn abandon_copy(&mut self, write: Ticket, event: WriteEvent) {
        if let Some(copy) = self.take_copy(write) {
            self.stats.promotions_failed += 1;
            self.give_up(write, vec![copy.record], event);
        }
    }

    /// The copy of a row's version ends without a result.
    pub(super) fn stop_copy(&mut self, row: Row, event: WriteEvent) {
        if !self.table.head(row).copying() {
            return;
        }
        let write = self.copies.by_row.get(&row).copied();
        let write = write.expect("I17: the row of a copy is marked");
        if planted(Canary::StaleCopyCommitted) {
            self.table.head_mut(row).set_copying(false);
            self.copies.by_row.remove(&row);
            return;
        }
        self.abandon_copy(write, event);
    }

    /// The owner has copied a version: it is readable from there, unless the copy was given up.
    pub(super) fn copied(&mut self, slot: u16, write: Ticket) -> Verdict {
        let copy = self.copies.by_write.get(&write);
        if copy.is_none_or(|copy| copy.record.slot != slot) {
            return Verdict::Discard;
        }
        let Some(copy) = self.take_copy(write) else {
            return Verdict::Discard;
        };
        let row = copy.row;
        let readable = self.table.rows.get(row).is_some_and(|head| head.readable());
        if planted(Canary::StaleCopyCommitted) && !readable {
            self.give_up(write, vec![copy.record], WriteEvent::Revoke);
            return Verdict::Discard;
        }
        let head = self.table.head(row);
        assert!(
            head.ticket == copy.version || planted(Canary::StaleCopyCommitted),
            "I17: a copy ends with its version"
        );
        let len = head.len;
        let mut state = Write::Open;
        self.seen.must(&mut state, WriteEvent::End);
        let mut record = copy.record;
        self.seen.must(&mut record.state, ReplicaEvent::Commit);
        let in_memory = self.in_memory(row);
        self.add_memory_record(row, record);
        self.note_memory(row, in_memory);
        self.tell_committed(row, |record| record.slot == slot);
        self.stats.promoted += 1;
        self.stats.promoted_bytes += len;
        Verdict::Taken
    }

    /// The owner cannot copy a version.
    pub(super) fn not_copied(&mut self, slot: u16, write: Ticket) {
        let copy = self.copies.by_write.get(&write);
        if copy.is_some_and(|copy| copy.record.slot == slot) {
            self.abandon_copy(write, WriteEvent::Revoke);
        }
    }

    /// A segment of memory goes, and the copies with it that were on their way there.
    pub(super) fn lose_copies(&mut self, slot: u16) {
        let copies = self.copies.by_write.iter();
        let lost = copies.filter(|(_, copy)| copy.record.slot == slot);
        let lost: Vec<_> = lost.map(|(write, _)| *write).collect();
        for write in lost {
            if let Some(copy) = self.take_copy(write) {
                self.stats.promotions_failed += 1;
                self.fleet
                    .free(copy.record, ReplicaEvent::Lose, &mut self.seen);
            }
        }
    }

    /// Gives up copies that are too old.
    pub(super) fn expire_copies(&mut self, now: Timestamp, steps: &mut Steps) {
        while let Some((write, copy)) = self.copies.by_write.first_key_value() {
            let is_old = now.since(copy.since) >= self.config.write_release;
            if !is_old || !steps.take() {
                break;
            }
            let write = *write;
            self.abandon_copy(write, WriteEvent::Expire);
        }
    }
}
