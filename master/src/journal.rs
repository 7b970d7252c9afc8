//! The durable facts of a partition in its state directory: one append-only file, written by one thread.
//!
//! Callers append under the partition's lock, so that the order in the file is the order in which things happened, and wait
//! outside of it. Whoever waits shares the sync with everybody who appended before it began. A write that fails is reported
//! to those who wait, and tried again with the next one: the facts are still true. When the file is mostly paid debts it is
//! written anew.

mod format;
mod image;

pub use format::{Contents, decode_file};

use format::{BATCH_RECORDS_MAX, UNIT, encode_batch, file_header};
use image::Image;
use std::{
    fs::{self, File},
    io::{self, Seek as _, SeekFrom, Write as _},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    thread::{self, JoinHandle},
};
use tracing::{error, info, warn};
use ziggurat_base::{Code, Error};
use ziggurat_engine::record::Record;

/// Its name in the state directory.
const FILE: &str = "records";

/// The file is written anew when it is twice as long as it has to be, and longer than this.
const REWRITE_MIN: u64 = 4 << 20;

/// A place in the sequence of everything that was appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

#[derive(Debug, Default)]
struct State {
    pending: Vec<Record>,
    /// Everything that was appended, everything that is durable, and what a failed write was tried for.
    appended: Mark,
    durable: Mark,
    failed: Option<(Mark, Error)>,
    wakers: Vec<Waker>,
    is_closing: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Rings for the writer.
    work: Condvar,
    /// Rings for those who wait on their thread.
    done: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What one who waits for a mark is told; `None` while it is under way.
    fn outcome(&self, mark: Mark) -> Option<Result<(), Error>> {
        if self.durable >= mark {
            return Some(Ok(()));
        }
        let failed = self.failed.as_ref();
        failed
            .filter(|(tried, _)| *tried >= mark)
            .map(|(_, error)| Err(error.clone()))
    }
}

