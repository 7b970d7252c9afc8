//! One shard file: open, proved to be what it should be, and opened again where the mount has lost it.

use crate::{
    format::{
        BLOCK, DATA_START, damaged,
        identity::Identity,
        superblock::{COPIES, Superblock},
    },
    transfer::{read_all, write_synced},
};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use ziggurat_base::{Code, DirectoryId, Era, Error, Extent, Result, hash::mix};
use ziggurat_io::{Disk, File};

/// Two claims of different eras at once are told apart by looking again; more looks than this are not a race.
const CLAIMS_MAX: u32 = 8;

/// The name of a shard file.
pub(crate) fn name(index: u32) -> String {
    format!("shard-{index:04}.zig")
}

/// The number of a shard file, if it is one.
pub(crate) fn number(file: &str) -> Option<u32> {
    let digits = file.strip_prefix("shard-")?.strip_suffix(".zig")?;
    let number = digits.parse().ok()?;
    (name(number) == file).then_some(number)
}

/// Under which name the metadata partition knows a shard file of a root: the same wherever and by whomever it is mounted.
#[must_use]
pub fn shard_directory(root: u128, index: u32) -> DirectoryId {
    let (high, low) = ((root >> 64) as u64, root as u64);
    let low = mix(low ^ mix(u64::from(index) + 1));
    let high = mix(high ^ mix(low));
    let id = u128::from(high) << 64 | u128::from(low);
    DirectoryId(id.max(1))
}

/// Where the records of a file begin.
pub(crate) fn start_of(identity: &Identity) -> u64 {
    DATA_START.next_multiple_of(u64::from(identity.alignment))
}

/// Bytes that records may have in a file.
pub(crate) fn capacity_of(identity: &Identity) -> u64 {
    let alignment = u64::from(identity.alignment);
    (identity.shard_bytes - start_of(identity)) / alignment * alignment
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) index: u32,
    pub(crate) root: u128,
    pub(crate) alignment: u64,
    /// Where records begin.
    pub(crate) start: u64,
    /// Bytes that they may have.
    pub(crate) capacity: u64,
    /// Whether a superblock says so; only who looks at a damaged root has others.
    pub(crate) is_certain: bool,
    shard_bytes: u64,
    state: Mutex<State>,
    /// Syncs that failed: what they should have covered is not made durable by a later one either.
    failed_syncs: AtomicU64,
}

#[derive(Debug)]
struct State {
    file: Arc<dyn File>,
    era: Era,
}

impl Shard {
    /// Opens shard file `index` of a root and proves it.
    pub(crate) async fn open(disk: &dyn Disk, identity: &Identity, index: u32) -> Result<Self> {
        let file = open_file(disk, identity, index).await?;
        let found = superblock_of(disk, &*file, index).await?.0;
        check(&found, identity, index)?;
        Ok(Self::new(identity, index, file, Some(found.era)))
    }

    /// As [`Shard::open`], for who looks at a damaged root: a file that has the right length and no superblock.
    pub(crate) async fn open_uncertain(
        disk: &dyn Disk,
        identity: &Identity,
        index: u32,
    ) -> Result<Self> {
        let file = open_file(disk, identity, index).await?;
        Ok(Self::new(identity, index, file, None))
    }

