//! A client of bad manners: speaks to the ports without journeys. Its reports come late, twice, in parts, or never; it
//! gives up and goes on, renews what is closed, holds guards for ever. It lies about nothing: what it reports as good
//! was written.

use super::{
    super::{params::len, payload::Payload, world::Sim},
    Notes, Seat,
    lane::{count, operation, pick, tenant, wish},
};
use std::time::Duration;
use ziggurat_base::{Crc32, Key, ObjectKey, TenantId};
use ziggurat_engine::{
    command::{
        Answer, Force, Keys, PutAnswer, PutEnd, PutGrant, PutItem, Recency, Tags, Wish, Written,
    },
    port::{Name, Ports, WriteOp},
};

/// Runs until faults stop.
pub(crate) async fn run(sim: Sim, index: usize) {
    let seat = Seat::new(&sim, index);
    loop {
        let think = sim.with(|world| {
            let most = world.params.think.as_nanos() as u64 * 2;
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
        match seat.roll(10) {
            0..8 => write(&seat).await,
            _ => hold(&seat).await,
        }
        sim.with(operation);
    }
}

/// Takes guards and looks at promises, and gives some back.
async fn hold(seat: &Seat) {
    let (ports, _) = seat.ports(0);
    let owned: Vec<_> = (0..1 + seat.roll(6)).map(|_| pick(seat)).collect();
    let keys: Vec<Key<'_>> = owned.iter().map(ObjectKey::as_key).collect();
    let keys = Keys {
        tenant: tenant(seat),
        keys: &keys,
    };
    if seat.roll(2) == 0 {
        let _promised = ports.metadata.exist(keys).await;
    }
    let located = ports.metadata.locate(keys, Recency::Keep).await;
    seat.sim
        .with(|world| count(world, "hold", &located, "located"));
    pause(seat).await;
    let grants = located
        .into_iter()
        .flatten()
        .filter_map(|answer| answer.ok()?);
    let holds: Vec<_> = grants.map(|grant| grant.hold).collect();
    if seat.roll(2) == 0 {
        ports.metadata.give_back(&holds);
    }
}

/// Waits: not at all, for a moment, or beyond every span.
async fn pause(seat: &Seat) {
    let (discard, roll) = seat.sim.with(|world| {
        let config = &world.params.config;
        (config.write_discard.max(config.lease), world.dice.below(16))
    });
    let span = match roll {
        0..8 => return,
        8..12 => discard / 30,
        12..15 => discard / 2,
        _ => discard * 3 / 2,
    };
    seat.clock.sleep(span).await;
}

/// One write that was granted, and what became of its replicas.
struct Going {
    grant: PutGrant,
    crc: Crc32,
    good: Vec<bool>,
}

async fn write(seat: &Seat) {
    let nonce = 1 + seat.roll(u64::MAX);
    let (ports, notes) = seat.ports(nonce);
    let (tenant, key) = (tenant(seat), pick(seat));
    let (len, replicas) = seat
        .sim
        .with(|world| (len(&mut world.dice), 1 + world.dice.below(3) as u8));
    let wish = Wish {
        preferred: vec![format!("node{}/0", seat.roll(4)).into()],
        ..wish(seat, replicas)
    };
    let items = [PutItem::new(key.as_key(), len)];
    let started = ports.metadata.put_start(tenant, &items, &wish).await;
    let grant = match started.and_then(|mut answers| answers.remove(0)) {
        Ok(PutAnswer::Granted(grant)) => grant,
        other => {
            seat.sim
                .with(|world| count(world, "rough", &other, "existed"));
            return;
        }
    };
    let payload = Payload::new(tenant, key.as_key(), nonce, len).bytes();
    let mut going = Going {
        crc: Crc32::of(&payload),
        good: Vec::new(),
        grant,
    };
    pause(seat).await;
    let name = Name {
        key: key.as_key(),
        tags: Tags::default(),
    };
    for target in going.grant.targets.as_slice() {
        let skipped = seat.roll(4) == 0;
        let parts: [&[u8]; 1] = [&payload];
        let op = WriteOp {
            name: target.is_shared().then_some(name),
            ticket: going.grant.ticket,
            target,
            parts: &parts,
            len,
        };
        let moved = if skipped {
            false
        } else {
            let answers = ports.data.write(std::slice::from_ref(&op)).await;
            answers.iter().all(Answer::is_ok)
        };
        going.good.push(moved);
    }
    report(seat, &ports, tenant, key, going).await;
    drop(notes as Notes);
}

/// What a writer of bad manners says of its write, in any order and more than once.
async fn report(seat: &Seat, ports: &Ports, tenant: TenantId, key: ObjectKey, going: Going) {
    let ticket = going.grant.ticket;
    for _ in 0..1 + seat.roll(5) {
        pause(seat).await;
        match seat.roll(12) {
            0..5 => end(seat, ports, &going, |good, roll| (roll > 0).then_some(good)).await,
            5..7 => end(seat, ports, &going, |good, _| Some(good)).await,
            7 => end(seat, ports, &going, |_, _| None).await,
            8 => {
                let revoked = ports.metadata.revoke(&[ticket]).await;
                seat.sim
                    .with(|world| count(world, "rough_revoke", &revoked, "heard"));
            }
            9 => {
                let renewed = ports.metadata.renew(&[ticket]).await;
                seat.sim
                    .with(|world| count(world, "rough_renew", &renewed, "heard"));
            }
            10 => {
                let mut twisted = going.crc;
                twisted.0 ^= 1;
                let lists = [vec![None; going.good.len()], vec![Some(true); 9]];
                let end = PutEnd {
                    ticket,
                    crc: twisted,
                    written: Written::Each(lists[seat.roll(2) as usize].clone()),
                };
                let ended = ports.metadata.put_end(&[end]).await;
                seat.sim
                    .with(|world| count(world, "rough_twisted", &ended, "heard"));
                return;
            }
            _ => {
                let keys = [key.as_key()];
                let force = [Force::No, Force::Yes][seat.roll(2) as usize];
                let removed = ports
                    .metadata
                    .remove(
                        Keys {
                            tenant,
                            keys: &keys,
                        },
                        force,
                    )
                    .await;
                seat.sim
                    .with(|world| count(world, "rough_remove", &removed, "heard"));
            }
        }
    }
}

/// Reports on every replica what `say` makes of the truth and a roll of three.
async fn end(seat: &Seat, ports: &Ports, going: &Going, say: impl Fn(bool, u64) -> Option<bool>) {
    let list = going.good.iter().map(|good| say(*good, seat.roll(3)));
    let end = PutEnd {
        ticket: going.grant.ticket,
        crc: going.crc,
        written: Written::Each(list.collect()),
    };
    let ended = ports
        .metadata
        .put_end(&[end])
        .await
        .and_then(|mut answers| answers.remove(0));
    seat.sim
        .with(|world| count(world, "rough_end", &ended, "ended"));
}
