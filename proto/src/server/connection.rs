//! One connection of our own frames.

use super::{Service, dispatch, watch::Watchers};
use crate::{
    convert::{broken, keys, member as convert},
    counts::{CallKind, CloseReason, reason_of},
    frames::{self, Inbox},
    hello::{VERSIONS, Welcome},
    wire::{self, request::Call},
};
use prost::Message;
use std::time::Instant;
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch as flag},
    time::timeout,
};
use ziggurat_base::{
    Code, Error, MemberId,
    frame::{Header, Kind, MAGIC},
};
use ziggurat_engine::command::BATCH_MAX;

/// Answers are written together until they reach this size.
const FLUSH_AT: usize = 128 << 10;

/// A buffer of answers of this size is kept.
const KEPT_MAX: usize = 256 << 10;

/// Pushes that wait for one connection; their sources wait beyond it.
const PUSHES_MAX: usize = 64;

/// Why the server ends a connection; `Ok` when the peer or a shutdown did.
type Ended = Result<(), CloseReason>;

pub(super) struct Connection<'a> {
    service: &'a Service,
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    inbox: Inbox,
    out: Vec<u8>,
    stopped: flag::Receiver<bool>,
    /// The member that joined last on this connection: what is written here is written in its name.
    writer: MemberId,
    watchers: Watchers,
    pushes: mpsc::Receiver<wire::Push>,
}

/// What happened first.
enum Event {
    Read(std::io::Result<usize>),
    Push(Option<wire::Push>),
    Stopped,
}

impl<'a> Connection<'a> {
    /// A connection whose first four bytes were read.
    pub(super) fn new(
        service: &'a Service,
        stream: TcpStream,
        stopped: flag::Receiver<bool>,
    ) -> Self {
        let (read, write) = stream.into_split();
        let (sender, pushes) = mpsc::channel(PUSHES_MAX);
        Self {
            service,
            read,
            write,
            inbox: Inbox::new(&MAGIC.to_le_bytes()),
            out: Vec::new(),
            stopped,
            watchers: Watchers::new(service.partition.clone(), sender),
            writer: MemberId(0),
            pushes,
        }
    }

