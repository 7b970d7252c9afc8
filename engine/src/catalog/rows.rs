//! The rows of a partition: one per key, fixed part and key bytes apart but both found from the row number alone, so
//! that a look-up waits for memory twice (the table, then everything else at once).
//!
//! Rows live in chunks of [`CHUNK_ROWS`]; a chunk holds keys of one size class. Nothing is ever moved, so growth costs one
//! chunk and never a copy, and a chunk is filled from its start, so untouched memory is never asked for. A row is one
//! cache line plus its key rounded up to the class.

use crate::{Row, evict::ROWS_SPARED, lease::LeaseFields};
use ziggurat_base::{
    ByteCount, Crc32, Key, TenantId, Ticket, Timestamp, key::KEY_LEN_MAX, prefetch::prefetch,
};

/// Rows in a chunk. Its memory is reserved at once and touched as it is used.
const CHUNK_ROWS: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 16;

/// Key lengths are rounded up to one of these.
const CLASSES: [u16; 17] = [
    16,
    24,
    32,
    48,
    64,
    96,
    128,
    192,
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
    3072,
    KEY_LEN_MAX as u16,
];

const NONE: u32 = u32::MAX;

/// Where the readable version of an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// No version is readable.
    Nowhere,
    /// One replica in one extent without a chunk table: the fleet slot and the offset.
    Inline { slot: u16, offset: u64 },
    /// Anything else: the number of a record in the side table.
    Side(u32),
}

/// The fixed part of a row.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Head {
    pub(crate) hash: u64,
    /// The readable version; `Ticket::NONE` when there is none.
    pub(crate) ticket: Ticket,
    /// Bytes of its payload.
    pub(crate) len: u64,
    /// When it was last located or, if never, first readable: `exist` extends no lease of an object that nobody reads.
    pub(crate) used: Timestamp,
    place: u64,
    until: Timestamp,
    pub(crate) crc: Crc32,
    holders: u16,
    term: u16,
    slot: u16,
    key_len: u16,
    pub(crate) tenant: TenantId,
    flags: u16,
}

const _: () = assert!(
    size_of::<Head>() == 64,
    "a row's fixed part fills one cache line"
);

const OCCUPIED: u16 = 1;
const SIDE: u16 = 2;
const INLINE: u16 = 4;
const PROMISED: u16 = 8;
const WRITING: u16 = 16;
const TAGGED: u16 = 32;
const OFFLOADING: u16 = 64;
const ASKED: u16 = 128;
const REFUSED: u16 = 256;
const HIT: u16 = 512;
const COPYING: u16 = 1024;
const IN_SHARD: u16 = 2048;

impl Head {
    const VACANT: Self = Self {
        hash: 0,
        ticket: Ticket::NONE,
        len: 0,
        used: Timestamp::ZERO,
        place: 0,
        until: Timestamp::ZERO,
        crc: Crc32(0),
        holders: 0,
        term: 0,
        slot: 0,
        key_len: 0,
        tenant: TenantId(0),
        flags: 0,
    };

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    fn set(&mut self, flag: u16, on: bool) {
        if on {
            self.flags |= flag;
        } else {
            self.flags &= !flag;
        }
    }

    pub(crate) fn place(&self) -> Place {
        if self.has(INLINE) {
            Place::Inline {
                slot: self.slot,
                offset: self.place,
            }
        } else if self.has(SIDE) {
            Place::Side(self.place as u32)
        } else {
            Place::Nowhere
        }
    }

    pub(crate) fn set_place(&mut self, place: Place) {
        self.set(INLINE, matches!(place, Place::Inline { .. }));
        self.set(SIDE, matches!(place, Place::Side(_)));
        match place {
            Place::Nowhere => {}
            Place::Inline { slot, offset } => {
                self.slot = slot;
                self.place = offset;
            }
            Place::Side(record) => self.place = u64::from(record),
        }
    }

    /// Whether a version is readable.
    pub(crate) fn readable(&self) -> bool {
        self.has(INLINE | SIDE)
    }

    /// Whether a write of this key is open.
    pub(crate) fn writing(&self) -> bool {
        self.has(WRITING)
    }

    pub(crate) fn set_writing(&mut self, on: bool) {
        self.set(WRITING, on);
    }

    /// Whether parent, group or hint are kept for it.
    pub(crate) fn tagged(&self) -> bool {
        self.has(TAGGED)
    }

    pub(crate) fn set_tagged(&mut self, on: bool) {
        self.set(TAGGED, on);
    }

    /// Whether the version stays in memory until its owner has taken it over.
    pub(crate) fn offloading(&self) -> bool {
        self.has(OFFLOADING)
    }

    pub(crate) fn set_offloading(&mut self, on: bool) {
        self.set(OFFLOADING, on);
    }

    /// Whether its owner was asked to take the version over.
    pub(crate) fn asked(&self) -> bool {
        self.has(ASKED)
    }

