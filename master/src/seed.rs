//! Foreign clients: the seed's calls as journeys over the partition and the orders to its nodes.
//!
//! A foreign client knows space by opaque tokens and cannot prove its bytes. So a call that gives it space completes when the
//! nodes have acknowledged the tokens, and the end of a write asks the owners of the memory for the sum. Every wait for a
//! node is bounded: a dead one costs its share of the replicas, or the call its answer. docs/seed-protocol.md says what a
//! client may expect.

mod ask;
mod peers;
mod put;
mod read;
mod segments;

use crate::{Partition, orders::OrderCounts};
use peers::Peers;
use std::{fmt, sync::Arc};
use ziggurat_base::{Job, Key, ObjectKey, TenantId};
use ziggurat_engine::{
    command::{Answer, Cursor, Force, Keys, Page, ScanAction},
    port::MetadataApi as _,
};
use ziggurat_proto::seed::{Clear, ClientId, Peer, Replica, SeedBackend, SeedPut};

/// Foreign clients act for the tenant `default`.
const TENANT: TenantId = TenantId(0);

/// Foreign clients in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeedCounts {
    /// Connections that have written.
    pub writers: u64,
    /// Writes that they have open.
    pub writes_open: u64,
    /// Orders to nodes.
    pub orders: OrderCounts,
}

/// See the module.
pub struct Seed {
    partition: Arc<Partition>,
    peers: Peers,
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

impl Seed {
    /// Serves foreign clients from a partition.
    #[must_use]
    pub fn new(partition: Arc<Partition>) -> Arc<Self> {
        Arc::new(Self {
            peers: Peers::new(partition.clone()),
            partition,
        })
    }

    /// In numbers.
    #[must_use]
    pub fn counts(&self) -> SeedCounts {
        let (writers, writes_open) = self.peers.counts();
        SeedCounts {
            writers,
            writes_open,
            orders: self.partition.order_counts(),
        }
    }

    async fn remove_one(&self, key: Key<'_>) -> Answer<()> {
        let keys = Keys {
            tenant: TENANT,
            keys: &[key],
        };
        let removed = self.partition.remove(keys, Force::No).await?;
        removed.into_iter().collect()
    }

    /// Does a scan turn by turn; others are served between the turns.
    async fn scan(
        &self,
        regex: &str,
        action: ScanAction,
        mut each: impl FnMut(Page) -> Answer<()>,
    ) -> Answer<()> {
        let mut cursor: Option<Cursor> = None;
        loop {
            let page = self.partition.scan(TENANT, regex, action, cursor).await?;
            cursor = page.next;
            each(page)?;
            if cursor.is_none() {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    async fn remove_matching(&self, regex: &str) -> Answer<u64> {
        let mut removed = 0;
        self.scan(regex, ScanAction::Remove(Force::No), |page| {
            removed += page.removed;
            Ok(())
        })
        .await?;
        Ok(removed)
    }

    async fn clear(&self, clear: &Clear<'_>) -> Answer<Vec<ObjectKey>> {
        let keys = Keys {
            tenant: TENANT,
            keys: &clear.keys,
        };
        let cleared = self.partition.clear(keys, clear.segment).await?;
        let keys = clear.keys.iter().zip(cleared);
        let cleared = keys.filter(|(_, cleared)| *cleared);
        Ok(cleared.map(|(key, _)| Key::to_owned(*key)).collect())
    }
}

impl SeedBackend for Seed {
    fn get_replica_list<'a>(&'a self, _: Peer, key: Key<'a>) -> Job<'a, Answer<Vec<Replica>>> {
        Box::pin(self.open_to_read(key))
    }

    fn get_replica_list_by_regex<'a>(
        &'a self,
        _: Peer,
        regex: &'a str,
    ) -> Job<'a, Answer<Vec<(ObjectKey, Vec<Replica>)>>> {
        Box::pin(self.list(regex))
    }

    fn batch_query_ip<'a>(
        &'a self,
        clients: &'a [ClientId],
    ) -> Job<'a, Answer<Vec<(ClientId, Vec<String>)>>> {
        Box::pin(std::future::ready(Ok(self.addresses(clients))))
    }

    fn batch_replica_clear<'a>(&'a self, clear: &'a Clear<'a>) -> Job<'a, Answer<Vec<ObjectKey>>> {
        Box::pin(Self::clear(self, clear))
    }

    fn put_start<'a>(&'a self, peer: Peer, put: &'a SeedPut<'a>) -> Job<'a, Answer<Vec<Replica>>> {
        Box::pin(self.open_to_write(peer, put))
    }

    fn put_end<'a>(&'a self, peer: Peer, key: Key<'a>) -> Job<'a, Answer<()>> {
        Box::pin(self.end_write(peer, key))
    }

    fn remove<'a>(&'a self, _: Peer, key: Key<'a>) -> Job<'a, Answer<()>> {
        Box::pin(self.remove_one(key))
    }

    fn remove_by_regex<'a>(&'a self, _: Peer, regex: &'a str) -> Job<'a, Answer<u64>> {
        Box::pin(self.remove_matching(regex))
    }

    fn mount_segment<'a>(&'a self, _: Peer, name: &'a str, size: u64) -> Job<'a, Answer<()>> {
        Box::pin(self.host(name, size))
    }

    fn unmount_segment<'a>(&'a self, _: Peer, name: &'a str) -> Job<'a, Answer<()>> {
        Box::pin(self.unhost(name))
    }

    fn gone(&self, peer: Peer) {
        self.peers.gone(peer);
    }
}
