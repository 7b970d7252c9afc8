//! A process of a field test, as the test sees it.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};

/// Whatever a process is asked for, it does within this time, also on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module. It is killed when the test ends, however it ends.
pub(crate) struct Party {
    name: String,
    child: Child,
    lines: UnboundedReceiver<Value>,
    /// Where it serves HTTP, once it has said so.
    pub(crate) admin: Option<String>,
}

impl Drop for Party {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Party {
    /// Starts a party.
    pub(crate) fn start(arguments: &[String]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_party"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo has built the party");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, lines) = unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("a party tells JSON");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            name: arguments.join(" "),
            child,
            lines,
            admin: None,
        }
    }

    /// The next line that it tells; `None` when it has ended.
    async fn next(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.recv()).await;
        line.unwrap_or_else(|_| panic!("{} tells nothing and does not end", self.name))
    }

    /// The next line that it tells.
    pub(crate) async fn line(&mut self) -> Value {
        let line = self.next().await;
        line.unwrap_or_else(|| panic!("{} has ended", self.name))
    }

    /// The last line that it tells before its end.
    pub(crate) async fn last_line(&mut self) -> Value {
        let mut last = self.line().await;
        while let Some(line) = self.next().await {
            last = line;
        }
        last
    }

    /// A number that it shows over HTTP, with everything behind the name and labels that the line begins with.
    pub(crate) async fn metric(&self, begins: &str) -> Option<String> {
        let admin = self.admin.as_ref().expect("it has said where");
        let mut socket = TcpStream::connect(admin).await.ok()?;
        let asked = socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await;
        asked.ok()?;
        let mut page = String::new();
        socket.read_to_string(&mut page).await.ok()?;
        let found = page.lines().find_map(|line| line.strip_prefix(begins));
        found.map(|rest| rest.trim().to_owned())
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        // The shell has a `kill` of its own; a small system has no other.
        let mut kill = Command::new("sh");
        let sent = kill.args(["-c", "kill $0 $1", signal, &id]).status();
        assert!(sent.expect("a shell exists").success(), "{}", self.name);
    }

    /// `kill -9`; it is gone afterwards.
    pub(crate) fn kill(&mut self) {
        let _ended_before = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// SIGSTOP; it stands still afterwards.
    pub(crate) fn stop(&self) {
        self.signal("-STOP");
        let deadline = Instant::now() + PATIENCE;
        while !self.status("State:").starts_with('T') {
            assert!(Instant::now() < deadline, "{} does not stop", self.name);
            thread::yield_now();
        }
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        while self.next().await.is_some() {}
        // Nobody but the process has the other end of its output: it has closed it by ending.
        self.child.wait().expect("it is our child")
    }

    /// The first of the two common checks: it has not died.
    pub(crate) fn assert_alive(&mut self) {
        let ended = self.child.try_wait().expect("it is our child");
        assert_eq!(ended, None, "{} has died", self.name);
    }

    /// Bytes of memory that it has resident.
    pub(crate) fn resident(&self) -> u64 {
        let text = self.status("VmRSS:");
        let kib = text.split_whitespace().next().and_then(|n| n.parse().ok());
        kib.map(|kib: u64| kib << 10).expect("a number of kB")
    }

    /// Files, sockets and the like that it has open.
    pub(crate) fn descriptors(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        open.expect("a child that was not reaped has a list")
            .count()
    }

    fn status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("a child that was not reaped has a status");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.expect("Linux tells").trim().to_owned()
    }
}