    pub(crate) fn set_asked(&mut self, on: bool) {
        self.set(ASKED, on);
    }

    /// Whether its owner will not take the version over.
    pub(crate) fn refused(&self) -> bool {
        self.has(REFUSED)
    }

    pub(crate) fn set_refused(&mut self, on: bool) {
        self.set(REFUSED, on);
    }

    /// Whether it was read since it has left memory.
    pub(crate) fn hit(&self) -> bool {
        self.has(HIT)
    }

    pub(crate) fn set_hit(&mut self, on: bool) {
        self.set(HIT, on);
    }

    /// Whether a copy of the version is on its way into memory.
    pub(crate) fn copying(&self) -> bool {
        self.has(COPYING)
    }

    pub(crate) fn set_copying(&mut self, on: bool) {
        self.set(COPYING, on);
    }

    /// Whether the policy of shard files knows of it.
    pub(crate) fn in_shard(&self) -> bool {
        self.has(IN_SHARD)
    }

    pub(crate) fn set_in_shard(&mut self, on: bool) {
        self.set(IN_SHARD, on);
    }

    pub(crate) fn lease(&self) -> LeaseFields {
        LeaseFields {
            until: self.until,
            holders: self.holders,
            term: self.term,
            promised: self.has(PROMISED),
        }
    }

    pub(crate) fn set_lease(&mut self, lease: LeaseFields) {
        self.until = lease.until;
        self.holders = lease.holders;
        self.term = lease.term;
        self.set(PROMISED, lease.promised);
    }

    pub(crate) fn leased(&self, now: Timestamp) -> bool {
        self.until > now
    }
}

/// The cache line, which keys should not straddle.
const LINE: usize = 64;

#[derive(Debug)]
struct Chunk {
    class: usize,
    heads: Vec<Head>,
    /// Room for the keys of all rows, behind `skip` bytes that bring it to the start of a cache line. Never grows.
    keys: Vec<u8>,
    skip: usize,
}

impl Chunk {
    fn new(class: usize) -> Self {
        let heads = Vec::with_capacity(CHUNK_ROWS);
        let mut keys: Vec<u8> = Vec::with_capacity(CHUNK_ROWS * stride(class) + LINE);
        let skip = keys.as_ptr().align_offset(LINE).min(LINE);
        keys.resize(skip, 0);
        Self {
            class,
            heads,
            keys,
            skip,
        }
    }

    /// Adds a row at the end.
    fn push(&mut self) -> usize {
        self.heads.push(Head::VACANT);
        self.keys
            .resize(self.skip + self.heads.len() * stride(self.class), 0);
        self.heads.len() - 1
    }

    /// The memory of a row's key, as long as the class.
    fn key(&self, index: usize) -> &[u8] {
        let stride = stride(self.class);
        &self.keys[self.skip + index * stride..][..stride]
    }

    fn key_mut(&mut self, index: usize) -> &mut [u8] {
        let stride = stride(self.class);
        &mut self.keys[self.skip + index * stride..][..stride]
    }
}

fn stride(class: usize) -> usize {
    usize::from(CLASSES[class])
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Rows {
    chunks: Vec<Chunk>,
    /// Freed rows by class, linked through `place`.
    vacant: [u32; CLASSES.len()],
    /// Chunks by class that have room at their end.
    open: [u32; CLASSES.len()],
    count: u64,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            vacant: [NONE; CLASSES.len()],
            open: [NONE; CLASSES.len()],
            count: 0,
        }
    }
}

fn split(row: Row) -> (usize, usize) {
    (row.index() >> CHUNK_BITS, row.index() & (CHUNK_ROWS - 1))
}

impl Rows {
    /// Rows in use.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// One more than the largest row number ever used.
    pub(crate) fn end(&self) -> u32 {
        let last = self.chunks.last().map_or(0, |chunk| chunk.heads.len());
        (self.chunks.len().saturating_sub(1) << CHUNK_BITS) as u32 + last as u32
    }

    /// The first row number from `row` on that may be in use: steps over the empty ends of chunks.
    pub(crate) fn skip_empty(&self, row: u32) -> u32 {
        let (mut chunk, mut index) = split(Row(row));
        while self
            .chunks
            .get(chunk)
            .is_some_and(|c| index >= c.heads.len())
        {
            (chunk, index) = (chunk + 1, 0);
        }
        ((chunk << CHUNK_BITS) + index) as u32
    }

    /// Adds a row; `None` when all row numbers are taken.
    pub(crate) fn insert(&mut self, tenant: TenantId, key: Key<'_>, hash: u64) -> Option<Row> {
        let bytes = key.bytes();
        let class = CLASSES.partition_point(|size| usize::from(*size) < bytes.len());
        let row = self.take(class)?;
        let (chunk, index) = split(row);
        let chunk = &mut self.chunks[chunk];
        chunk.heads[index] = Head {
            hash,
            tenant,
            key_len: bytes.len() as u16,
            flags: OCCUPIED,
            // Terms go on counting, so that a hold on the row's last object can never match the next one's.
            term: chunk.heads[index].term,
            ..Head::VACANT
        };
        chunk.key_mut(index)[..bytes.len()].copy_from_slice(bytes);
        self.count += 1;
        Some(row)
    }

