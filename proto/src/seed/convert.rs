//! Between the seed's messages and the words of [`super::SeedBackend`].

use super::{
    Clear, ClientId, Handle, Replica, ReplicaState, SeedPut, SoftPin,
    message::{
        BatchReplicaClearRequest, BufHandle, PutStartRequest, ReplicaInfo, ReplicateConfig, Uuid,
        buf_handle::BufStatus, replica_info::ReplicaStatus, replicate_config::SoftPinAction,
    },
};
use ziggurat_base::{Code, Error, Key};
use ziggurat_engine::command::{BATCH_MAX, Wish};

fn wrong(what: String) -> Error {
    Error::new(Code::InvalidParams, what)
}

/// Checks a `PutStart` as far as that needs no partition.
///
/// # Errors
/// `InvalidKey`; `InvalidParams` naming the value; `DfsServiceUnavailable` for DFS replicas, which this service has not.
pub(crate) fn put(request: &PutStartRequest) -> Result<SeedPut<'_>, Error> {
    let key = Key::new(request.key.as_bytes())?;
    let len = u64::try_from(request.value_length)
        .map_err(|_| wrong(format!("value_length {} is negative", request.value_length)))?;
    let slices = &request.slice_lengths;
    if slices.len() > BATCH_MAX {
        let what = format!("{} slices: {BATCH_MAX} are the most", slices.len());
        return Err(wrong(what));
    }
    let sum = slices
        .iter()
        .try_fold(0_u64, |sum, slice| sum.checked_add(*slice));
    if sum != Some(len) {
        let what = format!("slice_lengths {slices:?} do not add up to value_length {len}");
        return Err(wrong(what));
    }
    let config = request.config.clone().unwrap_or_default();
    Ok(SeedPut {
        key,
        slices: if slices.is_empty() {
            vec![0]
        } else {
            slices.clone()
        },
        wish: wish(&config)?,
        soft_pin: soft_pin(&config)?,
        hard_pin: config.with_hard_pin,
    })
}

fn wish(config: &ReplicateConfig) -> Result<Wish, Error> {
    let asked = config.replica_num.unwrap_or(1);
    let replicas = u8::try_from(asked).ok().filter(|replicas| *replicas > 0);
    let Some(replicas) = replicas else {
        return Err(wrong(format!("replica_num {asked}: 1 to 255 are possible")));
    };
    if config.nof_replica_num > 0 {
        return Err(wrong(
            "nof_replica_num: this service has no NoF replicas".into(),
        ));
    }
    match config.dfs_replica_num {
        0 => {}
        1 => {
            let what = "dfs_replica_num: this service has no DFS replicas";
            return Err(Error::new(Code::DfsServiceUnavailable, what));
        }
        more => {
            return Err(wrong(format!(
                "dfs_replica_num {more}: 0 or 1 are possible"
            )));
        }
    }
    let names = config.preferred_segments.iter();
    let single = Some(&config.preferred_segment).filter(|name| !name.is_empty());
    Ok(Wish {
        replicas,
        dfs: 0,
        preferred: names
            .chain(single)
            .map(|name| name.as_str().into())
            .collect(),
    })
}

fn soft_pin(config: &ReplicateConfig) -> Result<SoftPin, Error> {
    let pin = match SoftPinAction::try_from(config.soft_pin_action) {
        Ok(SoftPinAction::Enable) => return Ok(SoftPin::Enable(config.soft_pin_ttl_ms)),
        Ok(SoftPinAction::Preserve) => SoftPin::Preserve,
        Ok(SoftPinAction::Disable) => SoftPin::Disable,
        Err(_) => return Err(wrong(format!("soft_pin_action {}", config.soft_pin_action))),
    };
    match config.soft_pin_ttl_ms {
        None => Ok(pin),
        Some(_) => Err(wrong(
            "soft_pin_ttl_ms goes with the action ENABLE only".into(),
        )),
    }
}

/// Replicas as they travel.
pub(super) fn replica_list(replicas: &[Replica]) -> Vec<ReplicaInfo> {
    replicas.iter().map(replica_info).collect()
}

fn replica_info(replica: &Replica) -> ReplicaInfo {
    let (replica_status, status) = match replica.state {
        ReplicaState::Processing => (ReplicaStatus::Processing, BufStatus::Init),
        ReplicaState::Complete => (ReplicaStatus::Complete, BufStatus::Complete),
    };
    let handle = |handle: &Handle| BufHandle {
        segment_name: handle.segment.0.into(),
        size: handle.len,
        buffer: handle.token,
        status: status.into(),
        endpoint: handle.endpoint.to_string(),
    };
    ReplicaInfo {
        handles: replica.handles.iter().map(handle).collect(),
        status: replica_status.into(),
    }
}

