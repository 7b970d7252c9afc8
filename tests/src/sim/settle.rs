//! Liveness: faults have stopped, and everything must resolve within a bound. Then the last questions.

use super::{
    client::{self, Seat, TENANTS},
    clock::SimClock,
    node::directory::tickets,
    params::{CLIENTS, NODES},
    world::{Process, Sim, World},
};
use std::time::Duration;
use ziggurat_base::{Code, Key};
use ziggurat_engine::{
    command::{Force, Keys, Recency, Wish},
    journey::{Get, Patience, Put, get, put},
};

/// Objects that are put after the faults.
pub(crate) const NEW_KEYS: u8 = 12;

/// The text of a key that is put after the faults.
pub(crate) fn key_text(number: u8) -> String {
    format!("audit{number}")
}

/// So often, and after such a time, it is looked again whether everything has come to its end.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(100);

/// So much longer it takes where a write budget holds: a batch waits for it, and behind it the cleaning that makes its room.
/// What is removed meanwhile is forgotten when it has landed.
const BUDGET_LOOKS: u32 = 400;

/// Runs after the faults, and ends the history.
pub(crate) async fn audit(sim: Sim) {
    let clock = SimClock {
        sim: sim.clone(),
        rate: sim.with(|world| world.rate(Process::Auditor)),
    };
    let span = sim.with(|world| bound(world));
    clock.sleep(span).await;
    sim.with(quiet);
    in_the_end(&sim, &clock, "directories_disagree", directories).await;
    reads(&sim).await;
    writes(&sim).await;
    removes(&sim, &clock).await;
    in_the_end(&sim, &clock, "debts_never_paid", paid).await;
    sim.with(|world| world.done = true);
}

/// Within this time after the last fault everything has resolved: messages have arrived, every open write is released,
/// every silent member noticed, every guard ended; and as much again.
fn bound(world: &World) -> Duration {
    let config = &world.params.config;
    let late = world.params.weather.longest * 4 + world.params.data_deadline;
    (config.write_release + config.member_ttl * 3 + config.lease + late) * 2
}

/// No write is open, everybody is there.
fn quiet(world: &mut World) {
    let stats = world.master.catalog.stats();
    let (open, closing) = (stats.writes_open, stats.writes_closing);
    if open + closing > 0 {
        let what = format!("{open} open, {closing} waiting for a fence");
        world.outcome.violation("writes_never_settled", what);
    }
    if stats.promoting > 0 {
        let what = format!("{} copies", stats.promoting);
        world.outcome.violation("copies_never_settled", what);
    }
    let directories = world.disks().count();
    let shards = world
        .params
        .root
        .as_ref()
        .map_or(0, |root| root.shards as usize);
    let segments = (NODES * world.params.segments_per_node + directories + shards) as u64;
    let members = (NODES + CLIENTS) as u64;
    if (stats.segments, stats.members) != (segments, members) {
        let what = format!("{} segments, {} members", stats.segments, stats.members);
        world.outcome.violation("not_everybody_came_back", what);
    }
    world.count_objects();
    world.master.catalog.check();
}

/// Looks until nothing is wrong any more: what is known is told some time after it has come about.
async fn in_the_end(
    sim: &Sim,
    clock: &SimClock,
    rule: &'static str,
    wrong: impl Fn(&World) -> Option<String>,
) {
    let has_budget = sim.with(|world| world.params.has_write_budget());
    let looks = LOOKS + if has_budget { BUDGET_LOOKS } else { 0 };
    for _ in 0..looks {
        if sim.with(|world| wrong(world)).is_none() {
            return;
        }
        clock.sleep(LOOK).await;
    }
    sim.with(|world| {
        if let Some(what) = wrong(world) {
            world.outcome.violation(rule, what);
        }
    });
}

/// What the partition knows of the directories is what they hold.
fn directories(world: &World) -> Option<String> {
    let (mut held, mut counts) = (0, Vec::new());
    for (index, node) in world.nodes.iter().enumerate() {
        node.disk.as_ref()?;
        let Some(keeper) = &node.keeper else {
            return Some(format!("node {index} has not opened its directory"));
        };
        let tickets = keeper.tiers().flat_map(|tier| tier.look(tickets));
        counts.push(keeper.tiers().map(|tier| tier.stats().records).sum::<u64>());
        for ticket in tickets {
            held += 1;
            let Some(name) = world.oracle.name(ticket) else {
                return Some(format!(
                    "node {index} holds {ticket}, which nobody was granted"
                ));
            };
            let keys = [name.1.as_key()];
            let keys = Keys {
                tenant: name.0,
                keys: &keys,
            };
            let found = world.master.catalog.stat(world.master_time(), keys);
            if !matches!(&found[..], [Ok(Some(stat))] if stat.ticket == ticket) {
                return Some(format!("node {index} holds {ticket}: {found:?}"));
            }
        }
    }
    let known = world.master.catalog.stats().owned_replicas;
    (known != held).then(|| format!("{held} are held by nodes as {counts:?}, {known} are known"))
}

