//! The shell of the master: one catalog, its clock, its ticks, and the stream of effects to the nodes.
//!
//! Everything that the oracle knows of grants, ends, removals and fences it learns here, in the order in which it truly
//! happens.

use super::{
    clock::Rate,
    ledger::Letters,
    node,
    outcome::Outcome,
    params::Params,
    payload::Name,
    world::{Order, Process, World},
};
use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{
    Code, Era, Error, Key, MemberId, SegmentId, TenantId, Ticket, Timestamp, hash::Dice,
};
use ziggurat_engine::{
    catalog::{Catalog, Matcher},
    command::{
        Answer, Cursor, Effect, Force, GetGrant, Hold, Keep, Keys, Page, PutAnswer, PutDone,
        PutEnd, PutItem, Recency, ScanAction, SegmentOffer, SegmentStat, Tags, Wish,
    },
    segment::Segment,
};

/// See the module.
pub(crate) struct Master {
    pub(crate) catalog: Catalog,
    pub(crate) rate: Rate,
    pub(crate) letters: Letters,
    calls: u64,
    ticks: u64,
    /// Removals that took an open write away instead of an object.
    voided: u64,
}

/// What a client asks to put, owned.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: ziggurat_base::ObjectKey,
    pub(crate) len: u64,
    pub(crate) parent: Option<ziggurat_base::ObjectKey>,
}

/// The pause between two turns of a tick that has more to do.
const TURN: Duration = Duration::from_micros(300);

/// Ticks between two reminders of fences that are not acknowledged.
const REMIND_EVERY: u64 = 4;

impl Master {
    pub(crate) fn new(params: &Params, dice: &mut Dice) -> Self {
        Self {
            catalog: Catalog::new(params.config.clone(), Era(3)),
            rate: Rate::rolled(dice),
            letters: Letters::default(),
            calls: 0,
            ticks: 0,
            voided: 0,
        }
    }
}

impl World {
    /// Starts the master with an empty catalog, of a later era than any before it, and with what the one before has kept.
    pub(crate) fn start_master(&mut self) {
        let era = Era(self.master.catalog.era().0 + 1 + self.dice.below(3) as u32);
        let seen = *self.master.catalog.seen();
        self.outcome.seen.join(&seen);
        self.master.catalog = Catalog::new(self.params.config.clone(), era);
        if self.params.disk.is_some() {
            let records = self.master.letters.begin();
            self.master.catalog.absorb(records);
        }
        for (number, name) in super::client::TENANT_NAMES.iter().enumerate() {
            let tenant = self.master.catalog.tenant(name);
            assert_eq!(tenant, Ok(super::client::TENANTS[number]));
        }
        self.master.rate = Rate::rolled(&mut self.dice);
        self.master.voided = 0;
        if self.params.reoffers() {
            let now = self.master_time();
            self.master.catalog.expect_memory(now);
        }
        let life = self.start(Process::Master);
        self.oracle.master_began(self.now, era);
        self.books.master_began();
        self.outcome.tell(|| format!("master begins era {}", era.0));
        self.within(Process::Master, Some(life), TURN, move |world| {
            world.tick(life)
        });
    }

    /// What the master's clock shows.
    pub(crate) fn master_time(&self) -> Timestamp {
        self.master.rate.local(self.now)
    }

    /// Everything that is there gets a guard that nobody gives back.
    pub(crate) fn hoard(&mut self) {
        let now = self.master_time();
        for (tenant, key) in self.readable_names(now).into_keys() {
            let keys = [key.as_key()];
            let keys = Keys {
                tenant,
                keys: &keys,
            };
            let located = self.master.catalog.locate(now, keys, Recency::Keep);
            for grant in located.iter().filter_map(|a| a.as_ref().ok()?.as_ref()) {
                self.books.guarded(now, grant);
            }
        }
        self.after_call();
    }

