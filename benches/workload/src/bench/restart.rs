//! Restarts over a directory of small objects: how long until all of them are readable again.
//!
//! A master and a node with a directory on SSD, each a process of its own, and a client that stays. Node or master is killed
//! with signal 9 and started anew; time counts from the moment at which the new process is started, and ends when the
//! client has got an answer for some objects of which every later read goes well: all objects are read then, and every byte
//! is compared. If one of these reads fails the time goes on.

mod crowd;

use super::{
    Pinning, Program, Progress, failed,
    peer::{Child, Role, Spec},
    scratch::Scratch,
};
use crowd::Crowd;
use serde::Serialize;
use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_store::{ConnectOptions, Store};

/// What to measure.
#[derive(Clone, Debug)]
pub struct RestartOptions {
    /// Where: a directory is made in it, and removed afterwards.
    pub directory: PathBuf,
    /// Objects, of 4 to 16 KiB.
    pub objects: u64,
    /// How long the master waits for a silent member.
    pub member_ttl: Duration,
    /// Payloads derive from it.
    pub seed: u64,
    /// The children.
    pub program: Program,
}

impl RestartOptions {
    /// So many objects as are asked for in the aim, and the master's own patience.
    #[must_use]
    pub fn new(directory: PathBuf, program: Program) -> Self {
        Self {
            directory,
            objects: 50_000,
            member_ttl: Duration::from_secs(10),
            seed: 1,
            program,
        }
    }
}

/// One restart.
#[derive(Clone, Debug, Serialize)]
pub struct RestartRow {
    /// Who was killed, and how it came back.
    pub case: &'static str,
    /// How long it was away before it was started anew, in seconds.
    pub away_s: f64,
    /// Objects that had been on SSD when it was killed.
    pub objects: u64,
    /// How many of them could be read in the end.
    pub readable: u64,
    /// From the start of the process until all were readable, in seconds.
    pub seconds: f64,
    /// How long the client then took to read all of them, in seconds.
    pub read_s: f64,
    /// The longest that it waited for a batch meanwhile, in milliseconds.
    pub batch_ms_max: f64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct RestartReport {
    /// Bytes of all payloads.
    pub payload_bytes: u64,
    /// How long the master waits for a silent member, in seconds.
    pub member_ttl_s: f64,
    /// Payloads that were not what was put.
    pub wrong_bytes: u64,
    /// One restart each, one after the other over the same directory.
    pub rows: Vec<RestartRow>,
}

/// After so long it is said how many are readable.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause after a look that found less than all.
const PAUSE: Duration = Duration::from_millis(5);

/// Memory of the node: less than its directory holds, as it is where there is one.
const DRAM: ByteCount = ByteCount::mib(256);

/// Measures.
///
/// # Errors
/// `InvalidParams` for no objects, and for a directory that cannot be used or has no room; whatever keeps processes from
/// starting or objects from being put. What reads find is in the report.
pub fn restart(options: &RestartOptions, progress: Progress<'_>) -> Result<RestartReport> {
    if options.objects == 0 {
        let what = "0 objects: give --objects at least 1";
        return Err(Error::new(Code::InvalidParams, what));
    }
    let crowd = Crowd::new(options.objects, options.seed)?;
    let scratch = Scratch::new(&options.directory)?;
    let disk = ByteCount(2 * crowd.payload_bytes() + (1 << 30));
    scratch.has_room(disk)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| failed("start a runtime", e))?;
    let mut bed = Bed {
        options,
        ssd: format!("{}:{}B", scratch.fresh("node")?.display(), disk.0),
        state: scratch.fresh("state")?,
    };
    runtime.block_on(measure(&mut bed, crowd, progress))
}

/// How processes are started.
struct Bed<'a> {
    options: &'a RestartOptions,
    ssd: String,
    state: PathBuf,
}