/// See the module.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens the file of a state directory, making it when there is none, and reads what it holds. Only one process may have
    /// it open.
    ///
    /// # Errors
    /// `FileLockFail` when another process has it, `SerializeUnsupported` for a later version, `PersistentFail` otherwise; all
    /// name the path.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Record>), Error> {
        let path = dir.join(FILE);
        let (file, contents) = Writer::open(&path)?;
        let image = Image::of(&contents.records);
        let records: Vec<_> = image.records().collect();
        let shared: Arc<Shared> = Arc::default();
        let writer = Writer {
            path,
            len: contents.good_len,
            batches: contents.batches,
            file,
            rewrite_at: REWRITE_MIN,
            is_renamed: false,
            shared: shared.clone(),
        };
        let spawned = thread::Builder::new().name("records".into());
        let writer = spawned.spawn(move || writer.run()).map_err(|error| {
            let what = format!("cannot start the thread that writes records: {error}");
            Error::new(Code::PersistentFail, what)
        })?;
        let journal = Self {
            shared,
            writer: Some(writer),
        };
        Ok((journal, records))
    }

    /// Adds records behind everything that was added before; says where they end.
    pub fn append(&self, records: Vec<Record>) -> Mark {
        let mut state = self.shared.lock();
        state.appended.0 += records.len() as u64;
        state.pending.extend(records);
        self.shared.work.notify_one();
        state.appended
    }

    /// The end of what was added, when it is not durable yet.
    #[must_use]
    pub fn tail(&self) -> Option<Mark> {
        let state = self.shared.lock();
        (state.durable < state.appended).then_some(state.appended)
    }

    /// Completes when everything up to the mark is durable.
    ///
    /// # Errors
    /// `PersistentFail` when it could not be written.
    pub async fn wait(&self, mark: Mark) -> Result<(), Error> {
        std::future::poll_fn(|context| {
            let mut state = self.shared.lock();
            if let Some(outcome) = state.outcome(mark) {
                return Poll::Ready(outcome);
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// As [`Journal::wait`], on the calling thread.
    ///
    /// # Errors
    /// As [`Journal::wait`].
    pub fn wait_here(&self, mark: Mark) -> Result<(), Error> {
        let mut state = self.shared.lock();
        loop {
            if let Some(outcome) = state.outcome(mark) {
                return outcome;
            }
            let waited = self.shared.done.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.work.notify_one();
        if let Some(writer) = self.writer.take() {
            let _panicked_and_said_so = writer.join();
        }
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    /// Bytes and batches that are good.
    len: u64,
    batches: u64,
    /// The length from which on the file is looked at for what is not true any more.
    rewrite_at: u64,
    /// Whether a file was put in the place of another one and the directory has not been synced.
    is_renamed: bool,
    shared: Arc<Shared>,
}

impl Writer {
    fn open(path: &Path) -> Result<(File, Contents), Error> {
        let failed = |doing: &str, error: io::Error| {
            let what = format!(
                "cannot {doing} {}: {error}; the state directory must be writable",
                path.display()
            );
            Error::new(Code::PersistentFail, what)
        };
        let options = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let mut file = options.map_err(|e| failed("open", e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let what = format!(
                    "{} is in use by another master: stop it, or give another --state-dir",
                    path.display()
                );
                return Err(Error::new(Code::FileLockFail, what));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed("lock", error)),
        }
        let bytes = fs::read(path).map_err(|e| failed("read", e))?;
        // A file shorter than its header was never synced: nobody was answered for anything in it.
        if bytes.len() < UNIT {
            let good_len = start(path, &mut file).map_err(|e| failed("begin", e))?;
            let contents = Contents {
                good_len,
                ..Contents::default()
            };
            return Ok((file, contents));
        }
        let contents = decode_file(&bytes)
            .map_err(|error| error.while_doing(format!("read {}", path.display())))?;
        file.set_len(contents.good_len)
            .map_err(|e| failed("cut the torn end of", e))?;
        Ok((file, contents))
    }

    fn run(mut self) {
        loop {
            let (records, mark) = {
                let mut state = self.shared.lock();
                while state.pending.is_empty() && !state.is_closing {
                    let waited = self.shared.work.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
                if state.pending.is_empty() {
                    return;
                }
                (mem::take(&mut state.pending), state.appended)
            };
            let written = self.write(&records);
            let has_failed = written.is_err();
            self.settle(records, mark, written);
            if has_failed && self.wait_for_more() {
                return;
            }
        }
    }

    /// Tells those who wait.
    fn settle(&self, mut records: Vec<Record>, mark: Mark, written: io::Result<()>) {
        let mut state = self.shared.lock();
        match written {
            Ok(()) => {
                state.durable = mark;
                state.failed = None;
            }
            Err(failure) => {
                error!(path = %self.path.display(), %failure, "records of the partition cannot be written");
                records.append(&mut state.pending);
                state.pending = records;
                let what = format!(
                    "cannot write {}: {failure}; the state directory must be writable",
                    self.path.display()
                );
                state.failed = Some((mark, Error::new(Code::PersistentFail, what)));
            }
        }
        state.wakers.drain(..).for_each(Waker::wake);
        self.shared.done.notify_all();
    }

    /// After a failure the next one who appends tries again. Says whether nobody will.
    fn wait_for_more(&self) -> bool {
        let mut state = self.shared.lock();
        let tried = state.failed.as_ref().map(|(mark, _)| *mark);
        while Some(state.appended) == tried && !state.is_closing {
            let waited = self.shared.work.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.is_closing
    }

    fn write(&mut self, records: &[Record]) -> io::Result<()> {
        let (bytes, batches) = encode(self.batches, records);
        // What a failed write has left behind is overwritten or cut off, never read.
        self.file.set_len(self.len)?;
        self.file.seek(SeekFrom::Start(self.len))?;
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.sync_renamed()?;
        self.len += bytes.len() as u64;
        self.batches = batches;
        if self.len >= self.rewrite_at {
            if let Err(failure) = self.rewrite() {
                warn!(path = %self.path.display(), %failure, "the records could not be written anew");
            }
            self.rewrite_at = (self.len * 2).max(REWRITE_MIN);
        }
        self.sync_renamed()
    }

    /// What is written to a file counts only once its name is durable.
    fn sync_renamed(&mut self) -> io::Result<()> {
        if self.is_renamed {
            sync_parent(&self.path)?;
            self.is_renamed = false;
        }
        Ok(())
    }

    /// Writes the file anew when it is mostly what is not true any more.
    fn rewrite(&mut self) -> io::Result<()> {
        let bytes = fs::read(&self.path)?;
        let contents = decode_file(&bytes).map_err(io::Error::other)?;
        let image = Image::of(&contents.records);
        if (image.len() * UNIT) as u64 > self.len / 2 {
            return Ok(());
        }
        // Locked before it has the name, so that at no time two processes can have it.
        let fresh_path = self.path.with_extension("new");
        let mut fresh = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh_path)?;
        fresh.try_lock()?;
        let all: Vec<_> = image.records().collect();
        let (body, batches) = encode(0, &all);
        let out = [file_header().to_vec(), body].concat();
        fresh.write_all(&out)?;
        fresh.sync_all()?;
        fs::rename(&fresh_path, &self.path)?;
        self.is_renamed = true;
        info!(path = %self.path.display(), records = all.len(), "the records were written anew");
        (self.len, self.batches) = (out.len() as u64, batches);
        self.file = fresh;
        Ok(())
    }
}

/// Records as batches from `number` on, and the number of the next one.
fn encode(number: u64, records: &[Record]) -> (Vec<u8>, u64) {
    let numbered = (number..).zip(records.chunks(BATCH_RECORDS_MAX));
    let bytes = numbered.flat_map(|(number, some)| encode_batch(number, some));
    let batches = records.len().div_ceil(BATCH_RECORDS_MAX) as u64;
    (bytes.collect(), number + batches)
}

/// Begins a file; returns its length.
fn start(path: &Path, file: &mut File) -> io::Result<u64> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&file_header())?;
    file.sync_all()?;
    sync_parent(path)?;
    Ok(UNIT as u64)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
