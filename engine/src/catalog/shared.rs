//! Shard files: space that the partition allocates and nobody owns.
//!
//! What cannot be fenced is cooled and buried. A range whose version is not handed out any more, or whose write was given up,
//! goes back when the last guard has ended, when it has cooled for [`super::Config::dfs_cooling`], and when a carrier has put the
//! version's ticket into the removal log of its root and wiped its header. Until then the ticket is a debt of the shard, so
//! that no later life of the partition brings it back.

use super::{Catalog, Steps, evict::Room, feed::Retirement, fleet::ReplicaRecord, table::Probe};
use crate::{
    Row,
    canary::{Canary, planted},
    command::{Answer, BATCH_MAX, DeadRecord, Effect, PutItem, Wish},
    evict::{EvictionPolicy, PolicyKind},
    ledger::{Holding, Verdict, Version},
    replica::{Replica, ReplicaEvent},
    shard_record::record_len,
};
use std::collections::BTreeMap;
use ziggurat_base::{
    ByteCount, Code, DirectoryId, Error, Extent, Extents, MemberId, SegmentId, TenantId, Ticket,
    Timestamp, hash::mix,
};

/// Objects that leave shard files ahead of need in one call.
const AHEAD_MAX: u32 = 64;

/// A record whose version is dead.
#[derive(Debug)]
struct Dead {
    ticket: Ticket,
    record: ReplicaRecord,
}

/// Who leaves shard files, and what is leaving.
#[derive(Debug)]
pub(super) struct Shared {
    policy: Box<dyn EvictionPolicy>,
    /// What begins to cool with the next tick, and when its last guard ends.
    fresh: Vec<(Timestamp, Dead)>,
    cooling: BTreeMap<(Timestamp, u64), Dead>,
    next: u64,
    /// What has cooled and is not buried.
    unburied: BTreeMap<(Ticket, u16), ReplicaRecord>,
    /// Bytes of all that is leaving.
    leaving: u64,
    evicting: bool,
}

impl Shared {
    pub(super) fn new(kind: PolicyKind) -> Self {
        Self {
            policy: kind.build(),
            fresh: Vec::new(),
            cooling: BTreeMap::new(),
            next: 0,
            unburied: BTreeMap::new(),
            leaving: 0,
            evicting: false,
        }
    }

    /// Records that are leaving, in any stage.
    pub(super) fn records(&self) -> impl Iterator<Item = &ReplicaRecord> {
        let fresh = self.fresh.iter().map(|(_, dead)| &dead.record);
        let cooling = self.cooling.values().map(|dead| &dead.record);
        fresh.chain(cooling).chain(self.unburied.values())
    }

    /// The versions that are leaving a shard file, and where they lie.
    fn extents(&self, slot: u16) -> impl Iterator<Item = (Ticket, Extent)> + '_ {
        let fresh = self.fresh.iter().map(|(_, dead)| dead);
        let dead = fresh.chain(self.cooling.values());
        let dead = dead.map(|dead| (dead.ticket, &dead.record));
        let unburied = self.unburied.iter().map(|((t, _), record)| (*t, record));
        dead.chain(unburied)
            .filter(move |(_, record)| record.slot == slot)
            .map(|(ticket, record)| (ticket, extent_of(record)))
    }

    pub(super) fn leaving(&self) -> u64 {
        (self.fresh.len() + self.cooling.len() + self.unburied.len()) as u64
    }

    pub(super) fn objects(&self) -> u64 {
        self.policy.len()
    }

    pub(super) fn leaving_bytes(&self) -> u64 {
        self.leaving
    }

    pub(super) fn memory(&self) -> u64 {
        self.policy.memory().0 + self.leaving() * size_of::<Dead>() as u64
    }
}

fn extent_of(record: &ReplicaRecord) -> Extent {
    record
        .extents
        .as_slice()
        .first()
        .copied()
        .unwrap_or_default()
}

fn bytes_of(record: &ReplicaRecord) -> u64 {
    record.extents.len().0
}

impl Catalog {
    /// A shard file is mounted: by the first who shows it, and for good.
    pub(super) fn known_shard(&self, directory: DirectoryId) -> Option<SegmentId> {
        let slot = self.fleet.of_directory(directory)?;
        let here = self.fleet.slot(slot);
        here.is_shared().then_some(here.id)
    }

    /// The bytes of all shard files have changed.
    pub(super) fn measure_shards(&mut self) {
        let capacity = ByteCount(self.fleet.shared_capacity);
        self.shared.policy.set_capacity(capacity);
    }

