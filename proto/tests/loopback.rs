//! Session and server over loopback: order, windows, deadlines, refusals, pushes, malformed peers.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use ziggurat_base::{
    ByteCount, Code, Crc32, Era, Key, MemberId, ObjectKey, SegmentId, TenantId, Ticket,
    frame::{HEADER_LEN, Header, Kind},
};
use ziggurat_engine::{
    Row,
    command::{
        Effect, Force, Hold, Keep, Keys, MemberOffer, OwnedTags, PutAnswer, PutEnd, PutItem,
        Recency, ScanAction, SegmentOffer, Targets, Wish, Written,
    },
    ledger::{Holding, LedgerBatch, Verdict, Version},
    port::{MemberApi, MetadataApi},
};
use ziggurat_proto::{
    Limits, Service, Session, SessionOptions,
    counts::{CallKind, CloseReason, Counts},
    hello::{Hello, PeerKind, Versions},
    order::{NodeCommand, Order, OrderApi, Outcome, Report},
    testkit::{FakePartition, SPAN, STALL},
};

struct Server {
    address: String,
    partition: Arc<FakePartition>,
    counts: Arc<Counts>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn server_within(limits: Limits) -> Server {
    let partition = Arc::new(FakePartition::default());
    let mut service = Service::new(partition.clone());
    service.limits = limits;
    let counts = service.counts.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(service.serve(listener, async {
        let _ = stopped.await;
    }));
    Server {
        address,
        partition,
        counts,
        stop,
        task,
    }
}

async fn server() -> Server {
    server_within(Limits::default()).await
}

impl Server {
    async fn session(&self) -> Session {
        self.session_with(SessionOptions::default()).await
    }

    async fn session_with(&self, options: SessionOptions) -> Session {
        let hello = Hello::new(PeerKind::Client);
        Session::connect(&self.address, &hello, options)
            .await
            .unwrap()
    }

