//! The effects of one member on their way to it.
//!
//! A member that takes nothing does not fill the master's memory: beyond 65,536 effects what waits is dropped, and the one
//! who takes is told so, to ask for everything that is still to be done.

use crate::outbox::EffectSink;
use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
};
use ziggurat_engine::command::Effect;

/// Effects that may wait.
const WAITING_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Mailbox {
    inner: Mutex<Mail>,
}

#[derive(Debug, Default)]
struct Mail {
    effects: Vec<Effect>,
    has_overflowed: bool,
    waker: Option<Waker>,
}

/// What was in a mailbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// These, in their order.
    Effects(Vec<Effect>),
    /// Some were dropped.
    Overflow,
}

impl Mailbox {
    /// An empty mailbox.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Completes when there is something.
    pub async fn take(&self) -> Taken {
        std::future::poll_fn(|context| {
            let mut mail = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut mail.has_overflowed) {
                mail.effects.clear();
                return Poll::Ready(Taken::Overflow);
            }
            if mail.effects.is_empty() {
                mail.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Taken::Effects(std::mem::take(&mut mail.effects)))
        })
        .await
    }
}

impl EffectSink for Mailbox {
    fn deliver(&self, effects: Vec<Effect>) {
        let mut mail = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if mail.has_overflowed || mail.effects.len() + effects.len() > WAITING_MAX {
            mail.has_overflowed = true;
            mail.effects = Vec::new();
        } else {
            mail.effects.extend(effects);
        }
        if let Some(waker) = mail.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mailbox, Taken, WAITING_MAX};
    use crate::EffectSink;
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };
    use ziggurat_base::{MemberId, SegmentId, Ticket};
    use ziggurat_engine::command::Effect;

    fn take(mailbox: &Mailbox) -> Poll<Taken> {
        pin!(mailbox.take()).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn effects(count: usize) -> Vec<Effect> {
        let effect = Effect::Retired {
            member: MemberId(1),
            segment: SegmentId(1),
            ticket: Ticket(1),
        };
        vec![effect; count]
    }

    #[test]
    fn a_member_that_takes_nothing_is_told_what_it_missed_and_no_memory_grows() {
        let mailbox = Mailbox::new();
        assert_eq!(take(&mailbox), Poll::Pending);
        mailbox.deliver(effects(2));
        assert_eq!(take(&mailbox), Poll::Ready(Taken::Effects(effects(2))));
        mailbox.deliver(effects(WAITING_MAX));
        mailbox.deliver(effects(1));
        mailbox.deliver(effects(1));
        assert_eq!(take(&mailbox), Poll::Ready(Taken::Overflow));
        assert_eq!(take(&mailbox), Poll::Pending);
        mailbox.deliver(effects(1));
        assert_eq!(take(&mailbox), Poll::Ready(Taken::Effects(effects(1))));
    }
}
