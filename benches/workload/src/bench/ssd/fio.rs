//! The limit: fio, a program that others have tuned, on the same directory with a job file of fio-tests.

use super::{
    Speed,
    shape::{Shape, Way},
};
use crate::bench::failed;
use serde_json::Value;
use std::{
    io::{ErrorKind, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use ziggurat_base::{Code, Error, Result};

/// fio, which is there.
#[derive(Debug)]
pub(super) struct Fio {
    pub(super) version: String,
}

/// What a job works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) file: &'a Path,
    /// Bytes of it that the job uses, from the front.
    pub(super) bytes: u64,
    /// How long reads go on.
    pub(super) span: Duration,
}

impl Fio {
    /// Looks for it.
    pub(super) fn find() -> Result<Self> {
        let output = Command::new("fio").arg("--version").output();
        let output = output.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(
                Code::FileNotFound,
                "fio is not installed, and it is the limit that this is measured against: install the package `fio` \
                 (`apt-get install fio`)",
            ),
            _ => failed("start fio", error),
        })?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Self { version })
    }

    /// Runs a job.
    pub(super) fn run(&self, shape: Shape, target: Target<'_>) -> Result<Speed> {
        let doing = || format!("{} with job {}", self.version, shape.name);
        let mut command = Command::new("fio");
        // A read must never lay the file out anew.
        if shape.way == Way::Read {
            command.arg("--readonly");
        }
        command
            .args(["--output-format=json", "-"])
            .env("ZIGGURAT_FIO_FILE", escaped(target.file))
            .env("ZIGGURAT_FIO_SIZE", target.bytes.to_string())
            .env(
                "ZIGGURAT_FIO_RUNTIME",
                format!("{}ms", target.span.as_millis()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| failed(&doing(), e))?;
        if let Some(mut input) = child.stdin.take() {
            let told = input.write_all(shape.job.as_bytes());
            told.map_err(|e| failed(&doing(), e))?;
        }
        let output = child.wait_with_output().map_err(|e| failed(&doing(), e))?;
        if !output.status.success() {
            let said = [output.stderr, output.stdout].concat();
            let what = format!(
                "it failed; give a directory on a disk that io_uring reaches past the page cache. It said: {}",
                String::from_utf8_lossy(&said).trim()
            );
            return Err(failed(&doing(), what));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        speed(&text, shape.way).map_err(|e| failed(&doing(), e))
    }
}

/// A path as job files have it: there a colon separates files.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(':', "\\:")
}

/// Reads what fio reports.
fn speed(report: &str, way: Way) -> Result<Speed, String> {
    // Warnings may stand in front of the object.
    let start = report.find('{').ok_or("it reported nothing")?;
    let report: Value = serde_json::from_str(&report[start..]).map_err(|e| e.to_string())?;
    let job = &report["jobs"][0];
    let side = &job[match way {
        Way::Read => "read",
        Way::Write => "write",
    }];
    let number = |value: &Value, name: &str| {
        let number = value[name].as_f64();
        number.ok_or_else(|| format!("its report has no {name}"))
    };
    let bytes = number(side, "io_bytes")?;
    let seconds = number(side, "runtime")? / 1e3;
    if bytes <= 0.0 || seconds <= 0.0 {
        return Err("it moved nothing in the time that it had: give more".into());
    }
    let cpu_share = (number(job, "usr_cpu")? + number(job, "sys_cpu")?) / 100.0;
    let cpu_s = cpu_share * number(job, "job_runtime")? / 1e3;
    Ok(Speed {
        bytes_per_s: bytes / seconds,
        cpu_s_per_gb: cpu_s / (bytes / 1e9),
    })
}

#[cfg(test)]
mod tests {
    use super::{Way, speed};

    const REPORT: &str = r#"note: something
        {"jobs": [{"job_runtime": 2000, "usr_cpu": 5.0, "sys_cpu": 20.0,
        "read": {"io_bytes": 4000000000, "runtime": 2000}, "write": {"io_bytes": 0, "runtime": 0}}]}"#;

    #[test]
    fn speed_and_cpu_time_are_read_from_the_report() {
        let speed = speed(REPORT, Way::Read).unwrap();
        assert_eq!((speed.bytes_per_s, speed.cpu_s_per_gb), (2e9, 0.125));
    }

    #[test]
    fn a_report_without_figures_is_an_error() {
        for (report, way, what) in [
            (REPORT, Way::Write, "nothing in the time"),
            ("", Way::Read, "reported nothing"),
            ("{}", Way::Read, "io_bytes"),
        ] {
            assert!(speed(report, way).unwrap_err().contains(what), "{report}");
        }
    }
}
