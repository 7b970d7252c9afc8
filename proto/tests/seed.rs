//! The seed's service and our own frames on one port, with a client that knows only the seed's words.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};
use tonic::transport::Channel;
use ziggurat_base::{Code, Error, Job, Key, ObjectKey, SegmentId};
use ziggurat_engine::{command::Answer, port::MemberApi as _};
use ziggurat_proto::{
    SeedBackend, Service, Session, SessionOptions,
    counts::{CallKind, CloseReason, Counts},
    hello::{Hello, PeerKind},
    seed::{
        Clear, ClientAddresses, ClientId, Handle, ObjectReplicas, Peer, Replica, ReplicaState,
        SeedPut,
        message::{
            BatchQueryIpRequest, BatchReplicaClearRequest, GetReplicaListByRegexRequest,
            GetReplicaListRequest, MountSegmentRequest, PutEndRequest, PutStartRequest,
            RemoveByRegexRequest, RemoveRequest, ReplicateConfig, UnmountSegmentRequest, Uuid,
            buf_handle::BufStatus, master_service_client::MasterServiceClient,
            replica_info::ReplicaStatus,
        },
    },
    testkit::FakePartition,
};

/// Writes of each peer, objects, segments; every token is the length of its handle plus 1000.
#[derive(Default)]
struct FakeSeed {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    writes: HashMap<(Peer, ObjectKey), Vec<u64>>,
    objects: HashMap<ObjectKey, Vec<u64>>,
    segments: HashMap<String, u64>,
    gone: Vec<Peer>,
}

fn replica(state: ReplicaState, lens: &[u64]) -> Replica {
    let handle = |len: &u64| Handle {
        segment: SegmentId(3),
        endpoint: "h:50052".into(),
        token: len + 1000,
        len: *len,
    };
    Replica {
        state,
        handles: lens.iter().map(handle).collect(),
    }
}

fn now<'a, T: Send + 'a>(value: T) -> Job<'a, T> {
    Box::pin(std::future::ready(value))
}

fn missing<T>(code: Code, what: &'static str) -> Answer<T> {
    Err(Error::new(code, what))
}

impl SeedBackend for FakeSeed {
    fn get_replica_list<'a>(&'a self, _: Peer, key: Key<'a>) -> Job<'a, Answer<Vec<Replica>>> {
        let state = self.state.lock().unwrap();
        now(match state.objects.get(&key.to_owned()) {
            Some(lens) => Ok(vec![replica(ReplicaState::Complete, lens)]),
            None => missing(Code::ObjectNotFound, "no object \"ü\""),
        })
    }

    fn get_replica_list_by_regex<'a>(
        &'a self,
        _: Peer,
        _: &'a str,
    ) -> Job<'a, Answer<Vec<ObjectReplicas>>> {
        let state = self.state.lock().unwrap();
        let list = state.objects.iter();
        let list =
            list.map(|(key, lens)| (key.clone(), vec![replica(ReplicaState::Complete, lens)]));
        now(Ok(list.collect()))
    }

    fn batch_query_ip<'a>(
        &'a self,
        clients: &'a [ClientId],
    ) -> Job<'a, Answer<Vec<ClientAddresses>>> {
        let known = clients.iter().filter(|client| client.first == 1);
        now(Ok(known
            .map(|client| (*client, vec!["10.0.0.1".into()]))
            .collect()))
    }

    fn batch_replica_clear<'a>(&'a self, clear: &'a Clear<'a>) -> Job<'a, Answer<Vec<ObjectKey>>> {
        let mut state = self.state.lock().unwrap();
        let keys = clear.keys.iter().map(|key| Key::to_owned(*key));
        now(Ok(keys
            .filter(|key| state.objects.remove(key).is_some())
            .collect()))
    }

    fn put_start<'a>(&'a self, peer: Peer, put: &'a SeedPut<'a>) -> Job<'a, Answer<Vec<Replica>>> {
        let mut state = self.state.lock().unwrap();
        state
            .writes
            .insert((peer, put.key.to_owned()), put.slices.clone());
        let each = replica(ReplicaState::Processing, &put.slices);
        now(Ok(vec![each; usize::from(put.wish.replicas)]))
    }

    fn put_end<'a>(&'a self, peer: Peer, key: Key<'a>) -> Job<'a, Answer<()>> {
        let mut state = self.state.lock().unwrap();
        now(match state.writes.remove(&(peer, key.to_owned())) {
            Some(lens) => {
                state.objects.insert(key.to_owned(), lens);
                Ok(())
            }
            None => missing(Code::InvalidWrite, "no open write"),
        })
    }

    fn remove<'a>(&'a self, _: Peer, key: Key<'a>) -> Job<'a, Answer<()>> {
        let removed = self.state.lock().unwrap().objects.remove(&key.to_owned());
        now(match removed {
            Some(_) => Ok(()),
            None => missing(Code::ObjectNotFound, "no object"),
        })
    }

    fn remove_by_regex<'a>(&'a self, _: Peer, regex: &'a str) -> Job<'a, Answer<u64>> {
        now(match regex {
            "(" => missing(Code::InvalidParams, "not a pattern"),
            _ => Ok(self.state.lock().unwrap().objects.drain().count() as u64),
        })
    }

    fn mount_segment<'a>(&'a self, _: Peer, name: &'a str, size: u64) -> Job<'a, Answer<()>> {
        self.state
            .lock()
            .unwrap()
            .segments
            .insert(name.into(), size);
        now(Ok(()))
    }

    fn unmount_segment<'a>(&'a self, _: Peer, name: &'a str) -> Job<'a, Answer<()>> {
        now(match self.state.lock().unwrap().segments.remove(name) {
            Some(_) => Ok(()),
            None => missing(Code::SegmentNotFound, "no segment"),
        })
    }

    fn gone(&self, peer: Peer) {
        self.state.lock().unwrap().gone.push(peer);
    }
}

