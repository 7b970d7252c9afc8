//! Random histories of a partition, its later lives, and nodes with directories: no version that was removed or superseded is
//! ever readable again, and what is left on disk in the end is readable.

use super::{
    Rig,
    owner::{Owner, next_life, rig},
};
use crate::{
    catalog::{Config, Matcher, OffloadMode, PromotionMode},
    command::{
        BATCH_MAX, Cursor, Effect, Force, Prefetch, Priority, PutAnswer, PutGrant, ScanAction,
        Stock, Target, Wish,
    },
    ledger::{Change, Holding, LedgerBatch, Verdict},
    record::Record,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use ziggurat_base::{Code, MemberId, Placement, Ticket, hash::Dice};

const MEMORY: u64 = 40_960;
const KEYS: u64 = 24;
const PAGE_ITEMS: usize = 3;
const TTL: Duration = Duration::from_millis(500);

/// Where a node's streams stand.
#[derive(Debug, PartialEq)]
enum Stage {
    Away,
    /// Snapshot under way: the next page, and what is still to be named.
    Paging(u64, Vec<Holding>),
    Live,
}

#[derive(Clone, Copy, PartialEq)]
enum Stream {
    Memory,
    Space,
}

struct Node {
    owner: Owner,
    stage: Stage,
    effects: VecDeque<Effect>,
    /// What lies in memory, as far as it was told.
    held: BTreeMap<Ticket, Holding>,
    /// Whether it may offer its memory to another partition: the last one that there was knew it to the end.
    is_good: bool,
    /// Versions on their way from memory to disk.
    in_flight: BTreeMap<Ticket, Holding>,
    /// Versions in memory that came back.
    offered: u64,
    /// Writes that may not write any more.
    fenced: BTreeSet<Ticket>,
    /// Changes that are not told yet, in their order.
    outbox: VecDeque<(Stream, Change)>,
}

impl Node {
    fn join(&mut self, rig: &mut Rig) {
        let stock = match self.is_good {
            true => Stock::Held,
            false => Stock::Fresh,
        };
        if !self.is_good {
            self.held.clear();
        }
        self.owner.come(rig, MEMORY, stock);
        self.owner.mount(rig).unwrap();
        let all: Vec<_> = self.held.values().cloned().collect();
        let verdicts = self.owner.offer_memory(rig, all);
        let mut verdict = verdicts.iter();
        self.held
            .retain(|_, _| verdict.next() == Some(&Verdict::Taken));
        self.offered += self.held.len() as u64;
        for holding in self.held.values_mut() {
            if let Some(placement) = &mut holding.placement {
                placement.segment = self.owner.memory;
            }
        }
        self.is_good = false;
        self.in_flight.clear();
        self.outbox.clear();
        self.effects.clear();
        self.begin(rig);
    }

    /// Begins a snapshot; what was not told is in it. Acknowledgements that are lost by that are asked for again.
    fn begin(&mut self, rig: &mut Rig) {
        self.outbox.clear();
        self.owner.begin(rig);
        self.effects = rig.catalog.attach(self.owner.member).into();
        let all = self.owner.disk.values().cloned().collect();
        self.stage = Stage::Paging(0, all);
    }

    fn page(&mut self, rig: &mut Rig) {
        let Stage::Paging(number, rest) = &mut self.stage else {
            return;
        };
        let page: Vec<_> = rest.drain(..rest.len().min(PAGE_ITEMS)).collect();
        if page.is_empty() {
            self.owner.commit(rig);
            self.stage = Stage::Live;
            return;
        }
        self.owner.page(rig, *number, page);
        *number += 1;
    }

    /// Another version is written over some of the memory: what lay there is not held any more.
    fn write(&mut self, target: &Target) {
        let (owner, new) = (&self.owner, &target.placement);
        if (target.member, new.segment) == (owner.member, owner.memory) {
            self.overwrite(new);
        }
    }

    fn overwrite(&mut self, new: &Placement) {
        let overlaps = |old: &Placement| old.all().any(|a| new.all().any(|b| a.overlaps(b)));
        self.held
            .retain(|_, holding| !holding.placement.as_ref().is_some_and(overlaps));
    }

    fn forget(&mut self, ticket: Ticket) {
        self.in_flight.remove(&ticket);
        self.owner.disk.remove(&ticket);
        let forgotten = (Stream::Space, Change::Forgotten(ticket));
        self.outbox.push_back(forgotten);
    }

    fn finish_offload(&mut self, ticket: Ticket) {
        if let Some(new) = self.in_flight.remove(&ticket) {
            self.owner.disk.insert(ticket, new.clone());
            self.outbox.push_back((Stream::Space, Change::Present(new)));
        }
    }

    fn obey(&mut self, dice: &mut Dice) {
        let Some(effect) = self.effects.pop_front() else {
            return;
        };
        match effect {
            Effect::Committed { holding, .. } => {
                let ticket = holding.version.ticket;
                self.held.insert(ticket, (*holding).clone());
                let new = Holding {
                    placement: None,
                    ..*holding
                };
                if self.owner.disk.contains_key(&ticket) {
                    return;
                }
                match dice.below(8) {
                    0 => {
                        let refused = (Stream::Space, Change::Refused(new.version));
                        self.outbox.push_back(refused);
                    }
                    _ => drop(self.in_flight.insert(ticket, new)),
                }
            }
            Effect::Retired { ticket, .. } => {
                self.held.remove(&ticket);
                match dice.below(2) {
                    0 => self.finish_offload(ticket),
                    _ => drop(self.in_flight.remove(&ticket)),
                }
                self.outbox
                    .push_back((Stream::Memory, Change::Forgotten(ticket)));
            }
            Effect::Discard { tickets, .. } => tickets.into_iter().for_each(|t| self.forget(t)),
            Effect::Bury { .. } => unreachable!("there is no shard file"),
            Effect::Promote { holding, write, .. } => {
                let is_good = !self.fenced.contains(&write)
                    && self.owner.disk.contains_key(&holding.version.ticket);
                let change = match is_good && dice.below(8) > 0 {
                    true => Change::Copied(write),
                    false => Change::NotCopied(write),
                };
                if let (true, Some(placement)) = (is_good, &holding.placement) {
                    self.overwrite(placement);
                }
                self.outbox.push_back((Stream::Memory, change));
            }
            Effect::Offload { .. } | Effect::Fence { .. } => {}
        }
    }

    /// Tells the oldest change; a snapshot has to be over for those of the directory.
    fn tell(&mut self, rig: &mut Rig, dice: &mut Dice) {
        if self.stage != Stage::Live {
            return;
        }
        let Some((stream, change)) = self.outbox.pop_front() else {
            return;
        };
        let (segment, told) = match stream {
            Stream::Memory => (self.owner.memory, &mut self.owner.told_memory),
            Stream::Space => (self.owner.space, &mut self.owner.told),
        };
        let delta = LedgerBatch::Delta {
            generation: told.0,
            after: told.1,
            changes: vec![change],
        };
        told.1 += 1;
        let reply = self.owner.tell(rig, segment, &delta).unwrap();
        if dice.below(4) == 0 {
            assert_eq!(self.owner.tell(rig, segment, &delta).unwrap(), reply);
        }
    }
}

struct History {
    rig: Rig,
    dice: Dice,
    nodes: Vec<Node>,
    records: Vec<Record>,
    open: Vec<(String, PutGrant)>,
    /// Versions of a key up to here are dead.
    dead: BTreeMap<String, Ticket>,
    scan: Option<Cursor>,
    /// Incarnations that are not there any more, and have not fallen silent yet.
    ghosts: Vec<MemberId>,
    adopted: u64,
    promoted: u64,
}

fn key(number: u64) -> String {
    format!("key{number}")
}

impl History {
    fn new(seed: u64) -> Self {
        let modes = [OffloadMode::Eager, OffloadMode::OnEvict, OffloadMode::Off];
        let config = Config {
            lease: Duration::from_millis(50),
            write_discard: Duration::from_millis(500),
            write_release: Duration::from_millis(2000),
            offload: modes[seed as usize % 3],
            offload_patience: Duration::from_millis(300),
            member_ttl: TTL,
            high_watermark: 1.0,
            promotion: PromotionMode::FirstHit,
            seed,
            ..Config::default()
        };
        let nodes = (1..=2).map(|number| Node {
            owner: Owner::blank(number),
            stage: Stage::Away,
            effects: VecDeque::new(),
            held: BTreeMap::new(),
            is_good: false,
            offered: 0,
            in_flight: BTreeMap::new(),
            fenced: BTreeSet::new(),
            outbox: VecDeque::new(),
        });
        let mut rig = rig(config);
        rig.catalog.expect_memory(rig.now);
        Self {
            rig,
            dice: Dice::new(seed),
            nodes: nodes.collect(),
            records: Vec::new(),
            open: Vec::new(),
            dead: BTreeMap::new(),
            scan: None,
            ghosts: Vec::new(),
            adopted: 0,
            promoted: 0,
        }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice.below(below)
    }

    fn step(&mut self) {
        let text = key(self.dice.below(KEYS));
        match self.roll(100) {
            0..18 => self.start(&text),
            18..36 => self.end(),
            36..41 => self.locate(&text),
            41..44 => self.prefetch(&text),
            44..50 => self.remove(&text),
            50..52 => self.scan_turn(),
            52..97 => self.node_step(),
            97..98 => match self.roll(4) {
                0 => self.restart(),
                _ => {
                    let ghost = self.ghosts.pop();
                    ghost.into_iter().for_each(|g| self.rig.catalog.leave(g));
                }
            },
            _ => {
                let ms = self.roll(60);
                self.rig.pass(ms);
            }
        }
        self.carry();
    }

    /// Records become durable and effects arrive at their members before anything else happens.
    fn carry(&mut self) {
        self.records.extend(self.rig.catalog.take_records());
        for effect in self.rig.catalog.take_effects() {
            if let Effect::Fence {
                member,
                ticket,
                placement,
            } = &effect
            {
                self.rig.catalog.fenced(*member, *ticket, placement.segment);
                let of_member = |node: &&mut Node| node.owner.member == *member;
                let told = self.nodes.iter_mut().find(of_member);
                told.into_iter().for_each(|n| n.fenced.extend([*ticket]));
                continue;
            }
            let mut nodes = self.nodes.iter_mut();
            let told = nodes.find(|n| n.stage != Stage::Away && n.owner.member == effect.member());
            if let Some(node) = told {
                node.effects.push_back(effect);
            }
        }
    }

    fn node_step(&mut self) {
        let index = self.roll(2) as usize;
        let what = self.roll(60);
        let (rig, dice, node) = (&mut self.rig, &mut self.dice, &mut self.nodes[index]);
        if node.stage == Stage::Away {
            if what < 6 {
                node.join(rig);
            }
            return;
        }
        match what {
            0 => {
                rig.catalog.leave(node.owner.member);
                node.stage = Stage::Away;
            }
            // A quick restart, with the last incarnation still thought to live.
            1 => {
                self.ghosts.push(node.owner.member);
                node.join(rig);
            }
            // A lost connection.
            2 => node.begin(rig),
            3..5 => {
                let evicted = node.owner.disk.pop_first();
                let gone = evicted.map(|(_, h)| (Stream::Space, Change::Gone(h.version)));
                node.outbox.extend(gone);
            }
            5..20 => node.obey(dice),
            20..32 => {
                let nth = dice.below(node.in_flight.len().max(1) as u64) as usize;
                if let Some(ticket) = node.in_flight.keys().nth(nth).copied() {
                    node.finish_offload(ticket);
                }
            }
            32..45 => node.page(rig),
            _ => node.tell(rig, dice),
        }
    }

    fn start(&mut self, text: &str) {
        let len = [0, 17, 5000, 12_000][self.roll(4) as usize];
        let wish = Wish {
            replicas: 1 + self.roll(2) as u8,
            ..Wish::default()
        };
        if let Ok(PutAnswer::Granted(grant)) = self.rig.start_wish(text, len, &wish) {
            for target in grant.targets.as_slice() {
                self.nodes.iter_mut().for_each(|node| node.write(target));
            }
            self.open.push((text.to_owned(), grant));
        }
    }

    fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let index = self.roll(self.open.len() as u64) as usize;
        let (text, grant) = self.open.swap_remove(index);
        if self.roll(5) == 0 {
            self.rig.catalog.revoke(&[grant.ticket]);
        } else if self.rig.end(grant.ticket).is_ok() {
            self.bury(&text, Ticket(grant.ticket.0 - 1));
        }
    }

    fn bury(&mut self, text: &str, upto: Ticket) {
        let dead = self.dead.entry(text.to_owned()).or_default();
        *dead = upto.max(*dead);
    }

    fn locate(&mut self, text: &str) {
        let Ok(Some(grant)) = self.rig.locate(text) else {
            return;
        };
        let dead = self.dead.get(text).copied().unwrap_or_default();
        assert!(grant.ticket > dead, "{text}: {} is dead", grant.ticket);
        self.rig.catalog.give_back(self.rig.now, &[grant.hold]);
    }

    /// Wishes all objects in memory, or takes a wish back.
    fn prefetch(&mut self, text: &str) {
        if self.roll(4) == 0 {
            let _was_under_way = self.rig.prefetch(text, Prefetch::Cancel);
            return;
        }
        for number in 0..KEYS {
            let wish = Prefetch::Begin(Priority::Normal);
            let _stays_where_it_is = self.rig.prefetch(&key(number), wish);
        }
    }

    fn remove(&mut self, text: &str) {
        let newest = self.rig.catalog.newest_ticket();
        let force = [Force::Yes, Force::No][self.roll(2) as usize];
        if let Ok(()) | Err(Code::ObjectNotFound) = self.rig.remove(text, force) {
            self.bury(text, newest);
        }
    }

    /// A turn of a scan that removes everything; writes that began before it are over.
    fn scan_turn(&mut self) {
        let under_way = self.scan;
        let at = match under_way {
            Some(at) => at,
            None if self.roll(10) > 0 => return,
            None => {
                while !self.open.is_empty() {
                    self.end();
                }
                self.carry();
                self.rig.catalog.scan_start()
            }
        };
        let all = Matcher::new("").unwrap();
        let action = ScanAction::Remove(Force::Yes);
        let page = self
            .rig
            .catalog
            .scan(self.rig.now, super::TENANT, &all, action, at);
        self.scan = page.next;
        if page.next.is_none() {
            for number in 0..KEYS {
                self.bury(&key(number), at.newest);
            }
        }
    }

    fn restart(&mut self) {
        self.adopted += self.rig.catalog.stats().adopted;
        self.promoted += self.rig.catalog.stats().promoted;
        next_life(&mut self.rig, self.records.clone());
        self.rig.catalog.expect_memory(self.rig.now);
        self.open.clear();
        self.scan = None;
        self.ghosts.clear();
        for node in &mut self.nodes {
            node.is_good = node.stage != Stage::Away;
            node.stage = Stage::Away;
            node.outbox.clear();
            node.effects.clear();
        }
    }

    /// Everything arrives: what is on disk then is what can be read, and nothing is owed.
    fn settle(mut self) -> [u64; 3] {
        while !self.open.is_empty() {
            self.end();
        }
        for ghost in std::mem::take(&mut self.ghosts) {
            self.rig.catalog.leave(ghost);
        }
        for index in 0..self.nodes.len() {
            let (rig, node) = (&mut self.rig, &mut self.nodes[index]);
            match node.stage {
                Stage::Away => node.join(rig),
                _ => node.begin(rig),
            }
            self.carry();
        }
        self.rig.pass(1000);
        for _ in 0..2 * BATCH_MAX {
            self.carry();
            let (rig, dice) = (&mut self.rig, &mut self.dice);
            for node in &mut self.nodes {
                node.obey(dice);
                node.page(rig);
                node.tell(rig, dice);
                if let Some(ticket) = node.in_flight.keys().next().copied() {
                    node.finish_offload(ticket);
                }
            }
        }
        self.rig.pass(1000);
        let promoting = self.rig.catalog.stats().promoting;
        assert_eq!(promoting, 0, "every copy has an end");
        for node in &self.nodes {
            assert!(node.effects.is_empty() && node.outbox.is_empty());
            for (ticket, held) in &node.owner.disk {
                let text = String::from_utf8_lossy(held.version.key.as_key().bytes()).into_owned();
                let found = self.rig.locate(&text).unwrap();
                assert_eq!(found.map(|grant| grant.ticket), Some(*ticket), "{text}");
            }
        }
        let stats = self.rig.catalog.stats();
        let owed = (stats.debts, stats.key_debts, stats.directories_absent);
        assert_eq!(owed, (0, 0, 0), "seed {}", self.rig.catalog.config().seed);
        let offered = self.nodes.iter().map(|node| node.offered).sum();
        [
            self.adopted + stats.adopted,
            offered,
            self.promoted + stats.promoted,
        ]
    }
}

#[test]
fn no_dead_version_is_ever_readable_again() {
    let [mut adopted, mut offered, mut promoted] = [0; 3];
    for seed in 0..24 {
        let mut history = History::new(seed);
        for _ in 0..4000 {
            history.step();
        }
        let [both, memory, copied] = history.settle();
        adopted += both;
        offered += memory;
        promoted += copied;
    }
    assert!(
        adopted > 1000 && offered > 100 && promoted > 10,
        "the histories adopt: {adopted}, of them {offered} from memory; they promote: {promoted}"
    );
}
