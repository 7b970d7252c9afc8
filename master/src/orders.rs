//! Orders to nodes on their way: who is asked, and who waits for the report.
//!
//! What is under way is bounded, in all and for each node, so that a node that answers nothing does not use up what others
//! need.

use std::{
    collections::{BTreeMap, btree_map::RangeMut},
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};
use ziggurat_base::{Code, Error, MemberId};
use ziggurat_engine::command::Answer;
use ziggurat_proto::order::{NodeCommand, Order, Outcome, Report};

/// Orders that may be under way at a time, in all and to one node.
const ORDERS_MAX: usize = 4096;
const ORDERS_PER_NODE_MAX: usize = 1024;

#[derive(Debug)]
struct Pending {
    command: NodeCommand,
    /// Whether the node has been given it on its present connection.
    given: bool,
    report: Option<Answer<Outcome>>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Watcher {
    number: u64,
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    pending: BTreeMap<(MemberId, u64), Pending>,
    next: u64,
    /// Who waits for the orders of a member; of several the latest.
    watchers: BTreeMap<MemberId, Watcher>,
    counts: OrderCounts,
}

/// Orders in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Now on their way.
    pub under_way: u64,
    /// Given out since the start.
    pub given: u64,
    /// Answered by success.
    pub done: u64,
    /// Answered by an error.
    pub failed: u64,
    /// Not answered while somebody waited.
    pub unanswered: u64,
    /// Not even given out, because too many were under way.
    pub refused: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Orders {
    state: Mutex<State>,
}

/// Takes an order back when the one who waits for it goes away.
struct Waiting<'a> {
    orders: &'a Orders,
    key: (MemberId, u64),
    is_answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.orders.lock();
        state.pending.remove(&self.key);
        if !self.is_answered {
            state.counts.unanswered += 1;
        }
    }
}

/// Forgets a watcher that waits no longer.
struct Watching<'a> {
    orders: &'a Orders,
    member: MemberId,
    number: u64,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut state = self.orders.lock();
        if state.watcher(self.member) == Some(self.number) {
            state.watchers.remove(&self.member);
        }
    }
}

impl State {
    fn watcher(&self, member: MemberId) -> Option<u64> {
        self.watchers.get(&member).map(|watcher| watcher.number)
    }

