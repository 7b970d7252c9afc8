//! Dependencies (convention 51): named once, in the root manifest, each with a line on why; members only refer to it.

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use crate::tree::{Fault, Source, Tree};
use crate::workspace::Member;

const SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

pub(crate) fn check(members: &[Member], tree: &Tree) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    if let Some(root) = tree.get("Cargo.toml") {
        faults.extend(check_root(root));
    }
    for member in members {
        if let Some(source) = tree.get(&format!("{}/Cargo.toml", member.folder)) {
            faults.extend(check_member(source)?);
        }
    }
    Ok(faults)
}

/// Every entry of `[workspace.dependencies]` has a comment directly above it. Our own crates may share one.
fn check_root(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut is_inside = false;
    let mut above = "";
    let mut is_ours_explained = false;
    for (index, line) in source.text.lines().enumerate() {
        if line.starts_with('[') {
            is_inside = line.starts_with("[workspace.dependencies");
        }
        let entry = entry_name(line).filter(|_| is_inside);
        if let Some(name) = entry {
            let is_ours = line.contains("path =");
            let is_explained = above.starts_with('#') || (is_ours && is_ours_explained);
            is_ours_explained = is_ours && is_explained;
            if !is_explained {
                let what =
                    format!("`{name}` has no line on why; write a comment directly above it");
                faults.push(source.fault(index + 1, what));
            }
        }
        above = line;
    }
    faults
}

fn entry_name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Every dependency is `workspace = true`, and so are the lints.
fn check_member(source: &Source) -> Result<Vec<Fault>> {
    let manifest: Table = source
        .text
        .parse()
        .with_context(|| format!("read {}", source.path))?;
    let mut faults = Vec::new();
    let mut tables: Vec<&Table> = vec![&manifest];
    if let Some(Value::Table(targets)) = manifest.get("target") {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    for table in tables {
        for section in SECTIONS {
            let Some(Value::Table(entries)) = table.get(*section) else {
                continue;
            };
            for (name, _) in entries
                .iter()
                .filter(|(_, value)| !is_from_workspace(value))
            {
                let what = format!(
                    "`{name}` is not `workspace = true`; name it in [workspace.dependencies] of the root and refer to it"
                );
                faults.push(source.fault(source.line_starting(name), what));
            }
        }
    }
    if !manifest.get("lints").is_some_and(is_from_workspace) {
        faults.push(source.fault(
            1,
            "the crate has no lints; add `[lints]` with `workspace = true`",
        ));
    }
    Ok(faults)
}

fn is_from_workspace(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::{check_member, check_root};
    use crate::tree::Source;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn each_dependency_of_the_root_says_why() {
        let good = "[package]\nname = \"x\"\n[workspace.dependencies]\n# Ours.\na = { path = \"a\" }\nb = { path = \"b\" }\n\n\
                    # For sums.\nc = \"1\"\n[profile.dev]\nd = 1\n";
        assert_eq!(check_root(&source("Cargo.toml", good)), []);
        let bad = "[workspace.dependencies]\n# For sums.\nc = \"1\"\nd = \"1\"\n\ne = \"1\"\nf = { path = \"f\" }\n";
        let lines: Vec<usize> = check_root(&source("Cargo.toml", bad))
            .into_iter()
            .map(|fault| fault.line)
            .collect();
        assert_eq!(lines, [4, 6, 7]);
    }

    #[test]
    fn a_member_refers_to_the_workspace() {
        let good = "[dependencies]\na.workspace = true\nb = { workspace = true, features = [\"x\"] }\n\
                    [target.'cfg(unix)'.dev-dependencies]\nc.workspace = true\n[lints]\nworkspace = true\n";
        assert_eq!(
            check_member(&source("a/Cargo.toml", good)).expect("it parses"),
            []
        );
        let bad = "[dependencies]\na = \"1\"\n[target.'cfg(unix)'.dependencies]\nb = { path = \"../b\" }\n";
        let faults = check_member(&source("a/Cargo.toml", bad)).expect("it parses");
        let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 4, 1], "{faults:?}");
    }
}
