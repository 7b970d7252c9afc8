//! Which roots a process mounts, and how.

use crate::{Ack, Layout, Root, format::identity};
use pollster::block_on;
use std::{fmt, path::PathBuf, str::FromStr};
use tracing::info;
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_io::{Options as DiskOptions, Pool};

/// The cluster of a root when nothing else is said.
pub const CLUSTER: &str = "ziggurat";

/// A new root has one shard file for so many bytes, within [`SHARDS`].
const SHARD_BYTES: u64 = 1 << 30;

/// The fewest and the most shard files of a new root.
const SHARDS: (u64, u64) = (4, 64);

/// The smallest root that is made.
const SIZE_MIN: ByteCount = ByteCount::mib(4);

/// One root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootPath {
    /// Where.
    pub path: PathBuf,
    /// Bytes of all shard files of the root that is to be made, when there is none yet.
    pub size: Option<ByteCount>,
}

impl fmt::Display for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Some(size) => write!(f, "{}:{}B", self.path.display(), size.0),
            None => write!(f, "{}", self.path.display()),
        }
    }
}

impl FromStr for RootPath {
    type Err = Error;

    /// `DIR` or `DIR:SIZE`.
    fn from_str(text: &str) -> Result<Self> {
        let (path, size) = match text.rsplit_once(':') {
            Some((path, size)) => (path, Some(size.parse::<ByteCount>()?)),
            None => (text, None),
        };
        if path.is_empty() {
            let what = format!("{text:?} names no directory: give DIR, or DIR:SIZE to make a root");
            return Err(Error::new(Code::InvalidParams, what));
        }
        Ok(Self {
            path: path.into(),
            size,
        })
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Options {
    /// The roots; none means no shard files.
    pub roots: Vec<RootPath>,
    /// The cluster whose roots they must be.
    pub cluster: String,
    /// When a write is done.
    pub ack: Ack,
    /// Bytes of memory for what is on its way to and from them.
    pub staging: ByteCount,
    /// How the filesystem is driven.
    pub disk: DiskOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            cluster: CLUSTER.into(),
            ack: Ack::Written,
            staging: ByteCount::mib(128),
            disk: DiskOptions::default(),
        }
    }
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Written => "written",
            Self::Synced => "synced",
        })
    }
}

impl FromStr for Ack {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "written" => Ok(Self::Written),
            "synced" => Ok(Self::Synced),
            _ => Err(Error::new(
                Code::InvalidParams,
                format!("{text:?} is no acknowledgement of shard files: use written or synced"),
            )),
        }
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        let what = format!("the system gives no random numbers: {error}");
        Error::new(Code::Internal, what)
    })?;
    Ok(bytes)
}

impl Options {
    /// Opens every root; makes those that are not there yet and have a size. Blocks.
    ///
    /// # Errors
    /// Of the first root that cannot be used: its path, what is wrong, and the mend.
    pub fn open(&self) -> Result<Vec<Root>> {
        if self.roots.is_empty() {
            return Ok(Vec::new());
        }
        let pool = Pool::new(self.staging.0)?;
        let mut opened: Vec<Root> = Vec::new();
        for root in &self.roots {
            let what = format!("opening the root {}", root.path.display());
            let one = self.open_one(root, &pool);
            let one = one.map_err(|error| error.while_doing(&what))?;
            if opened.iter().any(|before| before.id() == one.id()) {
                let what = format!("the root {} is given twice", root.path.display());
                return Err(Error::new(Code::InvalidParams, what));
            }
            opened.push(one);
        }
        Ok(opened)
    }

    fn open_one(&self, root: &RootPath, pool: &Pool) -> Result<Root> {
        ziggurat_io::check_directory(&root.path)?;
        let (disk, engine) = ziggurat_io::open(&root.path, pool, &self.disk)?;
        let carrier = u64::from_le_bytes(random()?);
        let files = block_on(disk.list())?;
        let is_there = files.iter().any(|file| file.name == identity::NAME);
        if let Some(size) = root.size.filter(|_| !is_there) {
            let _made = block_on(Root::format(disk.clone(), &self.layout(size)?, fresh()?))?;
        }
        let opened = block_on(Root::open(disk, Some(&self.cluster), carrier))?;
        let layout = opened.layout();
        info!(
            path = %root.path.display(), root = %format_args!("{:032x}", opened.id()), shards = layout.shards,
            shard_bytes = layout.shard_bytes, engine = %engine, "the root is mounted"
        );
        Ok(opened)
    }

    /// How a new root of so many bytes is cut.
    fn layout(&self, size: ByteCount) -> Result<Layout> {
        if size < SIZE_MIN {
            let what = format!("a root of {size} is too small: it has at least {SIZE_MIN}");
            return Err(Error::new(Code::InvalidParams, what));
        }
        let shards = (size.0 / SHARD_BYTES).clamp(SHARDS.0, SHARDS.1);
        let alignment = ziggurat_engine::shard_record::ALIGNMENT_MIN;
        Ok(Layout {
            cluster: self.cluster.clone(),
            shard_bytes: size.0 / shards / alignment * alignment,
            alignment: alignment as u32,
            shards: shards as u32,
        })
    }
}

/// A number for a new root; 0 is none.
fn fresh() -> Result<u128> {
    Ok(u128::from_le_bytes(random()?).max(1))
}

#[cfg(test)]
mod tests {
    use super::{Options, RootPath};
    use ziggurat_base::{ByteCount, Code};

    #[test]
    fn a_root_is_made_where_a_size_says_so_and_found_again() {
        let place = tempfile::tempdir().unwrap();
        let options = |size: Option<ByteCount>, cluster: &str| Options {
            roots: vec![RootPath {
                path: place.path().to_owned(),
                size,
            }],
            cluster: cluster.into(),
            staging: ByteCount::mib(8),
            ..Options::default()
        };
        let refused = options(None, "c").open().unwrap_err();
        assert!(refused.to_string().contains("dfs format"), "{refused}");
        let small = options(Some(ByteCount::mib(1)), "c").open().unwrap_err();
        assert_eq!(small.code(), Code::InvalidParams);
        let made = options(Some(ByteCount::mib(16)), "c").open().unwrap();
        let found = options(None, "c").open().unwrap();
        assert_eq!((made[0].id(), made[0].shards().len()), (found[0].id(), 4));
        let foreign = options(None, "other").open().unwrap_err();
        assert_eq!(foreign.code(), Code::DfsServiceUnavailable);
    }

    #[test]
    fn paths_may_have_sizes() {
        let path: RootPath = "/mnt/a:4GiB".parse().unwrap();
        assert_eq!(path.size, Some(ByteCount::gib(4)));
        assert_eq!("/mnt/a".parse::<RootPath>().unwrap().size, None);
        assert!(":4GiB".parse::<RootPath>().is_err());
        assert!("/mnt/a:many".parse::<RootPath>().is_err());
    }
}