    /// A member carries a shard file from now on; what is to be buried there is told it.
    pub(super) fn take_over(&mut self, slot: u16, member: MemberId) {
        let here = self.fleet.slot_mut(slot);
        here.member = member;
        here.ledger.hand_over();
        let burials = self.burials(slot);
        self.effects.extend(burials);
    }

    /// Everything that the carrier of a shard file has to bury.
    pub(super) fn burials(&self, slot: u16) -> Vec<Effect> {
        let here = self.fleet.slot(slot);
        let Some(directory) = here.directory() else {
            return Vec::new();
        };
        let extents: BTreeMap<Ticket, Extent> = self.shared.extents(slot).collect();
        let dead = |ticket| DeadRecord {
            ticket,
            extent: extents.get(&ticket).copied().unwrap_or_default(),
        };
        let dead: Vec<_> = self.directories.debts(directory).map(dead).collect();
        let burial = |dead: &[DeadRecord]| Effect::Bury {
            member: here.member,
            segment: here.id,
            dead: dead.to_vec(),
        };
        dead.chunks(BATCH_MAX).map(burial).collect()
    }

    /// Wants a record buried by whoever carries its shard file; nobody is told while nobody does.
    pub(super) fn push_burial(&mut self, slot: u16, ticket: Ticket, extent: Extent) {
        let here = self.fleet.slot(slot);
        if here.member == MemberId::NOBODY {
            return;
        }
        let new = DeadRecord { ticket, extent };
        if let Some(Effect::Bury { segment, dead, .. }) = self.effects.last_mut()
            && *segment == here.id
            && dead.len() < BATCH_MAX
        {
            dead.push(new);
            return;
        }
        self.effects.push(Effect::Bury {
            member: here.member,
            segment: here.id,
            dead: vec![new],
        });
    }

    /// The shard files of a member that has gone are carried by nobody.
    pub(super) fn put_down(&mut self, member: MemberId) {
        for slot in self.fleet.shards().to_vec() {
            let here = self.fleet.slot_mut(slot);
            if here.member == member {
                here.member = MemberId::NOBODY;
            }
        }
    }

    /// Space for the records that are wished for; none when none are.
    pub(super) fn reserve_records(
        &mut self,
        now: Timestamp,
        tenant: TenantId,
        item: &PutItem<'_>,
        wish: &Wish,
        steps: &mut Steps,
    ) -> Answer<Vec<ReplicaRecord>> {
        if wish.dfs == 0 {
            return Ok(Vec::new());
        }
        let no = |what: String| Err(Error::new(Code::NoAvailableHandle, what));
        if self.fleet.shards().is_empty() {
            return no("no shard file is mounted: start a node with --dfs".into());
        }
        let later = |what| Err(Error::new(Code::Backpressure, what));
        if self.fleet.open_shards.is_empty() {
            return later("no room yet: what lies in the shard files is being read");
        }
        let fits = |slot: &u16| {
            let capacity = self.fleet.slot(*slot).space.capacity();
            self.len_on(*slot, tenant, item) <= capacity
        };
        if !self.fleet.open_shards.iter().any(fits) {
            let size = ByteCount(item.len);
            return no(format!("{size} are more than a shard file can hold"));
        }
        let records = self.place_records(tenant, item, wish.dfs);
        if !records.is_empty() {
            return Ok(records);
        }
        self.shared.evicting = true;
        self.relieve_shards(now, steps);
        if self.shared.leaving > 0 || !self.shared.policy.is_empty() {
            return later("no room yet in the shard files: what was evicted is cooling");
        }
        no("no shard file has room and nothing can be evicted".into())
    }

    /// As many records as there is room for, each in another shard file: first where the key's hash points, then in any other;
    /// those of roots that have none yet come first.
    fn place_records(
        &mut self,
        tenant: TenantId,
        item: &PutItem<'_>,
        wanted: u8,
    ) -> Vec<ReplicaRecord> {
        let count = self.fleet.open_shards.len();
        let hash = Probe::new(tenant, item.key).hash;
        let first = (mix(hash) % count as u64) as usize;
        let mut order: Vec<_> = (0..count)
            .map(|i| self.fleet.open_shards[(first + i) % count])
            .collect();
        let mut records: Vec<ReplicaRecord> = Vec::new();
        while records.len() < usize::from(wanted) && !order.is_empty() {
            let root = |slot: u16| root_of(&self.fleet.slot(slot).name);
            let is_new = |slot: &u16| records.iter().all(|r| root(r.slot) != root(*slot));
            let index = order.iter().position(is_new).unwrap_or(0);
            let slot = order.remove(index);
            let len = self.len_on(slot, tenant, item);
            records.extend(self.fleet.reserve_record(slot, len));
        }
        records
    }

