//! docs/errors.md: a section for every code of `ziggurat_base::Code`.

use std::fmt::Write as _;

use ziggurat_base::Code;

const HEAD: &str = "# Error codes

Every error carries one of these codes: in Rust, in Python, over the wire and over HTTP. A code never changes its number
or its meaning; new ones are appended. Where the established store has a code for the same thing, the number is the
same; those that only Ziggurat has start at -2000. A miss is no error.

*Retryable* says that the same call may succeed a moment later without anybody's help.

This page is made from `engine/base/src/code.rs` by `cargo xtask doc --write`.
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for code in Code::ALL {
        let retryable = if code.is_retryable() { "yes" } else { "no" };
        write!(
            page,
            "\n## {} ({})\n\n- Cause: {}\n- Cure: {}\n- Retryable: {retryable}\n",
            code.name(),
            code.number(),
            code.cause(),
            code.cure(),
        )
        .expect("a string takes everything");
    }
    page
}

#[cfg(test)]
mod tests {
    use ziggurat_base::Code;

    use super::page;

    #[test]
    fn every_code_has_a_section() {
        let page = page();
        for code in Code::ALL {
            let heading = format!("\n## {} ({})\n", code.name(), code.number());
            assert_eq!(page.matches(&heading).count(), 1, "{heading}");
            assert!(
                page.contains(code.cause()) && page.contains(code.cure()),
                "{heading}"
            );
        }
    }
}
