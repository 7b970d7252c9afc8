//! The steps of every run, cheap ones first.

use anyhow::{Result, bail};

use super::{Outcome, Step};
use crate::workspace::{Watcher, Workspace};
use crate::{doc, python, shell, sim, test, tidy, tools};

/// Seeds of the simulator in CI: about two minutes.
const SEED_COUNT: u64 = 2000;

/// Features that no ordinary machine can build, or that must not be on beside others.
const FEATURES_LEFT_OUT: &[&str] = &["default", "rdma", "cuda", "hf3fs", sim::CANARY];

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "tidy",
        run: |workspace| passed(tidy::run(workspace)),
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "test",
        run: rust_tests,
    },
    Step {
        name: "python",
        run: python_tests,
    },
    Step {
        name: "doc",
        run: |workspace| passed(doc::rustdoc(workspace, &[])),
    },
    Step {
        name: "deny",
        run: deny,
    },
    Step {
        name: "sim",
        run: seeds,
    },
    Step {
        name: "canaries",
        run: canaries,
    },
];

pub(super) fn passed(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

fn fmt(workspace: &Workspace) -> Result<Outcome> {
    passed(shell::run(&mut shell::cargo(
        workspace,
        ["fmt", "--all", "--check"],
    )))
}

/// Clippy over everything, once without features, once with all that need no hardware, and over the planted bugs.
fn clippy(workspace: &Workspace) -> Result<Outcome> {
    let lint = |selection: &[&str]| {
        let mut command = shell::cargo(workspace, ["clippy", "--all-targets"]);
        command
            .args(selection)
            .args(shell::locked(workspace))
            .args(["--", "--deny", "warnings"]);
        shell::run(&mut command)
    };
    lint(&["--workspace"])?;
    let features = features(workspace);
    if !features.is_empty() {
        lint(&["--workspace", "--features", &features.join(",")])?;
    }
    let canary = sim::Args {
        canary: true,
        ..sim::Args::default()
    };
    if sim::missing(workspace, &canary).is_none() {
        lint(&["--package", sim::PACKAGE, "--features", sim::CANARY])?;
    }
    Ok(Outcome::Passed)
}

/// Every feature of every member that an ordinary machine can build, as `package/feature`.
fn features(workspace: &Workspace) -> Vec<String> {
    let of_member = |member: &'_ crate::workspace::Member| {
        let chosen = member
            .features
            .iter()
            .filter(|feature| !FEATURES_LEFT_OUT.contains(&feature.as_str()));
        chosen
            .map(|feature| format!("{}/{feature}", member.name))
            .collect::<Vec<_>>()
    };
    workspace.members.iter().flat_map(of_member).collect()
}

/// Unit, integration and documentation tests; the corpora of the fuzz targets are replayed by tests among them.
fn rust_tests(workspace: &Workspace) -> Result<Outcome> {
    tools::ensure(workspace, test::default_install(workspace))?;
    passed(test::rust(workspace, None, test::Load::Usual))
}

fn python_tests(workspace: &Workspace) -> Result<Outcome> {
    if !python::exists(workspace) {
        return Ok(Outcome::Skipped(
            "the repository has no python/pyproject.toml".to_owned(),
        ));
    }
    let absent = tools::ensure(workspace, test::default_install(workspace))?;
    match (absent.is_empty(), workspace.watcher) {
        (true, _) => passed(python::run(workspace)),
        (false, Watcher::Person) => Ok(Outcome::Skipped(
            "tools are missing, as said above".to_owned(),
        )),
        (false, Watcher::Ci) => bail!("tools are missing, as said above"),
    }
}

/// Licences, bans and sources. Advisories need a database from the network: `cargo deny check advisories` by hand.
fn deny(workspace: &Workspace) -> Result<Outcome> {
    if shell::has_cargo_command(workspace, "deny") {
        let arguments = [
            "deny",
            "--workspace",
            "check",
            "--hide-inclusion-graph",
            "licenses",
            "bans",
            "sources",
        ];
        return passed(shell::run(&mut shell::cargo(workspace, arguments)));
    }
    let what = "cargo-deny is not installed; `cargo install --locked cargo-deny` brings it";
    match workspace.watcher {
        Watcher::Person => Ok(Outcome::Skipped(what.to_owned())),
        Watcher::Ci => bail!("{what}, as .ci/run does"),
    }
}

fn seeds(workspace: &Workspace) -> Result<Outcome> {
    simulate(
        workspace,
        &sim::Args {
            seeds: Some(SEED_COUNT),
            ..sim::Args::default()
        },
    )
}

fn canaries(workspace: &Workspace) -> Result<Outcome> {
    simulate(
        workspace,
        &sim::Args {
            canary: true,
            ..sim::Args::default()
        },
    )
}

fn simulate(workspace: &Workspace, args: &sim::Args) -> Result<Outcome> {
    match sim::missing(workspace, args) {
        Some(what) => Ok(Outcome::Skipped(what)),
        None => passed(sim::run(workspace, args)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::features;
    use crate::workspace::{Member, Watcher, Workspace};

    #[test]
    fn features_that_need_hardware_are_left_out() {
        let features_of_member = ["canary", "default", "rdma", "testkit"]
            .map(str::to_owned)
            .to_vec();
        let member = Member {
            name: "a".to_owned(),
            features: features_of_member,
            ..Member::default()
        };
        let workspace = Workspace {
            root: PathBuf::new(),
            target: PathBuf::new(),
            members: vec![member],
            watcher: Watcher::Ci,
        };
        assert_eq!(features(&workspace), ["a/testkit"]);
    }
}
