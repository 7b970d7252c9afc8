//! The world of one seed: time, the queue of what is to happen, and everything that messages pass between.

use super::{
    books::{Books, Broken},
    client::Client,
    clock::Rate,
    disk::NodeDisk,
    executor::Work,
    master::Master,
    network::{Fate, Network},
    node::Node,
    oracle::Oracle,
    outcome::Outcome,
    params::Params,
    root::SharedRoot,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use ziggurat_base::{MemberId, Timestamp, hash::Dice};

/// A process of the simulated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Process {
    /// The master.
    Master,
    /// A node.
    Node(usize),
    /// A client.
    Client(usize),
    /// Whoever asks the last questions.
    Auditor,
}

/// Something that happens at its time.
pub(crate) type Event = Box<dyn FnOnce(&mut World) + Send>;

/// Events in the order of their times, and of their planning.
pub(crate) type Queue = BTreeMap<(Timestamp, u64), Event>;

/// What only the executor can do, in order.
pub(crate) enum Order {
    /// Start a task.
    Spawn(Process, Work),
    /// Drop all tasks of a process.
    Kill(Process),
    /// Wake what was woken while the process was stopped.
    Resume(Process),
    /// A fault is due: some start processes, and that takes a handle on the world.
    Fault,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Health {
    /// Counts its starts; what belongs to an earlier one is void.
    pub(crate) life: u64,
    /// Whether it runs.
    pub(crate) up: bool,
    /// Stopped, as by SIGSTOP, until then.
    pub(crate) stopped_until: Timestamp,
}

/// See the module.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) params: Params,
    pub(crate) dice: Dice,
    pub(crate) network: Network,
    pub(crate) master: Master,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    pub(crate) health: BTreeMap<Process, Health>,
    /// Which node joined as which member: the address book of clients.
    /// The root that everybody has mounted.
    pub(crate) root: Option<SharedRoot>,
    pub(crate) addresses: BTreeMap<MemberId, usize>,
    pub(crate) oracle: Oracle,
    pub(crate) books: Books,
    pub(crate) outcome: Outcome,
    pub(crate) orders: Vec<Order>,
    pub(crate) faults_left: u64,
    /// No faults any more, and no new operations.
    pub(crate) settling: bool,
    /// The history is over.
    pub(crate) done: bool,
    queue: Queue,
    sequence: u64,
    /// `now` for those who look at a clock in the middle of a step.
    ticks: Arc<AtomicU64>,
}

impl World {
    pub(crate) fn new(params: Params, story: bool) -> Self {
        let dice = &mut Dice::new(params.seed);
        let outcome = Outcome {
            story: story.then(Vec::new),
            ..Outcome::default()
        };
        Self {
            now: Timestamp(1),
            ticks: Arc::new(AtomicU64::new(1)),
            network: Network::new(params.weather, dice.roll()),
            master: Master::new(&params, dice),
            nodes: (0..super::params::NODES).map(|_| Node::new(dice)).collect(),
            clients: (0..super::params::CLIENTS)
                .map(|_| Client::new(dice))
                .collect(),
            health: BTreeMap::new(),
            root: None,
            addresses: BTreeMap::new(),
            oracle: Oracle::default(),
            books: Books::default(),
            outcome,
            orders: Vec::new(),
            faults_left: params.faults,
            settling: false,
            done: false,
            queue: BTreeMap::new(),
            sequence: 0,
            dice: Dice::new(dice.roll()),
            params,
        }
    }

    /// Plans an event.
    pub(crate) fn at(&mut self, at: Timestamp, event: impl FnOnce(&mut Self) + Send + 'static) {
        self.sequence += 1;
        let key = (at.max(self.now), self.sequence);
        self.queue.insert(key, Box::new(event));
    }

    /// Plans an event.
    pub(crate) fn after(&mut self, span: Duration, event: impl FnOnce(&mut Self) + Send + 'static) {
        self.at(self.now.after(span), event);
    }

