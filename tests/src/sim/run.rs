//! Runs one seed from its first event to its last question.

use super::{
    client,
    executor::Executor,
    faults,
    outcome::Outcome,
    params::{CLIENTS, NODES, Params},
    root::SharedRoot,
    settle,
    world::{Order, Process, Sim, World},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};
use ziggurat_base::hash::Dice;

/// Whether a run keeps its story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Only what it came to.
    Silent,
    /// Line by line.
    Story,
}

/// Events of one run beyond which something goes round in circles.
const EVENTS_MAX: u64 = 3_000_000;

thread_local! {
    static PANICKED: std::cell::RefCell<Option<String>> = const { std::cell::RefCell::new(None) };
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Panics of the product under the simulator are kept for the report instead of being printed.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PANICKED.with(|kept| *kept.borrow_mut() = Some(info.to_string()));
            } else {
                usual(info);
            }
        }));
    });
}

/// Runs the history of a seed. A panic of the product is a violation like any other.
#[must_use]
pub fn run(seed: u64, telling: Telling) -> Outcome {
    keep_panics();
    let params = Params::rolled(seed);
    let sim = Sim::new(World::new(params, telling == Telling::Story));
    QUIET.set(true);
    let ran = catch_unwind(AssertUnwindSafe(|| history(&sim)));
    QUIET.set(false);
    let _dropped_outside_of_the_world = sim.with(World::end);
    sim.with(|world| {
        if ran.is_err() {
            let what = PANICKED
                .with(|kept| kept.borrow_mut().take())
                .unwrap_or_default();
            world.outcome.violation("panic", what);
        }
        let seen = *world.master.catalog.seen();
        world.outcome.seen.join(&seen);
        std::mem::take(&mut world.outcome)
    })
}

/// The shared filesystem is there before anybody.
fn make_root(sim: &Sim) {
    let params = sim.with(|world| world.params.root.clone());
    if let Some(params) = params {
        let mut dice = Dice::new(sim.with(|world| world.params.seed) ^ 0xf5);
        let root = SharedRoot::new(sim, &params, &mut dice);
        sim.with(|world| world.root = Some(root));
    }
}

fn history(sim: &Sim) {
    let mut executor = Executor::default();
    make_root(sim);
    sim.with(|world| {
        world.start_master();
        for index in 0..NODES {
            faults::start_node(world, sim, index);
        }
        for index in 0..CLIENTS {
            client::start(world, sim, index);
        }
    });
    let mut asked = false;
    for _ in 0..EVENTS_MAX {
        obey(sim, &mut executor);
        while executor.turn(&|process| sim.with(|world| world.stopped(process))) {}
        obey(sim, &mut executor);
        if sim.with(|world| !world.outcome.violations.is_empty()) {
            return;
        }
        if sim.with(|world| world.done) {
            everybody_came_to_an_end(sim, &executor);
            return;
        }
        if !asked && sim.with(|world| world.settling) {
            asked = true;
            let audit = settle::audit(sim.clone());
            executor.spawn(Process::Auditor, Box::pin(audit));
        }
        let Some(event) = sim.with(World::next) else {
            sim.with(|world| world.outcome.violation("nothing_left_to_do", String::new()));
            return;
        };
        sim.with(event);
    }
    sim.with(|world| {
        let what = format!("{} operations in {EVENTS_MAX} events", world.outcome.ops);
        world.outcome.violation("no_end", what);
    });
}

/// Every operation of every client has ended: only the task that pings is left of each.
fn everybody_came_to_an_end(sim: &Sim, executor: &Executor) {
    for index in 0..CLIENTS {
        let tasks = executor.count(Process::Client(index));
        if tasks != 1 {
            sim.with(|world| {
                let what = format!("client {index} has {tasks} tasks");
                world.outcome.violation("operation_without_end", what);
            });
        }
    }
}

/// Does what only the executor can do.
fn obey(sim: &Sim, executor: &mut Executor) {
    loop {
        let orders = sim.with(|world| std::mem::take(&mut world.orders));
        if orders.is_empty() {
            return;
        }
        for order in orders {
            match order {
                Order::Spawn(process, work) => executor.spawn(process, work),
                Order::Kill(process) => executor.kill(process),
                Order::Resume(process) => executor.resume(process),
                Order::Fault => sim.with(|world| faults::strike(world, sim)),
            }
        }
    }
}
