//! Listing a shard file by its headers: from record to record, payloads are not read.
//!
//! Behind a record the next one is looked for at its end; where none begins, one alignment further. A record that a removal
//! log names is stepped into, for its space may be in use again. What lies inside a record that counts is its payload,
//! whatever it looks like.

use crate::{
    Found, Removals, Root,
    format::{
        BLOCK,
        record::{Header, Peek},
    },
    shard::Shard,
    transfer::{landed_buffer, read_all, start},
};
use futures_util::future::join_all;
use std::{collections::VecDeque, sync::Arc};
use ziggurat_base::{Code, Extent, Result, Ticket, hash::key_digest};
use ziggurat_io::{Buffer, Request};

/// Steps up to this many bytes are looked at in memory; over longer ones single blocks are read.
const NEAR: u64 = 64 << 10;

/// Bytes that are read at once where steps are short.
const WINDOW: u64 = 256 << 10;

/// Reads that are started at once.
const AHEAD_MAX: usize = 16;

/// The most records of a page.
pub(crate) const PAGE_MAX: usize = 512;

/// What a scan has met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Records that count.
    pub found: u64,
    /// Records that a removal log names, or that a later removed version of their key had replaced.
    pub removed: u64,
    /// Headers of this shard file that are torn or damaged.
    pub damaged: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Records of which nobody can tell whether they were removed.
    pub unproven: u64,
}

impl ScanCounts {
    /// Adds those of another shard file.
    pub fn add(&mut self, other: &Self) {
        self.found += other.found;
        self.removed += other.removed;
        self.damaged += other.damaged;
        self.unreadable += other.unreadable;
        self.unproven += other.unproven;
    }
}

/// See the module.
#[derive(Debug)]
pub struct Scan {
    root: Root,
    shard: Arc<Shard>,
    removals: Arc<Removals>,
    /// Where the next record may begin.
    at: u64,
    /// How far the one after it is supposed to be.
    step: u64,
    /// How many reads are started at once, for the last were of use.
    ahead: usize,
    /// Only single blocks are read before this offset: something there cannot be read.
    careful_until: u64,
    /// What was read, in the order of offsets.
    blocks: VecDeque<(u64, Buffer)>,
    counts: ScanCounts,
    /// Whether what is unproven is told too.
    tells_all: bool,
    /// Of each whole header, counted or not: digest of the key and version.
    seen: Option<Vec<(u64, Ticket)>>,
}

impl Root {
    /// Begins to list a shard file.
    ///
    /// # Errors
    /// `InvalidReplica` for a shard file that there is not.
    pub fn scan(&self, shard: u32, removals: &Arc<Removals>) -> Result<Scan> {
        let shard = self.shard(shard)?;
        Ok(Scan {
            root: self.clone(),
            step: shard.alignment,
            shard,
            removals: Arc::clone(removals),
            at: 0,
            ahead: 1,
            careful_until: 0,
            blocks: VecDeque::new(),
            counts: ScanCounts::default(),
            tells_all: false,
            seen: None,
        })
    }
}

impl Scan {
    /// The next records, 512 at most; none behind the last one. Where a removal log is damaged nobody knows what was
    /// removed: records are counted as unproven then and not told.
    ///
    /// # Errors
    /// `InvalidVersion` for a record of a later release, and errors of the disk but for blocks that cannot be read.
    pub async fn next_page(&mut self) -> Result<Vec<Found>> {
        let mut page = Vec::new();
        while page.len() < PAGE_MAX
            && let Some(header) = self.next_record().await?
        {
            page.push(Found::from(header));
        }
        // Nothing of the pool is held while the caller does something else.
        self.blocks.clear();
        Ok(page)
    }

    /// What was met so far.
    #[must_use]
    pub fn counts(&self) -> ScanCounts {
        self.counts
    }

