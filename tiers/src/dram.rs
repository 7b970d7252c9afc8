//! The memory that a node or an in-process store offers: regions, and the shelf that says who may touch them.
//!
//! Owns one [`Region`] per segment and one [`Shelf`] behind a lock that is held for a decision, never for a copy. Every
//! write under way has a latch; whoever stops it (a fence, a newer version, the end of the segment) waits for the piece
//! that is being moved and knows that no other follows (I11). Reads ask the shelf before and after (I12); what changed
//! in between is not believed. Refused here: choosing space, and believing bytes.

mod latch;
mod slot;
mod token;
mod walk;

use latch::Latch;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};
use token::Desk;
use walk::Walk;
use ziggurat_base::{
    ByteCount, CHUNK, Clock, Code, Crc32, Error, Extent, MemberId, Placement, Result, SegmentId,
    Ticket,
    checksum::{Summer, chunk_count, table_len},
    copy::Caching,
    frame::{Span, TokenSpan},
    memory::Region,
};
use ziggurat_engine::{
    command::Target,
    port::{Access, Host, ReadOp, ReadSlot, ReadSums, WriteOp, WriteSlot},
    shelf::{Shelf, WriteId},
};

/// From this length on half of the second-level cache is gone when the last byte arrives: reading afterwards is no faster
/// from there than from memory.
const BYPASS_MIN: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub struct DramTier {
    member: AtomicU64,
    shared: Arc<Shared>,
    /// What foreign clients may do; only with a clock.
    desk: Option<Arc<Desk>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    shelf: Shelf,
    segments: BTreeMap<SegmentId, Mounted>,
}

/// A segment and its writes under way; each has exactly one latch here, from its admission to its end.
#[derive(Debug)]
struct Mounted {
    region: Arc<Region>,
    latches: BTreeMap<WriteId, Arc<Latch>>,
}

impl Mounted {
    /// The latches of `writes`, to be stopped once the lock is free. A write without one has ended.
    fn latches(&self, writes: &[WriteId]) -> Vec<Arc<Latch>> {
        writes
            .iter()
            .filter_map(|id| self.latches.get(id).cloned())
            .collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nobody who held the shelf has panicked")
    }

    /// Whether every byte of `extents` belongs to the version.
    fn owns(&self, access: Access, extents: &[Extent]) -> Result<()> {
        owned(&self.lock(), access, extents)
    }
}

fn owned(state: &State, access: Access, extents: &[Extent]) -> Result<()> {
    if state.shelf.owns(access.ticket, access.segment, extents) {
        return Ok(());
    }
    Err(Error::new(
        Code::ReplicaIsGone,
        format!(
            "the space in segment {} does not belong to ticket {} any more",
            access.segment, access.ticket
        ),
    ))
}

/// A write that was admitted. Dropping it ends it.
#[derive(Debug)]
struct Writing {
    shared: Arc<Shared>,
    region: Arc<Region>,
    latch: Arc<Latch>,
    segment: SegmentId,
    id: WriteId,
}

impl Writing {
    /// Lays chunk sums beside the payload, `table` being the part of the check extent that is theirs.
    fn lay_table(&self, table: Extent, sums: &[Crc32]) -> Result<()> {
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.0.to_le_bytes()).collect();
        assert_eq!(bytes.len() as u64, table.len, "a table has its own extent");
        self.latch
            .hold(|| self.region.copy_in(table.offset, &bytes).map(drop))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.shelf.end_write(self.segment, self.id);
        if let Some(here) = state.segments.get_mut(&self.segment) {
            here.latches.remove(&self.id);
        }
    }
}

impl DramTier {
    /// A tier without segments, owned by the incarnation `member`.
    #[must_use]
    pub fn new(member: MemberId) -> Self {
        Self {
            member: AtomicU64::new(member.0),
            shared: Arc::default(),
            desk: None,
        }
    }

    /// A tier that serves foreign clients too, whose tokens end by this clock.
    #[must_use]
    pub fn with_tokens(member: MemberId, clock: Arc<dyn Clock>) -> Self {
        Self {
            desk: Some(Arc::new(Desk::new(clock))),
            ..Self::new(member)
        }
    }

    /// The owner has joined again as another incarnation; requests for the old one are refused from now on.
    pub fn set_member(&self, member: MemberId) {
        self.member.store(member.0, Ordering::SeqCst);
    }

