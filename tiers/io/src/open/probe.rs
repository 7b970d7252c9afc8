//! A small file on which a directory's abilities are tried. It is gone when the value is.

use super::{Direct, check_directory};
use crate::{
    answer::answer,
    buffer::{Buffer, Pool},
    disk::{Geometry, Request},
    local::{
        Engine, Work,
        directory::{Directory, PROBE},
        handle::Handle,
    },
    sys::{self, DirectAlign},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use ziggurat_base::{Code, Error, Result};

/// Two of the largest blocks.
const LEN: u64 = 2 * BLOCK_MAX as u64;
const BLOCK_MAX: u32 = 4096;
/// What layouts are aligned to where the filesystem wants nothing.
pub(super) const BLOCK_MIN: u32 = 512;

/// Tells apart the probes of one process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// See the module.
pub(super) struct Probe {
    directory: PathBuf,
    name: String,
    file: File,
    /// There is no room for its bytes: what needs them is believed untried.
    is_full: bool,
}

impl Probe {
    /// Makes the file, and removes what an interrupted start has left.
    pub(super) fn new(directory: &Path, notes: &mut Vec<String>) -> Result<Self> {
        check_directory(directory)?;
        sweep(directory);
        let (name, file) = make(directory).map_err(|cause| unusable(directory, &cause))?;
        let mut probe = Self {
            directory: directory.to_owned(),
            name,
            file,
            is_full: false,
        };
        match probe
            .file
            .write_all_at(&[0; LEN as usize], 0)
            .and_then(|()| probe.file.sync_all())
        {
            Ok(()) => {}
            Err(cause) if is_no_room(&cause) => {
                probe.is_full = true;
                notes.push("the filesystem is full: what it can do was not tried".into());
            }
            Err(cause) => return Err(unusable(directory, &cause)),
        }
        Ok(probe)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What requests must be aligned to, and whether they can go past the page cache.
    pub(super) fn geometry(
        &self,
        pool: &Pool,
        direct: Direct,
        notes: &mut Vec<String>,
    ) -> Result<Geometry> {
        let buffered = Geometry {
            memory: 1,
            block: BLOCK_MIN,
            direct: false,
        };
        if direct == Direct::Never {
            notes.push("buffered: direct requests are turned off".into());
            return Ok(buffered);
        }
        match self.direct(pool)? {
            Ok(geometry) => Ok(geometry),
            Err(why) => {
                notes.push(format!("buffered: {why}"));
                Ok(buffered)
            }
        }
    }

    /// The inner error says why direct requests cannot be used.
    fn direct(&self, pool: &Pool) -> Result<Result<Geometry, String>> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_DIRECT)
            .open(self.directory.join(&self.name));
        let file = match opened {
            Ok(file) => file,
            Err(cause) => return Ok(Err(format!("the filesystem refuses O_DIRECT: {cause}"))),
        };
        let candidates = match sys::direct_align(&file) {
            Ok(DirectAlign::Refused) => {
                return Ok(Err("the filesystem has no direct requests".into()));
            }
            Ok(DirectAlign::Known { memory, block }) => vec![(memory, block.max(BLOCK_MIN))],
            Ok(DirectAlign::Unknown) | Err(_) => {
                vec![(BLOCK_MIN, BLOCK_MIN), (BLOCK_MAX, BLOCK_MAX)]
            }
        };
        let mut buffer = take(pool, LEN as usize)?;
        let mut why = String::new();
        for (memory, block) in candidates {
            let fits = |align: u32| align.is_power_of_two() && align <= BLOCK_MAX;
            if !fits(memory) || !fits(block) {
                why = format!(
                    "direct requests must be aligned to {memory} bytes of memory and {block} bytes of the file, and at \
                     most {BLOCK_MAX} are supported"
                );
                continue;
            }
            let geometry = Geometry {
                memory,
                block,
                direct: true,
            };
            match self.try_direct(&file, geometry, &mut buffer) {
                Ok(()) => return Ok(Ok(geometry)),
                Err(cause) => {
                    why = format!("the filesystem takes O_DIRECT and fails the requests: {cause}")
                }
            }
        }
        Ok(Err(why))
    }

    /// Writes and reads one block, as little aligned as the geometry permits.
    fn try_direct(&self, file: &File, geometry: Geometry, buffer: &mut Buffer) -> io::Result<()> {
        if self.is_full {
            return Ok(());
        }
        let (start, block) = (
            geometry.memory as usize % BLOCK_MAX as usize,
            geometry.block as usize,
        );
        let part = &mut buffer[start..start + block];
        part.fill(0xa5);
        file.write_all_at(part, u64::from(geometry.block))?;
        part.fill(0);
        file.read_exact_at(part, u64::from(geometry.block))?;
        if part.iter().any(|byte| *byte != 0xa5) {
            return Err(io::Error::other("what was written was not read"));
        }
        Ok(())
    }

    /// Writes, syncs and reads through an engine.
    pub(super) fn try_engine(
        &self,
        engine: &dyn Engine,
        directory: &Directory,
        pool: &Pool,
    ) -> Result<()> {
        let handle = Handle::new(directory.open(&self.name)?, engine.closer());
        let handle = Arc::new(handle);
        let run = |request: Request| {
            let (landing, flight) = answer();
            let work = Work {
                handle: Arc::clone(&handle),
                request,
                landing,
            };
            engine.start(vec![work]);
            pollster::block_on(flight)
        };
        if self.is_full {
            return run(Request::Sync).result;
        }
        let mut buffer = take(pool, BLOCK_MAX as usize)?;
        buffer.fill(0x5a);
        let offset = u64::from(BLOCK_MAX);
        let sync = true;
        let landed = run(Request::Write {
            offset,
            buffer,
            sync,
        });
        landed.result?;
        let mut buffer = landed
            .buffer
            .expect("a write that was landed gives its buffer back");
        buffer.fill(0);
        let landed = run(Request::Read { offset, buffer });
        landed.result?;
        let wrong = |buffer: &Buffer| buffer.iter().any(|byte| *byte != 0x5a);
        if landed.buffer.as_ref().is_none_or(wrong) {
            let what = "what was written was not read";
            return Err(Error::new(Code::FileReadFail, what));
        }
        Ok(())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // What stays behind is removed by the next start.
        drop(fs::remove_file(self.directory.join(&self.name)));
    }
}

