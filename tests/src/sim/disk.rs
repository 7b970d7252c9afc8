//! The disk of a simulated node: how fast it is, what goes wrong on it, and what a crash of its node leaves.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use ziggurat_base::{ByteCount, Clock, DirectoryId, hash::Dice};
use ziggurat_engine::evict::PolicyKind;
use ziggurat_io::{
    Geometry, Pool,
    mem::{Attempt, Fault, MemDisk, MemOptions, Op, Verdict},
};
use ziggurat_tiers::ssd::{Codec, Durability, LOGICAL_CAP_MIN, Options, Packing, WriteBudget};

/// What a world decides of its disks.
#[derive(Clone, Debug)]
pub(crate) struct DiskParams {
    pub(crate) options: Options,
    block: u32,
    /// Requests in ten thousand that fail and say so.
    errors: u64,
    /// Writes in ten thousand that go wrong without a word.
    lies: u64,
    /// Whether nodes offer what lies in their memory to the next master.
    pub(crate) reoffers: bool,
}

/// Where the records of a shard file begin.
const DATA_START: u64 = 64 << 10;

/// Memory for what is on its way to and from one disk.
const STAGING: u64 = 2 << 20;

impl DiskParams {
    pub(crate) fn rolled(dice: &mut Dice) -> Self {
        // Dice of their own: what is rolled after them does not depend on it.
        let packing = packing(&mut Dice::new(dice.clone().roll() ^ 0xc0_dec0));
        let (write_budget, logical_cap) = bounds(&mut Dice::new(dice.clone().roll() ^ 0xb0_4d5));
        let mut pick = |list: &[u64]| list[dice.below(list.len() as u64) as usize];
        let options = Options {
            capacity: ByteCount(pick(&[2, 3, 8, 16]) << 20),
            logical_cap,
            file_bytes: ByteCount(pick(&[256, 512, 1024]) << 10),
            batch_bytes: ByteCount(pick(&[64, 128, 512]) << 10),
            durability: match pick(&[0, 1, 2, 3]) {
                0 => Durability::Buffered,
                1 => Durability::Object,
                _ => Durability::Batch,
            },
            policy: PolicyKind::ALL[pick(&[0, 1, 2]) as usize],
            write_budget,
            packing,
        };
        Self {
            options,
            block: [512, 4096, 4096][pick(&[0, 1, 2]) as usize],
            errors: pick(&[0, 0, 3, 30]),
            lies: pick(&[0, 0, 0, 20]),
            reoffers: false,
        }
    }
}

/// What a third of the worlds may write over time, and a third may hold.
fn bounds(dice: &mut Dice) -> (Option<WriteBudget>, Option<ByteCount>) {
    let rate = [20, 60, 200][dice.below(3) as usize];
    let budget = WriteBudget::PerSecond(ByteCount::kib(rate));
    let has_budget = dice.below(3) == 0;
    let cap = LOGICAL_CAP_MIN.0 * (1 + dice.below(2));
    let has_cap = dice.below(3) == 0;
    (
        has_budget.then_some(budget),
        has_cap.then_some(ByteCount(cap)),
    )
}

/// How payloads are stored.
fn packing(dice: &mut Dice) -> Packing {
    Packing {
        codec: Codec::ALL[dice.below(3) as usize],
        level: 1 + dice.below(3) as u8,
    }
}

/// What the disk is up to.
pub(crate) struct Mood {
    dice: Dice,
    errors: u64,
    lies: u64,
    slowness: u32,
    counts: BTreeMap<&'static str, u64>,
}

impl Mood {
    pub(crate) fn new(dice: &mut Dice, errors: u64, lies: u64) -> Self {
        Self {
            dice: Dice::new(dice.roll()),
            errors,
            lies,
            slowness: 1,
            counts: BTreeMap::new(),
        }
    }

    /// Every request takes so many times as long.
    pub(crate) fn slow_down(&mut self, slowness: u32) {
        self.slowness = slowness;
    }

    /// Faults stop.
    pub(crate) fn calm(&mut self) {
        (self.errors, self.lies, self.slowness) = (0, 0, 1);
    }

    /// What went wrong, by kind.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }

    pub(crate) fn judge(&mut self, attempt: &Attempt<'_>) -> Verdict {
        let usual = match attempt.op {
            Op::Read => 40,
            Op::Write => 30,
            Op::Sync | Op::SyncNames => 300,
            _ => 10,
        };
        let micros = usual + self.dice.below(usual * 2);
        Verdict {
            fault: self.fault(attempt),
            delay: Duration::from_micros(micros) * self.slowness,
        }
    }

