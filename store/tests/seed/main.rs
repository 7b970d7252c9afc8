//! Foreign clients: the seed's protocol end to end, over loopback, with a client that uses only the seed's fields and
//! moves bytes through the data plane by tokens.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod answers;
mod bytes;
mod client;
mod cluster;
mod faults;
mod proxy;

use bytes::Wire;
use client::{on, replicas, write};
use cluster::{Cluster, comes, payload};
use ziggurat_base::CHUNK;
use ziggurat_proto::seed::message::{PutStartRequest, ReplicateConfig};

const INVALID_WRITE: i32 = -700;
const INVALID_REPLICA: i32 = -702;
const INVALID_PARAMS: i32 = -600;
const OBJECT_NOT_FOUND: i32 = -704;
const OBJECT_ALREADY_EXISTS: i32 = -705;
const OBJECT_HAS_LEASE: i32 = -706;
const REPLICA_IS_GONE: i32 = -712;
const CHECKSUM_MISMATCH: i32 = -801;
const RPC_TIMEOUT: i32 = -901;

#[tokio::test]
async fn a_client_mounts_puts_reads_lists_removes_and_unmounts() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    assert_eq!(client.mount("mine", 8 << 20).await, 0);
    assert_eq!(cluster.stats().segments, 2);

    let value = payload(3 * CHUNK + 200, 5);
    let (a, rest) = value.split_at(3);
    let (b, c) = rest.split_at(2 * CHUNK + 17);
    assert_eq!(client.put("k/1", &[a, b, &[], c], on("mine")).await, 1);
    assert_eq!(client.put("k/2", &[b"second"], replicas(1)).await, 1);
    assert_eq!(client.put("other", &[], replicas(1)).await, 1);
    assert_eq!(client.read("k/1").await.unwrap(), [&value[..]]);
    assert_eq!(client.read("other").await.unwrap(), [Vec::<u8>::new()]);
    let own = cluster.store().await;
    assert_eq!(own.get("k/1").await.unwrap().as_deref(), Some(&value[..]));
    let part = own.get_range("k/1", 70_000, 9).await.unwrap();
    assert_eq!(part.as_deref(), Some(&value[70_000..70_009]));
    own.put("own", &value).await.unwrap();
    assert_eq!(client.read("own").await.unwrap(), [&value[..]]);

    let listed = client.list("^k/[0-9]$").await.unwrap();
    let len = value.len() as u64;
    assert_eq!(
        listed,
        [("k/1".to_owned(), vec![len]), ("k/2".to_owned(), vec![6])]
    );
    assert_eq!(client.list("(").await, Err(INVALID_PARAMS));

    assert_eq!(client.remove("k/2").await, OBJECT_HAS_LEASE);
    cluster.pass();
    assert_eq!(client.remove("k/2").await, 0);
    assert_eq!(client.remove("k/2").await, OBJECT_NOT_FOUND);
    assert_eq!(client.get("k/2").await, Err(OBJECT_NOT_FOUND));

    let read = client.get("k/1").await.unwrap();
    let handle = &read[0].handles[0];
    assert_eq!(client.unmount("mine").await, 0);
    assert_eq!(client.unmount("mine").await, -101);
    let mut wire = Wire::connect(&handle.endpoint).await;
    let late = wire.read(handle.buffer, 0, handle.size).await;
    assert_eq!(late, Err(INVALID_REPLICA), "its memory is gone");
    assert_eq!(client.get("k/1").await, Err(OBJECT_NOT_FOUND));
    cluster.pass();
    assert_eq!(client.remove_by_regex("^o").await, Ok(2));
    assert_eq!(client.get("other").await, Err(OBJECT_NOT_FOUND));
}