    /// The incarnation that owns the tier.
    #[must_use]
    pub fn member(&self) -> MemberId {
        MemberId(self.member.load(Ordering::SeqCst))
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn capacity(&self) -> ByteCount {
        let state = self.shared.lock();
        let lens = state.segments.values().map(|here| here.region.len());
        ByteCount(lens.sum())
    }

    /// Takes a segment on. Its space belongs to nobody until a write comes.
    ///
    /// # Errors
    /// [`Code::SegmentAlreadyExists`] when the number is taken: numbers are never used twice.
    pub fn mount(&self, segment: SegmentId, region: Region) -> Result<()> {
        self.mount_shared(segment, Arc::new(region))
    }

    /// [`DramTier::mount`] of memory that outlives the segment: it is mounted again when its owner joins anew. Reads of
    /// the old segment that are still being answered fail when they ask the shelf at their end.
    ///
    /// # Errors
    /// As [`DramTier::mount`].
    pub fn mount_shared(&self, segment: SegmentId, region: Arc<Region>) -> Result<()> {
        let mut state = self.shared.lock();
        if state.segments.contains_key(&segment) {
            return Err(Error::new(
                Code::SegmentAlreadyExists,
                format!("segment {segment} is mounted already"),
            ));
        }
        state.shelf.mount(segment, region.len());
        let mounted = Mounted {
            region,
            latches: BTreeMap::new(),
        };
        state.segments.insert(segment, mounted);
        Ok(())
    }

    /// Forgets a segment and stops its writes under way; `None` when it is not mounted. The memory itself goes back to
    /// the system with the last holder of the region: the caller, or a read that is just being answered.
    pub fn unmount(&self, segment: SegmentId) -> Option<Arc<Region>> {
        let mounted = {
            let mut state = self.shared.lock();
            state.shelf.unmount(segment);
            state.segments.remove(&segment)?
        };
        if let Some(desk) = &self.desk {
            desk.unmount(segment);
        }
        mounted.latches.values().for_each(|latch| latch.stop());
        Some(mounted.region)
    }

    /// Serves a segment under another number from now on, with everything that is in it: another partition calls it so. When
    /// this returns, nothing that was admitted under the old number is written any more.
    ///
    /// # Errors
    /// [`Code::SegmentNotFound`], and [`Code::SegmentAlreadyExists`] when the new number is taken.
    pub fn renumber(&self, old: SegmentId, new: SegmentId) -> Result<()> {
        let latches = {
            let mut state = self.shared.lock();
            if state.segments.contains_key(&new) {
                return Err(Error::new(
                    Code::SegmentAlreadyExists,
                    format!("segment {new} is mounted already"),
                ));
            }
            let Some(mut here) = state.segments.remove(&old) else {
                return Err(Error::new(
                    Code::SegmentNotFound,
                    format!("segment {old} is not on this node"),
                ));
            };
            state.shelf.renumber(old, new);
            let latches = std::mem::take(&mut here.latches);
            state.segments.insert(new, here);
            latches
        };
        if let Some(desk) = &self.desk {
            desk.unmount(old);
        }
        latches.values().for_each(|latch| latch.stop());
        Ok(())
    }

    /// Whether every byte of a replica belongs to a version.
    #[must_use]
    pub fn holds(&self, ticket: Ticket, placement: &Placement) -> bool {
        let extents: Vec<_> = placement.all().collect();
        let state = self.shared.lock();
        state.shelf.owns(ticket, placement.segment, &extents)
    }

    /// A write of this node has copied a version whole into its space; as [`Shelf::copied`].
    ///
    /// # Errors
    /// As [`Shelf::copied`].
    pub fn copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> Result<()> {
        self.shared.lock().shelf.copied(write, version, placement)
    }

    /// Whether it has, and nothing has come over it since; as [`Shelf::is_copied`].
    #[must_use]
    pub fn is_copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> bool {
        self.shared
            .lock()
            .shelf
            .is_copied(write, version, placement)
    }

    /// Whether a segment is mounted.
    #[must_use]
    pub fn has(&self, segment: SegmentId) -> bool {
        self.shared.lock().segments.contains_key(&segment)
    }

    /// Refuses `ticket` in its space from now on. When this returns, its writes under way there have moved their last
    /// byte.
    ///
    /// # Errors
    /// [`Code::SegmentNotFound`]: the space is gone, and with it all that could be damaged. [`Code::InvalidReplica`]
    /// outside the segment.
    pub fn fence(&self, ticket: Ticket, placement: &Placement) -> Result<()> {
        if let Some(desk) = &self.desk {
            desk.fence(ticket, placement.segment);
        }
        self.stop(ticket, placement)
    }

    /// [`DramTier::fence`], but for what foreign clients were told.
    fn stop(&self, ticket: Ticket, placement: &Placement) -> Result<()> {
        let latches = {
            let mut state = self.shared.lock();
            let writes = state.shelf.fence(ticket, placement)?;
            let here = state.segments.get(&placement.segment);
            here.map_or_else(Vec::new, |mounted| mounted.latches(&writes))
        };
        latches.iter().for_each(|latch| latch.stop());
        Ok(())
    }

    /// Writes a whole payload from this process in one copy, sums it on the way and lays its chunk table beside it.
    ///
    /// # Errors
    /// As [`Host::open_write`]; [`Code::InvalidWrite`] also when the write is stopped half-way, [`Code::InvalidParams`]
    /// when parts, length and placement contradict each other.
    pub fn write(&self, op: &WriteOp<'_>) -> Result<Crc32> {
        let placement = &op.target.placement;
        fits(placement, op.len)?;
        if op.parts.iter().map(|part| part.len() as u64).sum::<u64>() != op.len {
            return Err(Error::new(
                Code::InvalidParams,
                format!("the parts of a payload do not add up to {} bytes", op.len),
            ));
        }
        let touched = to_write(placement, 0, op.len);
        let writing = self.admit(access(op.ticket, op.target), &touched)?;
        let mut walk = Walk::new(&placement.extents, 0, op.len);
        let mut summer = Summer::default();
        for part in op.parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let piece = walk.piece(rest.len());
                let (now, later) = rest.split_at(piece.len as usize);
                let sum = writing
                    .latch
                    .hold(|| writing.region.copy_in(piece.offset, now))?;
                summer.push(sum, now.len());
                walk.advance(piece.len);
                rest = later;
            }
        }
        let crc = summer.crc();
        if let Some(table) = placement.check {
            writing.lay_table(table, summer.finish().sums())?;
        }
        Ok(crc)
    }

    /// Reads a range into this process in one copy and sums it on the way.
    ///
    /// # Errors
    /// As [`Host::open_read`]; [`Code::ReplicaIsGone`] also when the space was given to another version half-way, with
    /// any content in the buffer then; [`Code::InvalidRead`] for a range that does not start and end with chunks.
    pub fn read(&self, op: &mut ReadOp<'_>) -> Result<ReadSums> {
        let placement = &op.source.placement;
        let len = op.into.len() as u64;
        fits(placement, op.object_len)?;
        is_range(op.offset, len, op.object_len)?;
        let access = access(op.ticket, op.source);
        let touched = to_read(placement, op.offset, len);
        let region = self.look_up(access, &touched)?;
        let caching = caching(len);
        let mut walk = Walk::new(&placement.extents, op.offset, len);
        let mut summer = Summer::default();
        let mut rest = &mut *op.into;
        while !rest.is_empty() {
            let piece = walk.piece(rest.len());
            let (now, later) = rest.split_at_mut(piece.len as usize);
            summer.push(region.copy_out(piece.offset, now, caching)?, now.len());
            walk.advance(piece.len);
            rest = later;
        }
        let mut sums = ReadSums {
            crc: summer.crc(),
            ..ReadSums::default()
        };
        if op.want_table {
            sums.chunks = summer.finish().sums().to_vec();
            sums.table = table_of(&region, placement)?;
        }
        self.shared.owns(access, &touched)?;
        Ok(sums)
    }

    fn is_for_us(&self, member: MemberId) -> Result<()> {
        check_incarnation(member, self.member())
    }

    /// Admits a write and stops whatever it displaces, so that the first byte may be moved.
    fn admit(&self, access: Access, touched: &[Extent]) -> Result<Writing> {
        self.is_for_us(access.member)?;
        let latch = Arc::new(Latch::new(access.ticket));
        let mut state = self.shared.lock();
        let admitted = state
            .shelf
            .begin_write(access.ticket, access.segment, touched)?;
        let here = state
            .segments
            .get_mut(&access.segment)
            .expect("shelf and segments are changed together");
        let displaced = here.latches(&admitted.stop);
        here.latches.insert(admitted.id, Arc::clone(&latch));
        let region = Arc::clone(&here.region);
        drop(state);
        displaced.iter().for_each(|older| older.stop());
        Ok(Writing {
            shared: Arc::clone(&self.shared),
            region,
            latch,
            segment: access.segment,
            id: admitted.id,
        })
    }

    /// The region of a segment in which every byte of `extents` belongs to the version.
    fn look_up(&self, access: Access, extents: &[Extent]) -> Result<Arc<Region>> {
        self.is_for_us(access.member)?;
        let state = self.shared.lock();
        let Some(here) = state.segments.get(&access.segment) else {
            return Err(Error::new(
                Code::SegmentNotFound,
                format!("segment {} is not on this node", access.segment),
            ));
        };
        owned(&state, access, extents)?;
        Ok(Arc::clone(&here.region))
    }
}

