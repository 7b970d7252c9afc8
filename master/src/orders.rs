//! Orders to nodes on their way: who is asked, and who waits for the report.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};
use ziggurat_base::{Code, Error, MemberId};
use ziggurat_engine::command::Answer;
use ziggurat_proto::order::{NodeCommand, Order, Outcome, Report};

/// Orders that may be under way at a time.
const ORDERS_MAX: usize = 4096;

#[derive(Debug)]
struct Pending {
    member: MemberId,
    command: NodeCommand,
    /// Whether the node has been given it on its present connection.
    given: bool,
    report: Option<Answer<Outcome>>,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct State {
    pending: BTreeMap<u64, Pending>,
    next: u64,
    watchers: BTreeMap<MemberId, Waker>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Orders {
    state: Mutex<State>,
}

/// Takes an order back when the one who waits for it goes away.
struct Waiting<'a> {
    orders: &'a Orders,
    serial: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.orders.lock().pending.remove(&self.serial);
    }
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a node and waits for its report; the caller bounds the wait.
    ///
    /// # Errors
    /// What the node reports; `Backpressure` beyond 4096 orders.
    pub async fn ask(&self, member: MemberId, command: NodeCommand) -> Answer<Outcome> {
        let waiting = {
            let mut state = self.lock();
            if state.pending.len() >= ORDERS_MAX {
                return Err(Error::new(
                    Code::Backpressure,
                    "too many orders to nodes are under way",
                ));
            }
            state.next += 1;
            let serial = state.next;
            let pending = Pending {
                member,
                command,
                given: false,
                report: None,
                waker: None,
            };
            state.pending.insert(serial, pending);
            if let Some(watcher) = state.watchers.remove(&member) {
                watcher.wake();
            }
            Waiting {
                orders: self,
                serial,
            }
        };
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            let Some(pending) = state.pending.get_mut(&waiting.serial) else {
                return Poll::Ready(Err(Error::from(Code::Internal)));
            };
            if let Some(report) = pending.report.take() {
                return Poll::Ready(report);
            }
            pending.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// What a node has to do and has not been given; completes when there is something.
    pub async fn for_member(&self, member: MemberId) -> Vec<Order> {
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            let fresh = state
                .pending
                .iter_mut()
                .filter(|(_, p)| p.member == member && !p.given);
            let orders: Vec<_> = fresh
                .map(|(serial, pending)| {
                    pending.given = true;
                    Order {
                        serial: *serial,
                        command: pending.command.clone(),
                    }
                })
                .collect();
            if orders.is_empty() {
                state.watchers.insert(member, context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(orders)
        })
        .await
    }

    /// The node has a new connection: what it was given on the old one may be lost.
    pub fn rewind(&self, member: MemberId) {
        for pending in self
            .lock()
            .pending
            .values_mut()
            .filter(|p| p.member == member)
        {
            pending.given = false;
        }
    }

    /// A node answers. What nobody waits for any more is passed over.
    pub fn report(&self, report: &Report) {
        let mut state = self.lock();
        if let Some(pending) = state
            .pending
            .get_mut(&report.serial)
            .filter(|p| p.member == report.member)
        {
            pending.report = Some(report.outcome.clone());
            if let Some(waker) = pending.waker.take() {
                waker.wake();
            }
        }
    }
}