    /// Bytes that an object takes in a shard file.
    fn len_on(&self, slot: u16, tenant: TenantId, item: &PutItem<'_>) -> u64 {
        let name = &self.tenant_names[usize::from(tenant.0)];
        let alignment = self.fleet.slot(slot).alignment();
        record_len(name, item.key, &item.tags, item.len, alignment)
    }

    /// The version of a row has come to lie in a shard file, or lies in none any more: its policy is told.
    pub(super) fn note_shared(&mut self, row: Row) {
        let records = self.records(row);
        let here = |r: &&ReplicaRecord| {
            r.state == Replica::Readable && self.fleet.slot(r.slot).is_shared()
        };
        let bytes: u64 = records.iter().filter(here).map(bytes_of).sum();
        let (hash, is_noted) = (self.table.head(row).hash, self.table.head(row).in_shard());
        match (is_noted, bytes > 0) {
            (false, true) => self.shared.policy.insert(row, hash, ByteCount(bytes)),
            (true, false) => self.shared.policy.remove(row),
            _ => return,
        }
        self.table.head_mut(row).set_in_shard(bytes > 0);
    }

    /// The version of a row is going.
    pub(super) fn forget_shared(&mut self, row: Row) {
        if self.table.head(row).in_shard() {
            self.shared.policy.remove(row);
            self.table.head_mut(row).set_in_shard(false);
        }
    }

    pub(super) fn touch_shared(&mut self, row: Row) {
        if self.table.head(row).in_shard() {
            self.shared.policy.touch(row);
        }
    }

    /// A replica in a shard file is not handed out any more, or was never written: it is a debt until it is buried, and its space
    /// waits.
    pub(super) fn lay_out(&mut self, guard: Timestamp, ticket: Ticket, record: ReplicaRecord) {
        let slot = record.slot;
        let directory = self.fleet.slot(slot).directory();
        self.shared.leaving += bytes_of(&record);
        if let Some(directory) = directory {
            self.directories.owe(directory, ticket);
            self.push_burial(slot, ticket, extent_of(&record));
        }
        self.shared.fresh.push((guard, Dead { ticket, record }));
    }

    /// Lets cool what is to cool, and frees what has cooled and is buried.
    pub(super) fn cool_shards(&mut self, now: Timestamp, steps: &mut Steps) {
        let until = now.after(self.config.dfs_cooling);
        for (guard, dead) in std::mem::take(&mut self.shared.fresh) {
            self.shared.next += 1;
            let key = (until.max(guard), self.shared.next);
            self.shared.cooling.insert(key, dead);
        }
        while let Some(entry) = self.shared.cooling.first_entry() {
            if entry.key().0 > now || !steps.take() {
                break;
            }
            let Dead { ticket, record } = entry.remove();
            let directory = self.fleet.slot(record.slot).directory();
            let is_owed = directory.is_some_and(|d| self.directories.owes(d, ticket));
            if is_owed {
                self.shared.unburied.insert((ticket, record.slot), record);
            } else {
                self.free_record(record);
            }
        }
    }

    /// A carrier has buried a version.
    pub(super) fn buried(&mut self, slot: u16, ticket: Ticket) {
        if let Some(record) = self.shared.unburied.remove(&(ticket, slot)) {
            self.free_record(record);
        }
    }

    fn free_record(&mut self, record: ReplicaRecord) {
        self.shared.leaving -= bytes_of(&record);
        let event = leaving_event(&record);
        self.fleet.free(record, event, &mut self.seen);
    }

    /// Evicts from shard files while they are above their watermark, a bounded number of objects. What is leaving counts as gone.
    pub(super) fn relieve_shards(&mut self, now: Timestamp, steps: &mut Steps) {
        let capacity = self.fleet.shared_capacity as f64;
        let live = |catalog: &Self| {
            let live = catalog.fleet.shared_used - catalog.shared.leaving;
            live as f64
        };
        let high = capacity * self.config.dfs_high_watermark;
        let low = capacity * self.config.dfs_low_watermark;
        self.shared.evicting |= self.config.dfs_high_watermark < 1.0 && live(self) > high;
        let mut ahead = AHEAD_MAX.min(steps.0);
        let before = ahead;
        while self.shared.evicting && ahead > 0 {
            self.shared.evicting = live(self) > low;
            if !self.shared.evicting || self.evict_record(now, &mut ahead) != Room::Made {
                break;
            }
        }
        steps.0 -= before - ahead;
    }