    fn tick(&mut self, life: u64) {
        let now = self.master_time();
        let ticked = self.master.catalog.tick(now);
        self.after_call();
        self.master.ticks += 1;
        if self.master.ticks.is_multiple_of(REMIND_EVERY) {
            let members: Vec<_> = self.addresses.keys().copied().collect();
            for member in members {
                let mut debts = self.master.catalog.debts(member);
                // Of the rest a member is reminded when it connects.
                debts.retain(|effect| matches!(effect, Effect::Fence { .. }));
                self.send_effects(debts);
            }
        }
        let pause = if ticked.more {
            TURN
        } else {
            self.params.config.member_ttl / 10
        };
        self.within(Process::Master, Some(life), pause, move |world| {
            world.tick(life)
        });
    }

    /// Answers a call of a member; the word of one that is not known counts for nothing.
    pub(crate) fn serve<T>(
        &mut self,
        member: MemberId,
        call: impl FnOnce(&mut Self, Timestamp) -> T,
    ) -> Answer<T> {
        let now = self.master_time();
        self.master.catalog.ping(now, member)?;
        let answer = call(self, now);
        self.after_call();
        Ok(answer)
    }

    /// What follows every call: effects go out, invariants are looked at.
    pub(crate) fn after_call(&mut self) {
        self.master.calls += 1;
        let records = self.master.catalog.take_records();
        self.master.letters.keep(records);
        let effects = self.master.catalog.take_effects();
        let now = self.master_time();
        for effect in &effects {
            match effect {
                Effect::Fence {
                    member,
                    ticket,
                    placement,
                } => self.books.given_up(*ticket, *member, placement),
                Effect::Promote {
                    member,
                    holding,
                    write,
                    ..
                } => {
                    let broken = self.books.copying(now, *write, (*member, holding));
                    self.judge(broken);
                }
                _ => {}
            }
        }
        self.send_effects(effects);
        if self.master.calls.is_multiple_of(self.params.check_every) {
            self.master.catalog.check();
        }
    }

