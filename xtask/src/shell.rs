//! Starting programs: cargo, apt, Python. Every command is printed before it runs, so that a person can repeat it.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::workspace::{Watcher, Workspace};

/// The cargo that runs us, in the root of the workspace.
pub(crate) fn cargo<'a>(
    workspace: &Workspace,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&workspace.root);
    command
}

/// What CI adds to every cargo command that builds: Cargo.lock must be as committed.
pub(crate) fn locked(workspace: &Workspace) -> &'static [&'static str] {
    match workspace.watcher {
        Watcher::Ci => &["--locked"],
        Watcher::Person => &[],
    }
}

/// Runs a command that shares our terminal; fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let text = describe(command);
    eprintln!("$ {text}");
    let status = command
        .status()
        .with_context(|| format!("start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed: {status}");
    }
    Ok(())
}

/// Whether a command starts and succeeds; what it prints is thrown away.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has_cargo_command(workspace: &Workspace, name: &str) -> bool {
    succeeds(&mut cargo(workspace, [name, "--version"]))
}

/// Whether a program is on the path.
pub(crate) fn has_program(name: &str) -> bool {
    succeeds(Command::new(name).arg("--version"))
}

fn describe(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let mut text = program.rsplit('/').next().unwrap_or(&program).to_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{describe, has_program, run, succeeds};

    #[test]
    fn a_command_is_described_by_its_name_and_arguments() {
        assert_eq!(
            describe(Command::new("/usr/bin/env").args(["one", "two"])),
            "env one two"
        );
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run(&mut Command::new("false")).expect_err("false fails");
        assert!(error.to_string().contains("`false` failed"));
        assert!(!succeeds(&mut Command::new("false")));
        assert!(!has_program("a-program-that-nobody-has"));
    }
}
