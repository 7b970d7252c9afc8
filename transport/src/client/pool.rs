//! The connections to one address: a bounded number, handed out in the order of asking.

use super::{PeerOptions, link::Link};
use crate::{hello::Role, socket::SocketOptions};
use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout, timeout_at},
};
use ziggurat_base::{Code, Error, Result};

/// Leave to use one connection.
pub(super) type Permit<'a> = SemaphorePermit<'a>;

#[derive(Debug)]
pub(super) struct Pool {
    address: Box<str>,
    role: Role,
    socket: SocketOptions,
    connect_limit: Duration,
    /// One permit for each connection that may exist; idle ones have none.
    permits: Semaphore,
    /// The most recently used is last and goes out first.
    idle: Mutex<Vec<Link>>,
}

impl Pool {
    pub(super) fn new(address: &str, options: &PeerOptions) -> Self {
        Self {
            address: address.into(),
            role: options.role,
            socket: options.socket.clone(),
            connect_limit: options.connect_limit,
            permits: Semaphore::new(options.connections_max.max(1)),
            idle: Mutex::default(),
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Waits in line for leave to use a connection.
    ///
    /// # Errors
    /// [`Code::RpcTimeout`] when the deadline comes first.
    pub(super) async fn enter(&self, until: Instant) -> Result<Permit<'_>> {
        if let Some(permit) = self.enter_now() {
            return Ok(permit);
        }
        let permit = timeout_at(until, self.permits.acquire()).await;
        permit
            .ok()
            .and_then(std::result::Result::ok)
            .ok_or_else(|| {
                let what = format!("all connections to {} were busy for too long", self.address);
                Error::new(Code::RpcTimeout, what)
            })
    }

    /// Leave to use a connection, if nobody has to wait for it.
    pub(super) fn enter_now(&self) -> Option<Permit<'_>> {
        self.permits.try_acquire().ok()
    }

    /// An idle connection that does not look closed.
    pub(super) fn idle(&self) -> Option<Link> {
        let mut idle = self.lock();
        while let Some(link) = idle.pop() {
            if link.is_quiet() {
                return Some(link);
            }
        }
        None
    }

    /// A fresh connection.
    ///
    /// # Errors
    /// [`Code::RpcFail`], [`Code::RpcTimeout`], [`Code::InvalidVersion`].
    pub(super) async fn dial(&self) -> Result<Link> {
        let dial = async {
            let stream = self.socket.connect(&self.address).await.map_err(|e| {
                let what = format!("cannot connect to {}: {e}", self.address);
                Error::new(Code::RpcFail, what)
            })?;
            Link::greet(stream, &self.address, self.role).await
        };
        timeout(self.connect_limit, dial).await.unwrap_or_else(|_| {
            let what = format!("{} does not answer", self.address);
            Err(Error::new(Code::RpcTimeout, what))
        })
    }

    /// Puts a connection back on which nothing is under way.
    pub(super) fn give_back(&self, link: Link) {
        self.lock().push(link);
    }

    /// Closes all idle connections.
    pub(super) fn forget_idle(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle
            .lock()
            .expect("nobody panics between taking and putting back")
    }
}
