//! Whether a machine is fit for a configuration. Each check reads what the kernel says and compares; none changes
//! anything but for a file that is made in the state directory and taken away.

mod files;
mod kernel;
mod machine;
mod memory;
mod network;
mod processor;
mod ssd;

pub(crate) use machine::Machine;

use crate::config::Settings;
use serde::Serialize;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// It will work, though slower or not for everything.
    Warn,
    /// The configuration cannot work.
    Fail,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) name: &'static str,
    /// How it came out.
    pub(crate) verdict: Verdict,
    /// What is there.
    pub(crate) found: String,
    /// What to do.
    pub(crate) cure: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok,
            found: found.into(),
            cure: None,
        }
    }

    fn warn(name: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Warn,
            found: found.into(),
            cure: Some(cure.into()),
        }
    }

    fn fail(name: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Fail,
            ..Self::warn(name, found, cure)
        }
    }

    /// A file of the kernel that is not there says nothing about fitness.
    fn unknown(name: &'static str, path: &str) -> Self {
        Self::ok(name, format!("unknown: this machine has no /{path}"))
    }
}

/// Looks at everything.
pub(crate) fn examine(machine: &Machine, settings: &Settings) -> Vec<Check> {
    let mut checks = vec![
        memory::available(machine, settings),
        memory::huge_pages(machine, settings),
        memory::transparent_huge_pages(machine),
        memory::numa_nodes(machine, settings),
        memory::lockable(machine, settings),
        files::open_files(machine),
        files::state_dir(settings),
        kernel::io_uring(machine),
        network::congestion_control(machine),
    ];
    checks.extend(ssd::directories(settings));
    checks.extend(network::ports(settings));
    checks.push(processor::checksums());
    checks.push(processor::streaming());
    checks
}
