//! A limit of the kernel's on what a process writes to a disk: a control group, of either version.

use super::rig::run_in;
use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{self, Command},
};

/// What a process in the group may write.
pub(crate) const WRITTEN_BYTES_PER_SECOND: u64 = 2 << 20;

/// A control group whose processes write slowly to one disk. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    /// The disk, as the kernel names it to control groups.
    disk: String,
    /// Where the kernel counts what was written, and what stands before the number.
    count: (&'static str, &'static str),
}

impl Drop for Group {
    fn drop(&mut self) {
        let _left_to_the_next_boot = fs::remove_dir(&self.path);
    }
}

impl Group {
    /// A group that slows the disk of a directory.
    ///
    /// # Errors
    /// Why there cannot be one here.
    pub(crate) fn on(directory: &Path) -> Result<Self, String> {
        let disk = disk_of(directory)?;
        let mounts = fs::read_to_string("/proc/mounts").map_err(|e| e.to_string())?;
        let mut why = "no control group here limits disks".to_owned();
        for mount in mounts.lines() {
            let fields: Vec<_> = mount.split(' ').collect();
            let made = match fields[..] {
                [_, at, "cgroup", options, ..] if options.split(',').any(|o| o == "blkio") => {
                    Self::first_version(Path::new(at), &disk)
                }
                [_, at, "cgroup2", ..] => Self::second_version(Path::new(at), &disk),
                _ => continue,
            };
            match made {
                Ok(group) => return Ok(group),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn first_version(at: &Path, disk: &str) -> Result<Self, String> {
        let count = ("blkio.throttle.io_service_bytes", "Write ");
        let limit = format!("{disk} {WRITTEN_BYTES_PER_SECOND}");
        let group = Self::make(at, disk, count)?;
        group.set("blkio.throttle.write_bps_device", &limit)?;
        Ok(group)
    }

    fn second_version(at: &Path, disk: &str) -> Result<Self, String> {
        let controllers = at.join("cgroup.controllers");
        let known = fs::read_to_string(&controllers).unwrap_or_default();
        if !known.split_whitespace().any(|name| name == "io") {
            return Err(format!("{} does not have io", controllers.display()));
        }
        write(&at.join("cgroup.subtree_control"), "+io")?;
        let group = Self::make(at, disk, ("io.stat", "wbytes="))?;
        group.set("io.max", &format!("{disk} wbps={WRITTEN_BYTES_PER_SECOND}"))?;
        Ok(group)
    }

    fn make(at: &Path, disk: &str, count: (&'static str, &'static str)) -> Result<Self, String> {
        let path = at.join(format!("ziggurat-slow-{}", process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let disk = disk.to_owned();
        Ok(Self { path, disk, count })
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        write(&self.path.join(name), value)
    }

    /// Runs a test of this binary in the group, with `directory` for its own.
    pub(crate) fn run(&self, test: &str, directory: &Path) {
        let mut command = Command::new("sh");
        command.args(["-ec", "echo $$ > \"$0/cgroup.procs\"; exec \"$@\""]);
        run_in(command.arg(&self.path), test, directory);
    }

    /// Bytes that were written to the disk from within the group.
    pub(crate) fn written(&self) -> u64 {
        let (file, before) = self.count;
        let text = fs::read_to_string(self.path.join(file)).unwrap();
        let of_disk = text.lines().filter(|line| line.starts_with(&self.disk));
        let numbers = of_disk.filter_map(|line| {
            let (_, rest) = line.split_once(before)?;
            rest.split_whitespace().next()?.parse::<u64>().ok()
        });
        numbers.sum()
    }
}

fn write(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| format!("{}: {error}", path.display()))
}

/// The whole disk below a directory; limits are not for parts of one.
fn disk_of(directory: &Path) -> Result<String, String> {
    let device = fs::metadata(directory)
        .map_err(|error| error.to_string())?
        .dev();
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    let known = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let at = fs::canonicalize(&known)
        .map_err(|_| format!("{} is on no disk of its own", directory.display()))?;
    let whole = match at.join("partition").exists() {
        true => at.parent().map(Path::to_owned),
        false => Some(at),
    };
    let number = whole.and_then(|whole| fs::read_to_string(whole.join("dev")).ok());
    let number = number.ok_or_else(|| format!("{} tells no disk", known.display()))?;
    Ok(number.trim().to_owned())
}
