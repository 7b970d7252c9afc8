//! What the kernel tells in /proc and /sys.

use std::path::PathBuf;
use ziggurat_base::ByteCount;

/// The files of a machine below a root, which is another folder in tests.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        Self { root: "/".into() }
    }

    /// The text of a file, without the space around it; `None` when it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// A line of /proc/meminfo in its own unit: bytes where it says kB.
    pub(super) fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.read("proc/meminfo")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        match line.trim().strip_suffix("kB") {
            Some(kib) => Some(ByteCount::kib(kib.trim().parse().ok()?).0),
            None => line.trim().parse().ok(),
        }
    }

    /// The soft limit of this process, by its name in /proc/self/limits; `u64::MAX` when there is none.
    pub(super) fn limit(&self, name: &str) -> Option<u64> {
        let text = self.read("proc/self/limits")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        match line.split_whitespace().next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        }
    }

    /// The choice in brackets of a file such as `always [madvise] never`.
    pub(super) fn choice(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let (_, rest) = text.split_once('[')?;
        let (choice, _) = rest.split_once(']')?;
        Some(choice.to_owned())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::Machine;
    use std::{fs, path::Path};

    /// A machine of these files.
    pub(in crate::doctor) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = dir.path().to_owned();
        (dir, Machine { root })
    }

    #[test]
    fn the_kernels_files_are_understood() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n\
                      Max locked memory         unlimited            unlimited            bytes     \n";
        let (_dir, machine) = machine(&[
            (
                "proc/meminfo",
                "MemTotal: 10 kB\nMemAvailable:    2048 kB\nHugePages_Free:       7\n",
            ),
            ("proc/self/limits", limits),
            ("sys/thp", "always [madvise] never\n"),
        ]);
        assert_eq!(machine.meminfo("MemAvailable"), Some(2 << 20));
        assert_eq!(machine.meminfo("HugePages_Free"), Some(7));
        assert_eq!(machine.meminfo("Mem"), None);
        assert_eq!(machine.limit("Max open files"), Some(1024));
        assert_eq!(machine.limit("Max locked memory"), Some(u64::MAX));
        assert_eq!(machine.choice("sys/thp").as_deref(), Some("madvise"));
        assert_eq!(machine.read("proc/nothing"), None);
    }
}
