//! What owners of memory are told of it: which versions became readable there, and which are not handed out any more.
//!
//! The feed lets an owner take versions over into space that outlives it, and offer its memory to a partition that begins
//! anew. It is not waited for. What was retired is remembered until the owner has forgotten it, because a version that the
//! partition has let go of may still be on its way to another segment of the owner: when its key is put anew or removed
//! meanwhile, a debt of the key is left.

use super::{Catalog, Steps, directories::MEMORY, fleet::ReplicaRecord, reoffer::Retiring};
use crate::{
    Row,
    command::{BATCH_MAX, Effect},
    ledger::{Holding, Version},
    record::Cause,
    replica::Replica,
};
use std::collections::BTreeMap;
use ziggurat_base::{DirectoryId, Extent, Key, MemberId, TenantId, Ticket, hash::key_digest};

/// Retired versions of one segment that its owner may have yet to forget; beyond, the floors of its directories rise.
const RETIRED_MAX: usize = 65_536;

/// Why a version is retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retirement {
    /// It was removed: every directory that could get it owes it.
    Dead,
    /// It was evicted or lost: another segment of its owner may still get it, and offer it with reason.
    LetGo,
}

#[derive(Debug, Default)]
pub(super) struct Feed {
    /// Digests of keys of which a version may be on its way, with the versions and the segments that they may come from.
    in_flight: BTreeMap<u64, Vec<Retiring>>,
    /// What has to be acknowledged before the answer of the call under way leaves.
    waits: Vec<Retiring>,
    /// Members that are told everything again, and the next row for each.
    again: BTreeMap<MemberId, u32>,
}

impl Feed {
    fn take_off(&mut self, digest: u64, retiring: Retiring) {
        let here = self.in_flight.entry(digest).or_default();
        if !here.contains(&retiring) {
            here.push(retiring);
        }
    }

    /// Says whether nothing of the key is on its way any more.
    fn land(&mut self, digest: u64, retiring: Retiring) -> bool {
        let Some(here) = self.in_flight.get_mut(&digest) else {
            return false;
        };
        here.retain(|other| *other != retiring);
        let landed = here.is_empty();
        if landed {
            self.in_flight.remove(&digest);
        }
        landed
    }

    fn wait_for(&mut self, digest: u64) {
        let here = self.in_flight.get(&digest);
        self.waits.extend(here.into_iter().flatten());
    }

    pub(super) fn take_waits(&mut self) -> Vec<Retiring> {
        std::mem::take(&mut self.waits)
    }
}

impl Catalog {
    fn tenant_name(&self, tenant: TenantId) -> &std::sync::Arc<str> {
        &self.tenant_names[usize::from(tenant.0)]
    }

    pub(super) fn digest(&self, tenant: TenantId, key: Key<'_>) -> u64 {
        key_digest(self.tenant_name(tenant), key)
    }

    fn digest_of(&self, row: Row) -> u64 {
        let head = self.table.head(row);
        self.digest(head.tenant, self.table.rows.key(row))
    }

    /// One replica in memory as its owner would tell of it.
    pub(super) fn holding(&self, row: Row, record: &ReplicaRecord) -> Holding {
        let head = self.table.head(row);
        Holding {
            version: Version {
                tenant: self.tenant_name(head.tenant).clone(),
                key: self.table.rows.key(row).to_owned(),
                ticket: head.ticket,
            },
            len: head.len,
            stored_len: head.len,
            crc: head.crc,
            tags: self.tags.get(row).cloned().unwrap_or_default(),
            placement: Some(self.fleet.target(record).placement),
        }
    }

    /// Tells the owners of readable replicas in memory of which `fresh` says that they are new.
    pub(super) fn tell_committed(&mut self, row: Row, fresh: impl Fn(&ReplicaRecord) -> bool) {
        if self.fleet.fed == 0 {
            return;
        }
        let records = self.records(row);
        let told = records
            .iter()
            .filter(|r| r.state == Replica::Readable && self.fleet.slot(r.slot).feeds && fresh(r));
        let told: Vec<_> = told
            .map(|record| Effect::Committed {
                member: self.fleet.slot(record.slot).member,
                holding: Box::new(self.holding(row, record)),
            })
            .collect();
        self.effects.extend(told);
    }