impl Bed<'_> {
    fn start(&self, role: Role) -> Result<Child> {
        let pinning = Pinning::Free;
        Child::start(&self.options.program, &Spec { role, pinning })
    }

    fn master(&self, listen: Option<SocketAddr>) -> Result<Child> {
        self.start(Role::Master {
            member_ttl_ms: self.options.member_ttl.as_millis() as u64,
            listen,
            state_dir: Some(self.state.clone()),
        })
    }

    /// A node that comes back elsewhere has another name too: by default a name is made of the address.
    fn node(&self, master: &str, name: &str, listen: Option<SocketAddr>) -> Result<Child> {
        self.start(Role::Node {
            master: master.to_owned(),
            name: name.to_owned(),
            dram: DRAM.0,
            listen,
            ssd: Some(self.ssd.clone()),
        })
    }
}

fn address(text: &str) -> Result<SocketAddr> {
    text.parse().map_err(|e| failed("read an address", e))
}

/// Where a process comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    SameAddress,
    OtherAddress,
    GivenUp,
}

async fn measure(bed: &mut Bed<'_>, crowd: Crowd, progress: Progress<'_>) -> Result<RestartReport> {
    progress("starting a master and a node");
    let mut master = bed.master(None)?;
    let at = master.addresses.master.clone();
    let mut node = bed.node(&at, "first", None)?;
    let mut connect = ConnectOptions::new(at.clone());
    connect.patience.room = PATIENCE;
    let store = Store::connect(connect).await?;
    let mut run = Run {
        store,
        crowd,
        wrong: 0,
    };
    progress("putting objects");
    run.crowd.put(&run.store).await?;
    run.persisted().await?;
    let mut rows = Vec::new();
    for (case, name, back) in [
        ("node_same_address", "first", Back::SameAddress),
        ("node_other_address", "second", Back::OtherAddress),
        ("node_given_up", "third", Back::GivenUp),
    ] {
        progress(case);
        node.kill()?;
        let killed = Instant::now();
        if back == Back::GivenUp {
            run.given_up().await?;
        }
        let listen = match back {
            Back::SameAddress => Some(address(&node.addresses.node)?),
            Back::OtherAddress | Back::GivenUp => None,
        };
        let away = killed.elapsed();
        let began = Instant::now();
        node = bed.node(&at, name, listen)?;
        rows.push(run.row(case, away, began).await);
    }
    progress("master");
    master.kill()?;
    let began = Instant::now();
    master = bed.master(Some(address(&at)?))?;
    rows.push(run.row("master", Duration::ZERO, began).await);
    drop((node, master));
    Ok(RestartReport {
        payload_bytes: run.crowd.payload_bytes(),
        member_ttl_s: bed.options.member_ttl.as_secs_f64(),
        wrong_bytes: run.wrong,
        rows,
    })
}

/// The client, and what it has seen.
struct Run {
    store: Store,
    crowd: Crowd,
    wrong: u64,
}

impl Run {
    /// Waits until everything is on SSD.
    async fn persisted(&self) -> Result<()> {
        let objects = self.crowd.objects();
        let began = Instant::now();
        while self.store.stats().await?.owned_replicas < objects {
            if began.elapsed() > PATIENCE {
                let what = format!("not all of {objects} objects are on SSD after {PATIENCE:?}");
                return Err(Error::new(Code::NoAvailableHandle, what));
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Waits until the master has given the node up.
    async fn given_up(&self) -> Result<()> {
        while self.store.stats().await?.owned_replicas > 0 {
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Looks until all are readable, or for long enough.
    async fn row(&mut self, case: &'static str, away: Duration, began: Instant) -> RestartRow {
        loop {
            // A few first: while the node is away each answer takes its time.
            let probe = self.crowd.probe(&self.store).await;
            let seconds = began.elapsed();
            let is_late = seconds > PATIENCE;
            if probe || is_late {
                let reading = Instant::now();
                let pass = self.crowd.read_all(&self.store, is_late).await;
                self.wrong += pass.wrong;
                if pass.right == self.crowd.objects() || is_late {
                    return RestartRow {
                        case,
                        away_s: away.as_secs_f64(),
                        objects: self.crowd.objects(),
                        readable: pass.right,
                        seconds: seconds.as_secs_f64(),
                        read_s: reading.elapsed().as_secs_f64(),
                        batch_ms_max: pass.longest.as_secs_f64() * 1e3,
                    };
                }
            }
            sleep(PAUSE).await;
        }
    }
}
