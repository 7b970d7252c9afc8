//! The rules of docs/conventions.md that a program can check. Each rule is a function from text, or from the crate
//! graph, to faults; this file gathers them. Nothing here changes a file.

mod edges;
mod generated;
mod layout;
mod links;
mod manifest;
pub(crate) mod mask;
mod purity;
mod reasons;
mod unsafety;
mod wording;

use anyhow::{Result, bail};

use crate::skips::Listed;
use crate::tree::{Fault, Source, Tree};
use crate::workspace::Workspace;

/// A rule that looks at one file.
const FILE_RULES: &[fn(&Source) -> Vec<Fault>] = &[
    layout::check,
    purity::check,
    unsafety::check_blocks,
    wording::check,
];

/// Checks everything, prints every fault, fails if there is one.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let tree = Tree::load(&workspace.root)?;
    let listed = Listed::load(&workspace.root)?;
    let faults = check(workspace, &tree, &listed)?;
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => {
            println!("tidy: {} files, no faults", tree.paths.len());
            Ok(())
        }
        1 => bail!("tidy: 1 fault"),
        count => bail!("tidy: {count} faults"),
    }
}

fn check(workspace: &Workspace, tree: &Tree, listed: &Listed) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for source in &tree.files {
        faults.extend(FILE_RULES.iter().flat_map(|rule| rule(source)));
        faults.extend(reasons::check(source, listed));
    }
    faults.extend(edges::check(&workspace.members, tree));
    faults.extend(unsafety::check_roots(&workspace.members, tree));
    faults.extend(manifest::check(&workspace.members, tree)?);
    faults.extend(links::check(tree));
    faults.extend(generated::check(workspace, tree)?);
    faults.sort();
    faults.dedup();
    Ok(faults)
}