    async fn raw(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Waits for a counter that the server raises after it has closed a connection.
    async fn closed(&self, reason: CloseReason) {
        for _ in 0..2000 {
            if self.counts.snapshot().closed(reason) > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!(
            "nothing was closed for {reason:?}: {:?}",
            self.counts.snapshot().closed
        );
    }
}

fn key(text: &str) -> Key<'_> {
    Key::new(text.as_bytes()).unwrap()
}

fn keys<'a>(keys: &'a [Key<'a>]) -> Keys<'a> {
    Keys {
        tenant: TenantId(0),
        keys,
    }
}

async fn put(session: &Session, name: &str, len: u64) -> Ticket {
    let items = [PutItem::new(key(name), len)];
    let wish = Wish::default();
    let answers = session.put_start(TenantId(0), &items, &wish).await.unwrap();
    let Ok(PutAnswer::Granted(grant)) = &answers[0] else {
        panic!("{answers:?}")
    };
    assert_eq!(
        grant.targets,
        Targets::One(FakePartition::target(grant.ticket, len))
    );
    assert_eq!(grant.span, SPAN);
    let end = PutEnd {
        ticket: grant.ticket,
        crc: Crc32(7),
        written: Written::All,
    };
    let done = session.put_end(&[end]).await.unwrap();
    assert_eq!(done[0].as_ref().unwrap().replicas, 1);
    grant.ticket
}

/// A frame with `meta`.
fn frame(kind: Kind, request: u64, meta: &[u8]) -> Vec<u8> {
    let mut header = Header::new(kind, request);
    header.meta_len = meta.len() as u32;
    [&header.encode(), meta].concat()
}

/// Protocol versions, kind unknown, tenant "default": written by hand, so that a change of the schema shows.
fn hello(min: u8, max: u8) -> Vec<u8> {
    let meta = [&[0x08, min, 0x10, max, 0x2a, 7][..], b"default"].concat();
    frame(Kind::Hello, 0, &meta)
}

async fn read_frame(stream: &mut TcpStream) -> (Header, Vec<u8>) {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).await.unwrap();
    let header = Header::decode(&header).unwrap();
    let mut meta = vec![0; header.meta_len as usize];
    stream.read_exact(&mut meta).await.unwrap();
    (header, meta)
}

#[tokio::test]
async fn an_object_lives_and_dies_over_the_wire() {
    let server = server().await;
    let session = server.session().await;
    let ticket = put(&session, "a", 5).await;
    let items = [PutItem::new(key("a"), 5)];
    let again = session
        .put_start(TenantId(0), &items, &Wish::default())
        .await
        .unwrap();
    assert_eq!(again, [Ok(PutAnswer::Existed)]);

    let list = [key("a"), key("b")];
    assert_eq!(
        session.exist(keys(&list)).await.unwrap(),
        [Ok(true), Ok(false)]
    );
    let located = session.locate(keys(&list), Recency::Touch).await.unwrap();
    let grant = located[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!((grant.ticket, grant.len, grant.crc), (ticket, 5, Crc32(7)));
    assert_eq!(located[1], Ok(None));
    session.touch(keys(&list)).await.unwrap();
    let stat = session.stat(keys(&list)).await.unwrap();
    assert_eq!(stat[0].as_ref().unwrap().as_ref().unwrap().len, 5);
    let page = session
        .scan(TenantId(0), "a", ScanAction::List, None)
        .await
        .unwrap();
    assert_eq!(page.keys, [(key("a").to_owned(), 5)]);
    assert_eq!(session.stats().await.unwrap().objects, 1);

    let removed = session.remove(keys(&list), Force::No).await.unwrap();
    assert_eq!(removed[0], Ok(()));
    assert_eq!(
        removed[1].as_ref().unwrap_err().code(),
        Code::ObjectNotFound
    );
    assert_eq!(session.renew(&[ticket]).await.unwrap(), [Ok(())]);
    let revoked = session.revoke(&[ticket]).await.unwrap();
    assert_eq!(revoked[0].as_ref().unwrap_err().what(), "not open");
    let counts = server.counts.snapshot();
    assert_eq!(counts.call(CallKind::PutStart).unwrap().count, 2);
    assert_eq!(counts.connections_open, 1);
}

#[tokio::test]
async fn a_member_joins_mounts_and_leaves() {
    let server = server().await;
    let session = server.session().await;
    assert_eq!(session.welcome().greeting.era, Era(1));
    let joined = session.join(&MemberOffer::default()).await.unwrap();
    let offer = SegmentOffer {
        name: "s".into(),
        capacity: ByteCount::mib(1),
        highest_era: Era(0),
        keep: Keep::Delegated,
        stock: Default::default(),
    };
    let segment = session.mount(joined.member, &offer).await.unwrap();
    session.ping(joined.member).await.unwrap();
    assert_eq!(session.tenant("other").await.unwrap(), TenantId(1));
    assert!(session.segments().await.unwrap().is_empty());
    session.unmount(joined.member, segment, SPAN).await.unwrap();
    let error = session
        .unmount(joined.member, SegmentId(9), SPAN)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::SegmentNotFound);
    session.leave(joined.member).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_get_their_own_answers() {
    let server = server().await;
    let session = Arc::new(
        server
            .session_with(SessionOptions {
                window: 3,
                ..SessionOptions::default()
            })
            .await,
    );
    let names: Vec<_> = (0..64).map(|i| format!("key {i}")).collect();
    server
        .partition
        .fill(names.iter().step_by(2).map(|name| key(name)));
    let callers: Vec<_> = (0..64)
        .map(|caller| {
            let (session, name) = (session.clone(), names[caller].clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    let found = session.exist(keys(&[key(&name)])).await.unwrap();
                    assert_eq!(found, [Ok(caller % 2 == 0)]);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let counts = server.counts.snapshot();
    assert_eq!(counts.call(CallKind::Exist).unwrap().count, 64 * 50);
}

#[tokio::test]
async fn a_large_batch_is_split_and_comes_back_in_order() {
    let server = server().await;
    let session = server.session().await;
    let names: Vec<_> = (0..2000).map(|i| format!("{i}")).collect();
    let list: Vec<_> = names.iter().map(|name| key(name)).collect();
    server.partition.fill(list.iter().copied().step_by(3));
    let found = session.exist(keys(&list)).await.unwrap();
    let expected: Vec<_> = (0..2000).map(|i| Ok(i % 3 == 0)).collect();
    assert_eq!(found, expected);
    session.touch(keys(&list)).await.unwrap();
    let counts = server.counts.snapshot();
    assert_eq!(counts.call(CallKind::Exist).unwrap().count, 4);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = server().await;
    let mut bytes = hello(1, 1);
    for request in 1..=100 {
        // A request whose call is `stats`.
        bytes.extend(frame(Kind::Control, request, &[0xe2, 0x01, 0]));
    }
    let mut stream = server.raw(&bytes).await;
    assert_eq!(read_frame(&mut stream).await.0.kind, Kind::Welcome);
    for request in 1..=100 {
        let (header, _) = read_frame(&mut stream).await;
        assert_eq!((header.request, header.status), (request, 0));
    }
}

#[tokio::test]
async fn a_request_without_an_answer_times_out_and_frees_its_place() {
    let server = server().await;
    let options = SessionOptions {
        deadline: Duration::from_millis(50),
        window: 1,
        ..SessionOptions::default()
    };
    let session = server.session_with(options).await;
    let stall = [Key::new(STALL).unwrap()];
    for _ in 0..2 {
        let error = session.exist(keys(&stall)).await.unwrap_err();
        assert_eq!(error.code(), Code::RpcTimeout);
    }
    // The connection behind the stalled request waits, another one does not.
    let other = server.session().await;
    assert!(other.exist(keys(&stall[..0])).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lost_connection_fails_what_is_in_flight() {
    let server = server_within(Limits {
        finish_within: Duration::from_millis(10),
        ..Limits::default()
    })
    .await;
    let session = Arc::new(server.session().await);
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { session.exist(keys(&[Key::new(STALL).unwrap()])).await }
    });
    while server.counts.snapshot().connections == 0 {
        tokio::task::yield_now().await;
    }
    let started = Instant::now();
    server.stop.send(()).unwrap();
    server.task.await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::RpcFail);
    assert_eq!(session.closed().await.code(), Code::RpcFail);
    assert_eq!(session.stats().await.unwrap_err().code(), Code::RpcFail);
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "not by the deadline"
    );
}

#[tokio::test]
async fn guards_go_back_with_the_next_request_or_soon() {
    let server = server().await;
    let hold = |row| Hold {
        row: Row(row),
        ticket: Ticket(5),
        term: 2,
    };
    let patient = server
        .session_with(SessionOptions {
            give_back_after: Duration::from_secs(60),
            ..SessionOptions::default()
        })
        .await;
    patient.give_back(&[hold(1), hold(2)]);
    patient.stats().await.unwrap();
    assert_eq!(*server.partition.holds.lock().unwrap(), [hold(1), hold(2)]);

    let session = server.session().await;
    session.give_back(&[hold(3)]);
    while server.partition.holds.lock().unwrap().len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(session.holds_dropped(), 0);
}

#[tokio::test]
async fn owners_tell_of_their_segments() {
    let server = server().await;
    let session = server.session().await;
    let member = session.join(&MemberOffer::default()).await.unwrap().member;
    let holding = |serial| Holding {
        version: Version {
            tenant: "default".into(),
            key: ObjectKey::new(format!("k{serial}")).unwrap(),
            ticket: Ticket::new(Era(1), serial),
        },
        len: 10,
        stored_len: 512,
        crc: Crc32(1),
        tags: OwnedTags::default(),
        placement: None,
    };
    let page = LedgerBatch::Page {
        generation: 1,
        number: 0,
        holdings: (1..=3).map(holding).collect(),
    };
    let begin = LedgerBatch::Begin { generation: 1 };
    let reply = session.ledger(member, SegmentId(1), &begin).await.unwrap();
    assert_eq!(reply.verdicts, []);
    let reply = session.ledger(member, SegmentId(1), &page).await.unwrap();
    let (taken, discard) = (Verdict::Taken, Verdict::Discard);
    assert_eq!(reply.verdicts, [discard, taken, discard]);
    assert_eq!(
        server
            .counts
            .snapshot()
            .call(CallKind::Ledger)
            .unwrap()
            .count,
        2
    );
}

#[tokio::test]
async fn effects_and_orders_are_pushed() {
    let server = server().await;
    let session = server.session().await;
    let member = session.join(&MemberOffer::default()).await.unwrap().member;
    let fence = |serial| Effect::Fence {
        member,
        ticket: Ticket::new(Era(1), serial),
        placement: FakePartition::target(Ticket::new(Era(1), serial), 10).placement,
    };
    server.partition.push_effect(fence(1));
    assert_eq!(session.effects(member).await.unwrap(), [fence(1)]);
    let order = Order {
        serial: 4,
        command: NodeCommand::Unhost {
            segment: SegmentId(1),
        },
    };
    server.partition.push_order(order.clone());
    assert_eq!(session.orders(member).await.unwrap(), [order]);
    server.partition.push_effect(fence(2));
    assert_eq!(session.effects(member).await.unwrap(), [fence(2)]);
    assert_eq!(server.partition.rewound.load(Ordering::Relaxed), 1);

    session
        .fenced(member, Ticket(3), SegmentId(1))
        .await
        .unwrap();
    assert_eq!(*server.partition.fences.lock().unwrap(), [Ticket(3)]);
    let report = Report {
        member,
        serial: 4,
        outcome: Ok(Outcome::Done),
    };
    session.report(&report).await.unwrap();
    assert_eq!(*server.partition.reports.lock().unwrap(), [report]);

    server.partition.lose_members();
    let error = session.effects(member).await.unwrap_err();
    assert_eq!(error.code(), Code::ClientNotFound);
}

#[tokio::test]
async fn a_lost_connection_ends_a_subscription() {
    let server = server().await;
    let session = Arc::new(server.session().await);
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { session.effects(MemberId(1)).await }
    });
    while server.partition.rewound.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    server.stop.send(()).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::RpcFail);
}

#[tokio::test]
async fn other_versions_are_refused_with_both_ranges() {
    let server = server().await;
    let hello = Hello {
        versions: Versions { min: 7, max: 9 },
        ..Hello::new(PeerKind::Client)
    };
    let refused = Session::connect(&server.address, &hello, SessionOptions::default()).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), Code::InvalidVersion);
    assert!(error.what().contains("7 to 9") && error.what().contains("1 to 1"));
    server.closed(CloseReason::Version).await;
    // A newer peer that still speaks ours is served.
    let newer = Hello {
        versions: Versions { min: 1, max: 9 },
        ..Hello::new(PeerKind::Client)
    };
    let session = Session::connect(&server.address, &newer, SessionOptions::default()).await;
    assert_eq!(session.unwrap().welcome().version, 1);
}

