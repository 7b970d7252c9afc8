//! A client process: joins, pings, and runs operations in several lanes. It may be killed in mid-await or stopped.

use super::{
    call::call,
    clock::{Rate, SimClock},
    executor::Work,
    oracle::Passage,
    root,
    world::{Order, Process, Sim, World},
};
use std::sync::{Arc, Mutex, PoisonError};
use ziggurat_base::{Code, MemberId, TenantId, hash::Dice};
use ziggurat_dfs::{Ack, Roots};
use ziggurat_engine::{command::MemberOffer, port::Ports};

mod data;
mod lane;
mod metadata;
mod rooms;
mod rough;

pub(crate) use metadata::Port;
pub(crate) use rooms::Rooms;

/// The tenants of every world: most keys are in the first.
pub(crate) const TENANTS: [TenantId; 2] = [TenantId(0), TenantId(1)];

/// Their names.
pub(crate) const TENANT_NAMES: [&str; 2] = ["default", "second"];

/// The text of a key of the working set.
pub(crate) fn key_text(number: u64) -> String {
    // Some keys are longer than the smallest class of rows.
    match number % 7 {
        0 => format!("prompt/{number:04}/block/with/a/long/name"),
        _ => format!("k{number}"),
    }
}

/// See the module.
pub(crate) struct Client {
    pub(crate) rate: Rate,
    /// The incarnation as the partition knows it.
    pub(crate) member: Option<MemberId>,
    /// The root of shard files, while a process runs that has opened it.
    pub(crate) roots: Option<Arc<Roots>>,
}

impl Client {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        Self {
            rate: Rate::rolled(dice),
            member: None,
            roots: None,
        }
    }
}

/// A note that one operation's ports and its lane share.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Passage>>);

impl Notes {
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut Passage) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a task of a client needs.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) sim: Sim,
    pub(crate) index: usize,
    pub(crate) me: Process,
    pub(crate) clock: SimClock,
}

impl Seat {
    pub(crate) fn new(sim: &Sim, index: usize) -> Self {
        let me = Process::Client(index);
        let rate = sim.with(|world| world.clients[index].rate);
        let clock = SimClock {
            sim: sim.clone(),
            rate,
        };
        Self {
            sim: sim.clone(),
            index,
            me,
            clock,
        }
    }

    /// The world as one operation sees it, and its note.
    pub(crate) fn ports(&self, nonce: u64) -> (Ports, Notes) {
        let notes = Notes::default();
        let begun = self.sim.with(|world| world.now);
        notes.with(|passage| {
            passage.begun = begun;
            passage.nonce = nonce;
        });
        let port = Arc::new(Port {
            seat: self.clone(),
            notes: notes.clone(),
        });
        let ports = Ports {
            clock: Arc::new(self.clock.clone()),
            metadata: port.clone(),
            data: port,
        };
        (ports, notes)
    }

    pub(crate) fn roll(&self, below: u64) -> u64 {
        self.sim.with(|world| world.dice.below(below))
    }
}

/// Starts a client's process with all its tasks.
pub(crate) fn start(world: &mut World, sim: &Sim, index: usize) {
    let me = Process::Client(index);
    world.start(me);
    world.clients[index].member = None;
    world.clients[index].roots = None;
    let work: Work = Box::pin(mount(sim.clone(), index));
    world.orders.push(Order::Spawn(me, work));
    let work: Work = Box::pin(session(sim.clone(), index));
    world.orders.push(Order::Spawn(me, work));
    for _ in 0..world.params.lanes {
        let work: Work = Box::pin(lane::run(sim.clone(), index));
        world.orders.push(Order::Spawn(me, work));
    }
    let work: Work = Box::pin(rough::run(sim.clone(), index));
    world.orders.push(Order::Spawn(me, work));
}

/// Opens the root of shard files, if the world has one.
async fn mount(sim: Sim, index: usize) {
    let seat = Seat::new(&sim, index);
    if let Some(root) = root::open(&sim, &seat.clock).await {
        let roots = Roots::new(vec![root], Ack::Written, Arc::new(seat.clock.clone()));
        sim.with(|world| world.clients[index].roots = Some(Arc::new(roots)));
    }
}

/// Keeps the process a member.
async fn session(sim: Sim, index: usize) {
    let seat = Seat::new(&sim, index);
    let ttl = sim.with(|world| world.params.config.member_ttl);
    loop {
        let joined = call(&sim, seat.me, |world| {
            let now = world.master_time();
            world.master.catalog.join(now, &MemberOffer::default())
        });
        if let Ok(member) = joined.await {
            sim.with(|world| world.clients[index].member = Some(member));
            stay(&seat, member).await;
            sim.with(|world| world.clients[index].member = None);
        }
        seat.clock.sleep(ttl / 40).await;
    }
}

/// Pings until the partition does not know the member any more, or it says goodbye.
async fn stay(seat: &Seat, member: MemberId) {
    let ttl = seat.sim.with(|world| world.params.config.member_ttl);
    loop {
        for _ in 0..PARTS {
            seat.clock.sleep(ttl / (3 * PARTS)).await;
            if seat
                .sim
                .with(|world| world.clients[seat.index].member.is_none())
            {
                return;
            }
        }
        let ping = call(&seat.sim, seat.me, move |world| {
            world.serve(member, |_, _| ())
        });
        if ping.await.is_err_and(|e| e.code() == Code::ClientNotFound) {
            return;
        }
        if seat
            .sim
            .with(|world| !world.settling && world.dice.below(60) == 0)
        {
            let left = call(&seat.sim, seat.me, move |world| {
                world.outcome.fault("client_leaves");
                world.serve(member, |world, _| world.master.catalog.leave(member))
            });
            let _unheard = left.await;
            return;
        }
    }
}

/// Between two pings a client looks so often whether another call has told it that it is not known any more.
const PARTS: u32 = 10;
