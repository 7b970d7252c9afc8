//! Tests of the Python extension: it is built and installed into an environment of its own, then pytest runs.

use std::process::Command;

use anyhow::Result;

use crate::shell;
use crate::workspace::Workspace;

/// The folder of the extension, with its pyproject.toml and tests/.
const FOLDER: &str = "python";

/// Whether the repository has the extension.
pub(crate) fn exists(workspace: &Workspace) -> bool {
    workspace.root.join(FOLDER).join("pyproject.toml").is_file()
}

/// What maturin passes on to cargo: the profile of the Rust tests, so that what they have built is used again.
fn build_arguments(workspace: &Workspace) -> String {
    let mut arguments = vec!["--profile", "dev"];
    arguments.extend(shell::locked(workspace));
    arguments.join(" ")
}

/// Builds, installs, tests. The extra `test` of pyproject.toml names what the tests import.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let environment = workspace.target.join("python-venv");
    shell::run(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment),
    )?;
    let python = environment.join("bin/python");
    let extension = format!("./{FOLDER}[test]");
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--no-input"])
        .arg(extension);
    shell::run(
        install
            .env("CARGO_TARGET_DIR", &workspace.target)
            .env("MATURIN_PEP517_ARGS", build_arguments(workspace))
            .current_dir(&workspace.root),
    )?;
    let tests = format!("{FOLDER}/tests");
    shell::run(
        Command::new(&python)
            .args(["-m", "pytest"])
            .arg(tests)
            .current_dir(&workspace.root),
    )
}
