//! `ziggurat master`, `node` and `serve`: processes that run until they are told to stop.

use crate::{
    answer::Answer,
    config::{Beside, Config, Flags, ForMaster, ForNode, ForServe, Selection, Settings},
    logging::{self, Lines},
    screen::{Form, Screen},
};
use serde_json::{Value, json};
use std::io::Write;
use tokio::{
    runtime::{self, Runtime},
    signal::unix::{SignalKind, signal},
};
use ziggurat_base::{Code, Error, Result};
use ziggurat_store::{Master, Node, ServeOptions, Served};

const MASTER_EXAMPLES: &str = "\
Examples:
  ziggurat master --state-dir /var/lib/ziggurat
  ziggurat master --rpc-address 0.0.0.0:50051 --eviction-policy s3_fifo";

const NODE_EXAMPLES: &str = "\
Examples:
  ziggurat node --master head:50051 --dram 64GiB --data-address 10.0.0.7:50052
  ziggurat node --dram 8GiB --segments 2 --populate";

const SERVE_EXAMPLES: &str = "\
Examples:
  ziggurat serve
  ziggurat serve --dram 4GiB --lease 5s --json";

/// Run the master of a cluster: metadata, allocation, eviction; no payload
///
/// Serves nodes and clients on rpc-address, and /health, /metrics and /metrics/summary on admin-address. Without
/// --state-dir its era comes from the clock: do not start two masters within one second then.
#[derive(Debug, clap::Args)]
#[command(after_help = MASTER_EXAMPLES)]
pub(crate) struct MasterArguments {
    #[command(flatten)]
    common: Common<ForMaster>,
}

/// Run a node: give memory to a cluster and serve it
///
/// Serves clients on data-address, and /health, /metrics and /metrics/summary on node-admin-address.
#[derive(Debug, clap::Args)]
#[command(after_help = NODE_EXAMPLES)]
pub(crate) struct NodeArguments {
    #[command(flatten)]
    common: Common<ForNode>,
}

/// Run master and node in one process, for one machine
///
/// /health, /metrics and /metrics/summary of both are on admin-address.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    common: Common<ForServe>,
}

#[derive(Debug, clap::Args)]
struct Common<S: Selection> {
    #[command(flatten)]
    flags: Flags<S>,
    /// Write logs as JSON
    #[arg(long, help_heading = "Output")]
    log_json: bool,
}

impl<S: Selection> Common<S> {
    /// Reads the settings, begins to log, and makes the threads.
    fn prepare(&self, screen: &Screen) -> Result<(Settings, Runtime)> {
        let config = Config::load(&self.flags)?;
        config.remark_on(screen);
        logging::begin(if self.log_json {
            Lines::Json
        } else {
            Lines::People
        })?;
        let runtime = runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            Error::new(Code::Internal, format!("cannot start threads: {error}"))
        })?;
        Ok((config.settings, runtime))
    }
}

/// Tells whoever waits that the process serves, and where: a sentence for people, a line of JSON for programs.
fn announce(screen: &Screen, text: &str, json: &Value) -> Result<()> {
    let line = match screen.form {
        Form::People => text.to_owned(),
        Form::Json => json.to_string(),
    };
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    written.map_err(|error| {
        Error::new(
            Code::FileWriteFail,
            format!("write to standard output: {error}"),
        )
    })
}

/// Completes with the name of the signal that asks the process to stop.
async fn told_to_stop() -> Result<&'static str> {
    let failed = |error: std::io::Error| {
        Error::new(
            Code::Internal,
            format!("cannot listen for signals: {error}"),
        )
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}

fn stopped(signal: &str) -> Answer {
    Answer::done(
        format!("stopped by {signal}\n"),
        &json!({"stopped": signal}),
    )
}

pub(crate) fn master(arguments: &MasterArguments, screen: &Screen) -> Result<Answer> {
    let (settings, runtime) = arguments.common.prepare(screen)?;
    if settings.partition.state_dir.is_none() {
        screen.warn("without --state-dir the era comes from the clock; give one for production");
    }
    runtime.block_on(async {
        let options = settings.master.options(&settings.partition, None);
        let master = Master::start(options).await?;
        let admin = master.admin().map(|admin| admin.to_string());
        let text = format!(
            "master on {}, http on {}",
            master.address(),
            admin.as_deref().unwrap_or("nowhere")
        );
        announce(
            screen,
            &text,
            &json!({"rpc_address": master.address().to_string(), "admin_address": admin}),
        )?;
        let signal = told_to_stop().await?;
        master.stop().await;
        Ok(stopped(signal))
    })
}

pub(crate) fn node(arguments: &NodeArguments, screen: &Screen) -> Result<Answer> {
    let (settings, runtime) = arguments.common.prepare(screen)?;
    runtime.block_on(async {
        let options = settings.node.options(
            &settings.cluster,
            &settings.shared,
            Beside::Nothing(&settings.watch),
        );
        let name = options.segment_name.clone();
        let node = Node::start(options).await?;
        let admin = node.admin().map(|admin| admin.to_string());
        let text = format!(
            "node {name} on {}, http on {}, {} of memory",
            node.address(),
            admin.as_deref().unwrap_or("nowhere"),
            settings.node.dram
        );
        let json = json!({
            "data_address": node.address(),
            "listen_address": node.listens_on().to_string(),
            "admin_address": admin,
            "segment_name": name,
            "member": node.member().0,
        });
        announce(screen, &text, &json)?;
        let signal = told_to_stop().await?;
        node.stop(settings.node.unmount_grace).await;
        Ok(stopped(signal))
    })
}

pub(crate) fn serve(arguments: &ServeArguments, screen: &Screen) -> Result<Answer> {
    let (settings, runtime) = arguments.common.prepare(screen)?;
    runtime.block_on(async {
        let options = ServeOptions {
            master: settings
                .master
                .options(&settings.partition, Some(&settings.node)),
            node: settings.node.options(
                &settings.cluster,
                &settings.shared,
                Beside::Partition(&settings.partition),
            ),
        };
        let served = Served::start(options).await?;
        let (rpc, data) = (
            served.master.address().to_string(),
            served.node.address().to_owned(),
        );
        let admin = served.master.admin().map(|admin| admin.to_string());
        let text = format!(
            "serving on {rpc}, data on {data}, http on {}, {} of memory",
            admin.as_deref().unwrap_or("nowhere"),
            settings.node.dram
        );
        announce(
            screen,
            &text,
            &json!({"rpc_address": rpc, "data_address": data, "admin_address": admin}),
        )?;
        let signal = told_to_stop().await?;
        served.stop().await;
        Ok(stopped(signal))
    })
}
