//! `ziggurat completions`: the script that completes our commands in a shell.

use crate::{answer::Answer, arguments::Cli};
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  ziggurat completions bash > ~/.local/share/bash-completion/completions/ziggurat
  ziggurat completions zsh > ~/.zfunc/_ziggurat
  ziggurat completions fish > ~/.config/fish/completions/ziggurat.fish";

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Answer {
    let mut script = Vec::new();
    generate(
        arguments.shell,
        &mut Cli::command(),
        "ziggurat",
        &mut script,
    );
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({"shell": arguments.shell.to_string(), "script": script});
    Answer::done(script, &json)
}
