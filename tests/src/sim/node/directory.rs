//! The SSD directory of a node: opened by each of its processes, and looked at for what the one before was to leave.

use super::{
    super::{
        clock::SimClock,
        disk::{Crash, NodeDisk},
        world::{Order, Process, Sim},
    },
    Node,
    memory::Memory,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use ziggurat_base::{ByteCount, Ticket, hash::Dice};
use ziggurat_engine::{catalog::OffloadMode, shelf::holdings::Holdings};
use ziggurat_node::{Directory, Keeper};
use ziggurat_tiers::ssd::{SsdTier, Wanted};

/// The pause after a directory could not be opened.
const PAUSE: Duration = Duration::from_millis(20);

/// Records of those that were there before which are read at once after a restart.
const READ_MAX: usize = 8;

/// Opens the directory, and starts what serves it; `None` for a node without one.
pub(super) async fn open(sim: &Sim, index: usize, clock: &SimClock) -> Option<Arc<Keeper>> {
    let disk = sim.with(|world| world.nodes[index].disk.clone())?;
    let errors = disk.errors();
    let (tier, recovered) = loop {
        let opening = SsdTier::open(
            Arc::new(disk.disk.clone()),
            Arc::new(clock.clone()),
            disk.options.clone(),
            disk.directory,
        );
        match opening.await {
            Ok(opened) => break opened,
            Err(error) => {
                sim.with(|world| {
                    world
                        .outcome
                        .tell(|| format!("n{index} cannot open its directory: {error}"));
                });
                clock.sleep(PAUSE).await;
            }
        }
    };
    let is_certain = disk.errors() == errors && !disk.has_lied();
    let remarks = format!("{recovered:?}");
    look(sim, index, &tier, &remarks, is_certain.then_some(&disk)).await;
    let directory = Directory {
        name: format!("node{index}-ssd").into(),
        tier: Arc::new(tier),
    };
    let (eager, capacity) = sim.with(|world| {
        let params = &world.params;
        let bytes = params.segment_bytes * params.segments_per_node as u64;
        let eager = params.config.offload == OffloadMode::Eager;
        (eager, ByteCount(bytes))
    });
    let memory = Arc::new(Memory {
        sim: sim.clone(),
        index,
        capacity,
    });
    let keeper = Arc::new(Keeper::new(memory, vec![directory], eager));
    let (working, clock) = (keeper.clone(), clock.clone());
    sim.with(|world| {
        world.nodes[index].keeper = Some(keeper.clone());
        let work = async move { working.work(&clock).await };
        let order = Order::Spawn(Process::Node(index), Box::pin(work));
        world.orders.push(order);
    });
    Some(keeper)
}

/// Every version that is held.
pub(crate) fn tickets(holdings: &Holdings) -> BTreeSet<Ticket> {
    let files: Vec<_> = holdings.files().map(|(number, _)| number).collect();
    let of_file = |number: u32| holdings.of_file(number).map(|(held, _)| held.ticket);
    files.into_iter().flat_map(of_file).collect()
}

/// What the next process must find in the directory of this one.
pub(super) fn must_find(node: &Node, crash: Crash) -> BTreeSet<Ticket> {
    let keeps = node.disk.as_ref().is_some_and(|disk| disk.keeps(crash));
    match &node.keeper {
        Some(keeper) if keeps => keeper.tiers().flat_map(|tier| tier.look(tickets)).collect(),
        // One that ends before it has opened the directory has changed nothing that it must find.
        None if keeps => node.kept.clone(),
        _ => BTreeSet::new(),
    }
}

/// After a restart everything is there that was acknowledged, and what is there is whole.
/// Nothing is certain of a disk that erred or lied.
async fn look(sim: &Sim, index: usize, tier: &SsdTier, remarks: &str, disk: Option<&NodeDisk>) {
    let (kept, dice) = sim.with(|world| {
        world.outcome.tell(|| {
            let kept = world.nodes[index].kept.len();
            format!("n{index} opens its directory, {kept} must be there: {remarks}")
        });
        (
            std::mem::take(&mut world.nodes[index].kept),
            world.dice.roll(),
        )
    });
    let Some(disk) = disk else {
        return;
    };
    let found = tier.look(tickets);
    let lost: Vec<_> = kept.difference(&found).collect();
    if !lost.is_empty() {
        let what = format!("n{index} does not find {lost:?}: {remarks}");
        sim.with(|world| world.outcome.violation("persistent_record_lost", what));
    }
    let dice = &mut Dice::new(dice);
    let mut wanted: Vec<_> = found.difference(&kept).copied().collect();
    let before: Vec<_> = found.intersection(&kept).copied().collect();
    if !before.is_empty() {
        let pick = |_| before[dice.below(before.len() as u64) as usize];
        wanted.extend((0..READ_MAX).map(pick));
    }
    for ticket in wanted {
        let Some(held) = tier.look(|holdings| holdings.find(ticket)) else {
            continue;
        };
        let errors = disk.errors();
        let read = tier.read(&Wanted::whole(ticket, held.len)).await;
        if let Err(error) = read
            && disk.errors() == errors
            && !disk.has_lied()
        {
            let what = format!("n{index} found {ticket} and cannot read it: {error}");
            sim.with(|world| world.outcome.violation("torn_record_accepted", what));
        }
    }
}
