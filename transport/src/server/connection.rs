//! One connection of a server: greeting, then requests one after the other.

use super::{Shared, ahead::Ahead, ask::Ask};
use crate::{
    counts::{Fault, add},
    hello::{DATA_VERSIONS, Hello, Versions},
    wire::{Inbound, Outbound, TEXT_LEN_MAX, Watch},
};
use std::io;
use tokio::net::TcpStream;
use ziggurat_base::{
    Code, Error,
    frame::{HEADER_LEN, Header, Kind},
};

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum Closed {
    /// The peer has closed it between two requests, or did not want anything for a long time.
    Quietly,
    /// It broke a rule or a limit.
    By(Fault),
}

impl From<io::Error> for Closed {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::By(Fault::Stalled),
            _ => Self::By(Fault::Broken),
        }
    }
}

pub(super) type Step<T> = Result<T, Closed>;

/// A span has at most 32 extents; whoever sends more meta with a request means no span.
const SPAN_LEN_MAX: u32 = 40 + 16 * 32;

pub(super) struct Connection<'a> {
    pub(super) shared: &'a Shared,
    pub(super) stream: TcpStream,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    pub(super) stall: Watch,
    pub(super) ahead: Ahead,
    /// Whether more of the next request could come while something is fetched.
    may_arrive: bool,
    idle: Watch,
}

impl<'a> Connection<'a> {
    pub(super) fn new(shared: &'a Shared, stream: TcpStream) -> Self {
        Self {
            shared,
            stream,
            inbound: Inbound::new(),
            outbound: Outbound::new(),
            stall: Watch::new(shared.limits.stall_limit),
            ahead: Ahead::default(),
            may_arrive: true,
            idle: Watch::new(shared.limits.idle_limit),
        }
    }

    pub(super) async fn run(mut self) -> Step<()> {
        self.greet().await?;
        loop {
            tokio::task::consume_budget().await;
            let next = if self.ahead.is_empty() {
                self.next_request().await?
            } else {
                self.arrived()?
            };
            match next {
                Some(header) => self.serve(&header).await?,
                None if self.ahead.is_empty() => break,
                None if self.await_fetched_or_more().await? => self.read_fetched().await?,
                None => {}
            }
            if self.outbound.is_full() {
                self.flush().await?;
            }
        }
        // A peer that has said all it wants may still listen.
        self.flush().await
    }

    /// Serves a request, or begins to fetch what it asks for.
    async fn serve(&mut self, header: &Header) -> Step<()> {
        add(&self.shared.counters.frames_in, 1);
        let ask = self.ask(header).await?;
        let fetch = match header.kind {
            Kind::Read => ask.fetch(&self.shared.host),
            _ => None,
        };
        // Answers keep to the order of their requests; what is not a whole object goes alone.
        let joins = fetch.is_some() && ask.is_whole();
        while !(self.ahead.is_empty() || joins && self.ahead.has_room(ask.len())) {
            self.read_fetched().await?;
        }
        match (header.kind, fetch) {
            (_, Some(job)) => {
                self.ahead.push(*header, ask.len(), job);
                if !ask.is_whole() {
                    self.read_fetched().await?;
                }
                Ok(())
            }
            (Kind::Write, None) => self.write(header, &ask).await,
            (Kind::Read, None) => self.read(header, &ask).await,
            _ => Err(Closed::By(Fault::Kind)),
        }
    }

    /// Waits until the first of what is fetched can be sent, or more requests may have arrived: then `false`.
    async fn await_fetched_or_more(&mut self) -> Step<bool> {
        if self.ahead.go_on().await {
            return Ok(true);
        }
        // The device takes its time: the peer may wait for what is gathered.
        self.flush().await?;
        tokio::select! {
            biased;
            () = self.ahead.first() => Ok(true),
            readable = self.stream.readable(), if self.may_arrive => {
                readable?;
                Ok(false)
            }
        }
    }