    fn fault(&mut self, attempt: &Attempt<'_>) -> Option<Fault> {
        let roll = self.dice.below(10_000);
        let len = attempt.range.end - attempt.range.start;
        if roll < self.errors {
            self.count("disk_error");
            return Some(Fault::Fails {
                blocks: self.dice.below(4),
            });
        }
        // Tombstones that a disk promised and did not keep are missed by nobody: no store can do without them. Nor without what
        // says of a shard file that it is one.
        let is_spared = |name: &str| {
            let is_start = name.starts_with("shard-") && attempt.range.start < DATA_START;
            is_start
                || ["tombs", "removed", "census"]
                    .iter()
                    .any(|kind| name.starts_with(kind))
        };
        let may_lie = attempt.op == Op::Write && !is_spared(attempt.file);
        if roll >= self.errors + self.lies || !may_lie {
            return None;
        }
        let (kind, fault) = match self.dice.below(4) {
            0 => ("disk_lost_write", Fault::Lost),
            1 => (
                "disk_torn_write",
                Fault::Torn {
                    blocks: self.dice.below(len / 512 + 1),
                },
            ),
            2 => (
                "disk_misplaced_write",
                Fault::Misplaced {
                    offset: self.dice.below(256 << 10) / 4096 * 4096,
                },
            ),
            _ => (
                "disk_rotten_write",
                Fault::Rot {
                    bit: self.dice.below(len * 8),
                },
            ),
        };
        self.count(kind);
        Some(fault)
    }

    fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }
}

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Its process was killed.
    Killed,
    /// Its machine lost power.
    PowerLost,
}

/// One directory on a disk that outlives its node's processes.
#[derive(Clone)]
pub(crate) struct NodeDisk {
    pub(crate) disk: MemDisk,
    pub(crate) directory: DirectoryId,
    pub(crate) options: Options,
    mood: Arc<Mutex<Mood>>,
    full_size: u64,
}

impl fmt::Debug for NodeDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}", self.directory)
    }
}

impl NodeDisk {
    pub(crate) fn new(params: &DiskParams, clock: Arc<dyn Clock>, dice: &mut Dice) -> Self {
        let pool = Pool::new(STAGING).expect("the machine has memory for a simulated disk");
        let full_size = params.options.capacity.0 * 2;
        let options = MemOptions {
            geometry: Geometry {
                memory: 512,
                block: params.block,
                direct: true,
            },
            capacity: full_size,
            clock: Some(clock),
        };
        let mood = Mood::new(dice, params.errors, params.lies);
        let directory = DirectoryId(u128::from(dice.roll()));
        let disk = Self {
            disk: MemDisk::new(&pool, options),
            directory,
            options: params.options.clone(),
            mood: Arc::new(Mutex::new(mood)),
            full_size,
        };
        disk.hook();
        disk
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hook(&self) {
        let mood = self.mood.clone();
        self.disk.set_hook(move |attempt| {
            let mut mood = mood.lock().unwrap_or_else(PoisonError::into_inner);
            mood.judge(attempt)
        });
    }

    /// Its node has ended: what was not durable may be lost.
    pub(crate) fn crash(&mut self, crash: Crash) {
        let dice = &mut Dice::new(self.mood().dice.roll());
        self.disk = match crash {
            Crash::Killed => self.disk.kill(dice),
            Crash::PowerLost => self.disk.crash(dice),
        };
        self.hook();
    }

    /// Whether a crash of this kind leaves everything that was acknowledged.
    pub(crate) fn keeps(&self, crash: Crash) -> bool {
        let synced = self.options.durability != Durability::Buffered;
        !self.has_lied() && (synced || crash == Crash::Killed)
    }

    /// How many requests have failed.
    pub(crate) fn errors(&self) -> u64 {
        self.mood().counts.get("disk_error").copied().unwrap_or(0)
    }

    /// Whether what it answered was ever not what it did, or what it kept is not what it was given.
    pub(crate) fn has_lied(&self) -> bool {
        let mood = self.mood();
        mood.counts.keys().any(|kind| *kind != "disk_error")
    }

    /// Every request takes so many times as long.
    pub(crate) fn slow_down(&self, slowness: u32) {
        self.mood().slow_down(slowness);
    }

    /// Nothing more fits on it, until there is [`NodeDisk::room`] again.
    pub(crate) fn fill(&self) {
        self.disk.set_capacity(0);
    }

    pub(crate) fn room(&self) {
        self.disk.set_capacity(self.full_size);
    }

    /// A bit flips in one of its files.
    pub(crate) fn rot(&self) {
        let files = self.disk.files();
        let mut mood = self.mood();
        let chosen = mood.dice.below(files.len().max(1) as u64) as usize;
        if let Some(file) = files.get(chosen).filter(|file| file.len > 0)
            && self
                .disk
                .rot(&file.name, 0..file.len, &mut mood.dice)
                .is_ok()
        {
            mood.count("disk_rot");
        }
    }

    /// Faults stop.
    pub(crate) fn calm(&self) {
        self.mood().calm();
        self.room();
    }

    /// What went wrong, by kind.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.mood().counts()
    }
}
