//! The near end of data connections: a pool of connections to one address, and batches of writes and reads over them.
//!
//! An operation takes a connection out of the pool, or dials one; it sends its whole batch and receives the answers in
//! its own task at the same time (neither side may wait for the other to stop talking), straight from and into the
//! caller's memory; then it gives the connection back. A future that is dropped half-way takes its connection with it,
//! so nothing can land in that memory later. Large batches are cut over several connections.
//!
//! Refused here: choosing replicas, and believing bytes. What is promised: an answer per operation within its deadline.

mod link;
mod pool;
mod reads;
mod stripe;
mod writes;

use crate::{hello::Role, socket::SocketOptions};
use pool::{Permit, Pool};
use reads::Reads;
use std::{future::Future, pin::Pin, task::Poll, time::Duration};
use tokio::time::{Instant, timeout_at};
use writes::Writes;
use ziggurat_base::{ByteCount, Code, Crc32, Error, Result};
use ziggurat_engine::{
    command::Answer,
    port::{ReadOp, ReadSums, WriteOp},
};

/// How to talk to peers.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Who we are.
    pub role: Role,
    /// Connections to one peer; whoever wants a further one waits in line.
    pub connections_max: usize,
    /// Connections that one batch may use at the same time. They share the caller's task: over the loopback of a machine
    /// with two cores one is as fast as two or four; raise it where a single connection does not fill the network.
    pub lanes_max: usize,
    /// A batch uses one connection for each so many bytes. Objects up to this size are never cut.
    pub stripe: ByteCount,
    /// How long it may take to connect and to be greeted.
    pub connect_limit: Duration,
    /// How long a batch may take, whatever its size…
    pub answer_limit: Duration,
    /// …and so much more time as its bytes take at this rate per second.
    pub rate_min: ByteCount,
    /// Options of the sockets.
    pub socket: SocketOptions,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            role: Role::Client,
            connections_max: 8,
            lanes_max: 1,
            stripe: ByteCount::mib(4),
            connect_limit: Duration::from_secs(1),
            answer_limit: Duration::from_secs(5),
            rate_min: ByteCount(100_000_000),
            socket: SocketOptions::default(),
        }
    }
}

impl PeerOptions {
    fn time_for(&self, bytes: u64) -> Duration {
        let seconds = bytes as f64 / self.rate_min.0.max(1) as f64;
        self.answer_limit + Duration::from_secs_f64(seconds)
    }

    fn lanes_for(&self, bytes: u64) -> usize {
        let wanted = usize::try_from(bytes / self.stripe.0.max(1)).unwrap_or(usize::MAX);
        wanted.clamp(1, self.lanes_max.max(1))
    }
}

/// A batch on its way over one connection.
trait Work: Send {
    /// Sends everything and receives the answers.
    fn exchange(&mut self, link: &mut link::Link) -> impl Future<Output = Result<()>> + Send;
    /// Whether no answer has come yet.
    fn is_unanswered(&self) -> bool;
    /// Gives `error` to whatever has no answer.
    fn fail(&mut self, error: &Error);
}

/// One address and the connections to it.
#[derive(Debug)]
pub struct Peer {
    options: PeerOptions,
    pool: Pool,
}

