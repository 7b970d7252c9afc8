//! The metadata partition: which object lives where, who may read it, who may write it.
//!
//! A synchronous, deterministic machine: every call takes `now` and does a bounded number of steps ([`STEPS_MAX`]), so
//! one partition answers for millions of keys without pauses. It never sees a payload byte. What others must do comes
//! out as [`Effect`]s. The invariants that it keeps are numbered in `invariant`.

use crate::{
    command::{Effect, Stats},
    evict::{EvictionPolicy, PolicyKind},
    place::{PlacementKind, PlacementPolicy},
    record::Record,
    space::AllocatorKind,
    state::Seen,
};
use directories::Directories;
use feed::Feed;
use fleet::{Fleet, ReplicaRecord};
use members::Members;
use offload::Offloads;
use promote::Copies;
use scan::Scans;
use shared::Shared;
use sides::Sides;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use table::Table;
use tags::TagTable;
use writes::Opens;
use ziggurat_base::{ByteCount, Era, TenantId, Ticket, Timestamp, hash::Dice};

mod adopt;
mod buckets;
mod clear;
mod close;
mod directories;
mod end;
mod evict;
mod feed;
mod fleet;
mod get;
mod invariant;
mod ledger;
mod members;
mod offload;
mod promote;
mod put;
mod remove;
mod reoffer;
mod rows;
mod scan;
mod shared;
mod sides;
mod table;
mod tags;
mod tick;
mod version;
mod writes;

pub use offload::OffloadMode;
pub use promote::PromotionMode;
pub use reoffer::Retiring;
pub use scan::Matcher;
pub use tick::Ticked;

/// The most rows, extents or records that one call looks at beyond the items of its batch.
pub const STEPS_MAX: u32 = 512;

/// The most tenants of a partition.
pub const TENANTS_MAX: usize = 4096;

/// Tunables of a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How long a guard protects.
    pub lease: Duration,
    /// After this time another writer may pre-empt an open write.
    pub write_discard: Duration,
    /// After this time an open write is given up in any case.
    pub write_release: Duration,
    /// A member that is silent for longer is dead.
    pub member_ttl: Duration,
    /// Share of the capacity above which objects are evicted ahead of need; 1 means on demand only.
    pub high_watermark: f64,
    /// Share of the capacity that is made free below the watermark once eviction has begun.
    pub evict_ratio: f64,
    /// Who leaves.
    pub policy: PolicyKind,
    /// Where objects go.
    pub placement: PlacementKind,
    /// How space is cut.
    pub allocator: AllocatorKind,
    /// When owners take objects over from memory.
    pub offload: OffloadMode,
    /// Share of the capacity whose objects may wait for their owners; beyond, what has waited longest may be evicted.
    pub offload_share: f64,
    /// After this time an object that waits for its owner may be evicted.
    pub offload_patience: Duration,
    /// When objects that are read from their owners' own space come back into memory.
    pub promotion: PromotionMode,
    /// An object that is read again within this time is read often.
    pub promotion_window: Duration,
    /// Bytes that may be on their way into the memory of one member; half of it for what nobody has wished for. At 0 nothing
    /// is promoted.
    pub promotion_budget: ByteCount,
    /// How long the space of a version in a shard file is kept when nobody may write or read it any more: a writer that
    /// stalls for less damages nothing.
    pub dfs_cooling: Duration,
    /// Share of the capacity of all shard files above which objects leave them; 1 means on demand only.
    pub dfs_high_watermark: f64,
    /// Share at which that ends.
    pub dfs_low_watermark: f64,
    /// Start of the sequence of random numbers.
    pub seed: u64,
    /// Check every invariant after every call: for tests, at a cost that grows with the number of objects.
    pub paranoid: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            write_discard: Duration::from_secs(30),
            write_release: Duration::from_secs(600),
            member_ttl: Duration::from_secs(10),
            high_watermark: 0.90,
            evict_ratio: 0.05,
            policy: PolicyKind::default(),
            placement: PlacementKind::default(),
            allocator: AllocatorKind::default(),
            offload: OffloadMode::default(),
            offload_share: 1.0,
            offload_patience: Duration::from_secs(30),
            promotion: PromotionMode::default(),
            promotion_window: Duration::from_secs(600),
            promotion_budget: ByteCount::mib(64),
            dfs_cooling: Duration::from_secs(60),
            dfs_high_watermark: 0.90,
            dfs_low_watermark: 0.70,
            seed: 0,
            paranoid: false,
        }
    }
}

/// Steps left in a turn.
#[derive(Debug)]
struct Steps(u32);

impl Steps {
    fn turn() -> Self {
        Self(STEPS_MAX)
    }

    /// Takes one; `false` when there are none left.
    fn take(&mut self) -> bool {
        self.take_many(1)
    }

    fn take_many(&mut self, many: u32) -> bool {
        let enough = self.0 >= many;
        self.0 = self.0.saturating_sub(many);
        enough
    }
}

