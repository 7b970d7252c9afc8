//! A directory for the files of a measurement: it goes with the measurement, and one that a killed run has left goes with
//! the next.

use crate::bench::failed;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};
use ziggurat_base::{ByteCount, Code, Error, Result};

/// What the names of these directories begin with.
const PREFIX: &str = "ziggurat-bench-ssd-";

/// The file whose lock says that a run is alive.
const LOCK: &str = "lock";

/// See the module.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes one inside of `inside`, after what dead runs have left there was removed.
    pub(super) fn new(inside: &Path) -> Result<Self> {
        let unusable = |error: std::io::Error| {
            let what = format!(
                "{} cannot be used: {error}: give --dir a directory that exists and can be written",
                inside.display()
            );
            Error::new(Code::InvalidParams, what)
        };
        sweep(inside).map_err(unusable)?;
        let folder = inside.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).map_err(unusable)?;
        let lock = File::create(folder.join(LOCK)).map_err(unusable)?;
        let scratch = Self {
            folder,
            _lock: lock,
        };
        scratch._lock.lock().map_err(unusable)?;
        Ok(scratch)
    }

    /// The path of a file or directory in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A directory of its own below it, empty.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.path(name);
        let doing = || format!("make {} anew", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| failed(&doing(), e))?;
        }
        fs::create_dir(&folder).map_err(|e| failed(&doing(), e))?;
        Ok(folder)
    }

    /// Removes a directory of [`Scratch::fresh`], or a file.
    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        let removed = if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.map_err(|e| failed(&format!("remove {}", path.display()), e))
    }

    /// Makes everything durable that was written and removed, so that it disturbs nobody later.
    pub(super) fn settle(&self) -> Result<()> {
        let folder = File::open(&self.folder);
        let settled = folder.and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        settled.map_err(|e| failed("sync the filesystem of the measurement", e))
    }

    /// Refuses to begin what there is no room for.
    pub(super) fn has_room(&self, need: ByteCount) -> Result<()> {
        let stat = rustix::fs::statvfs(&self.folder)
            .map_err(|e| failed("ask the filesystem for its room", e))?;
        let free = ByteCount(stat.f_bavail * stat.f_frsize);
        if free >= need {
            return Ok(());
        }
        let what = format!(
            "{} has {free} free, the measurement needs {need}: measure less, or give another --dir",
            self.folder.display()
        );
        Err(Error::new(Code::InvalidParams, what))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _left = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what dead runs have left.
fn sweep(inside: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(inside)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let dead = match File::open(entry.path().join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => false,
        };
        if dead {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, Scratch};
    use std::fs::{self, File};
    use ziggurat_base::{ByteCount, Code};

    #[test]
    fn what_a_dead_run_has_left_goes_with_the_next() {
        let inside = tempfile::tempdir().unwrap();
        let dead = inside.path().join(format!("{PREFIX}0"));
        let living = inside.path().join(format!("{PREFIX}1"));
        let other = inside.path().join("precious");
        for folder in [&dead, &living, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("lock"), "").unwrap();
        }
        let lock = File::open(living.join("lock")).unwrap();
        lock.lock().unwrap();
        let scratch = Scratch::new(inside.path()).unwrap();
        let mine = scratch.fresh("x").unwrap();
        assert!(mine.is_dir() && !dead.exists() && living.exists() && other.exists());
        drop(scratch);
        assert!(!mine.exists());
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_named() {
        let inside = tempfile::tempdir().unwrap();
        let file = inside.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file, inside.path().join("absent")] {
            let error = Scratch::new(&path).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
            assert!(error.what().contains(&*path.to_string_lossy()), "{error}");
        }
        let scratch = Scratch::new(inside.path()).unwrap();
        let error = scratch.has_room(ByteCount(u64::MAX)).unwrap_err();
        assert!(error.what().contains("another --dir"), "{error}");
    }
}
