//! Pages that are made from the code (convention 29 for docs/errors.md) are as the code would make them now.

use anyhow::Result;

use crate::doc::{self, Maker};
use crate::tree::{Fault, Tree};
use crate::workspace::Workspace;

pub(crate) fn check(workspace: &Workspace, tree: &Tree) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for page in doc::PAGES.iter().filter(|page| page.maker == Maker::Xtask) {
        let made = (page.make)(workspace, tree)?;
        faults.extend(compare(
            page.path,
            tree.get(page.path).map(|source| source.text.as_str()),
            &made,
        ));
    }
    Ok(faults)
}

fn compare(path: &str, found: Option<&str>, made: &str) -> Option<Fault> {
    let line = match found {
        Some(text) if text == made => return None,
        Some(text) => {
            text.lines()
                .zip(made.lines())
                .take_while(|(left, right)| left == right)
                .count()
                + 1
        }
        None => 1,
    };
    let what = "is not what the code would make; run `cargo xtask doc --write`".to_owned();
    Some(Fault {
        path: path.to_owned(),
        line,
        what,
    })
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn a_page_that_differs_is_a_fault_on_the_line_that_differs() {
        assert_eq!(compare("docs/x.md", Some("a\nb\n"), "a\nb\n"), None);
        assert_eq!(
            compare("docs/x.md", Some("a\nb\n"), "a\nc\n").map(|fault| fault.line),
            Some(2)
        );
        assert_eq!(
            compare("docs/x.md", None, "a").map(|fault| fault.line),
            Some(1)
        );
    }
}
