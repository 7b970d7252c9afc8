//! The engine decides and does nothing else (convention 1): no unsafe, runtime, thread, clock, hash map or I/O in
//! engine/src. clippy bans some of these by call; this bans the words, in tests of the engine too.

use super::mask::{Keep, has_word, is_identifier, mask};
use crate::tree::{Fault, Source};

/// A word that may not stand in the engine, and what to use.
const WORDS: &[(&str, &str)] = &[
    (
        "unsafe",
        "the engine is proven by reading; move the block to base",
    ),
    ("tokio", "the engine has no runtime; take a port"),
    (
        "Instant",
        "time is an argument: `now: Timestamp` comes first",
    ),
    (
        "SystemTime",
        "time is an argument: `now: Timestamp` comes first",
    ),
    (
        "HashMap",
        "iteration order must follow the seed: BTreeMap, or hashbrown::HashTable with the hash of base",
    ),
    ("HashSet", "iteration order must follow the seed: BTreeSet"),
    ("RandomState", "hashers are fixed: ziggurat_base::hash"),
];

/// A module of std that may not be used in the engine, and what to use.
const MODULES: &[(&str, &str)] = &[
    ("thread", "the engine has no threads; return an effect"),
    ("fs", "the engine has no files; take a port"),
    ("net", "the engine has no network; take a port"),
    ("process", "the engine starts nothing; return an effect"),
    ("env", "the engine has no environment; take an argument"),
];

/// Files that may use some of it, and why.
const EXEMPT: &[(&str, &[&str], &str)] = &[(
    "engine/src/testkit/skip.rs",
    &["fs", "env"],
    "writes down that a test was skipped, for `cargo xtask test`; the feature `testkit` is off in the product",
)];

pub(crate) fn check(source: &Source) -> Vec<Fault> {
    if !source.path.starts_with("engine/src/") || !source.is_rust() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut complain = |line: usize, name: &str, shown: &str, cure: &str| {
        let is_exempt = EXEMPT
            .iter()
            .any(|(path, names, _)| *path == source.path && names.contains(&name));
        if !is_exempt {
            faults.push(source.fault(line, format!("`{shown}` in the engine; {cure}")));
        }
    };
    let code = mask(&source.text, Keep::Code);
    for (index, line) in code.lines().enumerate() {
        for (word, cure) in WORDS.iter().filter(|(word, _)| has_word(line, word)) {
            complain(index + 1, word, word, cure);
        }
    }
    for (line, module) in std_modules(&code) {
        if let Some((name, cure)) = MODULES.iter().find(|(name, _)| *name == module) {
            complain(line, name, &format!("std::{name}"), cure);
        }
    }
    faults
}

/// The modules of std that the code names, as `std::fs` or as `use std::{fs, …}`, with their lines.
fn std_modules(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut seen = 0;
    for (start, _) in code.match_indices("std::") {
        if code[..start].chars().next_back().is_some_and(is_identifier) {
            continue;
        }
        line += code[seen..start].matches('\n').count();
        seen = start;
        let rest = &code[start + "std::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(
                heads(group)
                    .into_iter()
                    .map(|(offset, head)| (line + offset, head)),
            ),
            None => found.push((line, head(rest))),
        }
    }
    found
}

fn head(text: &str) -> &str {
    let end = text
        .find(|character| !is_identifier(character))
        .unwrap_or(text.len());
    &text[..end]
}

/// The first words of a `{a::b, c::{d, e}}` group, each with how many lines below its opening it stands.
fn heads(group: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut line = 0;
    let mut expects_head = true;
    for (index, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expects_head = true,
            '\n' => line += 1,
            _ if expects_head && is_identifier(character) => {
                found.push((line, head(&group[index..])));
                expects_head = false;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Source;

    fn faults(path: &str, text: &str) -> Vec<(usize, String)> {
        let source = Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check(&source)
            .into_iter()
            .map(|fault| (fault.line, fault.what))
            .collect()
    }

    #[test]
    fn pure_code_passes() {
        let text = "//! No unsafe, no HashMap.\nuse std::collections::BTreeMap;\nuse std::{fmt, io};\n\
                    const WHY: &str = \"std::fs\"; // std::thread\n";
        assert_eq!(faults("engine/src/lib.rs", text), []);
    }

    #[test]
    fn each_impurity_is_a_fault_on_its_line() {
        for bad in [
            "fn f() { unsafe {} }",
            "use std::time::Instant;",
            "use std::collections::{BTreeMap, HashMap};",
            "std::thread::spawn(f);",
            "use std::fs::File;",
            "use std::{fmt, net::TcpStream};",
            "tokio::spawn(f);",
        ] {
            let found = faults("engine/src/space.rs", &format!("\n{bad}"));
            assert!(found.len() == 1 && found[0].0 == 2, "{bad}: {found:?}");
        }
    }

    #[test]
    fn a_group_over_several_lines_is_read() {
        let found = faults(
            "engine/src/x.rs",
            "use std::{\n    collections::{BTreeMap, BTreeSet},\n    env,\n};\n",
        );
        assert!(found.len() == 1 && found[0].0 == 3, "{found:?}");
    }

    #[test]
    fn base_and_the_shells_are_not_the_engine() {
        assert_eq!(faults("engine/base/src/memory.rs", "unsafe {}"), []);
        assert_eq!(faults("node/src/lib.rs", "use std::time::Instant;"), []);
    }

    #[test]
    fn the_skip_log_may_write_a_file_and_nothing_else() {
        assert_eq!(
            faults(
                "engine/src/testkit/skip.rs",
                "use std::fs::File; std::env::var_os(x);"
            ),
            []
        );
        assert_eq!(
            faults("engine/src/testkit/skip.rs", "use std::net::TcpStream;").len(),
            1
        );
    }
}