    fn send_effects(&mut self, effects: Vec<Effect>) {
        let (fences, letters): (Vec<_>, Vec<_>) = effects
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Fence { .. }));
        let mut by_member: BTreeMap<MemberId, Vec<Effect>> = BTreeMap::new();
        for letter in letters {
            by_member.entry(letter.member()).or_default().push(letter);
        }
        for (member, effects) in by_member {
            self.post(member, effects);
        }
        for effect in fences {
            if let Some(index) = self.addresses.get(&effect.member()).copied() {
                let arrives = move |world: &mut Self| node::fence(world, index, &effect);
                self.send(Process::Master, Process::Node(index), arrives, |_| {});
            }
        }
    }

    /// Of two incarnations of a node the later one keeps its segments, whichever is heard last.
    pub(crate) fn mount(&mut self, member: MemberId, offer: &SegmentOffer) -> Answer<SegmentId> {
        let owner = |world: &Self| {
            let segments = world.master.catalog.segments();
            let serves = |s: &SegmentStat| s.name == offer.name && s.state <= Segment::Unmounting;
            segments.into_iter().find(serves).map(|s| s.member)
        };
        let before = owner(self);
        let now = self.master_time();
        let mounted = self.master.catalog.mount(now, member, offer);
        let after = owner(self);
        if before.is_some_and(|owner| owner > member) {
            self.outcome.fault("late_mount");
            if after != before {
                let what = format!("{member} took {} from {before:?}", offer.name);
                self.outcome.violation("successor_thrown_out", what);
            }
        }
        if let Ok(segment) = &mounted
            && offer.keep == Keep::Delegated
        {
            self.books.mounted((member, *segment), offer.capacity.0);
        }
        self.after_call();
        mounted
    }

    pub(crate) fn put_start(
        &mut self,
        member: MemberId,
        tenant: TenantId,
        items: &[Item],
        wish: &Wish,
        nonce: u64,
    ) -> Answer<Vec<Answer<PutAnswer>>> {
        self.serve(member, |world, now| {
            let asked: Vec<_> = items
                .iter()
                .map(|item| PutItem {
                    key: item.key.as_key(),
                    len: item.len,
                    tags: Tags {
                        parent: item.parent.as_ref().map(|parent| parent.as_key()),
                        ..Tags::default()
                    },
                })
                .collect();
            let answers = world
                .master
                .catalog
                .put_start(now, member, tenant, &asked, wish);
            for (item, answer) in items.iter().zip(&answers) {
                if let Ok(PutAnswer::Granted(grant)) = answer {
                    let name = (tenant, item.key.clone());
                    let broken = world.oracle.granted(grant.ticket, name, nonce, item.len);
                    world.judge(broken);
                    let broken = world.books.granted(now, grant);
                    world.judge(broken);
                    tell_grant(&mut world.outcome, &item.key.as_key(), grant);
                }
            }
            answers
        })
    }

    pub(crate) fn put_end(
        &mut self,
        member: MemberId,
        ends: &[PutEnd],
    ) -> Answer<Vec<Answer<PutDone>>> {
        self.serve(member, |world, now| {
            let answers = world.master.catalog.put_end(now, ends);
            for (end, answer) in ends.iter().zip(&answers) {
                world
                    .outcome
                    .tell(|| format!("put_end {} {:?}: {answer:?}", end.ticket, end.written));
                if let Ok(done) = answer {
                    let broken = world.books.ended(end, done.replicas);
                    world.judge(broken);
                    let broken = world.oracle.ended(world.now, end, *done);
                    world.judge(broken);
                    world.find_acknowledged(now, end.ticket, *done);
                }
            }
            answers
        })
    }

    /// What was just acknowledged is found, unless what held it has gone.
    fn find_acknowledged(&mut self, now: Timestamp, ticket: Ticket, done: PutDone) {
        let Some(name) = self.oracle.name(ticket).filter(|_| done.replicas > 0) else {
            return;
        };
        let list = [name.1.as_key()];
        let keys = Keys {
            tenant: name.0,
            keys: &list,
        };
        let found = self.master.catalog.stat(now, keys).remove(0);
        let lost = || {
            let serving = self.master.catalog.segments();
            !self.books.all_serve(ticket, |segment| {
                serving
                    .iter()
                    .any(|s| s.id == segment && s.state <= Segment::Unmounting)
            })
        };
        let right = match &found {
            Ok(Some(stat)) => stat.ticket == ticket,
            _ => lost(),
        };
        if !right {
            let what = format!("{ticket}, acknowledged with {done:?}, is {found:?}");
            self.outcome.violation("acknowledged_and_not_found", what);
        }
    }

    /// Every object that became readable is there, or was evicted, removed or lost: once each.
    pub(crate) fn count_objects(&mut self) {
        let stats = self.master.catalog.stats();
        let gone = stats.evicted + stats.lost + stats.removed + stats.dropped - self.master.voided;
        let adopted = self.master.letters.adopted;
        if stats.puts_ended + adopted != stats.objects + gone {
            let what = format!(
                "{} ended, {adopted} adopted, {} there, {gone} gone",
                stats.puts_ended, stats.objects
            );
            self.outcome.violation("objects_do_not_add_up", what);
        }
    }

    pub(crate) fn revoke(
        &mut self,
        member: MemberId,
        tickets: &[Ticket],
    ) -> Answer<Vec<Answer<()>>> {
        self.serve(member, |world, _| world.master.catalog.revoke(tickets))
    }

    pub(crate) fn renew(
        &mut self,
        member: MemberId,
        tickets: &[Ticket],
    ) -> Answer<Vec<Answer<()>>> {
        self.serve(member, |world, now| {
            world.master.catalog.renew(now, tickets)
        })
    }

    /// Also says, for each grant, when its guard truly ends.
    pub(crate) fn locate(
        &mut self,
        member: MemberId,
        keys: Keys<'_>,
        recency: Recency,
    ) -> Answer<(Vec<Answer<Option<GetGrant>>>, Timestamp)> {
        let span = self.master.rate.true_span(self.params.config.lease);
        let until = self.now.after(span);
        let answers = self.serve(member, |world, now| {
            let answers = world.master.catalog.locate(now, keys, recency);
            for grant in answers.iter().filter_map(|a| a.as_ref().ok()?.as_ref()) {
                world.books.guarded(now, grant);
            }
            answers
        })?;
        Ok((answers, until))
    }

    pub(crate) fn exist(&mut self, member: MemberId, keys: Keys<'_>) -> Answer<Vec<Answer<bool>>> {
        self.serve(member, |world, now| world.master.catalog.exist(now, keys))
    }

    pub(crate) fn give_back(&mut self, member: MemberId, holds: &[Hold]) {
        let _unheard = self.serve(member, |world, now| {
            for hold in holds {
                world.books.given_back(hold);
            }
            world.master.catalog.give_back(now, holds);
        });
    }

    pub(crate) fn remove(
        &mut self,
        member: MemberId,
        keys: Keys<'_>,
        force: Force,
    ) -> Answer<Vec<Answer<()>>> {
        self.serve(member, |world, now| {
            let before = world.master.catalog.stat(now, keys);
            let answers = world.master.catalog.remove(now, keys, force);
            for ((key, answer), before) in keys.keys.iter().zip(&answers).zip(before) {
                world
                    .outcome
                    .tell(|| format!("remove {key} {force:?}: {answer:?}"));
                world.master.voided += u64::from(answer.is_ok() && before == Ok(None));
                if answer.is_ok()
                    || answer
                        .as_ref()
                        .is_err_and(|e| e.code() == Code::ObjectNotFound)
                {
                    world
                        .oracle
                        .removed(world.now, &(keys.tenant, Key::to_owned(*key)));
                }
            }
            answers
        })
    }

    pub(crate) fn scan(
        &mut self,
        member: MemberId,
        tenant: TenantId,
        pattern: &str,
        action: ScanAction,
        cursor: Option<Cursor>,
    ) -> Answer<Page> {
        let matcher = Matcher::new(pattern)?;
        self.serve(member, |world, now| {
            let cursor = cursor.unwrap_or_else(|| world.master.catalog.scan_start());
            let before = world.readable_names(now);
            let page = world
                .master
                .catalog
                .scan(now, tenant, &matcher, action, cursor);
            let after = world.readable_names(now);
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                world.oracle.removed(world.now, name);
            }
            let gone = (before.len() - after.len()) as u64;
            if gone != page.removed {
                let what = format!("{gone} objects went, {} were counted", page.removed);
                world.outcome.violation("scan_counts_wrong", what);
            }
            page
        })
    }

    /// Every name that is readable now.
    pub(crate) fn readable_names(&self, now: Timestamp) -> BTreeMap<Name, Ticket> {
        let mut names = BTreeMap::new();
        for tenant in super::client::TENANTS {
            let set = (0..self.params.keys).map(super::client::key_text);
            for text in set.chain((0..super::settle::NEW_KEYS).map(super::settle::key_text)) {
                let key = Key::new(text.as_bytes()).expect("short and not empty");
                let keys = [key];
                let keys = Keys {
                    tenant,
                    keys: &keys,
                };
                let stat = self.master.catalog.stat(now, keys).into_iter().next();
                if let Some(Ok(Some(stat))) = stat {
                    names.insert((tenant, key.to_owned()), stat.ticket);
                }
            }
        }
        names
    }

    /// The master's process dies and comes back at once or later, knowing nothing.
    pub(crate) fn restart_master(&mut self, down: Duration) {
        if let Some(health) = self.health.get_mut(&Process::Master) {
            health.up = false;
        }
        self.orders.push(Order::Kill(Process::Master));
        self.outcome.tell(|| "master dies".into());
        self.after(down, |world| {
            if !world.health(Process::Master).up {
                world.start_master();
            }
        });
    }
}

fn tell_grant(outcome: &mut Outcome, key: &Key<'_>, grant: &ziggurat_engine::command::PutGrant) {
    outcome.tell(|| {
        let targets = grant.targets.as_slice().iter();
        let targets: Vec<_> = targets.map(|t| (t.member, &t.placement)).collect();
        format!("put_start {key}: {} at {targets:?}", grant.ticket)
    });
}

/// The error of a process that has not joined yet.
pub(crate) fn not_joined() -> Error {
    Error::new(Code::UnavailableInCurrentStatus, "not joined")
}
