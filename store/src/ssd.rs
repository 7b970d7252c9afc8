//! The thread that serves the SSD directories of a store in this process.

use futures_util::future::{join, select};
use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tracing::warn;
use ziggurat_base::{Clock, Code, Error, MemberId, Result};
use ziggurat_master::Partition;
use ziggurat_node::{Keeper, Signal, ssd::Opened};

/// Drives a keeper on a thread of its own until it is dropped; then the directories are free for others.
pub(crate) struct Background {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) recovered: u64,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    _opened: Vec<Opened>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("keeper", &self.keeper)
            .finish_non_exhaustive()
    }
}

/// Whether the thread should end.
#[derive(Debug, Default)]
struct Stop {
    is_raised: AtomicBool,
    signal: Signal,
}

impl Stop {
    fn raise(&self) {
        self.is_raised.store(true, Ordering::Release);
        self.signal.raise();
    }

    async fn raised(&self) {
        let is_raised = || self.is_raised.load(Ordering::Acquire).then_some(());
        self.signal.until(is_raised).await;
    }
}

impl Background {
    /// Starts the thread.
    pub(crate) fn start(
        keeper: Arc<Keeper>,
        opened: Vec<Opened>,
        partition: Arc<Partition>,
        member: MemberId,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let stop = Arc::new(Stop::default());
        let (here, stopped) = (Arc::clone(&keeper), Arc::clone(&stop));
        let run = move || {
            let serve = async {
                let tell = async {
                    let error = here.tell(&*partition, member).await;
                    warn!(%error, "the SSD directories cannot tell what they hold any more");
                };
                join(here.work(&*clock), tell).await;
            };
            pollster::block_on(select(pin!(serve), pin!(stopped.raised())));
        };
        let thread = std::thread::Builder::new().name("ziggurat-ssd".into());
        let thread = thread.spawn(run).map_err(|error| {
            Error::new(
                Code::Internal,
                format!("cannot start the thread of the SSD directories: {error}"),
            )
        })?;
        Ok(Self {
            keeper,
            recovered: opened.iter().map(|one| one.found.records).sum(),
            stop,
            thread: Some(thread),
            _opened: opened,
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
