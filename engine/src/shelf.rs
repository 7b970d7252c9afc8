//! The brain of a node: which version may write and be read where. The shell moves the bytes, this decides.
//!
//! A node is not told of every `put_start`; it learns tickets from the writes themselves. For each byte of a segment it
//! remembers the highest ticket that has written or been fenced there (its *floor*, I11). A lower ticket is refused for
//! ever, a fenced one too; so a stalled writer that wakes up can damage nothing that somebody else was given. Reads name
//! the version they want and are refused when any byte belongs to another (I12). A version that is copied back into memory
//! comes under a ticket of its own, so that it can lie where newer ones have been ([`Shelf::copied`]).

use crate::canary::{Canary, planted};
use floors::Floors;
use std::collections::BTreeMap;
use ziggurat_base::{Code, Error, Extent, Placement, SegmentId, Ticket};

pub mod floors;
pub mod holdings;
pub mod teller;

/// The most writes that may be under way in one segment.
pub const WRITES_MAX: usize = 4096;

/// Names a write under way, within its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A write that was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// To end it.
    pub id: WriteId,
    /// Writes of older or the same version under way in the same space: stop them before the first byte is moved.
    pub stop: Vec<WriteId>,
}

#[derive(Debug)]
struct UnderWay {
    ticket: Ticket,
    extents: Vec<Extent>,
}

#[derive(Debug, Default)]
struct Segment {
    capacity: u64,
    floors: Floors,
    writes: BTreeMap<WriteId, UnderWay>,
}

impl Segment {
    fn check(&self, extents: &[Extent]) -> Result<(), Error> {
        match extents.iter().find(|e| e.end() > self.capacity) {
            Some(extent) => Err(Error::new(
                Code::InvalidReplica,
                format!(
                    "{} bytes at {} lie outside a segment of {}",
                    extent.len, extent.offset, self.capacity
                ),
            )),
            None => Ok(()),
        }
    }

