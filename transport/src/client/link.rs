//! One greeted connection, and how answers are received from it.

use crate::{
    hello::{DATA_VERSIONS, Hello, Role},
    wire::{INLINE_MAX, Inbound, Outbound, TEXT_LEN_MAX, Watch},
};
use std::io;
use tokio::net::TcpStream;
use ziggurat_base::{
    Code, Error, Result,
    checksum::Summer,
    frame::{HEADER_LEN, Header, Kind},
};

/// A connection that was greeted. On an idle one neither side owes the other a byte.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    /// Number of the next request.
    pub(super) request: u64,
}

impl Link {
    /// Agrees on a version.
    pub(super) async fn greet(stream: TcpStream, address: &str, role: Role) -> Result<Self> {
        let mut link = Self {
            stream,
            inbound: Inbound::new(),
            outbound: Outbound::new(),
            request: 1,
        };
        let hello = Hello {
            versions: DATA_VERSIONS,
            role,
        };
        let mut header = Header::new(Kind::Hello, 0);
        header.meta_len = hello.encode().len() as u32;
        link.outbound.header(&header);
        link.outbound.buffer().extend_from_slice(&hello.encode());
        let sent = link.outbound.flush(&link.stream, &mut Watch::none()).await;
        sent.map_err(broken)?;
        let mut receiver = Receiver {
            stream: &link.stream,
            inbound: &mut link.inbound,
        };
        let welcome = receiver.header().await?;
        if welcome.kind != Kind::Welcome || welcome.meta_len as usize > TEXT_LEN_MAX {
            return Err(astray("the answer to the greeting is none"));
        }
        let meta = receiver.meta(&welcome).await?;
        let picked = Hello::decode(&meta)?.versions;
        if welcome.status != 0 || DATA_VERSIONS.common(picked) != Some(picked.max) {
            return Err(DATA_VERSIONS
                .refuse(picked)
                .while_doing(format!("greeting {address}")));
        }
        Ok(link)
    }

    /// Whether the other side has neither closed nor said anything out of turn, as far as is known.
    pub(super) fn is_quiet(&self) -> bool {
        let silent = self.stream.try_read(&mut [0]);
        self.inbound.unread().is_empty()
            && matches!(silent, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The receiving half of a link, while the other half may be sending.
pub(super) struct Receiver<'a> {
    pub(super) stream: &'a TcpStream,
    pub(super) inbound: &'a mut Inbound,
}

impl Receiver<'_> {
    async fn need(&mut self, n: usize) -> Result<()> {
        while self.inbound.unread().len() < n {
            match self.inbound.try_more(self.stream) {
                Ok(0) => return Err(broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.readable().await.map_err(broken)?;
                }
                Err(e) => return Err(broken(e)),
            }
        }
        Ok(())
    }

    async fn header(&mut self) -> Result<Header> {
        self.need(HEADER_LEN).await?;
        Header::decode(&self.inbound.array())
    }

    async fn meta(&mut self, header: &Header) -> Result<Vec<u8>> {
        let mut meta = vec![0; header.meta_len as usize];
        self.need(meta.len()).await?;
        self.inbound.take(&mut meta);
        Ok(meta)
    }

    /// The next answer to `request`; the inner result is what the peer says.
    pub(super) async fn answer(&mut self, kind: Kind, request: u64) -> Result<Result<Header>> {
        tokio::task::consume_budget().await;
        let header = self.header().await?;
        let is_text = header.meta_len as usize <= TEXT_LEN_MAX;
        if (header.kind, header.request) != (kind, request) || !is_text {
            return Err(astray("an answer that belongs to no question"));
        }
        if header.status == 0 && header.meta_len == 0 {
            return Ok(Ok(header));
        }
        let text = String::from_utf8_lossy(&self.meta(&header).await?).into_owned();
        if header.status == 0 || header.body_len + u64::from(header.table_len) > 0 {
            return Err(astray("an answer that contradicts itself"));
        }
        let code = Code::from_number(header.status).unwrap_or(Code::Internal);
        Ok(Err(Error::new(code, text)))
    }

    /// Receives bytes straight into `target` and sums them while they are hot.
    pub(super) async fn payload(&mut self, target: &mut [u8], summer: &mut Summer) -> Result<()> {
        let mut rest = target;
        while !rest.is_empty() {
            if self.inbound.unread().is_empty() && rest.len() <= INLINE_MAX {
                self.need(1).await?;
            }
            let most = rest.len().min(summer.room());
            let n = match self.inbound.take(&mut rest[..most]) {
                0 => self.receive(&mut rest[..most]).await?,
                n => n,
            };
            let (now, later) = rest.split_at_mut(n);
            summer.update(now);
            rest = later;
        }
        Ok(())
    }

    async fn receive(&mut self, target: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.try_read(target) {
                Ok(0) => return Err(broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => {
                    tokio::task::consume_budget().await;
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.readable().await.map_err(broken)?;
                }
                Err(e) => return Err(broken(e)),
            }
        }
    }

    /// Receives the table that `header` has announced and that must have `expected` bytes, or none.
    pub(super) async fn table(&mut self, header: &Header, expected: u64) -> Result<Vec<u8>> {
        if u64::from(header.table_len) != expected {
            return Err(astray("an answer with a chunk table of another length"));
        }
        let mut table = vec![0; expected as usize];
        self.payload(&mut table, &mut Summer::default()).await?;
        Ok(table)
    }
}

/// The connection has ended in the middle of an exchange.
pub(super) fn broken(cause: io::Error) -> Error {
    let what = match cause.kind() {
        io::ErrorKind::UnexpectedEof => "the peer closed the connection half-way".into(),
        _ => format!("the connection broke half-way: {cause}"),
    };
    Error::new(Code::TransferFail, what)
}

/// The peer does not keep to the protocol.
pub(super) fn astray(what: &'static str) -> Error {
    Error::new(Code::TransferFail, what)
}
