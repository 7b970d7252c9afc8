//! A root: the directory of the shard files. Making it, opening it, claiming it.

pub(crate) mod grow;

use crate::{
    format::{
        BLOCK,
        identity::{self, Identity},
        removed,
    },
    removal::Carrier,
    shard::{self, Shard},
    transfer::{read_all, write_synced},
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use ziggurat_base::{Code, DirectoryId, Era, Error, Result};
use ziggurat_io::{Disk, FileStat};

/// How a root is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Whose it is: a cluster refuses the root of another one.
    pub cluster: String,
    /// Bytes of each shard file, allocated when it is made.
    pub shard_bytes: u64,
    /// Extents are multiples of this many bytes; a power of two from 4096 to 1 MiB.
    pub alignment: u32,
    /// How many shard files.
    pub shards: u32,
}

/// One shard file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardInfo {
    /// Its number.
    pub index: u32,
    /// Under which name the metadata partition knows it.
    pub directory: DirectoryId,
    /// Bytes that records may have.
    pub capacity: u64,
    /// The life of the partition that has claimed it.
    pub era: Era,
}

/// An open root. Clones are the same.
#[derive(Clone)]
pub struct Root {
    inner: Arc<Inner>,
}

struct Inner {
    disk: Arc<dyn Disk>,
    id: u128,
    state: Mutex<State>,
    carrier: Carrier,
}

struct State {
    identity: Identity,
    /// In the order of their numbers.
    shards: Vec<Arc<Shard>>,
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        write!(
            f,
            "Root({:032x} of {}, {} shard files)",
            self.inner.id,
            state.identity.cluster,
            state.shards.len()
        )
    }
}

impl Root {
    /// Opens a root, all of whose shard files must be there. `cluster` is whose it should be. `carrier` is a random number
    /// that names what this process writes on the removal of objects; no other process has the same.
    ///
    /// # Errors
    /// `DfsServiceUnavailable` for a directory without a root and for the root of another cluster, `InvalidVersion` for one
    /// of a later release, `FileNotFound`, `ChecksumMismatch` and `InvalidParams` for shard files that are missing, cut,
    /// damaged, swapped or of another root, and errors of the disk. All name the file and the mend.
    pub async fn open(disk: Arc<dyn Disk>, cluster: Option<&str>, carrier: u64) -> Result<Self> {
        let identity = existing(&*disk).await?;
        if let Some(cluster) = cluster.filter(|cluster| **cluster != *identity.cluster) {
            let what = format!(
                "the root is of the cluster {:?}, this is {cluster:?}: mount the right one, or name the cluster as it \
                 was named",
                identity.cluster
            );
            return Err(Error::new(Code::DfsServiceUnavailable, what));
        }
        let shards = open_shards(&*disk, &identity, 0..identity.shards).await;
        let shards = shards.into_iter().map(|(_, shard)| shard);
        let shards = shards.collect::<Result<Vec<_>>>()?;
        Ok(Self::of(disk, identity, shards, carrier))
    }

    /// Opens what there is of a root, for who looks at a damaged one. Says of each shard file that is not as it should be
    /// why; one that has only lost its superblocks is opened.
    pub(crate) async fn look(disk: Arc<dyn Disk>) -> Result<(Self, Vec<(u32, Error)>)> {
        let identity = existing(&*disk).await?;
        let (mut shards, mut troubles) = (Vec::new(), Vec::new());
        for (index, opened) in open_shards(&*disk, &identity, 0..identity.shards).await {
            match opened {
                Ok(shard) => shards.push(shard),
                Err(error) if error.code() == Code::InvalidVersion => return Err(error),
                Err(error) => {
                    if error.code() == Code::ChecksumMismatch {
                        let shard = Shard::open_uncertain(&*disk, &identity, index).await;
                        shards.extend(shard.ok().map(Arc::new));
                    }
                    troubles.push((index, error));
                }
            }
        }
        Ok((Self::of(disk, identity, shards, 0), troubles))
    }

    fn of(disk: Arc<dyn Disk>, identity: Identity, shards: Vec<Arc<Shard>>, carrier: u64) -> Self {
        let inner = Inner {
            id: identity.root,
            carrier: Carrier::new(carrier),
            disk,
            state: Mutex::new(State { identity, shards }),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number: random, for ever.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.inner.id
    }

    /// Whose it is.
    #[must_use]
    pub fn cluster(&self) -> String {
        self.lock().identity.cluster.to_string()
    }

    /// How it is cut.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let state = self.lock();
        let Identity {
            cluster,
            shard_bytes,
            alignment,
            shards,
            ..
        } = &state.identity;
        Layout {
            cluster: cluster.to_string(),
            shard_bytes: *shard_bytes,
            alignment: *alignment,
            shards: *shards,
        }
    }