#[tokio::test]
async fn two_replicas_of_a_put_are_written_proved_and_read() {
    let cluster = Cluster::start(2).await;
    let mut client = cluster.client().await;
    let large = payload(5 * CHUNK + 1, 9);
    for (key, value) in [("empty", &[][..]), ("small", b"x"), ("large", &large)] {
        let (left, right) = value.split_at(value.len() / 3);
        assert_eq!(client.put(key, &[left, right], replicas(2)).await, 2);
        assert_eq!(client.read(key).await.unwrap(), [value, value], "{key}");
    }
    let own = cluster.store().await;
    assert_eq!(own.get("empty").await.unwrap().as_deref(), Some(&[][..]));
    let started = client.put_start("torn", &[5], replicas(2)).await.unwrap();
    write(&started[0].handles, &[b"first"]).await;
    write(&started[1].handles, &[b"other"]).await;
    assert_eq!(client.put_end("torn").await, CHECKSUM_MISMATCH);
    assert_eq!(client.get("torn").await, Err(OBJECT_NOT_FOUND));
    let started = client.put_start("half", &[5], replicas(2)).await.unwrap();
    write(&started[1].handles, &[b"other"]).await;
    assert_eq!(client.put_end("half").await, 0, "one replica is enough");
    assert_eq!(client.read("half").await.unwrap(), [b"other"]);
}

#[tokio::test]
async fn calls_in_the_wrong_order_are_refused_by_code() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    let mut other = cluster.client().await;
    assert_eq!(
        client.put_end("k").await,
        INVALID_WRITE,
        "nothing was started"
    );
    let wrong_sum = PutStartRequest {
        key: "k".into(),
        value_length: 8,
        config: None,
        slice_lengths: vec![3, 4],
    };
    assert_eq!(client.put_start_raw(wrong_sum).await, Err(INVALID_PARAMS));
    let pinned = ReplicateConfig {
        with_hard_pin: true,
        ..ReplicateConfig::default()
    };
    assert_eq!(client.put_start("k", &[1], pinned).await, Err(-1012));
    assert_eq!(cluster.writes_open(), 0);

    let started = client.put_start("k", &[4, 3], replicas(1)).await.unwrap();
    assert_eq!(other.put_end("k").await, INVALID_WRITE, "another's write");
    let again = other.put_start("k", &[4, 3], replicas(1)).await;
    assert_eq!(again, Err(OBJECT_ALREADY_EXISTS));
    assert_eq!(client.get("k").await, Err(-703));
    assert_eq!(client.remove("k").await, -703);
    write(&started[0].handles, &[b"four", b"123"]).await;
    assert_eq!(client.put_end("k").await, 0);
    assert_eq!(client.put_end("k").await, INVALID_WRITE);
    let again = client.put_start("k", &[1], replicas(1)).await;
    assert_eq!(again, Err(OBJECT_ALREADY_EXISTS));

    client
        .put_start("short", &[4, 3], replicas(1))
        .await
        .unwrap();
    assert_eq!(
        client.put_end("short").await,
        INVALID_WRITE,
        "no byte has come"
    );
    assert_eq!(client.put("short", &[b"now"], replicas(1)).await, 1);
    assert_eq!(client.get("").await, Err(-400));
    let much = client.put_start("much", &[1 << 40], replicas(1)).await;
    assert_eq!(much, Err(-200));
}

#[tokio::test]
async fn tokens_open_nothing_but_what_they_stand_for() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    let started = client.put_start("k", &[8], replicas(1)).await.unwrap();
    let handle = started[0].handles[0].clone();
    let token = handle.buffer;
    let mut wire = Wire::connect(&handle.endpoint).await;
    assert_eq!(wire.write(token ^ 1, 0, b"x").await, INVALID_WRITE);
    assert_eq!(wire.write(token, 7, b"xx").await, INVALID_PARAMS);
    assert_eq!(wire.read(token, 0, 8).await, Err(INVALID_REPLICA));
    assert_eq!(
        wire.write_damaged(token, b"12345678").await,
        CHECKSUM_MISMATCH
    );
    assert_eq!(wire.write_unsummed(token, 5, b"678").await, 0);
    assert_eq!(wire.write(token, 0, b"12345").await, 0);
    assert_eq!(client.put_end("k").await, 0);
    assert_eq!(wire.write(token, 0, b"again!!!").await, INVALID_WRITE);

    let read = client.get("k").await.unwrap()[0].handles[0].clone();
    assert_ne!(read.buffer, token);
    assert_eq!(wire.write(read.buffer, 0, b"again!!!").await, INVALID_WRITE);
    assert_eq!(wire.read(read.buffer, 2, 3).await.unwrap(), b"345");
    assert_eq!(wire.read(read.buffer, 2, 7).await, Err(INVALID_PARAMS));
    cluster.pass();
    assert_eq!(client.remove("k").await, 0);
    assert_eq!(wire.write(token, 0, b"late").await, INVALID_WRITE);
}

