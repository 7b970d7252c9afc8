//! What a node does by itself: join, mount, ping, unmount with grace, leave, and begin anew.

use super::{
    super::{
        call::call,
        clock::SimClock,
        root,
        world::{Process, Sim},
    },
    directory,
    port::MasterPort,
};
use futures_util::future::select;
use std::{pin::pin, sync::Arc, time::Duration};
use ziggurat_base::{ByteCount, Clock as _, Code, Era, MemberId, SegmentId, Timestamp};
use ziggurat_dfs::Carriers;
use ziggurat_engine::command::{Answer, Keep, MemberOffer, SegmentOffer, Stock};
use ziggurat_node::Keeper;

/// The pause after a refusal.
const PAUSE: Duration = Duration::from_millis(15);

/// What the loop of one process needs.
#[derive(Clone)]
struct Control {
    sim: Sim,
    index: usize,
    me: Process,
    clock: SimClock,
    keeper: Option<Arc<Keeper>>,
    carriers: Option<Arc<Carriers>>,
}

/// Runs as long as the process.
pub(crate) async fn run(sim: Sim, index: usize) {
    let rate = sim.with(|world| world.nodes[index].rate);
    let me = Process::Node(index);
    let clock = SimClock {
        sim: sim.clone(),
        rate,
    };
    let keeper = directory::open(&sim, index, &clock).await;
    let carriers = root::open(&sim, &clock).await;
    let carriers = carriers.map(|root| Arc::new(Carriers::new(&[root])));
    sim.with(|world| world.nodes[index].carriers.clone_from(&carriers));
    let control = Control {
        sim,
        index,
        me,
        clock,
        keeper,
        carriers,
    };
    loop {
        if let Ok((member, stock)) = control.join().await {
            control.serve(member, stock).await;
            control.sim.with(|world| {
                // Memory that may be offered again is kept until there is somebody to offer it to.
                if !world.params.reoffers() {
                    world.nodes[index].part();
                }
            });
        }
        control.clock.sleep(PAUSE).await;
    }
}

impl Control {
    async fn join(&self) -> Answer<(MemberId, Stock)> {
        let index = self.index;
        let feed = self.keeper.is_some();
        let joined = call(&self.sim, self.me, move |world| {
            let now = world.master_time();
            let offer = MemberOffer {
                address: format!("node{index}").into(),
                in_process: false,
                feed,
                promotes: feed,
            };
            let member = world.master.catalog.join(now, &offer)?;
            world.addresses.insert(member, index);
            Ok((member, world.master.catalog.era()))
        });
        let (member, era) = joined.await?;
        let stock = self.stock();
        match stock {
            Stock::Held => self.lay_aside(),
            Stock::Fresh | Stock::Volatile => self.sim.with(|world| world.nodes[index].part()),
        }
        self.sim.with(|world| {
            let node = &mut world.nodes[index];
            node.member = Some(member);
            node.highest_era = node.highest_era.max(era.0);
            world
                .outcome
                .tell(|| format!("n{index} is {member}, its memory is {stock:?}"));
        });
        Ok((member, stock))
    }

    /// What the memory is worth to a master that has just taken the node in.
    fn stock(&self) -> Stock {
        let (reoffers, standing, ttl) = self.sim.with(|world| {
            let standing = world.nodes[self.index].standing;
            (
                world.params.reoffers(),
                standing,
                world.params.config.member_ttl,
            )
        });
        let limit = ttl * 9 / 10;
        match standing.is_some_and(|heard| self.clock.now().since(heard) < limit) {
            _ if !reoffers => Stock::Volatile,
            true => Stock::Held,
            false => Stock::Fresh,
        }
    }

