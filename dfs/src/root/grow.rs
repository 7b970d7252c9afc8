//! Making a root, and making it larger. The identity names only shard files that were made whole, so that a crash leaves
//! nothing that looks like a damaged root, and whoever comes next goes on where the other one stopped.

use super::{Layout, Root, existing, identity_of, open_shards, replace};
use crate::{
    format::identity::{self, Identity},
    shard,
};
use std::sync::Arc;
use ziggurat_base::{Code, Error, Result};
use ziggurat_io::Disk;

/// What the identity is called until it is whole.
pub(super) const NEW_NAME: &str = "root.zig.new";

/// What growing has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Shard files before.
    pub before: u32,
    /// Shard files now.
    pub after: u32,
}

impl Root {
    /// Makes a root of an empty directory, or goes on with one whose making was interrupted. `fresh` is the random number
    /// that it gets.
    ///
    /// # Errors
    /// `InvalidParams` for a layout out of range, `FileOpenFail` for a directory that holds a root or anything else,
    /// `NoAvailableHandle` when the filesystem has no room, and errors of the disk.
    pub async fn format(disk: Arc<dyn Disk>, layout: &Layout, fresh: u128) -> Result<Self> {
        let mut wanted = Identity {
            root: fresh,
            cluster: layout.cluster.as_str().into(),
            shard_bytes: layout.shard_bytes,
            alignment: layout.alignment,
            shards: layout.shards,
        };
        wanted.check()?;
        if layout.shards == 0 {
            let what = "a root cannot have 0 shard files: give it at least 1";
            return Err(Error::new(Code::InvalidParams, what));
        }
        begin(&*disk, &mut wanted).await?;
        extend(&*disk, &wanted, 0).await?;
        Self::open(disk, Some(&layout.cluster), fresh as u64).await
    }

    /// Adds shard files until there are `shards`, also while others use the root: they see the new ones after
    /// [`Root::refresh`].
    ///
    /// # Errors
    /// `InvalidParams` for a number out of range; otherwise as [`Root::format`].
    pub async fn grow(&self, shards: u32) -> Result<Grown> {
        let before = existing(self.disk()).await?;
        self.check_identity(&before)?;
        let wanted = Identity {
            shards,
            ..before.clone()
        };
        wanted.check()?;
        if shards < before.shards {
            let what = format!(
                "the root has {} shard files, and none can be taken away: give at least as many",
                before.shards
            );
            return Err(Error::new(Code::InvalidParams, what));
        }
        extend(self.disk(), &wanted, before.shards).await?;
        self.refresh().await?;
        Ok(Grown {
            before: before.shards,
            after: shards,
        })
    }

    /// Looks whether the root has grown, and opens what is new; says how many shard files it has.
    ///
    /// # Errors
    /// As [`Root::open`]; `DfsStaleHandle` when another root is mounted there now.
    pub async fn refresh(&self) -> Result<u32> {
        let identity = existing(self.disk()).await?;
        self.check_identity(&identity)?;
        let known = self.lock().identity.shards;
        let opened = open_shards(self.disk(), &identity, known..identity.shards).await;
        let opened = opened.into_iter().map(|(_, shard)| shard);
        let opened = opened.collect::<Result<Vec<_>>>()?;
        let mut state = self.lock();
        for shard in opened {
            // Two may look at once.
            if state.shards.iter().all(|one| one.index != shard.index) {
                state.shards.push(shard);
            }
        }
        state.shards.sort_by_key(|shard| shard.index);
        state.identity.shards = state.identity.shards.max(identity.shards);
        Ok(state.identity.shards)
    }

    /// Proves that the same root is still mounted here.
    ///
    /// # Errors
    /// `DfsServiceUnavailable` when there is none any more, `DfsStaleHandle` when it is another one.
    pub async fn check_mount(&self) -> Result<()> {
        self.check_identity(&existing(self.disk()).await?)
    }

    fn check_identity(&self, identity: &Identity) -> Result<()> {
        if identity.root == self.id() {
            return Ok(());
        }
        let what = format!(
            "root {:032x} lies where root {:032x} was opened: mount that one again, or restart",
            identity.root,
            self.id()
        );
        Err(Error::new(Code::DfsStaleHandle, what))
    }
}

/// Writes the identity of a root without shard files, or finds the one that an interrupted attempt has left.
async fn begin(disk: &dyn Disk, wanted: &mut Identity) -> Result<()> {
    let names = disk.list().await?;
    if let Some(there) = identity_of(disk, &names).await? {
        let same = Identity {
            root: there.root,
            shards: 0,
            ..wanted.clone()
        };
        if there != same {
            let what = format!(
                "the directory is a root of the cluster {:?} with {} shard files already: use it, or name another",
                there.cluster, there.shards
            );
            return Err(Error::new(Code::FileOpenFail, what));
        }
        wanted.root = there.root;
        return Ok(());
    }
    if let Some(foreign) = names.iter().find(|file| file.name != NEW_NAME) {
        let what = format!(
            "the directory holds {:?}, and no root: give an empty one",
            foreign.name
        );
        return Err(Error::new(Code::FileOpenFail, what));
    }
    let nothing = Identity {
        shards: 0,
        ..wanted.clone()
    };
    replace(disk, NEW_NAME, identity::NAME, &nothing.encode()).await
}

/// Makes the shard files from `from` on, and then names them.
async fn extend(disk: &dyn Disk, wanted: &Identity, from: u32) -> Result<()> {
    for index in from..wanted.shards {
        let made = shard::make(disk, wanted, index).await;
        made.map_err(|error| {
            error.while_doing(format!(
                "making {} of {} (those before it stay; the same command goes on from there)",
                shard::name(index),
                wanted.shards
            ))
        })?;
    }
    disk.sync_names().await?;
    replace(disk, NEW_NAME, identity::NAME, &wanted.encode()).await
}
