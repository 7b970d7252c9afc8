//! Long work shows how far it is: a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar over `total` steps, or a spinner when their number is not known.
pub(crate) fn bar(total: Option<u64>, what: &'static str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let template = match total {
        Some(_) => "{prefix} {bar:32} {pos}/{len} {msg} {elapsed}",
        None => "{prefix} {spinner} {pos} {msg} {elapsed}",
    };
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::with_draw_target(total, target).with_prefix(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A bar over bytes; their number is set when it is known.
pub(crate) fn bytes(what: &'static str) -> ProgressBar {
    let bar = bar(Some(0), what);
    let template =
        "{prefix} {bar:32} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {elapsed}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