/// The pool may be smaller than what is tried, or in use by other disks.
fn take(pool: &Pool, len: usize) -> Result<Buffer> {
    pollster::block_on(pool.take(len))
}

fn is_no_room(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

pub(super) fn unusable(path: &Path, cause: &io::Error) -> Error {
    let mend = match cause.raw_os_error() {
        Some(libc::EROFS) => "mount it for writing, or name another",
        Some(libc::EACCES | libc::EPERM) => {
            "give this user the right to write there, or name another"
        }
        Some(libc::ENOSPC | libc::EDQUOT) => "free some space, or name another",
        _ => "name another, or look at the kernel's log",
    };
    let what = format!(
        "the directory {} cannot be used: {cause}; {mend}",
        path.display()
    );
    Error::new(Code::FileOpenFail, what)
}

/// Makes a file of a name that nobody has, and locks it, so that nobody takes it for a remnant.
fn make(directory: &Path) -> io::Result<(String, File)> {
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PROBE}{}-{count}", process::id());
        let path = directory.join(&name);
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path);
        let file = match made {
            Ok(file) => file,
            // Of a process in another container, with the same number.
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(cause) => return Err(cause),
        };
        // A filesystem without locks is swept by nobody either.
        let locked = file.try_lock();
        if fs::exists(&path)? {
            return Ok((name, file));
        }
        // Another start has swept it away before it was locked.
        drop(locked);
    }
}

/// Removes probes of starts that were interrupted: those that nobody has locked.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PROBE.as_bytes())
        {
            continue;
        }
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(entry.path());
        if opened.is_ok_and(|file| file.try_lock().is_ok()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}