impl Host for DramTier {
    fn open_write(&self, access: Access, span: &Span) -> Result<Box<dyn WriteSlot>> {
        is_here(access, span)?;
        let touched = to_write(&span.placement, span.offset, span.len);
        let writing = self.admit(access, &touched)?;
        Ok(Box::new(slot::DramWrite::new(writing, span)))
    }

    fn open_read(&self, access: Access, span: &Span) -> Result<Box<dyn ReadSlot>> {
        is_here(access, span)?;
        let touched = to_read(&span.placement, span.offset, span.len);
        let region = self.look_up(access, &touched)?;
        let shared = Arc::clone(&self.shared);
        let extents = touched.into_owned();
        Ok(Box::new(slot::DramRead::new(
            shared, region, access, extents, span,
        )))
    }

    fn open_token_write(&self, span: &TokenSpan) -> Result<Box<dyn WriteSlot>> {
        self.token_write(span)
    }

    fn open_token_read(&self, span: &TokenSpan) -> Result<Box<dyn ReadSlot>> {
        self.token_read(span)
    }
}

fn access(ticket: Ticket, target: &Target) -> Access {
    Access {
        member: target.member,
        segment: target.placement.segment,
        ticket,
    }
}

fn is_here(access: Access, span: &Span) -> Result<()> {
    if access.segment != span.placement.segment {
        return Err(Error::new(
            Code::InvalidParams,
            format!(
                "access to segment {} with a placement in {}",
                access.segment, span.placement.segment
            ),
        ));
    }
    fits(&span.placement, span.object_len)?;
    is_range(span.offset, span.len, span.object_len)
}

