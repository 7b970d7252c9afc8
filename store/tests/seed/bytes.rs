//! The data plane as a foreign client sees it: frames by token over one connection, put together by hand.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use ziggurat_base::{
    ChunkTable, SegmentId, Ticket,
    frame::{BY_TOKEN, HEADER_LEN, Header, Kind, TokenSpan, WANT_TABLE},
};
use ziggurat_transport::hello::{DATA_VERSIONS, Hello, Role};

/// A greeted connection to a node.
pub(crate) struct Wire {
    stream: TcpStream,
    request: u64,
}

impl Wire {
    pub(crate) async fn connect(endpoint: &str) -> Self {
        let mut stream = TcpStream::connect(endpoint).await.unwrap();
        let hello = Hello {
            versions: DATA_VERSIONS,
            role: Role::Client,
        }
        .encode();
        let mut header = Header::new(Kind::Hello, 0);
        header.meta_len = hello.len() as u32;
        stream.write_all(&header.encode()).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        let mut wire = Self { stream, request: 1 };
        let (welcome, _) = wire.answer().await;
        assert_eq!((welcome.kind, welcome.status), (Kind::Welcome, 0));
        wire
    }

    /// A header and its meta.
    async fn answer(&mut self) -> (Header, Vec<u8>) {
        let mut head = [0; HEADER_LEN];
        self.stream.read_exact(&mut head).await.unwrap();
        let header = Header::decode(&head).unwrap();
        let meta = self.bytes(header.meta_len as usize).await;
        (header, meta)
    }

    async fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    fn header(&mut self, kind: Kind) -> Header {
        self.request += 1;
        let mut header = Header::new(kind, self.request);
        header.flags = BY_TOKEN;
        assert_eq!(
            (header.segment, header.ticket),
            (SegmentId(0), Ticket::NONE)
        );
        header
    }

    /// Sends all but the last `held_back` bytes of a write.
    async fn send(&mut self, token: u64, offset: u64, body: &[u8], table: &[u8], held_back: usize) {
        let span = TokenSpan {
            token,
            offset,
            len: body.len() as u64,
        }
        .encode();
        let mut header = self.header(Kind::Write);
        header.meta_len = span.len() as u32;
        header.body_len = body.len() as u64;
        header.table_len = table.len() as u32;
        let frame = [&header.encode(), &span[..], body, table].concat();
        let now = &frame[..frame.len() - held_back];
        self.stream.write_all(now).await.unwrap();
    }

    /// Writes a range of a handle; the status that the node answers.
    pub(crate) async fn write(&mut self, token: u64, offset: u64, body: &[u8]) -> i32 {
        let table = ChunkTable::of(body).encode();
        self.send(token, offset, body, &table, 0).await;
        self.done().await
    }

    /// A write without its sums.
    pub(crate) async fn write_unsummed(&mut self, token: u64, offset: u64, body: &[u8]) -> i32 {
        self.send(token, offset, body, &[], 0).await;
        self.done().await
    }

    /// Begins a write and leaves its last byte out.
    pub(crate) async fn write_almost(&mut self, token: u64, body: &[u8]) {
        self.send(token, 0, body, &[], 1).await;
        self.stream.flush().await.unwrap();
    }

    /// The last byte of it.
    pub(crate) async fn write_last(&mut self, byte: u8) -> i32 {
        self.stream.write_all(&[byte]).await.unwrap();
        self.done().await
    }

    /// A write whose sums are not those of its bytes.
    pub(crate) async fn write_damaged(&mut self, token: u64, body: &[u8]) -> i32 {
        let mut table = ChunkTable::of(body).encode();
        table[0] ^= 1;
        self.send(token, 0, body, &table, 0).await;
        self.done().await
    }

    async fn done(&mut self) -> i32 {
        let (done, _) = self.answer().await;
        assert_eq!((done.kind, done.request), (Kind::Done, self.request));
        done.status
    }

    /// Reads a range of a handle, with its sums.
    pub(crate) async fn read(&mut self, token: u64, offset: u64, len: u64) -> Result<Vec<u8>, i32> {
        let span = TokenSpan { token, offset, len }.encode();
        let mut header = self.header(Kind::Read);
        header.flags |= WANT_TABLE;
        header.meta_len = span.len() as u32;
        let frame = [&header.encode()[..], &span].concat();
        self.stream.write_all(&frame).await.unwrap();
        let (done, _) = self.answer().await;
        if done.status != 0 {
            return Err(done.status);
        }
        let table = self.bytes(done.table_len as usize).await;
        let body = self.bytes(done.body_len as usize).await;
        assert_eq!(ChunkTable::of(&body).encode(), table);
        let (sealed, _) = self.answer().await;
        assert_eq!(sealed.kind, Kind::Sealed);
        match sealed.status {
            0 => Ok(body),
            status => Err(status),
        }
    }
}