#[tokio::test]
async fn a_write_that_is_under_way_at_its_end_spoils_the_put() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    let started = client
        .put_start("k", &[100_000], replicas(1))
        .await
        .unwrap();
    let handle = &started[0].handles[0];
    let value = payload(100_000, 1);
    let mut wire = Wire::connect(&handle.endpoint).await;
    assert_eq!(wire.write(handle.buffer, 0, &value).await, 0);
    wire.write_almost(handle.buffer, &value).await;
    comes("most of it has arrived", || {
        cluster.nodes[0].counts().bytes_in > 150_000
    })
    .await;
    assert_eq!(client.put_end("k").await, INVALID_WRITE);
    assert_eq!(wire.write_last(0).await, INVALID_WRITE);
    assert_eq!(client.put("k", &[b"anew"], replicas(1)).await, 1);
}

#[tokio::test]
async fn what_a_client_was_writing_goes_with_its_connection() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    let started = client.put_start("k", &[8], replicas(1)).await.unwrap();
    let handle = started[0].handles[0].clone();
    assert_eq!(cluster.writes_open(), 1);
    drop(client);
    comes("the write is given up", || cluster.writes_open() == 0).await;
    let mut other = cluster.client().await;
    assert_eq!(other.put("k", &[b"anothers"], replicas(1)).await, 1);
    let mut wire = Wire::connect(&handle.endpoint).await;
    assert_eq!(
        wire.write(handle.buffer, 0, b"too late").await,
        INVALID_WRITE
    );
    assert_eq!(other.read("k").await.unwrap(), [b"anothers"]);
}

#[tokio::test]
async fn segments_are_mounted_once_and_within_bounds() {
    let cluster = Cluster::start(2).await;
    let mut client = cluster.client().await;
    assert_eq!(client.mount("a", 10 << 20).await, 0);
    assert_eq!(client.mount("a", 10 << 20).await, 0, "the same again");
    assert_eq!(client.mount("a", 9 << 20).await, -102);
    assert_eq!(client.mount("n0", 1 << 20).await, -102);
    assert_eq!(
        client.mount("b", 10 << 20).await,
        0,
        "the other node has room"
    );
    assert_eq!(client.mount("c", 10 << 20).await, -200);
    assert_eq!(client.mount("small", 1).await, INVALID_PARAMS);
    assert_eq!(client.unmount("n0").await, -601, "the node's own");
    assert_eq!(client.unmount("a").await, 0);
    assert_eq!(client.mount("c", 10 << 20).await, 0);

    let members: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| (0, node.member().0))
        .collect();
    let mut found = client
        .ips(&[members[0], (0, 1 << 60), (7, members[1].1)])
        .await;
    let expected = (format!("0-{}", members[0].1), vec!["127.0.0.1".to_owned()]);
    assert_eq!(found.pop(), Some(expected));
    assert!(found.is_empty());
}

#[tokio::test]
async fn what_nobody_reads_is_cleared() {
    let cluster = Cluster::start(2).await;
    let mut client = cluster.client().await;
    for key in ["a", "b"] {
        assert_eq!(client.put(key, &[b"value"], replicas(2)).await, 2);
    }
    client.put_start("open", &[5], replicas(1)).await.unwrap();
    client.get("b").await.unwrap();
    let keys = ["a", "b", "open", "absent"];
    assert_eq!(client.clear(&keys, "n0").await.unwrap(), ["a"]);
    assert_eq!(client.read("a").await.unwrap(), [b"value"]);
    assert_eq!(client.clear(&keys, "").await.unwrap(), Vec::<String>::new());
    cluster.pass();
    assert_eq!(client.clear(&keys, "").await.unwrap(), ["a", "b"]);
    assert_eq!(client.get("a").await, Err(OBJECT_NOT_FOUND));
}
