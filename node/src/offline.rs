//! An SSD directory that no process serves: looking into it, proving it, and clearing it up.
//!
//! Only [`gc`] changes anything. A directory that a process serves is refused: what is read while it is written would
//! look damaged.

use crate::ssd::{LOCK, SsdOptions, SsdPath};
use pollster::block_on;
use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
};
use ziggurat_base::{ByteCount, Clock, Code, Error, Result};
use ziggurat_io::{Disk, Pool};
use ziggurat_tiers::ssd::{
    Stats,
    format::identity,
    offline::{self, Fault, Placed, Report},
};

/// Memory for what is read at once.
const POOL_BYTES: u64 = 32 << 20;

/// A directory that was opened to be read, and that no process can begin to serve meanwhile.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// None where no process has ever served it.
    _lock: Option<File>,
}

impl Archive {
    /// Opens it.
    ///
    /// # Errors
    /// `FileNotFound` for a path that is missing or no directory of the store, `FileLockFail` for one that a process
    /// serves, and errors of the disk; all name the path.
    pub fn open(path: &Path) -> Result<Self> {
        let disk = ziggurat_io::open_to_read(path, &Pool::new(POOL_BYTES)?)?;
        is_ours(path)?;
        Ok(Self {
            path: path.to_owned(),
            disk,
            _lock: share(path)?,
        })
    }

    /// What it holds, without reading payloads.
    ///
    /// # Errors
    /// `InvalidVersion` for a directory of a later release, and errors of the disk.
    pub fn inspect(&self) -> Result<Report> {
        let mut report = self.doing(block_on(offline::inspect(&*self.disk)))?;
        report.foreign.retain(|name| name != LOCK);
        Ok(report)
    }

    /// Reads and proves everything. `progress` is told the bytes read so far and those of all payloads.
    ///
    /// # Errors
    /// As [`Archive::inspect`]. What is damaged is no error but a [`Fault`].
    pub fn verify(&self, progress: &mut (dyn FnMut(u64, u64) + Send)) -> Result<Vec<Fault>> {
        self.doing(block_on(offline::verify(&*self.disk, progress)))
    }

    /// Every record that is alive, in the order in which they lie on disk.
    ///
    /// # Errors
    /// As [`Archive::inspect`].
    pub fn records(&self) -> Result<Vec<Placed>> {
        self.doing(block_on(offline::records(&*self.disk)))
    }

    /// The payload of a record, proved.
    ///
    /// # Errors
    /// `ChecksumMismatch` when it is damaged, and errors of the disk.
    pub fn payload(&self, placed: &Placed) -> Result<Vec<u8>> {
        self.doing(block_on(offline::payload(&*self.disk, placed)))
    }

    fn doing<T>(&self, result: Result<T>) -> Result<T> {
        let what = format!("reading the SSD directory {}", self.path.display());
        result.map_err(|error| error.while_doing(&what))
    }
}

/// What clearing up has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The directory before.
    pub before: Stats,
    /// The directory after; its counters say what was copied and given up.
    pub after: Stats,
    /// What was odd, a line each.
    pub remarks: Vec<String>,
}

/// Gives the space of dead records back: removes files without live ones, and copies what lives in files that are mostly
/// dead.
///
/// # Errors
/// As [`Archive::open`], and errors of the disk.
pub fn gc(path: &Path, clock: &Arc<dyn Clock>) -> Result<Cleared> {
    let disk = ziggurat_io::open_to_read(path, &Pool::new(POOL_BYTES)?)?;
    is_ours(path)?;
    let room = block_on(disk.space())?.total;
    drop(disk);
    let options = SsdOptions {
        directories: vec![SsdPath {
            path: path.to_owned(),
            // Nothing is to be evicted.
            size: Some(ByteCount(room)),
        }],
        staging: ByteCount(POOL_BYTES),
        ..SsdOptions::default()
    };
    let opened = options.open("gc", clock)?;
    let opened = opened.first().expect("one directory was asked for");
    let tier = &opened.directory.tier;
    let before = tier.stats();
    loop {
        let held = tier.stats().file_bytes;
        block_on(tier.tend())?;
        if tier.stats().file_bytes >= held {
            break;
        }
    }
    Ok(Cleared {
        before,
        after: tier.stats(),
        remarks: opened.found.remarks.clone(),
    })
}

/// Before anything is made there.
fn is_ours(path: &Path) -> Result<()> {
    if path.join(identity::NAME).is_file() {
        return Ok(());
    }
    let what = format!(
        "{} is no SSD directory of the store: it has no {}; name the directory that was given with --ssd",
        path.display(),
        identity::NAME
    );
    Err(Error::new(Code::FileNotFound, what))
}

/// Keeps processes from serving the directory, without writing there.
fn share(path: &Path) -> Result<Option<File>> {
    let name = path.join(LOCK);
    let cannot = |cause: std::io::Error| {
        let what = format!(
            "{} cannot be opened: {cause}; check permissions",
            name.display()
        );
        Error::new(Code::FileOpenFail, what)
    };
    let file = match File::open(&name) {
        Ok(file) => file,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cannot(cause)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            Code::FileLockFail,
            format!("a process serves {}: stop it first", path.display()),
        )),
        Err(TryLockError::Error(cause)) => Err(cannot(cause)),
    }
}
