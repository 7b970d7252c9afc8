//! The one way in which a test leaves itself out: loudly, with a reason that xtask/skips.toml lists (convention 48).
//!
//! ```no_run
//! use ziggurat_engine::testkit::skip::skip;
//!
//! fn device() -> Option<&'static str> {
//!     None
//! }
//!
//! // In a test that needs a device:
//! let Some(device) = device() else {
//!     return skip("read_arrives_in_registered_memory", "rdma", "no RDMA device here");
//! };
//! # let _ = device;
//! ```

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

/// The file to which skips are appended; `cargo xtask test` sets it and reads it at the end.
const LOG_VARIABLE: &str = "ZIGGURAT_SKIP_LOG";

/// Says that `test` does not run, because of the listed reason `id`, and `why` here. The caller returns.
///
/// The id must be a literal, so that `cargo xtask tidy` can look it up. In CI, a skip fails the run unless the list
/// permits it there.
///
/// # Panics
///
/// When the log cannot be written: a skip that nobody hears of must not pass for a success.
pub fn skip(test: &str, id: &str, why: &str) {
    let line = line(test, id, why);
    eprint!("{line}");
    let Some(path) = env::var_os(LOG_VARIABLE) else {
        return;
    };
    // One write of one line: tests of many processes append to the same file.
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut log| log.write_all(line.as_bytes()))
        .expect("the skip log, which `cargo xtask test` made, can be written");
}

fn line(test: &str, id: &str, why: &str) -> String {
    assert!(
        !test.contains(": ") && !id.contains(": "),
        "`: ` separates the fields of the skip log"
    );
    format!("SKIP {test}: {id}: {}\n", why.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_skip_is_one_line() {
        assert_eq!(
            line("a::b", "rdma", "no device,\nno driver"),
            "SKIP a::b: rdma: no device, no driver\n"
        );
    }
}