    /// Tells the owners of its readable replicas in memory, on the slots that `which` names, that the version is not handed
    /// out from there any more.
    pub(super) fn tell_retired(&mut self, row: Row, why: Retirement, which: impl Fn(u16) -> bool) {
        if self.fleet.fed == 0 {
            return;
        }
        let ticket = self.table.head(row).ticket;
        let records = self.records(row);
        let readable = records.iter().filter(|r| r.state == Replica::Readable);
        let fed: Vec<_> = readable
            .map(|r| r.slot)
            .filter(|slot| self.fleet.slot(*slot).feeds && which(*slot))
            .collect();
        for slot in fed {
            let here = self.fleet.slot(slot);
            let (member, segment) = (here.member, here.id);
            self.effects.push(Effect::Retired {
                member,
                segment,
                ticket,
            });
            let digest = self.may_fly(slot, why).then(|| self.digest_of(row));
            let retiring = Retiring { segment, ticket };
            if let Some(digest) = digest {
                self.feed.take_off(digest, retiring);
                // A scan under way would have come to it.
                if let Some(newest) = self.scans.newest(self.last_tick) {
                    self.directories.bury(digest, newest, Cause::Flight);
                }
            }
            let before = self.fleet.slot_mut(slot).retired.insert(ticket, digest);
            if let Some(before) = before.flatten().filter(|_| digest.is_none()) {
                self.landed(before, retiring);
            }
            self.spill_retired(slot);
        }
    }

    /// Whether a version that is retired on a slot may turn up again: from another segment of its owner, or because its owner
    /// offers its memory to the next life of the partition before it has heard of it. A dead one has debts instead where
    /// somebody keeps them.
    fn may_fly(&self, slot: u16, why: Retirement) -> bool {
        let has_owned = !self.fleet.owned_by(self.fleet.slot(slot).member).is_empty();
        match why {
            Retirement::LetGo => has_owned || self.outlives(slot),
            Retirement::Dead => self.outlives(slot) && !self.directories.durable,
        }
    }

    fn spill_retired(&mut self, slot: u16) {
        let must_wait = self.outlives(slot) && !self.directories.durable;
        let here = self.fleet.slot_mut(slot);
        if here.retired.len() <= RETIRED_MAX || must_wait {
            return;
        }
        let Some((oldest, digest)) = here.retired.pop_first() else {
            return;
        };
        let (member, segment) = (here.member, here.id);
        let memory = self.outlives(slot).then_some(MEMORY);
        for directory in self.directories_of(member).into_iter().chain(memory) {
            self.directories.raise(directory, oldest);
        }
        let ticket = oldest;
        if let Some(digest) = digest {
            self.landed(digest, Retiring { segment, ticket });
        }
    }

    fn directories_of(&self, member: MemberId) -> Vec<DirectoryId> {
        let owned = self.fleet.owned_by(member).iter();
        owned
            .filter_map(|slot| self.fleet.slot(*slot).directory())
            .collect()
    }

    fn landed(&mut self, digest: u64, retiring: Retiring) {
        if self.feed.land(digest, retiring) {
            self.directories.arrived(digest);
        }
    }

    /// The owner has forgotten a version in its memory, and nothing of it is on its way.
    pub(super) fn retirement_acknowledged(&mut self, slot: u16, ticket: Ticket) {
        let here = self.fleet.slot_mut(slot);
        let segment = here.id;
        if let Some(digest) = here.retired.remove(&ticket).flatten() {
            self.landed(digest, Retiring { segment, ticket });
        }
        self.discharge(ticket);
    }

    /// One more owner does not hold a retired version any more; with the last one the debt of all memory ends.
    fn discharge(&mut self, ticket: Ticket) {
        if !self.directories.owes(MEMORY, ticket) {
            return;
        }
        let mut others = self.fleet.slots();
        if !others.any(|(_, other)| other.retired.contains_key(&ticket)) {
            self.directories.discharge_memory(ticket);
        }
    }

    /// The segment is going: what was on its way from it may have arrived in a directory that is absent now.
    pub(super) fn strand_retired(&mut self, slot: u16) {
        let here = self.fleet.slot_mut(slot);
        let segment = here.id;
        for (ticket, digest) in std::mem::take(&mut here.retired) {
            self.discharge(ticket);
            if let Some(digest) = digest {
                self.directories.strand(digest);
                self.landed(digest, Retiring { segment, ticket });
            }
        }
    }

    /// No version that is on its way may come back, up to a ticket.
    pub(super) fn bury_flights(&mut self, upto: Ticket) {
        let digests: Vec<_> = self.feed.in_flight.keys().copied().collect();
        for digest in digests {
            self.bury_flight(digest, upto);
        }
    }

    /// No version of a key that is on its way may come back. Where nobody keeps that, it has to have arrived.
    fn bury_flight(&mut self, digest: u64, upto: Ticket) {
        self.directories.bury(digest, upto, Cause::Flight);
        if !self.directories.durable {
            self.feed.wait_for(digest);
        }
    }

    /// No version of the key up to a ticket may come back from anybody who could hold one that the partition does not know.
    pub(super) fn bury(&mut self, tenant: TenantId, key: Key<'_>, upto: Ticket) {
        let absent = self.directories.may_surprise();
        if !absent && self.feed.in_flight.is_empty() {
            return;
        }
        let digest = self.digest(tenant, key);
        if absent {
            self.directories.bury(digest, upto, Cause::Absence);
        }
        if self.feed.in_flight.contains_key(&digest) {
            self.bury_flight(digest, upto);
        }
    }

