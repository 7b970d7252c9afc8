//! What a member is let know, on a connection: in order, each once, until something is lost. Then the node connects anew,
//! and its partition begins with everything that is still to be done.

use super::super::world::World;
use std::collections::BTreeMap;
use ziggurat_base::MemberId;
use ziggurat_engine::command::Effect;

/// The node's end.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The connection; 0 before the first.
    connection: u64,
    /// The next message.
    next: u64,
    /// Messages that have overtaken others.
    early: BTreeMap<u64, Vec<Effect>>,
    /// Messages that were sent before the last ping was answered; `None` when the connection is known to be broken.
    expected: Option<u64>,
}

impl Inbox {
    /// The partition has sent so many messages on this connection.
    pub(super) fn expect(&mut self, sent: Option<(u64, u64)>) {
        // What was sent when the ping before was answered has had the time to arrive.
        let is_whole = self.expected.is_some_and(|before| self.next >= before);
        let here = sent.filter(|(connection, _)| *connection == self.connection);
        self.expected = here.filter(|_| is_whole).map(|(_, sent)| sent);
    }

    /// The number of a new connection, when one is wanted.
    pub(super) fn reconnect(&mut self) -> Option<u64> {
        if self.expected.is_some() {
            return None;
        }
        *self = Self {
            connection: self.connection + 1,
            expected: Some(0),
            ..Self::default()
        };
        Some(self.connection)
    }

    /// Forgets the connection: another incarnation begins.
    pub(super) fn close(&mut self) {
        self.expected = None;
        self.early.clear();
    }

    /// What can be obeyed now that a message has arrived.
    fn take(&mut self, connection: u64, number: u64, effects: Vec<Effect>) -> Vec<Effect> {
        let mut ready = Vec::new();
        if connection == self.connection && self.expected.is_some() {
            self.early.insert(number, effects);
            while let Some(effects) = self.early.remove(&self.next) {
                self.next += 1;
                ready.extend(effects);
            }
        }
        ready
    }
}

/// A message of the partition arrives.
pub(crate) fn receive(
    world: &mut World,
    index: usize,
    member: MemberId,
    (connection, number): (u64, u64),
    effects: Vec<Effect>,
) {
    let node = &mut world.nodes[index];
    if node.member != Some(member) {
        return;
    }
    let ready = node.inbox.take(connection, number, effects);
    if let Some(carriers) = &node.carriers {
        ready.iter().for_each(|effect| carriers.heed(effect));
    }
    if let Some(keeper) = node.keeper.clone() {
        for effect in &ready {
            world.outcome.tell(|| format!("n{index} heeds {effect:?}"));
            keeper.heed(effect);
        }
    }
}
