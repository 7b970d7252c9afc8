//! The index beside the shard files: what a recovery found, for whoever reads without a partition.

use crate::{
    Root,
    format::{
        BLOCK,
        index::{self, Index},
    },
    root::replace,
    transfer::read_all,
};
use ziggurat_base::{Code, Error, Result};

/// What the index is called until it is whole.
pub(crate) const NEW_NAME: &str = "index.zig.new";

impl Root {
    /// Puts an index into the root.
    ///
    /// # Errors
    /// `InvalidParams` for that of another root, and errors of the disk.
    pub async fn save_index(&self, index: &Index) -> Result<()> {
        self.check_index(index)?;
        replace(self.disk(), NEW_NAME, index::NAME, &index.encode()).await
    }

    /// The index that lies in the root; `None` when there is none.
    ///
    /// # Errors
    /// `ChecksumMismatch` and `InvalidParams` for one that is damaged or of another root, `InvalidVersion` for one of a
    /// later release, and errors of the disk.
    pub async fn load_index(&self) -> Result<Option<Index>> {
        let disk = self.disk();
        if disk
            .list()
            .await?
            .iter()
            .all(|file| file.name != index::NAME)
        {
            return Ok(None);
        }
        let file = disk.open(index::NAME).await?;
        let bytes = read_all(disk, &*file, 0..file.len() / BLOCK * BLOCK).await?;
        let index = Index::decode(&bytes);
        let index = index.map_err(|error| error.while_doing(format!("reading {}", index::NAME)))?;
        self.check_index(&index)?;
        Ok(Some(index))
    }

    fn check_index(&self, index: &Index) -> Result<()> {
        if index.root == self.id() {
            return Ok(());
        }
        let what = format!(
            "the index is of root {:032x}, this is root {:032x}: run `ziggurat dfs recover` here",
            index.root,
            self.id()
        );
        Err(Error::new(Code::InvalidParams, what))
    }
}
