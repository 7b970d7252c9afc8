//! Effects on their way from the catalog to the sinks of their members, in the order in which the catalog had them.
//!
//! The order matters: a version is committed, retired and discarded, and an owner who hears of that the other way round keeps
//! what is gone. So effects are queued while the catalog is locked. They are delivered after it is free again, because a sink
//! may call the partition, and by one thread at a time: a call that finds another one at it leaves its effects to that one.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use ziggurat_base::MemberId;
use ziggurat_engine::command::Effect;

/// Takes what a member has to do.
pub trait EffectSink: Send + Sync {
    /// Carries out or passes on. May call the partition.
    fn deliver(&self, effects: Vec<Effect>);
}

/// See the module.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    sinks: Mutex<BTreeMap<MemberId, Arc<dyn EffectSink>>>,
}

#[derive(Default)]
struct Queue {
    effects: Vec<Effect>,
    is_delivering: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets others deliver again, even when a sink has panicked.
struct Turn<'a>(&'a Mutex<Queue>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(self.0).is_delivering = false;
    }
}

impl Outbox {
    /// From now on effects of the member go here.
    pub(crate) fn connect(&self, member: MemberId, sink: Arc<dyn EffectSink>) {
        lock(&self.sinks).insert(member, sink);
    }

    /// From now on effects of the member go nowhere: what it owes is asked for anew when it comes.
    pub(crate) fn disconnect(&self, member: MemberId) {
        lock(&self.sinks).remove(&member);
    }

    /// Takes effects while the catalog that they are from is locked.
    pub(crate) fn queue(&self, effects: Vec<Effect>) {
        lock(&self.queue).effects.extend(effects);
    }

    /// Delivers what is queued, and what is queued meanwhile, unless somebody is at it.
    pub(crate) fn deliver(&self) {
        loop {
            let effects = {
                let mut queue = lock(&self.queue);
                if queue.is_delivering || queue.effects.is_empty() {
                    return;
                }
                queue.is_delivering = true;
                mem::take(&mut queue.effects)
            };
            let turn = Turn(&self.queue);
            self.hand_out(effects);
            drop(turn);
        }
    }

    fn hand_out(&self, effects: Vec<Effect>) {
        let mut by_member: BTreeMap<MemberId, Vec<Effect>> = BTreeMap::new();
        for effect in effects {
            by_member.entry(effect.member()).or_default().push(effect);
        }
        for (member, effects) in by_member {
            let sink = lock(&self.sinks).get(&member).cloned();
            if let Some(sink) = sink {
                sink.deliver(effects);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EffectSink, Outbox};
    use std::sync::{Arc, Barrier, Mutex, Weak};
    use ziggurat_base::{MemberId, SegmentId, Ticket};
    use ziggurat_engine::command::Effect;

    const MEMBER: MemberId = MemberId(1);

    fn effect(number: u64) -> Effect {
        Effect::Retired {
            member: MEMBER,
            segment: SegmentId(1),
            ticket: Ticket(number),
        }
    }

    /// Writes down what arrives; for what comes first, more is queued while it is being delivered.
    struct Log {
        outbox: Weak<Outbox>,
        seen: Mutex<Vec<Effect>>,
        more: Mutex<Vec<Effect>>,
    }

    impl EffectSink for Log {
        fn deliver(&self, effects: Vec<Effect>) {
            let outbox = self.outbox.upgrade().unwrap();
            outbox.queue(std::mem::take(&mut self.more.lock().unwrap()));
            outbox.deliver();
            self.seen.lock().unwrap().extend(effects);
        }
    }

    fn connected(more: Vec<Effect>) -> (Arc<Outbox>, Arc<Log>) {
        let outbox = Arc::new(Outbox::default());
        let log = Arc::new(Log {
            outbox: Arc::downgrade(&outbox),
            seen: Mutex::default(),
            more: Mutex::new(more),
        });
        outbox.connect(MEMBER, log.clone());
        (outbox, log)
    }

    #[test]
    fn what_a_sink_brings_about_comes_after_what_it_was_told() {
        let (outbox, log) = connected(vec![effect(2)]);
        outbox.queue(vec![effect(1)]);
        outbox.deliver();
        assert_eq!(*log.seen.lock().unwrap(), [effect(1), effect(2)]);
    }

    #[test]
    fn effects_arrive_in_the_order_in_which_they_were_queued() {
        let (outbox, log) = connected(Vec::new());
        let next = Mutex::new(0);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..1000 {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        outbox.queue(vec![effect(*next)]);
                        drop(next);
                        outbox.deliver();
                    }
                });
            }
        });
        let want: Vec<_> = (1..=4000).map(effect).collect();
        assert_eq!(*log.seen.lock().unwrap(), want);
    }

    #[test]
    fn who_is_not_connected_is_told_nothing() {
        let (outbox, log) = connected(Vec::new());
        outbox.disconnect(MEMBER);
        outbox.queue(vec![effect(1)]);
        outbox.deliver();
        outbox.connect(MEMBER, log.clone());
        outbox.deliver();
        assert_eq!(*log.seen.lock().unwrap(), []);
    }
}
