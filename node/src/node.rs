//! The node as a process owns it: start it, ask it, stop it.

use crate::{
    admin::{Facts, View},
    clock::Uptime,
    duty::{Duty, Post},
    host::NodeHost,
    keeper::Keeper,
    memory::MemoryOptions,
    ssd::{Opened, SsdOptions},
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
    task::JoinHandle,
};
use tracing::{error, info, warn};
use ziggurat_base::{Clock, Code, Error, MemberId, Result};
use ziggurat_dfs::{Carriers, Options as DfsOptions, Root};
use ziggurat_proto::{
    SessionOptions,
    admin::{self, Board, Part, bind},
};
use ziggurat_tiers::{dram::DramTier, ssd::Stats as TierStats};
use ziggurat_transport::server::{Limits, Server};

/// How long a node that stops works at what is on its way to SSD.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// What a node should be.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Where the master is, `host:port`.
    pub master: String,
    /// Where to serve data; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where people and their monitors reach it over HTTP; `None` for nowhere.
    pub admin: Option<SocketAddr>,
    /// Where clients reach this node, `host:port`; the listening address when `None`.
    pub advertise: Option<String>,
    /// Name of the segments, unique in the cluster; a number is appended when there are several.
    pub segment_name: String,
    /// The memory.
    pub memory: MemoryOptions,
    /// Directories on SSD.
    pub ssd: SsdOptions,
    /// Roots of shared filesystems whose shard files the node carries.
    pub dfs: DfsOptions,
    /// Whether objects are taken over to SSD as soon as they are readable, and not only when the master asks for it.
    pub eager: bool,
    /// Bounds of the conversation with the master.
    pub session: SessionOptions,
    /// Bounds of the data server.
    pub limits: Limits,
    /// How long the first contact with the master may take; afterwards a node waits for it for ever.
    pub patience: Duration,
}

/// A running node. Dropping it ends it at once, as a crash would; [`Node::stop`] says goodbye.
#[derive(Debug)]
pub struct Node {
    tier: Arc<DramTier>,
    keeper: Arc<Keeper>,
    server: Server,
    bound: SocketAddr,
    admin: Option<SocketAddr>,
    view: Arc<View>,
    address: String,
    post: watch::Receiver<Post>,
    stop: Option<oneshot::Sender<Duration>>,
    duty: JoinHandle<()>,
    serving: JoinHandle<()>,
    keeping: JoinHandle<()>,
    showing: Option<JoinHandle<()>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.duty.abort();
        self.serving.abort();
        self.keeping.abort();
        if let Some(showing) = &self.showing {
            showing.abort();
        }
    }
}

impl Node {
    /// Maps the memory, serves it, joins the master and mounts every segment.
    ///
    /// # Errors
    /// Whatever keeps it from any of these: the port is in use, the memory is not there, the master does not answer
    /// within the patience, a segment's name is taken.
    pub async fn start(options: NodeOptions) -> Result<Self> {
        let several = options.memory.segments > 1;
        let name = |number: u16| match several {
            true => format!("{}-{number}", options.segment_name),
            false => options.segment_name.clone(),
        };
        let regions = options.memory.map(name)?;
        let named = regions
            .into_iter()
            .enumerate()
            .map(|(n, region)| (name(n as u16).into(), region))
            .collect();
        let admin = match options.admin {
            Some(address) => Some(bind(address, "node-admin-address").await?),
            None => None,
        };
        let (listener, bound) = listen(&options)?;
        let address = options
            .advertise
            .clone()
            .unwrap_or_else(|| bound.to_string());
        let tier = Arc::new(DramTier::with_tokens(MemberId(0), Arc::new(Uptime::new())));
        let (keeper, facts, keeping) = keep(&options, &tier).await?;
        let carriers = Arc::new(Carriers::new(&open_roots(&options.dfs).await?));
        let host = NodeHost::new(tier.clone(), keeper.clone());
        let server = Server::new(Arc::new(host), options.limits.clone());
        let serving = {
            let server = server.clone();
            tokio::spawn(async move { server.run(listener, std::future::pending()).await })
        };
        let (stop, stopped) = oneshot::channel();
        let (posted, post) = watch::channel(Post::default());
        let duty = Duty::new(
            &options,
            address.clone(),
            tier.clone(),
            (keeper.clone(), carriers),
            named,
            posted,
        );
        let view = Arc::new(View {
            tier: tier.clone(),
            keeper: keeper.clone(),
            server: server.clone(),
            post: post.clone(),
            segments: (0..options.memory.segments).map(name).collect(),
            facts,
        });
        let (admin, showing) = show(admin, &view).unzip();
        let node = Self {
            tier,
            keeper,
            server,
            bound,
            admin,
            view,
            address,
            post: post.clone(),
            stop: Some(stop),
            duty: tokio::spawn(duty.run(stopped)),
            serving,
            keeping,
            showing,
        };
        node.mounted(post, &options).await
    }

