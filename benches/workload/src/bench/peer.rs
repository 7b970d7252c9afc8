//! The other processes of a measurement: this program again, as a master, a node, or both with a raw server beside.
//!
//! A child is told what to be by one JSON argument, says where it listens in one JSON line on its standard output, and
//! ends when its standard input does: so it never outlives the measurement, however that ends.

use super::{failed, limits};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{self, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_store::{
    CatalogConfig, Master, MasterOptions, MemoryOptions, Node, NodeOptions, ServeOptions, Served,
    SystemClock,
};

/// Loopback only; any port.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// How long a node tries to reach its master.
const PATIENCE: Duration = Duration::from_secs(10);

/// How this program is started as a child that calls [`serve`] with its last argument.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The words before the last.
    pub words: Vec<OsString>,
}

impl Program {
    /// This program again, with these words.
    ///
    /// # Errors
    /// When the system does not say which program this is.
    pub fn this(words: &[&str]) -> Result<Self> {
        let path = std::env::current_exe().map_err(|e| failed("find this program", e))?;
        let words = words.iter().map(Into::into).collect();
        Ok(Self { path, words })
    }
}

/// Which cores the processes of a measurement may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pinning {
    /// Whichever the system picks.
    #[default]
    Free,
    /// All of them core 0: no wake-up crosses cores.
    OneCore,
    /// The measuring process core 0, its servers core 1.
    TwoCores,
}

impl Pinning {
    /// Keeps the calling thread, and what it starts from now on, on the core of the measuring process.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn pin_bench(self) -> Result<()> {
        match self {
            Self::Free => Ok(()),
            Self::OneCore | Self::TwoCores => pin(0),
        }
    }

    fn pin_server(self) -> Result<()> {
        match self {
            Self::Free => Ok(()),
            Self::OneCore => pin(0),
            Self::TwoCores => pin(1),
        }
    }
}

fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(|e| failed(&format!("stay on core {core}"), e))
}

/// What a child should be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) role: Role,
    pub(super) pinning: Pinning,
}

/// See [`Spec`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Role {
    /// A master with its node, and a raw server with as much memory as `raw` says.
    AllInOne { dram: u64, raw: usize },
    /// A master that takes members for dead after a time.
    Master {
        member_ttl_ms: u64,
        /// Where it listens; any port when not set.
        listen: Option<SocketAddr>,
        /// Where it keeps what outlives it.
        state_dir: Option<PathBuf>,
    },
    /// A node with one segment of its name, and one for its directory on SSD.
    Node {
        master: String,
        name: String,
        dram: u64,
        /// Where it listens; any port when not set.
        listen: Option<SocketAddr>,
        /// `DIR[:SIZE]`.
        ssd: Option<String>,
    },
}

/// Where a child listens.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Addresses {
    pub(super) master: String,
    pub(super) node: String,
    pub(super) raw: String,
}

/// A running child. It is killed when dropped.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    pub(super) addresses: Addresses,
}

impl Child {
    /// Starts a child and waits for its addresses.
    pub(super) fn start(program: &Program, spec: &Spec) -> Result<Self> {
        let starting = || format!("start {} as {:?}", program.path.display(), spec.role);
        let told = serde_json::to_string(spec).map_err(|e| failed("write a spec", e))?;
        let process = Command::new(&program.path)
            .args(&program.words)
            .arg(told)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| failed(&starting(), e))?;
        let mut child = Self {
            process,
            addresses: Addresses::default(),
        };
        let mut line = String::new();
        if let Some(output) = child.process.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(|e| failed(&starting(), e))?;
        }
        child.addresses = serde_json::from_str(&line).map_err(|_| {
            let what = format!("{}: it ended early; its errors are above", starting());
            Error::new(Code::Internal, what)
        })?;
        Ok(child)
    }

    /// Kills it with signal 9 and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<()> {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed.map(drop).map_err(|e| failed("kill a child", e))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended already cannot be killed again.
        let _ended_before = self.kill();
    }
}

/// What a child of a measurement does with its last argument: serves until its standard input ends.
///
/// # Errors
/// When the argument is none, or the servers do not start.
pub fn serve(spec: &str) -> Result<()> {
    let spec: Spec = serde_json::from_str(spec).map_err(|e| {
        let what = format!("not for people: it takes what `ziggurat bench` gives ({e})");
        Error::new(Code::InvalidParams, what)
    })?;
    spec.pinning.pin_server()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| failed("start threads", e))?;
    match spec.role {
        Role::AllInOne { dram, raw } => {
            let options = ServeOptions {
                master: master(CatalogConfig::default()),
                node: node(String::new(), "bench".into(), dram),
            };
            let served = runtime.block_on(Served::start(options))?;
            announce(&Addresses {
                master: served.master.address().to_string(),
                raw: limits::serve(raw)?.to_string(),
                ..Addresses::default()
            })
        }
        Role::Master {
            member_ttl_ms,
            listen,
            state_dir,
        } => {
            let config = CatalogConfig {
                member_ttl: Duration::from_millis(member_ttl_ms),
                ..CatalogConfig::default()
            };
            let master = runtime.block_on(Master::start(MasterOptions {
                listen: listen.unwrap_or(ANY),
                state_dir,
                ..master(config)
            }))?;
            announce(&Addresses {
                master: master.address().to_string(),
                ..Addresses::default()
            })
        }
        Role::Node {
            master,
            name,
            dram,
            listen,
            ssd,
        } => {
            let mut options = node(master, name, dram);
            options.listen = listen.unwrap_or(ANY);
            if let Some(ssd) = ssd {
                options.ssd.directories = vec![ssd.parse()?];
                // Touching memory is no part of coming back.
                options.memory.populate = false;
            }
            let node = runtime.block_on(Node::start(options))?;
            announce(&Addresses {
                node: node.address().to_owned(),
                ..Addresses::default()
            })
        }
    }
}

fn master(catalog: CatalogConfig) -> MasterOptions {
    MasterOptions {
        listen: ANY,
        admin: None,
        state_dir: None,
        catalog,
        clock: Arc::new(SystemClock::default()),
    }
}

fn node(master: String, name: String, dram: u64) -> NodeOptions {
    NodeOptions {
        master,
        listen: ANY,
        advertise: None,
        admin: None,
        segment_name: name,
        ssd: Default::default(),
        dfs: Default::default(),
        eager: true,
        memory: MemoryOptions {
            dram: ByteCount(dram),
            populate: true,
            ..MemoryOptions::default()
        },
        session: Default::default(),
        limits: Default::default(),
        patience: PATIENCE,
    }
}

/// Tells the parent where the servers are, and waits for its end.
fn announce(addresses: &Addresses) -> Result<()> {
    let mut line = serde_json::to_vec(addresses).map_err(|e| failed("write addresses", e))?;
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    let told = output.write_all(&line).and_then(|()| output.flush());
    told.map_err(|e| failed("tell addresses", e))?;
    let waited = std::io::stdin().lock().read_to_end(&mut Vec::new());
    waited.map(drop).map_err(|e| failed("wait for the end", e))
}
