//! How a directory becomes a disk: every rung of the ladder is tried on the directory itself, best first, and what was
//! left out is told.

mod probe;

use crate::{
    buffer::Pool,
    disk::{Disk, Geometry},
    helper::Helper,
    local::{Engine, LocalDisk, directory::Directory},
    threads::Threads,
    uring::{self, Uring},
};
use probe::Probe;
use std::{fmt, path::Path, sync::Arc, time::Duration};
use ziggurat_base::{Code, Error, Result};

/// How a disk should be driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which engine.
    pub engine: Choice,
    /// Whether to go past the page cache.
    pub direct: Direct,
    /// How many requests io_uring has under way at most.
    pub depth: u32,
    /// How many threads the other engine has, which is how many requests it has under way.
    pub threads: u32,
    /// Let a thread of the kernel submit; it sleeps after this long without work, and takes a core until then.
    pub sqpoll: Option<Duration>,
    /// Let the device be asked for completions all the time, instead of waiting for its interrupts.
    pub iopoll: bool,
}

impl Options {
    /// Largest [`Options::depth`] and [`Options::threads`].
    pub const WINDOW_MAX: u32 = 4096;

    fn check(&self) -> Result<()> {
        for (name, value) in [("depth", self.depth), ("threads", self.threads)] {
            if !(1..=Self::WINDOW_MAX).contains(&value) {
                let what = format!(
                    "a disk cannot have {name} {value}; give it 1 to {}",
                    Self::WINDOW_MAX
                );
                return Err(Error::new(Code::InvalidParams, what));
            }
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            engine: Choice::Auto,
            direct: Direct::Auto,
            depth: 128,
            threads: 16,
            sqpoll: None,
            iopoll: false,
        }
    }
}

/// Which engine to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The best that works.
    #[default]
    Auto,
    /// io_uring, or none.
    Uring,
    /// Blocking threads.
    Threads,
}

/// Whether to go past the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the filesystem permits it.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// What was chosen, and why nothing better: for a log line, a metric and `ziggurat doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The engine.
    pub engine: EngineKind,
    /// What requests are aligned to, and whether they go past the page cache.
    pub geometry: Geometry,
    /// How many requests are under way at most.
    pub depth: u32,
    /// Files are known to the kernel by a table.
    pub registered_files: bool,
    /// The pool's memory is pinned for the kernel once and for all.
    pub registered_buffers: bool,
    /// A thread of the kernel submits.
    pub sqpoll: bool,
    /// The device is asked for completions.
    pub iopoll: bool,
    /// Why it is not better, one clause each.
    pub notes: Vec<String>,
}

/// The engines of real disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring.
    Uring,
    /// Blocking threads.
    Threads,
}

impl EngineKind {
    /// The name that settings and metrics use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Threads => "threads",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = if self.geometry.direct {
            "direct"
        } else {
            "buffered"
        };
        write!(
            f,
            "{}, {cache}, {} requests under way, blocks of {}",
            self.engine.name(),
            self.depth,
            self.geometry.block
        )?;
        let features = [
            (self.registered_files, "registered files"),
            (self.registered_buffers, "registered buffers"),
            (self.sqpoll, "sqpoll"),
            (self.iopoll, "iopoll"),
        ];
        for (_, name) in features.iter().filter(|(has, _)| *has) {
            write!(f, ", {name}")?;
        }
        if self.notes.is_empty() {
            return Ok(());
        }
        write!(f, "; not better: {}", self.notes.join("; "))
    }
}

/// Opens a directory as a disk whose buffers come from `pool`. Blocks while it tries what works.
///
/// # Errors
/// [`Code::FileNotFound`] for a directory that is missing, [`Code::FileOpenFail`] for one that cannot be used,
/// [`Code::NotSupported`] when io_uring was asked for and is refused, [`Code::InvalidParams`] for options out of range.
/// All name the path and how to mend it.
pub fn open(path: &Path, pool: &Pool, options: &Options) -> Result<(Arc<dyn Disk>, Report)> {
    options.check()?;
    let mut notes = Vec::new();
    let probe = Probe::new(path, &mut notes)?;
    let geometry = probe.geometry(pool, options.direct, &mut notes)?;
    let directory = Arc::new(Directory::new(path, geometry));
    let helper = Helper::start()?;
    let ladder = Ladder {
        probe: &probe,
        directory: &directory,
        pool,
        options,
        helper: &helper,
    };
    let (engine, mut report) = ladder.climb(&mut notes)?;
    report.notes = notes;
    let disk = LocalDisk::new(Arc::clone(&directory), pool.clone(), engine, helper);
    Ok((Arc::new(disk), report))
}

/// Whether a path leads to a directory.
///
/// # Errors
/// [`Code::FileNotFound`] when it leads nowhere, [`Code::FileOpenFail`] when to something else; both say what to do.
pub fn check_directory(path: &Path) -> Result<()> {
    let metadata = std::fs::metadata(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => {
            let what = format!(
                "the directory {} does not exist; make it, or name another",
                path.display()
            );
            Error::new(Code::FileNotFound, what)
        }
        _ => probe::unusable(path, &cause),
    })?;
    if metadata.is_dir() {
        return Ok(());
    }
    let what = format!("{} is a file; name a directory", path.display());
    Err(Error::new(Code::FileOpenFail, what))
}

