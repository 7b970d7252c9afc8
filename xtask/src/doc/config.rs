//! docs/config.md: every setting of the command line, which prints the page itself.

use anyhow::{Context as _, Result, bail};

use crate::shell;
use crate::workspace::Workspace;

/// The whole page.
pub(crate) fn page(workspace: &Workspace) -> Result<String> {
    let run = [
        "run",
        "--quiet",
        "--package",
        "ziggurat",
        "--",
        "config",
        "--markdown",
    ];
    let output = shell::cargo(workspace, run)
        .output()
        .context("start `ziggurat config --markdown`")?;
    if !output.status.success() {
        bail!(
            "`ziggurat config --markdown` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).context("the page is not UTF-8")
}