    /// As [`Self::bury`], for the key of a row.
    pub(super) fn bury_row(&mut self, row: Row, upto: Ticket) {
        if self.directories.may_surprise() || !self.feed.in_flight.is_empty() {
            let key = self.table.rows.key(row).to_owned();
            let tenant = self.table.head(row).tenant;
            self.bury(tenant, key.as_key(), upto);
        }
    }

    /// The readable version of a row is being removed: whoever holds it, or may come to hold it, owes its end.
    pub(super) fn leave_debts(&mut self, row: Row) {
        let ticket = self.table.head(row).ticket;
        let mut directories = Vec::new();
        for record in self.records(row).iter() {
            let slot = self.fleet.slot(record.slot);
            match slot.directory() {
                // A debt is left where its record is laid out.
                Some(_) if slot.is_shared() => {}
                Some(directory) => directories.push(directory),
                None if slot.feeds => directories.extend(self.directories_of(slot.member)),
                None => {}
            }
        }
        directories.sort_unstable();
        directories.dedup();
        for directory in directories {
            self.directories.owe(directory, ticket);
            if let Some(slot) = self.fleet.of_directory(directory) {
                self.push_discard(slot, ticket);
            }
        }
        // What lies in memory that is lost already is nobody's to acknowledge.
        let may_come = |slot| self.outlives(slot) && self.fleet.slot(slot).serves();
        if self.records(row).iter().any(|r| may_come(r.slot)) {
            self.directories.owe(MEMORY, ticket);
        }
        self.tell_retired(row, Retirement::Dead, |_| true);
        self.bury_row(row, self.newest_ticket());
    }

    pub(super) fn push_discard(&mut self, slot: u16, ticket: Ticket) {
        let here = self.fleet.slot(slot);
        if here.is_shared() {
            // Where it lies is known only to who has read the shard file.
            return self.push_burial(slot, ticket, Extent::default());
        }
        if let Some(Effect::Discard {
            segment, tickets, ..
        }) = self.effects.last_mut()
            && *segment == here.id
            && tickets.len() < BATCH_MAX
        {
            tickets.push(ticket);
            return;
        }
        self.effects.push(Effect::Discard {
            member: here.member,
            segment: here.id,
            tickets: vec![ticket],
        });
    }

    /// What a member has to do, whether it was told or not, for one whose stream begins; and from now on everything that is
    /// readable in its memory, again.
    pub fn attach(&mut self, member: MemberId) -> Vec<Effect> {
        let feeds = self
            .fleet
            .slots()
            .any(|(_, s)| s.member == member && s.feeds);
        if feeds {
            self.feed.again.insert(member, 0);
        }
        self.debts(member)
    }

    /// What the owner has to forget.
    pub(super) fn unforgotten(&self, member: MemberId) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (number, slot) in self.fleet.slots().filter(|(_, s)| s.member == member) {
            if slot.is_shared() {
                effects.extend(self.burials(number));
            }
            effects.extend(slot.retired.keys().map(|ticket| Effect::Retired {
                member,
                segment: slot.id,
                ticket: *ticket,
            }));
            let is_served = slot.is_owned() && slot.serves() && !slot.is_old;
            let directory = slot.directory().filter(|_| is_served);
            let debts: Vec<_> = directory
                .into_iter()
                .flat_map(|directory| self.directories.debts(directory))
                .collect();
            effects.extend(debts.chunks(BATCH_MAX).map(|tickets| Effect::Discard {
                member,
                segment: slot.id,
                tickets: tickets.to_vec(),
            }));
        }
        effects
    }

    /// Goes on telling members again what is readable in their memory.
    pub(super) fn feed_again(&mut self, steps: &mut Steps) {
        let end = self.table.rows.end();
        while let Some((member, next)) = self.feed.again.first_key_value() {
            let (member, mut next) = (*member, *next);
            while next < end && steps.take() {
                let row = Row(next);
                next = self.table.rows.skip_empty(next + 1);
                let readable = self.table.rows.get(row).is_some_and(|h| h.readable());
                if readable {
                    self.tell_member(row, member);
                }
            }
            if next < end {
                self.feed.again.insert(member, next);
                return;
            }
            self.feed.again.remove(&member);
        }
    }

    fn tell_member(&mut self, row: Row, member: MemberId) {
        let slots: Vec<_> = self.records(row).iter().map(|r| r.slot).collect();
        for slot in slots {
            if self.fleet.slot(slot).member == member {
                self.tell_committed(row, |r| r.slot == slot);
            }
        }
    }
}
