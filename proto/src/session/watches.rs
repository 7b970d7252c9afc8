//! What the server pushed, until its member takes it.

use crate::{
    convert::{broken, order::Pushed},
    lock::lock,
    order::Order,
};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use ziggurat_base::{Error, MemberId};
use ziggurat_engine::command::{Answer, Effect};

/// Effects and orders that may wait for one member; a member that takes none is broken.
const WAITING_MAX: usize = 64 << 10;

/// All subscriptions of a session; usually one.
#[derive(Default)]
pub(super) struct Watches(Mutex<Vec<Watch>>);

struct Watch {
    member: MemberId,
    is_asked: bool,
    effects: Vec<Effect>,
    orders: Vec<Order>,
    gone: Option<Error>,
    bell: Arc<Notify>,
}

impl Watches {
    /// The bell that rings when there is something for the member, and whether the server knows of the subscription.
    pub(super) fn bell(&self, member: MemberId) -> (Arc<Notify>, bool) {
        let mut list = lock(&self.0);
        let watch = find(&mut list, member);
        (watch.bell.clone(), watch.is_asked)
    }

    /// The server knows of the subscription.
    pub(super) fn asked(&self, member: MemberId) {
        find(&mut lock(&self.0), member).is_asked = true;
    }

    /// Takes in what the server pushed.
    ///
    /// # Errors
    /// When nobody takes it out: the connection is to be closed.
    pub(super) fn push(&self, pushed: Pushed) -> Result<(), Error> {
        let mut list = lock(&self.0);
        let watch = find(&mut list, pushed.member);
        watch.effects.extend(pushed.effects);
        watch.orders.extend(pushed.orders);
        watch.gone = watch.gone.take().or(pushed.gone);
        watch.bell.notify_waiters();
        if watch.effects.len() + watch.orders.len() > WAITING_MAX {
            return Err(broken("nobody takes the commands that the server pushes"));
        }
        Ok(())
    }

    /// The effects that wait; none when there is nothing yet.
    pub(super) fn effects(&self, member: MemberId) -> Answer<Option<Vec<Effect>>> {
        self.take(member, |watch| &mut watch.effects)
    }

    /// The orders that wait; none when there is nothing yet.
    pub(super) fn orders(&self, member: MemberId) -> Answer<Option<Vec<Order>>> {
        self.take(member, |watch| &mut watch.orders)
    }

    fn take<T>(
        &self,
        member: MemberId,
        queue: impl FnOnce(&mut Watch) -> &mut Vec<T>,
    ) -> Answer<Option<Vec<T>>> {
        let mut list = lock(&self.0);
        let watch = find(&mut list, member);
        let gone = watch.gone.clone();
        let waiting = std::mem::take(queue(watch));
        match gone {
            _ if !waiting.is_empty() => Ok(Some(waiting)),
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    /// The connection has ended.
    pub(super) fn close(&self, error: &Error) {
        for watch in lock(&self.0).iter_mut() {
            watch.gone.get_or_insert_with(|| error.clone());
            watch.bell.notify_waiters();
        }
    }
}

fn find(list: &mut Vec<Watch>, member: MemberId) -> &mut Watch {
    let index = list.iter().position(|watch| watch.member == member);
    let index = index.unwrap_or_else(|| {
        list.push(Watch {
            member,
            is_asked: false,
            effects: Vec::new(),
            orders: Vec::new(),
            gone: None,
            bell: Arc::default(),
        });
        list.len() - 1
    });
    &mut list[index]
}
