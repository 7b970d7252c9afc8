//! The text of the repository: every file that git tracks or would track, and what a rule says about a line of it.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// One text file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its path relative to the root, with slashes.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

impl Source {
    /// Whether the file is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// A fault in this file.
    pub(crate) fn fault(&self, line: usize, what: impl Into<String>) -> Fault {
        Fault {
            path: self.path.clone(),
            line,
            what: what.into(),
        }
    }

    /// The number of the first line that starts with this text, else 1.
    pub(crate) fn line_starting(&self, start: &str) -> usize {
        self.text
            .lines()
            .position(|line| line.starts_with(start))
            .map_or(1, |index| index + 1)
    }
}

/// One thing that is wrong, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// The file.
    pub(crate) path: String,
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong and how to mend it.
    pub(crate) what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// All text files of the repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// In the order of their paths.
    pub(crate) files: Vec<Source>,
    /// Paths of all files, also of those that are not text.
    pub(crate) paths: Vec<String>,
}

impl Tree {
    /// Reads what git tracks, and what it would track if it were added now.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .context("start `git ls-files`; tidy needs git")?;
        if !output.status.success() {
            bail!(
                "`git ls-files` failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let listing = String::from_utf8_lossy(&output.stdout);
        let mut tree = Self::default();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // A file that is deleted but not committed is in the index and not on disk.
            let Ok(bytes) = std::fs::read(root.join(path)) else {
                continue;
            };
            tree.paths.push(path.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.push(Source {
                    path: path.to_owned(),
                    text,
                });
            }
        }
        tree.paths.sort();
        tree.paths.dedup();
        tree.files.sort_by(|left, right| left.path.cmp(&right.path));
        tree.files.dedup_by(|left, right| left.path == right.path);
        Ok(tree)
    }

    /// The file at that path.
    pub(crate) fn get(&self, path: &str) -> Option<&Source> {
        self.files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
            .map(|index| &self.files[index])
    }

    /// Whether a file or a folder has that path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self
                .paths
                .iter()
                .any(|known| known == path || known.starts_with(&folder))
    }
}

#[cfg(test)]
impl Tree {
    /// A tree for tests.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.paths.push((*path).to_owned());
            tree.files.push(Source {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            });
        }
        tree.paths.sort();
        tree.files.sort_by(|left, right| left.path.cmp(&right.path));
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn files_and_folders_are_found() {
        let tree = Tree::of(&[("docs/one.md", "a\nb"), ("README.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/") && tree.has("docs/one.md") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/two.md"));
        let source = tree.get("docs/one.md").expect("it is there");
        assert_eq!(source.line_starting("b"), 2);
        assert_eq!(source.fault(2, "wrong").to_string(), "docs/one.md:2: wrong");
    }
}