/// Opens a directory as a disk on which nothing can be changed: also one on a filesystem that is read-only, and one that
/// somebody else serves. Reads pass through the page cache, from which the files are dropped first.
///
/// # Errors
/// [`Code::FileNotFound`] for a directory that is missing, [`Code::FileOpenFail`] for one that cannot be used.
pub fn open_to_read(path: &Path, pool: &Pool) -> Result<Arc<dyn Disk>> {
    /// Requests under way.
    const THREADS: u32 = 4;
    check_directory(path)?;
    let geometry = Geometry {
        memory: 1,
        block: probe::BLOCK_MIN,
        direct: false,
    };
    let helper = Helper::start()?;
    let engine = Threads::start(THREADS, geometry.block, helper.desk())?;
    let directory = Arc::new(Directory::fixed(path, geometry));
    Ok(Arc::new(LocalDisk::new(
        directory,
        pool.clone(),
        Box::new(engine),
        helper,
    )))
}

struct Ladder<'a> {
    probe: &'a Probe,
    directory: &'a Directory,
    pool: &'a Pool,
    options: &'a Options,
    helper: &'a Helper,
}

/// A rung of io_uring.
#[derive(Clone, Copy)]
struct Rung {
    sqpoll: Option<Duration>,
    iopoll: bool,
}

impl Ladder<'_> {
    /// The first engine that moves bytes on this directory.
    fn climb(&self, notes: &mut Vec<String>) -> Result<(Box<dyn Engine>, Report)> {
        if self.options.engine != Choice::Threads {
            for rung in self.rungs(notes) {
                match self.uring(rung, notes) {
                    Ok(chosen) => return Ok(chosen),
                    Err(error) => notes.push(format!("{}: {}", rung.name(), error.what())),
                }
            }
        }
        if self.options.engine == Choice::Uring {
            let what = format!(
                "io_uring does not work on {}: {}; use the engine `auto` or `threads`, or permit io_uring",
                self.probe.directory().display(),
                notes.join("; ")
            );
            return Err(Error::new(Code::NotSupported, what));
        }
        self.threads()
    }

    /// What is wanted first, and then without what may be refused.
    fn rungs(&self, notes: &mut Vec<String>) -> Vec<Rung> {
        let sqpoll = self.options.sqpoll;
        let iopoll = self.options.iopoll && self.directory.geometry().direct;
        if self.options.iopoll && !iopoll {
            notes.push("iopoll: only requests past the page cache can be polled for".into());
        }
        let mut rungs = vec![Rung { sqpoll, iopoll }];
        if iopoll {
            rungs.push(Rung {
                sqpoll,
                iopoll: false,
            });
        }
        if sqpoll.is_some() {
            rungs.push(Rung {
                sqpoll: None,
                iopoll: false,
            });
        }
        rungs
    }

    fn uring(&self, rung: Rung, notes: &mut Vec<String>) -> Result<(Box<dyn Engine>, Report)> {
        let plan = uring::Plan {
            depth: self.options.depth,
            block: self.directory.geometry().block,
            sqpoll: rung.sqpoll,
            iopoll: rung.iopoll,
        };
        let (engine, found) = Uring::start(self.pool, plan, self.helper.desk())
            .map_err(|cause| Error::new(Code::NotSupported, cause.to_string()))?;
        self.probe.try_engine(&engine, self.directory, self.pool)?;
        notes.extend(found.notes);
        let report = Report {
            engine: EngineKind::Uring,
            geometry: self.directory.geometry(),
            depth: self.options.depth,
            registered_files: found.files,
            registered_buffers: found.buffers,
            sqpoll: rung.sqpoll.is_some(),
            iopoll: rung.iopoll,
            notes: Vec::new(),
        };
        Ok((Box::new(engine), report))
    }

    fn threads(&self) -> Result<(Box<dyn Engine>, Report)> {
        let geometry = self.directory.geometry();
        let engine = Threads::start(self.options.threads, geometry.block, self.helper.desk())?;
        self.probe.try_engine(&engine, self.directory, self.pool)?;
        let report = Report {
            engine: EngineKind::Threads,
            geometry,
            depth: self.options.threads,
            registered_files: false,
            registered_buffers: false,
            sqpoll: false,
            iopoll: false,
            notes: Vec::new(),
        };
        Ok((Box::new(engine), report))
    }
}

impl Rung {
    fn name(self) -> &'static str {
        match (self.sqpoll.is_some(), self.iopoll) {
            (true, true) => "io_uring with sqpoll and iopoll",
            (true, false) => "io_uring with sqpoll",
            (false, true) => "io_uring with iopoll",
            (false, false) => "io_uring",
        }
    }
}
