//! A directory: names, allocation, room. Every call blocks.

use crate::{
    cause::{Doing, refused},
    disk::{FileStat, Geometry, Space},
    door::check_name,
    sys,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};
use ziggurat_base::{Code, Error, Result};

/// Names that begin so are of a start that was interrupted; nobody else sees them.
pub(crate) const PROBE: &str = ".ziggurat-probe-";

/// How many zeros are written at once where the filesystem cannot allocate.
const ZEROS_LEN: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    geometry: Geometry,
    /// Nothing is changed: files are opened to be read.
    is_fixed: bool,
}

/// A file that has just been opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Taken out when the file is closed.
    pub(crate) file: Option<File>,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

impl Directory {
    pub(crate) fn new(path: &Path, geometry: Geometry) -> Self {
        Self {
            path: path.to_owned(),
            geometry,
            is_fixed: false,
        }
    }

    /// A directory in which nothing may be changed.
    pub(crate) fn fixed(path: &Path, geometry: Geometry) -> Self {
        Self {
            is_fixed: true,
            ..Self::new(path, geometry)
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn space(&self) -> Result<Space> {
        sys::space(&self.path).map_err(|cause| refused(Doing::Space, &self.path, &cause))
    }

    /// Plain files with names that are text, sorted. Others are not ours.
    pub(crate) fn list(&self) -> Result<Vec<FileStat>> {
        let failed = |cause| refused(Doing::List, &self.path, &cause);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // Between the name and its file somebody may remove it.
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => return Err(failed(cause)),
            };
            if metadata.is_file() && !name.starts_with(PROBE) {
                let len = metadata.len();
                files.push(FileStat { name, len });
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    pub(crate) fn create(&self, name: &str, len: u64) -> Result<Opened> {
        let path = self.path_to_change(name)?;
        let doing = Doing::Create { len };
        let failed = |cause: io::Error| refused(doing, &path, &cause);
        let file = plain().create_new(true).open(&path).map_err(failed)?;
        let filled = fill(&file, len).and_then(|()| file.sync_all());
        let opened = filled
            .map_err(failed)
            .and_then(|()| self.open_path(path.clone()));
        if opened.is_err() {
            // The first error says more than one of this removal could.
            drop(fs::remove_file(&path));
        }
        opened
    }

    pub(crate) fn open(&self, name: &str) -> Result<Opened> {
        self.open_path(self.path_of(name)?)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = self.path_to_change(name)?;
        fs::remove_file(&path).map_err(|cause| refused(Doing::Remove, &path, &cause))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.path_to_change(from)?, self.path_to_change(to)?);
        fs::rename(&from, to).map_err(|cause| refused(Doing::Rename, &from, &cause))
    }

    pub(crate) fn sync_names(&self) -> Result<()> {
        let synced = File::open(&self.path).and_then(|directory| match directory.sync_all() {
            // Some filesystems cannot sync a directory alone.
            Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {
                sys::sync_filesystem(&directory)
            }
            result => result,
        });
        synced.map_err(|cause| refused(Doing::SyncNames, &self.path, &cause))
    }

    fn open_path(&self, path: PathBuf) -> Result<Opened> {
        let failed = |cause: io::Error| refused(Doing::Open, &path, &cause);
        let direct = if self.geometry.direct {
            libc::O_DIRECT
        } else {
            0
        };
        let file = plain()
            .write(!self.is_fixed)
            .custom_flags(libc::O_NOFOLLOW | direct)
            .open(&path)
            .map_err(failed)?;
        if self.is_fixed {
            // What the disk has is asked for, not what the system remembers of it.
            sys::forget_cached(&file);
        }
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            let what = format!("{} is not a plain file; move it away", path.display());
            return Err(Error::new(Code::FileOpenFail, what));
        }
        Ok(Opened {
            file: Some(file),
            path,
            len: metadata.len(),
        })
    }

    fn path_of(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        Ok(self.path.join(name))
    }

    fn path_to_change(&self, name: &str) -> Result<PathBuf> {
        let path = self.path_of(name)?;
        if self.is_fixed {
            let what = format!("{}: the directory was opened to be read", path.display());
            return Err(Error::new(Code::NotSupported, what));
        }
        Ok(path)
    }
}

fn plain() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW);
    options
}

/// Gives a new file its blocks.
fn fill(file: &File, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    match sys::allocate(file, len) {
        Err(cause) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(file, len),
        result => result,
    }
}

fn write_zeros(file: &File, len: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_LEN];
    let mut at = 0;
    while at < len {
        let here = (len - at).min(ZEROS_LEN as u64);
        file.write_all_at(&zeros[..here as usize], at)?;
        at += here;
    }
    Ok(())
}
