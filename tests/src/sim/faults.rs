//! What goes wrong, and when: planned faults come with the count of operations, those of single messages with the dice
//! of the network.

use super::{
    client,
    clock::SimClock,
    disk::{Crash, NodeDisk},
    node::{self, rot},
    params::{CLIENTS, NODES},
    world::{Order, Process, Sim, World},
};
use std::{sync::Arc, time::Duration};
use ziggurat_base::hash::Dice;

impl World {
    fn span(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_micros(from_ms * 1000 + self.dice.below((to_ms - from_ms) * 1000))
    }

    fn anybody(&mut self) -> Process {
        match self.dice.below((1 + NODES + CLIENTS) as u64) as usize {
            0 => Process::Master,
            index if index <= NODES => Process::Node(index - 1),
            index => Process::Client(index - 1 - NODES),
        }
    }
}

/// Called after every operation: strikes when a fault is due, and ends the faults with the operations.
pub(crate) fn due(world: &mut World) {
    let (ops, planned) = (world.params.ops, world.params.faults);
    let struck = planned - world.faults_left;
    if world.faults_left > 0 && world.outcome.ops * planned / ops > struck {
        world.faults_left -= 1;
        world.orders.push(Order::Fault);
    }
    if world.outcome.ops >= ops && !world.settling {
        settle(world);
    }
}

/// Faults stop; what they broke is mended.
fn settle(world: &mut World) {
    world.settling = true;
    world.network.calm();
    world.disks().for_each(NodeDisk::calm);
    if let Some(root) = &world.root {
        root.calm();
    }
    let everybody: Vec<_> = world.health.keys().copied().collect();
    for process in everybody {
        if let Some(health) = world.health.get_mut(&process) {
            health.stopped_until = world.now;
        }
        world.orders.push(Order::Resume(process));
    }
    world.outcome.tell(|| "faults stop".into());
}

/// One fault.
pub(crate) fn strike(world: &mut World, sim: &Sim) {
    if world.params.disk.is_some() && world.dice.below(4) == 0 {
        let kind = strike_disk(world, sim);
        world.outcome.fault(kind);
        world.outcome.tell(|| format!("FAULT {kind}"));
        return;
    }
    let kind = match world.dice.below(100) {
        0..14 => partition(world),
        14..24 => node_crash(world, sim),
        24..40 => client_crash(world, sim),
        40..58 => client_stall(world),
        58..68 => node_stall(world),
        68..71 => master_restart(world),
        71..75 => master_stall(world),
        75..87 => bit_rot(world),
        87..93 => slow(world),
        _ => full_memory(world),
    };
    world.outcome.fault(kind);
    world.outcome.tell(|| format!("FAULT {kind}"));
}

fn partition(world: &mut World) -> &'static str {
    let one = world.anybody();
    let other = world.anybody();
    let span = world.span(5, 900);
    let until = world.now.after(span);
    world.network.cut(one, other, until);
    "partition"
}

/// One fault of the disks, or one that makes the most of them.
fn strike_disk(world: &mut World, sim: &Sim) -> &'static str {
    let index = world.dice.below(NODES as u64) as usize;
    let span = world.span(5, 800);
    match world.dice.below(10) {
        0..2 => {
            end_node(world, sim, index, Crash::PowerLost);
            "power_loss"
        }
        2 => {
            end_node(world, sim, index, Crash::Killed);
            let down = world.span(1, 300);
            world.restart_master(down);
            "node_and_master_crash"
        }
        3..5 => {
            let slowness = 10 << world.dice.below(7);
            if let Some(root) = world.root.clone().filter(|_| index == 0) {
                root.slow_down(slowness);
                world.after(span, move |_| root.slow_down(1));
                return "slow_root";
            }
            for_a_while(
                world,
                index,
                span,
                |disk| disk.slow_down(slowness),
                |disk| {
                    disk.slow_down(1);
                },
            );
            "slow_disk"
        }
        5..7 => {
            for_a_while(world, index, span, NodeDisk::fill, NodeDisk::room);
            "full_disk"
        }
        7 => {
            world.disks().nth(index).into_iter().for_each(NodeDisk::rot);
            "disk_rots"
        }
        _ => {
            world.restart_master(span);
            "master_restart"
        }
    }
}