/// Space that waits for the end of a guard: replicas by the time at which it ends.
#[derive(Debug, Default)]
struct Cooling {
    records: BTreeMap<(Timestamp, u64), Vec<ReplicaRecord>>,
    next: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Catalog {
    config: Config,
    era: Era,
    serial: u32,
    table: Table,
    sides: Sides,
    tags: TagTable,
    fleet: Fleet,
    members: Members,
    opens: Opens,
    cooling: Cooling,
    policy: Box<dyn EvictionPolicy>,
    placement: Box<dyn PlacementPolicy>,
    dice: Dice,
    tenants: BTreeMap<Arc<str>, TenantId>,
    /// The names of the tenants, by number.
    tenant_names: Vec<Arc<str>>,
    directories: Directories,
    feed: Feed,
    /// Until when memory of an earlier life may come.
    memory_until: Option<Timestamp>,
    offloads: Offloads,
    copies: Copies,
    shared: Shared,
    scans: Scans,
    effects: Vec<Effect>,
    evicting: bool,
    last_tick: Timestamp,
    /// The first term of leases on the last version that was adopted.
    first_term: u16,
    /// When the loads of disks were last halved.
    loads_cooled: Timestamp,
    stats: Stats,
    seen: Seen,
}

/// Serials are refused from here on, so that none is ever issued twice; the shell raises the era long before.
const SERIAL_MAX: u32 = u32::MAX - 1;

/// From here on [`Catalog::needs_era`].
const SERIAL_LOW: u32 = u32::MAX - (1 << 28);

impl Catalog {
    /// An empty partition. `era` must exceed every era before it in the cluster's life.
    #[must_use]
    pub fn new(config: Config, era: Era) -> Self {
        let first: Arc<str> = "default".into();
        let tenants = BTreeMap::from([(first.clone(), TenantId(0))]);
        Self {
            policy: config.policy.build(),
            shared: Shared::new(config.policy),
            placement: config.placement.build(),
            dice: Dice::new(config.seed),
            config,
            era,
            serial: 0,
            table: Table::default(),
            sides: Sides::default(),
            tags: TagTable::default(),
            fleet: Fleet::default(),
            members: Members::default(),
            opens: Opens::default(),
            cooling: Cooling::default(),
            tenants,
            tenant_names: vec![first],
            directories: Directories::default(),
            feed: Feed::default(),
            memory_until: None,
            offloads: Offloads::default(),
            copies: Copies::default(),
            scans: Scans::default(),
            effects: Vec::new(),
            evicting: false,
            last_tick: Timestamp::ZERO,
            first_term: 0,
            loads_cooled: Timestamp::ZERO,
            stats: Stats::default(),
            seen: Seen::default(),
        }
    }

    /// The tunables.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The current era. It rises when a member shows that it has seen it, or a later one; whoever holds the durable copy
    /// must store it before the answer of the call that raised it leaves.
    #[must_use]
    pub fn era(&self) -> Era {
        self.era
    }

    /// Whether the tickets of the era run low.
    #[must_use]
    pub fn needs_era(&self) -> bool {
        self.serial >= SERIAL_LOW
    }

    /// Goes on in a later era.
    ///
    /// # Panics
    /// When `era` is not later: tickets would be issued twice.
    pub fn raise_era(&mut self, era: Era) {
        assert!(era > self.era, "an era never goes back");
        self.era = era;
        self.serial = 0;
    }

    fn next_ticket(&mut self) -> Option<Ticket> {
        self.serial = self
            .serial
            .checked_add(1)
            .filter(|serial| *serial <= SERIAL_MAX)?;
        Some(Ticket::new(self.era, self.serial))
    }

    /// The latest ticket issued.
    #[must_use]
    pub fn newest_ticket(&self) -> Ticket {
        Ticket::new(self.era, self.serial)
    }

    /// What members have to do since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether [`Catalog::take_effects`] has something.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Takes what an earlier life of the partition has left, in the order in which it came out, and says that somebody keeps
    /// what comes out of this one. To be called once, before anything else.
    pub fn absorb(&mut self, records: impl IntoIterator<Item = Record>) {
        let newest = self.newest_ticket();
        self.directories.absorb(newest, records);
    }

    /// What must be durable before the answer of the last call leaves.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.directories.take_records()
    }

    /// Whether [`Catalog::take_records`] has something.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.directories.has_records()
    }

    /// The state × event cells that were tried.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The partition in numbers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (open, closing) = self.opens.counts();
        let (owned_capacity, owned_used, owned_replicas) = self.fleet.owned_stats();
        let (directories_absent, debts, key_debts) = self.directories.counts();
        Stats {
            writes_open: open,
            writes_closing: closing,
            capacity: self.fleet.capacity,
            used: self.fleet.used,
            largest_free: self.fleet.largest_free(),
            segments: self.fleet.serving(),
            members: self.members.count(),
            owned_capacity,
            owned_used,
            owned_replicas,
            dfs_capacity: self.fleet.shared_capacity,
            dfs_used: self.fleet.shared_used,
            dfs_objects: self.shared.objects(),
            dfs_cooling: self.shared.leaving(),
            offloading: self.offloads.count(),
            offloading_bytes: self.offloads.bytes,
            directories_absent,
            debts,
            key_debts,
            promoting: self.copies.count(),
            promoting_bytes: self.copies.bytes(),
            table_bytes: self.table_bytes().0,
            ..self.stats
        }
    }

    fn table_bytes(&self) -> ByteCount {
        let facts = self.sides.memory() + self.directories.memory() + self.shared.memory();
        ByteCount(self.table.memory().0 + self.policy.memory().0 + facts)
    }

    /// Checks the invariants when the configuration says so.
    fn settle(&self) {
        if self.config.paranoid {
            self.check();
        }
    }
}

#[cfg(test)]
mod tests;
