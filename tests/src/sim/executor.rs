//! Runs tasks one at a time, in an order that follows from their wakes alone. No threads, no time.
//!
//! A task belongs to a process of the simulated world. One that is stopped (SIGSTOP) keeps its wakes until it goes on;
//! one that is killed has its tasks dropped wherever they wait.

use super::world::Process;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};
use ziggurat_base::Job;

/// Work that a process does by itself.
pub(crate) type Work = Job<'static, ()>;

#[derive(Clone, Default)]
struct Ready(Arc<Mutex<VecDeque<u64>>>);

impl Ready {
    fn push(&self, task: u64) {
        self.0
            .lock()
            .expect("wakers do nothing that panics")
            .push_back(task);
    }

    fn pop(&self) -> Option<u64> {
        self.0
            .lock()
            .expect("wakers do nothing that panics")
            .pop_front()
    }
}

struct Beat {
    task: u64,
    ready: Ready,
}

impl Wake for Beat {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.task);
    }
}

struct Task {
    owner: Process,
    work: Work,
    waker: Waker,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Executor {
    tasks: BTreeMap<u64, Task>,
    parked: BTreeMap<Process, BTreeSet<u64>>,
    ready: Ready,
    next: u64,
}

impl Executor {
    /// Adds a task; it runs at the next turn.
    pub(crate) fn spawn(&mut self, owner: Process, work: Work) {
        let task = self.next;
        self.next += 1;
        let beat = Beat {
            task,
            ready: self.ready.clone(),
        };
        let waker = Waker::from(Arc::new(beat));
        self.tasks.insert(task, Task { owner, work, waker });
        self.ready.push(task);
    }

    /// Drops every task of a process in mid-await.
    pub(crate) fn kill(&mut self, owner: Process) {
        self.tasks.retain(|_, task| task.owner != owner);
        self.parked.remove(&owner);
    }

    /// A stopped process goes on: what woke it meanwhile runs now.
    pub(crate) fn resume(&mut self, owner: Process) {
        for task in self.parked.remove(&owner).unwrap_or_default() {
            self.ready.push(task);
        }
    }

    /// Tasks of a process that have not finished.
    pub(crate) fn count(&self, owner: Process) -> usize {
        let tasks = self.tasks.values();
        tasks.filter(|task| task.owner == owner).count()
    }

    /// Polls one woken task; `false` when none is left.
    pub(crate) fn turn(&mut self, stopped: &dyn Fn(Process) -> bool) -> bool {
        let Some(id) = self.ready.pop() else {
            return false;
        };
        let Some(task) = self.tasks.get_mut(&id) else {
            return true;
        };
        if stopped(task.owner) {
            self.parked.entry(task.owner).or_default().insert(id);
            return true;
        }
        let waker = task.waker.clone();
        if let Poll::Ready(()) = task.work.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.tasks.remove(&id);
        }
        true
    }
}
