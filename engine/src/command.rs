//! What may be asked of a metadata partition and what it answers: the words that catalog, ports and wire share.
//!
//! All calls are batches with positional answers. A grant carries spans; its holder counts from the moment it *sent*
//! the request, so no two clocks are compared.

use crate::{Row, ledger::Holding};
use std::{str::FromStr, time::Duration};
use ziggurat_base::{
    ByteCount, Code, Crc32, DirectoryId, Era, Error, Extent, Key, MemberId, ObjectKey, Placement,
    SegmentId, TenantId, Ticket,
};

/// The most items that one batch may have; larger ones are split by the caller. Bounds the length of a turn.
pub const BATCH_MAX: usize = 512;

/// The longest name of a segment or a tenant, in bytes.
pub const NAME_LEN_MAX: usize = 256;

/// How likely the application thinks that the object is used again. A soft priority, never an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// Nothing is known.
    #[default]
    None,
    /// Probably not used again.
    Cold,
    /// Probably used again, for example because its conversation goes on.
    Hot,
}

/// What a whole batch of puts asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Memory replicas, each in another segment. Best effort: one is enough, the number comes back.
    pub replicas: u8,
    /// Replicas in shard files, each in another one. Best effort, as above.
    pub dfs: u8,
    /// Names of segments to try first, in this order. A name that is not mounted is passed over.
    pub preferred: Vec<Box<str>>,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            replicas: 1,
            dfs: 0,
            preferred: Vec::new(),
        }
    }
}

/// One object to put.
#[derive(Clone, Copy, Debug)]
pub struct PutItem<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// Bytes of its payload; 0 is a value like any other.
    pub len: u64,
    /// What the object is related to; kept with it.
    pub tags: Tags<'a>,
}

impl<'a> PutItem<'a> {
    /// An object without tags.
    #[must_use]
    pub fn new(key: Key<'a>, len: u64) -> Self {
        Self {
            key,
            len,
            tags: Tags::default(),
        }
    }
}

/// Relations of an object that eviction and placement may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags<'a> {
    /// The object before this one in a prompt.
    pub parent: Option<Key<'a>>,
    /// The group it belongs to.
    pub group: Option<Key<'a>>,
    /// Whether it is likely to be used again.
    pub hint: Hint,
}

impl Tags<'_> {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Tags::default()
    }
}

/// [`Tags`], owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedTags {
    /// The object before this one in a prompt.
    pub parent: Option<ObjectKey>,
    /// The group it belongs to.
    pub group: Option<ObjectKey>,
    /// Whether it is likely to be used again.
    pub hint: Hint,
}

impl OwnedTags {
    /// Borrows.
    #[must_use]
    pub fn as_tags(&self) -> Tags<'_> {
        Tags {
            parent: self.parent.as_ref().map(ObjectKey::as_key),
            group: self.group.as_ref().map(ObjectKey::as_key),
            hint: self.hint,
        }
    }
}

impl From<&Tags<'_>> for OwnedTags {
    fn from(tags: &Tags<'_>) -> Self {
        Self {
            parent: tags.parent.map(Key::to_owned),
            group: tags.group.map(Key::to_owned),
            hint: tags.hint,
        }
    }
}

/// Where one replica lies and who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The incarnation of the node; [`MemberId::NOBODY`] for a shard file.
    pub member: MemberId,
    /// The space. In a shard file that of the whole record, its header included.
    pub placement: Placement,
}

impl Target {
    /// Whether it lies in a shard file, which everybody reads and writes himself.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.member == MemberId::NOBODY
    }
}

/// One or several targets; one needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// The usual case.
    One(Target),
    /// Several replicas, or none (never in a grant).
    Many(Vec<Target>),
}

impl Targets {
    /// All of them, best first.
    #[must_use]
    pub fn as_slice(&self) -> &[Target] {
        match self {
            Self::One(target) => std::slice::from_ref(target),
            Self::Many(list) => list,
        }
    }
}

impl FromIterator<Target> for Targets {
    fn from_iter<I: IntoIterator<Item = Target>>(targets: I) -> Self {
        let mut list: Vec<_> = targets.into_iter().collect();
        match list.pop() {
            Some(one) if list.is_empty() => Self::One(one),
            Some(last) => {
                list.push(last);
                Self::Many(list)
            }
            None => Self::Many(list),
        }
    }
}

/// Leave to write one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutGrant {
    /// Names the write from now on.
    pub ticket: Ticket,
    /// Where to write; fewer than wished when there was no room for more.
    pub targets: Targets,
    /// How long nobody may pre-empt the write, from the moment the request was sent. Renew at half of it.
    pub span: Duration,
}

