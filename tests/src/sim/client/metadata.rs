//! The port to the master: each call becomes a message, and its answer another.

use super::{
    super::{
        call::call,
        master::{Item, not_joined},
        oracle::TrueGuard,
        world::{Process, World},
    },
    Notes, Seat,
};
use ziggurat_base::{Code, Job, Key, MemberId, ObjectKey, TenantId, Ticket};
use ziggurat_engine::{
    command::{
        Answer, Cursor, Force, GetGrant, Hold, Keys, ObjectStat, Page, Prefetch, Prefetched,
        PutAnswer, PutDone, PutEnd, PutItem, Recency, ScanAction, Wish,
    },
    port::MetadataApi,
};

/// The world as one operation of a client sees it.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) seat: Seat,
    pub(crate) notes: Notes,
}

impl Port {
    /// Calls the master as the member that the client is now.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut World, MemberId) -> Answer<T> + Send + 'static,
    ) -> Job<'_, Answer<T>> {
        let index = self.seat.index;
        Box::pin(async move {
            let member = self.seat.sim.with(|world| world.clients[index].member);
            let member = member.ok_or_else(not_joined)?;
            let answer = call(&self.seat.sim, self.seat.me, move |world| {
                work(world, member)
            })
            .await;
            if answer
                .as_ref()
                .is_err_and(|e| e.code() == Code::ClientNotFound)
            {
                self.seat.sim.with(|world| {
                    let here = &mut world.clients[index].member;
                    if *here == Some(member) {
                        *here = None;
                    }
                });
            }
            answer
        })
    }
}

/// Keys on their way.
fn owned(keys: Keys<'_>) -> Vec<ObjectKey> {
    keys.keys.iter().copied().map(Key::to_owned).collect()
}

/// Runs `work` with keys that have arrived.
fn borrowed<R>(tenant: TenantId, keys: &[ObjectKey], work: impl FnOnce(Keys<'_>) -> R) -> R {
    let keys: Vec<_> = keys.iter().map(ObjectKey::as_key).collect();
    work(Keys {
        tenant,
        keys: &keys,
    })
}

impl MetadataApi for Port {
    fn put_start<'a>(
        &'a self,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        let nonce = self.notes.with(|passage| {
            passage.tenant = tenant;
            passage.nonce
        });
        let item = |item: &PutItem<'_>| Item {
            key: item.key.to_owned(),
            len: item.len,
            parent: item.tags.parent.map(|parent| parent.to_owned()),
        };
        let items: Vec<_> = items.iter().map(item).collect();
        let wish = wish.clone();
        self.ask(move |world, member| world.put_start(member, tenant, &items, &wish, nonce))
    }

    fn put_end<'a>(&'a self, ends: &'a [PutEnd]) -> Job<'a, Answer<Vec<Answer<PutDone>>>> {
        let ends = ends.to_vec();
        self.ask(move |world, member| world.put_end(member, &ends))
    }

    fn revoke<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        let tickets = tickets.to_vec();
        self.ask(move |world, member| world.revoke(member, &tickets))
    }

    fn renew<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        let tickets = tickets.to_vec();
        self.ask(move |world, member| world.renew(member, &tickets))
    }

    fn locate<'a>(
        &'a self,
        keys: Keys<'a>,
        recency: Recency,
    ) -> Job<'a, Answer<Vec<Answer<Option<GetGrant>>>>> {
        let (tenant, list) = (keys.tenant, owned(keys));
        self.notes.with(|passage| passage.tenant = tenant);
        let notes = self.notes.clone();
        self.ask(move |world, member| {
            let located = borrowed(tenant, &list, |keys| world.locate(member, keys, recency));
            let (answers, until) = located?;
            let grants = answers.iter().filter_map(|a| a.as_ref().ok()?.as_ref());
            let guard = |grant: &GetGrant| TrueGuard {
                ticket: grant.ticket,
                granted: world.now,
                until,
            };
            notes.with(|passage| passage.guards.extend(grants.map(guard)));
            Ok(answers)
        })
    }

    fn exist<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<bool>>>> {
        let (tenant, list) = (keys.tenant, owned(keys));
        self.ask(move |world, member| borrowed(tenant, &list, |keys| world.exist(member, keys)))
    }

    fn touch<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<()>> {
        let (tenant, list) = (keys.tenant, owned(keys));
        self.ask(move |world, member| {
            world.serve(member, |world, _| {
                borrowed(tenant, &list, |keys| world.master.catalog.touch(keys));
            })
        })
    }

    fn give_back(&self, holds: &[Hold]) {
        let holds = holds.to_vec();
        let Seat { sim, index, me, .. } = &self.seat;
        sim.with(|world| {
            let Some(member) = world.clients[*index].member else {
                return;
            };
            let arrives = move |world: &mut World| world.give_back(member, &holds);
            world.send(*me, Process::Master, arrives, |_| {});
        });
    }

    fn remove<'a>(&'a self, keys: Keys<'a>, force: Force) -> Job<'a, Answer<Vec<Answer<()>>>> {
        let (tenant, list) = (keys.tenant, owned(keys));
        self.ask(move |world, member| {
            borrowed(tenant, &list, |keys| world.remove(member, keys, force))
        })
    }

    fn prefetch<'a>(
        &'a self,
        keys: Keys<'a>,
        wish: Prefetch,
    ) -> Job<'a, Answer<Vec<Answer<Option<Prefetched>>>>> {
        let (tenant, list) = (keys.tenant, owned(keys));
        self.ask(move |world, member| {
            world.serve(member, |world, now| {
                borrowed(tenant, &list, |keys| {
                    world.master.catalog.prefetch(now, keys, wish)
                })
            })
        })
    }

    fn scan<'a>(
        &'a self,
        tenant: TenantId,
        pattern: &'a str,
        action: ScanAction,
        cursor: Option<Cursor>,
    ) -> Job<'a, Answer<Page>> {
        let pattern = pattern.to_owned();
        self.ask(move |world, member| world.scan(member, tenant, &pattern, action, cursor))
    }

    fn stat<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<Option<ObjectStat>>>>> {
        let (tenant, list) = (keys.tenant, owned(keys));
        self.ask(move |world, member| {
            world.serve(member, |world, now| {
                borrowed(tenant, &list, |keys| world.master.catalog.stat(now, keys))
            })
        })
    }
}
