//! `cargo xtask test`: every test of the workspace, Rust and Python, and the list of what was skipped and why.

use std::process::Command;

use anyhow::{Result, bail};

use crate::python;
use crate::shell;
use crate::skips::{LOG_VARIABLE, Listed, Log};
use crate::tools::{self, Install};
use crate::workspace::{Watcher, Workspace};

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install what the tests need and the machine lacks (needs root and apt); implied by CI=true.
    #[arg(long)]
    install: bool,
    /// Run also what takes much time or memory.
    #[arg(long)]
    heavy: bool,
    /// Run only the Rust tests whose names contain this.
    filter: Option<String>,
}

/// The environment variable that asks for heavy tests; the same name is in tests/tests/field/sizes.rs.
const HEAVY_VARIABLE: &str = "ZIGGURAT_HEAVY";

/// Which tests are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// What any machine can take.
    Usual,
    /// Those too that take much time or memory.
    Heavy,
}

/// Runs the tests of both languages.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let install = if args.install {
        Install::Missing
    } else {
        default_install(workspace)
    };
    let absent = tools::ensure(workspace, install)?;
    let load = if args.heavy { Load::Heavy } else { Load::Usual };
    let rust = rust(workspace, args.filter.as_deref(), load);
    if args.filter.is_some() || !python::exists(workspace) {
        return rust;
    }
    if absent.is_empty() {
        return both(rust, python::run(workspace));
    }
    println!("SKIP python: tool: the Python tests were skipped, as said above");
    match workspace.watcher {
        Watcher::Person => rust,
        Watcher::Ci => both(
            rust,
            Err(anyhow::anyhow!("CI may not skip the Python tests")),
        ),
    }
}

/// What a run installs when nobody says.
pub(crate) fn default_install(workspace: &Workspace) -> Install {
    match workspace.watcher {
        Watcher::Ci => Install::Missing,
        Watcher::Person => Install::Nothing,
    }
}

/// Runs unit, integration and documentation tests, and judges the skips. A failure of one does not hide the others.
pub(crate) fn rust(workspace: &Workspace, filter: Option<&str>, load: Load) -> Result<()> {
    let listed = Listed::load(&workspace.root)?;
    let log = Log::create(&workspace.target)?;
    let run = |command: &mut Command| shell::run(command.env(LOG_VARIABLE, log.path()));
    // Documentation tests come first, so that the last summary that a reader sees is the one that counts most.
    let mut documentation = shell::cargo(workspace, ["test", "--workspace", "--doc"]);
    let documentation = run(documentation.args(shell::locked(workspace)).args(filter));
    let mut units = units(workspace, filter);
    if load == Load::Heavy {
        units.env(HEAVY_VARIABLE, "1");
    }
    let units = run(&mut units);
    let skips = log.close(&listed, workspace.watcher);
    both(both(documentation, units), skips)
}

/// The command for unit and integration tests: nextest where it is installed.
fn units(workspace: &Workspace, filter: Option<&str>) -> Command {
    let mut command = if shell::has_cargo_command(workspace, "nextest") {
        let mut command = shell::cargo(workspace, ["nextest", "run", "--workspace"]);
        command.args(["--no-tests", if filter.is_some() { "warn" } else { "fail" }]);
        if workspace.watcher == Watcher::Ci {
            command.args(["--profile", "ci"]);
        }
        command
    } else {
        eprintln!(
            "cargo-nextest is not installed; using `cargo test`, which has no time limits per test"
        );
        // The targets are named, because the default ones contain the documentation tests, which run by themselves.
        let mut command = shell::cargo(workspace, ["test", "--workspace", "--no-fail-fast"]);
        command.args(["--lib", "--bins", "--tests", "--examples"]);
        command
    };
    command.args(shell::locked(workspace)).args(filter);
    command
}

/// Both must be well; both are named if neither is.
fn both(first: Result<()>, second: Result<()>) -> Result<()> {
    match (first, second) {
        (Err(first), Err(second)) => bail!("{first:#}; and {second:#}"),
        (first, second) => first.and(second),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::both;

    #[test]
    fn no_failure_hides_another() {
        assert!(both(Ok(()), Ok(())).is_ok());
        assert!(both(Ok(()), Err(anyhow!("two"))).is_err());
        let error = both(Err(anyhow!("one")), Err(anyhow!("two"))).expect_err("both failed");
        assert_eq!(error.to_string(), "one; and two");
    }
}