/// Answer to a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutAnswer {
    /// Write, then end the put.
    Granted(PutGrant),
    /// The key is readable; its value stays.
    Existed,
}

/// What became of the replicas of a write; by position in the grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of them are good.
    All,
    /// `Some(true)`: good. `Some(false)`: failed, free it. `None`: not known yet, another `put_end` follows.
    Each(Vec<Option<bool>>),
}

/// Reports on a write. May come more than once for a ticket, as long as its sums agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutEnd {
    /// The write.
    pub ticket: Ticket,
    /// Sum of the payload: from the writer, or from the owner of the memory.
    pub crc: Crc32,
    /// What became of the replicas.
    pub written: Written,
}

/// A put that made its object readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutDone {
    /// Readable replicas.
    pub replicas: u32,
}

/// A hold on an object's lease: what a reader gives back when it has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The row of the object.
    pub row: Row,
    /// The version that was read.
    pub ticket: Ticket,
    /// The term of the lease.
    pub term: u16,
}

/// Leave to read one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetGrant {
    /// The version.
    pub ticket: Ticket,
    /// Bytes of its payload.
    pub len: u64,
    /// Sum of its payload.
    pub crc: Crc32,
    /// Where it lies, best first.
    pub replicas: Targets,
    /// To give back.
    pub hold: Hold,
    /// How long the bytes are safe, from the moment the request was sent.
    pub span: Duration,
}

/// How a `locate` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recency {
    /// The object counts as just used.
    #[default]
    Touch,
    /// The caller will say so itself, in one `touch` for all blocks of a request.
    Keep,
}

/// How much an application wants an object in memory before others that it wants there. Readers come before all of them, and
/// what the partition promotes of its own accord comes last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// After the others.
    Low,
    /// As usual.
    #[default]
    Normal,
    /// Before the others.
    High,
}

impl FromStr for Priority {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "low" => Ok(Self::Low),
            "normal" => Ok(Self::Normal),
            "high" => Ok(Self::High),
            _ => Err(Error::new(
                Code::InvalidParams,
                format!("{text:?} is no priority: use low, normal or high"),
            )),
        }
    }
}

/// What to do about objects that lie below memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// Bring them into memory.
    Begin(Priority),
    /// Do not bring them any more, if they are not there yet.
    Cancel,
}

/// Where an object that exists is on its way to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetched {
    /// It is there.
    InMemory,
    /// It is on its way.
    UnderWay,
    /// It is not on its way any more, or never was.
    Stopped,
}

/// Whether a lease is respected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// A leased object stays.
    #[default]
    No,
    /// It goes; its space is kept until the lease has ended.
    Yes,
}

/// What a scan does with the objects that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanAction {
    /// Lists keys and lengths, without leases.
    List,
    /// Removes.
    Remove(Force),
}

/// How far a scan has come. Opaque to callers; valid as long as the partition's era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The next row to look at.
    pub next_row: u32,
    /// Versions issued later than this are not the scan's business.
    pub newest: Ticket,
}

/// One turn of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and payload lengths that matched, when listing.
    pub keys: Vec<(ObjectKey, u64)>,
    /// Objects removed.
    pub removed: u64,
    /// Objects that matched and stayed because a reader holds them.
    pub leased: u64,
    /// Where to go on; `None` when done.
    pub next: Option<Cursor>,
}

/// Everything about one object, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStat {
    /// Bytes of the payload.
    pub len: u64,
    /// The version.
    pub ticket: Ticket,
    /// Sum of the payload.
    pub crc: Crc32,
    /// Readable replicas.
    pub replicas: Targets,
    /// What is left of its lease.
    pub lease: Duration,
    /// Its parent, if it was given.
    pub parent: Option<ObjectKey>,
    /// Its group, if it was given.
    pub group: Option<ObjectKey>,
    /// Its hint.
    pub hint: Hint,
}

/// Who decides where in a segment a replica lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The partition. The bytes go with the process that gives the space.
    #[default]
    Delegated,
    /// The owner: it takes versions over from its memory and finds them by their tickets. What is there outlives the
    /// process. A replica has the one extent `0 .. len`, in bytes of the payload, and no check extent.
    Owned {
        /// What the partition remembers the space by, wherever it turns up.
        directory: DirectoryId,
    },
    /// The partition, in a shard file that has no owner: whoever mounts it carries what the partition wants to be done there,
    /// one member at a time. What is there outlives all of them. Extents are those of whole records
    /// ([`crate::shard_record`]).
    Shared {
        /// What the partition remembers the shard file by.
        directory: DirectoryId,
        /// Extents begin and end on multiples of this many bytes; see [`crate::shard_record::record_len`].
        alignment: u32,
    },
}

