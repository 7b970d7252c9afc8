//! The same for a path, for callers without an async runtime.

use super::{Logs, Progress, Recovered, Report, Verified};
use crate::{
    Grown, Layout, Root,
    format::index::{self, Index},
};
use pollster::block_on;
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};
use ziggurat_base::{Code, Error, Result};
use ziggurat_io::{Disk, Options, Pool};

/// Memory for what is read at once.
const POOL_BYTES: u64 = 64 << 20;

/// A directory that is a root, or is to be one.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Directory {
    /// Opens it to be read; nothing is changed there.
    ///
    /// # Errors
    /// `FileNotFound` for a path that is missing, `FileOpenFail` for one that cannot be used.
    pub fn to_read(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            disk: ziggurat_io::open_to_read(path, &Pool::new(POOL_BYTES)?)?,
        })
    }

    /// Opens it to be changed.
    ///
    /// # Errors
    /// As [`Directory::to_read`].
    pub fn to_change(path: &Path) -> Result<Self> {
        let pool = Pool::new(POOL_BYTES)?;
        let (disk, _) = ziggurat_io::open(path, &pool, &Options::default())?;
        Ok(Self {
            path: path.to_owned(),
            disk,
        })
    }

    fn doing<T>(&self, result: Result<T>) -> Result<T> {
        let what = format!("the root {}", self.path.display());
        result.map_err(|error| error.while_doing(&what))
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Makes a root of it under a random number.
    ///
    /// # Errors
    /// As [`Root::format`].
    pub fn format(&self, layout: &Layout) -> Result<Root> {
        let fresh = random_number()?;
        self.doing(block_on(Root::format(self.disk(), layout, fresh)))
    }

    /// Opens the root, under a random number for what it removes.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn root(&self, cluster: Option<&str>) -> Result<Root> {
        let carrier = random_number()? as u64;
        self.doing(block_on(Root::open(self.disk(), cluster, carrier)))
    }

    /// Adds shard files until there are `shards`.
    ///
    /// # Errors
    /// As [`Root::grow`].
    pub fn grow(&self, shards: u32) -> Result<Grown> {
        self.doing(block_on(async {
            Root::open(self.disk(), None, 0).await?.grow(shards).await
        }))
    }

    /// What it holds.
    ///
    /// # Errors
    /// As [`super::inspect`].
    pub fn inspect(&self, progress: Progress<'_>) -> Result<Report> {
        self.doing(block_on(super::inspect(self.disk(), progress)))
    }

    /// Proves all of it.
    ///
    /// # Errors
    /// As [`super::verify`].
    pub fn verify(&self, progress: Progress<'_>) -> Result<Verified> {
        self.doing(block_on(super::verify(self.disk(), progress)))
    }

    /// Finds out what it holds.
    ///
    /// # Errors
    /// As [`super::recover`].
    pub fn recover(&self, logs: Logs, progress: Progress<'_>) -> Result<Recovered> {
        self.doing(block_on(super::recover(self.disk(), logs, progress)))
    }

    /// Puts an index into the root, and says where it lies.
    ///
    /// # Errors
    /// As [`Root::save_index`].
    pub fn save_index(&self, index: &Index) -> Result<PathBuf> {
        self.doing(block_on(async {
            let (root, _) = Root::look(self.disk()).await?;
            root.save_index(index).await
        }))?;
        Ok(self.path.join(index::NAME))
    }
}

/// A random number for a root, and for whoever carries out removals in one.
///
/// # Errors
/// `Internal` when the system has none.
pub fn random_number() -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|cause| {
        let what = format!("the system gives no random numbers: {cause}");
        Error::new(Code::Internal, what)
    })?;
    Ok(u128::from_ne_bytes(bytes).max(1))
}

/// Writes an index to a file outside of the root: whole or not at all.
///
/// # Errors
/// `FileWriteFail` names the file.
pub fn write_index(path: &Path, index: &Index) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = fs::File::create(&new).and_then(|mut file| {
        file.write_all(&index.encode())?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    written.map_err(|cause| {
        let what = format!("cannot write the index {}: {cause}", path.display());
        Error::new(Code::FileWriteFail, what)
    })
}

/// Reads an index from a file.
///
/// # Errors
/// `FileNotFound` and `FileReadFail` for a file that cannot be read, and as [`Index::decode`].
pub fn read_index(path: &Path) -> Result<Index> {
    let bytes = fs::read(path).map_err(|cause| {
        let code = match cause.kind() {
            io::ErrorKind::NotFound => Code::FileNotFound,
            _ => Code::FileReadFail,
        };
        let what = format!("cannot read the index {}: {cause}", path.display());
        Error::new(code, what)
    })?;
    let index = Index::decode(&bytes);
    index.map_err(|error| error.while_doing(format!("reading the index {}", path.display())))
}