#[tokio::test]
async fn an_unknown_tenant_is_refused() {
    let server = server().await;
    let hello = Hello {
        tenant: "nobody".into(),
        ..Hello::new(PeerKind::Client)
    };
    let refused = Session::connect(&server.address, &hello, SessionOptions::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::TenantNotRegistered);
    server.closed(CloseReason::Refused).await;
}

#[tokio::test]
async fn nonsense_closes_its_connection_and_no_other() {
    let server = server_within(Limits {
        hello_within: Duration::from_millis(100),
        ..Limits::default()
    })
    .await;
    let session = server.session().await;
    let welcomed = |bytes: &[u8]| [&hello(1, 1), bytes].concat();
    let mut damaged = frame(Kind::Control, 1, &[0xe2, 0x01, 0]);
    damaged[9] ^= 1;
    let mut body = Header::new(Kind::Control, 1);
    body.body_len = 4;
    // Keys whose lengths exceed their bytes.
    let short_keys = [0x3a, 0x05, 0x12, 0x00, 0x1a, 0x01, 0x09];
    let cases = [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), CloseReason::Preface),
        (b"ZG".to_vec(), CloseReason::Silent),
        (frame(Kind::Control, 1, &[]), CloseReason::Frame),
        (welcomed(&damaged), CloseReason::Frame),
        (welcomed(&body.encode()), CloseReason::Frame),
        (
            welcomed(&frame(Kind::Control, 1, &[0xff; 9])),
            CloseReason::Message,
        ),
        (
            welcomed(&frame(Kind::Control, 1, &short_keys)),
            CloseReason::Message,
        ),
        (welcomed(&frame(Kind::Read, 1, &[])), CloseReason::Frame),
    ];
    for (bytes, reason) in cases {
        let before = server.counts.snapshot().closed(reason);
        let mut stream = server.raw(&bytes).await;
        let mut answer = Vec::new();
        // Data that the server has not read makes its close a reset.
        let _ = stream.read_to_end(&mut answer).await;
        server.closed(reason).await;
        assert_eq!(
            server.counts.snapshot().closed(reason),
            before + 1,
            "{reason:?}"
        );
    }
    session.stats().await.unwrap();
}

