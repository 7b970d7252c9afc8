//! Peers that are dead, slow, silent or of another age, and callers that change their minds.

use crate::rig::{MEMBER, Rig, payload, target};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use ziggurat_base::{
    Code, Ticket,
    frame::{Header, Kind},
};
use ziggurat_engine::{
    command::{Answer, Target},
    port::{ReadOp, ReadSums, WriteOp},
};
use ziggurat_transport::{
    client::{Peer, PeerOptions},
    counts::Fault,
    hello::{Hello, Role, Versions},
    server::Limits,
};

async fn put(peer: &Peer, ticket: u64, target: &Target, bytes: &[u8]) -> Result<(), Code> {
    let ops = [WriteOp {
        name: None,
        ticket: Ticket(ticket),
        target,
        parts: &[bytes],
        len: bytes.len() as u64,
    }];
    let answer = peer.write(&ops).await.remove(0);
    answer.map(drop).map_err(|e| e.code())
}

async fn get(peer: &Peer, ticket: u64, source: &Target, into: &mut [u8]) -> Answer<ReadSums> {
    let mut ops = [ReadOp {
        name: None,
        ticket: Ticket(ticket),
        source,
        object_len: source.placement.extents.len().0,
        offset: 0,
        into,
        want_table: false,
    }];
    peer.read(&mut ops).await.remove(0)
}

