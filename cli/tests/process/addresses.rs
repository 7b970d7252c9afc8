//! Addresses: taken ones, all ways to write them, and a server that is told to stop before it has found its master.

use crate::{Server, last_object, terminate, ziggurat};
use std::{
    net::{TcpListener, ToSocketAddrs},
    process::Stdio,
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};
use ziggurat_engine::testkit::skip::skip;

const ANY: &str = "127.0.0.1:0";

/// Whatever a process is asked for, it does within this time, also on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where each server listens.
const LISTENERS: [(&str, &[&str]); 3] = [
    ("master", &["--rpc-address", "--admin-address"]),
    ("node", &["--data-address", "--node-admin-address"]),
    (
        "serve",
        &["--rpc-address", "--admin-address", "--data-address"],
    ),
];

#[test]
fn a_taken_address_ends_every_server_with_2_and_is_named() {
    let owner = TcpListener::bind(ANY).expect("a free port");
    let taken = owner.local_addr().expect("it is bound").to_string();
    for (server, listeners) in LISTENERS {
        for busy in listeners {
            let mut arguments = vec![server, "--json"];
            for listener in listeners {
                let address = if listener == busy { &taken } else { ANY };
                arguments.extend([*listener, address]);
            }
            let began = Instant::now();
            let output = ziggurat(&arguments).output().expect("the binary was built");
            assert_eq!(output.status.code(), Some(2), "{server} with {busy}");
            assert!(began.elapsed() < PATIENCE, "{server} with {busy}");
            let error = &last_object(&output)["error"];
            assert_eq!(error["name"], "CONFIG_INVALID", "{server} with {busy}");
            let what = error["what"].as_str().expect("a text");
            assert!(what.contains(&taken), "{server} with {busy}: {what}");
        }
    }
}

#[test]
fn port_0_becomes_a_free_port_that_is_told_and_advertised() {
    let master = Server::start(&["master", "--rpc-address", ANY, "--admin-address", ANY]);
    let address = master.address("rpc_address");
    let node = |advertise: &[&str]| {
        let arguments = ["node", "--dram=16MiB", "--unmount-grace=0s"];
        let off = ["--node-admin-address", "off"];
        let at = ["--data-address", ANY, "--master", address, off[0], off[1]];
        Server::start(&[&arguments[..], &at, advertise].concat())
    };
    let plain = node(&[]);
    assert_eq!(
        plain.address("data_address"),
        plain.address("listen_address")
    );
    assert!(!plain.address("listen_address").ends_with(":0"));
    let elsewhere = node(&["--advertise-address", "localhost:1", "--segment-name", "e"]);
    assert_eq!(elsewhere.address("data_address"), "localhost:1");
    assert_ne!(elsewhere.address("listen_address"), "localhost:1");
    let status = ziggurat(&["status", "--json", "--master", address]).output();
    let status = last_object(&status.expect("the binary was built"));
    let segments = status["segments"].as_array().expect("segments").iter();
    let mut told: Vec<_> = segments.map(|s| s["address"].as_str()).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [Some(plain.address("data_address")), Some("localhost:1")]
    );
}

/// All in one at an address, and a value through it for each way to write where it is.
fn every_form_works(listen: &str, hosts: &[&str]) {
    let server = Server::start(&[
        "serve",
        "--dram=16MiB",
        "--rpc-address",
        listen,
        "--admin-address",
        listen,
        "--data-address",
        listen,
    ]);
    let (_, port) = server
        .address("rpc_address")
        .rsplit_once(':')
        .expect("a port");
    for host in hosts {
        let at = format!("{host}:{port}");
        // What the system itself does not know is not for us to know.
        if at.to_socket_addrs().is_err() {
            continue;
        }
        let put = ziggurat(&["put", host, "Cargo.toml", "--master", &at]).output();
        let put = put.expect("the binary was built");
        let told = String::from_utf8_lossy(&put.stderr).into_owned();
        assert!(put.status.success(), "{at}: {told}");
        let got = ziggurat(&["get", host, "--master", &at]).output();
        let got = got.expect("the binary was built").stdout;
        assert_eq!(
            got,
            std::fs::read("Cargo.toml").expect("it is there"),
            "{at}"
        );
    }
}

#[test]
fn all_ways_to_write_an_address_work() {
    let names = ["localhost", "LOCALHOST", "localhost."];
    every_form_works(ANY, &["127.0.0.1", names[0], names[1], names[2]]);
    if TcpListener::bind("[::1]:0").is_err() {
        return skip(
            "every_address_form",
            "ipv6",
            "the loopback has no IPv6 here",
        );
    }
    let forms = ["[::1]", "[0:0:0:0:0:0:0:1]"];
    // Whether the names lead there is the system's affair.
    every_form_works("[::1]:0", &forms);
}

#[test]
fn what_is_no_address_is_refused_with_2_and_a_reason() {
    for bad in [
        "::1",
        "[::1]",
        "localhost",
        "localhost:65536",
        "http://localhost:1",
        ":1",
    ] {
        for (command, flag) in [
            ("status", "--master"),
            ("node", "--advertise-address"),
            ("master", "--rpc-address"),
        ] {
            let output = ziggurat(&[command, flag, bad, "--json"]).output();
            let output = output.expect("the binary was built");
            assert_eq!(output.status.code(), Some(2), "{command} {flag} {bad}");
            let what = last_object(&output)["error"]["what"].to_string();
            assert!(what.contains(bad), "{command} {flag} {bad}: {what}");
        }
    }
}

#[test]
fn a_node_that_looks_for_its_master_stops_when_it_is_told() {
    let silent = TcpListener::bind(ANY).expect("a free port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let mut node = ziggurat(&[
        "node",
        "--dram=16MiB",
        "--master",
        &address,
        "--data-address",
        ANY,
        "--node-admin-address",
        ANY,
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .expect("the binary was built");
    let _asking = silent.accept().expect("it comes to its master");
    terminate(&node);
    let (sender, ended) = channel();
    thread::spawn(move || sender.send(node.wait()));
    let ended = ended.recv_timeout(PATIENCE).expect("it ends in time");
    assert!(ended.is_ok());
}
