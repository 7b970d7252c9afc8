//! The phases of one run, in the order in which each finds what it needs.

use super::{Pace, Run, key};
use crate::bench::stopwatch::{cpu_of, thread_cpu};
use std::time::Duration;
use ziggurat_base::{
    ByteCount, Code, Crc32, Era, Error, Key, MemberId, Result, SegmentId, TenantId, Timestamp,
    hash::{Dice, mix},
};
use ziggurat_engine::{
    catalog::{Catalog, Config, Matcher},
    command::{
        Effect, Force, Keep, Keys, MemberOffer, PutAnswer, PutEnd, PutItem, Recency, ScanAction,
        SegmentOffer, Wish, Written,
    },
    space::GRAIN,
};

const BATCH: u64 = 128;

/// The most keys that a phase looks at which does not have to see them all.
const SAMPLE_MAX: u64 = 2_000_000;

/// Share of the capacity that the keys take: a little below the watermark at which eviction begins.
const FILL: f64 = 0.89;

/// Objects that a full partition has no room for: batches of them, and bytes of each.
const LARGE_BATCHES: u64 = 200;
const LARGE_BYTES: u64 = 64 << 10;

/// Kinds of keys.
const LOADED: u64 = 1;
const ADDED: u64 = 2;
const LARGE: u64 = 3;
const LEFT: u64 = 4;

const TENANT: TenantId = TenantId(0);

/// See [`super`].
pub(super) struct Bench {
    keys: u64,
    catalog: Catalog,
    member: MemberId,
    segments: [SegmentId; 2],
    now: Timestamp,
    run: Run,
}

fn names(kind: u64, numbers: impl Iterator<Item = u64>) -> Vec<[u8; 32]> {
    numbers.map(|number| key(kind, number)).collect()
}

fn checked(names: &[[u8; 32]]) -> Vec<Key<'_>> {
    let checked = names.iter().map(|name| Key::new(name));
    checked
        .map(|key| key.expect("32 bytes are a key"))
        .collect()
}

