//! Foreign clients at the memory: they name bytes by tokens, and their payloads are proved by the owner.

use super::{
    DramTier, Shared, fits, is_range,
    slot::{DramRead, DramWrite},
    table_part,
    walk::Walk,
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};
use ziggurat_base::{
    Clock, Code, Crc32, Error, Extent, Extents, Placement, Result, SegmentId, Ticket,
    checksum::Summer,
    copy::Caching,
    frame::{Span, TokenSpan},
    memory::Region,
};
use ziggurat_engine::{
    port::{Access, ReadSlot, WriteSlot},
    token::{Announce, Resolved, TokenUse, Tokens},
};

/// The tokens of a tier and the clock by which they end. The lock is held for a decision.
pub(super) struct Desk {
    clock: Arc<dyn Clock>,
    tokens: Mutex<Tokens>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            tokens: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.tokens
            .lock()
            .expect("nobody who held the tokens has panicked")
    }

    fn resolve(&self, span: &TokenSpan, wanted: TokenUse) -> Result<Resolved> {
        self.lock().resolve(self.clock.now(), span, wanted)
    }

    pub(super) fn fence(&self, ticket: Ticket, segment: SegmentId) {
        self.lock().fence(ticket, segment);
    }

    pub(super) fn unmount(&self, segment: SegmentId) {
        self.lock().unmount(segment);
    }
}

impl DramTier {
    fn desk(&self) -> Result<&Arc<Desk>> {
        self.desk.as_ref().ok_or_else(|| {
            Error::new(
                Code::UnavailableInCurrentMode,
                "this process serves no foreign clients: ask a node",
            )
        })
    }

    /// Honours tokens from now on.
    ///
    /// # Errors
    /// As [`Tokens::announce`]; `SegmentNotFound` when the space is gone; `InvalidWrite` for a write that is over.
    pub fn announce(&self, announce: &Announce) -> Result<()> {
        let desk = self.desk()?;
        let segment = announce.placement.segment;
        // Held while the tokens are taken in, so that whoever unmounts the segment finds them there.
        let state = self.shared.lock();
        if !state.segments.contains_key(&segment) {
            return Err(Error::new(
                Code::SegmentNotFound,
                format!("segment {segment} is not on this node"),
            ));
        }
        let extents = announce.placement.extents.as_slice();
        let writes = announce.allows == TokenUse::Write;
        if writes && !state.shelf.admits(announce.ticket, segment, extents) {
            return Err(Error::new(
                Code::InvalidWrite,
                format!(
                    "ticket {} may not write here: it is fenced, a newer version is there, or the space is not",
                    announce.ticket
                ),
            ));
        }
        desk.lock().announce(desk.clock.now(), announce)
    }

    /// Ends a write by tokens: from now on nothing of the version is written here. Sums its payload in place and lays the
    /// chunk table beside it. May be asked again, and answers the same.
    ///
    /// # Errors
    /// `InvalidWrite` when bytes never arrived, no token of the write is known, or it was fenced; `ReplicaIsGone` when the
    /// space belongs to another version; `SegmentNotFound`; `InvalidParams` for a placement that does not fit.
    pub fn prove(&self, ticket: Ticket, placement: &Placement, object_len: u64) -> Result<Crc32> {
        let desk = self.desk()?;
        fits(placement, object_len)?;
        let access = Access {
            member: self.member(),
            segment: placement.segment,
            ticket,
        };
        // The table's place is taken first: whoever gets the space while the sums are taken stops this write, and no table
        // is laid over what belongs to a newer version.
        let table = placement.check.as_slice();
        let laying = self.admit(access, table)?;
        let payload = Placement {
            check: None,
            ..placement.clone()
        };
        self.stop(ticket, &payload)?;
        desk.lock()
            .seal(desk.clock.now(), ticket, placement.segment)?;
        let extents = placement.extents.as_slice();
        let region = self.look_up(access, extents)?;
        let sums = sum(&region, &placement.extents, 0, object_len)?;
        self.shared.owns(access, extents)?;
        let crc = sums.crc();
        if let Some(table) = placement.check {
            laying.lay_table(table, sums.finish().sums())?;
        }
        Ok(crc)
    }