struct Server {
    address: String,
    backend: Arc<FakeSeed>,
    counts: Arc<Counts>,
}

async fn server() -> Server {
    let backend = Arc::new(FakeSeed::default());
    let mut service = Service::new(Arc::new(FakePartition::default()));
    service.seed = Some(backend.clone());
    let counts = service.counts.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(service.serve(listener, std::future::pending()));
    Server {
        address,
        backend,
        counts,
    }
}

async fn client(address: &str) -> MasterServiceClient<Channel> {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    MasterServiceClient::new(channel.connect().await.unwrap())
}

fn put_start(key: &str) -> PutStartRequest {
    PutStartRequest {
        key: key.into(),
        value_length: 7,
        config: Some(ReplicateConfig {
            replica_num: Some(2),
            ..Default::default()
        }),
        slice_lengths: vec![3, 4],
    }
}

fn end(key: &str) -> PutEndRequest {
    PutEndRequest { key: key.into() }
}

fn get(key: &str) -> GetReplicaListRequest {
    GetReplicaListRequest { key: key.into() }
}

fn mount(size: u64) -> MountSegmentRequest {
    MountSegmentRequest {
        buffer: 0x1000,
        size,
        segment_name: "mine".into(),
    }
}

async fn unmount(client: &mut MasterServiceClient<Channel>) -> i32 {
    let request = UnmountSegmentRequest {
        segment_name: "mine".into(),
    };
    client
        .unmount_segment(request)
        .await
        .unwrap()
        .into_inner()
        .status_code
}

#[tokio::test]
async fn segments_come_and_go() {
    let server = server().await;
    let mut client = client(&server.address).await;
    let mounted = client.mount_segment(mount(1 << 20)).await.unwrap();
    assert_eq!(mounted.into_inner().status_code, 0);
    let refused = client.mount_segment(mount(0)).await.unwrap();
    assert_eq!(refused.into_inner().status_code, -600);
    assert_eq!(unmount(&mut client).await, 0);
    assert_eq!(unmount(&mut client).await, -101);
    let seen = server.counts.snapshot();
    for kind in [CallKind::SeedMountSegment, CallKind::SeedUnmountSegment] {
        let calls = seen.call(kind).unwrap();
        assert_eq!((calls.count, calls.failed), (2, 1), "{kind:?}");
    }
}