    fn of_member(&mut self, member: MemberId) -> RangeMut<'_, (MemberId, u64), Pending> {
        self.pending.range_mut((member, 0)..=(member, u64::MAX))
    }

    /// Notes an order.
    fn note(&mut self, member: MemberId, command: NodeCommand) -> Answer<(MemberId, u64)> {
        let to_node = self.of_member(member).count();
        if self.pending.len() >= ORDERS_MAX || to_node >= ORDERS_PER_NODE_MAX {
            self.counts.refused += 1;
            return Err(Error::new(
                Code::Backpressure,
                format!(
                    "{} orders to nodes are under way, {to_node} of them to node {member}: too many",
                    self.pending.len()
                ),
            ));
        }
        self.next += 1;
        self.counts.given += 1;
        let pending = Pending {
            command,
            given: false,
            report: None,
            waker: None,
        };
        let key = (member, self.next);
        self.pending.insert(key, pending);
        if let Some(watcher) = self.watchers.get(&member) {
            watcher.waker.wake_by_ref();
        }
        Ok(key)
    }

    /// What a node has to do and has not been given.
    fn fresh(&mut self, member: MemberId) -> Vec<Order> {
        let fresh = self.of_member(member).filter(|(_, order)| !order.given);
        fresh
            .map(|((_, serial), pending)| {
                pending.given = true;
                Order {
                    serial: *serial,
                    command: pending.command.clone(),
                }
            })
            .collect()
    }
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In numbers.
    #[must_use]
    pub fn counts(&self) -> OrderCounts {
        let state = self.lock();
        OrderCounts {
            under_way: state.pending.len() as u64,
            ..state.counts
        }
    }

    /// Asks a node and waits for its report; the caller bounds the wait.
    ///
    /// # Errors
    /// What the node reports; `Backpressure` when too many are under way.
    pub async fn ask(&self, member: MemberId, command: NodeCommand) -> Answer<Outcome> {
        let key = self.lock().note(member, command)?;
        let mut waiting = Waiting {
            orders: self,
            key,
            is_answered: false,
        };
        let report = std::future::poll_fn(|context| {
            let mut state = self.lock();
            let Some(pending) = state.pending.get_mut(&key) else {
                return Poll::Ready(Err(Error::from(Code::Internal)));
            };
            if let Some(report) = pending.report.take() {
                return Poll::Ready(report);
            }
            pending.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        waiting.is_answered = true;
        report
    }

    /// What a node has to do and has not been given; completes when there is something. Of several who wait the latest is
    /// served: the others belong to connections that the node has left.
    pub async fn for_member(&self, member: MemberId) -> Vec<Order> {
        let watching = {
            let mut state = self.lock();
            state.next += 1;
            Watching {
                orders: self,
                member,
                number: state.next,
            }
        };
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            if state.watcher(member) > Some(watching.number) {
                return Poll::Pending;
            }
            let orders = state.fresh(member);
            if orders.is_empty() {
                let watcher = Watcher {
                    number: watching.number,
                    waker: context.waker().clone(),
                };
                state.watchers.insert(member, watcher);
                return Poll::Pending;
            }
            Poll::Ready(orders)
        })
        .await
    }

    /// The node has a new connection: what it was given on the old one may be lost.
    pub fn rewind(&self, member: MemberId) {
        for (_, pending) in self.lock().of_member(member) {
            pending.given = false;
        }
    }

    /// A node answers. What nobody waits for any more is passed over.
    pub fn report(&self, report: &Report) {
        let mut state = self.lock();
        let State {
            pending, counts, ..
        } = &mut *state;
        let pending = pending.get_mut(&(report.member, report.serial));
        let Some(pending) = pending.filter(|pending| pending.report.is_none()) else {
            return;
        };
        match &report.outcome {
            Ok(_) => counts.done += 1,
            Err(_) => counts.failed += 1,
        }
        pending.report = Some(report.outcome.clone());
        if let Some(waker) = pending.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ORDERS_PER_NODE_MAX, OrderCounts, Orders};
    use futures_util::{FutureExt as _, future::join_all};
    use ziggurat_base::{Code, MemberId, SegmentId};
    use ziggurat_proto::order::{NodeCommand, Outcome, Report};

    const NODE: MemberId = MemberId(1);

    fn command() -> NodeCommand {
        NodeCommand::Unhost {
            segment: SegmentId(1),
        }
    }

    fn report(orders: &Orders, member: MemberId, serial: u64) {
        orders.report(&Report {
            member,
            serial,
            outcome: Ok(Outcome::Done),
        });
    }

    #[tokio::test]
    async fn an_order_is_given_once_for_each_connection_and_answered_by_its_node() {
        let orders = Orders::default();
        let ask = orders.ask(NODE, command());
        tokio::pin!(ask);
        assert_eq!(ask.as_mut().now_or_never(), None);
        let serial = orders.for_member(NODE).await[0].serial;
        assert_eq!(orders.for_member(NODE).now_or_never(), None);
        orders.rewind(NODE);
        assert_eq!(orders.for_member(NODE).await[0].serial, serial);
        report(&orders, MemberId(2), serial);
        assert_eq!(ask.as_mut().now_or_never(), None, "another's report");
        report(&orders, NODE, serial);
        assert_eq!(ask.await, Ok(Outcome::Done));
        drop(orders.ask(NODE, command()).now_or_never());
        assert_eq!(orders.for_member(NODE).now_or_never(), None, "taken back");
        let counts = OrderCounts {
            given: 2,
            done: 1,
            unanswered: 1,
            ..OrderCounts::default()
        };
        assert_eq!(orders.counts(), counts);
    }

    #[tokio::test]
    async fn the_latest_connection_of_a_node_is_served() {
        let orders = Orders::default();
        let mut left = Box::pin(orders.for_member(NODE));
        let mut here = Box::pin(orders.for_member(NODE));
        assert_eq!(left.as_mut().now_or_never(), None);
        assert_eq!(here.as_mut().now_or_never(), None);
        let ask = orders.ask(NODE, command());
        tokio::pin!(ask);
        assert_eq!(ask.as_mut().now_or_never(), None);
        assert_eq!(left.as_mut().now_or_never(), None);
        assert_eq!(here.await.len(), 1);
        assert_eq!(left.as_mut().now_or_never(), None, "nothing is left for it");
        drop(left);
        assert!(orders.lock().watchers.is_empty(), "nobody waits");
    }

    #[tokio::test]
    async fn a_silent_node_does_not_use_up_what_others_need() {
        let orders = Orders::default();
        let asks = (0..ORDERS_PER_NODE_MAX).map(|_| orders.ask(NODE, command()));
        let silent = join_all(asks);
        tokio::pin!(silent);
        assert_eq!(silent.as_mut().now_or_never(), None);
        let refused = orders.ask(NODE, command()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Backpressure);
        let other = orders.ask(MemberId(2), command()).now_or_never();
        assert_eq!(other, None, "it is under way");
        assert_eq!(orders.counts().refused, 1);
    }
}