/// Whether the placement is that of a payload of `len` bytes: its extents and its table have exactly room for it.
fn fits(placement: &Placement, len: u64) -> Result<()> {
    let table = placement.check.map_or(0, |check| check.len);
    if placement.extents.len().0 == len && table == table_len(len) {
        return Ok(());
    }
    Err(Error::new(
        Code::InvalidParams,
        format!(
            "extents of {} bytes and a table of {table} for a payload of {len} bytes",
            placement.extents.len().0
        ),
    ))
}

/// Whether a range starts and ends with chunks, so that it can be summed chunk by chunk.
fn is_range(offset: u64, len: u64, object_len: u64) -> Result<()> {
    let chunk = CHUNK as u64;
    let end = offset.checked_add(len).filter(|end| *end <= object_len);
    let whole = |end: u64| end.is_multiple_of(chunk) || end == object_len;
    if offset.is_multiple_of(chunk) && end.is_some_and(whole) {
        return Ok(());
    }
    Err(Error::new(
        Code::InvalidRead,
        format!("{len} bytes at {offset} are not whole chunks of an object of {object_len} bytes"),
    ))
}

/// The sums of the chunks of a range, as part of the check extent.
fn table_part(placement: &Placement, offset: u64, len: u64) -> Option<Extent> {
    let start = offset / CHUNK as u64;
    let count = chunk_count(len);
    placement
        .check
        .map(|check| Extent::new(check.offset + 4 * start, 4 * count))
}

/// What a write of a range touches: the range, and its part of the table. Stripes of one payload touch nothing in common.
fn to_write(placement: &Placement, offset: u64, len: u64) -> Cow<'_, [Extent]> {
    touched(placement, offset, len, table_part(placement, offset, len))
}

/// What a read of a range touches: the range, and the whole table.
fn to_read(placement: &Placement, offset: u64, len: u64) -> Cow<'_, [Extent]> {
    touched(placement, offset, len, placement.check)
}

fn touched(
    placement: &Placement,
    offset: u64,
    len: u64,
    table: Option<Extent>,
) -> Cow<'_, [Extent]> {
    let whole = placement.extents.as_slice();
    if table.is_none() && len == placement.extents.len().0 {
        return Cow::Borrowed(whole);
    }
    placement
        .extents
        .pieces(offset, len)
        .chain(table)
        .collect::<Vec<_>>()
        .into()
}

/// Whether a request for the incarnation `asked` is one for the incarnation `here`.
///
/// # Errors
/// `ClientNotFound` when it is for another.
pub fn check_incarnation(asked: MemberId, here: MemberId) -> Result<()> {
    if asked == here {
        return Ok(());
    }
    let what = format!("the request is for incarnation {asked}, this one is {here}");
    Err(Error::new(Code::ClientNotFound, what))
}

/// What a reader finds faster afterwards: small payloads in the cache, large ones in memory.
fn caching(len: u64) -> Caching {
    if len < BYPASS_MIN {
        Caching::Fill
    } else {
        Caching::Bypass
    }
}

fn table_of(region: &Region, placement: &Placement) -> Result<Vec<u8>> {
    let Some(check) = placement.check else {
        return Ok(Vec::new());
    };
    let mut table = vec![0; check.len as usize];
    region.copy_out(check.offset, &mut table, Caching::Fill)?;
    Ok(table)
}