fn for_a_while(
    world: &mut World,
    index: usize,
    span: Duration,
    begin: impl FnOnce(&NodeDisk),
    end: impl FnOnce(&NodeDisk) + Send + 'static,
) {
    let Some(disk) = &world.nodes[index].disk else {
        return;
    };
    begin(disk);
    world.after(span, move |world| {
        if let Some(disk) = &world.nodes[index].disk {
            end(disk);
        }
    });
}

fn node_crash(world: &mut World, sim: &Sim) -> &'static str {
    let index = world.dice.below(NODES as u64) as usize;
    end_node(world, sim, index, Crash::Killed);
    "node_crash"
}

fn end_node(world: &mut World, sim: &Sim, index: usize, crash: Crash) {
    let process = Process::Node(index);
    if world.health(process).up {
        world.kill(process);
        world.nodes[index].die(crash);
        let (down, sim) = (world.span(1, 300), sim.clone());
        world.after(down, move |world| start_node(world, &sim, index));
    }
}

/// Starts a node's process.
pub(crate) fn start_node(world: &mut World, sim: &Sim, index: usize) {
    let process = Process::Node(index);
    world.start(process);
    give_disk(world, sim, index);
    let work = node::control::run(sim.clone(), index);
    world.orders.push(Order::Spawn(process, Box::pin(work)));
}

/// The first process of a node finds an empty disk.
fn give_disk(world: &mut World, sim: &Sim, index: usize) {
    let Some(params) = world.params.disk.clone() else {
        return;
    };
    if world.nodes[index].disk.is_none() {
        let clock = SimClock {
            sim: sim.clone(),
            rate: world.nodes[index].rate,
        };
        let dice = &mut Dice::new(world.dice.roll());
        let disk = NodeDisk::new(&params, Arc::new(clock), dice);
        world.nodes[index].disk = Some(disk);
    }
}

fn client_crash(world: &mut World, sim: &Sim) -> &'static str {
    let index = world.dice.below(CLIENTS as u64) as usize;
    let process = Process::Client(index);
    if world.health(process).up {
        world.kill(process);
        let (down, sim) = (world.span(1, 50), sim.clone());
        world.after(down, move |world| client::start(world, &sim, index));
    }
    "client_crash"
}

fn client_stall(world: &mut World) -> &'static str {
    let index = world.dice.below(CLIENTS as u64) as usize;
    let span = world.span(1, 1500);
    world.stop(Process::Client(index), span);
    "client_stall"
}

fn node_stall(world: &mut World) -> &'static str {
    let index = world.dice.below(NODES as u64) as usize;
    let span = world.span(1, 1200);
    world.stop(Process::Node(index), span);
    "node_stall"
}

fn master_restart(world: &mut World) -> &'static str {
    let down = world.span(1, 300);
    world.restart_master(down);
    "master_restart"
}

fn master_stall(world: &mut World) -> &'static str {
    let span = world.span(1, 1500);
    world.stop(Process::Master, span);
    "master_stall"
}

fn bit_rot(world: &mut World) -> &'static str {
    for _ in 0..8 {
        let index = world.dice.below(NODES as u64) as usize;
        rot(world, index);
    }
    "bit_rot"
}

fn slow(world: &mut World) -> &'static str {
    let span = world.span(5, 200);
    let until = world.now.after(span);
    world.network.slow(until);
    "slow_everything"
}

/// Everything that is there gets a guard, so that nothing can leave.
fn full_memory(world: &mut World) -> &'static str {
    if world.health(Process::Master).up {
        world.hoard();
    }
    "full_memory"
}