/// A client's identity.
pub(super) fn client(uuid: &Uuid) -> ClientId {
    ClientId {
        first: uuid.first,
        second: uuid.second,
    }
}

/// What a `BatchReplicaClear` names. Impossible keys are passed over like absent ones.
///
/// # Errors
/// `InvalidParams` without an owner, or with too many keys.
pub(crate) fn clear(request: &BatchReplicaClearRequest) -> Result<Clear<'_>, Error> {
    check_count(request.object_keys.len())?;
    let owner = request.client_id.as_ref();
    let owner = owner.ok_or_else(|| wrong("client_id is missing".into()))?;
    let keys = request.object_keys.iter();
    Ok(Clear {
        keys: keys
            .filter_map(|key| Key::new(key.as_bytes()).ok())
            .collect(),
        client: client(owner),
        segment: request
            .segment_name
            .as_deref()
            .filter(|name| !name.is_empty()),
    })
}

/// Refuses a batch that would make a turn too long.
pub(super) fn check_count(count: usize) -> Result<(), Error> {
    crate::convert::batch::check_count(count)
}

#[cfg(test)]
mod tests {
    use super::{
        super::message::{PutStartRequest, ReplicateConfig, Uuid},
        BatchReplicaClearRequest, SoftPin, clear, put,
    };
    use ziggurat_base::Code;

    fn request(value_length: i64, slice_lengths: &[u64]) -> PutStartRequest {
        PutStartRequest {
            key: "k".into(),
            value_length,
            config: None,
            slice_lengths: slice_lengths.to_vec(),
        }
    }

    fn refused(request: &PutStartRequest) -> Code {
        put(request).unwrap_err().code()
    }

    #[test]
    fn slices_must_add_up_to_the_value() {
        assert_eq!(put(&request(7, &[3, 4])).unwrap().slices, [3, 4]);
        assert_eq!(put(&request(0, &[])).unwrap().slices, [0]);
        assert_eq!(refused(&request(7, &[3])), Code::InvalidParams);
        assert_eq!(refused(&request(7, &[])), Code::InvalidParams);
        assert_eq!(refused(&request(-1, &[])), Code::InvalidParams);
        assert_eq!(refused(&request(1, &[u64::MAX, 2])), Code::InvalidParams);
        assert_eq!(refused(&request(0, &[0; 513])), Code::InvalidParams);
    }

    #[test]
    fn a_config_is_checked_and_absent_means_one_replica() {
        assert_eq!(put(&request(0, &[])).unwrap().wish.replicas, 1);
        let with = |config| PutStartRequest {
            config: Some(config),
            ..request(1, &[1])
        };
        let config = ReplicateConfig {
            replica_num: Some(2),
            soft_pin_action: 1,
            soft_pin_ttl_ms: Some(5),
            preferred_segments: vec!["a".into()],
            preferred_segment: "b".into(),
            ..Default::default()
        };
        let whole = with(config.clone());
        let checked = put(&whole).unwrap();
        assert_eq!(checked.wish.replicas, 2);
        assert_eq!(checked.wish.preferred, ["a".into(), "b".into()]);
        assert_eq!(checked.soft_pin, SoftPin::Enable(Some(5)));
        let bad = [
            ReplicateConfig {
                replica_num: Some(0),
                ..config.clone()
            },
            ReplicateConfig {
                replica_num: Some(256),
                ..config.clone()
            },
            ReplicateConfig {
                nof_replica_num: 1,
                ..config.clone()
            },
            ReplicateConfig {
                dfs_replica_num: 2,
                ..config.clone()
            },
            ReplicateConfig {
                soft_pin_action: 2,
                ..config.clone()
            },
            ReplicateConfig {
                soft_pin_action: 9,
                ..config.clone()
            },
        ];
        for config in bad {
            assert_eq!(refused(&with(config)), Code::InvalidParams);
        }
        let dfs = ReplicateConfig {
            dfs_replica_num: 1,
            ..config
        };
        assert_eq!(refused(&with(dfs)), Code::DfsServiceUnavailable);
    }

    #[test]
    fn clearing_needs_an_owner_and_passes_over_impossible_keys() {
        let mut request = BatchReplicaClearRequest {
            object_keys: vec!["a".into(), String::new()],
            client_id: None,
            segment_name: Some(String::new()),
        };
        assert_eq!(clear(&request).unwrap_err().code(), Code::InvalidParams);
        request.client_id = Some(Uuid {
            first: 1,
            second: 2,
        });
        let checked = clear(&request).unwrap();
        assert_eq!((checked.keys.len(), checked.segment), (1, None));
        assert_eq!(checked.client.to_string(), "1-2");
    }
}
