//! The generated service over a [`SeedBackend`], for one connection.

use super::{Peer, SeedBackend, convert, message::*};
use crate::counts::{CallKind, Counts};
use master_service_server::MasterService;
use std::{collections::HashMap, sync::Arc, time::Instant};
use tonic::{Request, Response, Status};
use ziggurat_base::{Code, Error, Key};
use ziggurat_engine::command::Answer;

/// Response header with the sentence that belongs to a `status_code` other than 0.
const WHAT: &str = "ziggurat-what";

/// One foreign client's view of a backend.
pub(super) struct SeedService {
    pub(super) backend: Arc<dyn SeedBackend>,
    pub(super) peer: Peer,
    pub(super) counts: Arc<Counts>,
}

impl SeedService {
    /// Does the work, counts it, and composes the response: `status_code` from the outcome, the rest from the value, which is
    /// empty after a failure.
    async fn answer<T: Default, R>(
        &self,
        kind: CallKind,
        work: impl Future<Output = Answer<T>>,
        compose: impl FnOnce(i32, T) -> R,
    ) -> Result<Response<R>, Status> {
        let started = Instant::now();
        let outcome = work.await;
        self.counts.call(kind, started.elapsed(), outcome.is_ok());
        let (code, value, error) = match outcome {
            Ok(value) => (Code::Ok, value, None),
            Err(error) => (error.code(), T::default(), Some(error)),
        };
        let mut response = Response::new(compose(code.number(), value));
        // Header values are ASCII; the text may name a key of any characters.
        let what = error.map(|error| error.what().escape_default().to_string());
        if let Some(Ok(what)) = what.map(|what| what.parse()) {
            response.metadata_mut().insert(WHAT, what);
        }
        Ok(response)
    }
}

fn key(text: &str) -> Result<Key<'_>, Error> {
    Key::new(text.as_bytes())
}

fn name(text: &str) -> Result<&str, Error> {
    if text.is_empty() {
        return Err(Error::new(Code::InvalidParams, "segment_name is empty"));
    }
    Ok(text)
}

