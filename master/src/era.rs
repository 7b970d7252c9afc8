//! The durable era: what makes tickets unique in a cluster's life.
//!
//! A term of a partition begins in an era above every earlier one. With a state directory the last era is on disk before
//! the first ticket is granted; without one the clock of the machine stands in, which holds as long as the master does
//! not restart within the same second or with its clock set back. Members that have seen a later era say so when they
//! mount, and the partition goes above it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use ziggurat_base::{Code, Era, Error};

const FILE: &str = "era";

/// See the module.
#[derive(Debug)]
pub struct EraStore {
    dir: Option<PathBuf>,
}

fn failed(path: &Path, doing: &str, error: &std::io::Error) -> Error {
    Error::new(
        Code::PersistentFail,
        format!(
            "cannot {doing} {}: {error}; the state directory must be writable",
            path.display()
        ),
    )
}

impl EraStore {
    /// Opens a state directory, making it when it is missing; `None` keeps nothing.
    ///
    /// # Errors
    /// `PersistentFail` naming the path.
    pub fn open(dir: Option<&Path>) -> Result<Self, Error> {
        if let Some(dir) = dir {
            fs::create_dir_all(dir).map_err(|e| failed(dir, "make the directory", &e))?;
        }
        Ok(Self {
            dir: dir.map(Path::to_owned),
        })
    }

    /// The state directory, when there is one.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Begins a term: an era above the stored one and above the seconds of the clock, stored before it is returned.
    ///
    /// # Errors
    /// `PersistentFail` when the stored era cannot be read or the new one not be stored.
    pub fn begin(&self) -> Result<Era, Error> {
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |d| u32::try_from(d.as_secs()).unwrap_or(1));
        let stored = self.load()?.map_or(0, |era| era.0);
        let next = stored.checked_add(1).ok_or_else(|| {
            Error::new(
                Code::PersistentFail,
                "the stored era is the last one there can be",
            )
        })?;
        let era = Era(next.max(clock));
        self.save(era)?;
        Ok(era)
    }

    fn load(&self) -> Result<Option<Era>, Error> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path, "read", &error)),
        };
        let number = text.trim().parse().map_err(|_| {
            Error::new(
                Code::PersistentFail,
                format!(
                    "{} holds {:?} instead of a number; restore it or remove it",
                    path.display(),
                    text.trim()
                ),
            )
        })?;
        Ok(Some(Era(number)))
    }

    /// Stores an era: on disk when this returns.
    ///
    /// # Errors
    /// `PersistentFail` naming the path.
    pub fn save(&self, era: Era) -> Result<(), Error> {
        let Some(dir) = &self.dir else {
            return Ok(());
        };
        let (path, fresh) = (dir.join(FILE), dir.join("era.new"));
        let write = || {
            let mut file = fs::File::create(&fresh)?;
            writeln!(file, "{}", era.0)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            fs::File::open(dir)?.sync_all()
        };
        write().map_err(|e| failed(&path, "store the era in", &e))
    }
}

#[cfg(test)]
mod tests {
    use super::EraStore;
    use ziggurat_base::{Code, Era};

    #[test]
    fn every_term_begins_above_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let store = EraStore::open(Some(dir.path())).unwrap();
        let first = store.begin().unwrap();
        let second = store.begin().unwrap();
        assert!(second > first);
        store.save(Era(u32::MAX - 1)).unwrap();
        assert_eq!(store.begin().unwrap(), Era(u32::MAX));
        assert_eq!(store.begin().unwrap_err().code(), Code::PersistentFail);
    }

    #[test]
    fn a_damaged_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("era"), "soon").unwrap();
        let error = EraStore::open(Some(dir.path()))
            .unwrap()
            .begin()
            .unwrap_err();
        assert!(error.what().contains("soon"), "{error}");
    }
}
