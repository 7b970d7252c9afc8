//! The client's side of one connection: a metadata partition over TCP.
//!
//! A caller writes its own request and one task hands out the answers, so that a round trip costs one wake-up here. What is
//! in flight is bounded by a window; callers beyond it wait. A connection that breaks fails everything in flight and stays
//! broken: whoever owns the session makes a new one.

mod holds;
mod member;
mod metadata;
mod outbox;
mod slots;
mod watches;

use crate::{
    convert::{broken, member as convert, order},
    frames::{self, Frame, Inbox},
    hello::{Hello, Welcome},
    lock::lock,
    wire,
};
use holds::Holds;
use outbox::{Outbox, Sent};
use prost::Message;
use slots::{Reply, Slots};
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, Semaphore, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use watches::Watches;
use wire::{answer::Outcome, request::Call};
use ziggurat_base::{
    Code, Error,
    frame::{Header, Kind},
};
use ziggurat_engine::command::{Answer, Hold};

/// Bounds of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Requests in flight; callers beyond it wait. At most 65,536.
    pub window: usize,
    /// Longest wait for an answer, from the call on.
    pub deadline: Duration,
    /// Longest wait for the connection and its welcome.
    pub connect_deadline: Duration,
    /// Guards that wait to be given back; beyond it the oldest is dropped and counted (its lease ends by time).
    pub holds_max: usize,
    /// Guards are given back after this time at the latest when nothing else is sent.
    pub give_back_after: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            window: 1024,
            deadline: Duration::from_secs(5),
            connect_deadline: Duration::from_secs(5),
            holds_max: 16 << 10,
            give_back_after: Duration::from_millis(100),
        }
    }
}

/// A connection to a metadata partition. Dropping it closes the connection.
pub struct Session {
    link: Arc<Link>,
    welcome: Welcome,
    tasks: [JoinHandle<()>; 3],
}

/// What the session and its tasks share.
struct Link {
    address: String,
    options: SessionOptions,
    stream: OwnedWriteHalf,
    outbox: Mutex<Outbox>,
    /// Rings when the outbox holds bytes that the socket did not take.
    left_over: Notify,
    slots: Slots,
    window: Semaphore,
    holds: Holds,
    holds_dropped: AtomicU64,
    watches: Watches,
    closed: watch::Sender<Option<Error>>,
}

impl Session {
    /// Connects and exchanges hellos.
    ///
    /// # Errors
    /// `RpcFail` and `RpcTimeout` when there is no partition at `address`; `InvalidVersion` when it speaks other versions;
    /// whatever the partition says to the tenant's name.
    pub async fn connect(
        address: &str,
        hello: &Hello,
        options: SessionOptions,
    ) -> Result<Self, Error> {
        match timeout(options.connect_deadline, open(address, hello)).await {
            Ok(opened) => Ok(Self::start(address, opened?, options)),
            Err(_) => {
                let what = format!(
                    "no welcome from {address} within {:?}",
                    options.connect_deadline
                );
                Err(Error::new(Code::RpcTimeout, what))
            }
        }
    }

    fn start(address: &str, opened: Opened, options: SessionOptions) -> Self {
        let link = Arc::new(Link {
            address: address.to_owned(),
            options,
            stream: opened.write,
            outbox: Mutex::new(Outbox::default()),
            left_over: Notify::new(),
            slots: Slots::new(),
            window: Semaphore::new(options.window.clamp(1, slots::SLOTS_MAX)),
            holds: Holds::new(options.holds_max),
            holds_dropped: AtomicU64::new(0),
            watches: Watches::default(),
            closed: watch::channel(None).0,
        });
        let tasks = [
            tokio::spawn(receive(link.clone(), opened.read, opened.inbox)),
            tokio::spawn(write_left_over(link.clone())),
            tokio::spawn(give_back(link.clone())),
        ];
        Self {
            link,
            welcome: opened.welcome,
            tasks,
        }
    }

    /// What the partition said when the connection was made.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Completes when the connection is broken, and says why.
    pub async fn closed(&self) -> Error {
        let mut closed = self.link.closed.subscribe();
        match closed.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(error)) => error.clone(),
            Ok(None) | Err(_) => self.link.lost("the session has ended"),
        }
    }

    /// Guards that were dropped because too many waited.
    #[must_use]
    pub fn holds_dropped(&self) -> u64 {
        self.link.holds_dropped.load(Ordering::Relaxed)
    }

    /// Sends a call and waits for its answer.
    async fn call(&self, call: Call) -> Answer<Outcome> {
        let deadline = self.link.options.deadline;
        match timeout(deadline, self.link.exchange(call)).await {
            Ok(answer) => answer,
            Err(_) => {
                let what = format!("no answer from {} within {deadline:?}", self.link.address);
                Err(Error::new(Code::RpcTimeout, what))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.link.fail("the session has ended");
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.link.address)
    }
}

impl Link {
    fn lost(&self, why: impl fmt::Display) -> Error {
        let what = format!("the connection to {} is closed: {why}", self.address);
        Error::new(Code::RpcFail, what)
    }

