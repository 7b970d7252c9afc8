//! The SSD tier of one directory: an append-only log of records, an index of it in memory, and a log of tombstones.
//!
//! docs/ssd.md is the design, docs/formats/ssd-log.md the bytes. Refused here: which objects are offloaded, who is told of
//! it, and everything about memory. The tier runs on whatever executor polls it and starts no thread; all waiting is in
//! the [`Disk`].

pub mod format;

pub mod offline;

mod append;
mod budget;
mod cap;
mod clean;
mod logfile;
mod pack;
mod read;
mod readers;
mod recover;
mod scan;
mod tombs;

pub use append::{BATCH_BYTES, BATCH_OBJECTS, Item, Source};
pub use budget::{BURST, BudgetStats, PATIENCE, WriteBudget};
pub use cap::LOGICAL_CAP_MIN;
pub use format::codec::{Codec, LEVEL_MAX};
pub use pack::{Packing, pays};
pub use read::{Found, Wanted};
pub use recover::Recovered;

use budget::Governor;
use format::{record::Record, tomb::Tomb};
use futures_util::lock::Mutex as AsyncMutex;
use logfile::LogFile;
use readers::Readers;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};
use tombs::Tombs;
use ziggurat_base::{
    ByteCount, Clock, Code, DirectoryId, Era, Error, ObjectKey, Result, Ticket, Timestamp,
};
use ziggurat_engine::{
    evict::PolicyKind,
    shelf::holdings::{Held, Holdings, Names, PAYLOAD_END, Spot},
};
use ziggurat_io::Disk;

/// After an error for want of space the tier takes nothing for this long; then one batch may try.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// When a record counts as persistent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the write has landed: a loss of power may take it, a killed process does not.
    Buffered,
    /// When its batch is synced, together with whatever else has landed.
    #[default]
    Batch,
    /// As `Batch`, with batches of one object.
    Object,
}

impl Durability {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Buffered, Self::Batch, Self::Object];

    /// The name used in configuration and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Batch => "batch",
            Self::Object => "object",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|one| one.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                Error::new(
                    Code::InvalidParams,
                    format!("{text:?} is not a durability: use one of {names}"),
                )
            })
    }
}

/// What the tier of a directory should be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that the files may take.
    pub capacity: ByteCount,
    /// Bytes of payload, as it came, that may be held, whatever it takes on disk; without one as much as fits.
    pub logical_cap: Option<ByteCount>,
    /// Bytes of a log file. One that is larger than an eighth of the capacity or the cap is made smaller, so that there is always a
    /// file to write, one to clean, and some to keep.
    pub file_bytes: ByteCount,
    /// See [`Durability`].
    pub durability: Durability,
    /// Who leaves when the capacity is reached.
    pub policy: PolicyKind,
    /// Bytes of a batch; also the size of the pieces in which large objects are written.
    pub batch_bytes: ByteCount,
    /// How much may be written over time; without one as much as comes.
    pub write_budget: Option<WriteBudget>,
    /// How payloads are stored.
    pub packing: Packing,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            capacity: ByteCount::gib(1),
            logical_cap: None,
            file_bytes: ByteCount::mib(256),
            durability: Durability::default(),
            policy: PolicyKind::default(),
            batch_bytes: BATCH_BYTES,
            write_budget: None,
            packing: Packing::default(),
        }
    }
}

/// The least capacity of a directory.
pub const CAPACITY_MIN: ByteCount = ByteCount(2 << 20);

/// The least size of a log file.
const FILE_BYTES_MIN: u64 = 256 << 10;

/// What has changed since the last question: what the ledger tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The version is on disk, as persistent as the setting says.
    Present(Ticket),
    /// The version could not be written, and no restart will find it.
    Refused {
        /// Its tenant.
        tenant: Box<str>,
        /// Its key.
        key: ObjectKey,
        /// The version.
        ticket: Ticket,
    },
    /// It is not held any more and will not come back.
    Gone {
        /// Its tenant.
        tenant: Box<str>,
        /// Its key.
        key: ObjectKey,
        /// The version.
        ticket: Ticket,
    },
}