#[tonic::async_trait]
impl MasterService for SeedService {
    async fn get_replica_list(
        &self,
        request: Request<GetReplicaListRequest>,
    ) -> Result<Response<GetReplicaListResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            let list = self
                .backend
                .get_replica_list(self.peer, key(&request.key)?)
                .await?;
            Ok(convert::replica_list(&list))
        };
        self.answer(
            CallKind::SeedGetReplicaList,
            work,
            |status_code, replica_list| GetReplicaListResponse {
                status_code,
                replica_list,
            },
        )
        .await
    }

    async fn get_replica_list_by_regex(
        &self,
        request: Request<GetReplicaListByRegexRequest>,
    ) -> Result<Response<GetReplicaListByRegexResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            let regex = &request.key_regex;
            let found = self
                .backend
                .get_replica_list_by_regex(self.peer, regex)
                .await?;
            let entries = found.iter().filter_map(|(key, list)| {
                let key = std::str::from_utf8(key.as_key().bytes()).ok()?;
                let replica_list = convert::replica_list(list);
                Some((key.to_owned(), ObjectReplicaList { replica_list }))
            });
            Ok(entries.collect::<HashMap<_, _>>())
        };
        self.answer(
            CallKind::SeedGetReplicaListByRegex,
            work,
            |status_code, object_map| GetReplicaListByRegexResponse {
                status_code,
                object_map,
            },
        )
        .await
    }

    async fn batch_query_ip(
        &self,
        request: Request<BatchQueryIpRequest>,
    ) -> Result<Response<BatchQueryIpResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            convert::check_count(request.client_ids.len())?;
            let clients: Vec<_> = request.client_ids.iter().map(convert::client).collect();
            let found = self.backend.batch_query_ip(&clients).await?;
            let entries = found
                .into_iter()
                .map(|(client, ip_addresses)| (client.to_string(), IpAddressList { ip_addresses }));
            Ok(entries.collect::<HashMap<_, _>>())
        };
        self.answer(
            CallKind::SeedBatchQueryIp,
            work,
            |status_code, client_ip_map| BatchQueryIpResponse {
                status_code,
                client_ip_map,
            },
        )
        .await
    }

    async fn batch_replica_clear(
        &self,
        request: Request<BatchReplicaClearRequest>,
    ) -> Result<Response<BatchReplicaClearResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            let clear = convert::clear(&request)?;
            let cleared = self.backend.batch_replica_clear(&clear).await?;
            let text = |key: &ziggurat_base::ObjectKey| {
                String::from_utf8_lossy(key.as_key().bytes()).into_owned()
            };
            Ok(cleared.iter().map(text).collect::<Vec<_>>())
        };
        self.answer(
            CallKind::SeedBatchReplicaClear,
            work,
            |status_code, cleared_keys| BatchReplicaClearResponse {
                status_code,
                cleared_keys,
            },
        )
        .await
    }

    async fn put_start(
        &self,
        request: Request<PutStartRequest>,
    ) -> Result<Response<PutStartResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            let put = convert::put(&request)?;
            let list = self.backend.put_start(self.peer, &put).await?;
            Ok(convert::replica_list(&list))
        };
        self.answer(CallKind::SeedPutStart, work, |status_code, replica_list| {
            PutStartResponse {
                status_code,
                replica_list,
            }
        })
        .await
    }

    async fn put_end(
        &self,
        request: Request<PutEndRequest>,
    ) -> Result<Response<PutEndResponse>, Status> {
        let request = request.into_inner();
        let work = async { self.backend.put_end(self.peer, key(&request.key)?).await };
        self.answer(CallKind::SeedPutEnd, work, |status_code, ()| {
            PutEndResponse { status_code }
        })
        .await
    }

    async fn remove(
        &self,
        request: Request<RemoveRequest>,
    ) -> Result<Response<RemoveResponse>, Status> {
        let request = request.into_inner();
        let work = async { self.backend.remove(self.peer, key(&request.key)?).await };
        self.answer(CallKind::SeedRemove, work, |status_code, ()| {
            RemoveResponse { status_code }
        })
        .await
    }

    async fn remove_by_regex(
        &self,
        request: Request<RemoveByRegexRequest>,
    ) -> Result<Response<RemoveByRegexResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            let removed = self
                .backend
                .remove_by_regex(self.peer, &request.key_regex)
                .await?;
            Ok(Some(i64::try_from(removed).unwrap_or(i64::MAX)))
        };
        self.answer(
            CallKind::SeedRemoveByRegex,
            work,
            |status_code, removed_count| RemoveByRegexResponse {
                status_code,
                removed_count,
            },
        )
        .await
    }

    async fn mount_segment(
        &self,
        request: Request<MountSegmentRequest>,
    ) -> Result<Response<MountSegmentResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            if request.buffer == 0 || request.size == 0 {
                let what = "buffer and size of a segment must not be 0";
                return Err(Error::new(Code::InvalidParams, what));
            }
            let name = name(&request.segment_name)?;
            self.backend
                .mount_segment(self.peer, name, request.size)
                .await
        };
        self.answer(CallKind::SeedMountSegment, work, |status_code, ()| {
            MountSegmentResponse { status_code }
        })
        .await
    }

    async fn unmount_segment(
        &self,
        request: Request<UnmountSegmentRequest>,
    ) -> Result<Response<UnmountSegmentResponse>, Status> {
        let request = request.into_inner();
        let work = async {
            let name = name(&request.segment_name)?;
            self.backend.unmount_segment(self.peer, name).await
        };
        self.answer(CallKind::SeedUnmountSegment, work, |status_code, ()| {
            UnmountSegmentResponse { status_code }
        })
        .await
    }
}