/// What becomes of the bytes in delegated space when the partition's life ends before its owner's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stock {
    /// Nobody offers them again.
    #[default]
    Volatile,
    /// There are none yet; the owner will offer them to the next life of the partition.
    Fresh,
    /// The owner offers what an earlier life has put there. Nothing is allocated before it has told all of it.
    Held,
}

/// Space that a member offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentOffer {
    /// Unique among mounted segments.
    pub name: Box<str>,
    /// Bytes offered.
    pub capacity: ByteCount,
    /// The highest era that the member has seen in tickets: the partition's own must exceed it.
    pub highest_era: Era,
    /// Who allocates.
    pub keep: Keep,
    /// What is in it, when the partition allocates.
    pub stock: Stock,
}

/// A segment as people and clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentStat {
    /// Its number.
    pub id: SegmentId,
    /// Its name.
    pub name: Box<str>,
    /// Its owner.
    pub member: MemberId,
    /// Where its owner serves data; empty when only in process.
    pub address: Box<str>,
    /// Where in its life cycle it is.
    pub state: crate::segment::Segment,
    /// Bytes offered.
    pub capacity: ByteCount,
    /// Bytes in use.
    pub used: ByteCount,
    /// Longest free extent.
    pub largest_free: ByteCount,
    /// Replicas on it, whatever their state.
    pub replicas: u64,
    /// Who allocates.
    pub keep: Keep,
}

/// A process that joins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberOffer {
    /// Where it serves data; empty for a client.
    pub address: Box<str>,
    /// Whether it must ping: a member in the same process cannot fall silent.
    pub in_process: bool,
    /// Whether it wants to be told which versions became readable in its memory, and which are not handed out any more. It
    /// acknowledges the latter in the segment's ledger.
    pub feed: bool,
    /// Whether it copies versions from its own space into its memory when it is asked to.
    pub promotes: bool,
}

/// A partition in numbers. Counters run since its start; nothing is ever negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Readable objects.
    pub objects: u64,
    /// Open writes.
    pub writes_open: u64,
    /// Given-up writes whose space waits for a fence.
    pub writes_closing: u64,
    /// Bytes of all mounted segments that the partition allocates.
    pub capacity: u64,
    /// Bytes of them in use.
    pub used: u64,
    /// Longest free extent of any segment.
    pub largest_free: u64,
    /// Extents of all readable replicas; over `objects` it tells how fragmented they are.
    pub extents: u64,
    /// Mounted segments.
    pub segments: u64,
    /// Living members.
    pub members: u64,
    /// Bytes of memory that the partition's own tables take.
    pub table_bytes: u64,
    /// `put_start` that were granted.
    pub puts_granted: u64,
    /// `put_start` of a key that was readable.
    pub puts_existed: u64,
    /// `put_start` of a key that somebody was writing.
    pub puts_refused_writing: u64,
    /// `put_start` that found no room.
    pub puts_refused_space: u64,
    /// Grants with fewer replicas than wished.
    pub puts_partial: u64,
    /// Objects that became readable.
    pub puts_ended: u64,
    /// Writes given up by their writers.
    pub puts_revoked: u64,
    /// Writes pre-empted by another writer of the key.
    pub puts_preempted: u64,
    /// Writes given up because of their age or their writer's death.
    pub puts_expired: u64,
    /// `locate` that found the object.
    pub locate_hits: u64,
    /// `locate` that did not.
    pub locate_misses: u64,
    /// `exist` that found the object.
    pub exist_hits: u64,
    /// `exist` that did not.
    pub exist_misses: u64,
    /// Guards given back.
    pub holds_returned: u64,
    /// Objects removed on request.
    pub removed: u64,
    /// Objects evicted.
    pub evicted: u64,
    /// Bytes of their payloads.
    pub evicted_bytes: u64,
    /// Objects lost with their segments.
    pub lost: u64,
    /// Members that fell silent.
    pub members_expired: u64,
    /// Bytes of all mounted segments that their owners allocate.
    pub owned_capacity: u64,
    /// Bytes stored there.
    pub owned_used: u64,
    /// Replicas there.
    pub owned_replicas: u64,
    /// Bytes of all shard files.
    pub dfs_capacity: u64,
    /// Bytes of them in use, headers included.
    pub dfs_used: u64,
    /// Objects that are readable there.
    pub dfs_objects: u64,
    /// Versions whose space there waits until a carrier has buried them, or until it has cooled.
    pub dfs_cooling: u64,
    /// Replicas there that were evicted.
    pub dfs_evicted: u64,
    /// Replicas that were taken over from what owners said that they hold.
    pub adopted: u64,
    /// Versions that owners held and had to discard.
    pub discarded: u64,
    /// Objects whose last replica its owner dropped.
    pub dropped: u64,
    /// Objects that left memory and stayed readable elsewhere.
    pub demoted: u64,
    /// Objects that left memory, and with it the store, before their owner had taken them over.
    pub unkept: u64,
    /// Objects that stay in memory until their owner has taken them over.
    pub offloading: u64,
    /// Bytes of them.
    pub offloading_bytes: u64,
    /// Directories that were mounted once and have not said what they hold.
    pub directories_absent: u64,
    /// Versions that the owners of directories have yet to forget.
    pub debts: u64,
    /// Keys of which dead versions are remembered.
    pub key_debts: u64,
    /// Objects on their way from their owners' own space into memory.
    pub promoting: u64,
    /// Bytes of memory that wait for them.
    pub promoting_bytes: u64,
    /// Objects that came into memory that way.
    pub promoted: u64,
    /// Bytes of their payloads.
    pub promoted_bytes: u64,
    /// Objects that were read often enough, or wished for, and found no room or too much on its way.
    pub promotions_dropped: u64,
    /// Objects that were on their way and did not arrive: they were removed, the wish was cancelled, or their owner could not
    /// read them.
    pub promotions_failed: u64,
}