    fn evict_record(&mut self, now: Timestamp, steps: &mut u32) -> Room {
        let Self { shared, table, .. } = self;
        let mut held = |row: Row| {
            let head = table.head(row);
            head.leased(now) || head.writing()
        };
        let Some(row) = shared.policy.propose(&mut held, steps) else {
            return Room::Later;
        };
        self.shared.policy.evicted(row);
        self.table.head_mut(row).set_in_shard(false);
        self.stats.dfs_evicted += 1;
        let is_shared = |catalog: &Self, r: &ReplicaRecord| catalog.fleet.slot(r.slot).is_shared();
        let lies_elsewhere = self.records(row).iter().any(|r| {
            let slot = self.fleet.slot(r.slot);
            r.state == Replica::Readable && !slot.is_shared() && slot.serves()
        });
        if lies_elsewhere {
            self.drop_replicas(now, row, is_shared);
        } else {
            self.stats.evicted += 1;
            self.stats.evicted_bytes += self.table.head(row).len;
            self.forget_policy(row);
            self.tell_retired(row, Retirement::LetGo, |_| true);
            self.retire(now, row);
        }
        Room::Made
    }

    /// Judges what a carrier says lies in a shard file. What is dead keeps its space until it is buried.
    pub(super) fn adopt_record(&mut self, now: Timestamp, slot: u16, holding: &Holding) -> Verdict {
        let ticket = holding.version.ticket;
        let Some(placement) = &holding.placement else {
            return Verdict::Discard;
        };
        if self.is_record_known(slot, &holding.version) {
            return Verdict::Taken;
        }
        let is_offered = self.fleet.slot(slot).is_offering();
        if is_offered && self.adopt_offered(now, slot, holding, &placement.extents) {
            self.stats.adopted += 1;
            return Verdict::Taken;
        }
        self.stats.discarded += 1;
        let space = match is_offered {
            true => self.fleet.restore_record(slot, &placement.extents),
            false => None,
        };
        match space {
            Some(mut record) => {
                self.seen.must(&mut record.state, ReplicaEvent::Retire);
                self.lay_out(now, ticket, record);
            }
            None => {
                if let Some(directory) = self.fleet.slot(slot).directory() {
                    self.directories.owe(directory, ticket);
                }
                self.push_burial(slot, ticket, placement.extents.as_slice()[0]);
            }
        }
        Verdict::Discard
    }

    /// Whether a version has space in a shard file, whatever its state.
    fn is_record_known(&self, slot: u16, version: &Version) -> bool {
        let here = |records: &[ReplicaRecord]| records.iter().any(|r| r.slot == slot);
        if self
            .row_of(version)
            .is_some_and(|row| here(&self.records(row)))
        {
            return true;
        }
        let open = self.opens.open.get(&version.ticket);
        open.is_some_and(|open| here(&open.replicas))
    }

    fn adopt_offered(
        &mut self,
        now: Timestamp,
        slot: u16,
        holding: &Holding,
        extents: &Extents,
    ) -> bool {
        let version = &holding.version;
        let directory = self.fleet.slot(slot).directory();
        let Some(directory) = directory.filter(|_| version.ticket != Ticket::NONE) else {
            return false;
        };
        let believes_all = planted(Canary::DeadRecordAdopted);
        let is_owed = self.directories.owes(directory, version.ticket);
        if version.ticket > self.newest_ticket() || (is_owed && !believes_all) {
            return false;
        }
        let Ok(tenant) = self.tenant(&version.tenant) else {
            return false;
        };
        let probe = Probe::new(tenant, version.key.as_key());
        let tags = holding.tags.as_tags();
        let alignment = self.fleet.slot(slot).alignment();
        let len = record_len(&version.tenant, probe.key, &tags, holding.len, alignment);
        if extents.len().0 != len {
            return false;
        }
        let known = self.table.find(probe);
        if let Some(row) = known {
            let head = self.table.head(row);
            let same = head.readable() && head.ticket == version.ticket;
            if !same || (head.len, head.crc) != (holding.len, holding.crc) {
                return false;
            }
        } else {
            let digest = self.digest(tenant, probe.key);
            let is_refused = self.directories.refuses(directory, digest, version.ticket);
            if is_refused && !believes_all {
                return false;
            }
        }
        let Some(record) = self.fleet.restore_record(slot, extents) else {
            return false;
        };
        let row = match known {
            Some(row) => {
                self.add_record(row, record);
                row
            }
            None => {
                let Some(row) = self.table.insert(probe) else {
                    self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
                    return false;
                };
                self.fill_row(now, row, holding, record);
                row
            }
        };
        self.note_shared(row);
        true
    }
}

/// The root of a shard file, by the name of its segment.
fn root_of(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(root, _)| root)
}

/// What ends the life of a record that is leaving.
fn leaving_event(record: &ReplicaRecord) -> ReplicaEvent {
    match record.state {
        Replica::Fencing => ReplicaEvent::Fenced,
        _ => ReplicaEvent::Cool,
    }
}
