//! What journeys need from the world, and what the world needs from the owner of memory. Ports are `dyn`: one page to
//! read, no generics to carry.
//!
//! Futures borrow the caller's memory. Dropping one means: nothing touches that memory any more (a socket transport
//! closes the connection that was using it), and whatever had been started is void or harmless.

use crate::command::{
    Answer, Cursor, Effect, Force, GetGrant, Hold, Keys, MemberOffer, ObjectStat, Page, Prefetch,
    Prefetched, PutAnswer, PutDone, PutEnd, PutItem, Recency, ScanAction, SegmentOffer,
    SegmentStat, Stats, Tags, Target, Wish,
};
use crate::ledger::{LedgerBatch, LedgerReply};
use std::{fmt, sync::Arc, time::Duration};
use ziggurat_base::{
    Clock, Code, Crc32, Era, Error, Job, Key, MemberId, SegmentId, TenantId, Ticket,
    frame::{Span, TokenSpan},
};

/// A metadata partition as its callers see it; in process a lock and a call, else a stream to the master.
///
/// Every batch has at most [`crate::command::BATCH_MAX`] items. The outer error means that nothing is known of the
/// whole batch (no connection, no time left); inner ones are per item.
pub trait MetadataApi: Send + Sync {
    /// Asks for space to write new objects.
    fn put_start<'a>(
        &'a self,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>>;
    /// Reports on writes; an object with a good replica becomes readable.
    fn put_end<'a>(&'a self, ends: &'a [PutEnd]) -> Job<'a, Answer<Vec<Answer<PutDone>>>>;
    /// Gives writes up. Nothing becomes readable.
    fn revoke<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>>;
    /// Asks for more time to write.
    fn renew<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>>;
    /// Finds objects and takes a guard on each; `None` is a miss.
    fn locate<'a>(
        &'a self,
        keys: Keys<'a>,
        recency: Recency,
    ) -> Job<'a, Answer<Vec<Answer<Option<GetGrant>>>>>;
    /// Whether objects are readable; promises each its lease.
    fn exist<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<bool>>>>;
    /// Marks objects as just used, in this order. Keys that are not there are passed over.
    fn touch<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<()>>;
    /// Gives guards back. Travels with a later call; nothing depends on its arrival.
    fn give_back(&self, holds: &[Hold]);
    /// Removes objects.
    fn remove<'a>(&'a self, keys: Keys<'a>, force: Force) -> Job<'a, Answer<Vec<Answer<()>>>>;
    /// Brings objects into memory that lie below it, or stops that; `None` is a miss. What finds no room is
    /// [`ziggurat_base::Code::NoAvailableHandle`], and [`ziggurat_base::Code::Backpressure`] when there is some soon.
    fn prefetch<'a>(
        &'a self,
        keys: Keys<'a>,
        wish: Prefetch,
    ) -> Job<'a, Answer<Vec<Answer<Option<Prefetched>>>>>;
    /// Does one turn of a scan over the objects of a tenant whose keys match `pattern` (all when empty).
    fn scan<'a>(
        &'a self,
        tenant: TenantId,
        pattern: &'a str,
        action: ScanAction,
        cursor: Option<Cursor>,
    ) -> Job<'a, Answer<Page>>;
    /// Everything about objects, for people; takes no guard.
    fn stat<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<Option<ObjectStat>>>>>;
}

/// What a member is told when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The incarnation's number.
    pub member: MemberId,
    /// The era of the partition.
    pub era: Era,
    /// Silence longer than this is death. Ping at a third of it.
    pub time_to_live: Duration,
}

