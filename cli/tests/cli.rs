//! The binary as a user meets it: exit codes, both streams, the last line for programs.

use serde_json::Value;
use std::process::{Command, Output};

/// Runs the binary with a clean environment.
fn ziggurat(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ziggurat"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .expect("the binary was built")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// The object on the last line of standard output.
fn last_object(output: &Output) -> Value {
    let line = stdout(output).lines().last().expect("a last line");
    let value: Value = serde_json::from_str(line).expect("JSON");
    assert!(value.is_object());
    value
}

#[test]
fn help_tells_the_exit_codes_and_succeeds() {
    let output = ziggurat(&["--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    for part in ["Exit codes:", "config", "doctor", "completions", "--json"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(!help.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn a_usage_error_ends_with_2_in_both_forms() {
    let output = ziggurat(&["frobnicate"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).is_empty());
    assert!(stderr(&output).contains("frobnicate"));
    let output = ziggurat(&["config", "--frobnicate", "--json"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let error = &last_object(&output)["error"];
    assert_eq!(error["code"], -600);
    assert!(
        error["what"]
            .as_str()
            .is_some_and(|what| what.contains("--frobnicate"))
    );
}

#[test]
fn config_tells_who_set_what() {
    let environment = [("ZIGGURAT_LEASE", "3s")];
    let output = ziggurat(&["config", "--dram", "1GiB", "--json"], &environment);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = last_object(&output);
    let setting = |name: &str| {
        let settings = report["settings"].as_array().expect("a list");
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.expect("a setting").clone()
    };
    assert_eq!(setting("lease")["value"], "3s");
    assert_eq!(setting("lease")["from"], "environment");
    assert_eq!(setting("lease")["at"], "ZIGGURAT_LEASE");
    assert_eq!(setting("dram")["at"], "--dram");
    assert_eq!(setting("seed")["from"], "default");
    assert_eq!(setting("state-dir")["value"], Value::Null);
}

#[test]
fn a_bad_configuration_ends_with_2_and_tells_all_faults() {
    let environment = [("ZIGGURAT_LEASE", "never"), ("ZIGGURAT_DRAM", "-1")];
    let output = ziggurat(&["config", "--json"], &environment);
    assert_eq!(output.status.code(), Some(2));
    let error = &last_object(&output)["error"];
    assert_eq!(error["name"], "CONFIG_INVALID");
    assert_eq!(error["code"], -2002);
    let what = error["what"].as_str().expect("a text");
    assert!(
        what.contains("ZIGGURAT_LEASE") && what.contains("ZIGGURAT_DRAM"),
        "{what}"
    );
    assert!(stderr(&output).contains("CONFIG_INVALID (-2002)"));
}

#[test]
fn a_switch_may_stand_alone() {
    let output = ziggurat(&["config", "--populate", "--huge-pages=off", "--json"], &[]);
    let report = last_object(&output);
    let settings = report["settings"].as_array().expect("a list");
    let populate = settings
        .iter()
        .find(|setting| setting["name"] == "populate");
    assert_eq!(populate.expect("a setting")["value"], "on");
}

#[test]
fn doctor_reports_every_check() {
    let addresses = [
        ("ZIGGURAT_RPC_ADDRESS", "127.0.0.1:0"),
        ("ZIGGURAT_ADMIN_ADDRESS", "127.0.0.1:0"),
        ("ZIGGURAT_DATA_ADDRESS", "127.0.0.1:0"),
    ];
    let output = ziggurat(&["doctor", "--dram", "1MiB", "--json"], &addresses);
    let report = last_object(&output);
    let checks = report["checks"].as_array().expect("a list");
    assert!(checks.len() > 10);
    let count = |verdict: &str| {
        let matching = checks.iter().filter(|check| check["verdict"] == verdict);
        matching.count() as u64
    };
    for verdict in ["ok", "warn", "fail"] {
        assert_eq!(report[verdict], count(verdict));
    }
    assert_eq!(output.status.code(), Some(i32::from(count("fail") > 0)));
}

#[test]
fn memory_that_the_machine_does_not_have_fails_the_doctor() {
    let output = ziggurat(&["doctor", "--dram", "1000TiB"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("FAIL"));
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = ziggurat(&["completions", shell], &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("doctor"), "{shell}");
    }
}

#[test]
fn version_tells_what_goes_to_sockets() {
    let output = ziggurat(&["--version"], &[]);
    assert!(stdout(&output).starts_with("ziggurat "));
    assert!(stdout(&output).contains("protocol 1"));
}