/// The tier in numbers. Counters run since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records held.
    pub records: u64,
    /// Bytes of their payloads as they came.
    pub logical_bytes: u64,
    /// Bytes of their payloads on disk.
    pub live_bytes: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Bytes of them that wait to be written: the rest of the file that takes batches.
    pub unwritten_bytes: u64,
    /// Bytes that the files may take.
    pub capacity: u64,
    /// Bytes of payload that may be held; 0 without a cap.
    pub logical_cap: u64,
    /// Log files.
    pub files: u64,
    /// Bytes of the index in memory.
    pub index_bytes: u64,
    /// Records written, copies left out.
    pub written: u64,
    /// Bytes of their payloads.
    pub written_bytes: u64,
    /// Bytes that those take on disk: fewer where they are compressed.
    pub stored_bytes: u64,
    /// How many of them are compressed.
    pub compressed: u64,
    /// Bytes written to disk in all: payloads, headers, padding, copies, footers, tombstones.
    pub device_bytes: u64,
    /// Records copied forward by cleaning.
    pub copied: u64,
    /// Bytes of their payloads.
    pub copied_bytes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Bytes of payload that they gave.
    pub read_bytes: u64,
    /// Records dropped because their bytes could not be read or not be proved.
    pub rotten: u64,
    /// How often bytes on disk did not have their sum.
    pub mismatched: u64,
    /// Records evicted.
    pub evicted: u64,
    /// Records dropped on request.
    pub discarded: u64,
    /// Batches that failed.
    pub write_errors: u64,
    /// What the write budget has done.
    pub budget: BudgetStats,
    /// Whether the tier takes nothing for want of space.
    pub full: bool,
}

impl Stats {
    /// Bytes written to disk for each byte of payload that came in; 0 before the first.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.written_bytes == 0 {
            return 0.0;
        }
        self.device_bytes as f64 / self.written_bytes as f64
    }

    /// Bytes of files that are neither a payload that lives nor waiting to be written: the dead, headers, padding.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        let used = self.live_bytes + self.unwritten_bytes;
        self.file_bytes.saturating_sub(used)
    }

    /// Bytes written to disk for each read that was answered: what a hit costs the drive; 0 before the first.
    #[must_use]
    pub fn bytes_per_hit(&self) -> f64 {
        if self.reads == 0 {
            return 0.0;
        }
        self.device_bytes as f64 / self.reads as f64
    }
}

/// The file that takes batches.
#[derive(Debug)]
struct Open {
    file: Arc<LogFile>,
    /// Where the next batch goes.
    end: u64,
    /// Bytes that its records will take in the footer.
    footer: u64,
}

#[derive(Debug, Default)]
struct State {
    holdings: Holdings,
    files: BTreeMap<u32, Arc<LogFile>>,
    open: Option<Open>,
    /// Files that take no more batches and are not sealed yet.
    retired: VecDeque<Arc<LogFile>>,
    /// Files that are out of the index and not yet off the disk for good, and what is told when they are.
    condemned: BTreeMap<u32, Vec<News>>,
    /// Where else a version may be on disk: older copies, and writes that were begun and did not succeed. A version is
    /// not dead for good while one of them could be found by a restart.
    shadows: BTreeMap<Ticket, BTreeSet<u32>>,
    /// Versions that were buried in files that may still take batches: their tombstones cover later records there too.
    graves: BTreeMap<u32, BTreeSet<Ticket>>,
    /// Versions that were discarded while they were being written: they do not become held.
    doomed: BTreeSet<Ticket>,
    /// Bytes of payload that are being written for callers.
    incoming: u64,
    next_file: u32,
    news: Vec<News>,
    /// Who waits for news.
    listener: Option<Waker>,
    full_until: Option<Timestamp>,
    highest: Ticket,
    stats: Stats,
}