    /// Keeps what lies in memory under numbers that no master gives.
    fn lay_aside(&self) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        let given = self.sim.with(|world| {
            let node = &mut world.nodes[self.index];
            node.end_membership();
            node.given.clone()
        });
        let mut kept = Vec::new();
        for (number, before) in given.into_iter().enumerate() {
            let aside = SegmentId(u32::MAX - number as u32);
            if let Some(before) = before {
                self.renumber(keeper, number, before, aside);
                kept.push(aside);
            }
        }
        keeper.begin_memory(&kept);
    }

    fn renumber(&self, keeper: &Keeper, number: usize, before: SegmentId, after: SegmentId) {
        if before != after {
            keeper.carry_memory(before, after);
        }
        self.sim.with(|world| {
            let node = &mut world.nodes[self.index];
            if before != after {
                node.renumber(before, after);
            }
            node.given[number] = Some(after);
        });
    }

    /// Until the partition does not know this member any more.
    async fn serve(&self, member: MemberId, stock: Stock) {
        let count = self.sim.with(|world| world.params.segments_per_node);
        let joined = self.clock.now();
        let mut mounted = Vec::new();
        for number in 0..count {
            mounted.push(self.mount(member, number, stock).await);
        }
        if mounted.contains(&None) {
            return;
        }
        match &self.keeper {
            Some(keeper) => {
                let memory = mounted.iter().flatten();
                memory.for_each(|segment| keeper.add_memory(*segment));
                let port = MasterPort {
                    sim: self.sim.clone(),
                    me: self.me,
                };
                if keeper.mount(&port, member).await.is_err() {
                    return;
                }
                self.stand(joined);
                if let Some(carriers) = &self.carriers
                    && carriers.mount(&port, member).await.is_err()
                {
                    return;
                }
                let pings = pin!(self.ping(member, &mut mounted));
                let telling = pin!(self.tell(keeper, &port, member));
                let carrying = pin!(self.carry(&port, member));
                select(pings, select(telling, carrying)).await;
            }
            None => self.ping(member, &mut mounted).await,
        }
    }

    /// Shows life, listens to what the partition lets its member know, and does now and then what nobody asked for.
    async fn ping(&self, member: MemberId, mounted: &mut [Option<SegmentId>]) {
        let index = self.index;
        let (pause, feeds) = self.sim.with(|world| {
            let pause = world.params.config.member_ttl / 3;
            (pause, world.nodes[index].keeper.is_some())
        });
        loop {
            if feeds {
                self.listen(member).await;
            }
            self.clock.sleep(pause).await;
            let asked = self.clock.now();
            let ping = call(&self.sim, self.me, move |world| {
                world.serve(member, |world, _| world.sent_to(member))
            });
            match ping.await {
                Ok(sent) => {
                    self.sim.with(|world| world.nodes[index].inbox.expect(sent));
                    self.stand(asked);
                }
                Err(error) if error.code() == Code::ClientNotFound => return,
                Err(_) => {}
            }
            let (leaves, unmounts) = self.sim.with(|world| {
                let quiet = world.settling;
                let mut roll = |of: u64| !quiet && world.dice.below(of) == 0;
                (roll(120), roll(12))
            });
            if leaves {
                self.leave(member).await;
                return;
            }
            // A node with a directory takes its memory back only when it leaves.
            if unmounts && !feeds {
                let count = mounted.len() as u64;
                let number = self.sim.with(|world| world.dice.below(count)) as usize;
                if !self.renew_segment(member, number, mounted).await {
                    return;
                }
            }
        }
    }

    /// A master has answered this member, who asked at `asked`.
    fn stand(&self, asked: Timestamp) {
        self.sim
            .with(|world| world.nodes[self.index].standing = Some(asked));
    }

    /// Connects to the effects of this member, when it is not connected or something was lost on the way.
    async fn listen(&self, member: MemberId) {
        let index = self.index;
        let connection = self.sim.with(|world| world.nodes[index].inbox.reconnect());
        if let Some(connection) = connection {
            let attached = call(&self.sim, self.me, move |world| {
                world.serve(member, |world, _| world.attach(member, connection))
            });
            let _noticed_with_the_next_ping = attached.await;
        }
    }

    /// Tells what is held, until the partition does not know this member any more.
    async fn tell(&self, keeper: &Keeper, port: &MasterPort, member: MemberId) {
        while keeper.tell(port, member).await.code() != Code::ClientNotFound {
            self.clock.sleep(PAUSE).await;
        }
    }

    /// Carries shard files, until the partition does not know this member any more.
    async fn carry(&self, port: &MasterPort, member: MemberId) {
        let Some(carriers) = &self.carriers else {
            return std::future::pending().await;
        };
        let (era, ttl) = self.sim.with(|world| {
            let era = world.nodes[self.index].highest_era;
            (Era(era), world.params.config.member_ttl)
        });
        loop {
            let carrying = carriers.carry(port, member, era, &self.clock, ttl);
            if carrying.await.code() == Code::ClientNotFound {
                return;
            }
            self.clock.sleep(PAUSE).await;
        }
    }

    async fn leave(&self, member: MemberId) {
        self.sim.with(|world| world.outcome.fault("node_leaves"));
        let left = call(&self.sim, self.me, move |world| {
            world.serve(member, |world, _| world.master.catalog.leave(member))
        });
        let _unheard = left.await;
        // Who leaves has nothing to offer to anybody.
        self.sim
            .with(|world| world.nodes[self.index].standing = None);
    }

    /// Gives a segment and learns its number; `None` when this member is not known any more.
    async fn mount(&self, member: MemberId, number: usize, stock: Stock) -> Option<SegmentId> {
        let index = self.index;
        let before = self.sim.with(|world| {
            let given = &mut world.nodes[index].given;
            given.resize(given.len().max(number + 1), None);
            given[number]
        });
        let stock = match (stock, before) {
            (Stock::Held, None) => Stock::Fresh,
            _ => stock,
        };
        let held_era = self.keeper.as_ref().map_or(Era(0), |k| k.highest_era());
        loop {
            let (capacity, era) = self
                .sim
                .with(|world| (world.params.segment_bytes, world.nodes[index].highest_era));
            let offer = SegmentOffer {
                name: format!("node{index}/{number}").into(),
                capacity: ByteCount(capacity),
                highest_era: Era(era).max(held_era),
                keep: Keep::Delegated,
                stock,
            };
            let name = offer.name.clone();
            let mounted = call(&self.sim, self.me, move |world| world.mount(member, &offer));
            let segment = match mounted.await {
                Ok(segment) => Some(segment),
                Err(error) if error.code() == Code::ClientNotFound => return None,
                // Whether an unanswered mount was done is asked for.
                Err(_) => self.find(member, &name).await,
            };
            if let Some(segment) = segment {
                match (before, &self.keeper) {
                    (Some(before), Some(keeper)) => {
                        self.renumber(keeper, number, before, segment);
                    }
                    _ => self.sim.with(|world| {
                        let node = &mut world.nodes[index];
                        node.mount(segment, capacity);
                        node.given[number] = Some(segment);
                    }),
                }
                self.sim.with(|world| {
                    world.outcome.tell(|| format!("n{index} mounts {segment}"));
                });
                return Some(segment);
            }
            self.clock.sleep(PAUSE).await;
        }
    }

    /// The number of a segment of this member by its name.
    async fn find(&self, member: MemberId, name: &str) -> Option<SegmentId> {
        let segments = call(&self.sim, self.me, move |world| {
            Ok(world.master.catalog.segments())
        });
        let segments = segments.await.ok()?;
        let mine = |s: &&ziggurat_engine::command::SegmentStat| {
            s.member == member
                && *s.name == *name
                && s.state == ziggurat_engine::segment::Segment::Mounted
        };
        segments.iter().find(mine).map(|s| s.id)
    }

    /// Takes a segment back with a grace period, then gives its memory anew; `false` when this member is not known any
    /// more.
    async fn renew_segment(
        &self,
        member: MemberId,
        number: usize,
        mounted: &mut [Option<SegmentId>],
    ) -> bool {
        let Some(segment) = mounted[number] else {
            return false;
        };
        let grace = self.sim.with(|world| {
            world.outcome.fault("unmount");
            let most = world.params.config.lease.as_millis() as u64 * 2;
            Duration::from_millis(world.dice.below(most))
        });
        if !self.unmount(member, segment, grace).await {
            return false;
        }
        // Some ask again, before and after the grace has ended: it changes nothing.
        self.clock.sleep(grace / 2).await;
        self.unmount(member, segment, grace).await;
        self.clock.sleep(grace / 2 + PAUSE).await;
        let index = self.index;
        self.sim.with(|world| world.nodes[index].unmount(segment));
        for _ in 0..4 {
            self.clock.sleep(PAUSE).await;
            self.unmount(member, segment, grace).await;
        }
        self.sim
            .with(|world| world.nodes[index].given[number] = None);
        mounted[number] = self.mount(member, number, Stock::Volatile).await;
        mounted[number].is_some()
    }

    /// Asks until there is an answer; `false` when this member is not known any more.
    async fn unmount(&self, member: MemberId, segment: SegmentId, grace: Duration) -> bool {
        loop {
            let unmounted = call(&self.sim, self.me, move |world| {
                world.serve(member, |world, now| {
                    world.master.catalog.unmount(now, member, segment, grace)
                })?
            });
            match unmounted.await.map_err(|e| e.code()) {
                Ok(()) | Err(Code::SegmentNotFound | Code::UnavailableInCurrentStatus) => {
                    return true;
                }
                Err(Code::ClientNotFound) => return false,
                Err(_) => self.clock.sleep(PAUSE).await,
            }
        }
    }
}
