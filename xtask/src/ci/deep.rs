//! The steps of `--deep`. Each needs a tool that a machine may lack; then it says so and is skipped.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::steps::passed;
use super::{Outcome, Step};
use crate::workspace::Workspace;
use crate::{doc, shell};

/// Where the fuzz targets are.
const FUZZ_FOLDER: &str = "tests/fuzz";

/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 60;

/// Modules of the lowest floors that run under miri: pointers and bytes, no system calls.
const MIRI_TESTS: &[(&str, &[&str])] = &[
    (
        "ziggurat-base",
        &[
            "checksum", "copy", "extent", "frame", "key", "ticket", "unit",
        ],
    ),
    ("ziggurat-engine", &["space", "row"]),
];

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "miri",
        run: miri,
    },
    Step {
        name: "fuzz",
        run: fuzz,
    },
    Step {
        name: "book",
        run: book,
    },
    Step {
        name: "typos",
        run: typos,
    },
    Step {
        name: "machete",
        run: machete,
    },
];

fn lacks(what: &str) -> Result<Outcome> {
    Ok(Outcome::Skipped(what.to_owned()))
}

/// A cargo of the nightly toolchain, through rustup.
fn nightly(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command
        .arg("+nightly")
        .args(arguments)
        .current_dir(&workspace.root);
    // The toolchain that runs us is in these, and would win over the one that was asked for.
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

fn miri(workspace: &Workspace) -> Result<Outcome> {
    if !shell::succeeds(&mut nightly(workspace, &["miri", "--version"])) {
        return lacks("miri is not installed; it comes with a nightly toolchain");
    }
    for (package, modules) in MIRI_TESTS {
        let mut command = nightly(
            workspace,
            &["miri", "test", "--package", package, "--lib", "--"],
        );
        shell::run(command.args(*modules))?;
    }
    Ok(Outcome::Passed)
}

fn fuzz(workspace: &Workspace) -> Result<Outcome> {
    if !workspace.root.join(FUZZ_FOLDER).is_dir() {
        return lacks("the repository has no tests/fuzz");
    }
    if !shell::succeeds(&mut nightly(workspace, &["fuzz", "--version"])) {
        return lacks(
            "cargo-fuzz or a nightly toolchain is not installed; `cargo install --locked cargo-fuzz`",
        );
    }
    let listing = nightly(workspace, &["fuzz", "list", "--fuzz-dir", FUZZ_FOLDER])
        .output()
        .context("list the fuzz targets")?;
    let limit = format!("-max_total_time={FUZZ_SECONDS}");
    for target in String::from_utf8_lossy(&listing.stdout).lines() {
        shell::run(&mut nightly(
            workspace,
            &[
                "fuzz",
                "run",
                "--fuzz-dir",
                FUZZ_FOLDER,
                target,
                "--",
                &limit,
            ],
        ))?;
    }
    Ok(Outcome::Passed)
}

fn book(workspace: &Workspace) -> Result<Outcome> {
    if !shell::has_program("mdbook") {
        return lacks("mdbook is not installed; `cargo install --locked mdbook`");
    }
    passed(doc::book(workspace))
}

fn typos(workspace: &Workspace) -> Result<Outcome> {
    if !shell::has_program("typos") {
        return lacks("typos is not installed; `cargo install --locked typos-cli`");
    }
    passed(shell::run(
        Command::new("typos").current_dir(&workspace.root),
    ))
}

fn machete(workspace: &Workspace) -> Result<Outcome> {
    if !shell::has_cargo_command(workspace, "machete") {
        return lacks("cargo-machete is not installed; `cargo install --locked cargo-machete`");
    }
    passed(shell::run(&mut shell::cargo(workspace, ["machete"])))
}