    async fn exchange(&self, call: Call) -> Answer<Outcome> {
        let Ok(_permit) = self.window.acquire().await else {
            return Err(self.slots.closed());
        };
        let waiting = self.slots.open()?;
        let request = wire::Request {
            give_back: self.holds.take(),
            call: Some(call),
        };
        self.send(waiting.id(), &request)?;
        let reply = waiting.reply().await?;
        if reply.status != 0 {
            return Err(frames::failure(reply.status, &reply.meta));
        }
        let answer = wire::Answer::decode(reply.meta.as_slice())
            .map_err(|error| broken(format!("an answer from {}: {error}", self.address)))?;
        answer.outcome.ok_or_else(wrong_answer)
    }

    /// Writes a request, as far as the socket takes it at once.
    fn send(&self, id: u64, request: &wire::Request) -> Result<(), Error> {
        let sent = outbox::send(&self.outbox, &self.stream, |out| {
            frames::append(out, Header::new(Kind::Control, id), request)
        })?;
        match sent {
            Sent::All => Ok(()),
            Sent::Partly => {
                self.left_over.notify_one();
                Ok(())
            }
            Sent::Broken(error) => {
                self.fail(error);
                Err(self.slots.closed())
            }
        }
    }

    /// Ends the connection for everybody; only the first reason counts.
    fn fail(&self, why: impl fmt::Display) {
        let error = self.lost(why);
        if self.slots.close(&error) {
            self.window.close();
            self.watches.close(&error);
            self.closed.send_replace(Some(error));
        }
    }

    fn give_back(&self, holds: &[Hold]) {
        let dropped = self.holds.push(holds);
        self.holds_dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    fn take(&self, frame: &Frame<'_>) -> Result<(), Error> {
        if frame.header.kind != Kind::Control {
            return Err(broken(format!("a frame of kind {:?}", frame.header.kind)));
        }
        if frame.header.request == 0 {
            let push = wire::Push::decode(frame.meta).map_err(|error| broken(error.to_string()))?;
            return self.watches.push(order::pushed(push)?);
        }
        let reply = Reply {
            status: frame.header.status,
            meta: frame.meta.to_vec(),
        };
        self.slots.answer(frame.header.request, reply);
        Ok(())
    }
}

/// An answer that belongs to another call.
fn wrong_answer() -> Error {
    broken("an answer of another kind than the question")
}

struct Opened {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    inbox: Inbox,
    welcome: Welcome,
}

async fn open(address: &str, hello: &Hello) -> Result<Opened, Error> {
    let failed =
        |error: std::io::Error| Error::new(Code::RpcFail, format!("connect to {address}: {error}"));
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let (mut read, write) = stream.into_split();
    let mut out = Vec::new();
    frames::append(
        &mut out,
        Header::new(Kind::Hello, 0),
        &convert::pack_hello(hello),
    )?;
    let mut sent = 0;
    while sent < out.len() {
        write.writable().await.map_err(failed)?;
        sent += outbox::write(&write, &out[sent..]).map_err(failed)?;
    }
    let mut inbox = Inbox::new(&[]);
    loop {
        if let Some(frame) = inbox.next()? {
            let welcome = read_welcome(&frame)
                .map_err(|error| error.while_doing(format!("connect to {address}")))?;
            return Ok(Opened {
                read,
                write,
                inbox,
                welcome,
            });
        }
        if inbox.fill(&mut read).await.map_err(failed)? == 0 {
            let what = format!("connect to {address}: closed before the welcome");
            return Err(Error::new(Code::RpcFail, what));
        }
    }
}

fn read_welcome(frame: &Frame<'_>) -> Result<Welcome, Error> {
    if frame.header.kind != Kind::Welcome {
        return Err(broken("another frame than a welcome"));
    }
    if frame.header.status != 0 {
        return Err(frames::failure(frame.header.status, frame.meta));
    }
    let message = wire::Welcome::decode(frame.meta).map_err(|error| broken(error.to_string()))?;
    convert::welcome(message)
}

/// Hands out answers and pushes until the connection ends.
async fn receive(link: Arc<Link>, mut stream: OwnedReadHalf, mut inbox: Inbox) {
    loop {
        loop {
            match inbox.next() {
                Ok(Some(frame)) => {
                    if let Err(error) = link.take(&frame) {
                        return link.fail(error);
                    }
                }
                Ok(None) => break,
                Err(error) => return link.fail(error),
            }
        }
        match inbox.fill(&mut stream).await {
            Ok(0) => return link.fail("the server closed it"),
            Ok(_) => {}
            Err(error) => return link.fail(error),
        }
    }
}

/// Writes what the socket did not take at once.
async fn write_left_over(link: Arc<Link>) {
    loop {
        link.left_over.notified().await;
        loop {
            let taken = lock(&link.outbox).take();
            let Some(bytes) = taken else { break };
            if let Err(error) = write_all(&link.stream, &bytes).await {
                return link.fail(error);
            }
        }
    }
}

async fn write_all(stream: &OwnedWriteHalf, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        let count = outbox::write(stream, bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Gives guards back when no request takes them along. Sleeps while there are none.
async fn give_back(link: Arc<Link>) {
    loop {
        link.holds.some().await;
        sleep(link.options.give_back_after).await;
        while let Some(holds) = link.holds.take() {
            let request = wire::Request {
                give_back: Some(holds),
                call: None,
            };
            if link.closed.borrow().is_some() || link.send(0, &request).is_err() {
                return;
            }
        }
    }
}
