//! Where the logs of servers go: standard error, for people or as JSON, filtered by `ZIGGURAT_LOG`.

use anstream::{AutoStream, ColorChoice};
use std::{env, io};
use tracing_subscriber::{EnvFilter, fmt};
use ziggurat_base::{Code, Error, Result};

/// The variable that says what is logged.
const VARIABLE: &str = "ZIGGURAT_LOG";

/// What is logged when nobody says.
const DEFAULT: &str = "info";

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Text, with colours where the terminal takes them.
    People,
    /// One JSON object each.
    Json,
}

/// Begins to log, for the rest of the process.
///
/// # Errors
/// `ConfigInvalid` when the filter cannot be understood.
pub(crate) fn begin(lines: Lines) -> Result<()> {
    let text = env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let text = text.as_deref().unwrap_or(DEFAULT);
    let filter = EnvFilter::try_new(text).map_err(|error| {
        let what = format!(
            "{VARIABLE}: {text:?} is not a filter: {error}; write for example info, or warn,ziggurat_node=debug"
        );
        Error::new(Code::ConfigInvalid, what)
    })?;
    let has_colour = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let logs = fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(has_colour);
    let begun = match lines {
        Lines::People => logs.try_init(),
        Lines::Json => logs.json().try_init(),
    };
    begun.map_err(|error| Error::new(Code::Internal, format!("cannot begin to log: {error}")))
}
