//! The commands: one file each, with its arguments and what they lead to.

mod bench;
mod completions;
mod config;
mod demo;
mod dfs;
mod doctor;
mod faults;
mod objects;
mod prefetch;
mod replay;
mod server;
mod ssd;
mod status;

use crate::{answer::Answer, screen::Screen};
use clap::Subcommand;
use ziggurat_base::Result;

/// What to do. A new command is a file with `Arguments` and `run`, and a line in each of these two places.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Arguments),
    Replay(replay::Arguments),
    Serve(server::ServeArguments),
    Master(server::MasterArguments),
    Node(server::NodeArguments),
    Put(objects::PutArguments),
    Get(objects::GetArguments),
    Exists(objects::ExistsArguments),
    Prefetch(prefetch::Arguments),
    #[command(name = "rm")]
    Remove(objects::RemoveArguments),
    #[command(name = "ls")]
    List(objects::ListArguments),
    Stat(objects::StatArguments),
    Status(status::Arguments),
    Ssd(ssd::Arguments),
    Dfs(dfs::Arguments),
    Bench(bench::Arguments),
    Config(config::Arguments),
    Doctor(doctor::Arguments),
    Completions(completions::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self, screen: &Screen) -> Result<Answer> {
        match self {
            Self::Demo(arguments) => demo::run(arguments, screen),
            Self::Replay(arguments) => replay::run(arguments, screen),
            Self::Serve(arguments) => server::serve(arguments, screen),
            Self::Master(arguments) => server::master(arguments, screen),
            Self::Node(arguments) => server::node(arguments, screen),
            Self::Put(arguments) => objects::put(arguments, screen),
            Self::Get(arguments) => objects::get(arguments, screen),
            Self::Exists(arguments) => objects::exists(arguments, screen),
            Self::Prefetch(arguments) => prefetch::run(arguments, screen),
            Self::Remove(arguments) => objects::remove(arguments, screen),
            Self::List(arguments) => objects::list(arguments, screen),
            Self::Stat(arguments) => objects::stat(arguments, screen),
            Self::Status(arguments) => status::run(arguments, screen),
            Self::Ssd(arguments) => ssd::run(arguments, screen),
            Self::Dfs(arguments) => dfs::run(arguments, screen),
            Self::Bench(arguments) => bench::run(arguments, screen),
            Self::Config(arguments) => config::run(arguments, screen),
            Self::Doctor(arguments) => doctor::run(arguments, screen),
            Self::Completions(arguments) => Ok(completions::run(arguments)),
        }
    }
}
