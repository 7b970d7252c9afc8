//! The project's own build steps. `cargo xtask --help` lists them; docs/conventions.md says which rule each enforces.
#![forbid(unsafe_code)]

mod ci;
mod doc;
mod python;
mod shell;
mod sim;
mod skips;
mod test;
mod tidy;
mod tools;
mod tree;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Build steps of Ziggurat.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that a change must pass, step by step.
    Ci(ci::Args),
    /// All tests of the workspace, with a list of those that were skipped and why.
    Test(test::Args),
    /// The rules of docs/conventions.md that a program can check.
    Tidy,
    /// The simulator: seeded faults against the product's own code.
    Sim(sim::Args),
    /// The pages that are made from the code, rustdoc, and the book.
    Doc(doc::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = Workspace::load().and_then(|workspace| match cli.command {
        Command::Ci(args) => ci::run(&workspace, &args),
        Command::Test(args) => test::run(&workspace, &args),
        Command::Tidy => tidy::run(&workspace),
        Command::Sim(args) => sim::run(&workspace, &args),
        Command::Doc(args) => doc::run(&workspace, &args),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
