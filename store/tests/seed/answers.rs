//! Every call with what it refuses, by the seed's numbers.

use crate::{
    INVALID_PARAMS, OBJECT_ALREADY_EXISTS, OBJECT_HAS_LEASE, OBJECT_NOT_FOUND,
    client::{on, replicas},
    cluster::Cluster,
};
use ziggurat_proto::seed::message::{
    BatchQueryIpRequest, BatchReplicaClearRequest, GetReplicaListByRegexRequest,
    GetReplicaListRequest, MountSegmentRequest, PutEndRequest, PutStartRequest,
    RemoveByRegexRequest, RemoveRequest, ReplicateConfig, UnmountSegmentRequest, Uuid,
};
use ziggurat_store::{PutOptions, PutRequest};

const INVALID_KEY: i32 = -400;

fn put(key: &str, value_length: i64, slices: &[u64], config: ReplicateConfig) -> PutStartRequest {
    PutStartRequest {
        key: key.into(),
        value_length,
        config: Some(config),
        slice_lengths: slices.to_vec(),
    }
}

#[tokio::test]
async fn every_fault_of_a_put_has_its_code() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    let any = ReplicateConfig::default;
    assert_eq!(client.put("there", &[b"x"], any()).await, 1);
    client.put_start("open", &[1], any()).await.unwrap();
    let config = |change: fn(&mut ReplicateConfig)| {
        let mut config = ReplicateConfig::default();
        change(&mut config);
        put("k", 1, &[1], config)
    };
    let table = [
        (put("", 1, &[1], any()), INVALID_KEY),
        (put(&"k".repeat(4097), 1, &[1], any()), INVALID_KEY),
        (put("k", -1, &[], any()), INVALID_PARAMS),
        (put("k", 3, &[1, 1], any()), INVALID_PARAMS),
        (put("k", 3, &[], any()), INVALID_PARAMS),
        (put("k", 0, &[u64::MAX, 1], any()), INVALID_PARAMS),
        (put("k", 513, &[1; 513], any()), INVALID_PARAMS),
        (config(|c| c.replica_num = Some(0)), INVALID_PARAMS),
        (config(|c| c.replica_num = Some(256)), INVALID_PARAMS),
        (config(|c| c.nof_replica_num = 1), INVALID_PARAMS),
        (config(|c| c.dfs_replica_num = 1), -1601),
        (config(|c| c.dfs_replica_num = 2), INVALID_PARAMS),
        (config(|c| c.soft_pin_action = 3), INVALID_PARAMS),
        (config(|c| c.soft_pin_ttl_ms = Some(1)), INVALID_PARAMS),
        (config(|c| c.with_hard_pin = true), -1012),
        (put("k", 1 << 30, &[1 << 30], any()), -200),
        (put("there", 1, &[1], any()), OBJECT_ALREADY_EXISTS),
        (put("open", 1, &[1], any()), OBJECT_ALREADY_EXISTS),
    ];
    for (request, code) in table {
        let what = format!("{request:?}");
        assert_eq!(
            client.put_start_raw(request).await,
            Err(code),
            "{what:.200}"
        );
    }
    assert_eq!(cluster.writes_open(), 1, "a refused put reserves nothing");
    let (status, what) = client
        .status_of_end(PutEndRequest { key: "k".into() })
        .await;
    assert_eq!(status, -700);
    assert!(what.contains("PutStart"), "{what}");
    let (status, _) = client
        .status_of_end(PutEndRequest { key: String::new() })
        .await;
    assert_eq!(status, INVALID_KEY);
    let pinned = ReplicateConfig {
        soft_pin_action: 1,
        soft_pin_ttl_ms: Some(5),
        ..any()
    };
    assert_eq!(client.put("pinned", &[b"x"], pinned).await, 1);
}

#[tokio::test]
async fn every_fault_of_a_segment_has_its_code() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    let mount = |name: &str, buffer, size| MountSegmentRequest {
        buffer,
        size,
        segment_name: name.into(),
    };
    for (request, code) in [
        (mount("a", 0, 1 << 20), INVALID_PARAMS),
        (mount("a", 1, 0), INVALID_PARAMS),
        (mount("a", 1, 1), INVALID_PARAMS),
        (mount("", 1, 1 << 20), INVALID_PARAMS),
        (mount(&"a".repeat(257), 1, 1 << 20), INVALID_PARAMS),
        (mount("a", 1, 17 << 20), -200),
        (mount("a", 1, u64::MAX), -200),
        (mount("n0", 1, 16 << 20), -102),
    ] {
        let what = format!("{request:?}");
        let answer = client.master.mount_segment(request).await.unwrap();
        assert_eq!(answer.into_inner().status_code, code, "{what}");
    }
    assert_eq!(cluster.stats().segments, 1);
    for (name, code) in [("", INVALID_PARAMS), ("a", -101), ("n0", -601)] {
        let segment_name = name.into();
        let answer = client
            .master
            .unmount_segment(UnmountSegmentRequest { segment_name });
        assert_eq!(
            answer.await.unwrap().into_inner().status_code,
            code,
            "{name}"
        );
    }
}