    /// The next event; time goes on to it.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let ((at, number), event) = self.queue.pop_first()?;
        self.now = at;
        self.ticks.store(at.0, Ordering::SeqCst);
        self.outcome.now = at;
        self.outcome.note(at.0 ^ number << 40);
        Some(event)
    }

    /// The clock of a process.
    pub(crate) fn rate(&self, process: Process) -> Rate {
        match process {
            Process::Node(index) => self.nodes[index].rate,
            Process::Client(index) => self.clients[index].rate,
            Process::Master | Process::Auditor => self.master.rate,
        }
    }

    /// The disks that there are, by node.
    pub(crate) fn disks(&self) -> impl Iterator<Item = &NodeDisk> {
        self.nodes.iter().filter_map(|node| node.disk.as_ref())
    }

    /// Lets go of everything that has a handle on this world.
    pub(crate) fn end(&mut self) -> impl Sized + use<> {
        let disks: Vec<_> = self.disks().map(NodeDisk::counts).collect();
        let root = self.root.as_ref().map(SharedRoot::counts);
        for (kind, count) in disks.into_iter().chain(root).flatten() {
            *self.outcome.faults.entry(kind).or_default() += count;
        }
        let nodes = std::mem::take(&mut self.nodes);
        let queue = std::mem::take(&mut self.queue);
        let roots: Vec<_> = self.clients.iter_mut().map(|c| c.roots.take()).collect();
        let orders = std::mem::take(&mut self.orders);
        (nodes, roots, self.root.take(), queue, orders)
    }

    pub(crate) fn health(&self, process: Process) -> Health {
        self.health.get(&process).copied().unwrap_or_default()
    }

    /// Whether a process is stopped now.
    pub(crate) fn stopped(&self, process: Process) -> bool {
        self.health(process).stopped_until > self.now
    }

    /// Runs `event` in a process at its time: not before it goes on when it is stopped, never when it has died meanwhile.
    /// Without a life, whatever incarnation runs then.
    pub(crate) fn within(
        &mut self,
        process: Process,
        life: Option<u64>,
        span: Duration,
        event: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        self.after(span, move |world| {
            let health = world.health(process);
            if !health.up || life.is_some_and(|life| life != health.life) {
                return;
            }
            if health.stopped_until > world.now {
                let rest = health.stopped_until.since(world.now);
                world.within(process, life, rest, event);
                return;
            }
            event(world);
        });
    }

    /// Sends a message. `lost` is run when the sender notices that it did not arrive.
    pub(crate) fn send(
        &mut self,
        from: Process,
        to: Process,
        arrives: impl FnOnce(&mut Self) + Send + 'static,
        lost: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        // A request may reach the next master: clients connect again and go on.
        let life = (to != Process::Master).then(|| self.health(to).life);
        match self.network.fate(self.now, from, to) {
            Fate::Arrives(delay) => self.within(to, life, delay, arrives),
            Fate::Lost(noticed) => {
                self.outcome.fault("loss");
                if let Some(delay) = noticed {
                    self.after(delay, lost);
                }
            }
        }
    }

    /// Notes broken rules.
    pub(crate) fn judge(&mut self, broken: impl IntoIterator<Item = Broken>) {
        for (rule, what) in broken {
            self.outcome.violation(rule, what);
        }
    }

    /// Starts a process anew; what it was is void. Its first task is the caller's business.
    pub(crate) fn start(&mut self, process: Process) -> u64 {
        let health = self.health.entry(process).or_default();
        health.life += 1;
        health.up = true;
        health.stopped_until = Timestamp::ZERO;
        health.life
    }

    /// Ends a process at once.
    pub(crate) fn kill(&mut self, process: Process) {
        if let Some(health) = self.health.get_mut(&process) {
            health.up = false;
        }
        self.orders.push(Order::Kill(process));
    }

    /// Stops a process for a while.
    pub(crate) fn stop(&mut self, process: Process, span: Duration) {
        let until = self.now.after(span);
        let health = self.health.entry(process).or_default();
        let life = health.life;
        health.stopped_until = health.stopped_until.max(until);
        self.at(until, move |world| {
            if world.health(process).life == life && !world.stopped(process) {
                world.orders.push(Order::Resume(process));
            }
        });
    }
}

/// A handle on the world, for ports and tasks. Locked for one step, never across an await.
#[derive(Clone)]
pub(crate) struct Sim(Arc<Mutex<World>>, Arc<AtomicU64>);

impl Sim {
    pub(crate) fn new(world: World) -> Self {
        let ticks = world.ticks.clone();
        Self(Arc::new(Mutex::new(world)), ticks)
    }

    /// The time, also within a step.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.1.load(Ordering::SeqCst))
    }

    /// Takes a step. After a panic of the product in an earlier step the world is looked at once more, for the report.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut World) -> R) -> R {
        step(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
