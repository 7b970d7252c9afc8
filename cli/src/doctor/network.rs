//! Network: congestion control, and ports that are free.

use super::{Check, machine::Machine};
use crate::config::{Address, Settings};
use std::net::TcpListener;

/// Whether transfers on one machine are paced. bbr paces loopback, which halves large transfers there.
pub(super) fn congestion_control(machine: &Machine) -> Check {
    const NAME: &str = "congestion control";
    const FOLDER: &str = "proc/sys/net/ipv4";
    let read = |name: &str| machine.read(&format!("{FOLDER}/{name}"));
    let Some(default) = read("tcp_congestion_control") else {
        return Check::unknown(NAME, "proc/sys/net/ipv4/tcp_congestion_control");
    };
    let available = read("tcp_available_congestion_control").unwrap_or_default();
    let found = format!("{default} by default, available: {available}");
    if default.starts_with("bbr") {
        let better = ["cubic", "reno"]
            .into_iter()
            .find(|name| available.split(' ').any(|known| known == *name))
            .unwrap_or("cubic");
        return Check::warn(
            NAME,
            format!("{found}; bbr halves large transfers on loopback"),
            format!("sysctl -w net.ipv4.tcp_congestion_control={better}"),
        );
    }
    Check::ok(NAME, found)
}

/// Whether the ports are free that servers of this configuration would take.
pub(super) fn ports(settings: &Settings) -> Vec<Check> {
    let listeners = [
        (
            "port of the master",
            "rpc-address",
            &settings.master.rpc_address,
        ),
        (
            "port of HTTP",
            "admin-address",
            &settings.master.admin_address,
        ),
        (
            "port of the node",
            "data-address",
            &settings.node.data_address,
        ),
    ];
    let check =
        |(name, setting, address): (_, &str, &Address)| match TcpListener::bind(address.as_str()) {
            Ok(_) => Check::ok(name, format!("{address} is free")),
            Err(error) => Check::warn(
                name,
                format!("{address}: {error}"),
                format!("fine if it is ours; else stop who has it, or give another --{setting}"),
            ),
        };
    listeners.into_iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::congestion_control;
    use crate::doctor::{Verdict, machine::tests::machine};

    #[test]
    fn bbr_is_named_with_what_to_take_instead() {
        let files = |default| {
            machine(&[
                ("proc/sys/net/ipv4/tcp_congestion_control", default),
                (
                    "proc/sys/net/ipv4/tcp_available_congestion_control",
                    "reno bbr\n",
                ),
            ])
        };
        let (_dir, machine) = files("bbr\n");
        let check = congestion_control(&machine);
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.cure.unwrap().ends_with("=reno"));
        let (_dir, machine) = files("cubic\n");
        assert_eq!(congestion_control(&machine).verdict, Verdict::Ok);
    }
}