    /// A row without an object: one that was freed, else the next of an open chunk.
    fn take(&mut self, class: usize) -> Option<Row> {
        if self.vacant[class] != NONE {
            let row = Row(self.vacant[class]);
            self.vacant[class] = self.head(row).place as u32;
            return Some(row);
        }
        let full =
            |chunk: u32| chunk == NONE || self.chunks[chunk as usize].heads.len() == CHUNK_ROWS;
        if full(self.open[class]) {
            let number = self.chunks.len() as u32;
            let last = (u64::from(number) + 1) << CHUNK_BITS;
            if last > u64::from(Row::MAX - ROWS_SPARED) {
                return None;
            }
            self.chunks.push(Chunk::new(class));
            self.open[class] = number;
        }
        let chunk = self.open[class];
        let index = self.chunks[chunk as usize].push();
        Some(Row((chunk << CHUNK_BITS) + index as u32))
    }

    /// Frees a row.
    pub(crate) fn remove(&mut self, row: Row) {
        let (chunk, index) = split(row);
        let chunk = &mut self.chunks[chunk];
        let head = &mut chunk.heads[index];
        assert!(head.has(OCCUPIED), "row {row:?} is removed twice");
        *head = Head {
            place: u64::from(self.vacant[chunk.class]),
            term: head.term,
            ..Head::VACANT
        };
        self.vacant[chunk.class] = row.0;
        self.count -= 1;
    }

    /// The fixed part of a row in use.
    pub(crate) fn head(&self, row: Row) -> &Head {
        let (chunk, index) = split(row);
        &self.chunks[chunk].heads[index]
    }

    /// The fixed part of a row in use.
    pub(crate) fn head_mut(&mut self, row: Row) -> &mut Head {
        let (chunk, index) = split(row);
        &mut self.chunks[chunk].heads[index]
    }

    /// The fixed part if the row is in use; for numbers that came from outside.
    pub(crate) fn get(&self, row: Row) -> Option<&Head> {
        let (chunk, index) = split(row);
        let head = self.chunks.get(chunk)?.heads.get(index)?;
        head.has(OCCUPIED).then_some(head)
    }

    /// The key of a row in use.
    pub(crate) fn key(&self, row: Row) -> Key<'_> {
        let (chunk, index) = split(row);
        let chunk = &self.chunks[chunk];
        let len = usize::from(chunk.heads[index].key_len);
        Key::new(&chunk.key(index)[..len]).expect("a row in use has a checked key")
    }

    /// Whether the row is in use for this key.
    #[inline]
    pub(crate) fn is(&self, row: Row, tenant: TenantId, key: &[u8]) -> bool {
        let (chunk, index) = split(row);
        let chunk = &self.chunks[chunk];
        let head = &chunk.heads[index];
        head.tenant == tenant
            && usize::from(head.key_len) == key.len()
            && &chunk.key(index)[..key.len()] == key
    }

    /// Brings the row into the cache.
    pub(crate) fn prefetch(&self, row: Row) {
        let (chunk, index) = split(row);
        let chunk = &self.chunks[chunk];
        prefetch(&chunk.heads[index]);
        prefetch(&chunk.key(index)[0]);
    }

    /// Bytes of memory taken; a chunk's untouched end is not counted.
    pub(crate) fn memory(&self) -> ByteCount {
        let bytes = |c: &Chunk| size_of_val(&*c.heads) + c.keys.len();
        ByteCount(self.chunks.iter().map(|c| bytes(c) as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;
    use ziggurat_base::{Key, TenantId};

    #[test]
    fn rows_keep_their_keys_and_are_reused() {
        let mut rows = Rows::default();
        let keys: Vec<Vec<u8>> = (0..3000).map(|i| vec![i as u8; i % 200 + 1]).collect();
        let used: Vec<_> = keys
            .iter()
            .map(|k| rows.insert(TenantId(3), Key::new(k).unwrap(), 7).unwrap())
            .collect();
        for (row, key) in used.iter().zip(&keys) {
            assert_eq!(rows.key(*row).bytes(), key);
            assert!(rows.is(*row, TenantId(3), key) && !rows.is(*row, TenantId(4), key));
        }
        let end = rows.end();
        for row in &used {
            rows.remove(*row);
            assert!(rows.get(*row).is_none());
        }
        assert_eq!(rows.count(), 0);
        for key in &keys {
            rows.insert(TenantId(0), Key::new(key).unwrap(), 7).unwrap();
        }
        assert_eq!(rows.end(), end, "vacant rows are used before new ones");
    }
}
