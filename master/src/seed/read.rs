//! Foreign reads: replicas under a lease, with tokens to read them by or without.

use super::{
    Seed, TENANT,
    ask::{Wait, ask_all, first_error, tokens},
};
use std::time::Duration;
use ziggurat_base::{Code, Error, Key, ObjectKey};
use ziggurat_engine::{
    command::{Answer, GetGrant, Keys, Recency, ScanAction, Target},
    port::MetadataApi as _,
    token::{Announce, TokenRange, TokenUse},
};
use ziggurat_proto::{
    order::NodeCommand,
    seed::{Replica, ReplicaState},
};

/// How long nodes may take to acknowledge tokens: in all, and once one of them has.
const ANNOUNCE_WAIT: Wait = Wait {
    all: Duration::from_secs(2),
    rest: Duration::from_millis(50),
};

/// Objects that one list may have, and bytes of their keys: the answer has to fit what gRPC clients take by default (4 MiB).
const LISTED_MAX: usize = 10_000;
const LISTED_KEY_BYTES_MAX: usize = 2 << 20;

impl Seed {
    /// Takes a guard on an object and lets the client at its replicas. The guard ends by time: the client cannot give it
    /// back.
    pub(super) async fn open_to_read(&self, key: Key<'_>) -> Answer<Vec<Replica>> {
        let keys = Keys {
            tenant: TENANT,
            keys: &[key],
        };
        let located = self.partition.locate(keys, Recency::Touch).await?;
        let Some(grant) = located.into_iter().next().transpose()?.flatten() else {
            return Err(Error::new(
                Code::ObjectNotFound,
                format!("there is no object {key}"),
            ));
        };
        let targets = grant.replicas.as_slice();
        let each = targets.iter().map(|_| tokens(&[grant.len]));
        let each: Vec<Vec<TokenRange>> = each.collect::<Answer<_>>()?;
        let announce = |(target, tokens): (&Target, &Vec<TokenRange>)| {
            let announce = Announce {
                ticket: grant.ticket,
                placement: target.placement.clone(),
                object_len: grant.len,
                allows: TokenUse::Read,
                span: grant.span,
                tokens: tokens.clone(),
            };
            (target.member, NodeCommand::Announce(announce))
        };
        let asked = targets.iter().zip(&each).map(announce).collect();
        let acknowledged = ask_all(&self.partition, asked, ANNOUNCE_WAIT).await;
        let known = targets.iter().zip(&each).zip(&acknowledged);
        let replicas: Vec<_> = known
            .filter(|(_, answer)| answer.is_ok())
            .map(|((target, tokens), _)| self.replica(target, tokens, ReplicaState::Complete))
            .collect();
        if replicas.is_empty() {
            self.partition.give_back(&[grant.hold]);
            return Err(first_error(acknowledged).while_doing("announce a read to its nodes"));
        }
        Ok(replicas)
    }

    /// Lists what matches, under a lease each.
    pub(super) async fn list(&self, regex: &str) -> Answer<Vec<(ObjectKey, Vec<Replica>)>> {
        let mut found: Vec<ObjectKey> = Vec::new();
        let mut key_bytes = 0;
        self.scan(regex, ScanAction::List, |page| {
            for (key, _) in page.keys {
                key_bytes += key.as_key().bytes().len();
                found.push(key);
            }
            if found.len() > LISTED_MAX || key_bytes > LISTED_KEY_BYTES_MAX {
                return Err(Error::new(
                    Code::BufferOverflow,
                    format!(
                        "more than {LISTED_MAX} objects match, or their keys have more than {LISTED_KEY_BYTES_MAX} bytes: the list would not fit an answer, narrow the pattern"
                    ),
                ));
            }
            Ok(())
        })
        .await?;
        let mut list = Vec::with_capacity(found.len());
        for some in found.chunks(ziggurat_engine::command::BATCH_MAX) {
            let keys: Vec<_> = some.iter().map(ObjectKey::as_key).collect();
            let keys = Keys {
                tenant: TENANT,
                keys: &keys,
            };
            let located = self.partition.locate(keys, Recency::Keep).await?;
            for (key, answer) in some.iter().zip(located) {
                // What has gone since the scan is passed over.
                if let Ok(Some(grant)) = answer {
                    list.push((key.clone(), self.described(&grant)));
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(list)
    }

    fn described(&self, grant: &GetGrant) -> Vec<Replica> {
        let whole = TokenRange {
            token: 0,
            offset: 0,
            len: grant.len,
        };
        let targets = grant.replicas.as_slice().iter();
        targets
            .map(|target| self.replica(target, &[whole], ReplicaState::Complete))
            .collect()
    }
}
