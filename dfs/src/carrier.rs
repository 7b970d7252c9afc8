//! What a member does for the shard files that it has mounted: it tells the partition what lies there, and buries what is
//! dead.
//!
//! Of all members that mount a shard file one carries it; the others ask again now and then, and the next one that asks after
//! it has gone carries on. Nothing here decides what lives: that is the catalog's.

use crate::{Found, Root};
use futures_util::{future::select_all, task::AtomicWaker};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};
use tracing::{info, warn};
use ziggurat_base::{
    ByteCount, Clock, Code, DirectoryId, Era, Error, Extent, Extents, Job, MemberId, Placement,
    Result, SegmentId, Ticket,
};
use ziggurat_engine::{
    command::{BATCH_MAX, Effect, Keep, SegmentOffer},
    ledger::{Change, Holding, LedgerBatch, LedgerReply, Verdict, Version},
    port::MemberApi,
};

/// Pause after which what has failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Shares of the time to live after which a member asks whether a shard file has lost its carrier.
const ASKS: u32 = 3;

/// One shard file.
#[derive(Debug)]
struct Shard {
    root: Root,
    index: u32,
    directory: DirectoryId,
    capacity: u64,
    name: Box<str>,
    state: Mutex<State>,
    /// Wakes whoever buries.
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    segment: Option<SegmentId>,
    /// What is to be buried, and where it lies if that is known.
    dead: BTreeMap<Ticket, Extent>,
    generation: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Carriers {
    shards: Vec<Shard>,
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some of what is to be buried, when there is something.
    async fn next_dead(&self) -> Vec<(Ticket, Extent)> {
        poll_fn(|context| {
            self.waker.register(context.waker());
            let state = self.lock();
            if state.dead.is_empty() {
                return Poll::Pending;
            }
            let some = state.dead.iter().take(BATCH_MAX);
            Poll::Ready(some.map(|(ticket, extent)| (*ticket, *extent)).collect())
        })
        .await
    }

    fn holding(&self, segment: SegmentId, found: Found) -> Holding {
        Holding {
            version: Version {
                tenant: found.tenant.into(),
                key: found.key,
                ticket: found.ticket,
            },
            len: found.len,
            stored_len: found.extent.len,
            crc: found.crc,
            tags: found.tags,
            placement: Some(Placement {
                segment,
                extents: Extents::One(found.extent),
                check: None,
            }),
        }
    }

    /// Tells everything that lies in the shard file.
    async fn tell_all(
        &self,
        api: &dyn MemberApi,
        member: MemberId,
        segment: SegmentId,
        era: Era,
    ) -> Result<u64> {
        let generation = {
            let mut state = self.lock();
            state.generation += 1;
            state.generation
        };
        let begin = LedgerBatch::Begin { generation };
        let is_first = api.ledger(member, segment, &begin).await?.is_first;
        let mut alive = Vec::new();
        let removals = Arc::new(self.root.removals().await.map_err(trouble)?);
        let mut scan = self.root.scan(self.index, &removals).map_err(trouble)?;
        let (mut number, mut found) = (0, 0);
        loop {
            let page = scan.next_page().await.map_err(trouble)?;
            if page.is_empty() {
                break;
            }
            for holdings in page.chunks(BATCH_MAX) {
                found += holdings.len() as u64;
                let holdings = holdings.iter().cloned();
                let batch = LedgerBatch::Page {
                    generation,
                    number,
                    holdings: holdings.map(|f| self.holding(segment, f)).collect(),
                };
                let reply = api.ledger(member, segment, &batch).await?;
                if is_first {
                    alive.extend(taken(&batch, &reply));
                }
                number += 1;
            }
        }
        if is_first {
            // What a writer of an earlier era writes from here on is not believed by anybody later.
            let census = self.root.take_census(self.index, era, alive);
            census.await.map_err(trouble)?;
        }
        // Before anything is allocated there. That a later era has it is as good: the next one exceeds both.
        match self.root.claim(era).await {
            Err(error) if error.code() != Code::IllegalClient => return Err(trouble(error)),
            _ => {}
        }
        let commit = LedgerBatch::Commit {
            generation,
            sequence: 0,
        };
        api.ledger(member, segment, &commit).await?;
        let counts = scan.counts();
        info!(
            shard = %self.name, found, unproven = counts.unproven,
            "this process carries the shard file"
        );
        Ok(generation)
    }

    /// Carries the shard file until that fails.
    async fn carry(
        &self,
        api: &dyn MemberApi,
        member: MemberId,
        segment: SegmentId,
        era: Era,
    ) -> Result<Infallible> {
        let generation = self.tell_all(api, member, segment, era).await?;
        let mut after = 0;
        loop {
            let dead = self.next_dead().await;
            self.root
                .discard(self.index, &dead)
                .await
                .map_err(trouble)?;
            let changes = dead.iter().map(|(ticket, _)| Change::Forgotten(*ticket));
            let delta = LedgerBatch::Delta {
                generation,
                after,
                changes: changes.collect(),
            };
            api.ledger(member, segment, &delta).await?;
            after += dead.len() as u64;
            let mut state = self.lock();
            for (ticket, _) in &dead {
                state.dead.remove(ticket);
            }
        }
    }

    /// Carries the shard file, or waits for its carrier to go, until the partition cannot be talked to any more.
    async fn serve(
        &self,
        api: &dyn MemberApi,
        member: MemberId,
        era: Era,
        (clock, time_to_live): (&dyn Clock, Duration),
    ) -> Error {
        let Some(segment) = self.lock().segment else {
            return std::future::pending().await;
        };
        loop {
            let Err(error) = self.carry(api, member, segment, era).await;
            let pause = |span| clock.sleep_until(clock.now().after(span));
            match error.code() {
                // Another member carries it.
                Code::IllegalClient => pause(time_to_live / ASKS).await,
                Code::LedgerOutOfOrder => {}
                Code::DfsServiceUnavailable => {
                    warn!(shard = %self.name, %error, "the shard file cannot be carried, trying again");
                    pause(PAUSE).await;
                }
                _ => return error,
            }
        }
    }
}

/// The versions of a page that live.
fn taken(batch: &LedgerBatch, reply: &LedgerReply) -> Vec<Ticket> {
    let LedgerBatch::Page { holdings, .. } = batch else {
        return Vec::new();
    };
    let judged = holdings.iter().zip(&reply.verdicts);
    judged
        .filter(|(_, verdict)| **verdict == Verdict::Taken)
        .map(|(holding, _)| holding.version.ticket)
        .collect()
}

/// An error of the filesystem, which is not one of the conversation with the partition.
fn trouble(error: Error) -> Error {
    Error::new(Code::DfsServiceUnavailable, error.what().to_owned())
}

impl Carriers {
    /// For these roots.
    #[must_use]
    pub fn new(roots: &[Root]) -> Self {
        let mut shards = Vec::new();
        for root in roots {
            for info in root.shards() {
                shards.push(Shard {
                    root: root.clone(),
                    index: info.index,
                    directory: info.directory,
                    capacity: info.capacity,
                    name: format!("dfs-{:032x}/{}", root.id(), info.index).into(),
                    state: Mutex::default(),
                    waker: AtomicWaker::new(),
                });
            }
        }
        Self { shards }
    }

