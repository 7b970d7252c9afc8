//! One party of a field test as a process of its own, so that it can be stopped and killed: a master, a node, a writer, a
//! restless client. It tells what it does in lines of JSON on standard output.
//!
//! Servers are started as `ziggurat master` and `ziggurat node` start them; SIGTERM ends them in order. A panic anywhere
//! ends the process, so that no test takes a half-dead one for a living.
#![forbid(unsafe_code)]

use clap::{Args, Parser};
use serde_json::{Value, json};
use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};
use ziggurat_base::{ByteCount, Result, hash::Dice};
use ziggurat_store::{
    CatalogConfig, ConnectOptions, DfsOptions, Force, Master, MasterOptions, MemoryOptions, Node,
    NodeOptions, PutOptions, RootPath, SsdOptions, SsdPath, Store, SystemClock,
};
use ziggurat_tests::field::{payload, value_of};

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A party of a field test.
#[derive(Parser)]
#[command(name = "party")]
enum Party {
    /// Runs a master until SIGTERM.
    Master(MasterArguments),
    /// Runs a node until SIGTERM.
    Node(NodeArguments),
    /// Puts one object and tells what became of it.
    Put(PutArguments),
    /// Puts, gets and removes at random until it is killed.
    Churn(ChurnArguments),
}

#[derive(Args)]
struct MasterArguments {
    #[arg(long)]
    lease_ms: u64,
    #[arg(long)]
    ttl_ms: u64,
    #[arg(long)]
    discard_ms: u64,
    #[arg(long)]
    release_ms: u64,
    #[arg(long)]
    watermark: f64,
    #[arg(long, default_value_t = ANY)]
    listen: SocketAddr,
    #[arg(long)]
    state_dir: Option<PathBuf>,
}

#[derive(Args)]
struct NodeArguments {
    #[arg(long)]
    master: String,
    #[arg(long, default_value_t = ANY)]
    listen: SocketAddr,
    #[arg(long)]
    advertise: Option<String>,
    #[arg(long)]
    name: String,
    #[arg(long)]
    mib: u64,
    #[arg(long)]
    grace_ms: u64,
    #[arg(long)]
    ssd: Option<SsdPath>,
    #[arg(long)]
    dfs: Option<RootPath>,
}

#[derive(Args)]
struct PutArguments {
    #[arg(long)]
    master: String,
    #[arg(long)]
    key: String,
    #[arg(long)]
    len: usize,
    #[arg(long)]
    salt: u64,
}

#[derive(Args)]
struct ChurnArguments {
    #[arg(long)]
    master: String,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    keys: u64,
}

/// Tells the test; a test that has gone is not worth living for.
fn tell(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    let told = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if told.is_err() {
        std::process::exit(3);
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let tell_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell_panic(panic);
        std::process::abort();
    }));
    let ran = match Party::parse() {
        Party::Master(arguments) => master(&arguments).await,
        Party::Node(arguments) => node(arguments).await,
        Party::Put(arguments) => put(arguments).await,
        Party::Churn(arguments) => churn(arguments).await,
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&json!({"error": error.code().name(), "what": error.what()}));
            ExitCode::FAILURE
        }
    }
}

async fn told_to_stop() {
    let mut terminate = signal(SignalKind::terminate()).expect("the system knows SIGTERM");
    terminate.recv().await;
}

async fn master(arguments: &MasterArguments) -> Result<()> {
    let catalog = CatalogConfig {
        lease: Duration::from_millis(arguments.lease_ms),
        member_ttl: Duration::from_millis(arguments.ttl_ms),
        write_discard: Duration::from_millis(arguments.discard_ms),
        write_release: Duration::from_millis(arguments.release_ms),
        high_watermark: arguments.watermark,
        ..CatalogConfig::default()
    };
    let master = Master::start(MasterOptions {
        listen: arguments.listen,
        admin: None,
        state_dir: arguments.state_dir.clone(),
        catalog,
        clock: Arc::new(SystemClock::default()),
    })
    .await?;
    tell(&json!({"address": master.address().to_string()}));
    told_to_stop().await;
    master.stop().await;
    Ok(())
}

async fn node(arguments: NodeArguments) -> Result<()> {
    let node = Node::start(NodeOptions {
        master: arguments.master,
        dfs: DfsOptions {
            roots: arguments.dfs.into_iter().collect(),
            staging: ByteCount::mib(32),
            ..DfsOptions::default()
        },
        ssd: SsdOptions {
            directories: arguments.ssd.into_iter().collect(),
            file_bytes: ByteCount::mib(8),
            staging: ByteCount::mib(32),
            ..SsdOptions::default()
        },
        eager: true,
        listen: arguments.listen,
        advertise: arguments.advertise,
        admin: Some(ANY),
        segment_name: arguments.name,
        memory: MemoryOptions {
            dram: ByteCount::mib(arguments.mib),
            ..MemoryOptions::default()
        },
        session: Default::default(),
        limits: Default::default(),
        patience: Duration::from_secs(20),
    })
    .await?;
    let admin = node.admin().map(|at| at.to_string());
    tell(&json!({"address": node.listens_on().to_string(), "admin": admin}));
    told_to_stop().await;
    node.stop(Duration::from_millis(arguments.grace_ms)).await;
    Ok(())
}

async fn put(arguments: PutArguments) -> Result<()> {
    let store = Store::connect(ConnectOptions::new(arguments.master)).await?;
    let value = payload(arguments.len, arguments.salt);
    tell(&json!({"connected": true}));
    let stored = store
        .put_parts(&arguments.key, &[&value], &PutOptions::default())
        .await?;
    tell(&json!({"stored": format!("{stored:?}")}));
    Ok(())
}

/// Refusals are expected; a wrong byte ends the process with a panic.
async fn churn(arguments: ChurnArguments) -> Result<()> {
    let store = Store::connect(ConnectOptions::new(arguments.master)).await?;
    let mut dice = Dice::new(arguments.seed);
    for op in 1_u64.. {
        let number = dice.below(arguments.keys);
        let key = format!("k{number}");
        match dice.below(100) {
            0..55 => drop(store.put(&key, value_of(number)).await),
            55..85 => {
                if let Ok(Some(got)) = store.get(&key).await {
                    assert!(got == value_of(number), "{key} has a wrong value");
                }
            }
            85..95 => drop(store.remove(&key, Force::No).await),
            95..97 => drop(
                store
                    .remove_matching(&format!("{number}$"), Force::Yes)
                    .await,
            ),
            // More than any segment has: refused.
            _ => drop(store.put(&key, vec![0; 40 << 20]).await),
        }
        if op % 50 == 0 {
            tell(&json!({"ops": op}));
        }
    }
    Ok(())
}
