//! A node as the partition's tests need it: memory that it feeds on, and a directory that outlives it.

use super::{MS, Rig};
use crate::{
    catalog::{Catalog, Config},
    command::{Effect, Keep, MemberOffer, OwnedTags, SegmentOffer, Stock},
    ledger::{Change, Holding, LedgerBatch, LedgerReply, Verdict, Version},
    record::Record,
};
use std::collections::BTreeMap;
use ziggurat_base::{
    ByteCount, Code, Crc32, DirectoryId, Era, Error, MemberId, ObjectKey, SegmentId, Ticket,
    Timestamp,
};

/// See the module.
pub(super) struct Owner {
    pub(super) directory: DirectoryId,
    pub(super) member: MemberId,
    pub(super) memory: SegmentId,
    pub(super) space: SegmentId,
    /// What lies in the directory.
    pub(super) disk: BTreeMap<Ticket, Holding>,
    /// The streams of the directory and of the memory: generation and last change.
    pub(super) told: (u64, u64),
    pub(super) told_memory: (u64, u64),
}

/// A version as an owner tells of it.
pub(super) fn holding(key: &str, ticket: Ticket, len: u64) -> Holding {
    Holding {
        version: Version {
            tenant: "default".into(),
            key: ObjectKey::new(key).unwrap(),
            ticket,
        },
        len,
        stored_len: len.next_multiple_of(512),
        crc: Crc32(1),
        tags: OwnedTags::default(),
        placement: None,
    }
}

/// A partition whose records somebody keeps, without members that give space.
pub(super) fn rig(config: Config) -> Rig {
    let mut rig = Rig::new(config, &[]);
    rig.catalog.absorb([]);
    rig
}

/// A later life of the partition, with what the earlier one left.
pub(super) fn next_life(rig: &mut Rig, records: impl IntoIterator<Item = Record>) {
    let era = Era(rig.catalog.era().0 + 1);
    rig.catalog = Catalog::new(rig.catalog.config().clone(), era);
    rig.catalog.absorb(records);
    rig.now = Timestamp(MS);
    let offer = MemberOffer {
        in_process: true,
        ..MemberOffer::default()
    };
    rig.node = rig.catalog.join(rig.now, &offer).unwrap();
    rig.writer = rig.catalog.join(rig.now, &offer).unwrap();
}

impl Owner {
    /// One that has joined nobody.
    pub(super) fn blank(directory: u128) -> Self {
        Self {
            directory: DirectoryId(directory),
            member: MemberId(0),
            memory: SegmentId(0),
            space: SegmentId(0),
            disk: BTreeMap::new(),
            told: (0, 0),
            told_memory: (0, 0),
        }
    }

    pub(super) fn join(rig: &mut Rig, directory: u128, memory: u64) -> Self {
        let mut owner = Self::blank(directory);
        owner.rejoin(rig, memory);
        owner
    }

    /// Comes as another incarnation: its memory is empty, its directory as it was.
    pub(super) fn rejoin(&mut self, rig: &mut Rig, memory: u64) {
        self.come(rig, memory, Stock::Fresh);
        self.mount(rig).unwrap();
        self.snapshot_memory(rig);
    }

    /// Comes as another incarnation with its memory alone.
    pub(super) fn come(&mut self, rig: &mut Rig, memory: u64, stock: Stock) {
        let offer = MemberOffer {
            in_process: true,
            feed: true,
            promotes: true,
            ..MemberOffer::default()
        };
        self.member = rig.catalog.join(rig.now, &offer).unwrap();
        let offer = SegmentOffer {
            name: format!("memory-{}-{}", self.directory, self.member).into(),
            capacity: ByteCount(memory),
            highest_era: Era(0),
            keep: Keep::Delegated,
            stock,
        };
        let mounted = rig.catalog.mount(rig.now, self.member, &offer);
        self.memory = mounted.unwrap();
        (self.told, self.told_memory) = ((0, 0), (0, 0));
    }

    pub(super) fn mount(&mut self, rig: &mut Rig) -> Result<(), Error> {
        let offer = SegmentOffer {
            name: format!("directory-{}", self.directory).into(),
            capacity: ByteCount(1 << 30),
            highest_era: Era(0),
            keep: Keep::Owned {
                directory: self.directory,
            },
            stock: Default::default(),
        };
        self.space = rig.catalog.mount(rig.now, self.member, &offer)?;
        Ok(())
    }

    pub(super) fn tell(
        &self,
        rig: &mut Rig,
        segment: SegmentId,
        batch: &LedgerBatch,
    ) -> Result<LedgerReply, Code> {
        let reply = rig.catalog.ledger(rig.now, self.member, segment, batch);
        reply.map_err(|error| error.code())
    }