    fn new(identity: &Identity, index: u32, file: Arc<dyn File>, era: Option<Era>) -> Self {
        Self {
            index,
            root: identity.root,
            alignment: u64::from(identity.alignment),
            start: start_of(identity),
            capacity: capacity_of(identity),
            is_certain: era.is_some(),
            shard_bytes: identity.shard_bytes,
            state: Mutex::new(State {
                file,
                era: era.unwrap_or_default(),
            }),
            failed_syncs: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self) -> Arc<dyn File> {
        Arc::clone(&self.lock().file)
    }

    pub(crate) fn era(&self) -> Era {
        self.lock().era
    }

    pub(crate) fn name(&self) -> String {
        name(self.index)
    }

    pub(crate) fn directory(&self) -> DirectoryId {
        shard_directory(self.root, self.index)
    }

    /// Whether an extent is one that an object of this shard file may have.
    pub(crate) fn check_extent(&self, extent: Extent) -> Result<()> {
        let end = extent.offset.checked_add(extent.len);
        let is_whole = [extent.offset, extent.len]
            .iter()
            .all(|number| number.is_multiple_of(self.alignment));
        if is_whole && extent.len > 0 && end.is_some_and(|end| end <= self.capacity) {
            return Ok(());
        }
        let what = format!(
            "{} bytes at {} are no extent of {}, which has {} in multiples of {}",
            extent.len,
            extent.offset,
            self.name(),
            self.capacity,
            self.alignment
        );
        Err(Error::new(Code::InvalidReplica, what))
    }

    /// To be asked for before the first write that a sync should cover.
    pub(crate) fn sync_mark(&self) -> u64 {
        self.failed_syncs.load(Ordering::SeqCst)
    }

    /// What the end of a request with a sync says about everything that was written since the mark.
    pub(crate) fn synced<T>(&self, mark: u64, landed: Result<T>) -> Result<T> {
        if landed.is_err() {
            self.failed_syncs.fetch_add(1, Ordering::SeqCst);
        } else if self.sync_mark() != mark {
            let what = format!(
                "a data sync of {} has failed, and nobody knows what it has lost: write it again",
                self.name()
            );
            return Err(Error::new(Code::FileWriteFail, what));
        }
        landed
    }

    /// Opens the file anew: the handle may be stale, or somebody has put another file in its place.
    pub(crate) async fn reopen(&self, disk: &dyn Disk) -> Result<()> {
        let name = self.name();
        let file = disk.open(&name).await?;
        if file.len() != self.shard_bytes {
            return Err(cut(&name, file.len(), self.shard_bytes));
        }
        let found = superblock_of(disk, &*file, self.index).await?.0;
        if (found.root, found.shard) != (self.root, self.index) {
            return Err(foreign(&name, &found));
        }
        self.lock().file = file;
        Ok(())
    }

    /// Notes on the file that the partition of this era allocates here.
    pub(crate) async fn claim(&self, disk: &dyn Disk, era: Era) -> Result<()> {
        let file = self.file();
        for _ in 0..CLAIMS_MAX {
            let (found, copy) = superblock_of(disk, &*file, self.index).await?;
            self.lock().era = found.era;
            if found.era == era {
                return Ok(());
            }
            if found.era > era {
                let what = format!(
                    "{} is of era {}, so that era {} may not allocate there: another master has it; stop the older one",
                    self.name(),
                    found.era.0,
                    era.0
                );
                return Err(Error::new(Code::IllegalClient, what));
            }
            let next = Superblock {
                generation: found.generation.saturating_add(1),
                era,
                ..found
            };
            let other = (copy + 1) % COPIES;
            write_synced(disk, &*file, other * BLOCK, &next.encode()).await?;
        }
        let what = format!("{} is claimed by many masters at once", self.name());
        Err(Error::new(Code::Backpressure, what))
    }
}

async fn open_file(disk: &dyn Disk, identity: &Identity, index: u32) -> Result<Arc<dyn File>> {
    let name = name(index);
    let file = disk
        .open(&name)
        .await
        .map_err(|error| match error.code() {
            Code::FileNotFound => Error::new(
                Code::FileNotFound,
                format!(
                    "{name} is missing from the root, which has {} shard files: mount the whole root, or put the file \
                     back",
                    identity.shards
                ),
            ),
            _ => error,
        })?;
    if file.len() == identity.shard_bytes {
        return Ok(file);
    }
    Err(cut(&name, file.len(), identity.shard_bytes))
}

fn cut(name: &str, len: u64, want: u64) -> Error {
    damaged(format!(
        "{name} has {len} bytes instead of {want}: somebody has cut or replaced it; put the file of this root back"
    ))
}

fn foreign(name: &str, found: &Superblock) -> Error {
    let what = format!(
        "{name} is shard file {} of root {:032x}, not what its name says: put the files of this root back under their \
         names",
        found.shard, found.root
    );
    Error::new(Code::InvalidParams, what)
}

/// The superblock that counts, and in which copy it is.
async fn superblock_of(disk: &dyn Disk, file: &dyn File, index: u32) -> Result<(Superblock, u64)> {
    let start = read_all(disk, file, 0..COPIES * BLOCK).await?;
    let found = Superblock::newest(&start);
    found.map_err(|error| error.while_doing(format!("reading the superblocks of {}", name(index))))
}

fn check(found: &Superblock, identity: &Identity, index: u32) -> Result<()> {
    if (found.root, found.shard) != (identity.root, index) {
        return Err(foreign(&name(index), found));
    }
    if (found.alignment, found.shard_bytes) != (identity.alignment, identity.shard_bytes) {
        let what = format!(
            "{} was made for shard files of {} bytes and an alignment of {}, the root has {} and {}: it was put there \
             from a root of another layout",
            name(index),
            found.shard_bytes,
            found.alignment,
            identity.shard_bytes,
            identity.alignment
        );
        return Err(Error::new(Code::InvalidParams, what));
    }
    Ok(())
}

/// Makes shard file `index`, also where an earlier attempt was interrupted; what is whole already stays.
pub(crate) async fn make(disk: &dyn Disk, identity: &Identity, index: u32) -> Result<()> {
    let name = name(index);
    let there = disk.list().await?;
    if let Some(stat) = there.iter().find(|file| file.name == name) {
        if is_made(disk, identity, index, stat.len).await? {
            return Ok(());
        }
        disk.remove(&name).await?;
    }
    let file = disk.create(&name, identity.shard_bytes).await?;
    write_synced(disk, &*file, 0, &first_copies(identity, index)).await
}

/// Both copies of the superblock of a new shard file.
fn first_copies(identity: &Identity, index: u32) -> Vec<u8> {
    let first = Superblock {
        root: identity.root,
        shard: index,
        alignment: identity.alignment,
        shard_bytes: identity.shard_bytes,
        generation: 1,
        era: Era(0),
    };
    first.encode().repeat(COPIES as usize)
}

/// Whether a file that the root does not name yet is whole; `false` for a half-made one, which has nothing but zeros.
async fn is_made(disk: &dyn Disk, identity: &Identity, index: u32, len: u64) -> Result<bool> {
    let file = disk.open(&name(index)).await?;
    let head = len.min(COPIES * BLOCK) / BLOCK * BLOCK;
    let start = read_all(disk, &*file, 0..head).await?;
    if start.iter().all(|byte| *byte == 0) {
        return Ok(false);
    }
    let whole = len == identity.shard_bytes;
    match Superblock::newest(&start) {
        Ok((found, _)) if whole => check(&found, identity, index).map(|()| true),
        // The two copies are written before the root names the file: one that is torn has nothing behind it.
        Err(_) if whole && is_torn_first(&start, identity, index) => Ok(false),
        _ => Err(Error::new(
            Code::FileOpenFail,
            format!(
                "{} is there already and is no shard file of this root: move it away",
                name(index)
            ),
        )),
    }
}

/// Whether the first copy begins as that of a new shard file does, and the rest of both is torn.
fn is_torn_first(start: &[u8], identity: &Identity, index: u32) -> bool {
    let want = first_copies(identity, index);
    // A tear leaves each byte old, which is zero, or new.
    let is_either = |(is, want): (&u8, &u8)| *is == 0 || is == want;
    start.len() == want.len() && start.iter().zip(&want).all(is_either)
}