    /// Its shard files.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardInfo> {
        let shards = self.all();
        let infos = shards.iter().map(|shard| ShardInfo {
            index: shard.index,
            directory: shard.directory(),
            capacity: shard.capacity,
            era: shard.era(),
        });
        infos.collect()
    }

    /// The highest era that a shard file was claimed for, as of opening or the last claim.
    #[must_use]
    pub fn highest_era(&self) -> Era {
        let eras = self.all().into_iter().map(|shard| shard.era());
        eras.max().unwrap_or_default()
    }

    /// Notes on every shard file that the partition of this era allocates there. Durable when it returns.
    ///
    /// # Errors
    /// `IllegalClient` when a later era has one of them; errors of the disk.
    pub async fn claim(&self, era: Era) -> Result<()> {
        let shards = self.all();
        let mut claims: FuturesUnordered<_> = shards
            .iter()
            .map(|shard| shard.claim(self.disk(), era))
            .collect();
        let mut result = Ok(());
        while let Some(claimed) = claims.next().await {
            result = result.and(claimed);
        }
        result
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.inner.disk
    }

    pub(crate) fn carrier(&self) -> &Carrier {
        &self.inner.carrier
    }

    pub(crate) fn all(&self) -> Vec<Arc<Shard>> {
        self.lock().shards.clone()
    }

    pub(crate) fn shard(&self, index: u32) -> Result<Arc<Shard>> {
        let state = self.lock();
        let shards = &state.shards;
        let found = shards.binary_search_by_key(&index, |shard| shard.index);
        found.map(|at| Arc::clone(&shards[at])).map_err(|_| {
            let what = format!(
                "the root has no {}: it has {} shard files, or was grown since it was opened",
                shard::name(index),
                state.identity.shards
            );
            Error::new(Code::InvalidReplica, what)
        })
    }
}

/// Opens shard files, several at once; by number.
async fn open_shards(
    disk: &dyn Disk,
    identity: &Identity,
    indices: std::ops::Range<u32>,
) -> Vec<(u32, Result<Arc<Shard>>)> {
    /// Files that are opened at once.
    const AT_ONCE: usize = 64;
    let open = |index| async move {
        let shard = Shard::open(disk, identity, index).await;
        (index, shard.map(Arc::new))
    };
    let (mut opened, mut rest) = (Vec::new(), indices);
    let mut under_way: FuturesUnordered<_> = rest.by_ref().take(AT_ONCE).map(open).collect();
    while let Some(one) = under_way.next().await {
        opened.push(one);
        under_way.extend(rest.next().map(open));
    }
    opened.sort_by_key(|(index, _)| *index);
    opened
}

/// The identity of the root in a directory; `None` where there is none.
async fn identity_of(disk: &dyn Disk, names: &[FileStat]) -> Result<Option<Identity>> {
    let Some(stat) = names.iter().find(|file| file.name == identity::NAME) else {
        return Ok(None);
    };
    let doing = || format!("reading {}", identity::NAME);
    let file = disk.open(identity::NAME).await?;
    let bytes = read_all(disk, &*file, 0..stat.len.min(BLOCK) / BLOCK * BLOCK).await?;
    let identity = Identity::decode(&bytes).map_err(|error| error.while_doing(doing()))?;
    Ok(Some(identity))
}

/// The identity of a root that has to be there, and whole.
async fn existing(disk: &dyn Disk) -> Result<Identity> {
    let unavailable = |what: String| Error::new(Code::DfsServiceUnavailable, what);
    let identity = identity_of(disk, &disk.list().await?).await?;
    let identity = identity.ok_or_else(|| {
        unavailable(format!(
            "there is no {} here: the shared filesystem is not mounted, or the directory was never made a root; mount \
             it, or run `ziggurat dfs format`",
            identity::NAME
        ))
    })?;
    if identity.shards == 0 {
        return Err(unavailable(
            "the root was never made whole: run `ziggurat dfs format` again, with the same values"
                .into(),
        ));
    }
    Ok(identity)
}

/// Whether a file belongs to a root.
pub(crate) fn is_ours(name: &str) -> bool {
    use crate::{
        format::{census, index},
        removal::NEW_CENSUS,
    };
    let fixed = [identity::NAME, grow::NEW_NAME, index::NAME];
    fixed.contains(&name)
        || name == crate::index::NEW_NAME
        || name == crate::removal::NEW_NAME
        || removed::is_name(name)
        || census::is_name(name.strip_suffix(NEW_CENSUS).unwrap_or(name))
        || shard::number(name).is_some()
}

/// Puts a file in the place of another one in one step: whole or not at all, also after a crash.
pub(crate) async fn replace(
    disk: &dyn Disk,
    new_name: &str,
    name: &str,
    bytes: &[u8],
) -> Result<()> {
    let names = disk.list().await?;
    if names.iter().any(|file| file.name == new_name) {
        disk.remove(new_name).await?;
    }
    let file = disk.create(new_name, bytes.len() as u64).await?;
    write_synced(disk, &*file, 0, bytes).await?;
    disk.rename(new_name, name).await?;
    disk.sync_names().await
}
