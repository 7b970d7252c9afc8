//! Programs that tests need beside the Rust toolchain: found, installed where that is asked for, or named.

use std::process::Command;

use anyhow::Result;

use crate::shell;
use crate::workspace::Workspace;

/// A program that some tests need.
pub(crate) struct Tool {
    /// What people call it.
    name: &'static str,
    /// The Debian package that brings it.
    package: &'static str,
    /// Which tests need it.
    why: &'static str,
    /// A command that succeeds when it is there.
    probe: &'static [&'static str],
    /// It is needed when the repository has this folder.
    folder: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "python3",
        package: "python3",
        why: "the tests of the Python extension",
        probe: &["python3", "--version"],
        folder: "python",
    },
    Tool {
        name: "python3 venv",
        package: "python3-venv",
        why: "the tests of the Python extension run in an environment of their own",
        probe: &["python3", "-c", "import ensurepip, venv"],
        folder: "python",
    },
    Tool {
        name: "fio",
        package: "fio",
        why: "the test of `ziggurat bench ssd`, which measures the SSD tier beside it",
        probe: &["fio", "--version"],
        folder: "fio-tests",
    },
    Tool {
        name: "mkfs.ext4",
        package: "e2fsprogs",
        why: "the test that takes the power from the SSD tier's filesystem",
        probe: &["mkfs.ext4", "-V"],
        folder: "tiers",
    },
];

/// Whether missing tools may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Install {
    /// With apt, as root.
    Missing,
    /// Never; what is missing is only named.
    Nothing,
}

/// Looks for every tool that this repository's tests need, and gives back those that are missing in the end.
pub(crate) fn ensure(workspace: &Workspace, install: Install) -> Result<Vec<&'static Tool>> {
    let absent = missing(workspace);
    if absent.is_empty() {
        return Ok(absent);
    }
    if install == Install::Missing {
        if shell::has_program("apt-get") {
            let packages = absent.iter().map(|tool| tool.package);
            shell::run(Command::new("apt-get").arg("update"))?;
            shell::run(
                Command::new("apt-get")
                    .args(["install", "--yes", "--no-install-recommends"])
                    .args(packages)
                    .env("DEBIAN_FRONTEND", "noninteractive"),
            )?;
        } else {
            eprintln!("nothing can be installed: this system has no apt-get");
        }
    }
    let absent = missing(workspace);
    for tool in &absent {
        eprintln!(
            "missing: {} (Debian package {}), for {}; those tests are skipped. `cargo xtask test --install` as root installs it",
            tool.name, tool.package, tool.why
        );
    }
    Ok(absent)
}

fn missing(workspace: &Workspace) -> Vec<&'static Tool> {
    TOOLS
        .iter()
        .filter(|tool| workspace.root.join(tool.folder).is_dir())
        .filter(|tool| !shell::succeeds(Command::new(tool.probe[0]).args(&tool.probe[1..])))
        .collect()
}
