//! Who waits for which answer.

use crate::lock::lock;
use std::sync::Mutex;
use tokio::sync::oneshot;
use ziggurat_base::{Code, Error};

/// The most requests in flight.
pub(super) const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// A request's number is `serial << SLOT_BITS | slot`: an answer finds its slot without a search, and an answer that comes
/// too late finds another serial number there.
const SLOT_BITS: u32 = 16;

/// The answer to a request, not decoded yet.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: i32,
    pub(super) meta: Vec<u8>,
}

/// All requests in flight.
pub(super) struct Slots(Mutex<Table>);

struct Table {
    slots: Vec<Slot>,
    free: Vec<u16>,
    serial: u64,
    closed: Option<Error>,
}

#[derive(Default)]
struct Slot {
    id: u64,
    waiter: Option<oneshot::Sender<Reply>>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Table {
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            closed: None,
        }))
    }

    /// Reserves a number for a request.
    ///
    /// # Errors
    /// The reason for which the connection ended.
    pub(super) fn open(&self) -> Result<Waiting<'_>, Error> {
        let (waiter, reply) = oneshot::channel();
        let mut table = lock(&self.0);
        if let Some(error) = &table.closed {
            return Err(error.clone());
        }
        let slot = table.free_slot()?;
        table.serial += 1;
        let id = table.serial << SLOT_BITS | u64::from(slot);
        table.slots[usize::from(slot)] = Slot {
            id,
            waiter: Some(waiter),
        };
        Ok(Waiting {
            slots: self,
            id,
            reply: Some(reply),
        })
    }

    /// Hands an answer to whoever waits for it; one that nobody waits for any more is dropped.
    pub(super) fn answer(&self, id: u64, reply: Reply) {
        let waiter = lock(&self.0).take(id);
        if let Some(waiter) = waiter {
            // A waiter that has gone meanwhile needs no answer.
            let _ = waiter.send(reply);
        }
    }

    /// Fails everything in flight and to come. Whether this was the first time.
    pub(super) fn close(&self, error: &Error) -> bool {
        let mut table = lock(&self.0);
        if table.closed.is_some() {
            return false;
        }
        table.closed = Some(error.clone());
        // Dropping a sender wakes its waiter.
        table.slots.clear();
        table.free.clear();
        true
    }

    /// Why the connection ended.
    pub(super) fn closed(&self) -> Error {
        let closed = lock(&self.0).closed.clone();
        closed.unwrap_or_else(|| Error::new(Code::Internal, "a request was lost"))
    }
}

impl Table {
    fn free_slot(&mut self) -> Result<u16, Error> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let slot = u16::try_from(self.slots.len()).map_err(|_| {
            Error::new(
                Code::Backpressure,
                "65,536 requests of one connection are in flight",
            )
        })?;
        self.slots.push(Slot::default());
        Ok(slot)
    }

    /// Empties the slot of a request, if it is still that request's.
    fn take(&mut self, id: u64) -> Option<oneshot::Sender<Reply>> {
        let slot = id as u16;
        let entry = self.slots.get_mut(usize::from(slot))?;
        if entry.id != id {
            return None;
        }
        let waiter = entry.waiter.take()?;
        self.free.push(slot);
        Some(waiter)
    }
}

/// A request in flight. Dropping it gives the answer up.
pub(super) struct Waiting<'a> {
    slots: &'a Slots,
    id: u64,
    reply: Option<oneshot::Receiver<Reply>>,
}

impl Waiting<'_> {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// The reason for which the connection ended.
    pub(super) async fn reply(mut self) -> Result<Reply, Error> {
        let reply = self.reply.as_mut().expect("it is taken below only");
        let answered = reply.await;
        self.reply = None;
        answered.map_err(|_| self.slots.closed())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // An answered request has left its slot already.
        if self.reply.is_some() {
            lock(&self.slots.0).take(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reply, Slots};
    use ziggurat_base::{Code, Error};

    fn reply(status: i32) -> Reply {
        Reply {
            status,
            meta: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_late_answer_meets_nobody() {
        let slots = Slots::new();
        let first = slots.open().unwrap();
        let late = first.id();
        drop(first);
        let second = slots.open().unwrap();
        assert_eq!(
            second.id() & 0xffff,
            late & 0xffff,
            "the slot is used again"
        );
        slots.answer(late, reply(1));
        slots.answer(second.id(), reply(2));
        assert_eq!(second.reply().await.unwrap().status, 2);
    }

    #[tokio::test]
    async fn closing_fails_what_is_in_flight_and_what_comes() {
        let slots = Slots::new();
        let waiting = slots.open().unwrap();
        assert!(slots.close(&Error::new(Code::RpcFail, "gone")));
        assert!(!slots.close(&Error::new(Code::RpcFail, "again")));
        assert_eq!(waiting.reply().await.unwrap_err().what(), "gone");
        assert!(slots.open().is_err());
    }
}
