//! Back into memory: versions that the partition wants copied from a directory into the memory beside it.
//!
//! A copy gives way to readers of the directory, for a while. It writes under the ticket of its own write, so that a fence
//! ends it like any other, and becomes its version for readers when all of it is proved.

use super::{Here, Keeper, Priority};
use futures_util::future::select;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};
use tracing::warn;
use ziggurat_base::{
    ByteCount, Clock, Code, Error, Result, SegmentId, Ticket, checksum::Summer, frame::Span,
};
use ziggurat_engine::{
    ledger::Holding,
    port::{Access, WriteSlot},
    shelf::teller::Note,
};
use ziggurat_tiers::ssd::Wanted;

/// Copies under way from one directory: one reads while the other writes.
pub(super) const COPIES: usize = 2;

/// Bytes that are read at once: a multiple of the chunk.
const PIECE: ByteCount = ByteCount::mib(4);

/// For so long a copy gives way to readers: then one goes, so that what waits for it in memory does not wait for ever.
const PATIENCE: Duration = Duration::from_millis(10);

/// One copy that is wanted.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    /// The version, and where its copy goes.
    pub(super) holding: Holding,
    /// Which directory has it.
    pub(super) from: SegmentId,
    /// The write.
    pub(super) write: Ticket,
}

/// The copies that are wanted, and those under way.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// In their order: what was wished for before what was not, the urgent first, then the older.
    waiting: BTreeMap<(Reverse<Option<Priority>>, Ticket), Copy>,
    /// The writes that wait or are under way: a repetition changes nothing.
    known: BTreeSet<Ticket>,
}

impl Copies {
    pub(super) fn add(&mut self, copy: Copy, priority: Option<Priority>) {
        if self.known.insert(copy.write) {
            self.waiting.insert((Reverse(priority), copy.write), copy);
        }
    }

    /// Takes the next copy from a directory of a version that is not `leaving`: what is said of its last stay in memory comes
    /// first.
    pub(super) fn next(
        &mut self,
        from: Option<SegmentId>,
        leaving: impl Fn(Ticket) -> bool,
    ) -> Option<Copy> {
        let ready = |copy: &Copy| Some(copy.from) == from && !leaving(copy.holding.version.ticket);
        let (at, _) = self.waiting.iter().find(|(_, copy)| ready(copy))?;
        let at = *at;
        self.waiting.remove(&at)
    }

    pub(super) fn end(&mut self, write: Ticket) {
        self.known.remove(&write);
    }

    /// Another partition begins: nobody waits for them any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Moves bytes into a write under way.
fn fill(slot: &mut dyn WriteSlot, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let moved = slot.step(bytes.len(), &mut |to| {
            to.copy_from_slice(&bytes[..to.len()]);
            to.len()
        })?;
        bytes = &bytes[moved..];
    }
    Ok(())
}

impl Keeper {
    /// Carries copies out, one after the other.
    pub(super) async fn copy(&self, here: &Here, clock: &dyn Clock) {
        loop {
            let next = || {
                let from = *here.segment();
                self.lock().next_copy(from)
            };
            let copy = self.work.until(next).await;
            let patience = clock.sleep_until(clock.now().after(PATIENCE));
            select(pin!(here.directory.tier.unread()), patience).await;
            let note = match self.copy_one(here, &copy).await {
                Ok(()) => Note::Copied(copy.write),
                Err(error) => {
                    self.explain(here, &copy, &error);
                    Note::NotCopied(copy.write)
                }
            };
            self.lock().copies.end(copy.write);
            self.tell_memory(copy.holding.placement.as_ref().map(|p| p.segment), note);
        }
    }

    fn explain(&self, here: &Here, copy: &Copy, error: &Error) {
        let is_usual = matches!(
            error.code(),
            Code::ReplicaIsGone | Code::InvalidWrite | Code::SegmentNotFound | Code::ClientNotFound
        );
        if !is_usual {
            let (segment, ticket) = (&here.directory.name, copy.holding.version.ticket);
            warn!(%segment, %ticket, %error, "an object was not brought into memory");
        }
    }

