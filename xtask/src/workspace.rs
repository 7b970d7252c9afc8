//! What `cargo metadata` says about the workspace, cut down to what the steps ask. Owns no rule.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Whether a person or the CI machine watches the run (`CI=true`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// A person: what is missing is named, and the tests that need it are skipped.
    Person,
    /// The CI machine: what is missing is installed, and a skip must be on the list.
    Ci,
}

/// The workspace as cargo sees it.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// The folder of the root Cargo.toml.
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// The members, in the order of their names.
    pub(crate) members: Vec<Member>,
    /// Who watches.
    pub(crate) watcher: Watcher,
}

/// One crate of the workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// The package name.
    pub(crate) name: String,
    /// Its folder, relative to the root.
    pub(crate) folder: String,
    /// Roots of what the product is built from (lib, bins, build script), relative to the workspace root.
    pub(crate) product_roots: Vec<String>,
    /// Its features.
    pub(crate) features: Vec<String>,
    /// Everything it depends on, workspace crates and others.
    pub(crate) edges: Vec<Edge>,
}

/// One dependency of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The package name at the other end.
    pub(crate) to: String,
    /// What it is used for.
    pub(crate) usage: Usage,
}

/// What a dependency is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// In the product, or in its build script.
    Product,
    /// In tests, benches and examples of the crate.
    Test,
}

impl Workspace {
    /// Asks cargo about the workspace of the current folder.
    pub(crate) fn load() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("ask `cargo metadata` about the workspace")?;
        let root = metadata.workspace_root.as_std_path();
        let mut members: Vec<Member> = metadata
            .workspace_packages()
            .into_iter()
            .map(|package| member(root, package))
            .collect();
        members.sort_by(|left, right| left.name.cmp(&right.name));
        let watcher = match std::env::var("CI").as_deref() {
            Ok("true" | "1") => Watcher::Ci,
            _ => Watcher::Person,
        };
        Ok(Self {
            root: root.into(),
            target: metadata.target_directory.into(),
            members,
            watcher,
        })
    }

    /// The member of that name, if the workspace has it.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

fn member(root: &Path, package: &Package) -> Member {
    let manifest = relative(root, package.manifest_path.as_std_path());
    let mut features: Vec<String> = package.features.keys().cloned().collect();
    features.sort();
    Member {
        name: package.name.to_string(),
        folder: manifest
            .trim_end_matches("Cargo.toml")
            .trim_end_matches('/')
            .to_owned(),
        product_roots: package
            .targets
            .iter()
            .filter(|target| !(target.is_test() || target.is_bench() || target.is_example()))
            .map(|target| relative(root, target.src_path.as_std_path()))
            .collect(),
        features,
        edges: package
            .dependencies
            .iter()
            .map(|dependency| Edge {
                to: dependency.name.clone(),
                usage: match dependency.kind {
                    DependencyKind::Development => Usage::Test,
                    _ => Usage::Product,
                },
            })
            .collect(),
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}