fn impatient() -> PeerOptions {
    PeerOptions {
        connect_limit: Duration::from_millis(200),
        answer_limit: Duration::from_millis(200),
        ..PeerOptions::default()
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Accepts one connection and greets like a server of these versions.
async fn accept(listener: &TcpListener, versions: Versions, status: i32) -> TcpStream {
    let (mut stream, _) = listener.accept().await.expect("somebody connects");
    let mut hello = [0; 72];
    stream.read_exact(&mut hello).await.expect("a greeting");
    let meta = Hello {
        versions,
        role: Role::Node,
    }
    .encode();
    let mut welcome = Header::new(Kind::Welcome, 0);
    welcome.meta_len = meta.len() as u32;
    welcome.status = status;
    let bytes = [&welcome.encode()[..], &meta].concat();
    stream.write_all(&bytes).await.expect("it listens");
    stream
}

const ONE: Versions = Versions { min: 1, max: 1 };

#[tokio::test]
async fn nobody_at_the_address_is_an_rpc_failure() {
    let (listener, address) = listener().await;
    drop(listener);
    let peer = Peer::new(&address.to_string(), PeerOptions::default());
    let place = target(0, 10, false);
    assert_eq!(put(&peer, 1, &place, &[0; 10]).await, Err(Code::RpcFail));
    let refused = get(&peer, 1, &place, &mut [0; 10]).await.unwrap_err();
    assert!(refused.what().contains(&address.to_string()), "{refused}");
}

#[tokio::test]
async fn a_silent_peer_costs_its_deadline() {
    let (listener, address) = listener().await;
    let peer = Peer::new(&address.to_string(), impatient());
    let place = target(0, 10, false);
    let start = Instant::now();
    assert_eq!(put(&peer, 1, &place, &[0; 10]).await, Err(Code::RpcTimeout));
    let mute = tokio::spawn(async move {
        let _first = listener.accept().await;
        let _held = accept(&listener, ONE, 0).await;
        std::future::pending::<()>().await;
    });
    assert_eq!(put(&peer, 1, &place, &[0; 10]).await, Err(Code::RpcTimeout));
    assert!(start.elapsed() < Duration::from_secs(5));
    mute.abort();
}

#[tokio::test]
async fn a_peer_killed_in_mid_transfer_is_a_transfer_failure() {
    let (listener, address) = listener().await;
    let victim = tokio::spawn(async move {
        let mut stream = accept(&listener, ONE, 0).await;
        let mut some = vec![0; 100_000];
        stream.read_exact(&mut some).await.expect("a payload comes");
        drop(stream);
        let mut stream = accept(&listener, ONE, 0).await;
        let mut ask = [0; 64];
        stream.read_exact(&mut ask).await.expect("a request comes");
        let mut done = Header::new(Kind::Done, 1);
        done.body_len = 8 << 20;
        stream.write_all(&done.encode()).await.expect("it listens");
        stream.write_all(&[1; 1000]).await.expect("it listens");
    });
    let peer = Peer::new(&address.to_string(), PeerOptions::default());
    let place = target(0, 8 << 20, false);
    let bytes = payload(8 << 20, 1);
    let start = Instant::now();
    assert_eq!(put(&peer, 1, &place, &bytes).await, Err(Code::TransferFail));
    let mut into = vec![0; 8 << 20];
    let cut = get(&peer, 1, &place, &mut into).await.unwrap_err();
    assert_eq!(cut.code(), Code::TransferFail);
    assert!(start.elapsed() < Duration::from_secs(4));
    victim.await.unwrap();
}

#[tokio::test]
async fn a_pooled_connection_that_died_is_replaced_once() {
    let rig = Rig::with(Limits {
        idle_limit: Duration::from_millis(20),
        ..Limits::default()
    });
    let peer = rig.peer();
    let place = target(0, 10, false);
    put(&peer, 1, &place, &[1; 10]).await.unwrap();
    while rig.server.counts().connections > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    put(&peer, 2, &place, &[2; 10]).await.unwrap();
    assert_eq!(rig.server.counts().greeted, 2);
}

#[tokio::test]
async fn a_connection_that_dies_under_the_request_is_replaced_too() {
    let (listener, address) = listener().await;
    let flaky = tokio::spawn(async move {
        let mut stream = accept(&listener, ONE, 0).await;
        for (request, answers) in [(1, true), (2, false)] {
            let mut frame = [0; 64 + 56 + 10 + 4];
            stream.read_exact(&mut frame).await.expect("a write");
            if answers {
                let done = Header::new(Kind::Done, request).encode();
                stream.write_all(&done).await.expect("it listens");
            }
        }
        drop(stream);
        let mut stream = accept(&listener, ONE, 0).await;
        let mut frame = [0; 64 + 56 + 10 + 4];
        stream.read_exact(&mut frame).await.expect("a write");
        let done = Header::new(Kind::Done, 1).encode();
        stream.write_all(&done).await.expect("it listens");
    });
    let peer = Peer::new(&address.to_string(), PeerOptions::default());
    let place = target(0, 10, false);
    put(&peer, 1, &place, &[1; 10]).await.unwrap();
    put(&peer, 2, &place, &[2; 10]).await.unwrap();
    flaky.await.unwrap();
}

#[tokio::test]
async fn an_abandoned_read_takes_its_connection_with_it() {
    let rig = Rig::new();
    let peer = rig.peer();
    let len = 16 << 20;
    let place = target(0, len, false);
    put(&peer, 1, &place, &payload(len, 1)).await.unwrap();
    let mut into = vec![0; len as usize];
    tokio::select! {
        biased;
        _ = get(&peer, 1, &place, &mut into) => panic!("16 MiB do not come at once"),
        () = async {
            while rig.server.counts().bytes_out == 0 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    let abandoned = into.clone();
    let mut again = vec![0; len as usize];
    get(&peer, 1, &place, &mut again).await.unwrap();
    assert!(again == payload(len, 1));
    assert!(
        into == abandoned,
        "nothing lands in the memory of one who has left"
    );
    assert_eq!(rig.server.counts().greeted, 2);
}

#[tokio::test]
async fn a_slow_peer_costs_itself_only() {
    let rig = Rig::with(Limits {
        stall_limit: Duration::from_millis(100),
        ..Limits::default()
    });
    let place = target(1 << 20, 1 << 20, false);
    let frame = crate::rig::write_frame(1, &place, &payload(1 << 20, 1));
    let mut slow = rig.stranger().await;
    let drip = tokio::spawn(async move {
        for few in frame.chunks(100).take(100) {
            slow.write_all(few).await.expect("a slow peer is borne");
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        slow
    });
    let peer = rig.peer();
    let start = Instant::now();
    let mut count = 0;
    while !drip.is_finished() {
        count += 1;
        let place = target(0, 4096, false);
        put(&peer, count, &place, &[3; 4096]).await.unwrap();
    }
    let each = start.elapsed() / count as u32;
    assert!(
        each < Duration::from_millis(20),
        "{each:?} for each of {count} puts"
    );
    let silent = drip.await.unwrap();
    rig.counted(Fault::Stalled).await;
    drop(silent);
}

#[tokio::test]
async fn callers_wait_in_line_for_a_connection() {
    let rig = Rig::new();
    let peer = rig.peer_with(PeerOptions {
        connections_max: 2,
        ..PeerOptions::default()
    });
    let peer = std::sync::Arc::new(peer);
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..20 {
        let peer = std::sync::Arc::clone(&peer);
        tasks.spawn(async move {
            let place = target(i << 16, 60_000, false);
            put(&peer, 1, &place, &payload(60_000, i)).await
        });
    }
    assert!(tasks.join_all().await.into_iter().all(|done| done.is_ok()));
    assert!(rig.server.counts().greeted <= 2);
}

#[tokio::test]
async fn ends_without_a_common_version_part_with_a_clear_error() {
    let rig = Rig::new();
    let mut old = TcpStream::connect(rig.address).await.unwrap();
    let hello = Hello {
        versions: Versions { min: 7, max: 9 },
        role: Role::Client,
    };
    crate::rig::greet(&mut old, &hello.encode()).await;
    let welcome = crate::rig::header(&mut old).await.unwrap();
    assert_eq!(welcome.status, Code::InvalidVersion.number());
    let mut meta = [0; 8];
    old.read_exact(&mut meta).await.unwrap();
    assert_eq!(Hello::decode(&meta).unwrap().versions, ONE);
    assert_eq!(old.read(&mut [0]).await.unwrap(), 0, "and closes");
    rig.counted(Fault::Version).await;

    let (listener, address) = listener().await;
    let newer = tokio::spawn(async move {
        let versions = Versions { min: 2, max: 3 };
        let _held = accept(&listener, versions, Code::InvalidVersion.number()).await;
    });
    let peer = Peer::new(&address.to_string(), PeerOptions::default());
    let place = target(0, 10, false);
    let refused = get(&peer, 1, &place, &mut [0; 10]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidVersion);
    assert!(refused.what().contains("2 to 3"), "{refused}");
    newer.await.unwrap();
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed() {
    let rig = Rig::with(Limits {
        connections_max: 1,
        ..Limits::default()
    });
    let _first = rig.stranger().await;
    let mut second = TcpStream::connect(rig.address).await.unwrap();
    assert_eq!(second.read(&mut [0]).await.unwrap(), 0);
    rig.counted(Fault::Crowded).await;
    assert_eq!(rig.tier.member(), MEMBER);
}
