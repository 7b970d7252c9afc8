//! docs/SUMMARY.md: the contents of the book, from the pages that exist.

use std::fmt::Write as _;

use crate::tree::{Source, Tree};

/// Pages in the order in which a newcomer reads them; others follow by name.
const ORDER: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "glossary.md",
    "journeys.md",
    "config.md",
    "errors.md",
    "metrics.md",
    "versioning.md",
    "seed-protocol.md",
    "conventions.md",
];

/// Folders of docs/ that are parts of the book, and their titles.
const PARTS: &[(&str, &str)] = &[
    ("journeys", "Journeys"),
    ("formats", "Formats"),
    ("operations", "Operations"),
    ("adr", "Decisions"),
    ("rfcs", "Big changes"),
];

/// The whole page.
pub(crate) fn page(tree: &Tree) -> String {
    let mut page = "# Summary\n".to_owned();
    let mut pages = pages_in(tree, "docs/");
    pages.retain(|(path, _)| path != "SUMMARY.md");
    let rank = |path: &str| {
        ORDER
            .iter()
            .position(|known| *known == path)
            .unwrap_or(ORDER.len())
    };
    pages.sort_by(|(left, _), (right, _)| (rank(left), left).cmp(&(rank(right), right)));
    push(&mut page, "", &pages);
    for (folder, title) in PARTS {
        let pages = pages_in(tree, &format!("docs/{folder}/"));
        if !pages.is_empty() {
            write!(page, "\n# {title}\n").expect("a string takes everything");
            push(&mut page, &format!("{folder}/"), &pages);
        }
    }
    page
}

/// The pages directly in a folder, by name, with their titles.
fn pages_in(tree: &Tree, folder: &str) -> Vec<(String, String)> {
    tree.files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix(folder)?, file)))
        .filter(|(name, _)| name.ends_with(".md") && !name.contains('/'))
        .map(|(name, file)| (name.to_owned(), title(name, file)))
        .collect()
}

/// The first heading, else the name.
fn title(name: &str, file: &Source) -> String {
    let heading = file.text.lines().find_map(|line| line.strip_prefix("# "));
    heading
        .unwrap_or(name.trim_end_matches(".md"))
        .trim()
        .to_owned()
}

fn push(page: &mut String, folder: &str, pages: &[(String, String)]) {
    page.push('\n');
    for (name, title) in pages {
        writeln!(page, "- [{title}]({folder}{name})").expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::tree::Tree;

    #[test]
    fn pages_are_listed_in_reading_order_and_folders_become_parts() {
        let tree = Tree::of(&[
            ("docs/SUMMARY.md", "# Summary"),
            ("docs/errors.md", "# Error codes\n"),
            ("docs/a-note.md", "no heading"),
            ("docs/ARCHITECTURE.md", "# The house\n"),
            ("docs/adr/0001-fencing.md", "# Fencing\n"),
            ("docs/changes/unreleased/x.md", "# X\n"),
        ]);
        let expected = "# Summary\n\n- [The house](ARCHITECTURE.md)\n- [Error codes](errors.md)\n- [a-note](a-note.md)\n\
                        \n# Decisions\n\n- [Fencing](adr/0001-fencing.md)\n";
        assert_eq!(page(&tree), expected);
    }
}
