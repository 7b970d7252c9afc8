//! The SSD directories that a process serves: which, how large, and how they are opened.

use crate::keeper::Directory;
use std::{
    collections::BTreeMap,
    fmt,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};
use tracing::{info, warn};
use ziggurat_base::{ByteCount, Clock, Code, DirectoryId, Error, Result};
use ziggurat_engine::evict::PolicyKind;
use ziggurat_io::{Pool, Report, Space, open::Options as DiskOptions};
use ziggurat_tiers::ssd::{
    Durability, Options as TierOptions, Packing, Recovered, SsdTier, WriteBudget,
};

/// The name of the file that tells two processes apart.
pub(crate) const LOCK: &str = "lock";

/// Share of what is free that a directory without a size takes, in percent.
const FREE_SHARE: u64 = 90;

/// One directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdPath {
    /// Where.
    pub path: PathBuf,
    /// Bytes that it may take; 90 % of what is free and what it has already, when not set.
    pub size: Option<ByteCount>,
}

impl fmt::Display for SsdPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Some(size) => write!(f, "{}:{}B", self.path.display(), size.0),
            None => write!(f, "{}", self.path.display()),
        }
    }
}

impl FromStr for SsdPath {
    type Err = Error;

    /// `DIR` or `DIR:SIZE`.
    fn from_str(text: &str) -> Result<Self> {
        let split = text.rsplit_once(':');
        let (path, size) = match split {
            Some((path, size)) => (path, Some(size.parse::<ByteCount>()?)),
            None => (text, None),
        };
        if path.is_empty() {
            return Err(Error::new(
                Code::InvalidParams,
                format!("{text:?} names no directory: give DIR or DIR:SIZE"),
            ));
        }
        Ok(Self {
            path: path.into(),
            size,
        })
    }
}

impl SsdPath {
    /// A list as settings have it, `DIR[:SIZE][,DIR…]`, in which no directory is named twice.
    ///
    /// # Errors
    /// `InvalidParams`, with the part that is wrong.
    pub fn list(text: &str) -> Result<Vec<Self>> {
        let list: Vec<Self> = text.split(',').map(str::parse).collect::<Result<_>>()?;
        for (index, one) in list.iter().enumerate() {
            if list[..index].iter().any(|other| other.path == one.path) {
                let what = format!(
                    "{} is given twice: give each directory once",
                    one.path.display()
                );
                return Err(Error::new(Code::InvalidParams, what));
            }
        }
        Ok(list)
    }

    /// Where a partition in the same process keeps its durable facts when nothing else is said, in the first directory.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.path.join("state")
    }

    /// Whether each is a directory, and none is named twice. To be asked before anything is made in one of them: a path
    /// that is wrong by a letter, or whose disk is not mounted, must not become a directory elsewhere.
    ///
    /// # Errors
    /// `FileNotFound`, `FileOpenFail` or `InvalidParams`, naming the path.
    pub fn check_all(paths: &[Self]) -> Result<()> {
        let mut places = BTreeMap::new();
        for Self { path, .. } in paths {
            ziggurat_io::check_directory(path)?;
            let place = path.canonicalize().unwrap_or_else(|_| path.clone());
            if let Some(before) = places.insert(place, path) {
                let what = format!(
                    "the SSD directories {} and {} are the same: give each once",
                    before.display(),
                    path.display()
                );
                return Err(Error::new(Code::InvalidParams, what));
            }
        }
        Ok(())
    }
}

/// What a directory can do, without serving it.
#[derive(Clone, Debug)]
pub struct Look {
    /// Which engine would drive it, and why none better.
    pub engine: Report,
    /// Bytes of its filesystem that are free, and all.
    pub space: Space,
}

/// All directories of a process, and how they are served.
#[derive(Clone, Debug)]
pub struct SsdOptions {
    /// The directories; none means no SSD tier.
    pub directories: Vec<SsdPath>,
    /// Bytes of a log file.
    pub file_bytes: ByteCount,
    /// The most payload, as it came, that each directory holds, whatever it takes on disk; without one as much as fits.
    pub logical_cap: Option<ByteCount>,
    /// When a record counts as persistent.
    pub durability: Durability,
    /// Who leaves when a directory is full.
    pub policy: PolicyKind,
    /// Bytes of the staging pool, which all directories share.
    pub staging: ByteCount,
    /// How much may be written to each directory over time; without one as much as comes.
    pub write_budget: Option<WriteBudget>,
    /// How payloads are stored from now on; what is there already stays as it is.
    pub packing: Packing,
    /// How the disks are driven.
    pub disk: DiskOptions,
}

impl Default for SsdOptions {
    fn default() -> Self {
        let tier = TierOptions::default();
        Self {
            directories: Vec::new(),
            file_bytes: tier.file_bytes,
            logical_cap: tier.logical_cap,
            durability: tier.durability,
            policy: tier.policy,
            staging: ByteCount::mib(128),
            write_budget: None,
            packing: tier.packing,
            disk: DiskOptions::default(),
        }
    }
}

/// A directory that was opened, and the lock on it: the directory is free for others when this is dropped.
#[derive(Debug)]
pub struct Opened {
    /// What a keeper serves.
    pub directory: Directory,
    /// What drives it, and why nothing better.
    pub engine: Report,
    /// What was found in it.
    pub found: Recovered,
    _lock: File,
}

