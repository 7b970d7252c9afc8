//! Relative links in README.md and docs/ lead to files of the repository.

use crate::tree::{Fault, Source, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let pages = tree.files.iter().filter(|file| {
        file.path.ends_with(".md") && (file.path.starts_with("docs/") || file.path == "README.md")
    });
    pages.flat_map(|page| check_page(page, tree)).collect()
}

fn check_page(page: &Source, tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut is_in_fence = false;
    for (index, line) in page.text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            is_in_fence = !is_in_fence;
        }
        if is_in_fence {
            continue;
        }
        for target in targets(line) {
            match resolve(&page.path, &target) {
                Some(path) if !tree.has(&path) => {
                    let what = format!(
                        "the link `{target}` leads to {path}, which does not exist; mend or drop it"
                    );
                    faults.push(page.fault(index + 1, what));
                }
                None => {
                    let what = format!(
                        "the link `{target}` leaves the repository; link to a page inside it"
                    );
                    faults.push(page.fault(index + 1, what));
                }
                Some(_) => {}
            }
        }
    }
    faults
}

/// The relative targets of the links in a line: `[text](target)` and `[label]: target`.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut found: Vec<&str> = line
        .match_indices("](")
        .filter_map(|(start, _)| line[start + 2..].split(')').next())
        .collect();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.push(target);
    }
    found
        .into_iter()
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']))
        .filter(|target| {
            !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
        })
        .map(str::to_owned)
        .collect()
}

/// The line without its `code spans`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The path that a link on a page means, or nothing if it climbs out of the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let target = target.split(['#', '?']).next().unwrap_or(target);
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => return None,
        false => page.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn faults(text: &str) -> usize {
        check(&Tree::of(&[
            ("docs/a/page.md", text),
            ("docs/other.md", ""),
            ("engine/src/lib.rs", ""),
        ]))
        .len()
    }

    #[test]
    fn links_that_resolve_pass() {
        let text = "[one](../other.md#part) and [two](../../engine/src), [out](https://example.org/x.md), [here](#x)\n\
                    [label]: ../other.md\n```\n[not](a-link.md)\n```\n`[nor](this.md)` ![picture](../../engine/src/lib.rs)";
        assert_eq!(faults(text), 0);
    }

    #[test]
    fn links_to_nothing_are_faults() {
        assert_eq!(faults("[one](missing.md)"), 1);
        assert_eq!(faults("[label]: missing.md"), 1);
        assert_eq!(faults("[up](../../../outside.md) [root](/etc/hosts)"), 2);
    }
}
