//! Kernel features that make things faster.

use super::{Check, machine::Machine};

/// Whether io_uring may be used. The kernel before 6.6 has no switch for it and always allows it.
pub(super) fn io_uring(machine: &Machine) -> Check {
    const NAME: &str = "io_uring";
    const PATH: &str = "proc/sys/kernel/io_uring_disabled";
    let release = machine
        .read("proc/sys/kernel/osrelease")
        .unwrap_or_else(|| "unknown".to_owned());
    let cure = format!("sysctl -w kernel.io_uring_disabled=0 ({PATH})");
    match machine.read(PATH).as_deref() {
        Some("2") => Check::warn(NAME, "turned off for everybody", cure),
        Some("1") => Check::warn(NAME, "for root and the group of io_uring only", cure),
        _ => Check::ok(NAME, format!("allowed, kernel {release}")),
    }
}

#[cfg(test)]
mod tests {
    use super::io_uring;
    use crate::doctor::{Verdict, machine::tests::machine};

    #[test]
    fn a_kernel_without_the_switch_allows_it() {
        for (value, verdict) in [
            ("0", Verdict::Ok),
            ("1", Verdict::Warn),
            ("2", Verdict::Warn),
        ] {
            let (_dir, machine) = machine(&[("proc/sys/kernel/io_uring_disabled", value)]);
            assert_eq!(io_uring(&machine).verdict, verdict, "{value}");
        }
        let (_dir, machine) = machine(&[]);
        assert_eq!(io_uring(&machine).verdict, Verdict::Ok);
    }
}