#[tokio::test]
async fn every_fault_of_the_other_calls_has_its_code() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    client.put_start("open", &[1], replicas(1)).await.unwrap();
    for (key, of_get, of_remove) in [
        ("", INVALID_KEY, INVALID_KEY),
        ("absent", OBJECT_NOT_FOUND, OBJECT_NOT_FOUND),
        ("open", -703, -703),
    ] {
        let request = GetReplicaListRequest { key: key.into() };
        let answer = client.master.get_replica_list(request).await.unwrap();
        assert_eq!(answer.into_inner().status_code, of_get, "{key}");
        let request = RemoveRequest { key: key.into() };
        let answer = client.master.remove(request).await.unwrap();
        assert_eq!(answer.into_inner().status_code, of_remove, "{key}");
    }
    for pattern in ["(", "(?=a)", "a{9999999}"] {
        let key_regex = pattern.to_owned();
        let request = GetReplicaListByRegexRequest { key_regex };
        let answer = client.master.get_replica_list_by_regex(request).await;
        assert_eq!(
            answer.unwrap().into_inner().status_code,
            INVALID_PARAMS,
            "{pattern}"
        );
        let key_regex = pattern.to_owned();
        let answer = client
            .master
            .remove_by_regex(RemoveByRegexRequest { key_regex });
        assert_eq!(
            answer.await.unwrap().into_inner().status_code,
            INVALID_PARAMS,
            "{pattern}"
        );
    }

    let client_ids = vec![Uuid::default(); 513];
    let answer = client
        .master
        .batch_query_ip(BatchQueryIpRequest { client_ids });
    assert_eq!(
        answer.await.unwrap().into_inner().status_code,
        INVALID_PARAMS
    );
    let request = BatchReplicaClearRequest {
        object_keys: vec!["absent".into()],
        client_id: None,
        segment_name: None,
    };
    let answer = client.master.batch_replica_clear(request.clone()).await;
    assert_eq!(answer.unwrap().into_inner().status_code, INVALID_PARAMS);
    let request = BatchReplicaClearRequest {
        object_keys: vec!["absent".into(); 513],
        client_id: Some(Uuid::default()),
        ..request
    };
    let answer = client.master.batch_replica_clear(request).await;
    assert_eq!(answer.unwrap().into_inner().status_code, INVALID_PARAMS);
}

#[tokio::test]
async fn a_cluster_without_nodes_says_so() {
    let cluster = Cluster::start(0).await;
    let mut client = cluster.client().await;
    assert_eq!(client.put_start("k", &[1], replicas(1)).await, Err(-200));
    assert_eq!(client.mount("mine", 1 << 20).await, -1010);
    assert_eq!(client.get("k").await, Err(OBJECT_NOT_FOUND));
    assert_eq!(client.remove_by_regex("").await, Ok(0));
}

#[tokio::test]
async fn lists_lease_what_they_name_and_end_at_ten_thousand() {
    let cluster = Cluster::start(1).await;
    let mut client = cluster.client().await;
    let own = cluster.store().await;
    for batch in 0..20 {
        let keys: Vec<_> = (0..512).map(|n| format!("many/{batch}/{n}")).collect();
        let requests: Vec<_> = keys
            .iter()
            .map(|key| PutRequest::new(key.as_bytes(), &[]))
            .collect();
        for put in own.put_many(&requests, &PutOptions::default()).await {
            put.unwrap();
        }
    }
    assert_eq!(client.put("mine", &[b"x"], on("n0")).await, 1);
    assert_eq!(client.list("").await, Err(-10));
    assert_eq!(client.list("^many/7/").await.unwrap().len(), 512);
    assert_eq!(client.remove("many/7/7").await, OBJECT_HAS_LEASE);
    assert_eq!(client.remove_by_regex("^many/").await, Ok(19 * 512));
    cluster.pass();
    assert_eq!(client.remove_by_regex("").await, Ok(513));
    assert_eq!(client.list("").await.unwrap(), []);
}
