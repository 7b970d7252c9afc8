//! Guards on their way back: they ride on the next request, or on a frame of their own a little later.

use crate::{convert::keys, lock::lock, wire};
use std::{collections::VecDeque, sync::Mutex};
use tokio::sync::Notify;
use ziggurat_engine::command::{BATCH_MAX, Hold};

/// A bounded queue of guards; the oldest gives way.
pub(super) struct Holds {
    queue: Mutex<VecDeque<Hold>>,
    max: usize,
    bell: Notify,
}

impl Holds {
    pub(super) fn new(max: usize) -> Self {
        Self {
            queue: Mutex::default(),
            max,
            bell: Notify::new(),
        }
    }

    /// Queues guards; how many old ones had to give way.
    pub(super) fn push(&self, holds: &[Hold]) -> u64 {
        let mut queue = lock(&self.queue);
        let was_empty = queue.is_empty();
        queue.extend(holds);
        let excess = queue.len().saturating_sub(self.max);
        queue.drain(..excess);
        if was_empty && !queue.is_empty() {
            self.bell.notify_one();
        }
        excess as u64
    }

    /// The next batch, oldest first.
    pub(super) fn take(&self) -> Option<wire::Holds> {
        let mut queue = lock(&self.queue);
        if queue.is_empty() {
            return None;
        }
        let count = queue.len().min(BATCH_MAX);
        let batch: Vec<_> = queue.drain(..count).collect();
        drop(queue);
        Some(keys::pack_holds(&batch))
    }

    /// Completes some time after the queue has stopped being empty.
    pub(super) async fn some(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::Holds;
    use ziggurat_base::Ticket;
    use ziggurat_engine::{Row, command::Hold};

    #[test]
    fn the_oldest_guard_gives_way() {
        let holds = Holds::new(2);
        let hold = |row| Hold {
            row: Row(row),
            ticket: Ticket(7),
            term: 1,
        };
        assert_eq!(holds.push(&[hold(1), hold(2), hold(3)]), 1);
        assert_eq!(holds.take().unwrap().rows, [2, 3]);
        assert!(holds.take().is_none());
    }
}
