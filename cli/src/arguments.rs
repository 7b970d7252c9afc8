//! The command line as clap sees it.

use crate::{
    answer::Exit,
    command::Command,
    screen::{Form, Screen},
};
use anstyle::{AnsiColor, Style};
use clap::{Parser, builder::Styles};
use std::ffi::OsStr;
use ziggurat_base::{Code, Error};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().bold())
    .valid(AnsiColor::Green.on_default())
    .invalid(Style::new().bold());

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed, or something is wrong that was looked for
  2  the command line, the configuration or another input cannot be used, or an address to listen on is taken
  3  a key that was asked for is not there

With --json the last line of standard output is one JSON object; an error is {\"error\": {code, name, what, cure}}.
Progress and warnings go to standard error. NO_COLOR turns colours off.";

/// A distributed, tiered key-value store for LLM KV cache
#[derive(Debug, Parser)]
#[command(
    name = "ziggurat",
    version = version(),
    styles = STYLES,
    after_help = AFTER_HELP,
    max_term_width = 120,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print one JSON object on the last line of standard output
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
}

/// The version of the program and of what it writes to sockets.
fn version() -> String {
    format!(
        "{} (protocol {}, frame layout {})",
        env!("CARGO_PKG_VERSION"),
        ziggurat_store::VERSIONS,
        ziggurat_base::frame::VERSION
    )
}

/// Parses the arguments of this process. Help and version end here, as do usage errors, which are told in both forms.
pub(crate) fn parse() -> Result<(Screen, Cli), Exit> {
    match Cli::try_parse() {
        Ok(cli) => {
            let form = if cli.json { Form::Json } else { Form::People };
            Ok((Screen::new(form), cli))
        }
        Err(error) => Err(refuse(&error)),
    }
}

fn refuse(error: &clap::Error) -> Exit {
    // Nobody is left to tell when the terminal is gone.
    let _gone = error.print();
    if !error.use_stderr() {
        return Exit::Done;
    }
    let wants_json = std::env::args_os().any(|argument| argument == OsStr::new("--json"));
    if wants_json {
        let text = error.render().to_string();
        let what = text.lines().next().unwrap_or_default();
        let what = what.trim_start_matches("error: ").to_owned();
        Screen::new(Form::Json).tell_programs(&Error::new(Code::InvalidParams, what));
    }
    Exit::Usage
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_of_every_command_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string);
            let example = format!("ziggurat {name}");
            assert!(help.is_some_and(|help| help.contains(&example)), "{name}");
        }
    }
}