#[tokio::test]
async fn a_request_out_of_bounds_is_told_why_and_the_connection_goes_on() {
    let server = server().await;
    let mut lens = vec![0x08, 0x00, 0x12, 0x84, 0x04];
    lens.extend([b'k'; 516]);
    lens.extend([0x1a, 0x84, 0x04]);
    lens.extend([1; 516]);
    let mut call = vec![0x3a];
    prost::encoding::encode_varint(lens.len() as u64, &mut call);
    call.extend(lens);
    let bytes = [
        hello(1, 1),
        frame(Kind::Control, 1, &call),
        frame(Kind::Control, 2, &[0xe2, 0x01, 0]),
    ];
    let mut stream = server.raw(&bytes.concat()).await;
    assert_eq!(read_frame(&mut stream).await.0.status, 0);
    let (refused, text) = read_frame(&mut stream).await;
    assert_eq!(refused.status, Code::InvalidParams.number());
    assert!(String::from_utf8(text).unwrap().contains("516"));
    assert_eq!(read_frame(&mut stream).await.0.status, 0);
}

#[tokio::test]
async fn a_call_of_a_later_build_is_refused_and_the_connection_goes_on() {
    let server = server().await;
    let bytes = [
        hello(1, 1),
        // Field 90, which nobody has yet.
        frame(Kind::Control, 1, &[0xd2, 0x05, 0]),
        frame(Kind::Control, 2, &[0xe2, 0x01, 0]),
    ];
    let mut stream = server.raw(&bytes.concat()).await;
    assert_eq!(read_frame(&mut stream).await.0.status, 0);
    let refused = read_frame(&mut stream).await.0;
    assert_eq!(refused.status, Code::NotSupported.number());
    assert_eq!(read_frame(&mut stream).await.0.status, 0);
}

#[tokio::test]
async fn one_connection_too_many_is_closed() {
    let server = server_within(Limits {
        connections: 1,
        ..Limits::default()
    })
    .await;
    let session = server.session().await;
    let hello = Hello::new(PeerKind::Client);
    let refused = Session::connect(&server.address, &hello, SessionOptions::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::RpcFail);
    server.closed(CloseReason::TooMany).await;
    session.stats().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_takes_no_answers_is_closed() {
    let server = server_within(Limits {
        taken_within: Duration::from_millis(100),
        ..Limits::default()
    })
    .await;
    let names: Vec<_> = (0..4000).map(|i| format!("{i:0100}")).collect();
    server.partition.fill(names.iter().map(|name| key(name)));
    let mut stream = server.raw(&hello(1, 1)).await;
    // Scans answer with 400 KiB each and nobody reads them.
    let scan = frame(Kind::Control, 1, &[0x52, 0x00]);
    for _ in 0..100 {
        if stream.write_all(&scan).await.is_err() {
            break;
        }
    }
    server.closed(CloseReason::Stalled).await;
}