/// Nothing is held any more that was removed, and nothing is owed.
fn paid(world: &World) -> Option<String> {
    let stats = world.master.catalog.stats();
    let owed = (stats.debts, stats.key_debts, stats.directories_absent);
    let keepers = world.nodes.iter().filter_map(|node| node.keeper.as_ref());
    let records = keepers.flat_map(|keeper| keeper.tiers());
    let records: u64 = records.map(|tier| tier.stats().records).sum();
    let in_shards = (stats.dfs_used, stats.dfs_cooling);
    let is_left = records > 0 || stats.owned_used > 0 || in_shards != (0, 0);
    (owed != (0, 0, 0) || is_left).then(|| {
        let used = stats.owned_used;
        format!(
            "{records} records of {used} bytes, in shards {in_shards:?}; debts, of keys, absent: {owed:?}"
        )
    })
}

fn patience() -> Patience {
    Patience::default()
}

/// Every key gives its value or a miss. A replica that a fault of memory or wire has damaged says so.
async fn reads(sim: &Sim) {
    let seat = Seat::new(sim, 0);
    let count = sim.with(|world| world.params.keys);
    for tenant in TENANTS {
        for number in 0..count {
            let text = client::key_text(number);
            let key = Key::new(text.as_bytes()).expect("a key of the working set");
            let (ports, notes) = seat.ports(0);
            let mut rooms = client::Rooms::new(1, u64::MAX);
            let gets = [Get::whole(key)];
            let answers = get::get(
                &ports,
                &patience(),
                tenant,
                &gets,
                Recency::Keep,
                &mut rooms,
            )
            .await;
            let passage = notes.with(|passage| passage.clone());
            sim.with(|world| match &answers[0] {
                Ok(Some(_)) => {
                    let broken = world
                        .oracle
                        .read(tenant, key, 0, &rooms.buffers[0], &passage);
                    world.outcome.wrong_bytes += u64::from(broken.is_some());
                    world.judge(broken);
                }
                Ok(None) => {}
                Err(error) if error.code() == Code::ChecksumMismatch => {}
                // A record that a late writer or the filesystem has destroyed says so too.
                Err(error)
                    if error.code() == Code::ReplicaIsGone && world.params.root.is_some() => {}
                Err(error) => {
                    let what = format!("{key}: {error}");
                    world.outcome.violation("unreadable_without_faults", what);
                }
            });
        }
    }
}

/// New objects find room, and are found.
async fn writes(sim: &Sim) {
    let seat = Seat::new(sim, 0);
    for number in 0..NEW_KEYS {
        let text = key_text(number);
        let key = Key::new(text.as_bytes()).expect("short");
        let (ports, _) = seat.ports(1);
        let payload = vec![number; 9000];
        let parts: [&[u8]; 1] = [&payload];
        let puts = [Put {
            key,
            parts: &parts,
            tags: Default::default(),
        }];
        let stored = put::put(&ports, &patience(), TENANTS[0], &puts, &Wish::default()).await;
        let mut rooms = client::Rooms::new(1, u64::MAX);
        let gets = [Get::whole(key)];
        let got = get::get(
            &ports,
            &patience(),
            TENANTS[0],
            &gets,
            Recency::Touch,
            &mut rooms,
        )
        .await;
        if got[0] != Ok(Some(9000)) || rooms.buffers[0] != payload {
            sim.with(|world| {
                let what = format!("{key}: {:?}, then {:?}", stored[0], got[0]);
                world.outcome.violation("unwritable_without_faults", what);
            });
        }
    }
}

/// Once everything is removed, no byte is in use.
async fn removes(sim: &Sim, clock: &SimClock) {
    let seat = Seat::new(sim, 0);
    let (ports, _) = seat.ports(0);
    for tenant in TENANTS {
        let mut cursor = None;
        loop {
            let action = ziggurat_engine::command::ScanAction::Remove(Force::Yes);
            let page = ports.metadata.scan(tenant, "", action, cursor).await;
            match page {
                Ok(page) => cursor = page.next,
                Err(error) => {
                    let what = format!("scan: {error}");
                    sim.with(|world| world.outcome.violation("unanswered_without_faults", what));
                    return;
                }
            }
            if cursor.is_none() {
                break;
            }
        }
    }
    let lease = sim.with(|world| world.params.config.lease + world.params.config.member_ttl);
    clock.sleep(lease * 2).await;
    sim.with(|world| {
        let stats = world.master.catalog.stats();
        if (stats.used, stats.objects, stats.extents) != (0, 0, 0) {
            let what = format!(
                "{} bytes, {} objects, {} extents",
                stats.used, stats.objects, stats.extents
            );
            world.outcome.violation("space_never_returned", what);
        }
        let keys = [Key::new(b"audit0").expect("short")];
        let keys = Keys {
            tenant: TENANTS[0],
            keys: &keys,
        };
        let found = world
            .master
            .catalog
            .stat(ziggurat_base::Timestamp(u64::MAX), keys);
        if found != [Ok(None)] {
            world
                .outcome
                .violation("removed_and_still_there", format!("{found:?}"));
        }
    });
}
