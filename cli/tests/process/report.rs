//! The real binary, run to its end with `--json`.

use serde_json::Value;
use std::process::Command;

/// Its exit code, and the object on its last line.
pub(crate) fn run(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_ziggurat"))
        .args(arguments)
        .arg("--json")
        .env_clear()
        .output()
        .expect("the binary was built");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = text.lines().last().expect("a last line");
    (
        output.status.code(),
        serde_json::from_str(line).expect("JSON"),
    )
}
