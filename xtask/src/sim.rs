//! `cargo xtask sim`: builds the simulator in release and hands its arguments on.

use anyhow::{Result, bail};

use crate::shell;
use crate::workspace::Workspace;

/// The package that holds the simulator.
pub(crate) const PACKAGE: &str = "ziggurat-tests";
const BINARY: &str = "sim";
/// The feature that plants bugs, which the simulator must catch.
pub(crate) const CANARY: &str = "canary";

/// Arguments of `cargo xtask sim`.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Args {
    /// How many seeds to run.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u64>,
    /// The first seed.
    #[arg(long, value_name = "SEED")]
    pub(crate) from: Option<u64>,
    /// Print one JSON object on the last line of standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Plant each known bug in turn, and succeed when all are caught.
    #[arg(long)]
    pub(crate) canary: bool,
}

/// Runs the simulator; fails when it finds something.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if let Some(what) = missing(workspace, args) {
        bail!("{what}");
    }
    let mut command = shell::cargo(
        workspace,
        ["run", "--release", "--package", PACKAGE, "--bin", BINARY],
    );
    if args.canary {
        command.args(["--features", CANARY]);
    }
    command
        .args(shell::locked(workspace))
        .arg("--")
        .args(arguments(args));
    shell::run(&mut command)
}

/// What the workspace lacks for this run, if anything.
pub(crate) fn missing(workspace: &Workspace, args: &Args) -> Option<String> {
    let Some(member) = workspace.member(PACKAGE) else {
        return Some(format!(
            "the workspace has no package `{PACKAGE}`, which holds the simulator"
        ));
    };
    let has_canary = member.features.iter().any(|feature| feature == CANARY);
    (args.canary && !has_canary).then(|| format!("`{PACKAGE}` has no feature `{CANARY}`"))
}

/// The arguments as the simulator reads them.
fn arguments(args: &Args) -> Vec<String> {
    let mut arguments = Vec::new();
    for (name, value) in [("--seeds", args.seeds), ("--from", args.from)] {
        arguments.extend(
            value
                .into_iter()
                .flat_map(|value| [name.to_owned(), value.to_string()]),
        );
    }
    for (name, is_set) in [("--json", args.json), ("--canary", args.canary)] {
        arguments.extend(is_set.then(|| name.to_owned()));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Args, PACKAGE, arguments, missing};
    use crate::workspace::{Member, Watcher, Workspace};

    fn workspace(members: Vec<Member>) -> Workspace {
        Workspace {
            root: PathBuf::new(),
            target: PathBuf::new(),
            members,
            watcher: Watcher::Person,
        }
    }

    #[test]
    fn arguments_are_handed_on() {
        let args = Args {
            seeds: Some(2),
            from: Some(7),
            json: true,
            canary: true,
        };
        assert_eq!(
            arguments(&args),
            ["--seeds", "2", "--from", "7", "--json", "--canary"]
        );
        assert_eq!(arguments(&Args::default()), [""; 0]);
    }

    #[test]
    fn a_missing_package_or_feature_is_named() {
        let args = Args {
            canary: true,
            ..Args::default()
        };
        assert!(missing(&workspace(Vec::new()), &args).is_some_and(|what| what.contains(PACKAGE)));
        let mut member = Member {
            name: PACKAGE.to_owned(),
            ..Member::default()
        };
        assert!(
            missing(&workspace(vec![member.clone()]), &args)
                .is_some_and(|what| what.contains("canary"))
        );
        assert_eq!(
            missing(&workspace(vec![member.clone()]), &Args::default()),
            None
        );
        member.features.push("canary".to_owned());
        assert_eq!(missing(&workspace(vec![member]), &args), None);
    }
}