impl SsdOptions {
    /// Tries what each directory can do, one after the other; a small file is made in each and removed.
    ///
    /// # Errors
    /// The outer one when there is no memory for the staging pool; the others as [`SsdOptions::open`].
    pub fn look(&self) -> Result<Vec<Result<Look>>> {
        if self.directories.is_empty() {
            return Ok(Vec::new());
        }
        let pool = Pool::new(self.staging.0)?;
        let look = |ssd: &SsdPath| {
            let (disk, engine) = ziggurat_io::open(&ssd.path, &pool, &self.disk)?;
            let space = pollster::block_on(disk.space())?;
            Ok(Look { engine, space })
        };
        Ok(self.directories.iter().map(look).collect())
    }

    /// Opens every directory, under segments named `prefix` and a number. Blocks until what is there has been recovered.
    ///
    /// # Errors
    /// Of the first directory that cannot be used: its path, what is wrong, and the mend.
    pub fn open(&self, prefix: &str, clock: &Arc<dyn Clock>) -> Result<Vec<Opened>> {
        if self.directories.is_empty() {
            return Ok(Vec::new());
        }
        SsdPath::check_all(&self.directories)?;
        let pool = Pool::new(self.staging.0)?;
        let mut opened = Vec::new();
        for (number, ssd) in self.directories.iter().enumerate() {
            let name = format!("{prefix}-{number}");
            let what = format!("opening the SSD directory {}", ssd.path.display());
            let one = self.open_one(ssd, name.into(), &pool, clock);
            opened.push(one.map_err(|error| error.while_doing(&what))?);
        }
        Ok(opened)
    }

    fn open_one(
        &self,
        ssd: &SsdPath,
        name: Box<str>,
        pool: &Pool,
        clock: &Arc<dyn Clock>,
    ) -> Result<Opened> {
        let (disk, report) = ziggurat_io::open(&ssd.path, pool, &self.disk)?;
        let lock = lock(&ssd.path)?;
        let space = pollster::block_on(disk.space())?;
        let files = pollster::block_on(disk.list())?;
        let taken: u64 = files.iter().map(|file| file.len).sum();
        let capacity = match ssd.size {
            Some(size) if size.0 > space.total => {
                return Err(Error::new(
                    Code::InvalidParams,
                    format!(
                        "{size} is more than the {} of the filesystem: give less",
                        ByteCount(space.total)
                    ),
                ));
            }
            Some(size) => size,
            None => ByteCount((space.free + taken) / 100 * FREE_SHARE),
        };
        let options = TierOptions {
            capacity,
            logical_cap: self.logical_cap,
            file_bytes: self.file_bytes,
            durability: self.durability,
            policy: self.policy,
            write_budget: self.write_budget,
            packing: self.packing,
            ..TierOptions::default()
        };
        let open = SsdTier::open(disk, Arc::clone(clock), options, fresh()?);
        let (tier, found) = pollster::block_on(open)?;
        for remark in &found.remarks {
            warn!(path = %ssd.path.display(), remark, "something is wrong with the SSD directory");
        }
        info!(
            path = %ssd.path.display(), directory = %tier.directory(), %capacity, engine = %report,
            records = found.records, torn = found.torn, "the SSD directory is open"
        );
        Ok(Opened {
            directory: Directory {
                name,
                tier: Arc::new(tier),
            },
            engine: report,
            found,
            _lock: lock,
        })
    }
}

/// Takes the directory for this process.
fn lock(path: &Path) -> Result<File> {
    let name = path.join(LOCK);
    let cannot = |error: std::io::Error| {
        Error::new(
            Code::FileOpenFail,
            format!(
                "{} cannot be made: {error}: check permissions",
                name.display()
            ),
        )
    };
    let file = File::create(&name).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            Code::FileLockFail,
            "another process has the directory: stop it, or give another directory",
        )),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// An identity for a directory that has none.
fn fresh() -> Result<DirectoryId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(
            Code::Internal,
            format!("the system gives no random numbers: {error}"),
        )
    })?;
    Ok(DirectoryId(u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::SsdPath;
    use ziggurat_base::{ByteCount, Code};

    #[test]
    fn a_directory_is_there_and_named_once() {
        let paths = |names: &[&str]| -> Vec<SsdPath> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let code = |names: &[&str]| SsdPath::check_all(&paths(names)).map_err(|e| e.code());
        assert_eq!(code(&["src"]), Ok(()));
        assert_eq!(code(&["src", "./src"]), Err(Code::InvalidParams));
        assert_eq!(code(&["src", "nowhere"]), Err(Code::FileNotFound));
        assert_eq!(code(&["Cargo.toml"]), Err(Code::FileOpenFail));
    }

    #[test]
    fn a_directory_may_have_a_size() {
        let parse = |text: &str| text.parse::<SsdPath>();
        let with = parse("/mnt/nvme0:1.5TiB").unwrap();
        assert_eq!(
            (with.path.to_str(), with.size),
            (Some("/mnt/nvme0"), Some(ByteCount(3 << 39)))
        );
        assert_eq!(parse("/mnt/nvme0").unwrap().size, None);
        assert!(parse(":4GiB").is_err());
        assert!(
            parse("/mnt/nvme0:many")
                .unwrap_err()
                .to_string()
                .contains("many")
        );
    }
}
