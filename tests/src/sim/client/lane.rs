//! A lane of a client: one operation after the other, through the product's journeys, each answer before the oracle.

use super::{
    super::{
        params::len,
        payload::Payload,
        world::{Sim, World},
    },
    Notes, Rooms, Seat, TENANTS, key_text,
};
use std::time::Duration;
use ziggurat_base::{Key, ObjectKey, TenantId};
use ziggurat_engine::{
    command::{Answer, Force, Hint, Keys, Prefetch, Priority, Recency, ScanAction, Tags, Wish},
    journey::{Get, Patience, Put, PutOutcome, get, prefetch, put},
    port::Ports,
};

/// Counts an operation and its result.
pub(crate) fn count<T>(world: &mut World, operation: &str, result: &Answer<T>, good: &str) {
    let text = match result {
        Ok(_) => good.to_owned(),
        Err(error) => error.code().name().to_owned(),
    };
    world.outcome.note(
        text.bytes()
            .fold(7_u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b))),
    );
    *world
        .outcome
        .answers
        .entry(format!("{operation} {text}"))
        .or_default() += 1;
}

/// One more operation is over; faults come with the count.
pub(crate) fn operation(world: &mut World) {
    world.outcome.ops += 1;
    super::super::faults::due(world);
}

/// Runs until faults stop.
pub(crate) async fn run(sim: Sim, index: usize) {
    let seat = Seat::new(&sim, index);
    let patience = sim.with(|world| world.params.patience);
    loop {
        let think = sim.with(|world| {
            let most = world.params.think.as_nanos() as u64;
            Duration::from_nanos(world.dice.below(most))
        });
        seat.clock.sleep(think).await;
        let (settling, joined) =
            sim.with(|world| (world.settling, world.clients[index].member.is_some()));
        if settling {
            return;
        }
        if !joined {
            continue;
        }
        let lane = Lane {
            seat: &seat,
            patience,
        };
        lane.one().await;
        sim.with(operation);
    }
}

struct Lane<'s> {
    seat: &'s Seat,
    patience: Patience,
}

/// A key of the working set: a tenth of the keys gets most of the questions.
pub(crate) fn pick(seat: &Seat) -> ObjectKey {
    let keys = seat.sim.with(|world| world.params.keys);
    let hot = seat.roll(4) > 0;
    let number = seat.roll(if hot { keys.div_ceil(10) } else { keys });
    ObjectKey::new(key_text(number)).expect("a key of the working set")
}

pub(crate) fn tenant(seat: &Seat) -> TenantId {
    TENANTS[usize::from(seat.roll(10) == 0)]
}