    pub(super) async fn run(mut self) -> Ended {
        let limits = self.service.limits;
        match timeout(limits.hello_within, self.greet()).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(_) => return Err(CloseReason::Silent),
        }
        let mut stopped = self.stopped.clone();
        let stop = stopped.wait_for(|is_stopped| *is_stopped);
        tokio::pin!(stop);
        loop {
            let handled = self.handle_all().await;
            self.flush().await?;
            handled?;
            // A shutdown ends the connection only here, where every request that has arrived is answered.
            let event = tokio::select! {
                biased;
                _ = &mut stop => Event::Stopped,
                push = self.pushes.recv() => Event::Push(push),
                read = self.inbox.fill(&mut self.read) => Event::Read(read),
            };
            match event {
                Event::Read(Ok(0) | Err(_)) | Event::Stopped => return Ok(()),
                Event::Read(Ok(_)) => {}
                Event::Push(push) => self.push(push)?,
            }
        }
    }

    /// Exchanges hellos; whether to go on. Counts a refusal itself, after the peer was told.
    async fn greet(&mut self) -> bool {
        let welcome = loop {
            match self.inbox.next() {
                Ok(Some(frame)) if frame.header.kind == Kind::Hello => {
                    break match wire::Hello::decode(frame.meta) {
                        Ok(message) => self.welcome(message).await,
                        Err(error) => Err(broken(format!("the hello: {error}"))),
                    };
                }
                Ok(Some(_)) => break Err(broken("the first frame is no hello")),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            if !matches!(self.inbox.fill(&mut self.read).await, Ok(1..)) {
                return false;
            }
        };
        let header = Header::new(Kind::Welcome, 0);
        let appended = welcome.and_then(|welcome| {
            frames::append(&mut self.out, header, &convert::pack_welcome(&welcome))
        });
        if let Err(error) = &appended {
            self.service.counts.close(reason_of(error));
            frames::append_failure(&mut self.out, Kind::Welcome, 0, error);
        }
        self.flush().await.is_ok() && appended.is_ok()
    }

    async fn welcome(&self, message: wire::Hello) -> Result<Welcome, Error> {
        let hello = convert::hello(message)?;
        let version = VERSIONS.common(hello.versions)?;
        Ok(Welcome {
            version,
            software: env!("CARGO_PKG_VERSION").into(),
            greeting: self.service.partition.greeting(),
            tenant: self.service.partition.tenant(&hello.tenant).await?,
            batch_max: BATCH_MAX as u32,
        })
    }

    /// Answers every request that has arrived.
    async fn handle_all(&mut self) -> Ended {
        loop {
            let (header, request) = match self.inbox.next() {
                Ok(None) => return Ok(()),
                Ok(Some(frame)) if frame.header.kind == Kind::Control => {
                    (frame.header, wire::Request::decode(frame.meta))
                }
                Ok(Some(_)) => return Err(CloseReason::Frame),
                Err(error) => return Err(reason_of(&error)),
            };
            let request = request.map_err(|_| CloseReason::Message)?;
            self.handle(header.request, request).await?;
            if self.out.len() >= FLUSH_AT {
                self.flush().await?;
            }
        }
    }

    async fn handle(&mut self, id: u64, request: wire::Request) -> Ended {
        if let Some(holds) = &request.give_back {
            let holds = keys::holds(holds).map_err(|_| CloseReason::Message)?;
            for some in holds.chunks(BATCH_MAX) {
                self.service.partition.give_back(some);
            }
        }
        let Some(call) = request.call else {
            // Guards that came on their own expect nothing; anybody else asks what a later build may know.
            if id == 0 {
                return Ok(());
            }
            let what = "this server does not know the call: upgrade it";
            return self.refuse(id, &Error::new(Code::NotSupported, what));
        };
        let (kind, started) = (CallKind::of(&call), Instant::now());
        let outcome = match call {
            Call::Watch(member) => self.watchers.watch(MemberId(member)),
            call => dispatch::answer(&*self.service.partition, &mut self.writer, call).await,
        };
        let header = Header::new(Kind::Control, id);
        let appended = outcome.and_then(|outcome| {
            let answer = wire::Answer {
                outcome: Some(outcome),
            };
            frames::append(&mut self.out, header, &answer)
        });
        let took = started.elapsed();
        self.service.counts.call(kind, took, appended.is_ok());
        match appended {
            Ok(()) => Ok(()),
            Err(error) => self.refuse(id, &error),
        }
    }

    /// Tells the peer what was wrong; a peer that contradicts itself is not listened to any longer.
    fn refuse(&mut self, id: u64, error: &Error) -> Ended {
        frames::append_failure(&mut self.out, Kind::Control, id, error);
        if error.code() == Code::DeserializeFail {
            return Err(CloseReason::Message);
        }
        Ok(())
    }

    fn push(&mut self, push: Option<wire::Push>) -> Ended {
        let Some(push) = push else {
            // The watchers of this connection hold a sender as long as it lives.
            return Ok(());
        };
        self.service.counts.push();
        let header = Header::new(Kind::Control, 0);
        // A push is cut to a size that always fits.
        frames::append(&mut self.out, header, &push).map_err(|_| CloseReason::Message)
    }

    async fn flush(&mut self) -> Ended {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = self.write.write_all(&self.out);
        match timeout(self.service.limits.taken_within, written).await {
            Ok(Ok(())) => {}
            // The peer has gone: reading says so next.
            Ok(Err(_)) => {}
            Err(_) => return Err(CloseReason::Stalled),
        }
        if self.out.capacity() > KEPT_MAX {
            self.out = Vec::new();
        }
        self.out.clear();
        Ok(())
    }
}