/// What a partition asks the owner of space to do, or lets it know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Refuse the ticket from now on, wait for its writes under way, then acknowledge.
    Fence {
        /// The owner.
        member: MemberId,
        /// The write that was given up.
        ticket: Ticket,
        /// The space.
        placement: Placement,
    },
    /// A version became readable in the member's memory; for members that want the feed. May come again.
    Committed {
        /// The owner.
        member: MemberId,
        /// The version, with its placement.
        holding: Box<Holding>,
    },
    /// A version in the member's memory is not handed out any more. Acknowledged in the segment's ledger by
    /// [`crate::ledger::Change::Forgotten`]; comes again until then.
    Retired {
        /// The owner.
        member: MemberId,
        /// The segment.
        segment: SegmentId,
        /// The version.
        ticket: Ticket,
    },
    /// The version is wanted out of memory: take it over, or refuse it in the ledger of an owned segment.
    Offload {
        /// The owner.
        member: MemberId,
        /// The segment in whose memory it lies.
        segment: SegmentId,
        /// The version.
        ticket: Ticket,
    },
    /// Copy a version from the owner's own space into its memory, as a write of its own. Answered in the ledger of the
    /// memory's segment by [`crate::ledger::Change::Copied`] or [`crate::ledger::Change::NotCopied`]; comes again until then.
    Promote {
        /// The owner.
        member: MemberId,
        /// The version, and as its placement where the copy goes.
        holding: Box<Holding>,
        /// The segment in which the owner has it.
        from: SegmentId,
        /// The write: a floor for others, as any other.
        write: Ticket,
        /// What an application has said of it; `None` when the partition wants it of its own accord.
        priority: Option<Priority>,
    },
    /// Versions that the owner must not hold. Acknowledged in the segment's ledger by
    /// [`crate::ledger::Change::Forgotten`], whether it holds them or not; comes again until then.
    Discard {
        /// The owner.
        member: MemberId,
        /// The segment.
        segment: SegmentId,
        /// The versions, at most [`BATCH_MAX`].
        tickets: Vec<Ticket>,
    },
    /// Versions whose records in a shard file are dead. The carrier puts them into the removal log of its root, wipes their
    /// headers and acknowledges each as with [`Effect::Discard`]; comes again until then, and to the next carrier.
    Bury {
        /// The carrier.
        member: MemberId,
        /// The shard file.
        segment: SegmentId,
        /// The records, at most [`BATCH_MAX`].
        dead: Vec<DeadRecord>,
    },
}

/// A record to be buried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadRecord {
    /// The version.
    pub ticket: Ticket,
    /// Its extent; of no length when the partition does not know it: then only who has read the shard file does.
    pub extent: Extent,
}

impl Effect {
    /// Who is addressed.
    #[must_use]
    pub fn member(&self) -> MemberId {
        match self {
            Self::Fence { member, .. }
            | Self::Committed { member, .. }
            | Self::Retired { member, .. }
            | Self::Offload { member, .. }
            | Self::Promote { member, .. }
            | Self::Discard { member, .. }
            | Self::Bury { member, .. } => *member,
        }
    }
}

/// One answer of a batch.
pub type Answer<T> = Result<T, Error>;

/// A tenant and its keys: what most batches name.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// The tenant.
    pub tenant: TenantId,
    /// The keys.
    pub keys: &'a [Key<'a>],
}
