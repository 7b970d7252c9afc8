//! Servers and object commands with real processes and sockets, as a user runs them.

mod process {
    mod addresses;
    mod sight;
}

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

fn ziggurat(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ziggurat"));
    command.args(arguments).env_clear();
    command
}

/// Tells a process to end, by the shell, which has a `kill` of its own; a small system has no other.
fn terminate(child: &Child) {
    let id = child.id().to_string();
    let told = Command::new("sh").args(["-c", "kill $0", &id]).status();
    assert!(told.expect("a shell exists").success());
}

fn last_object(output: &Output) -> Value {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    let line = text.lines().last().expect("a last line");
    serde_json::from_str(line).expect("JSON")
}

/// A server that is killed when the test ends, however it ends.
struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    ready: Value,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Server {
    /// Starts one and waits for its first line, which says where it listens.
    fn start(arguments: &[&str]) -> Self {
        let mut child = ziggurat(arguments)
            .arg("--json")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).expect("JSON");
        Self {
            child,
            stdout,
            ready,
        }
    }

    fn address(&self, name: &str) -> &str {
        self.ready[name].as_str().expect("an address")
    }

    /// Asks it to stop; returns its exit code and last line.
    fn stop(mut self) -> (Option<i32>, Value) {
        terminate(&self.child);
        let lines = self.stdout.by_ref().lines().map_while(Result::ok);
        let last = lines.last().expect("a last line");
        let status = self.child.wait().expect("it ends");
        (status.code(), serde_json::from_str(&last).expect("JSON"))
    }
}

/// All in one, on ports that the system chooses.
fn serve() -> Server {
    let any = "127.0.0.1:0";
    Server::start(&[
        "serve",
        "--dram=64MiB",
        "--lease=100ms",
        "--rpc-address",
        any,
        "--admin-address",
        any,
        "--data-address",
        any,
    ])
}

/// Runs an object command against a server.
fn ask(server: &Server, arguments: &[&str]) -> Output {
    let master = server.address("rpc_address");
    ziggurat(arguments)
        .args(["--master", master])
        .output()
        .expect("the binary was built")
}

fn put(server: &Server, key: &str, value: &[u8]) -> Output {
    let master = server.address("rpc_address");
    let mut child = ziggurat(&["put", key, "-", "--json", "--master", master])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(value).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn what_is_put_is_got_listed_told_and_removed() {
    let server = serve();
    let value = [0, 1, 2, 255, b'\n'];
    let stored = last_object(&put(&server, "a/1", &value));
    assert_eq!(
        (&stored["stored"], &stored["len"]),
        (&true.into(), &5.into())
    );
    assert_eq!(last_object(&put(&server, "a/1", b"other"))["existed"], true);
    assert!(put(&server, "a/empty", b"").status.success());

    let got = ask(&server, &["get", "a/1"]);
    assert_eq!(got.stdout, value, "bytes and nothing else");
    let empty = ask(&server, &["get", "a/empty"]);
    assert_eq!(
        (empty.status.code(), &empty.stdout[..]),
        (Some(0), &b""[..])
    );
    assert_eq!(
        ask(&server, &["get", "a/1", "--range", "1..3"]).stdout,
        [1, 2]
    );

    let listed = last_object(&ask(&server, &["ls", "^a/", "--limit=1", "--json"]));
    assert_eq!(listed["objects"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["truncated"], true);
    let told = last_object(&ask(&server, &["stat", "a/1", "--json"]));
    assert_eq!(told["objects"][0]["len"], 5);
    for arguments in [
        ["prefetch", "a/1", "--priority=high", "--json"],
        ["prefetch", "a/1", "--cancel", "--json"],
    ] {
        let wished = ask(&server, &arguments);
        assert_eq!(last_object(&wished)["results"]["a/1"], "in_memory");
    }
    let status = last_object(&ask(&server, &["status", "--json"]));
    assert_eq!(status["objects"], 2);
    assert_eq!(status["segments"].as_array().map(Vec::len), Some(1));

    let removed = ask(&server, &["rm", "--all", "--force", "--json"]);
    assert_eq!(last_object(&removed)["removed"], 2);
    let (code, last) = server.stop();
    assert_eq!((code, &last["stopped"]), (Some(0), &"SIGTERM".into()));
}

#[test]
fn a_miss_ends_with_3_and_leaves_standard_output_to_values() {
    let server = serve();
    for arguments in [
        ["get", "nothing"],
        ["exists", "nothing"],
        ["stat", "nothing"],
        ["prefetch", "nothing"],
    ] {
        let output = ask(&server, &arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
    }
    let missed = ask(&server, &["get", "nothing"]);
    assert!(missed.stdout.is_empty());
    assert_eq!(missed.stderr, b"nothing: not there\n");
    let missed = ask(&server, &["get", "nothing", "--json"]);
    assert_eq!(last_object(&missed)["found"], false);
}

#[test]
fn a_bad_key_ends_with_2() {
    let server = serve();
    let output = ask(&server, &["get", "", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(last_object(&output)["error"]["name"], "INVALID_KEY");
}

#[test]
fn master_and_nodes_are_a_cluster() {
    let any = "127.0.0.1:0";
    let master = Server::start(&["master", "--rpc-address", any, "--admin-address", any]);
    let address = master.address("rpc_address").to_owned();
    let node = |name: &str| {
        Server::start(&[
            "node",
            "--dram=16MiB",
            "--data-address",
            any,
            "--node-admin-address",
            any,
            "--segment-name",
            name,
            "--unmount-grace=0s",
            "--master",
            &address,
        ])
    };
    let nodes = [node("one"), node("two")];
    let stored = put(&master, "k", b"v");
    assert_eq!(last_object(&stored)["stored"], true);
    assert_eq!(ask(&master, &["get", "k"]).stdout, b"v");
    let status = last_object(&ask(&master, &["status", "--json"]));
    assert_eq!(status["segments"].as_array().map(Vec::len), Some(2));
    for node in nodes {
        assert_eq!(node.stop().0, Some(0));
    }
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    let nobody = [
        "status",
        "--master",
        "127.0.0.1:1",
        "--connect-timeout",
        "2s",
    ];
    let output = ziggurat(&nobody).output().expect("the binary was built");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("127.0.0.1:1") && told.contains("ziggurat doctor"),
        "{told}"
    );
}