    /// Shows the shard files to a partition that this process has joined.
    ///
    /// # Errors
    /// What the partition answers.
    pub async fn mount(&self, api: &dyn MemberApi, member: MemberId) -> Result<()> {
        for shard in &self.shards {
            let offer = SegmentOffer {
                name: shard.name.clone(),
                capacity: ByteCount(shard.capacity),
                highest_era: shard.root.highest_era(),
                keep: Keep::Shared {
                    directory: shard.directory,
                    alignment: shard.root.layout().alignment,
                },
                stock: Default::default(),
            };
            let segment = api.mount(member, &offer).await?;
            let mut state = shard.lock();
            *state = State {
                segment: Some(segment),
                generation: state.generation,
                ..State::default()
            };
        }
        Ok(())
    }

    /// Takes in what the partition wants buried.
    pub fn heed(&self, effect: &Effect) {
        let Effect::Bury { segment, dead, .. } = effect else {
            return;
        };
        for shard in &self.shards {
            let mut state = shard.lock();
            if state.segment != Some(*segment) {
                continue;
            }
            for one in dead {
                let extent = state.dead.entry(one.ticket).or_default();
                if one.extent.len > 0 {
                    *extent = one.extent;
                }
            }
            drop(state);
            shard.waker.wake();
        }
    }

    /// Carries what can be carried, for as long as the partition can be reached. `era` is the one that the member has joined.
    ///
    /// # Errors
    /// The first error of the connection or the membership.
    pub async fn carry(
        &self,
        api: &dyn MemberApi,
        member: MemberId,
        era: Era,
        clock: &dyn Clock,
        time_to_live: Duration,
    ) -> Error {
        let serve = |shard| -> Job<'_, Error> {
            Box::pin(Shard::serve(shard, api, member, era, (clock, time_to_live)))
        };
        let all: Vec<_> = self.shards.iter().map(serve).collect();
        if all.is_empty() {
            return std::future::pending().await;
        }
        select_all(all).await.0
    }
}
