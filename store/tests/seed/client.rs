//! A client that knows only the seed's words.

use crate::bytes::Wire;
use tonic::transport::Channel;
use ziggurat_proto::seed::message::{
    BatchQueryIpRequest, BatchReplicaClearRequest, BufHandle, GetReplicaListByRegexRequest,
    GetReplicaListRequest, MountSegmentRequest, PutEndRequest, PutStartRequest,
    RemoveByRegexRequest, RemoveRequest, ReplicaInfo, ReplicateConfig, UnmountSegmentRequest, Uuid,
    master_service_client::MasterServiceClient, replica_info::ReplicaStatus,
};

pub(crate) struct Foreign {
    pub(crate) master: MasterServiceClient<Channel>,
}

/// Replicas, or the status code.
pub(crate) type Found = Result<Vec<ReplicaInfo>, i32>;

fn checked<T>(status: i32, value: T) -> Result<T, i32> {
    match status {
        0 => Ok(value),
        status => Err(status),
    }
}

macro_rules! ask {
    ($self:ident . $call:ident($request:expr)) => {
        $self.master.$call($request).await.unwrap().into_inner()
    };
}

impl Foreign {
    pub(crate) async fn connect(address: &str) -> Self {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap();
        Self {
            master: MasterServiceClient::new(channel.connect().await.unwrap()),
        }
    }

    pub(crate) async fn mount(&mut self, name: &str, size: u64) -> i32 {
        let request = MountSegmentRequest {
            buffer: 0x7f00_0000_0000,
            size,
            segment_name: name.into(),
        };
        ask!(self.mount_segment(request)).status_code
    }

    pub(crate) async fn unmount(&mut self, name: &str) -> i32 {
        let segment_name = name.into();
        ask!(self.unmount_segment(UnmountSegmentRequest { segment_name })).status_code
    }

    pub(crate) async fn put_start(
        &mut self,
        key: &str,
        slices: &[u64],
        config: ReplicateConfig,
    ) -> Found {
        let request = PutStartRequest {
            key: key.into(),
            value_length: slices.iter().sum::<u64>() as i64,
            config: Some(config),
            slice_lengths: slices.to_vec(),
        };
        self.put_start_raw(request).await
    }

    pub(crate) async fn put_start_raw(&mut self, request: PutStartRequest) -> Found {
        let answer = ask!(self.put_start(request));
        checked(answer.status_code, answer.replica_list)
    }

    pub(crate) async fn put_end(&mut self, key: &str) -> i32 {
        let key = key.into();
        ask!(self.put_end(PutEndRequest { key })).status_code
    }

    /// The status of a `PutEnd`, and the sentence that comes with it.
    pub(crate) async fn status_of_end(&mut self, request: PutEndRequest) -> (i32, String) {
        let answer = self.master.put_end(request).await.unwrap();
        let what = answer.metadata().get("ziggurat-what");
        let what = what.map_or("", |what| what.to_str().unwrap()).to_owned();
        (answer.into_inner().status_code, what)
    }

    pub(crate) async fn get(&mut self, key: &str) -> Found {
        let key = key.into();
        let answer = ask!(self.get_replica_list(GetReplicaListRequest { key }));
        checked(answer.status_code, answer.replica_list)
    }

    /// Keys, and for each the lengths of its replicas.
    pub(crate) async fn list(&mut self, regex: &str) -> Result<Vec<(String, Vec<u64>)>, i32> {
        let key_regex = regex.into();
        let request = GetReplicaListByRegexRequest { key_regex };
        let answer = ask!(self.get_replica_list_by_regex(request));
        let lens = |replicas: &[ReplicaInfo]| {
            let handles = replicas.iter().map(|r| &r.handles[0]);
            handles
                .map(|h| {
                    assert_eq!(h.buffer, 0, "a list opens nothing");
                    h.size
                })
                .collect()
        };
        let found = answer.object_map.into_iter();
        let mut found: Vec<_> = found
            .map(|(key, list)| (key, lens(&list.replica_list)))
            .collect();
        found.sort();
        checked(answer.status_code, found)
    }

    pub(crate) async fn remove(&mut self, key: &str) -> i32 {
        let key = key.into();
        ask!(self.remove(RemoveRequest { key })).status_code
    }

    pub(crate) async fn remove_by_regex(&mut self, regex: &str) -> Result<i64, i32> {
        let key_regex = regex.into();
        let answer = ask!(self.remove_by_regex(RemoveByRegexRequest { key_regex }));
        checked(answer.status_code, answer.removed_count.unwrap_or(-1))
    }

    pub(crate) async fn clear(&mut self, keys: &[&str], segment: &str) -> Result<Vec<String>, i32> {
        let request = BatchReplicaClearRequest {
            object_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            client_id: Some(Uuid {
                first: 3,
                second: 4,
            }),
            segment_name: Some(segment.into()),
        };
        let answer = ask!(self.batch_replica_clear(request));
        checked(answer.status_code, answer.cleared_keys)
    }

    pub(crate) async fn ips(&mut self, clients: &[(u64, u64)]) -> Vec<(String, Vec<String>)> {
        let uuid = |(first, second): &(u64, u64)| Uuid {
            first: *first,
            second: *second,
        };
        let client_ids = clients.iter().map(uuid).collect();
        let answer = ask!(self.batch_query_ip(BatchQueryIpRequest { client_ids }));
        assert_eq!(answer.status_code, 0);
        let found = answer.client_ip_map.into_iter();
        found.map(|(id, list)| (id, list.ip_addresses)).collect()
    }

    /// The whole of a put, each replica written.
    pub(crate) async fn put(
        &mut self,
        key: &str,
        slices: &[&[u8]],
        config: ReplicateConfig,
    ) -> usize {
        let lens: Vec<_> = slices.iter().map(|slice| slice.len() as u64).collect();
        let replicas = self.put_start(key, &lens, config).await.unwrap();
        // Even an empty payload has a handle.
        let slices = if slices.is_empty() {
            &[&[][..]]
        } else {
            slices
        };
        for replica in &replicas {
            assert_eq!(replica.status(), ReplicaStatus::Processing);
            write(&replica.handles, slices).await;
        }
        assert_eq!(self.put_end(key).await, 0);
        replicas.len()
    }

    /// Every replica of an object, read through its tokens.
    pub(crate) async fn read(&mut self, key: &str) -> Result<Vec<Vec<u8>>, i32> {
        let mut values = Vec::new();
        for replica in self.get(key).await? {
            assert_eq!(replica.status(), ReplicaStatus::Complete);
            let mut value = Vec::new();
            for handle in &replica.handles {
                let mut wire = Wire::connect(&handle.endpoint).await;
                value.extend(wire.read(handle.buffer, 0, handle.size).await?);
            }
            values.push(value);
        }
        Ok(values)
    }
}

/// Writes each slice into its handle.
pub(crate) async fn write(handles: &[BufHandle], slices: &[&[u8]]) {
    assert_eq!(handles.len(), slices.len());
    for (handle, slice) in handles.iter().zip(slices) {
        assert_eq!(handle.size, slice.len() as u64);
        let mut wire = Wire::connect(&handle.endpoint).await;
        assert_eq!(wire.write(handle.buffer, 0, slice).await, 0);
    }
}

pub(crate) fn replicas(count: u64) -> ReplicateConfig {
    ReplicateConfig {
        replica_num: Some(count),
        ..ReplicateConfig::default()
    }
}

pub(crate) fn on(segment: &str) -> ReplicateConfig {
    ReplicateConfig {
        preferred_segments: vec![segment.into()],
        ..ReplicateConfig::default()
    }
}