#[tokio::test]
async fn a_foreign_client_puts_finds_and_removes() {
    let server = server().await;
    let mut client = client(&server.address).await;
    let started = client.put_start(put_start("k")).await.unwrap().into_inner();
    assert_eq!((started.status_code, started.replica_list.len()), (0, 2));
    let first = &started.replica_list[0];
    assert_eq!(first.status(), ReplicaStatus::Processing);
    let seen = first.handles.iter();
    let seen: Vec<_> = seen.map(|h| (h.size, h.buffer, h.status())).collect();
    assert_eq!(
        seen,
        [(3, 1003, BufStatus::Init), (4, 1004, BufStatus::Init)]
    );
    let handle = &first.handles[0];
    assert_eq!((handle.segment_name, &*handle.endpoint), (3, "h:50052"));
    let ended = client.put_end(end("k")).await.unwrap();
    assert_eq!(ended.into_inner().status_code, 0);

    let found = client
        .get_replica_list(get("k"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(found.replica_list[0].status(), ReplicaStatus::Complete);
    let by_regex = GetReplicaListByRegexRequest {
        key_regex: "^k".into(),
    };
    let found = client.get_replica_list_by_regex(by_regex).await.unwrap();
    let found = found.into_inner().object_map;
    assert_eq!(found["k"].replica_list[0].handles.len(), 2);
    for status in [0, -704] {
        let removed = client
            .remove(RemoveRequest { key: "k".into() })
            .await
            .unwrap();
        assert_eq!(removed.into_inner().status_code, status);
    }
}

#[tokio::test]
async fn batches_of_the_seed_are_answered() {
    let server = server().await;
    let mut client = client(&server.address).await;
    client.put_start(put_start("k")).await.unwrap();
    client.put_end(end("k")).await.unwrap();
    let clear = BatchReplicaClearRequest {
        object_keys: vec!["k".into(), "other".into()],
        client_id: Some(Uuid {
            first: 1,
            second: 2,
        }),
        segment_name: None,
    };
    let cleared = client
        .batch_replica_clear(clear)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (cleared.status_code, cleared.cleared_keys),
        (0, vec!["k".to_owned()])
    );

    let query = BatchQueryIpRequest {
        client_ids: vec![
            Uuid {
                first: 1,
                second: 2,
            },
            Uuid {
                first: 9,
                second: 9,
            },
        ],
    };
    let found = client.batch_query_ip(query).await.unwrap().into_inner();
    assert_eq!(found.client_ip_map.len(), 1);
    assert_eq!(found.client_ip_map["1-2"].ip_addresses, ["10.0.0.1"]);

    let remove = |regex: &str| RemoveByRegexRequest {
        key_regex: regex.into(),
    };
    let removed = client
        .remove_by_regex(remove("."))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((removed.status_code, removed.removed_count), (0, Some(0)));
    let removed = client
        .remove_by_regex(remove("("))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((removed.status_code, removed.removed_count), (-600, None));
}

#[tokio::test]
async fn what_is_wrong_is_a_status_code_and_a_sentence() {
    let server = server().await;
    let mut client = client(&server.address).await;
    let bad = PutStartRequest {
        slice_lengths: vec![3],
        ..put_start("k")
    };
    let refused = client.put_start(bad).await.unwrap();
    let what = refused
        .metadata()
        .get("ziggurat-what")
        .unwrap()
        .to_str()
        .unwrap();
    assert!(what.contains("[3]") && what.contains('7'), "{what}");
    assert_eq!(refused.into_inner().status_code, -600);
    let refused = client.get_replica_list(get("")).await.unwrap();
    assert_eq!(refused.into_inner().status_code, -400);
    let refused = client.get_replica_list(get("none")).await.unwrap();
    assert_eq!(
        refused.metadata().get("ziggurat-what").unwrap(),
        "no object \\\"\\u{fc}\\\""
    );
}

#[tokio::test]
async fn a_write_belongs_to_its_connection() {
    let server = server().await;
    let mut writer = client(&server.address).await;
    let mut other = client(&server.address).await;
    writer.put_start(put_start("k")).await.unwrap();
    assert_eq!(
        other
            .put_end(end("k"))
            .await
            .unwrap()
            .into_inner()
            .status_code,
        -700
    );
    assert_eq!(
        writer
            .put_end(end("k"))
            .await
            .unwrap()
            .into_inner()
            .status_code,
        0
    );
    drop(writer);
    for _ in 0..2000 {
        if server.backend.state.lock().unwrap().gone.len() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the backend was not told that the client has gone");
}

#[tokio::test]
async fn frames_and_http2_share_a_port() {
    let server = server().await;
    let mut foreign = client(&server.address).await;
    let hello = Hello::new(PeerKind::Client);
    let own = Session::connect(&server.address, &hello, SessionOptions::default())
        .await
        .unwrap();
    own.stats().await.unwrap();
    assert_eq!(
        foreign
            .get_replica_list(get("x"))
            .await
            .unwrap()
            .into_inner()
            .status_code,
        -704
    );
    own.stats().await.unwrap();
    assert_eq!(server.counts.snapshot().connections_open, 2);

    let mut odd = tokio::net::TcpStream::connect(&server.address)
        .await
        .unwrap();
    odd.write_all(b"PRI * HTTP/1.1\r\n\r\nxxxxxxxx")
        .await
        .unwrap();
    for _ in 0..2000 {
        if server.counts.snapshot().closed(CloseReason::Preface) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing was closed");
}
