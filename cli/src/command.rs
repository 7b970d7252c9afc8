//! The commands: one file each, with its arguments and what they lead to.

mod completions;
mod config;
mod doctor;

use crate::{answer::Answer, screen::Screen};
use clap::Subcommand;
use ziggurat_base::Result;

/// What to do. A new command is a file with `Arguments` and `run`, and a line in each of these two places.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Config(config::Arguments),
    Doctor(doctor::Arguments),
    Completions(completions::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self, screen: &Screen) -> Result<Answer> {
        match self {
            Self::Config(arguments) => config::run(arguments, screen),
            Self::Doctor(arguments) => doctor::run(arguments, screen),
            Self::Completions(arguments) => Ok(completions::run(arguments)),
        }
    }
}