    async fn copy_one(&self, here: &Here, copy: &Copy) -> Result<()> {
        let Holding {
            version, len, crc, ..
        } = &copy.holding;
        let (ticket, len) = (version.ticket, *len);
        let Some(placement) = copy.holding.placement.clone() else {
            let what = format!("the copy of {ticket} has no place to go to");
            return Err(Error::new(Code::InvalidParams, what));
        };
        if self.lender.is_copied(copy.write, ticket, &placement) {
            return Ok(());
        }
        let access = Access {
            member: self.lender.member(),
            segment: placement.segment,
            ticket: copy.write,
        };
        let span = Span {
            placement: placement.clone(),
            object_len: len,
            offset: 0,
            len,
        };
        let mut slot = self.lender.open_write(access, &span)?;
        let mut summer = Summer::default();
        let mut buffer = vec![0; PIECE.0.min(len) as usize];
        let mut offset = 0;
        while offset < len {
            let piece = PIECE.0.min(len - offset);
            let wanted = Wanted {
                ticket,
                object_len: len,
                offset,
                len: piece,
            };
            let bytes = &mut buffer[..piece as usize];
            here.directory.tier.read_for_copy(&wanted, bytes).await?;
            summer.update(bytes);
            fill(&mut *slot, bytes)?;
            offset += piece;
        }
        if summer.crc() != *crc {
            let what =
                format!("the payload of {ticket} does not have the sum that the partition knows");
            return Err(Error::new(Code::ChecksumMismatch, what));
        }
        slot.finish(summer.finish().sums())?;
        self.lender.copied(copy.write, ticket, &placement)
    }
}

#[cfg(test)]
mod tests {
    use super::{Copies, Copy, Priority};
    use ziggurat_base::{Crc32, ObjectKey, SegmentId, Ticket};
    use ziggurat_engine::{
        command::OwnedTags,
        ledger::{Holding, Version},
    };

    const HERE: SegmentId = SegmentId(1);

    fn copy(version: u64, write: u64) -> Copy {
        let version = Version {
            tenant: "default".into(),
            key: ObjectKey::new("key").expect("short"),
            ticket: Ticket(version),
        };
        let holding = Holding {
            version,
            len: 1,
            stored_len: 1,
            crc: Crc32(0),
            tags: OwnedTags::default(),
            placement: None,
        };
        Copy {
            holding,
            from: HERE,
            write: Ticket(write),
        }
    }

    fn next(copies: &mut Copies, leaving: u64) -> Option<u64> {
        let next = copies.next(Some(HERE), |ticket| ticket == Ticket(leaving));
        next.map(|copy| copy.write.0)
    }

    #[test]
    fn the_urgent_come_first_then_the_older_and_a_repetition_changes_nothing() {
        let mut copies = Copies::default();
        for (write, priority) in [
            (11, None),
            (12, Some(Priority::Low)),
            (13, Some(Priority::High)),
            (14, Some(Priority::Normal)),
            (15, Some(Priority::High)),
            (13, None),
        ] {
            copies.add(copy(write - 10, write), priority);
        }
        let elsewhere = copies.next(Some(SegmentId(2)), |_| false);
        assert!(elsewhere.is_none() && copies.next(None, |_| false).is_none());
        let order: Vec<_> = std::iter::from_fn(|| next(&mut copies, 0)).collect();
        assert_eq!(order, [13, 15, 14, 12, 11]);
        copies.add(copy(1, 11), None);
        assert_eq!(next(&mut copies, 0), None, "it is under way");
        copies.end(Ticket(11));
        copies.add(copy(1, 11), None);
        assert_eq!(next(&mut copies, 0), Some(11));
    }

    #[test]
    fn a_version_that_is_leaving_waits() {
        let mut copies = Copies::default();
        copies.add(copy(1, 11), Some(Priority::High));
        copies.add(copy(2, 12), None);
        assert_eq!(next(&mut copies, 1), Some(12));
        assert_eq!(next(&mut copies, 1), None);
        assert_eq!(next(&mut copies, 0), Some(11));
    }
}