/// A metadata partition as its members see it: nodes that give space, and clients.
pub trait MemberApi: Send + Sync {
    /// Joins as a new incarnation.
    fn join<'a>(&'a self, offer: &'a MemberOffer) -> Job<'a, Answer<Joined>>;
    /// Shows life.
    fn ping(&self, member: MemberId) -> Job<'_, Answer<()>>;
    /// Says goodbye: segments are unmounted at once, open writes given up.
    fn leave(&self, member: MemberId) -> Job<'_, Answer<()>>;
    /// Interns a tenant's name.
    fn tenant<'a>(&'a self, name: &'a str) -> Job<'a, Answer<TenantId>>;
    /// Gives space to the pool.
    fn mount<'a>(&'a self, member: MemberId, offer: &'a SegmentOffer)
    -> Job<'a, Answer<SegmentId>>;
    /// Takes space back: no new objects from now on, gone after `grace`.
    fn unmount(&self, member: MemberId, segment: SegmentId, grace: Duration)
    -> Job<'_, Answer<()>>;
    /// Acknowledges [`crate::command::Effect::Fence`].
    fn fenced(&self, member: MemberId, ticket: Ticket, segment: SegmentId) -> Job<'_, Answer<()>>;
    /// Tells what is held in a segment; see [`crate::ledger`].
    fn ledger<'a>(
        &'a self,
        member: MemberId,
        segment: SegmentId,
        batch: &'a LedgerBatch,
    ) -> Job<'a, Answer<LedgerReply>>;
    /// Every segment: who owns it and where it is served.
    fn segments(&self) -> Job<'_, Answer<Vec<SegmentStat>>>;
    /// What a member has to do: completes when there is something, in order, at least once each. An error means that the
    /// member is gone.
    fn effects(&self, member: MemberId) -> Job<'_, Answer<Vec<Effect>>>;
    /// The state of the partition in numbers.
    fn stats(&self) -> Job<'_, Answer<Stats>>;
}

/// What an object is called and related to.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// Its relations.
    pub tags: Tags<'a>,
}

/// One object's bytes on their way to one replica.
#[derive(Clone, Debug)]
pub struct WriteOp<'a> {
    /// What the bytes are called, to be written beside them where nobody else knows: in a shard file. `None` elsewhere.
    pub name: Option<Name<'a>>,
    /// The version.
    pub ticket: Ticket,
    /// Where to.
    pub target: &'a Target,
    /// The payload in parts.
    pub parts: &'a [&'a [u8]],
    /// The length of all parts together.
    pub len: u64,
}

/// One range of one object's bytes on their way here.
#[derive(Debug)]
pub struct ReadOp<'a> {
    /// The object's key, to be proved where nobody else knows it: in a shard file. `None` elsewhere.
    pub name: Option<Key<'a>>,
    /// The version that is wanted.
    pub ticket: Ticket,
    /// Where from.
    pub source: &'a Target,
    /// Bytes of the whole payload.
    pub object_len: u64,
    /// First byte of the range, a multiple of [`ziggurat_base::CHUNK`].
    pub offset: u64,
    /// Where the range goes; its length is the range's.
    pub into: &'a mut [u8],
    /// Whether the chunk table of the object is wanted too.
    pub want_table: bool,
}

/// What a read found. The bytes are in the caller's buffer and not to be believed before they are proved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSums {
    /// Sum of the range.
    pub crc: Crc32,
    /// Sums of its chunks; only with a table.
    pub chunks: Vec<Crc32>,
    /// The chunk table as it lies beside the payload; empty when not asked for or there is none.
    pub table: Vec<u8>,
}

/// Lays the answers of groups, which say where their operations stood, back into the order of a batch of `count`.
#[must_use]
pub fn scatter<T>(
    count: usize,
    groups: impl IntoIterator<Item = (Vec<usize>, Vec<Answer<T>>)>,
) -> Vec<Answer<T>> {
    let missing = || Err(Error::new(Code::Internal, "an operation has no answer"));
    let mut answers: Vec<Answer<T>> = (0..count).map(|_| missing()).collect();
    for (positions, group) in groups {
        for (position, answer) in positions.into_iter().zip(group) {
            answers[position] = answer;
        }
    }
    answers
}

