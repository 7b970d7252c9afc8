//! Serves the memory of a host: admits connections, counts, and cuts whoever breaks a limit.
//!
//! Owns the connections, bounded in number, each a task with two buffers of a fixed size. A connection is served in
//! order; answers are gathered while requests come in. Whatever one peer does costs its own connection only.

mod ahead;
mod ask;
mod connection;
mod read;
mod write;

use crate::{
    counts::{Counters, Counts, Fault, add},
    hello::Role,
    socket::SocketOptions,
};
use connection::{Closed, Connection};
use std::{
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use ziggurat_engine::port::Host;

/// What a server permits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at the same time; a further one is closed at once.
    pub connections_max: usize,
    /// A transfer that makes no progress for so long is cut, up to twice as long after its last byte.
    pub stall_limit: Duration,
    /// A connection without requests for so long is closed, up to twice as long after the last.
    pub idle_limit: Duration,
    /// Options of accepted sockets.
    pub socket: SocketOptions,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            stall_limit: Duration::from_secs(10),
            idle_limit: Duration::from_secs(600),
            socket: SocketOptions::default(),
        }
    }
}

/// How long to wait when the system cannot give another socket.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Arc<dyn Host>,
    role: Role,
    limits: Limits,
    counters: Counters,
}

impl Server {
    /// A server of `host`'s memory that has no listener yet.
    #[must_use]
    pub fn new(host: Arc<dyn Host>, limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                host,
                role: Role::Node,
                limits,
                counters: Counters::default(),
            }),
        }
    }

    /// What it has seen until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counters.snapshot()
    }

    /// Accepts and serves connections until `shutdown` completes; then all of them are cut. So they are when the future
    /// is dropped.
    pub async fn run(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                Some(_) = tasks.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(&mut tasks, stream),
                    // Out of descriptors or memory: connections that end will give some back.
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
            }
        }
    }

    fn admit(&self, tasks: &mut JoinSet<()>, stream: TcpStream) {
        if tasks.len() >= self.shared.limits.connections_max {
            self.shared.counters.fault(Fault::Crowded);
            return;
        }
        tasks.spawn(serve(Arc::clone(&self.shared), stream));
    }
}

/// Counts a connection as open for as long as it lives.
struct Open<'a>(&'a Counters);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    add(&shared.counters.connections, 1);
    let _open = Open(&shared.counters);
    let connection = match shared.limits.socket.apply(&stream) {
        Ok(()) => Connection::new(&shared, stream),
        Err(_) => return shared.counters.fault(Fault::Broken),
    };
    if let Err(Closed::By(fault)) = connection.run().await {
        shared.counters.fault(fault);
    }
}
