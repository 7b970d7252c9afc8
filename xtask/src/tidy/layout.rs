//! Files (convention 7): length, and no mod.rs.

use crate::tree::{Fault, Source};

/// Lines at which a file has too many nouns in it.
const LINE_COUNT_MAX: usize = 800;

pub(crate) fn check(source: &Source) -> Vec<Fault> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let line_count = source.text.lines().count();
    if line_count > LINE_COUNT_MAX {
        let what = format!(
            "{line_count} lines, at most {LINE_COUNT_MAX}; give each noun its own file (aim at 100-300)"
        );
        faults.push(source.fault(line_count, what));
    }
    if source.path == "mod.rs" || source.path.ends_with("/mod.rs") {
        faults.push(source.fault(1, "no mod.rs; name the file after its folder, beside it"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{LINE_COUNT_MAX, check};
    use crate::tree::Source;

    fn faults(path: &str, line_count: usize) -> usize {
        check(&Source {
            path: path.to_owned(),
            text: "\n".repeat(line_count),
        })
        .len()
    }

    #[test]
    fn a_long_file_is_a_fault() {
        assert_eq!(faults("engine/src/lib.rs", LINE_COUNT_MAX), 0);
        assert_eq!(faults("engine/src/lib.rs", LINE_COUNT_MAX + 1), 1);
        assert_eq!(faults("docs/long.md", LINE_COUNT_MAX + 1), 0);
    }

    #[test]
    fn mod_rs_is_a_fault() {
        assert_eq!(faults("engine/src/evict/mod.rs", 1), 1);
        assert_eq!(faults("engine/src/evict/mod_rs.rs", 1), 0);
    }
}