impl Lane<'_> {
    async fn one(&self) {
        match self.seat.roll(100) {
            0..30 => self.put(1).await,
            30..34 => self.put(2 + self.seat.roll(4)).await,
            34..58 => self.get(1, false).await,
            58..72 => self.get(1, true).await,
            72..80 => {
                self.get(2 + self.seat.roll(5), self.seat.roll(2) == 0)
                    .await
            }
            80..85 => self.exist().await,
            85..86 if self.seat.sim.with(|world| world.params.disk.is_some()) => {
                self.prefetch().await;
            }
            85..86 => self.exist().await,
            86..93 => self.remove().await,
            93..97 => self.touch().await,
            97..99 => self.scan(ScanAction::List, "").await,
            _ => {
                let force = [Force::No, Force::Yes][self.seat.roll(2) as usize];
                let pattern = ["^k1", "0$", "long", "7"][self.seat.roll(4) as usize];
                self.scan(ScanAction::Remove(force), pattern).await;
            }
        }
    }

    fn ports(&self) -> (Ports, Notes, u64) {
        let nonce = 1 + self.seat.roll(u64::MAX);
        let (ports, notes) = self.seat.ports(nonce);
        (ports, notes, nonce)
    }

    async fn put(&self, many: u64) {
        let (ports, _, nonce) = self.ports();
        let tenant = tenant(self.seat);
        let (replicas, len_of) = self.seat.sim.with(|world| {
            let most = world.params.replicas_max;
            let lens: Vec<_> = (0..many).map(|_| len(&mut world.dice)).collect();
            (1 + world.dice.below(most) as u8, lens)
        });
        let keys: Vec<_> = (0..many).map(|_| pick(self.seat)).collect();
        let payloads: Vec<_> = keys
            .iter()
            .zip(len_of)
            .map(|(key, len)| Payload::new(tenant, key.as_key(), nonce, len).bytes())
            .collect();
        let cut = |bytes: &Vec<u8>| self.seat.roll(bytes.len() as u64 + 1) as usize;
        let parts: Vec<_> = payloads
            .iter()
            .map(|bytes| {
                let (first, second) = bytes.split_at(cut(bytes));
                [first, second]
            })
            .collect();
        let parent = pick(self.seat);
        let tags = Tags {
            parent: (self.seat.roll(4) == 0).then(|| parent.as_key()),
            group: None,
            hint: Hint::None,
        };
        let puts: Vec<_> = keys
            .iter()
            .zip(&parts)
            .map(|(key, parts)| Put {
                key: key.as_key(),
                parts,
                tags,
            })
            .collect();
        let wish = wish(self.seat, replicas);
        let answers = put::put(&ports, &self.patience, tenant, &puts, &wish).await;
        self.seat.sim.with(|world| {
            for (key, answer) in keys.iter().zip(&answers) {
                world
                    .outcome
                    .tell(|| format!("c{} put {key}: {answer:?}", self.seat.index));
                let stored = matches!(answer, Ok(PutOutcome::Stored { .. }));
                count(
                    world,
                    "put",
                    answer,
                    if stored { "stored" } else { "existed" },
                );
                if stored && !world.oracle.was_published(&(tenant, key.clone()), nonce) {
                    let what = format!("{key} with nonce {nonce}");
                    world.outcome.violation("false_acknowledgement", what);
                }
            }
        });
    }

    async fn get(&self, many: u64, ranged: bool) {
        let (ports, notes, _) = self.ports();
        let tenant = tenant(self.seat);
        let keys: Vec<_> = (0..many).map(|_| pick(self.seat)).collect();
        let range = |_: &ObjectKey| {
            if !ranged {
                return (0, None);
            }
            let offset =
                [0, self.seat.roll(2000), self.seat.roll(200 << 10)][self.seat.roll(3) as usize];
            let len = [
                None,
                Some(self.seat.roll(64)),
                Some(self.seat.roll(100 << 10)),
            ];
            (offset, len[self.seat.roll(3) as usize])
        };
        let ranges: Vec<_> = keys.iter().map(range).collect();
        let gets: Vec<_> = keys
            .iter()
            .zip(&ranges)
            .map(|(key, (offset, len))| Get {
                key: key.as_key(),
                offset: *offset,
                len: *len,
            })
            .collect();
        let recency = [Recency::Touch, Recency::Keep][self.seat.roll(2) as usize];
        let most = if self.seat.roll(50) == 0 {
            5000
        } else {
            u64::MAX
        };
        let mut rooms = Rooms::new(gets.len(), most);
        let answers = get::get(&ports, &self.patience, tenant, &gets, recency, &mut rooms).await;
        self.judge_reads(tenant, &gets, &answers, &rooms, &notes);
    }

    fn judge_reads(
        &self,
        tenant: TenantId,
        gets: &[Get<'_>],
        answers: &[Answer<Option<u64>>],
        rooms: &Rooms,
        notes: &Notes,
    ) {
        let passage = notes.with(|passage| passage.clone());
        self.seat.sim.with(|world| {
            for ((get, answer), bytes) in gets.iter().zip(answers).zip(&rooms.buffers) {
                world.outcome.tell(|| {
                    format!(
                        "c{} get {} +{}: {answer:?}",
                        self.seat.index, get.key, get.offset
                    )
                });
                let hit = matches!(answer, Ok(Some(_)));
                count(world, "get", answer, if hit { "hit" } else { "miss" });
                let Ok(Some(len)) = answer else {
                    continue;
                };
                if *len != bytes.len() as u64 {
                    let what = format!("{}: {len} for {} bytes", get.key, bytes.len());
                    world.outcome.violation("wrong_length", what);
                }
                if let Some((rule, what)) = world
                    .oracle
                    .read(tenant, get.key, get.offset, bytes, &passage)
                {
                    world.outcome.wrong_bytes += u64::from(rule != "believed_after_the_guard");
                    world.outcome.violation(rule, what);
                }
            }
        });
    }

    /// Wishes objects in memory, or takes the wish back.
    async fn prefetch(&self) {
        let (ports, _, _) = self.ports();
        let tenant = tenant(self.seat);
        let owned: Vec<_> = (0..1 + self.seat.roll(12))
            .map(|_| pick(self.seat))
            .collect();
        let keys: Vec<Key<'_>> = owned.iter().map(ObjectKey::as_key).collect();
        let wish = match self.seat.roll(6) {
            0 => Prefetch::Cancel,
            1 => Prefetch::Begin(Priority::High),
            _ => Prefetch::Begin(Priority::Normal),
        };
        let answers = prefetch::prefetch(&ports, &self.patience, tenant, &keys, wish).await;
        self.seat.sim.with(|world| {
            for (key, answer) in owned.iter().zip(&answers) {
                world
                    .outcome
                    .tell(|| format!("c{} {wish:?} {key}: {answer:?}", self.seat.index));
                let found = answer.as_ref().ok().copied().flatten();
                let good = found.map_or_else(|| "miss".to_owned(), |found| format!("{found:?}"));
                count(world, "prefetch", answer, &good);
            }
        });
    }

    async fn exist(&self) {
        let (ports, notes, _) = self.ports();
        let tenant = tenant(self.seat);
        let owned: Vec<_> = (0..1 + self.seat.roll(8))
            .map(|_| pick(self.seat))
            .collect();
        let keys: Vec<Key<'_>> = owned.iter().map(ObjectKey::as_key).collect();
        let answers = ports
            .metadata
            .exist(Keys {
                tenant,
                keys: &keys,
            })
            .await;
        let begun = notes.with(|passage| passage.begun);
        self.seat.sim.with(|world| {
            count(world, "exist", &answers, "answered");
            for (key, answer) in owned.iter().zip(answers.into_iter().flatten()) {
                if answer == Ok(true) && !world.oracle.may_exist(&(tenant, key.clone()), begun) {
                    world
                        .outcome
                        .violation("exists_without_a_version", format!("{key}"));
                }
            }
        });
    }

    async fn remove(&self) {
        let (ports, _, _) = self.ports();
        let tenant = tenant(self.seat);
        let owned: Vec<_> = (0..1 + self.seat.roll(3))
            .map(|_| pick(self.seat))
            .collect();
        let keys: Vec<Key<'_>> = owned.iter().map(ObjectKey::as_key).collect();
        let force = [Force::No, Force::Yes][self.seat.roll(2) as usize];
        let answers = ports
            .metadata
            .remove(
                Keys {
                    tenant,
                    keys: &keys,
                },
                force,
            )
            .await;
        self.seat.sim.with(|world| match answers {
            Ok(answers) => answers
                .iter()
                .for_each(|answer| count(world, "remove", answer, "removed")),
            Err(error) => count::<()>(world, "remove", &Err(error), ""),
        });
    }

    async fn touch(&self) {
        let (ports, _, _) = self.ports();
        let owned: Vec<_> = (0..1 + self.seat.roll(20))
            .map(|_| pick(self.seat))
            .collect();
        let keys: Vec<Key<'_>> = owned.iter().map(ObjectKey::as_key).collect();
        let tenant = tenant(self.seat);
        let answer = ports
            .metadata
            .touch(Keys {
                tenant,
                keys: &keys,
            })
            .await;
        self.seat
            .sim
            .with(|world| count(world, "touch", &answer, "touched"));
    }

    async fn scan(&self, action: ScanAction, pattern: &str) {
        let (ports, _, _) = self.ports();
        let tenant = tenant(self.seat);
        let mut cursor = None;
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let page = ports.metadata.scan(tenant, pattern, action, cursor).await;
            self.seat
                .sim
                .with(|world| count(world, "scan", &page, "page"));
            let Ok(page) = page else {
                return;
            };
            for (key, _) in page.keys {
                if !seen.insert(key.clone()) && !self.may_come_twice() {
                    self.seat.sim.with(|world| {
                        world.outcome.violation("listed_twice", format!("{key}"));
                    });
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return;
            }
        }
    }

    /// A cursor is valid within its era; and a key that goes and comes back in another row is another object, but newer
    /// than the scan.
    fn may_come_twice(&self) -> bool {
        self.seat
            .sim
            .with(|world| world.outcome.faults.contains_key("master_restart"))
    }
}

/// So many memory replicas, and where there are shard files sometimes some there too, or there alone.
pub(super) fn wish(seat: &Seat, replicas: u8) -> Wish {
    let has_root = seat.sim.with(|world| world.params.root.is_some());
    if !has_root {
        return Wish {
            replicas,
            ..Wish::default()
        };
    }
    let (replicas, dfs) = match seat.roll(6) {
        0..3 => (replicas, 0),
        3 => (0, 1 + seat.roll(2) as u8),
        _ => (replicas, 1),
    };
    Wish {
        replicas,
        dfs,
        ..Wish::default()
    }
}
