//! Shard files: a model of what lies in one, carriers that come and go, and the next life of the partition.

use super::{Rig, TENANT, key, owner};
use crate::{
    catalog::Config,
    command::{
        DeadRecord, Effect, Force, Keep, Keys, MemberOffer, PutAnswer, PutGrant, SegmentOffer,
        Stock, Wish, Written,
    },
    ledger::{Change, Holding, LedgerBatch, LedgerReply},
    record::Record,
    shard_record::{ALIGNMENT_MIN, record_len},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use ziggurat_base::{
    ByteCount, Code, Crc32, DirectoryId, Era, Extent, Extents, MemberId, Placement, SegmentId,
    Ticket, hash::Dice,
};

const BLOCK: u64 = ALIGNMENT_MIN;

/// What lies in a shard file: headers by offset, and the removal log beside it.
#[derive(Default)]
struct Shard {
    headers: BTreeMap<u64, (Extent, Holding)>,
    log: BTreeSet<Ticket>,
}

impl Shard {
    /// A record is written: what began in its extent is gone.
    fn write(&mut self, extent: Extent, holding: Holding) {
        self.headers
            .retain(|at, _| *at < extent.offset || *at >= extent.end());
        self.headers.insert(extent.offset, (extent, holding));
    }

    fn bury(&mut self, dead: &DeadRecord) {
        self.log.insert(dead.ticket);
        let ticket = dead.ticket;
        let is_dead = |(extent, holding): &(Extent, Holding)| {
            let known = dead.extent.len == 0 || dead.extent.offset == extent.offset;
            known && holding.version.ticket == ticket
        };
        self.headers.retain(|_, header| !is_dead(header));
    }

    /// What a carrier finds that reads it from the start: it jumps over what it believes.
    fn scan(&self, segment: SegmentId) -> Vec<Holding> {
        let (mut found, mut next) = (Vec::new(), 0);
        for (at, (extent, holding)) in &self.headers {
            if *at >= next && !self.log.contains(&holding.version.ticket) {
                next = extent.end();
                found.push(Holding {
                    placement: Some(Placement {
                        segment,
                        extents: Extents::One(*extent),
                        check: None,
                    }),
                    ..holding.clone()
                });
            }
        }
        found
    }
}

/// A member that carries one shard file.
struct Carrier {
    member: MemberId,
    segment: SegmentId,
    generation: u64,
    told: u64,
}

const DIRECTORY: DirectoryId = DirectoryId(77);

fn offer(capacity: u64) -> SegmentOffer {
    SegmentOffer {
        name: "root/0".into(),
        capacity: ByteCount(capacity),
        highest_era: Era(0),
        keep: Keep::Shared {
            directory: DIRECTORY,
            alignment: BLOCK as u32,
        },
        stock: Stock::Volatile,
    }
}

impl Carrier {
    fn join(rig: &mut Rig, capacity: u64) -> Self {
        let member = MemberOffer {
            in_process: true,
            ..MemberOffer::default()
        };
        let member = rig.catalog.join(rig.now, &member).unwrap();
        let mounted = rig.catalog.mount(rig.now, member, &offer(capacity));
        Self {
            member,
            segment: mounted.unwrap(),
            generation: 0,
            told: 0,
        }
    }

    fn tell(&self, rig: &mut Rig, batch: &LedgerBatch) -> Result<LedgerReply, Code> {
        let reply = rig
            .catalog
            .ledger(rig.now, self.member, self.segment, batch);
        reply.map_err(|error| error.code())
    }

    /// Tells all that lies in the shard; `Err` while another one carries it.
    fn snapshot(&mut self, rig: &mut Rig, shard: &Shard) -> Result<(), Code> {
        self.generation += 1;
        let generation = self.generation;
        self.tell(rig, &LedgerBatch::Begin { generation })?;
        for (number, page) in shard.scan(self.segment).chunks(3).enumerate() {
            let page = LedgerBatch::Page {
                generation,
                number: number as u64,
                holdings: page.to_vec(),
            };
            self.tell(rig, &page)?;
        }
        let commit = LedgerBatch::Commit {
            generation,
            sequence: 0,
        };
        self.told = 0;
        self.tell(rig, &commit).map(drop)
    }

    /// Buries what it is told to bury, and says so.
    fn obey(&mut self, rig: &mut Rig, shard: &mut Shard) {
        for effect in rig.catalog.take_effects() {
            let Effect::Bury { member, dead, .. } = effect else {
                continue;
            };
            if member != self.member {
                continue;
            }
            dead.iter().for_each(|dead| shard.bury(dead));
            let changes: Vec<_> = dead.iter().map(|d| Change::Forgotten(d.ticket)).collect();
            let count = changes.len() as u64;
            let delta = LedgerBatch::Delta {
                generation: self.generation,
                after: self.told,
                changes,
            };
            self.tell(rig, &delta).unwrap();
            self.told += count;
        }
    }
}

const DFS: Wish = Wish {
    replicas: 0,
    dfs: 1,
    preferred: Vec::new(),
};

fn extent(grant: &PutGrant) -> Extent {
    let target = grant.targets.as_slice().iter().find(|t| t.is_shared());
    target.unwrap().placement.extents.as_slice()[0]
}

fn granted(rig: &mut Rig, text: &str, len: u64, wish: &Wish) -> Result<PutGrant, Code> {
    match rig.start_wish(text, len, wish) {
        Ok(PutAnswer::Granted(grant)) => Ok(grant),
        Ok(PutAnswer::Existed) => Err(Code::ObjectAlreadyExists),
        Err(error) => Err(error.code()),
    }
}

/// Puts and writes the header.
fn put(rig: &mut Rig, shard: &mut Shard, text: &str, len: u64) -> Ticket {
    let grant = granted(rig, text, len, &DFS).unwrap();
    shard.write(extent(&grant), owner::holding(text, grant.ticket, len));
    rig.end(grant.ticket).unwrap();
    grant.ticket
}

fn remove(rig: &mut Rig, text: &str) -> Result<(), Code> {
    let keys = [key(text)];
    let keys = Keys {
        tenant: TENANT,
        keys: &keys,
    };
    let removed = rig.catalog.remove(rig.now, keys, Force::Yes).remove(0);
    removed.map_err(|error| error.code())
}

fn ticket_of(rig: &Rig, text: &str) -> Option<Ticket> {
    let keys = [key(text)];
    let keys = Keys {
        tenant: TENANT,
        keys: &keys,
    };
    let stat = rig.catalog.stat(rig.now, keys).remove(0).unwrap();
    stat.map(|stat| stat.ticket)
}

fn config() -> Config {
    Config {
        dfs_cooling: Duration::from_secs(60),
        ..Config::default()
    }
}

fn rigged(capacity: u64) -> (Rig, Carrier, Shard) {
    rigged_as(config(), capacity)
}

fn rigged_as(config: Config, capacity: u64) -> (Rig, Carrier, Shard) {
    let mut rig = owner::rig(config);
    let mut carrier = Carrier::join(&mut rig, capacity);
    let shard = Shard::default();
    carrier.snapshot(&mut rig, &shard).unwrap();
    (rig, carrier, shard)
}

#[test]
fn a_record_is_written_and_found_by_everybody() {
    let (mut rig, _, mut shard) = rigged(1 << 20);
    let ticket = put(&mut rig, &mut shard, "a", 5000);
    let grant = rig.locate("a").unwrap().unwrap();
    let [target] = grant.replicas.as_slice() else {
        panic!("{:?}", grant.replicas);
    };
    assert_eq!((grant.ticket, target.member), (ticket, MemberId::NOBODY));
    let len = record_len("default", key("a"), &Default::default(), 5000, BLOCK);
    assert_eq!(target.placement.extents.len().0, len);
    let stats = rig.catalog.stats();
    assert_eq!((stats.dfs_objects, stats.dfs_used), (1, len));
    assert_eq!((stats.capacity, stats.used), (0, 0), "no memory is used");
}

#[test]
fn nothing_is_granted_before_the_shard_is_read() {
    let mut rig = owner::rig(config());
    let wish = Wish {
        dfs: 1,
        ..Wish::default()
    };
    assert_eq!(
        granted(&mut rig, "a", 5, &DFS),
        Err(Code::NoAvailableHandle)
    );
    let mut carrier = Carrier::join(&mut rig, 1 << 20);
    assert_eq!(granted(&mut rig, "a", 5, &DFS), Err(Code::Backpressure));
    carrier.snapshot(&mut rig, &Shard::default()).unwrap();
    assert!(granted(&mut rig, "a", 5, &DFS).is_ok());
    let refused = granted(&mut rig, "b", 5, &wish);
    assert_eq!(refused, Err(Code::NoAvailableHandle), "there is no memory");
    assert_eq!(
        granted(&mut rig, "c", 2 << 20, &DFS),
        Err(Code::NoAvailableHandle),
        "larger than the shard"
    );
}

#[test]
fn space_comes_back_when_it_has_cooled_and_is_buried() {
    let (mut rig, mut carrier, mut shard) = rigged(1 << 20);
    put(&mut rig, &mut shard, "a", 5000);
    let used = rig.catalog.stats().dfs_used;
    remove(&mut rig, "a").unwrap();
    carrier.obey(&mut rig, &mut shard);
    assert!(shard.headers.is_empty());
    rig.pass(59_000);
    assert_eq!(rig.catalog.stats().dfs_used, used, "it is cooling");
    rig.pass(61_000);
    assert_eq!(rig.catalog.stats().dfs_used, 0);

    put(&mut rig, &mut shard, "b", 5000);
    remove(&mut rig, "b").unwrap();
    rig.pass(1_000);
    rig.pass(300_000);
    assert_eq!(rig.catalog.stats().dfs_used, used, "nobody has buried it");
    carrier.obey(&mut rig, &mut shard);
    assert_eq!(rig.catalog.stats().dfs_used, 0);
}

#[test]
fn a_given_up_write_keeps_its_space_as_long() {
    let (mut rig, mut carrier, mut shard) = rigged(1 << 20);
    let grant = granted(&mut rig, "a", 5000, &DFS).unwrap();
    rig.catalog.revoke(&[grant.ticket]).remove(0).unwrap();
    carrier.obey(&mut rig, &mut shard);
    assert!(rig.catalog.stats().dfs_used > 0);
    rig.pass(1_000);
    rig.pass(61_000);
    assert_eq!(rig.catalog.stats().dfs_used, 0);
    assert!(shard.log.contains(&grant.ticket), "recovery must know");
}

#[test]
fn each_kind_of_space_needs_a_good_replica() {
    let mut rig = owner::rig(config());
    let memory = SegmentOffer {
        keep: Keep::Delegated,
        name: "memory".into(),
        ..offer(1 << 20)
    };
    rig.catalog.mount(rig.now, rig.node, &memory).unwrap();
    Carrier::join(&mut rig, 1 << 20)
        .snapshot(&mut rig, &Shard::default())
        .unwrap();
    let wish = Wish {
        dfs: 1,
        ..Wish::default()
    };
    for (written, is_good) in [
        (vec![Some(true), Some(true)], true),
        (vec![Some(true), Some(false)], false),
        (vec![Some(false), Some(true)], false),
    ] {
        let name = format!("{written:?}");
        let grant = granted(&mut rig, &name, 100, &wish).unwrap();
        let kinds: Vec<_> = grant
            .targets
            .as_slice()
            .iter()
            .map(|t| t.is_shared())
            .collect();
        assert_eq!(kinds, [false, true], "memory comes first");
        let end = crate::command::PutEnd {
            ticket: grant.ticket,
            crc: Crc32(1),
            written: Written::Each(written),
        };
        let ended = rig.catalog.put_end(rig.now, &[end]).remove(0);
        assert_eq!(ended.is_ok(), is_good, "{name}: {ended:?}");
        assert_eq!(rig.exist(&name), is_good, "{name}");
    }
}

#[test]
fn what_lies_in_shards_leaves_above_the_watermark() {
    let (mut rig, mut carrier, mut shard) = rigged(100 * BLOCK);
    for number in 0..44 {
        put(&mut rig, &mut shard, &format!("k{number}"), 4096);
    }
    assert_eq!(rig.catalog.stats().dfs_objects, 44);
    rig.locate("k0").unwrap();
    rig.pass(11_000);
    put(&mut rig, &mut shard, "more", 4096);
    put(&mut rig, &mut shard, "most", 4096);
    rig.pass(1_000);
    let stats = rig.catalog.stats();
    assert_eq!(stats.dfs_objects, 35, "0.7 of what fits");
    assert!(rig.exist("k0"), "it was read");
    assert!(!rig.exist("k1"));
    carrier.obey(&mut rig, &mut shard);
    rig.pass(1);
    rig.pass(61_000);
    assert_eq!(rig.catalog.stats().dfs_used, 70 * BLOCK);
}

#[test]
fn a_full_shard_says_come_again_until_space_has_cooled() {
    let (mut rig, mut carrier, mut shard) = rigged(4 * BLOCK);
    put(&mut rig, &mut shard, "a", 4096);
    put(&mut rig, &mut shard, "b", 4096);
    assert_eq!(granted(&mut rig, "c", 1, &DFS), Err(Code::Backpressure));
    carrier.obey(&mut rig, &mut shard);
    rig.pass(1);
    rig.pass(60_001);
    assert!(granted(&mut rig, "c", 1, &DFS).is_ok());
}

#[test]
fn carriers_follow_each_other() {
    let (mut rig, mut first, mut shard) = rigged(1 << 20);
    let mut second = Carrier::join(&mut rig, 1 << 20);
    assert_eq!(second.segment, first.segment, "it is one shard file");
    assert_eq!(
        second.snapshot(&mut rig, &shard),
        Err(Code::IllegalClient),
        "the first carries it"
    );
    let ticket = put(&mut rig, &mut shard, "a", 100);
    put(&mut rig, &mut shard, "b", 100);
    rig.catalog.take_effects();
    rig.catalog.leave(first.member);
    assert!(rig.exist("a"), "nobody is needed to read it");
    remove(&mut rig, "b").unwrap();
    assert!(rig.catalog.take_effects().is_empty());
    second.snapshot(&mut rig, &shard).unwrap();
    second.obey(&mut rig, &mut shard);
    assert_eq!(shard.headers.len(), 1, "b is buried");
    assert_eq!(ticket_of(&rig, "a"), Some(ticket));
    put(&mut rig, &mut shard, "c", 100);
    assert_eq!(first.snapshot(&mut rig, &shard), Err(Code::ClientNotFound));
}

fn next_life(rig: &mut Rig, records: &[Record], shard: &Shard, capacity: u64) -> Carrier {
    owner::next_life(rig, records.iter().copied());
    let mut carrier = Carrier::join(rig, capacity);
    carrier.snapshot(rig, shard).unwrap();
    while rig.catalog.tick(rig.now).more {}
    carrier
}

#[test]
fn the_next_life_finds_what_is_there_and_not_what_was_removed() {
    let (mut rig, mut carrier, mut shard) = rigged(1 << 20);
    let kept = put(&mut rig, &mut shard, "kept", 100);
    put(&mut rig, &mut shard, "buried", 100);
    put(&mut rig, &mut shard, "removed", 100);
    remove(&mut rig, "buried").unwrap();
    carrier.obey(&mut rig, &mut shard);
    remove(&mut rig, "removed").unwrap();
    let records = rig.catalog.take_records();
    let mut carrier = next_life(&mut rig, &records, &shard, 1 << 20);
    assert_eq!(ticket_of(&rig, "kept"), Some(kept));
    assert_eq!(ticket_of(&rig, "removed"), None);
    assert_eq!(ticket_of(&rig, "buried"), None);
    carrier.obey(&mut rig, &mut shard);
    assert_eq!(shard.headers.len(), 1, "what was refused is buried");
    rig.pass(1_000);
    rig.pass(61_000);
    let len = record_len("default", key("kept"), &Default::default(), 100, BLOCK);
    assert_eq!(rig.catalog.stats().dfs_used, len);
}

/// One random history over two lives, with carriers that change and late headers.
struct History {
    rig: Rig,
    carrier: Carrier,
    shard: Shard,
    records: Vec<Record>,
    dice: Dice,
    /// Writes under way: their grants, their headers on disk or not.
    open: Vec<(String, u64, PutGrant)>,
    capacity: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let capacity = (8 + dice.below(40)) * BLOCK;
        // On demand only, so that a new life evicts nothing of what it has just found.
        let config = Config {
            dfs_high_watermark: 1.0,
            ..config()
        };
        let (rig, carrier, shard) = rigged_as(config, capacity);
        Self {
            rig,
            carrier,
            shard,
            records: Vec::new(),
            dice,
            open: Vec::new(),
            capacity,
        }
    }

    fn step(&mut self) {
        let name = format!("k{}", self.dice.below(9));
        let len = self.dice.below(3 * BLOCK);
        match self.dice.below(12) {
            0..4 => {
                if let Ok(grant) = granted(&mut self.rig, &name, len, &DFS) {
                    self.open.push((name, len, grant));
                }
            }
            4..7 if !self.open.is_empty() => self.finish(),
            7 => drop(remove(&mut self.rig, &name)),
            8 => drop(self.rig.locate(&name)),
            9 => {
                let ms = [10, 1_000, 20_000, 70_000][self.dice.below(4) as usize];
                self.rig.pass(ms);
                // A writer that stalls for longer than the cooling time is not part of the bargain.
                let rig = &self.rig;
                self.open
                    .retain(|(_, _, grant)| ms < 50_000 && is_open(rig, grant.ticket));
            }
            10 => self.carrier.obey(&mut self.rig, &mut self.shard),
            _ if self.dice.below(4) == 0 => {
                self.rig.catalog.leave(self.carrier.member);
                self.carrier = Carrier::join(&mut self.rig, self.capacity);
                self.carrier.snapshot(&mut self.rig, &self.shard).unwrap();
            }
            _ => {}
        }
        self.records.extend(self.rig.catalog.take_records());
    }

    /// Writes a header, and ends the write or not.
    fn finish(&mut self) {
        let index = self.dice.below(self.open.len() as u64) as usize;
        let (name, len, grant) = self.open.swap_remove(index);
        let how = self.dice.below(6);
        if how > 0 {
            let new = owner::holding(&name, grant.ticket, len);
            self.shard.write(extent(&grant), new);
        }
        if how > 1 {
            let _refused = self.rig.end(grant.ticket);
        } else {
            let _unknown = self.rig.catalog.revoke(&[grant.ticket]);
        }
    }

    fn known(&self) -> BTreeMap<String, Ticket> {
        let names = (0..9).map(|number| format!("k{number}"));
        names
            .filter_map(|name| Some((name.clone(), ticket_of(&self.rig, &name)?)))
            .collect()
    }

    /// The partition and its carrier end; the next life must know what this one knew.
    fn end_life(&mut self) {
        let before = self.known();
        self.open.clear();
        self.carrier = next_life(&mut self.rig, &self.records, &self.shard, self.capacity);
        self.records.extend(self.rig.catalog.take_records());
        assert_eq!(self.known(), before);
    }
}

fn is_open(rig: &Rig, ticket: Ticket) -> bool {
    rig.catalog.opens.open.contains_key(&ticket)
}

#[test]
fn random_histories_keep_what_is_readable_and_bury_the_rest() {
    for seed in 0..300 {
        let mut history = History::new(seed);
        for _ in 0..3 {
            for _ in 0..150 {
                history.step();
            }
            // What is being written is neither there nor not.
            while !history.open.is_empty() {
                history.finish();
            }
            history.records.extend(history.rig.catalog.take_records());
            history.end_life();
        }
    }
}
