//! The same for a path, for callers without an async runtime.

use super::{Logs, Progress, Recovered, Report, Verified};
use crate::{Grown, Layout, Root, format::index::Index};
use pollster::block_on;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use ziggurat_base::Result;
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

    /// Makes a root of it under the random number `fresh`.
    ///
    /// # Errors
    /// As [`Root::format`].
    pub fn format(&self, layout: &Layout, fresh: u128) -> Result<Root> {
        self.doing(block_on(Root::format(self.disk(), layout, fresh)))
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

    /// Puts an index into the root.
    ///
    /// # Errors
    /// As [`Root::save_index`].
    pub fn save_index(&self, index: &Index) -> Result<()> {
        self.doing(block_on(async {
            let (root, _) = Root::look(self.disk()).await?;
            root.save_index(index).await
        }))
    }
}