    /// Waits for the first contact with the master; a node that does not come that far ends.
    async fn mounted(
        mut self,
        mut post: watch::Receiver<Post>,
        options: &NodeOptions,
    ) -> Result<Self> {
        let mounted = post.wait_for(|post| post.mounted || post.refused.is_some());
        match tokio::time::timeout(options.patience, mounted).await {
            Ok(Ok(post)) => match &post.refused {
                Some(error) => Err(error.clone()),
                None => {
                    drop(post);
                    Ok(self)
                }
            },
            Ok(Err(_)) => Err(Error::new(
                Code::Internal,
                "the node ended before it had mounted",
            )),
            Err(_) => {
                self.stop = None;
                let last = self.post.borrow().trouble.clone();
                let what = format!(
                    "the master at {} did not take the node within {}",
                    options.master,
                    ziggurat_base::unit::human_span(options.patience)
                );
                Err(last.map_or_else(
                    || Error::new(Code::RpcTimeout, what.clone()),
                    |e| e.while_doing(&what),
                ))
            }
        }
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it listens: what `listen` asked for, with the port that port 0 became.
    #[must_use]
    pub fn listens_on(&self) -> SocketAddr {
        self.bound
    }

    /// Where its HTTP is.
    #[must_use]
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// What it shows over HTTP, for an endpoint that its process has already.
    #[must_use]
    pub fn part(&self) -> Arc<dyn Part> {
        self.view.clone()
    }

    /// Its incarnation as the master knows it now.
    #[must_use]
    pub fn member(&self) -> MemberId {
        self.tier.member()
    }

    /// Its memory.
    #[must_use]
    pub fn tier(&self) -> &Arc<DramTier> {
        &self.tier
    }

    /// What serves its SSD directories.
    #[must_use]
    pub fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    /// Its SSD directories in numbers, in the order in which they were given.
    #[must_use]
    pub fn ssd(&self) -> Vec<TierStats> {
        self.keeper.tiers().map(|tier| tier.stats()).collect()
    }

    /// What its data server has seen.
    #[must_use]
    pub fn counts(&self) -> ziggurat_transport::counts::Counts {
        self.server.counts()
    }

    /// Takes over to SSD what waits for it, unmounts with a grace period in which what is there stays readable, then leaves.
    pub async fn stop(mut self, grace: Duration) {
        let drained = tokio::time::timeout(DRAIN_MAX, self.keeper.drained()).await;
        if drained.is_err() {
            warn!("not everything in memory was taken over to SSD, and told, within {DRAIN_MAX:?}");
        }
        if let Some(stop) = self.stop.take() {
            let _ended_before = stop.send(grace);
        }
        let _ended = (&mut self.duty).await;
        self.keeper.seal().await;
    }
}

/// Listens for data requests; where that is, with the port that port 0 became.
fn listen(options: &NodeOptions) -> Result<(TcpListener, SocketAddr)> {
    let listener = options.limits.socket.listen(options.listen)?;
    let bound = listener.local_addr().map_err(|error| {
        Error::new(
            Code::Internal,
            format!("the listening socket has no address: {error}"),
        )
    })?;
    Ok((listener, bound))
}

/// Opens the SSD directories on a thread that may block: recovery reads what is there.
async fn open_ssd(options: &NodeOptions, clock: &Arc<dyn Clock>) -> Result<Vec<Opened>> {
    let (ssd, clock) = (options.ssd.clone(), Arc::clone(clock));
    let prefix = format!("{}-ssd", options.segment_name);
    let opening = tokio::task::spawn_blocking(move || ssd.open(&prefix, &clock));
    opening.await.unwrap_or_else(|error| {
        Err(Error::new(
            Code::Internal,
            format!("opening the SSD directories ended early: {error}"),
        ))
    })
}

/// Opens the roots of shared filesystems on a thread that may block.
async fn open_roots(options: &DfsOptions) -> Result<Vec<Root>> {
    let options = options.clone();
    let opening = tokio::task::spawn_blocking(move || options.open());
    opening.await.unwrap_or_else(|error| {
        let what = format!("opening the roots ended early: {error}");
        Err(Error::new(Code::Internal, what))
    })
}

/// Opens the SSD directories and starts the task that serves them.
async fn keep(
    options: &NodeOptions,
    tier: &Arc<DramTier>,
) -> Result<(Arc<Keeper>, Vec<Facts>, JoinHandle<()>)> {
    let clock: Arc<dyn Clock> = Arc::new(Uptime::new());
    let opened = open_ssd(options, &clock).await?;
    let directories = opened.iter().map(|one| one.directory.clone()).collect();
    let facts = opened.iter().map(Facts::of).collect();
    let keeper = Arc::new(Keeper::new(tier.clone(), directories, options.eager));
    let working = keeper.clone();
    let keeping = tokio::spawn(async move {
        working.work(&*clock).await;
        drop(opened);
    });
    Ok((keeper, facts, keeping))
}

/// Serves HTTP about a node, where it is to be served.
fn show(
    admin: Option<(TcpListener, SocketAddr)>,
    view: &Arc<View>,
) -> Option<(SocketAddr, JoinHandle<()>)> {
    let (listener, address) = admin?;
    let board = Arc::new(Board::default());
    board.add(view.clone());
    info!(%address, "health and metrics are served");
    let showing = tokio::spawn(async move {
        let serving = admin::serve(listener, board, std::future::pending());
        if let Err(failure) = serving.await {
            error!(%failure, "the admin server has ended");
        }
    });
    Some((address, showing))
}