    pub(super) fn token_write(&self, span: &TokenSpan) -> Result<Box<dyn WriteSlot>> {
        let desk = self.desk()?;
        let at = desk.resolve(span, TokenUse::Write)?;
        let writing = self.admit(self.access(&at), &pieces(&at))?;
        // What the admission displaced has stopped, so nothing but this write can report these bytes from now on.
        desk.lock().begin_write(&at)?;
        let walk = Walk::new(&at.placement.extents, at.offset, at.len);
        Ok(Box::new(TokenWrite {
            write: DramWrite::without_table(writing, walk),
            desk: Arc::clone(desk),
            at,
        }))
    }

    pub(super) fn token_read(&self, span: &TokenSpan) -> Result<Box<dyn ReadSlot>> {
        let at = self.desk()?.resolve(span, TokenUse::Read)?;
        let access = self.access(&at);
        let laid = laid_sums(&at);
        let mut extents = pieces(&at);
        extents.extend(laid);
        let region = self.look_up(access, &extents)?;
        let span = Span {
            offset: at.offset,
            len: at.len,
            object_len: at.object_len,
            placement: at.placement.clone(),
        };
        let shared: Arc<Shared> = Arc::clone(&self.shared);
        Ok(Box::new(TokenRead {
            read: DramRead::new(shared, Arc::clone(&region), access, extents, &span),
            region,
            at,
            laid,
        }))
    }

    fn access(&self, at: &Resolved) -> Access {
        Access {
            member: self.member(),
            segment: at.placement.segment,
            ticket: at.ticket,
        }
    }
}

/// Where the bytes of a range lie.
fn pieces(at: &Resolved) -> Vec<Extent> {
    at.placement.extents.pieces(at.offset, at.len).collect()
}

/// The part of the chunk table that has the sums of a range; nothing when they are not laid, or are not those of its chunks.
fn laid_sums(at: &Resolved) -> Option<Extent> {
    is_range(at.offset, at.len, at.object_len).ok()?;
    table_part(&at.placement, at.offset, at.len)
}

/// Sums a range of a payload in place, in chunks from the start of the range.
fn sum(region: &Region, extents: &Extents, offset: u64, len: u64) -> Result<Summer> {
    let mut walk = Walk::new(extents, offset, len);
    let mut summer = Summer::default();
    while walk.left() > 0 {
        let piece = walk.piece(usize::MAX);
        region.look(piece.offset, piece.len as usize, |bytes| {
            summer.update(bytes)
        })?;
        walk.advance(piece.len);
    }
    Ok(summer)
}

/// A write by token: as any other, but that nothing is laid beside it.
#[derive(Debug)]
struct TokenWrite {
    write: DramWrite,
    desk: Arc<Desk>,
    at: Resolved,
}

impl WriteSlot for TokenWrite {
    fn left(&self) -> u64 {
        self.write.left()
    }

    fn step(&mut self, most: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Result<usize> {
        self.write.step(most, fill)
    }

    fn finish(self: Box<Self>, _: &[Crc32]) -> Result<()> {
        if self.write.left() > 0 {
            return Err(Error::new(
                Code::InvalidParams,
                format!("a write ends with {} bytes missing", self.write.left()),
            ));
        }
        // Within the latch: a write that was stopped reports nothing.
        self.write.hold(|| self.desk.lock().finish_write(&self.at))
    }
}

/// A read by token: as any other, but that its table is that of the range.
#[derive(Debug)]
struct TokenRead {
    read: DramRead,
    region: Arc<Region>,
    at: Resolved,
    /// Where the sums lie that its chunks had when they were put.
    laid: Option<Extent>,
}

impl ReadSlot for TokenRead {
    fn left(&self) -> u64 {
        self.read.left()
    }

    fn step(&mut self, most: usize, take: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        self.read.step(most, take)
    }

    fn table(&self) -> Result<Vec<u8>> {
        let at = &self.at;
        if let Some(laid) = self.laid {
            let mut table = vec![0; laid.len as usize];
            self.region
                .copy_out(laid.offset, &mut table, Caching::Fill)?;
            return Ok(table);
        }
        let sums = sum(&self.region, &at.placement.extents, at.offset, at.len)?;
        Ok(sums.finish().encode())
    }

    fn seal(&self) -> Result<()> {
        self.read.seal()
    }
}
