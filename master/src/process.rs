//! The master as a process owns it: start it, ask it, stop it.

use crate::{EraStore, Partition, Seed, admin::View};
use std::{net::SocketAddr, path::PathBuf, sync::Arc};
use tokio::{net::TcpListener, sync::watch, task::JoinSet, time::sleep};
use tracing::{error, info};
use ziggurat_base::{Clock, Result};
use ziggurat_engine::catalog::Config;
use ziggurat_proto::{
    Service,
    admin::{self, Board, Part, bind},
    counts::Counts,
};

/// What a master should be.
#[derive(Clone)]
pub struct MasterOptions {
    /// Where members and clients reach it; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where people and their monitors reach it over HTTP; `None` for nowhere.
    pub admin: Option<SocketAddr>,
    /// Where its era is kept.
    pub state_dir: Option<PathBuf>,
    /// Tunables of the partition.
    pub catalog: Config,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// A running master. Dropping it ends it at once.
#[derive(Debug)]
pub struct Master {
    partition: Arc<Partition>,
    counts: Arc<Counts>,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    board: Arc<Board>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Master {
    /// Begins a term with an empty catalog and serves it.
    ///
    /// # Errors
    /// `ConfigInvalid` when a port is in use or an address is not this machine's, `PersistentFail` when the state directory
    /// cannot be used.
    pub async fn start(options: MasterOptions) -> Result<Self> {
        let (listener, address) = bind(options.listen, "rpc-address").await?;
        let admin = match options.admin {
            Some(admin) => Some(bind(admin, "admin-address").await?),
            None => None,
        };
        let eras = EraStore::open(options.state_dir.as_deref())?;
        let partition = Partition::open(options.catalog, options.clock, eras)?;
        partition.expect_memory();
        let (stop, stopped) = watch::channel(false);
        let counts: Arc<Counts> = Arc::default();
        let mut tasks = JoinSet::new();
        let seed = Seed::new(partition.clone());
        let service = Service {
            counts: counts.clone(),
            seed: Some(seed.clone()),
            ..Service::new(partition.clone())
        };
        tasks.spawn(service.serve(listener, until(stopped.clone())));
        tasks.spawn(keep_time(partition.clone(), stopped.clone()));
        let board = Arc::new(Board::default());
        board.add(Arc::new(View {
            partition: partition.clone(),
            seed,
            counts: counts.clone(),
        }));
        let admin = admin.map(|(listener, address)| {
            tasks.spawn(show(listener, board.clone(), stopped));
            address
        });
        info!(%address, admin = ?admin, era = partition.era().0, "the master serves");
        Ok(Self {
            partition,
            counts,
            address,
            admin,
            board,
            stop,
            tasks,
        })
    }

    /// Shows another part of this process beside the master over HTTP.
    pub fn show_beside(&self, part: Arc<dyn Part>) {
        self.board.add(part);
    }

    /// Its partition.
    #[must_use]
    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// What its server has seen.
    #[must_use]
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Where members and clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its HTTP is.
    #[must_use]
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Ends it, letting connections finish what they have begun.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    let _ended_with_its_sender = stopped.wait_for(|stopped| *stopped).await;
}

async fn show(listener: TcpListener, board: Arc<Board>, stopped: watch::Receiver<bool>) {
    if let Err(failure) = admin::serve(listener, board, until(stopped)).await {
        error!(%failure, "the admin server has ended");
    }
}

/// Moves what time alone moves when nobody calls.
async fn keep_time(partition: Arc<Partition>, stopped: watch::Receiver<bool>) {
    let ticking = async {
        loop {
            let wait = partition.tick();
            sleep(wait.max(std::time::Duration::from_millis(1))).await;
        }
    };
    tokio::select! {
        () = ticking => {}
        () = until(stopped) => {}
    }
}
