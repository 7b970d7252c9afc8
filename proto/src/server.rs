//! The server's side: one port for our own frames and for the seed's gRPC service, told apart by the first four bytes.
//!
//! Requests of a connection are answered in order. A connection that breaks, or is closed because it sent nonsense, costs
//! nobody else anything, and does not end the life of its members: only their time to live does.

mod connection;
mod dispatch;
mod watch;

use crate::{
    counts::{CloseReason, Counts},
    partition::Partition,
    seed::{self, Peer, SeedBackend},
};
use connection::Connection;
use std::{fmt, future::Future, io, sync::Arc, time::Duration};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
    sync::watch as flag,
    task::JoinSet,
    time::{sleep, timeout},
};
use ziggurat_base::frame::MAGIC;

/// Pause after the system refused to accept a connection, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time; one more is closed at once.
    pub connections: usize,
    /// Longest wait for the hello of a new connection.
    pub hello_within: Duration,
    /// Longest wait for a peer that does not take its answers.
    pub taken_within: Duration,
    /// How long connections may finish what they have begun after the shutdown.
    pub finish_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            hello_within: Duration::from_secs(5),
            taken_within: Duration::from_secs(10),
            finish_within: Duration::from_secs(2),
        }
    }
}

/// What is served, and within which bounds.
#[derive(Clone)]
pub struct Service {
    /// The partition behind our own frames.
    pub partition: Arc<dyn Partition>,
    /// What is behind the seed's gRPC service; without it such connections are closed.
    pub seed: Option<Arc<dyn SeedBackend>>,
    /// The bounds.
    pub limits: Limits,
    /// Where to count.
    pub counts: Arc<Counts>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

impl Service {
    /// Our own frames only, within default bounds.
    #[must_use]
    pub fn new(partition: Arc<dyn Partition>) -> Self {
        Self {
            partition,
            seed: None,
            limits: Limits::default(),
            counts: Arc::default(),
        }
    }

    /// Accepts and serves until `shutdown` completes, then lets connections finish.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) {
        let (stop, stopped) = flag::channel(false);
        let mut accepted_count = 0;
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            let stream = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(_) => {
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            while connections.try_join_next().is_some() {}
            if connections.len() >= self.limits.connections {
                self.counts.close(CloseReason::TooMany);
                continue;
            }
            let (service, stopped) = (self.clone(), stopped.clone());
            let peer = Peer(accepted_count);
            accepted_count += 1;
            connections.spawn(async move { service.run(stream, peer, stopped).await });
        }
        stop.send_replace(true);
        let finished = async { while connections.join_next().await.is_some() {} };
        // Whoever has not finished by then is cut off with the set.
        let _ = timeout(self.limits.finish_within, finished).await;
    }

    async fn run(&self, mut stream: TcpStream, peer: Peer, stopped: flag::Receiver<bool>) {
        let _open = self.counts.open();
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let ended = match timeout(self.limits.hello_within, preface(&mut stream)).await {
            Ok(Ok(Preface::Frames)) => Connection::new(self, stream, stopped).run().await,
            Ok(Ok(Preface::Http2)) => match &self.seed {
                Some(seed) => {
                    let counts = self.counts.clone();
                    seed::serve(stream, seed.clone(), peer, counts, stopped).await;
                    Ok(())
                }
                None => Err(CloseReason::NoSeed),
            },
            Ok(Ok(Preface::Unknown)) => Err(CloseReason::Preface),
            // It left before it said anything.
            Ok(Err(_)) => Ok(()),
            Err(_) => Err(CloseReason::Silent),
        };
        if let Err(reason) = ended {
            self.counts.close(reason);
        }
    }
}

/// How a connection begins.
enum Preface {
    Frames,
    Http2,
    Unknown,
}

/// Reads as much of a new connection as tells the protocols apart; the HTTP/2 preface whole, so that what comes later needs
/// no patience.
async fn preface(stream: &mut TcpStream) -> io::Result<Preface> {
    let mut first = [0; seed::PREFACE.len()];
    let (magic, rest) = first.split_at_mut(MAGIC.to_le_bytes().len());
    stream.read_exact(magic).await?;
    if magic == MAGIC.to_le_bytes() {
        return Ok(Preface::Frames);
    }
    if !seed::PREFACE.starts_with(magic) {
        return Ok(Preface::Unknown);
    }
    stream.read_exact(rest).await?;
    if first == seed::PREFACE {
        Ok(Preface::Http2)
    } else {
        Ok(Preface::Unknown)
    }
}