fn batch<'a>(keys: &'a [Key<'a>]) -> Keys<'a> {
    Keys {
        tenant: TENANT,
        keys,
    }
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * rustix::param::page_size() as u64
}

impl Bench {
    /// An empty catalog with room for the keys on two segments.
    pub(super) fn new(keys: u64) -> Result<Self> {
        let now = Timestamp(1_000_000_000);
        let mut catalog = Catalog::new(Config::default(), Era(1));
        let offer = MemberOffer {
            in_process: true,
            ..MemberOffer::default()
        };
        let member = catalog.join(now, &offer)?;
        let capacity = (keys * GRAIN) as f64 / FILL / 2.0;
        let mut mount = |name: &str| {
            let offer = SegmentOffer {
                name: name.into(),
                capacity: ByteCount(capacity as u64),
                highest_era: Era(0),
                keep: Keep::Delegated,
                stock: Default::default(),
            };
            catalog.mount(now, member, &offer)
        };
        let segments = [mount("one")?, mount("two")?];
        Ok(Self {
            keys,
            catalog,
            member,
            segments,
            now,
            run: Run::default(),
        })
    }

    /// Goes through all phases.
    pub(super) fn run(mut self, progress: &mut dyn FnMut(&str)) -> Result<Run> {
        type Phase = fn(&mut Bench) -> Result<()>;
        let phases: [(&str, Phase); 10] = [
            ("load", Self::load),
            ("locate", Self::locate),
            ("regex scan without a match", Self::scan_nothing),
            ("put into a full partition", Self::evict),
            ("large put into a full partition", Self::evict_much),
            ("remove", Self::remove),
            ("cooling space", Self::cool),
            ("unfinished writes", Self::expire),
            ("loss of a segment", Self::lose),
            ("remove all", Self::remove_all),
        ];
        for (name, phase) in phases {
            progress(name);
            phase(&mut self)?;
            // What belongs to no phase is done between them.
            while self.catalog.tick(self.now).more {}
            self.acknowledge("fence");
        }
        Ok(self.run)
    }

    /// Times one call.
    fn turn<T>(
        &mut self,
        phase: &'static str,
        call: impl FnOnce(&mut Catalog, Timestamp) -> T,
    ) -> (T, Duration) {
        let now = self.now;
        let (answer, span) = cpu_of(|| call(&mut self.catalog, now));
        let longest = self.run.turns.entry(phase).or_default();
        *longest = span.max(*longest);
        (answer, span)
    }

    /// Time passes for everybody.
    fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// Begins and ends one batch; says how many were stored, and the time.
    fn put(&mut self, phase: &'static str, names: &[[u8; 32]], len: u64) -> (u64, Duration) {
        let keys = checked(names);
        let items: Vec<_> = keys.iter().map(|key| PutItem::new(*key, len)).collect();
        let (member, wish) = (self.member, Wish::default());
        let (granted, starting) = self.turn(phase, |catalog, now| {
            catalog.put_start(now, member, TENANT, &items, &wish)
        });
        let granted = granted.into_iter().filter_map(|answer| match answer {
            Ok(PutAnswer::Granted(grant)) => Some(grant.ticket),
            _ => None,
        });
        let ends: Vec<_> = granted
            .map(|ticket| PutEnd {
                ticket,
                crc: Crc32(1),
                written: Written::All,
            })
            .collect();
        let (_, ending) = self.turn(phase, |catalog, now| catalog.put_end(now, &ends));
        (ends.len() as u64, starting + ending)
    }

    fn load(&mut self) -> Result<()> {
        let before = resident();
        for start in (0..self.keys).step_by(BATCH as usize) {
            let names = names(LOADED, start..self.keys.min(start + BATCH));
            let (stored, span) = self.put("load", &names, 1);
            if stored != names.len() as u64 {
                return Err(Error::new(
                    Code::Internal,
                    "the partition was full too early",
                ));
            }
            self.run.put.items += stored;
            self.run.put.span += span;
        }
        let grown = resident().saturating_sub(before);
        self.run.bytes_per_key = grown as f64 / self.keys as f64;
        Ok(())
    }

    /// Random loaded keys, each once.
    fn sample(&self) -> Vec<[u8; 32]> {
        let mut dice = Dice::new(self.keys);
        let count = self.keys.min(SAMPLE_MAX);
        let mut numbers: Vec<_> = (0..count).map(|_| dice.below(self.keys)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.sort_by_key(|number| mix(*number));
        names(LOADED, numbers.into_iter())
    }

    fn locate(&mut self) -> Result<()> {
        let names = self.sample();
        let keys = checked(&names);
        let began = thread_cpu();
        let mut found = 0;
        for key in &keys {
            let key = [*key];
            let answers = self.catalog.locate(self.now, batch(&key), Recency::Touch);
            found += answers.iter().filter(|a| matches!(a, Ok(Some(_)))).count();
        }
        self.run.locate = Pace {
            items: keys.len() as u64,
            span: thread_cpu() - began,
        };
        if found != keys.len() {
            return Err(Error::new(Code::Internal, "a key that was put is missing"));
        }
        for keys in keys.chunks(BATCH as usize) {
            let (_, span) = self.turn("locate", |catalog, now| {
                catalog.locate(now, batch(keys), Recency::Touch)
            });
            self.run.locate_batched.items += keys.len() as u64;
            self.run.locate_batched.span += span;
        }
        Ok(())
    }

    fn scan(&mut self, phase: &'static str, pattern: &str, action: ScanAction) -> Result<()> {
        let matcher = Matcher::new(pattern)?;
        let mut cursor = Some(self.catalog.scan_start());
        while let Some(from) = cursor {
            let (page, _) = self.turn(phase, |catalog, now| {
                catalog.scan(now, TENANT, &matcher, action, from)
            });
            cursor = page.next;
        }
        Ok(())
    }

    fn scan_nothing(&mut self) -> Result<()> {
        self.scan("regex_scan", "^no key is text$", ScanAction::List)
    }

    /// Puts beyond the watermark: each batch pushes others out.
    fn evict(&mut self) -> Result<()> {
        self.pass(self.catalog.config().lease);
        let added = (self.keys / 4).clamp(BATCH, SAMPLE_MAX);
        let before = self.catalog.stats().evicted;
        for start in (0..added).step_by(BATCH as usize) {
            let names = names(ADDED, start..start + BATCH);
            self.put("evict", &names, 1);
        }
        if self.catalog.stats().evicted == before {
            return Err(Error::new(
                Code::Internal,
                "a full partition has evicted nothing",
            ));
        }
        Ok(())
    }

    /// Asks for long extents where all free ones are short: each turn evicts what its steps allow.
    fn evict_much(&mut self) -> Result<()> {
        for number in 0..LARGE_BATCHES.min(self.keys / BATCH / 8) {
            let names = names(LARGE, number * BATCH..(number + 1) * BATCH);
            self.put("evict_large", &names, LARGE_BYTES);
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.pass(self.catalog.config().lease);
        // Half of them, so that enough is left for the others.
        let mut names = self.sample();
        names.truncate(names.len() / 2);
        let keys = checked(&names);
        for keys in keys.chunks(BATCH as usize) {
            let (answers, span) = self.turn("remove", |catalog, now| {
                catalog.remove(now, batch(keys), Force::No)
            });
            // Those that were evicted meanwhile count for nothing.
            self.run.remove.items += answers.iter().filter(|a| a.is_ok()).count() as u64;
            self.run.remove.span += span;
        }
        Ok(())
    }

    /// Space that waits for the guards of its readers.
    fn cool(&mut self) -> Result<()> {
        let mut names = self.sample();
        names.reverse();
        names.truncate(names.len() / 4);
        let keys = checked(&names);
        for keys in keys.chunks(BATCH as usize) {
            self.catalog.locate(self.now, batch(keys), Recency::Keep);
            self.catalog.remove(self.now, batch(keys), Force::Yes);
        }
        self.pass(self.catalog.config().lease);
        self.tick_through("cool");
        Ok(())
    }

    /// Writes that nobody ends, and their fences.
    fn expire(&mut self) -> Result<()> {
        let names = names(LEFT, 0..SAMPLE_MAX.min(self.keys) / 8);
        let keys = checked(&names);
        for keys in keys.chunks(BATCH as usize) {
            let items: Vec<_> = keys.iter().map(|key| PutItem::new(*key, 1)).collect();
            let wish = Wish::default();
            self.catalog
                .put_start(self.now, self.member, TENANT, &items, &wish);
        }
        self.pass(self.catalog.config().write_release);
        self.tick_through("expire_writes");
        Ok(())
    }

    fn tick_through(&mut self, phase: &'static str) {
        loop {
            let (ticked, _) = self.turn(phase, |catalog, now| catalog.tick(now));
            self.acknowledge("fence");
            if !ticked.more {
                return;
            }
        }
    }

    /// Does what the owner of the memory does.
    fn acknowledge(&mut self, phase: &'static str) {
        for effect in self.catalog.take_effects() {
            let Effect::Fence {
                ticket, placement, ..
            } = effect
            else {
                continue;
            };
            let member = self.member;
            self.turn(phase, |catalog, _| {
                catalog.fenced(member, ticket, placement.segment);
            });
        }
    }

    /// A segment goes away with half of the objects.
    fn lose(&mut self) -> Result<()> {
        let (member, [_, segment]) = (self.member, self.segments);
        self.turn("lose_segment", |catalog, now| {
            catalog.unmount(now, member, segment, Duration::ZERO)
        })
        .0?;
        self.tick_through("lose_segment");
        Ok(())
    }

    fn remove_all(&mut self) -> Result<()> {
        self.scan("remove_all", "", ScanAction::Remove(Force::Yes))?;
        match self.catalog.stats().objects {
            0 => Ok(()),
            left => Err(Error::new(
                Code::Internal,
                format!("remove_all left {left} objects"),
            )),
        }
    }
}
