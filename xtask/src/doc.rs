//! Documentation: the pages that are made from the code, rustdoc, and the book over docs/.

mod config;
mod errors;
mod summary;

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::shell;
use crate::tree::Tree;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask doc`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the pages that are made from the code, instead of only comparing them.
    #[arg(long)]
    write: bool,
    /// Open the crate documentation in a browser.
    #[arg(long)]
    open: bool,
}

/// A page that is made from the code.
pub(crate) struct Page {
    /// Where it is.
    pub(crate) path: &'static str,
    /// What makes its text.
    pub(crate) maker: Maker,
    /// Makes its text.
    pub(crate) make: fn(&Workspace, &Tree) -> Result<String>,
}

/// What makes the text of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// We do, in no time, so that `tidy` compares it.
    Xtask,
    /// The product, which has to be built for it; a test of the crate compares it.
    Product,
}

/// Every page that is made from the code. The summary comes last, because it lists the others.
pub(crate) const PAGES: &[Page] = &[
    Page {
        path: "docs/errors.md",
        maker: Maker::Xtask,
        make: |_, _| Ok(errors::page()),
    },
    Page {
        path: "docs/config.md",
        maker: Maker::Product,
        make: |workspace, _| config::page(workspace),
    },
    Page {
        path: "docs/SUMMARY.md",
        maker: Maker::Xtask,
        make: |_, tree| Ok(summary::page(tree)),
    },
];

/// Writes or compares the made pages, then builds rustdoc and, where mdbook is installed, the book.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    for page in PAGES {
        let tree = Tree::load(&workspace.root)?;
        let made = (page.make)(workspace, &tree).with_context(|| format!("make {}", page.path))?;
        if tree.get(page.path).is_some_and(|found| found.text == made) {
            continue;
        }
        if !args.write {
            bail!(
                "{} is not what the code would make; run `cargo xtask doc --write`",
                page.path
            );
        }
        std::fs::write(workspace.root.join(page.path), made)
            .with_context(|| format!("write {}", page.path))?;
        println!("wrote {}", page.path);
    }
    rustdoc(workspace, if args.open { &["--open"] } else { &[] })?;
    if shell::has_program("mdbook") {
        book(workspace)
    } else {
        println!(
            "mdbook is not installed, so the book was not built; `cargo install --locked mdbook` brings it"
        );
        Ok(())
    }
}

/// Builds the crate documentation; a warning is an error.
pub(crate) fn rustdoc(workspace: &Workspace, more: &[&str]) -> Result<()> {
    let mut command = shell::cargo(workspace, ["doc", "--workspace", "--no-deps"]);
    shell::run(
        command
            .args(shell::locked(workspace))
            .args(more)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Builds the book.
pub(crate) fn book(workspace: &Workspace) -> Result<()> {
    shell::run(
        Command::new("mdbook")
            .arg("build")
            .current_dir(&workspace.root),
    )
}