    /// The header of a request that is here as a whole, without its payload; looks without waiting. What is wrong with the
    /// next one is said when those before it are answered.
    fn arrived(&mut self) -> Step<Option<Header>> {
        let mut next = self.whole_request();
        // What is long enough and no request is wrong; the buffer may be full of it.
        let is_short = self.inbound.unread().len() < HEADER_LEN + SPAN_LEN_MAX as usize;
        self.may_arrive = is_short;
        if next.is_none() && is_short {
            match self.inbound.try_more(&self.stream) {
                Ok(0) => self.may_arrive = false,
                Ok(_) => next = self.whole_request(),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
        if next.is_some() {
            self.inbound.skip(HEADER_LEN);
        }
        Ok(next)
    }

    fn whole_request(&self) -> Option<Header> {
        let (head, rest) = self.inbound.unread().split_first_chunk::<HEADER_LEN>()?;
        let header = Header::decode(head).ok()?;
        let whole = header.meta_len <= SPAN_LEN_MAX && rest.len() >= header.meta_len as usize;
        whole.then_some(header)
    }

    /// Agrees on a version, or says which ones there are and closes.
    async fn greet(&mut self) -> Step<()> {
        let greeting = |_| Closed::By(Fault::Greeting);
        self.need(HEADER_LEN).await?;
        let header = Header::decode(&self.inbound.array()).map_err(greeting)?;
        let plain = header.body_len == 0 && header.table_len == 0;
        if header.kind != Kind::Hello || !plain || header.meta_len > SPAN_LEN_MAX {
            return Err(Closed::By(Fault::Greeting));
        }
        self.need(header.meta_len as usize).await?;
        let meta = &self.inbound.unread()[..header.meta_len as usize];
        let hello = Hello::decode(meta).map_err(greeting)?;
        self.inbound.skip(header.meta_len as usize);
        let picked = DATA_VERSIONS.common(hello.versions);
        let versions = picked.map_or(DATA_VERSIONS, |v| Versions { min: v, max: v });
        let meta = Hello {
            versions,
            role: self.shared.role,
        }
        .encode();
        let mut welcome = Header::new(Kind::Welcome, header.request);
        welcome.meta_len = meta.len() as u32;
        if picked.is_none() {
            welcome.status = Code::InvalidVersion.number();
        }
        self.outbound.header(&welcome);
        self.outbound.buffer().extend_from_slice(&meta);
        self.flush().await?;
        if picked.is_none() {
            return Err(Closed::By(Fault::Version));
        }
        add(&self.shared.counters.greeted, 1);
        Ok(())
    }

    /// The header of the next request; `None` when the peer has closed.
    async fn next_request(&mut self) -> Step<Option<Header>> {
        while self.inbound.unread().len() < HEADER_LEN {
            match self.inbound.try_more(&self.stream) {
                Ok(0) if self.inbound.unread().is_empty() => return Ok(None),
                Ok(0) => return Err(Closed::By(Fault::Truncated)),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.await_request().await?,
                Err(e) => return Err(e.into()),
            }
        }
        match Header::decode(&self.inbound.array()) {
            Ok(header) => Ok(Some(header)),
            Err(_) => Err(Closed::By(Fault::Header)),
        }
    }

    async fn await_request(&mut self) -> Step<()> {
        if !self.inbound.unread().is_empty() {
            return self.await_bytes().await;
        }
        self.flush().await?;
        match self.idle.wait(self.stream.readable()).await {
            Err(e) if e.kind() == io::ErrorKind::TimedOut => Err(Closed::Quietly),
            other => Ok(other?),
        }
    }

    /// Waits for more of a frame that has begun. What is gathered goes out first: the peer may wait for it.
    pub(super) async fn await_bytes(&mut self) -> Step<()> {
        self.flush().await?;
        Ok(self.stall.wait(self.stream.readable()).await?)
    }

    pub(super) async fn flush(&mut self) -> Step<()> {
        Ok(self.outbound.flush(&self.stream, &mut self.stall).await?)
    }

    /// Waits until `n` bytes of the frame have arrived.
    pub(super) async fn need(&mut self, n: usize) -> Step<()> {
        while self.inbound.unread().len() < n {
            match self.inbound.try_more(&self.stream) {
                Ok(0) => return Err(Closed::By(Fault::Truncated)),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.await_bytes().await?,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// What a request is about.
    async fn ask(&mut self, header: &Header) -> Step<Ask> {
        if header.meta_len > SPAN_LEN_MAX {
            return Err(Closed::By(Fault::Length));
        }
        let len = header.meta_len as usize;
        self.need(len).await?;
        let ask = Ask::decode(header, &self.inbound.unread()[..len]).map_err(Closed::By)?;
        self.inbound.skip(len);
        Ok(ask)
    }

    /// Receives and forgets `left` bytes, so that the next frame is found.
    pub(super) async fn discard(&mut self, mut left: u64) -> Step<()> {
        while left > 0 {
            let n = left.min(self.inbound.unread().len() as u64);
            self.inbound.skip(n as usize);
            left -= n;
            if left > 0 {
                self.need(1).await?;
                tokio::task::consume_budget().await;
            }
        }
        Ok(())
    }

    /// Answers without payload: the result, with the text of an error as meta.
    pub(super) fn answer(&mut self, kind: Kind, request: &Header, result: Result<(), Error>) {
        let mut header = Header::new(kind, request.request);
        header.ticket = request.ticket;
        let text = match &result {
            Ok(()) => "",
            Err(error) => {
                header.status = error.code().number();
                cut(error.what())
            }
        };
        header.meta_len = text.len() as u32;
        self.outbound.header(&header);
        self.outbound.buffer().extend_from_slice(text.as_bytes());
    }
}

/// The start of a text that may travel.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_LEN_MAX)]
}

#[cfg(test)]
mod tests {
    use super::{SPAN_LEN_MAX, cut};
    use crate::wire::TEXT_LEN_MAX;
    use ziggurat_base::{
        CHUNK, Extent, Extents, Placement, SegmentId, extent::EXTENTS_MAX, frame::Span,
    };

    #[test]
    fn the_longest_span_is_within_the_limit() {
        let chunk = CHUNK as u64;
        let list = vec![Extent::new(0, chunk); EXTENTS_MAX];
        let placement = Placement {
            segment: SegmentId(1),
            extents: Extents::checked(&list).unwrap(),
            check: None,
        };
        let mut bytes = Vec::new();
        Span::whole(chunk * EXTENTS_MAX as u64, placement).encode_into(&mut bytes);
        assert_eq!(bytes.len(), SPAN_LEN_MAX as usize);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"ä".repeat(TEXT_LEN_MAX)).len(), TEXT_LEN_MAX);
        assert_eq!(
            cut(&format!("a{}", "ä".repeat(TEXT_LEN_MAX))).len(),
            TEXT_LEN_MAX - 1
        );
    }
}
