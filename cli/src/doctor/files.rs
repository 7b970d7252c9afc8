//! Files: how many may be open, and where the era is kept.

use super::{Check, machine::Machine};
use crate::config::Settings;
use std::{fs, io, path::Path};

/// Sockets of a large cluster, several for each peer, and files of tiers.
const OPEN_FILES_LEAST: u64 = 4096;

/// Whether enough sockets and files may be open.
pub(super) fn open_files(machine: &Machine) -> Check {
    const NAME: &str = "open files";
    match machine.limit("Max open files") {
        None => Check::unknown(NAME, "proc/self/limits"),
        Some(limit) if limit >= OPEN_FILES_LEAST => Check::ok(NAME, format!("limit {limit}")),
        Some(limit) => Check::warn(
            NAME,
            format!("limit {limit}"),
            format!(
                "every peer takes several: ulimit -n {OPEN_FILES_LEAST}, or LimitNOFILE of the service"
            ),
        ),
    }
}

/// Whether the state directory can be written. One that is missing is made at the start of a master, so its nearest
/// parent that exists is tried.
pub(super) fn state_dir(settings: &Settings) -> Check {
    const NAME: &str = "state directory";
    let Some(dir) = &settings.partition.state_dir else {
        return Check::ok(NAME, "not set: eras come from the clock of this machine");
    };
    let existing = dir.ancestors().find(|dir| dir.exists());
    let existing = existing.unwrap_or(Path::new("."));
    match try_writing(existing) {
        Ok(()) => Check::ok(NAME, format!("{} can be written", dir.display())),
        Err(error) => Check::fail(
            NAME,
            format!("cannot write in {}: {error}", existing.display()),
            "give another --state-dir, or the permission to write there",
        ),
    }
}

fn try_writing(dir: &Path) -> io::Result<()> {
    let probe = dir.join(format!(".ziggurat-doctor-{}", std::process::id()));
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&probe)?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::state_dir;
    use crate::{config::Settings, doctor::Verdict};

    #[test]
    fn a_state_directory_may_be_missing_but_not_be_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::defaults();
        settings.partition.state_dir = Some(dir.path().join("not/there/yet"));
        assert_eq!(state_dir(&settings).verdict, Verdict::Ok);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        settings.partition.state_dir = Some(file.join("below"));
        assert_eq!(state_dir(&settings).verdict, Verdict::Fail);
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 1, "the probe is taken away");
    }
}
