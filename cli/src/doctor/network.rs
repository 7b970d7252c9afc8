//! Network: congestion control, and ports that are free.

use super::{Check, machine::Machine};
use crate::config::Settings;
use std::net::{SocketAddr, TcpListener};

/// What our sockets ask for when the system's default paces, best first.
const UNPACED: [&str; 2] = ["cubic", "reno"];

/// Whether transfers on one machine are paced. bbr paces loopback, which halves large transfers there; our sockets choose
/// another where the system permits one.
pub(super) fn congestion_control(machine: &Machine) -> Check {
    const NAME: &str = "congestion control";
    const FOLDER: &str = "proc/sys/net/ipv4";
    let read = |name: &str| machine.read(&format!("{FOLDER}/tcp_{name}"));
    let Some(default) = read("congestion_control") else {
        return Check::unknown(NAME, "proc/sys/net/ipv4/tcp_congestion_control");
    };
    let allowed = read("allowed_congestion_control").unwrap_or_default();
    let is_allowed = |name: &&str| allowed.split(' ').any(|known| known == *name);
    match UNPACED.into_iter().find(is_allowed) {
        Some(chosen) => Check::ok(
            NAME,
            format!("our sockets choose {chosen}, default {default}"),
        ),
        None if default.starts_with("bbr") => Check::warn(
            NAME,
            format!("{default}, which halves large transfers on loopback; nothing else is allowed"),
            "sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic'",
        ),
        None => Check::ok(NAME, default),
    }
}

/// Whether the ports are free that servers of this configuration would take.
pub(super) fn ports(settings: &Settings) -> Vec<Check> {
    let (master, node) = (&settings.master, &settings.node);
    let mut listeners = vec![
        ("port of the master", "rpc-address", master.rpc_address),
        ("port of HTTP", "admin-address", master.admin_address),
        ("port of the node", "data-address", node.data_address),
    ];
    if let Some(admin) = settings.watch.node_admin_address.address() {
        listeners.push(("port of the node's HTTP", "node-admin-address", admin));
    }
    let check = |(name, setting, address): (_, &str, SocketAddr)| match TcpListener::bind(address) {
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
    fn bbr_matters_where_nothing_else_is_allowed() {
        let files = |allowed| {
            machine(&[
                ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
                ("proc/sys/net/ipv4/tcp_allowed_congestion_control", allowed),
            ])
        };
        let (_dir, machine) = files("bbr\n");
        assert_eq!(congestion_control(&machine).verdict, Verdict::Warn);
        let (_dir, machine) = files("reno bbr\n");
        let check = congestion_control(&machine);
        assert_eq!(check.verdict, Verdict::Ok);
        assert!(check.found.contains("choose reno"));
    }
}
