//! The simulated disk: files in memory, with a durable state beside the visible one, and faults on demand.
//!
//! It is as unkind as a real disk may be and no more. A write is visible at once and durable only after a sync that was
//! started after the write had landed; *landed* means that its flight was awaited to the end. A crash keeps, loses or
//! tears each write that is not durable, and keeps or loses each name that was not synced. A sync that fails makes what
//! it covered undurable for good, as Linux does. Nothing here has a thread: flights make progress when they are polled,
//! and the same calls give the same history.

mod content;
mod fault;
mod file;
mod names;

pub use fault::{Attempt, Fault, Hook, Op, Verdict};

use crate::{
    buffer::Pool,
    disk::{Disk, File, FileStat, Geometry, Space},
    door::check_name,
};
use content::{Inode, Room};
use fault::{Counter, Faults};
use file::MemFile;
use names::{Change, Names};
use std::{
    fmt,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use ziggurat_base::{Clock, Code, Error, Job, Result, hash::Dice};

/// What a [`MemDisk`] should be.
#[derive(Clone)]
pub struct MemOptions {
    /// What requests must be aligned to; `block` is also what a crash tears writes into.
    pub geometry: Geometry,
    /// Bytes that all files together may have.
    pub capacity: u64,
    /// Whose time delays are in; without a clock nothing may be delayed.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for MemOptions {
    fn default() -> Self {
        Self {
            geometry: Geometry {
                memory: 512,
                block: 512,
                direct: true,
            },
            capacity: 1 << 40,
            clock: None,
        }
    }
}

impl fmt::Debug for MemOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemOptions")
            .field("geometry", &self.geometry)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// What was asked of a disk since it was made. Requests that failed are counted too, their bytes are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Data syncs, those of writes included.
    pub syncs: u64,
    /// Bytes that syncs made durable.
    pub bytes_synced: u64,
    /// Syncs of the names.
    pub name_syncs: u64,
}

/// What a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    /// The machine lost power: what was not synced may be gone.
    Power,
    /// The process was killed: what had landed is there.
    Process,
}

/// See the module. Clones are the same disk.
#[derive(Clone)]
pub struct MemDisk {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool,
    geometry: Geometry,
    clock: Option<Arc<dyn Clock>>,
    room: Arc<Room>,
    names: Mutex<Names>,
    faults: Faults,
    counter: Counter,
}

impl MemDisk {
    /// An empty disk whose buffers come from `pool`.
    #[must_use]
    pub fn new(pool: &Pool, options: MemOptions) -> Self {
        let room = Arc::new(Room::new(options.capacity));
        Self::with(
            pool,
            options.geometry,
            options.clock,
            room,
            Names::default(),
        )
    }

    fn with(
        pool: &Pool,
        geometry: Geometry,
        clock: Option<Arc<dyn Clock>>,
        room: Arc<Room>,
        names: Names,
    ) -> Self {
        let whole = geometry.block.is_power_of_two() && geometry.block as usize <= Pool::GRAIN;
        assert!(
            whole,
            "a simulated disk cannot have blocks like {geometry:?}"
        );
        Self {
            shared: Arc::new(Shared {
                pool: pool.clone(),
                geometry,
                clock,
                room,
                names: Mutex::new(names),
                faults: Faults::default(),
                counter: Counter::default(),
            }),
        }
    }

    /// The disk as a restart after a loss of power finds it. This one stays as it is: many crashes of one moment can be
    /// tried. The new disk has no faults and counts from zero.
    #[must_use]
    pub fn crash(&self, dice: &mut Dice) -> Self {
        self.after(Crash::Power, dice)
    }

    /// The disk as the next process finds it when this one was killed: only what was under way may be lost or torn.
    /// Nothing becomes durable by it.
    #[must_use]
    pub fn kill(&self, dice: &mut Dice) -> Self {
        self.after(Crash::Process, dice)
    }

    fn after(&self, crash: Crash, dice: &mut Dice) -> Self {
        let shared = &self.shared;
        let room = Arc::new(Room::new(shared.room.capacity()));
        let names = shared.names().after(crash, dice, &room);
        Self::with(
            &shared.pool,
            shared.geometry,
            shared.clock.clone(),
            room,
            names,
        )
    }

    /// Asks `hook` what happens to each request from now on.
    pub fn set_hook(&self, hook: impl FnMut(&Attempt<'_>) -> Verdict + Send + 'static) {
        self.shared.faults.set(Box::new(hook));
    }

    /// Adds a fault for the `nth` request of this kind from now on, counted from 1, whatever the hook says.
    pub fn plan(&self, op: Op, nth: u64, fault: Fault) {
        self.shared.faults.plan(op, nth, fault);
    }

    /// Changes how many bytes all files together may have; files that are there stay.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.room.set_capacity(bytes);
    }