/// Moves bytes to and from extents, wherever they are: this process, shared memory, or the far end of a wire.
pub trait DataPlane: Send + Sync {
    /// Writes payloads and their chunk tables; answers with the sum of each payload.
    fn write<'a>(&'a self, ops: &'a [WriteOp<'a>]) -> Job<'a, Vec<Answer<Crc32>>>;
    /// Reads ranges. An error leaves its buffer with any content.
    fn read<'a, 'b: 'a>(&'a self, ops: &'a mut [ReadOp<'b>]) -> Job<'a, Vec<Answer<ReadSums>>>;
}

/// Whose bytes a data request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The incarnation that the asker believes to talk to.
    pub member: MemberId,
    /// The segment.
    pub segment: SegmentId,
    /// The version.
    pub ticket: Ticket,
}

/// The owner of memory, as a server of data requests sees it.
pub trait Host: Send + Sync + fmt::Debug {
    /// Admits a write of a range.
    ///
    /// # Errors
    /// The codes of [`crate::shelf::Shelf::begin_write`], and `ClientNotFound` for another incarnation.
    fn open_write(&self, access: Access, span: &Span) -> Answer<Box<dyn WriteSlot>>;
    /// Admits a read of a range.
    ///
    /// # Errors
    /// `ReplicaIsGone` when the space belongs to another version, and as above.
    fn open_read(&self, access: Access, span: &Span) -> Answer<Box<dyn ReadSlot>>;
    /// Where the bytes have to be fetched before they can be sent: a read that is admitted when they are there. `None`
    /// where they lie in memory, and for [`Host::open_read`] to refuse.
    fn fetch<'a>(
        &'a self,
        access: Access,
        span: &'a Span,
    ) -> Option<Job<'a, Answer<Box<dyn ReadSlot>>>> {
        let _ = (access, span);
        None
    }
    /// Admits a write of a range that a foreign client names by a token. Its sums are not laid beside the payload: that is
    /// done when the owner proves the whole of it.
    ///
    /// # Errors
    /// As [`crate::token::Tokens::resolve`] and [`Host::open_write`].
    fn open_token_write(&self, span: &TokenSpan) -> Answer<Box<dyn WriteSlot>>;
    /// Admits a read of a range that a foreign client names by a token. Its table has the sums of the range, cut from its
    /// start.
    ///
    /// # Errors
    /// As [`crate::token::Tokens::resolve`] and [`Host::open_read`].
    fn open_token_read(&self, span: &TokenSpan) -> Answer<Box<dyn ReadSlot>>;
}

/// A write under way. Dropping it ends it.
pub trait WriteSlot: Send {
    /// Bytes still to come.
    fn left(&self) -> u64;
    /// Lets `fill` write the next bytes straight into the segment: at most `most`, within one chunk and one extent.
    /// `fill` says how many it wrote and must not block.
    ///
    /// # Errors
    /// `InvalidWrite` when the write was stopped meanwhile: not a byte more may be moved.
    fn step(&mut self, most: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Answer<usize>;
    /// All bytes are there and have these chunk sums, which are laid beside them.
    ///
    /// # Errors
    /// As [`WriteSlot::step`]; `InvalidParams` when bytes are missing or the sums are not as many as the chunks.
    fn finish(self: Box<Self>, sums: &[Crc32]) -> Answer<()>;
}

/// A read under way.
pub trait ReadSlot: Send {
    /// Bytes still to go.
    fn left(&self) -> u64;
    /// Lets `take` look at the next bytes in place: at most `most`, within one chunk and one extent. It says how many it
    /// took and must not block.
    fn step(&mut self, most: usize, take: &mut dyn FnMut(&[u8]) -> usize) -> usize;
    /// The chunk table that lies beside the payload; empty when there is none.
    ///
    /// # Errors
    /// When it lies outside the segment.
    fn table(&self) -> Answer<Vec<u8>>;
    /// Whether the bytes belonged to the version all the time.
    ///
    /// # Errors
    /// `ReplicaIsGone`: what was sent must not be believed.
    fn seal(&self) -> Answer<()>;
}

/// The bundle that a journey takes.
#[derive(Clone)]
pub struct Ports {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Metadata.
    pub metadata: Arc<dyn MetadataApi>,
    /// Bytes.
    pub data: Arc<dyn DataPlane>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ports")
    }
}