    fn overlapping(&self, extents: &[Extent], up_to: Ticket) -> Vec<WriteId> {
        let touches = |w: &UnderWay| {
            w.extents
                .iter()
                .any(|a| extents.iter().any(|b| a.overlaps(*b)))
        };
        let hit = self
            .writes
            .iter()
            .filter(|(_, w)| w.ticket <= up_to && touches(w));
        hit.map(|(id, _)| *id).collect()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Shelf {
    segments: BTreeMap<SegmentId, Segment>,
    next: u64,
}

impl Shelf {
    /// Takes a segment on; its floors start at nothing.
    pub fn mount(&mut self, id: SegmentId, capacity: u64) {
        let segment = Segment {
            capacity,
            ..Segment::default()
        };
        self.segments.insert(id, segment);
    }

    /// Forgets a segment. Returns the writes under way in it, to be stopped.
    pub fn unmount(&mut self, id: SegmentId) -> Vec<WriteId> {
        self.segments
            .remove(&id)
            .map_or_else(Vec::new, |s| s.writes.into_keys().collect())
    }

    /// Knows a segment by another number from now on, with its floors. Returns the writes under way in it, to be stopped: they
    /// are not admitted any more.
    pub fn renumber(&mut self, old: SegmentId, new: SegmentId) -> Vec<WriteId> {
        let Some(mut here) = self.segments.remove(&old) else {
            return Vec::new();
        };
        let writes = std::mem::take(&mut here.writes);
        self.segments.insert(new, here);
        writes.into_keys().collect()
    }

    fn segment(&mut self, id: SegmentId) -> Result<&mut Segment, Error> {
        self.segments.get_mut(&id).ok_or_else(|| {
            Error::new(
                Code::SegmentNotFound,
                format!("segment {id} is not on this node"),
            )
        })
    }

    /// Admits a write of `ticket` into `extents`, and makes the ticket their floor.
    ///
    /// # Errors
    /// [`Code::InvalidWrite`] when a newer version is there or the ticket is fenced, [`Code::InvalidReplica`] outside the
    /// segment, [`Code::SegmentNotFound`], [`Code::Backpressure`] beyond [`WRITES_MAX`].
    pub fn begin_write(
        &mut self,
        ticket: Ticket,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<Admitted, Error> {
        let id = WriteId(self.next);
        let here = self.segment(segment)?;
        here.check(extents)?;
        if here.writes.len() >= WRITES_MAX {
            return Err(Error::new(
                Code::Backpressure,
                "too many writes are under way in the segment",
            ));
        }
        for extent in extents {
            let admits = here.floors.admits(ticket, *extent);
            if !admits && !planted(Canary::FenceIgnored) {
                return Err(Error::new(
                    Code::InvalidWrite,
                    format!(
                        "ticket {ticket} may not write here any more: it is fenced or a newer version is there"
                    ),
                ));
            }
        }
        let stop = here.overlapping(extents, ticket);
        for extent in extents {
            here.floors.raise(ticket, *extent);
        }
        here.writes.insert(
            id,
            UnderWay {
                ticket,
                extents: extents.to_vec(),
            },
        );
        self.next += 1;
        Ok(Admitted { id, stop })
    }

    /// Whether a write of `ticket` into `extents` would be admitted, but for want of room.
    #[must_use]
    pub fn admits(&self, ticket: Ticket, segment: SegmentId, extents: &[Extent]) -> bool {
        let Some(here) = self.segments.get(&segment) else {
            return false;
        };
        here.check(extents).is_ok() && extents.iter().all(|e| here.floors.admits(ticket, *e))
    }

    /// The write has moved its last byte, or was stopped.
    pub fn end_write(&mut self, segment: SegmentId, id: WriteId) {
        if let Some(here) = self.segments.get_mut(&segment) {
            here.writes.remove(&id);
        }
    }

    /// Refuses `ticket` in its space from now on. Returns its writes under way: stop them, then acknowledge.
    ///
    /// # Errors
    /// [`Code::SegmentNotFound`]: the space is gone, and with it all that could be damaged.
    pub fn fence(&mut self, ticket: Ticket, placement: &Placement) -> Result<Vec<WriteId>, Error> {
        let here = self.segment(placement.segment)?;
        let extents: Vec<_> = placement.all().collect();
        here.check(&extents)?;
        for extent in &extents {
            here.floors.fence(ticket, *extent);
        }
        Ok(here.overlapping(&extents, ticket))
    }

    /// A write has copied a version whole: for readers the space belongs to that version from now on. For writers its floor
    /// stays the write's ticket.
    ///
    /// # Errors
    /// [`Code::InvalidWrite`] when the write was fenced meanwhile or the space was given to another one,
    /// [`Code::InvalidReplica`] outside the segment, [`Code::SegmentNotFound`].
    pub fn copied(
        &mut self,
        write: Ticket,
        version: Ticket,
        placement: &Placement,
    ) -> Result<(), Error> {
        let here = self.segment(placement.segment)?;
        let extents: Vec<_> = placement.all().collect();
        here.check(&extents)?;
        if !extents.iter().all(|e| here.floors.is_held(write, *e)) {
            return Err(Error::new(
                Code::InvalidWrite,
                format!(
                    "write {write} does not hold its space any more: the copy of {version} is void"
                ),
            ));
        }
        for extent in &extents {
            here.floors.copied(write, version, *extent);
        }
        Ok(())
    }

    /// Whether a write has copied a version whole, and nothing has come over it since.
    #[must_use]
    pub fn is_copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> bool {
        let Some(here) = self.segments.get(&placement.segment) else {
            return false;
        };
        let extents: Vec<_> = placement.all().collect();
        let copied = |extent: &Extent| here.floors.is_copied(write, version, *extent);
        here.check(&extents).is_ok() && extents.iter().all(copied)
    }

    /// Whether every byte of `extents` is one of the version `ticket`.
    #[must_use]
    pub fn owns(&self, ticket: Ticket, segment: SegmentId, extents: &[Extent]) -> bool {
        let Some(here) = self.segments.get(&segment) else {
            return false;
        };
        here.check(extents).is_ok() && extents.iter().all(|e| here.floors.owned(ticket, *e))
    }

    /// Number of separate floors of a segment: what they cost in memory.
    #[must_use]
    pub fn floor_count(&self, segment: SegmentId) -> usize {
        self.segments.get(&segment).map_or(0, |s| s.floors.count())
    }
}

#[cfg(test)]
mod tests {
    use super::Shelf;
    use ziggurat_base::{Code, Extent, Extents, Placement, SegmentId, Ticket};

    const HERE: SegmentId = SegmentId(1);

    fn placement(offset: u64, len: u64) -> Placement {
        Placement {
            segment: HERE,
            extents: Extents::One(Extent::new(offset, len)),
            check: None,
        }
    }

    fn shelf() -> Shelf {
        let mut shelf = Shelf::default();
        shelf.mount(HERE, 1000);
        shelf
    }

    #[test]
    fn a_fenced_writer_is_refused_for_ever() {
        let mut shelf = shelf();
        let extent = [Extent::new(0, 100)];
        let under_way = shelf.begin_write(Ticket(5), HERE, &extent).unwrap().id;
        assert_eq!(
            shelf.fence(Ticket(5), &placement(0, 100)).unwrap(),
            [under_way]
        );
        let refused = shelf
            .begin_write(Ticket(5), HERE, &[Extent::new(50, 10)])
            .unwrap_err();
        assert_eq!(refused.code(), Code::InvalidWrite);
        shelf.begin_write(Ticket(9), HERE, &extent).unwrap();
    }

    #[test]
    fn a_fence_comes_before_the_first_write_too() {
        let mut shelf = shelf();
        assert!(
            shelf
                .fence(Ticket(5), &placement(0, 100))
                .unwrap()
                .is_empty()
        );
        assert!(
            shelf
                .begin_write(Ticket(5), HERE, &[Extent::new(99, 1)])
                .is_err()
        );
        assert!(
            shelf
                .begin_write(Ticket(5), HERE, &[Extent::new(100, 1)])
                .is_ok()
        );
    }

    #[test]
    fn an_older_writer_is_refused_and_stopped() {
        let mut shelf = shelf();
        let old = shelf
            .begin_write(Ticket(5), HERE, &[Extent::new(0, 100)])
            .unwrap();
        let new = shelf
            .begin_write(Ticket(9), HERE, &[Extent::new(90, 100)])
            .unwrap();
        assert_eq!(new.stop, [old.id]);
        assert!(
            shelf
                .begin_write(Ticket(5), HERE, &[Extent::new(80, 20)])
                .is_err()
        );
        assert!(
            shelf
                .begin_write(Ticket(5), HERE, &[Extent::new(0, 90)])
                .is_ok()
        );
    }

    #[test]
    fn a_read_is_refused_when_one_byte_belongs_to_another_version() {
        let mut shelf = shelf();
        shelf
            .begin_write(Ticket(5), HERE, &[Extent::new(0, 100)])
            .unwrap();
        assert!(shelf.owns(Ticket(5), HERE, &[Extent::new(0, 100)]));
        assert!(
            !shelf.owns(Ticket(5), HERE, &[Extent::new(0, 101)]),
            "never written"
        );
        shelf
            .begin_write(Ticket(6), HERE, &[Extent::new(99, 1)])
            .unwrap();
        assert!(!shelf.owns(Ticket(5), HERE, &[Extent::new(0, 100)]));
        assert!(shelf.owns(Ticket(5), HERE, &[Extent::new(0, 99)]));
    }

    #[test]
    fn a_copy_belongs_to_its_version_for_readers_and_to_its_write_for_writers() {
        let mut shelf = shelf();
        let extent = [Extent::new(0, 100)];
        shelf.begin_write(Ticket(7), HERE, &extent).unwrap();
        let whole = placement(0, 100);
        let early = shelf.copied(Ticket(9), Ticket(5), &whole).unwrap_err();
        assert_eq!(early.code(), Code::InvalidWrite, "it has written nothing");
        shelf.begin_write(Ticket(9), HERE, &extent).unwrap();
        assert!(!shelf.owns(Ticket(5), HERE, &extent), "it is not whole yet");
        assert!(!shelf.is_copied(Ticket(9), Ticket(5), &whole));
        shelf.copied(Ticket(9), Ticket(5), &whole).unwrap();
        assert!(shelf.is_copied(Ticket(9), Ticket(5), &whole));
        assert!(!shelf.is_copied(Ticket(8), Ticket(5), &whole));
        assert!(shelf.owns(Ticket(5), HERE, &extent));
        assert!(!shelf.owns(Ticket(9), HERE, &extent));
        assert!(shelf.begin_write(Ticket(5), HERE, &extent).is_err());
        assert!(shelf.begin_write(Ticket(8), HERE, &extent).is_err());
        shelf.fence(Ticket(9), &whole).unwrap();
        assert!(!shelf.owns(Ticket(5), HERE, &extent), "given up");
        let late = shelf.copied(Ticket(9), Ticket(5), &whole).unwrap_err();
        assert_eq!(late.code(), Code::InvalidWrite);
    }

    #[test]
    fn a_segment_with_another_number_keeps_its_floors_and_ends_its_writes() {
        let mut shelf = shelf();
        let extent = [Extent::new(0, 100)];
        let old = shelf.begin_write(Ticket(5), HERE, &extent).unwrap().id;
        let new = SegmentId(2);
        assert_eq!(shelf.renumber(HERE, new), [old]);
        assert!(shelf.owns(Ticket(5), new, &extent));
        assert!(!shelf.owns(Ticket(5), HERE, &extent));
        let gone = shelf.begin_write(Ticket(9), HERE, &extent).unwrap_err();
        assert_eq!(gone.code(), Code::SegmentNotFound);
        let later = shelf.begin_write(Ticket(9), new, &extent).unwrap();
        assert!(later.stop.is_empty(), "the old one has ended");
        assert!(shelf.begin_write(Ticket(5), new, &extent).is_err());
    }

    #[test]
    fn space_outside_is_refused() {
        let mut shelf = shelf();
        let code = |r: Result<super::Admitted, ziggurat_base::Error>| r.unwrap_err().code();
        assert_eq!(
            code(shelf.begin_write(Ticket(1), HERE, &[Extent::new(999, 2)])),
            Code::InvalidReplica
        );
        assert_eq!(
            code(shelf.begin_write(Ticket(1), SegmentId(2), &[])),
            Code::SegmentNotFound
        );
    }
}
