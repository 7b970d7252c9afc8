//! The engine of io_uring: one thread that owns the ring, and a queue in front of it.
//!
//! Callers put requests into the queue. A thread that sleeps has told them so under the queue's lock, and is woken by a
//! write to an eventfd that it reads through the ring; one that works sees the queue by itself. The queue is bounded by
//! the pool, whose buffers the requests hold, and by what callers await.

mod progress;
mod ring;
mod table;
mod turn;

use crate::{
    buffer::Pool,
    helper::{Desk, join},
    local::{Engine, Work, handle::Closer},
    sys,
};
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};
use turn::Turn;
use ziggurat_base::{Code, Error};

/// What is wanted of the ring.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How many requests may be under way.
    pub(crate) depth: u32,
    /// Whole blocks of the disk.
    pub(crate) block: u32,
    /// A kernel thread submits, and sleeps after this long without work.
    pub(crate) sqpoll: Option<Duration>,
    /// Completions are polled for.
    pub(crate) iopoll: bool,
}

/// What the kernel gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Files are in the ring's table.
    pub(crate) files: bool,
    /// The memory of the pool is pinned once and for all.
    pub(crate) buffers: bool,
    /// Completions are collected when this engine asks, without interrupts.
    pub(crate) deferred: bool,
    /// Why it is not better, a clause for each.
    pub(crate) notes: Vec<String>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Uring {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    bell: File,
    desk: Desk,
}

#[derive(Debug, Default)]
struct Queue {
    work: VecDeque<Work>,
    /// Files that nobody wants any more, with their places in the ring's table.
    unwanted: Vec<(File, u32)>,
    /// The thread waits for the bell.
    asleep: bool,
    /// It should end when all has landed.
    closing: bool,
    /// It has ended, and why.
    over: Option<Error>,
}

impl Uring {
    /// Starts the thread and its ring.
    ///
    /// # Errors
    /// What the kernel said to the ring or the thread.
    pub(crate) fn start(pool: &Pool, plan: Plan, desk: &Desk) -> io::Result<(Self, Found)> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            bell: sys::event()?,
            desk: desk.clone(),
        });
        let (report, reported) = sync_channel(1);
        let (theirs, pool) = (Arc::clone(&shared), pool.clone());
        // A ring belongs to the thread that made it.
        let thread = thread::Builder::new()
            .name("ziggurat-ring".into())
            .spawn(move || {
                let mut end = End {
                    shared: &theirs,
                    error: Error::new(Code::Internal, "the disk engine panicked"),
                };
                match Turn::new(&theirs, &pool, &plan) {
                    Ok((turn, found)) => {
                        drop(report.send(Ok(found)));
                        end.error = turn.run();
                    }
                    Err(cause) => drop(report.send(Err(cause))),
                }
            })?;
        let engine = Self {
            shared,
            thread: Some(thread),
        };
        let found = reported
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the ring's thread panicked")))?;
        Ok((engine, found))
    }
}

/// Tells callers that nobody serves them any more, however the thread ended.
struct End<'a> {
    shared: &'a Shared,
    error: Error,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.over = Some(self.error.clone());
        let work = std::mem::take(&mut queue.work);
        let unwanted = std::mem::take(&mut queue.unwanted);
        drop(queue);
        for work in work {
            work.refuse(&self.error);
        }
        for (file, _) in unwanted {
            self.shared.desk.post(move || drop(file));
        }
    }
}

impl Engine for Uring {
    fn start(&self, work: Vec<Work>) {
        let mut queue = self.shared.queue();
        if let Some(error) = queue.over.clone() {
            drop(queue);
            return work.into_iter().for_each(|work| work.refuse(&error));
        }
        queue.work.extend(work);
        self.shared.wake(queue);
    }

    fn closer(&self) -> Arc<dyn Closer> {
        Arc::clone(&self.shared) as Arc<dyn Closer>
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.closing = true;
        // In any case: the thread does not end before its read of the bell has.
        queue.asleep = true;
        self.shared.wake(queue);
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings the bell if the thread sleeps, once for each sleep.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        let asleep = std::mem::take(&mut queue.asleep);
        drop(queue);
        if asleep {
            let rung = (&self.bell).write_all(&1_u64.to_ne_bytes());
            rung.expect("a counter that is read takes one more");
        }
    }
}

impl Closer for Shared {
    fn close(&self, file: File, slot: Option<u32>) {
        let mut queue = self.queue();
        match slot {
            Some(slot) if queue.over.is_none() => {
                queue.unwanted.push((file, slot));
                self.wake(queue);
            }
            _ => {
                drop(queue);
                self.desk.post(move || drop(file));
            }
        }
    }
}