    /// Bytes of the shard file that were passed so far.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.at
    }

    /// Tells also what is unproven from now on.
    pub(crate) fn tell_all(&mut self) {
        self.tells_all = true;
    }

    /// Remembers every whole header from now on.
    pub(crate) fn remember(&mut self) {
        self.seen = Some(Vec::new());
    }

    /// What was remembered.
    pub(crate) fn seen(&mut self) -> Vec<(u64, Ticket)> {
        self.seen.take().unwrap_or_default()
    }

    /// Goes on inside a record whose payload is not its own.
    pub(crate) fn step_into(&mut self, extent: Extent) {
        self.at = extent.offset + self.shard.alignment;
        self.step = self.shard.alignment;
        self.blocks.clear();
    }

    /// The header of the next record that counts. Whoever calls this lets go of what was read ahead before waiting for
    /// buffers, see [`Scan::rest`].
    pub(crate) async fn next_record(&mut self) -> Result<Option<Header>> {
        while self.at < self.shard.capacity {
            let Some(header) = self.header_here().await? else {
                self.advance(self.shard.alignment);
                continue;
            };
            if let Some(seen) = &mut self.seen {
                let digest = key_digest(&header.tenant, header.key.as_key());
                seen.push((digest, header.ticket));
            }
            if self.removals.covers(&header) {
                self.counts.removed += 1;
                self.advance(self.shard.alignment);
                continue;
            }
            self.advance(header.extent.len);
            if !self.removals.doubts().is_empty() || !self.shard.is_certain {
                self.counts.unproven += 1;
                if !self.tells_all {
                    continue;
                }
            }
            self.counts.found += 1;
            return Ok(Some(header));
        }
        Ok(None)
    }

    /// Gives back what was read ahead.
    pub(crate) fn rest(&mut self) {
        self.blocks.clear();
    }

    fn advance(&mut self, step: u64) {
        if step != self.step {
            self.ahead = 1;
        }
        self.step = step;
        self.at += step;
    }

    /// The whole header that begins here, if one does.
    async fn header_here(&mut self) -> Result<Option<Header>> {
        if !self.load().await? {
            self.counts.unreadable += 1;
            return Ok(None);
        }
        let shard = Arc::clone(&self.shard);
        let ours = Peek::of(self.block()).filter(|peek| {
            (peek.root, peek.shard, peek.extent.offset) == (shard.root, shard.index, self.at)
        });
        let Some(peek) = ours else {
            return Ok(None);
        };
        if shard.check_extent(peek.extent).is_err() || u64::from(peek.len) > peek.extent.len {
            self.counts.damaged += 1;
            return Ok(None);
        }
        let decoded = if u64::from(peek.len) == BLOCK {
            Header::decode(self.block())
        } else {
            // Rare, and nothing may be held while buffers are waited for.
            self.blocks.clear();
            let (file, at) = (shard.file(), shard.start + self.at);
            let whole = at..at + u64::from(peek.len);
            let bytes = read_all(self.root.disk(), &*file, whole).await;
            bytes.and_then(|bytes| Header::decode(&bytes))
        };
        match decoded {
            Ok(header) if header.record_len(shard.alignment) == header.extent.len => {
                return Ok(Some(header));
            }
            Ok(_) => self.counts.damaged += 1,
            Err(error) if error.code() == Code::FileReadFail => self.counts.unreadable += 1,
            Err(error) if error.code() == Code::ChecksumMismatch => self.counts.damaged += 1,
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Has the block that begins here ready; `false` when it cannot be read.
    async fn load(&mut self) -> Result<bool> {
        let at = self.at;
        let is_there = |(offset, buffer): &(u64, Buffer)| {
            (*offset..offset + buffer.len() as u64).contains(&at)
        };
        while self.blocks.front().is_some_and(|front| !is_there(front)) {
            self.blocks.pop_front();
        }
        if self.blocks.is_empty() {
            return self.fetch().await;
        }
        Ok(true)
    }

    /// The block that begins here, once it is ready.
    fn block(&self) -> &[u8] {
        let block = self.blocks.front().and_then(|(offset, buffer)| {
            let from = (self.at - offset) as usize;
            buffer.get(from..from + BLOCK as usize)
        });
        block.unwrap_or_default()
    }

    /// Reads from here on what will probably be looked at; `false` when not even the block here can be read.
    async fn fetch(&mut self) -> Result<bool> {
        let (at, capacity) = (self.at, self.shard.capacity);
        let careful = at < self.careful_until;
        let (len, step) = match self.step {
            _ if careful => (BLOCK, self.step),
            step if step <= NEAR => (WINDOW, WINDOW),
            step => (BLOCK, step),
        };
        let room = (self.root.disk().pool().bytes() / 4 / len).max(1) as usize;
        let count = if careful { 1 } else { self.ahead.min(room) };
        let starts = (0..count as u64).map(|number| at + number * step);
        let starts: Vec<u64> = starts.take_while(|start| *start < capacity).collect();
        let ranges: Vec<(u64, u64)> = starts
            .iter()
            .map(|start| (*start, len.min(capacity - start)))
            .collect();
        self.ahead = (self.ahead * 2).min(AHEAD_MAX);
        let total: u64 = ranges.iter().map(|(_, len)| len).sum();
        let mut buffer = self.root.disk().pool().take(total as usize).await?;
        let mut requests = Vec::with_capacity(ranges.len());
        for (start, len) in &ranges {
            let rest = (buffer.len() as u64 > *len).then(|| buffer.split_off(*len as usize));
            requests.push(Request::Read {
                offset: self.shard.start + start,
                buffer,
            });
            match rest {
                Some(rest) => buffer = rest,
                None => break,
            }
        }
        let flights = self.shard.file().start(requests);
        let landed = join_all(flights.into_iter().map(landed_buffer)).await;
        for ((start, len), landed) in ranges.into_iter().zip(landed) {
            match landed {
                Ok(buffer) => self.blocks.push_back((start, buffer)),
                Err(error) if error.code() == Code::FileReadFail => {
                    self.careful_until = self.careful_until.max(start + len);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if !self.blocks.is_empty() || careful {
            return Ok(!self.blocks.is_empty());
        }
        // One block that cannot be read must not hide the others.
        self.fetch_one().await
    }

    async fn fetch_one(&mut self) -> Result<bool> {
        let buffer = self.root.disk().pool().take(BLOCK as usize).await?;
        let request = Request::Read {
            offset: self.shard.start + self.at,
            buffer,
        };
        match landed_buffer(start(&*self.shard.file(), request)).await {
            Ok(buffer) => self.blocks.push_back((self.at, buffer)),
            Err(error) if error.code() == Code::FileReadFail => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}
