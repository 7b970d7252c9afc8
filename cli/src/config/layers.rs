//! What was given, by whom: the layers below the effective values.

use super::{
    fault::Fault,
    file,
    setting::{Group, PREFIX, variable_of},
    suggest::nearest,
};
use std::{ffi::OsString, fmt, path::PathBuf};

/// The variable that names the file.
pub(super) const FILE_VARIABLE: &str = "ZIGGURAT_CONFIG";

/// The flag that names the file.
pub(super) const FILE_FLAG: &str = "config";

/// Who gave a value. The order is the order of strength.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nobody.
    Default,
    /// A line of the file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A variable of the environment.
    Environment(String),
    /// A flag, without its hyphens.
    Flag(String),
}

impl Origin {
    /// The kind, for programs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Environment(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// A value that somebody gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// The setting.
    pub(crate) name: String,
    /// The value as it was written.
    pub(crate) text: String,
    /// Who.
    pub(crate) origin: Origin,
}

/// All layers, weakest first.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// The values.
    pub(super) given: Vec<Given>,
    /// What could not even be taken for a value.
    pub(super) faults: Vec<Fault>,
    /// What is odd.
    pub(super) remarks: Vec<String>,
    /// The file, when there is one.
    pub(super) file: Option<PathBuf>,
}

impl Layers {
    /// Reads file and environment and puts the flags on top. `file` is what a flag said; the environment may name one
    /// too. There is no file that is read unasked.
    pub(super) fn read(
        groups: &[Group],
        file: Option<PathBuf>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        flags: &[Given],
    ) -> Self {
        let mut layers = Self::default();
        let named = layers.read_environment(groups, environment);
        let origin = match (&file, &named) {
            (Some(_), _) => Origin::Flag(FILE_FLAG.to_owned()),
            (None, _) => Origin::Environment(FILE_VARIABLE.to_owned()),
        };
        if let Some(path) = file.or(named) {
            let read = file::read(&path, groups, origin);
            layers.given.splice(..0, read.given);
            layers.faults.extend(read.faults);
            layers.file = Some(path);
        }
        layers.given.extend_from_slice(flags);
        layers
    }

    /// Takes our variables; returns the file that one of them names. An empty one counts as absent.
    ///
    /// A stranger with our prefix is no fault: Kubernetes sets some for every service whose name begins like ours. One
    /// that looks like a slip is worth a remark.
    fn read_environment(
        &mut self,
        groups: &[Group],
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Option<PathBuf> {
        let mut file = None;
        let settings = || groups.iter().flat_map(|group| &group.settings);
        let mut variables: Vec<_> = environment.into_iter().collect();
        variables.sort();
        for (variable, value) in variables {
            let Some(variable) = variable.to_str() else {
                continue;
            };
            let Some(written) = variable.strip_prefix(PREFIX).filter(|_| !value.is_empty()) else {
                continue;
            };
            if variable == FILE_VARIABLE {
                file = Some(value.into());
                continue;
            }
            let Some(setting) = settings().find(|setting| setting.variable() == variable) else {
                let names = settings().map(|setting| &setting.name[..]);
                if let Some(meant) = nearest(written, names) {
                    let meant = variable_of(meant);
                    self.remarks.push(format!(
                        "{variable} in the environment is not a setting: did you mean {meant}?"
                    ));
                }
                continue;
            };
            let origin = Origin::Environment(variable.to_owned());
            match value.into_string() {
                Ok(text) => self.given.push(Given {
                    name: setting.name.clone(),
                    text,
                    origin,
                }),
                Err(value) => self.faults.push(Fault {
                    origin,
                    what: format!("{value:?} is not UTF-8: write it in UTF-8"),
                }),
            }
        }
        file
    }
}
