//! The command line: it parses, calls the library, and prints. It decides nothing and holds no state.
//!
//! A command is one file in `command`: its arguments, a call, and an [`answer::Answer`]. `config` turns file, environment
//! and flags into typed settings; `screen` is the only place that writes to the terminal.
#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod command;
mod config;
mod doctor;
mod logging;
mod progress;
mod screen;
mod table;

use std::process::ExitCode;

#[cfg(feature = "canary")]
compile_error!(
    "the feature `canary` plants bugs for the simulator; a command line that people run must not have them: build \
     `ziggurat-tests` with it instead"
);

// The same for the case that another package of the same build has turned the feature on.
const _: () = assert!(
    !ziggurat_store::CANARIES_BUILT_IN,
    "the engine was built with planted bugs; build the command line without the feature `canary`"
);

fn main() -> ExitCode {
    let (screen, cli) = match arguments::parse() {
        Ok(parsed) => parsed,
        Err(exit) => return exit.into(),
    };
    let outcome = cli.command.run(&screen);
    screen.finish(outcome).into()
}
