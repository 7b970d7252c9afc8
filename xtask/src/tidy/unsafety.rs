//! Where `unsafe` may stand (convention 28): a few files of a few crates; every other crate root forbids it.

use super::mask::{Keep, has_word, mask};
use crate::tree::{Fault, Source, Tree};
use crate::workspace::Member;

/// Crates that may hold unsafe blocks, by folder, and the files in which they may: `buf` stands for src/buf.rs and
/// everything under src/buf/. An empty list means the whole crate.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "engine/base",
        &["buf", "checksum", "copy", "prefetch", "memory"],
    ),
    ("tiers/io", &["map", "sys", "uring"]),
    ("transport", &["tcp", "shm", "rdma", "cuda"]),
    ("dfs/hf3fs-sys", &[]),
    ("capi", &[]),
    ("python", &[]),
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// No `unsafe` outside the files that may have it.
pub(crate) fn check_blocks(source: &Source) -> Vec<Fault> {
    if !source.is_rust() || may_hold(&source.path) {
        return Vec::new();
    }
    let code = mask(&source.text, Keep::Code);
    let lines = code
        .lines()
        .enumerate()
        .filter(|(_, line)| has_word(line, "unsafe"));
    let what = "`unsafe` outside the files that may hold it; use a safe function of theirs, or change convention 28 and \
                xtask/src/tidy/unsafety.rs first";
    lines
        .map(|(index, _)| source.fault(index + 1, what))
        .collect()
}

fn may_hold(path: &str) -> bool {
    ALLOWED.iter().any(|(folder, modules)| {
        let Some(rest) = path
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/'))
        else {
            return false;
        };
        modules.is_empty()
            || rest.strip_prefix("src/").is_some_and(|file| {
                let module = file
                    .split('/')
                    .next()
                    .unwrap_or(file)
                    .trim_end_matches(".rs");
                modules.contains(&module)
            })
    })
}

/// Every root of every other crate forbids unsafe code. Tests and benches need not say so: no block of theirs passes.
pub(crate) fn check_roots(members: &[Member], tree: &Tree) -> Vec<Fault> {
    members
        .iter()
        .filter(|member| !ALLOWED.iter().any(|(folder, _)| *folder == member.folder))
        .flat_map(|member| &member.product_roots)
        .filter_map(|root| tree.get(root))
        .filter(|source| {
            !mask(&source.text, Keep::Code)
                .lines()
                .any(|line| line.trim() == FORBID)
        })
        .map(|source| {
            source.fault(
                1,
                format!(
                    "the crate root does not forbid unsafe code; add `{FORBID}` below its docs"
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{FORBID, check_blocks, check_roots};
    use crate::tree::{Source, Tree};
    use crate::workspace::Member;

    fn faults(path: &str) -> usize {
        check_blocks(&Source {
            path: path.to_owned(),
            text: "fn f() { unsafe { g() } }\n".to_owned(),
        })
        .len()
    }

    #[test]
    fn unsafe_stands_only_in_its_files() {
        for good in [
            "engine/base/src/memory.rs",
            "transport/src/tcp/socket.rs",
            "tiers/io/src/map.rs",
            "capi/src/lib.rs",
        ] {
            assert_eq!(faults(good), 0, "{good}");
        }
        for bad in [
            "engine/base/src/key.rs",
            "transport/src/lib.rs",
            "transport/tests/tcp.rs",
            "cli/src/main.rs",
        ] {
            assert_eq!(faults(bad), 1, "{bad}");
        }
    }

    #[test]
    fn a_word_in_a_comment_or_an_attribute_is_no_block() {
        let text = format!("{FORBID}\n// unsafe\nconst A: &str = \"unsafe\";\n");
        assert_eq!(
            check_blocks(&Source {
                path: "cli/src/main.rs".to_owned(),
                text
            }),
            []
        );
    }

    #[test]
    fn roots_forbid_unsafe_code_unless_the_crate_may_hold_it() {
        let member = |folder: &str, root: &str| Member {
            folder: folder.to_owned(),
            product_roots: vec![root.to_owned()],
            ..Member::default()
        };
        let members = [
            member("engine", "engine/src/lib.rs"),
            member("cli", "cli/src/main.rs"),
            member("transport", "transport/src/lib.rs"),
        ];
        let tree = Tree::of(&[
            ("engine/src/lib.rs", "//! Docs.\n#![forbid(unsafe_code)]\n"),
            ("cli/src/main.rs", "// #![forbid(unsafe_code)]\n"),
            ("transport/src/lib.rs", ""),
        ]);
        let paths: Vec<String> = check_roots(&members, &tree)
            .into_iter()
            .map(|fault| fault.path)
            .collect();
        assert_eq!(paths, ["cli/src/main.rs"]);
    }
}
