//! What no file says: paths of one machine, and work left undone. The words are put together from halves, so that
//! this file does not contain them.

use super::mask::{Keep, has_word, is_identifier, mask};
use crate::tree::{Fault, Source};

/// Folders that exist on somebody's machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Words for work that was not done.
const UNDONE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// The same as a macro.
const UNDONE_MACRO: &str = concat!("to", "do!");

pub(crate) fn check(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        for path in MACHINE_PATHS.iter().filter(|path| names_path(line, path)) {
            let what = format!(
                "`{path}` is a path of one machine; use one relative to the repository, or an argument"
            );
            faults.push(source.fault(index + 1, what));
        }
        for word in UNDONE.iter().filter(|word| has_word(line, word)) {
            faults.push(source.fault(
                index + 1,
                format!("`{word}`: do it now, or open an issue and drop the line"),
            ));
        }
    }
    if source.is_rust() {
        let code = mask(&source.text, Keep::Code);
        let lines = code
            .lines()
            .enumerate()
            .filter(|(_, line)| has_word(line, UNDONE_MACRO));
        faults.extend(lines.map(|(index, _)| {
            source.fault(index + 1, format!("`{UNDONE_MACRO}`: write the code"))
        }));
    }
    faults
}

/// Whether an absolute path begins here, and not the middle of another one.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|character| {
            is_identifier(character) || matches!(character, '/' | '.' | '-' | '}' | ')' | '*')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_PATHS, UNDONE, UNDONE_MACRO, check};
    use crate::tree::Source;

    fn faults(path: &str, text: String) -> usize {
        check(&Source {
            path: path.to_owned(),
            text,
        })
        .len()
    }

    #[test]
    fn a_path_of_one_machine_is_a_fault() {
        for path in MACHINE_PATHS {
            assert_eq!(
                faults("README.md", format!("see `{path}notes`")),
                1,
                "{path}"
            );
            assert_eq!(
                faults(
                    "README.md",
                    format!("see docs{path}notes and ${{dir}}{path}x")
                ),
                0,
                "{path}"
            );
        }
    }

    #[test]
    fn undone_work_is_a_fault() {
        for word in UNDONE {
            assert_eq!(faults("docs/x.md", format!("{word}: later")), 1);
            assert_eq!(faults("docs/x.md", format!("{word}S_OF_A_USER")), 0);
        }
        assert_eq!(
            faults("cli/src/main.rs", format!("fn f() {{ {UNDONE_MACRO}() }}")),
            1
        );
        assert_eq!(
            faults("cli/src/main.rs", format!("// {UNDONE_MACRO} is banned")),
            0
        );
    }
}
