//! Tests that were left out: the list of reasons in xtask/skips.toml, and the log that tests write through
//! `ziggurat_engine::testkit::skip` during a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::workspace::Watcher;

/// Where the reasons are listed.
pub(crate) const LIST: &str = "xtask/skips.toml";

/// The environment variable that tells tests where to write; the same name is in engine/src/testkit/skip.rs.
pub(crate) const LOG_VARIABLE: &str = "ZIGGURAT_SKIP_LOG";

/// The reasons for which a test may be skipped, by id.
#[derive(Clone, Debug)]
pub(crate) struct Listed(BTreeMap<String, Reason>);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    /// Why a machine may lack it.
    why: String,
    /// Whether the CI machine may lack it too. If not, CI fails on such a skip.
    in_ci: bool,
}

impl Listed {
    /// Reads the list.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
        Self::parse(&text)
    }

    /// The list in a text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let reasons: BTreeMap<String, Reason> =
            toml::from_str(text).with_context(|| format!("read {LIST}"))?;
        if let Some((id, _)) = reasons
            .iter()
            .find(|(_, reason)| reason.why.trim().is_empty())
        {
            bail!("{LIST}: `{id}` says no why");
        }
        Ok(Self(reasons))
    }

    /// Whether a test may be skipped for this reason somewhere.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// All reason ids.
    pub(crate) fn ids(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    fn permits(&self, id: &str, watcher: Watcher) -> bool {
        self.0
            .get(id)
            .is_some_and(|reason| watcher == Watcher::Person || reason.in_ci)
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    id: String,
    test: String,
    why: String,
}

/// Reads `SKIP <test>: <id>: <why>` lines; the order of the answer is that of the ids.
pub(crate) fn parse_log(text: &str) -> Result<Vec<Skip>> {
    let mut skips = Vec::new();
    for line in text.lines() {
        let parts = line
            .strip_prefix("SKIP ")
            .map(|rest| rest.splitn(3, ": ").collect::<Vec<_>>());
        match parts.as_deref() {
            Some([test, id, why]) => {
                skips.push(Skip {
                    id: (*id).to_owned(),
                    test: (*test).to_owned(),
                    why: (*why).to_owned(),
                });
            }
            _ => bail!("the skip log has a line of another form: {line}"),
        }
    }
    skips.sort();
    skips.dedup();
    Ok(skips)
}

/// The file that tests of one run write their skips to. Removed when dropped.
pub(crate) struct Log {
    path: PathBuf,
}

impl Log {
    /// An empty log for this process.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let path = folder.join(format!("skips-{}.log", std::process::id()));
        std::fs::write(&path, "").with_context(|| format!("write {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Prints every skip and fails on those that this run may not have.
    pub(crate) fn close(self, listed: &Listed, watcher: Watcher) -> Result<()> {
        let text = std::fs::read_to_string(&self.path)
            .with_context(|| format!("read {}", self.path.display()))?;
        let skips = parse_log(&text)?;
        for skip in &skips {
            println!("SKIP {}: {}: {}", skip.test, skip.id, skip.why);
        }
        let refused: Vec<&str> = skips
            .iter()
            .filter(|skip| !listed.permits(&skip.id, watcher))
            .map(|skip| skip.test.as_str())
            .collect();
        println!(
            "{} tests skipped themselves, {} of them without leave",
            skips.len(),
            refused.len()
        );
        if !refused.is_empty() {
            bail!(
                "skipped for a reason that {LIST} does not permit here: {}",
                refused.join(", ")
            );
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A log that stays behind harms nobody: the next run has another name.
        drop(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::{Listed, Log, parse_log};
    use crate::workspace::Watcher;

    const LISTED: &str =
        "[rdma]\nwhy = \"No device.\"\nin_ci = true\n[python]\nwhy = \"None.\"\nin_ci = false\n";

    fn close(text: &str, watcher: Watcher) -> anyhow::Result<()> {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let log = Log::create(folder.path()).expect("it can be written");
        std::fs::write(log.path(), text).expect("it can be written");
        log.close(&Listed::parse(LISTED).expect("it parses"), watcher)
    }

    #[test]
    fn a_listed_skip_passes_and_an_unlisted_one_fails() {
        assert!(close("", Watcher::Ci).is_ok());
        assert!(close("SKIP a::b: rdma: no device\n", Watcher::Ci).is_ok());
        assert!(close("SKIP a::b: mood: not today\n", Watcher::Person).is_err());
    }

    #[test]
    fn ci_refuses_what_it_should_have() {
        assert!(close("SKIP a::b: python: no python3\n", Watcher::Person).is_ok());
        let error =
            close("SKIP a::b: python: no python3\n", Watcher::Ci).expect_err("CI installs it");
        assert!(error.to_string().contains("a::b"));
    }

    #[test]
    fn the_log_is_read_line_by_line() {
        let skips =
            parse_log("SKIP b::t: rdma: no: device\nSKIP a::t: gpu: none\n").expect("it parses");
        assert_eq!(
            skips
                .iter()
                .map(|skip| skip.why.as_str())
                .collect::<Vec<_>>(),
            ["none", "no: device"]
        );
        assert!(parse_log("something else\n").is_err());
    }

    #[test]
    fn a_reason_says_why() {
        assert!(Listed::parse("[x]\nwhy = \"\"\nin_ci = true\n").is_err());
        assert!(Listed::parse("[x]\nin_ci = true\n").is_err());
    }
}