    /// Flips one bit in a range of a file, in what is visible and in what is durable, and says at which byte.
    ///
    /// # Errors
    /// [`Code::FileNotFound`].
    pub fn rot(&self, name: &str, range: Range<u64>, dice: &mut Dice) -> Result<u64> {
        let inode = self.shared.find(name)?;
        assert!(
            range.start < range.end && range.end <= inode.len(),
            "{range:?} is not inside `{name}`"
        );
        let at = range.start + dice.below(range.end - range.start);
        inode.rot(at, 1 << dice.below(8));
        Ok(at)
    }

    /// What is visible of a file, past requests, buffers and faults.
    ///
    /// # Errors
    /// [`Code::FileNotFound`].
    pub fn bytes(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>> {
        let inode = self.shared.find(name)?;
        assert!(range.end <= inode.len(), "{range:?} is not inside `{name}`");
        Ok(inode.visible(range))
    }

    /// The files that there are, past requests and faults.
    #[must_use]
    pub fn files(&self) -> Vec<FileStat> {
        self.shared.names().list()
    }

    /// What was asked so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counter.get()
    }
}

impl fmt::Debug for MemDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemDisk")
            .field("geometry", &self.shared.geometry)
            .field("names", &self.shared.names().list().len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<Arc<Inode>> {
        check_name(name)?;
        self.names().get(name).ok_or_else(|| {
            let what = format!("there is no file `{name}` on the simulated disk");
            Error::new(Code::FileNotFound, what)
        })
    }

    /// Asks for the verdict on a request, and turns its delay into something to wait for.
    fn judge(
        &self,
        op: Op,
        file: &str,
        range: Range<u64>,
    ) -> (Option<Fault>, Option<Job<'static, ()>>) {
        let now = self.clock.as_ref().map(|clock| clock.now());
        let verdict = self.faults.judge(op, file, range, now.unwrap_or_default());
        if verdict.delay.is_zero() {
            return (verdict.fault, None);
        }
        let clock = self
            .clock
            .as_ref()
            .expect("who delays requests has given the disk a clock");
        let due = clock.now().after(verdict.delay);
        (verdict.fault, Some(clock.sleep_until(due)))
    }

    /// A call that has no buffers: judged at once, carried out when its delay is over.
    fn call<'a, T: Send + 'a>(
        &self,
        op: Op,
        file: &str,
        work: impl FnOnce() -> Result<T> + Send + 'a,
    ) -> Job<'a, Result<T>> {
        let (fault, delay) = self.judge(op, file, 0..0);
        let failed = fault
            .filter(|fault| fault.is_told())
            .map(|fault| fault.error(op, file));
        Box::pin(async move {
            if let Some(delay) = delay {
                delay.await;
            }
            match failed {
                Some(error) => Err(error),
                None => work(),
            }
        })
    }
}

impl Disk for MemDisk {
    fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    fn space(&self) -> Job<'_, Result<Space>> {
        self.shared
            .call(Op::Space, "", || Ok(self.shared.room.space()))
    }

    fn list(&self) -> Job<'_, Result<Vec<FileStat>>> {
        self.shared
            .call(Op::List, "", || Ok(self.shared.names().list()))
    }

    fn create<'a>(&'a self, name: &'a str, len: u64) -> Job<'a, Result<Arc<dyn File>>> {
        self.shared.call(Op::Create, name, move || {
            check_name(name)?;
            let mut names = self.shared.names();
            if names.get(name).is_some() {
                let what = format!("the file `{name}` exists already");
                return Err(Error::new(Code::FileOpenFail, what));
            }
            let inode = Inode::create(&self.shared.room, name, len, self.shared.geometry.block)?;
            names.apply(Change::Link(name.to_owned(), Arc::clone(&inode)));
            Ok(MemFile::open(&self.shared, name, inode))
        })
    }

    fn open<'a>(&'a self, name: &'a str) -> Job<'a, Result<Arc<dyn File>>> {
        self.shared.call(Op::Open, name, move || {
            let inode = self.shared.find(name)?;
            Ok(MemFile::open(&self.shared, name, inode))
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Job<'a, Result<()>> {
        self.shared.call(Op::Remove, name, move || {
            self.shared.find(name)?;
            self.shared.names().apply(Change::Unlink(name.to_owned()));
            Ok(())
        })
    }

    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> Job<'a, Result<()>> {
        self.shared.call(Op::Rename, from, move || {
            check_name(to)?;
            let inode = self.shared.find(from)?;
            let change = Change::Move(from.to_owned(), to.to_owned(), inode);
            self.shared.names().apply(change);
            Ok(())
        })
    }

    fn sync_names(&self) -> Job<'_, Result<()>> {
        // As with data: only what was done before the call is covered, even when the call takes its time.
        let covered = self.shared.names().mark();
        self.shared.call(Op::SyncNames, "", move || {
            self.shared.names().sync(covered);
            self.shared.counter.add(|counts| counts.name_syncs += 1);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