    pub(super) fn begin(&mut self, rig: &mut Rig) {
        self.told.0 += 1;
        let begin = LedgerBatch::Begin {
            generation: self.told.0,
        };
        self.tell(rig, self.space, &begin).unwrap();
    }

    pub(super) fn page(&self, rig: &mut Rig, number: u64, holdings: Vec<Holding>) -> Vec<Verdict> {
        let page = LedgerBatch::Page {
            generation: self.told.0,
            number,
            holdings,
        };
        self.tell(rig, self.space, &page).unwrap().verdicts
    }

    pub(super) fn commit(&mut self, rig: &mut Rig) {
        let commit = LedgerBatch::Commit {
            generation: self.told.0,
            sequence: self.told.1,
        };
        self.tell(rig, self.space, &commit).unwrap();
    }

    /// Tells what lies in the directory; gives up what it has to discard, without telling that.
    pub(super) fn snapshot(&mut self, rig: &mut Rig) -> Vec<Verdict> {
        self.begin(rig);
        let all: Vec<_> = self.disk.values().cloned().collect();
        let verdicts = self.page(rig, 0, all);
        self.commit(rig);
        let mut verdict = verdicts.iter();
        self.disk
            .retain(|_, _| verdict.next() == Some(&Verdict::Taken));
        verdicts
    }

    pub(super) fn snapshot_memory(&mut self, rig: &mut Rig) {
        self.offer_memory(rig, Vec::new());
    }

    /// Tells what lies in memory, under the number that it has now.
    pub(super) fn offer_memory(&mut self, rig: &mut Rig, mut held: Vec<Holding>) -> Vec<Verdict> {
        for placement in held.iter_mut().filter_map(|h| h.placement.as_mut()) {
            placement.segment = self.memory;
        }
        self.told_memory = (self.told_memory.0 + 1, 0);
        let generation = self.told_memory.0;
        let begin = LedgerBatch::Begin { generation };
        self.tell(rig, self.memory, &begin).unwrap();
        let page = LedgerBatch::Page {
            generation,
            number: 0,
            holdings: held,
        };
        let verdicts = self.tell(rig, self.memory, &page).unwrap().verdicts;
        let commit = LedgerBatch::Commit {
            generation,
            sequence: 0,
        };
        self.tell(rig, self.memory, &commit).unwrap();
        verdicts
    }

    pub(super) fn change(&mut self, rig: &mut Rig, changes: Vec<Change>) -> Vec<Verdict> {
        let (generation, after) = self.told;
        self.told.1 += changes.len() as u64;
        let delta = LedgerBatch::Delta {
            generation,
            after,
            changes,
        };
        self.tell(rig, self.space, &delta).unwrap().verdicts
    }

    /// Tells changes of its memory.
    pub(super) fn change_memory(&mut self, rig: &mut Rig, changes: Vec<Change>) -> Vec<Verdict> {
        let (generation, after) = self.told_memory;
        self.told_memory.1 += changes.len() as u64;
        let delta = LedgerBatch::Delta {
            generation,
            after,
            changes,
        };
        self.tell(rig, self.memory, &delta).unwrap().verdicts
    }

    pub(super) fn forget_memory(&mut self, rig: &mut Rig, tickets: &[Ticket]) {
        let changes = tickets.iter().copied().map(Change::Forgotten).collect();
        self.change_memory(rig, changes);
    }

    /// Takes a version over into the directory and tells it.
    pub(super) fn take_over(&mut self, rig: &mut Rig, key: &str, ticket: Ticket, len: u64) -> bool {
        let new = holding(key, ticket, len);
        self.disk.insert(ticket, new.clone());
        let taken = self.change(rig, vec![Change::Present(new)]) == [Verdict::Taken];
        if !taken {
            self.disk.remove(&ticket);
        }
        taken
    }
}

/// The versions that effects ask to discard.
pub(super) fn discards(effects: &[Effect]) -> Vec<Ticket> {
    let discards = effects.iter().filter_map(|effect| match effect {
        Effect::Discard { tickets, .. } => Some(tickets.clone()),
        _ => None,
    });
    discards.flatten().collect()
}

/// The versions that effects tell to be retired.
pub(super) fn retired(effects: &[Effect]) -> Vec<Ticket> {
    let retired = effects.iter().filter_map(|effect| match effect {
        Effect::Retired { ticket, .. } => Some(*ticket),
        _ => None,
    });
    retired.collect()
}
