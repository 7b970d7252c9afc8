//! Subscriptions: each carries one member's effects and orders from the partition to one connection.

use crate::{convert::order, partition::Partition, wire};
use std::sync::Arc;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use wire::answer::Outcome;
use ziggurat_base::{Code, Error, MemberId};
use ziggurat_engine::command::{Answer, BATCH_MAX};

/// Members that one connection may watch.
const WATCHES_MAX: usize = 16;

/// The subscriptions of a connection; they end with it.
pub(super) struct Watchers {
    partition: Arc<dyn Partition>,
    pushes: mpsc::Sender<wire::Push>,
    tasks: JoinSet<()>,
    members: Vec<(MemberId, AbortHandle)>,
}

impl Watchers {
    pub(super) fn new(partition: Arc<dyn Partition>, pushes: mpsc::Sender<wire::Push>) -> Self {
        Self {
            partition,
            pushes,
            tasks: JoinSet::new(),
            members: Vec::new(),
        }
    }

    /// Subscribes a member. One that is subscribed here already stays so.
    ///
    /// # Errors
    /// `InvalidParams` for too many.
    pub(super) fn watch(&mut self, member: MemberId) -> Answer<Outcome> {
        while self.tasks.try_join_next().is_some() {}
        self.members.retain(|(_, task)| !task.is_finished());
        let done = Ok(Outcome::Done(wire::Done::default()));
        if self.members.iter().any(|(known, _)| *known == member) {
            return done;
        }
        if self.members.len() >= WATCHES_MAX {
            let what = format!("a connection watches {WATCHES_MAX} members at most");
            return Err(Error::new(Code::InvalidParams, what));
        }
        self.partition.rewind(member);
        let carried = carry(self.partition.clone(), member, self.pushes.clone());
        self.members.push((member, self.tasks.spawn(carried)));
        done
    }
}

/// Carries everything until the member or the connection has gone.
async fn carry(partition: Arc<dyn Partition>, member: MemberId, pushes: mpsc::Sender<wire::Push>) {
    let error = tokio::select! {
        error = carry_effects(&*partition, member, &pushes) => error,
        error = carry_orders(&*partition, member, &pushes) => error,
    };
    if let Some(error) = error {
        // A connection that has gone needs no farewell.
        let _ = pushes.send(order::pack_gone(member, &error)).await;
    }
}

/// `None` when the connection has gone.
async fn carry_effects(
    partition: &dyn Partition,
    member: MemberId,
    pushes: &mpsc::Sender<wire::Push>,
) -> Option<Error> {
    loop {
        match partition.effects(member).await {
            Ok(effects) => {
                for some in effects.chunks(BATCH_MAX) {
                    pushes.send(order::pack_effects(member, some)).await.ok()?;
                }
            }
            Err(error) => return Some(error),
        }
    }
}

/// `None` when the connection has gone.
async fn carry_orders(
    partition: &dyn Partition,
    member: MemberId,
    pushes: &mpsc::Sender<wire::Push>,
) -> Option<Error> {
    loop {
        match partition.orders(member).await {
            Ok(orders) => {
                for some in orders.chunks(ORDERS_MAX) {
                    pushes.send(order::pack_orders(member, some)).await.ok()?;
                }
            }
            Err(error) => return Some(error),
        }
    }
}

/// Orders in one push: an order may name many tokens.
const ORDERS_MAX: usize = 16;