impl Peer {
    /// A peer at `host:port` that is not connected yet.
    #[must_use]
    pub fn new(address: &str, options: PeerOptions) -> Self {
        Self {
            pool: Pool::new(address, &options),
            options,
        }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> &str {
        self.pool.address()
    }

    /// Writes whole payloads; answers with the sum of each. The far end has compared it with what arrived.
    ///
    /// # Errors
    /// Per operation: those of [`ziggurat_engine::port::Host`] with the peer's words, `ChecksumMismatch` when the bytes
    /// were damaged on the way, and of the whole connection `RpcFail` (none), `TransferFail` (broken half-way),
    /// `RpcTimeout`, `InvalidVersion`.
    pub async fn write(&self, ops: &[WriteOp<'_>]) -> Vec<Answer<Crc32>> {
        let mut answers: Vec<_> = ops.iter().map(writes::check).collect();
        let lens = ops.iter().zip(&answers);
        let lens: Vec<_> = lens.map(|(op, a)| a.is_ok().then_some(op.len)).collect();
        let (permits, deadline) = match self.enter(&lens).await {
            Ok(entered) => entered,
            Err(error) => return refuse(answers, &error),
        };
        let plan = stripe::plan(&lens, permits.len(), self.options.stripe.0);
        let mut lanes: Vec<_> = plan
            .into_iter()
            .map(|cuts| Writes::new(ops, cuts))
            .collect();
        self.carry_all(&mut lanes, permits, deadline).await;
        lanes.into_iter().for_each(|lane| lane.report(&mut answers));
        answers
    }

    /// Reads ranges into the callers' buffers; answers with the sums of what arrived. Nothing is proved yet.
    ///
    /// # Errors
    /// As [`Peer::write`]; `InvalidParams` for a range that does not start and end with chunks.
    pub async fn read(&self, ops: &mut [ReadOp<'_>]) -> Vec<Answer<ReadSums>> {
        let mut answers: Vec<_> = ops.iter().map(reads::check).collect();
        let lens = ops.iter().zip(&answers);
        let lens: Vec<_> = lens
            .map(|(op, a)| a.is_ok().then_some(op.into.len() as u64))
            .collect();
        let (permits, deadline) = match self.enter(&lens).await {
            Ok(entered) => entered,
            Err(error) => return refuse(answers, &error),
        };
        let plan = stripe::plan(&lens, permits.len(), self.options.stripe.0);
        let mut lanes = reads::lanes(ops, plan);
        self.carry_all(&mut lanes, permits, deadline).await;
        lanes
            .into_iter()
            .for_each(|lane: Reads<'_>| lane.report(&mut answers));
        answers
    }

    /// Waits in line for a connection, takes more if they are free, and sets the deadline.
    async fn enter(&self, lens: &[Option<u64>]) -> Result<(Vec<Permit<'_>>, Instant)> {
        let total = lens.iter().flatten().sum();
        let deadline = Instant::now() + self.options.time_for(total);
        let mut permits = Vec::with_capacity(1);
        permits.push(self.pool.enter(deadline).await?);
        let spare = std::iter::from_fn(|| self.pool.enter_now());
        permits.extend(spare.take(self.options.lanes_for(total) - 1));
        Ok((permits, deadline))
    }

    /// Carries every lane over its own connection, all in this task.
    async fn carry_all<W: Work>(&self, lanes: &mut [W], permits: Vec<Permit<'_>>, until: Instant) {
        if let [lane] = lanes {
            self.carry(lane, until).await;
            return drop(permits);
        }
        let mut jobs: Vec<Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>>> = Vec::new();
        for (lane, permit) in lanes.iter_mut().zip(permits) {
            jobs.push(Some(Box::pin(async move {
                self.carry(lane, until).await;
                drop(permit);
            })));
        }
        std::future::poll_fn(|context| {
            for job in &mut jobs {
                let done = job
                    .as_mut()
                    .is_some_and(|j| j.as_mut().poll(context).is_ready());
                if done {
                    *job = None;
                }
            }
            if jobs.iter().all(Option::is_none) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }

    async fn carry<W: Work>(&self, work: &mut W, until: Instant) {
        let error = match timeout_at(until, self.attempt(work)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => {
                let what = format!("{} did not answer in time", self.address());
                Error::new(Code::RpcTimeout, what)
            }
        };
        work.fail(&error);
    }

    /// Over a connection from the pool; once more over a fresh one when the pooled one turns out to be dead.
    async fn attempt<W: Work>(&self, work: &mut W) -> Result<()> {
        if let Some(mut link) = self.pool.idle() {
            match work.exchange(&mut link).await {
                Ok(()) => {
                    self.pool.give_back(link);
                    return Ok(());
                }
                Err(error) if !work.is_unanswered() => return Err(error),
                // Closed while it was idle, and probably all others too. Every request names its version, so asking
                // twice is harmless.
                Err(_) => self.pool.forget_idle(),
            }
        }
        let mut link = self.pool.dial().await?;
        work.exchange(&mut link).await?;
        self.pool.give_back(link);
        Ok(())
    }
}

/// `error` for all that were not refused on their own.
fn refuse<T>(answers: Vec<Answer<T>>, error: &Error) -> Vec<Answer<T>> {
    let refused = answers.into_iter();
    refused.map(|a| a.and(Err(error.clone()))).collect()
}
