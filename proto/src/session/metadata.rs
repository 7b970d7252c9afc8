//! The metadata calls of a session. Batches beyond what a request takes are split; the answers come back in one piece.

use super::{Session, wrong_answer};
use crate::{
    convert::{get, keys, put},
    wire::{self, answer::Outcome, request::Call},
};
use ziggurat_base::{Job, TenantId, Ticket};
use ziggurat_engine::{
    command::{
        Answer, BATCH_MAX, Cursor, Force, GetGrant, Hold, Keys, ObjectStat, Page, Prefetch,
        Prefetched, PutAnswer, PutDone, PutEnd, PutItem, Recency, ScanAction, Wish,
    },
    port::MetadataApi,
};

impl Session {
    /// Does a batch in requests of at most [`BATCH_MAX`] items. When a later part fails as a whole, its items fail one by
    /// one, since something is known of the earlier ones.
    async fn batch<I: Sync, T>(
        &self,
        items: &[I],
        pack: impl Fn(&[I]) -> Call + Send,
        unpack: impl Fn(Outcome, usize) -> Answer<Vec<Answer<T>>> + Send,
    ) -> Answer<Vec<Answer<T>>>
    where
        T: Send,
    {
        if items.len() <= BATCH_MAX {
            return unpack(self.call(pack(items)).await?, items.len());
        }
        let mut answers = Vec::with_capacity(items.len());
        for part in items.chunks(BATCH_MAX) {
            let outcome = self.call(pack(part)).await;
            match outcome.and_then(|outcome| unpack(outcome, part.len())) {
                Ok(some) => answers.extend(some),
                Err(error) if answers.is_empty() => return Err(error),
                Err(error) => answers.extend(part.iter().map(|_| Err(error.clone()))),
            }
        }
        Ok(answers)
    }
}

/// Packs a part of a key list.
fn pack_part<'a>(tenant: TenantId) -> impl Fn(&[ziggurat_base::Key<'a>]) -> wire::Keys {
    move |part| keys::pack(Keys { tenant, keys: part })
}

fn done(outcome: Outcome, count: usize) -> Answer<Vec<Answer<()>>> {
    match outcome {
        Outcome::Done(message) => put::done(message, count),
        _ => Err(wrong_answer()),
    }
}

impl MetadataApi for Session {
    fn put_start<'a>(
        &'a self,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        Box::pin(self.batch(
            items,
            move |part| Call::PutStart(put::pack_start(tenant, part, wish)),
            |outcome, count| match outcome {
                Outcome::PutStart(message) => put::grants(message, count),
                _ => Err(wrong_answer()),
            },
        ))
    }

    fn put_end<'a>(&'a self, ends: &'a [PutEnd]) -> Job<'a, Answer<Vec<Answer<PutDone>>>> {
        Box::pin(self.batch(
            ends,
            |part| Call::PutEnd(put::pack_ends(part)),
            |outcome, count| match outcome {
                Outcome::PutEnd(message) => put::dones(message, count),
                _ => Err(wrong_answer()),
            },
        ))
    }

    fn revoke<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        Box::pin(self.batch(tickets, |part| Call::Revoke(keys::pack_tickets(part)), done))
    }

    fn renew<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        Box::pin(self.batch(tickets, |part| Call::Renew(keys::pack_tickets(part)), done))
    }

    fn locate<'a>(
        &'a self,
        keys: Keys<'a>,
        recency: Recency,
    ) -> Job<'a, Answer<Vec<Answer<Option<GetGrant>>>>> {
        let pack = pack_part(keys.tenant);
        let keep = recency == Recency::Keep;
        Box::pin(self.batch(
            keys.keys,
            move |part| {
                Call::Locate(wire::Locate {
                    keys: Some(pack(part)),
                    keep,
                })
            },
            |outcome, count| match outcome {
                Outcome::Locate(message) => get::grants(message, count),
                _ => Err(wrong_answer()),
            },
        ))
    }

    fn exist<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<bool>>>> {
        let pack = pack_part(keys.tenant);
        Box::pin(self.batch(
            keys.keys,
            move |part| Call::Exist(pack(part)),
            |outcome, count| match outcome {
                Outcome::Exist(message) => get::found(message, count),
                _ => Err(wrong_answer()),
            },
        ))
    }

    fn touch<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<()>> {
        let pack = pack_part(keys.tenant);
        let touched = self.batch(
            keys.keys,
            move |part| Call::Touch(pack(part)),
            |outcome, count| {
                done(outcome, 0)?;
                Ok(vec![Ok(()); count])
            },
        );
        Box::pin(async move { touched.await?.into_iter().collect() })
    }

    fn give_back(&self, holds: &[Hold]) {
        self.link.give_back(holds);
    }

    fn remove<'a>(&'a self, keys: Keys<'a>, force: Force) -> Job<'a, Answer<Vec<Answer<()>>>> {
        let pack = pack_part(keys.tenant);
        let force = force == Force::Yes;
        Box::pin(self.batch(
            keys.keys,
            move |part| {
                Call::Remove(wire::Remove {
                    keys: Some(pack(part)),
                    force,
                })
            },
            done,
        ))
    }

    fn prefetch<'a>(
        &'a self,
        keys: Keys<'a>,
        wish: Prefetch,
    ) -> Job<'a, Answer<Vec<Answer<Option<Prefetched>>>>> {
        let pack = pack_part(keys.tenant);
        let wish = get::pack_wish(wish).into();
        Box::pin(self.batch(
            keys.keys,
            move |part| {
                Call::Prefetch(wire::Prefetch {
                    keys: Some(pack(part)),
                    wish,
                })
            },
            |outcome, count| match outcome {
                Outcome::Prefetch(message) => get::prefetched(message, count),
                _ => Err(wrong_answer()),
            },
        ))
    }

    fn scan<'a>(
        &'a self,
        tenant: TenantId,
        pattern: &'a str,
        action: ScanAction,
        cursor: Option<Cursor>,
    ) -> Job<'a, Answer<Page>> {
        let call = Call::Scan(get::pack_scan(tenant, pattern, action, cursor));
        Box::pin(async move {
            match self.call(call).await? {
                Outcome::Scan(message) => get::page(message),
                _ => Err(wrong_answer()),
            }
        })
    }

    fn stat<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<Option<ObjectStat>>>>> {
        let pack = pack_part(keys.tenant);
        Box::pin(self.batch(
            keys.keys,
            move |part| Call::Stat(pack(part)),
            |outcome, count| match outcome {
                Outcome::Stat(message) => get::stats(message, count),
                _ => Err(wrong_answer()),
            },
        ))
    }
}