impl State {
    /// Takes a record on. One that was held elsewhere has moved.
    fn take_on(&mut self, file: u32, record: &Record) {
        let held = Held {
            ticket: record.ticket,
            len: record.len,
            stored_len: record.stored_len,
            crc: record.crc,
            spot: Spot {
                file,
                at: record.at,
                header_at: record.header_at,
            },
            codec: record.codec as u8,
            hint: record.hint,
            pinned: record.pinned,
            heat: 0,
        };
        let names = Names {
            tenant: &record.tenant,
            key: record.key.as_key(),
            parent: record.parent.as_ref().map(ObjectKey::as_key),
            group: record.group.as_ref().map(ObjectKey::as_key),
        };
        let older = self.holdings.find(record.ticket);
        let mut shadows = self.shadows.remove(&record.ticket).unwrap_or_default();
        shadows.extend(older.map(|older| older.spot.file));
        shadows.remove(&file);
        if !shadows.is_empty() {
            self.shadows.insert(record.ticket, shadows);
        }
        let taken = self.holdings.insert(&held, &names);
        debug_assert!(taken, "a place in a file of at most 2 TiB");
    }

    /// Notes that a version may be found in a file, whatever becomes of its write.
    fn intend(&mut self, file: u32, ticket: Ticket) {
        self.shadows.entry(ticket).or_default().insert(file);
    }

    /// Drops a version from the index: every place that needs a tombstone, and the news if it was held.
    fn bury(&mut self, ticket: Ticket) -> Option<(Vec<Tomb>, Option<News>)> {
        let news = self
            .holdings
            .names(ticket)
            .map(|names| gone(ticket, &names));
        let held = self.holdings.remove(ticket);
        let shadows = self.shadows.remove(&ticket).unwrap_or_default();
        let files = shadows.into_iter().chain(held.map(|held| held.spot.file));
        let files: Vec<_> = files.collect();
        let tombs: Vec<_> = files.into_iter().map(|f| self.tomb(f, ticket)).collect();
        if held.is_none() && !tombs.is_empty() {
            self.doomed.insert(ticket);
        }
        (!tombs.is_empty()).then_some((tombs, news))
    }

    /// A tombstone for a version in a file.
    fn tomb(&mut self, file: u32, ticket: Ticket) -> Tomb {
        let open = self.open.as_ref().map(|open| open.file.number);
        let mut unsealed = self.retired.iter().map(|file| file.number).chain(open);
        if unsealed.any(|number| number == file) {
            self.graves.entry(file).or_default().insert(ticket);
        }
        Tomb { file, ticket }
    }

    /// Whether a version must not be written to a file, because a tombstone there would cover it.
    fn is_grave(&self, file: u32, ticket: Ticket) -> bool {
        let here = self.graves.get(&file);
        here.is_some_and(|dead| dead.contains(&ticket))
    }

    /// Forgets the shadows in files that are gone.
    fn forget_shadows(&mut self, gone: &[u32]) {
        self.shadows.retain(|_, files| {
            gone.iter().for_each(|file| {
                files.remove(file);
            });
            !files.is_empty()
        });
    }
}

fn gone(ticket: Ticket, names: &Names<'_>) -> News {
    News::Gone {
        tenant: names.tenant.into(),
        key: names.key.to_owned(),
        ticket,
    }
}

/// See the module.
pub struct SsdTier {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    directory: DirectoryId,
    options: Options,
    governor: Option<Governor>,
    file_bytes: u64,
    state: Mutex<State>,
    tombs: AsyncMutex<Tombs>,
    /// Held while a new file is made.
    rolling: AsyncMutex<()>,
    /// Held while space is made.
    cleaning: AsyncMutex<()>,
    /// Held while files are taken off the disk.
    removing: AsyncMutex<()>,
    /// Held while a file is sealed.
    sealing: AsyncMutex<()>,
    readers: Readers,
}

