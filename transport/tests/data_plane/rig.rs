//! A served segment, payloads and places for them, and a hand-made client that keeps to no rules.

use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use ziggurat_base::{
    CHUNK, ChunkTable, Extent, Extents, MemberId, Placement, SegmentId, Ticket,
    checksum::table_len,
    frame::{HEADER_LEN, Header, Kind, Span},
    memory::{Region, RegionOptions},
};
use ziggurat_engine::{command::Target, port::Host};
use ziggurat_tiers::dram::DramTier;
use ziggurat_transport::{
    client::{Peer, PeerOptions},
    counts::Fault,
    hello::{DATA_VERSIONS, Hello, Role},
    server::{Limits, Server},
    socket::SocketOptions,
};

pub(crate) const MEMBER: MemberId = MemberId(7);
pub(crate) const SEGMENT: SegmentId = SegmentId(1);
const SEGMENT_LEN: u64 = 32 << 20;
const TABLES_AT: u64 = 31 << 20;

/// A server that lives as long as the value.
pub(crate) struct Rig {
    pub(crate) tier: Arc<DramTier>,
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        Self::serving(limits, |tier| tier)
    }

    /// Serves the memory through a host of the caller's.
    pub(crate) fn serving(
        limits: Limits,
        host: impl FnOnce(Arc<DramTier>) -> Arc<dyn Host>,
    ) -> Self {
        let tier = Arc::new(DramTier::new(MEMBER));
        let options = RegionOptions {
            len: SEGMENT_LEN,
            name: "test".into(),
            ..RegionOptions::default()
        };
        let region = Region::create(&options).expect("the machine has 32 MiB");
        tier.mount(SEGMENT, region).expect("a new tier is empty");
        let server = Server::new(host(Arc::clone(&tier)), limits);
        let listener = SocketOptions::default()
            .listen(([127, 0, 0, 1], 0).into())
            .expect("the system gives a port");
        let address = listener.local_addr().expect("it is bound");
        let running = server.clone();
        let task = tokio::spawn(async move { running.run(listener, std::future::pending()).await });
        Self {
            tier,
            server,
            address,
            task,
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer_with(PeerOptions::default())
    }

    pub(crate) fn peer_with(&self, options: PeerOptions) -> Peer {
        Peer::new(&self.address.to_string(), options)
    }

    /// Connects without a client library and is greeted.
    pub(crate) async fn stranger(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("the server listens");
        let hello = Hello {
            versions: DATA_VERSIONS,
            role: Role::Client,
        };
        greet(&mut stream, &hello.encode()).await;
        let welcome = header(&mut stream).await.expect("an answer");
        assert_eq!((welcome.kind, welcome.status), (Kind::Welcome, 0));
        let mut meta = vec![0; welcome.meta_len as usize];
        stream.read_exact(&mut meta).await.expect("its meta");
        stream
    }

    /// Waits until the server has counted this fault.
    pub(crate) async fn counted(&self, fault: Fault) {
        let counted = async {
            while self.server.counts().fault(fault) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(10), counted).await;
        assert!(
            in_time.is_ok(),
            "{fault:?} was not counted: {:?}",
            self.server.counts()
        );
    }
}

pub(crate) async fn greet(stream: &mut TcpStream, meta: &[u8]) {
    let mut hello = Header::new(Kind::Hello, 0);
    hello.meta_len = meta.len() as u32;
    let bytes = [&hello.encode()[..], meta].concat();
    stream.write_all(&bytes).await.expect("it is connected");
}

/// The next header; `None` when the other side has closed.
pub(crate) async fn header(stream: &mut TcpStream) -> Option<Header> {
    let mut bytes = [0; HEADER_LEN];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(Header::decode(&bytes).expect("a server sends what can be read"))
}

pub(crate) fn payload(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + i / 241 + seed) as u8).collect()
}

/// Room for `len` bytes from `offset` on, in one extent or (from two chunks on) in three.
pub(crate) fn target(offset: u64, len: u64, scattered: bool) -> Target {
    let chunk = CHUNK as u64;
    let extents = if scattered && len > 2 * chunk {
        vec![
            Extent::new(offset + chunk, chunk),
            Extent::new(offset, chunk),
            Extent::new(offset + 2 * chunk, len - 2 * chunk),
        ]
    } else {
        vec![Extent::new(offset, len)]
    };
    let table = table_len(len);
    Target {
        member: MEMBER,
        placement: Placement {
            segment: SEGMENT,
            extents: Extents::checked(&extents).expect("all but the last are whole chunks"),
            check: (table > 0).then(|| Extent::new(TABLES_AT + offset / CHUNK as u64 * 4, table)),
        },
    }
}

pub(crate) fn span(target: &Target) -> Span {
    Span::whole(target.placement.extents.len().0, target.placement.clone())
}

/// The frame that writes `bytes`, as a client sends it.
pub(crate) fn write_frame(ticket: u64, target: &Target, bytes: &[u8]) -> Vec<u8> {
    let mut meta = Vec::new();
    span(target).encode_into(&mut meta);
    let table = ChunkTable::of(bytes).encode();
    let mut header = Header::new(Kind::Write, 1);
    header.ticket = Ticket(ticket);
    header.member = target.member;
    header.segment = SEGMENT;
    header.meta_len = meta.len() as u32;
    header.body_len = bytes.len() as u64;
    header.table_len = table.len() as u32;
    [&header.encode()[..], &meta, bytes, &table].concat()
}
