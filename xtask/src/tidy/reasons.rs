//! No test is left out in silence (convention 48): an ignored test says why, and every reason is in xtask/skips.toml.

use super::mask::{Keep, is_identifier, mask};
use crate::skips::{LIST, Listed};
use crate::tree::{Fault, Source};

const IGNORE: &str = "#[ignore";
const CALL: &str = "skip(";
const HELPER: &str = "testkit::skip";

pub(crate) fn check(source: &Source, listed: &Listed) -> Vec<Fault> {
    if !source.is_rust() {
        return Vec::new();
    }
    let code: Vec<char> = mask(&source.text, Keep::Code).chars().collect();
    let full: Vec<char> = mask(&source.text, Keep::CodeAndStrings).chars().collect();
    let mut faults = Vec::new();
    for at in positions(&code, IGNORE) {
        let attribute = strings(&full[at..], ']');
        let reason = attribute
            .first()
            .and_then(|text| text.split_once(": "))
            .map(|(id, _)| id);
        faults.extend(complaint(source, &code, at, reason, listed));
    }
    if full
        .windows(HELPER.len())
        .any(|window| window.iter().copied().eq(HELPER.chars()))
    {
        for at in positions(&code, CALL)
            .into_iter()
            .filter(|at| is_call(&code, *at))
        {
            let arguments = strings(&full[at..], ')');
            faults.extend(complaint(
                source,
                &code,
                at,
                arguments.get(1).map(String::as_str),
                listed,
            ));
        }
    }
    faults
}

fn complaint(
    source: &Source,
    code: &[char],
    at: usize,
    id: Option<&str>,
    listed: &Listed,
) -> Option<Fault> {
    let what = match id {
        Some(id) if listed.has(id) => return None,
        Some(id) => format!(
            "the reason `{id}` is not in {LIST}; use one of: {}, or add it there",
            listed.ids().join(", ")
        ),
        None => format!(
            "a test is left out with no reason id; write skip(\"test\", \"id\", \"why\") or #[ignore = \"id: why\"], ids in {LIST}"
        ),
    };
    let line = code[..at]
        .iter()
        .filter(|character| **character == '\n')
        .count()
        + 1;
    Some(source.fault(line, what))
}

fn positions(code: &[char], needle: &str) -> Vec<usize> {
    let needle: Vec<char> = needle.chars().collect();
    code.windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(index, _)| index)
        .collect()
}

/// A call of the helper: not a method, not another function whose name ends so, not the definition.
fn is_call(code: &[char], at: usize) -> bool {
    let before: String = code[at.saturating_sub(3)..at].iter().collect();
    before != "fn " && !before.ends_with(|character| is_identifier(character) || character == '.')
}

/// The string literals from here to the closing character.
fn strings(text: &[char], closing: char) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text.iter().copied();
    while let Some(character) = rest.next() {
        if character == closing {
            break;
        }
        if character == '"' {
            found.push(rest.by_ref().take_while(|inside| *inside != '"').collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::skips::Listed;
    use crate::tree::Source;

    fn faults(text: &str) -> usize {
        let listed =
            Listed::parse("[rdma]\nwhy = \"No device.\"\nin_ci = true\n").expect("it parses");
        check(
            &Source {
                path: "transport/src/rdma.rs".to_owned(),
                text: text.to_owned(),
            },
            &listed,
        )
        .len()
    }

    #[test]
    fn a_listed_reason_passes() {
        assert_eq!(
            faults(
                "use ziggurat_engine::testkit::skip::skip;\nreturn skip(\"a(b)\", \"rdma\", \"none\");"
            ),
            0
        );
        assert_eq!(
            faults("#[ignore = \"rdma: no device\"]\n#[test]\nfn a() {}"),
            0
        );
    }

    #[test]
    fn a_missing_or_unknown_reason_is_a_fault() {
        assert_eq!(faults("#[ignore]\n#[test]\nfn a() {}"), 1);
        assert_eq!(faults("#[ignore = \"slow\"]\n#[test]\nfn a() {}"), 1);
        assert_eq!(
            faults("ziggurat_engine::testkit::skip::skip(\"a\", \"mood\", \"none\");"),
            1
        );
        assert_eq!(
            faults("use ziggurat_engine::testkit::skip::skip;\nskip(name, id, why);"),
            1
        );
    }

    #[test]
    fn other_functions_of_that_name_are_not_ours() {
        assert_eq!(faults("bytes.iter().skip(4); reader.skip(1)"), 0);
        assert_eq!(faults("skip(a, b, c)"), 0);
        assert_eq!(faults("// testkit::skip\nskip(a, b, c)"), 0);
    }
}