impl fmt::Debug for SsdTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SsdTier")
            .field("directory", &self.directory)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl SsdTier {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which directory this is.
    #[must_use]
    pub fn directory(&self) -> DirectoryId {
        self.directory
    }

    /// The disk below.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The highest era of any version that was ever seen in the directory: the partition's own must exceed it.
    #[must_use]
    pub fn highest_era(&self) -> Era {
        self.lock().highest.era()
    }

    /// Whether the version is held.
    #[must_use]
    pub fn holds(&self, ticket: Ticket) -> bool {
        self.lock().holdings.find(ticket).is_some()
    }

    /// Hands out what has changed since the last question, in order.
    #[must_use]
    pub fn take_news(&self) -> Vec<News> {
        std::mem::take(&mut self.lock().news)
    }

    /// As [`SsdTier::take_news`], once there is some. One caller waits at a time: a later one takes its place.
    pub async fn next_news(&self) -> Vec<News> {
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            if state.news.is_empty() {
                state.listener = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut state.news))
        })
        .await
    }

    /// Adds news, and wakes who waits for some.
    fn tell(&self, news: impl IntoIterator<Item = News>) {
        let listener = {
            let mut state = self.lock();
            state.news.extend(news);
            if state.news.is_empty() {
                return;
            }
            state.listener.take()
        };
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Looks at the records, a page at a time; see [`Holdings::walk`].
    pub fn look<T>(&self, look: impl FnOnce(&Holdings) -> T) -> T {
        look(&self.lock().holdings)
    }

    /// The tier in numbers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let governor = self.governor.as_ref();
        let budget = governor.map(|governor| governor.stats(self.clock.now()));
        let state = self.lock();
        let rest = |open: &Open| open.file.file.len().saturating_sub(open.end);
        Stats {
            records: state.holdings.count(),
            logical_bytes: state.holdings.logical_bytes(),
            unwritten_bytes: state.open.as_ref().map_or(0, rest),
            live_bytes: state.holdings.live_bytes(),
            file_bytes: state.holdings.file_bytes(),
            capacity: self.options.capacity.0,
            logical_cap: self.options.logical_cap.map_or(0, |cap| cap.0),
            files: state.files.len() as u64,
            index_bytes: state.holdings.memory().0,
            budget: budget.unwrap_or_default(),
            full: state.full_until.is_some(),
            ..state.stats
        }
    }

    /// Whether an object of this size could ever be held.
    #[must_use]
    pub fn could_hold(&self, len: u64) -> bool {
        let files = len.saturating_add(2 * self.file_bytes);
        len < PAYLOAD_END && files <= self.options.capacity.0 && len <= self.logical_cap()
    }

    /// Refuses to write while the disk is full, except for one trial now and then.
    fn check_full(&self) -> Result<()> {
        let now = self.clock.now();
        let mut state = self.lock();
        match state.full_until {
            Some(until) if now < until => Err(Error::new(
                Code::UnableOffloading,
                "the SSD directory has no room: it is tried again every second",
            )),
            Some(_) => {
                state.full_until = Some(now.after(FULL_PAUSE));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Notes how a write ended: one that failed for want of space pauses the tier, one that did not ends the pause.
    fn note_room(&self, result: &Result<()>) {
        let full = result
            .as_ref()
            .is_err_and(|e| e.code() == Code::NoAvailableHandle);
        let until = self.clock.now().after(FULL_PAUSE);
        let mut state = self.lock();
        match result {
            Ok(()) => state.full_until = None,
            Err(_) => {
                state.stats.write_errors += 1;
                if full {
                    state.full_until = Some(until);
                }
            }
        }
    }
}

/// How something held is stored.
fn codec_of(held: &Held) -> Codec {
    Codec::of(held.codec).expect("the number of a codec that a record had")
}

/// The record of something held, for a footer or a copy.
fn record_of(held: &Held, names: &Names<'_>) -> Record {
    Record {
        tenant: names.tenant.into(),
        key: names.key.to_owned(),
        ticket: held.ticket,
        len: held.len,
        stored_len: held.stored_len,
        at: held.spot.at,
        header_at: held.spot.header_at,
        crc: held.crc,
        codec: codec_of(held),
        hint: held.hint,
        pinned: held.pinned,
        parent: names.parent_owned(),
        group: names.group_owned(),
        table: Vec::new(),
    }
}
