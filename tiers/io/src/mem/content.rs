//! The bytes of one simulated file: what is visible, what is durable, and the writes in between.

use super::Crash;
use crate::disk::Space;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use ziggurat_base::{Code, Error, Result, hash::Dice};

/// How many bytes the files of a disk may have, and have.
#[derive(Debug)]
pub(super) struct Room(Mutex<Space>);

impl Room {
    pub(super) fn new(capacity: u64) -> Self {
        Self(Mutex::new(Space {
            total: capacity,
            free: capacity,
        }))
    }

    pub(super) fn capacity(&self) -> u64 {
        self.space().total
    }

    pub(super) fn space(&self) -> Space {
        *self.lock()
    }

    pub(super) fn set_capacity(&self, bytes: u64) {
        let mut space = self.lock();
        let used = space.total - space.free;
        // Files that are there stay: the disk is as large as they are, and full.
        space.total = bytes.max(used);
        space.free = space.total - used;
    }

    fn take(&self, bytes: u64, doing: &str) -> Result<()> {
        let mut space = self.lock();
        let Some(free) = space.free.checked_sub(bytes) else {
            let what = format!(
                "{doing}: {bytes} bytes are wanted, {} are free: No space left on device",
                space.free
            );
            return Err(Error::new(Code::NoAvailableHandle, what));
        };
        space.free = free;
        Ok(())
    }

    fn give(&self, bytes: u64) {
        self.lock().free += bytes;
    }

    fn lock(&self) -> MutexGuard<'_, Space> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block's bytes; none are zeros.
type Block = Option<Arc<[u8]>>;

/// The blocks that were written, by number, each with the write that it is of. Writes go to the device in the order in
/// which they were started, so that an older one never replaces a newer one, whenever it becomes durable.
#[derive(Clone, Debug, Default)]
struct Blocks(BTreeMap<u64, (u64, Block)>);

impl Blocks {
    fn get(&self, number: u64) -> Option<&Arc<[u8]>> {
        self.0.get(&number)?.1.as_ref()
    }

    fn apply(&mut self, write: &Pending) {
        for (number, block) in (write.first..).zip(&write.blocks) {
            let (newest, bytes) = self.0.entry(number).or_default();
            if *newest <= write.id {
                (*newest, *bytes) = (write.id, block.clone());
            }
        }
    }
}

/// A write that is not durable.
#[derive(Clone, Debug)]
struct Pending {
    id: u64,
    first: u64,
    blocks: Vec<Block>,
    state: State,
}

/// What a sync makes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not landed: not covered.
    UnderWay,
    /// Nobody waits for its landing: covered by the sync after the next.
    Stray,
    /// Covered.
    Landed,
    /// Covered once, by a sync that failed: never again.
    Doomed,
}

/// A sync under way.
#[derive(Clone, Debug)]
struct Sync {
    id: u64,
    covers: BTreeSet<u64>,
    is_stray: bool,
}

#[derive(Debug, Default)]
struct Content {
    visible: Blocks,
    durable: Blocks,
    pending: Vec<Pending>,
    syncs: Vec<Sync>,
    holes: BTreeSet<u64>,
    next: u64,
}

/// One file, whatever it is called.
#[derive(Debug)]
pub(super) struct Inode {
    name: String,
    len: u64,
    block: usize,
    room: Arc<Room>,
    content: Mutex<Content>,
}

impl Inode {
    /// A file of zeros, durable from the start: what can be lost is its name.
    pub(super) fn create(room: &Arc<Room>, name: &str, len: u64, block: u32) -> Result<Arc<Self>> {
        room.take(len, &format!("create of `{name}`"))?;
        Ok(Arc::new(Self {
            name: name.to_owned(),
            len,
            block: block as usize,
            room: Arc::clone(room),
            content: Mutex::default(),
        }))
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn block(&self) -> u64 {
        self.block as u64
    }

    /// Makes the first whole blocks of `bytes` visible at `offset`, as many as fit into the file. Returns the write.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<u64> {
        let first = offset / self.block();
        let end = self.len.div_ceil(self.block());
        let blocks: Vec<Block> = bytes
            .chunks_exact(self.block)
            .take(end.saturating_sub(first) as usize)
            .map(|bytes| Some(Arc::from(bytes)))
            .collect();
        let mut content = self.content();
        let filled: Vec<u64> = content
            .holes
            .range(first..first + blocks.len() as u64)
            .copied()
            .collect();
        let doing = format!("write at {offset} of `{}`", self.name);
        self.room.take(filled.len() as u64 * self.block(), &doing)?;
        for number in filled {
            content.holes.remove(&number);
        }
        Ok(content.add(first, blocks, State::UnderWay))
    }

    /// Makes a range of whole blocks zeros, and gives its room back.
    pub(super) fn punch(&self, offset: u64, len: u64) {
        let numbers = offset / self.block()..(offset + len) / self.block();
        let mut content = self.content();
        let had = content.holes.len();
        content.holes.extend(numbers.clone());
        let given = (content.holes.len() - had) as u64;
        self.room.give(given * self.block());
        let blocks = numbers.clone().map(|_| None).collect();
        content.add(numbers.start, blocks, State::Landed);
    }

    /// Notes that a write has landed, and that its caller knows.
    pub(super) fn land(&self, write: u64) {
        self.content().set(write, State::Landed);
    }

    /// Notes that nobody will know when a write lands.
    pub(super) fn stray(&self, write: u64) {
        self.content().set(write, State::Stray);
    }

    /// Starts a sync of what has landed, and of one write that lands with it.
    pub(super) fn begin_sync(&self, with: Option<u64>) -> u64 {
        let mut content = self.content();
        let landed = content
            .pending
            .iter()
            .filter(|write| write.state == State::Landed)
            .map(|write| write.id);
        let covers = landed.chain(with).collect();
        let id = content.number();
        content.syncs.push(Sync {
            id,
            covers,
            is_stray: false,
        });
        id
    }

    /// A sync has landed. Returns how many bytes became durable.
    pub(super) fn end_sync(&self, sync: u64) -> u64 {
        let mut content = self.content();
        let content = &mut *content;
        let (over, open) = std::mem::take(&mut content.syncs)
            .into_iter()
            .partition(|other| other.id == sync || (other.is_stray && other.id < sync));
        content.syncs = open;
        let over: Vec<Sync> = over;
        let mut blocks = 0;
        content.pending.retain(|write| {
            let is_covered = write.state != State::Doomed
                && over.iter().any(|sync| sync.covers.contains(&write.id));
            if is_covered {
                content.durable.apply(write);
                blocks += write.blocks.len() as u64;
            }
            !is_covered
        });
        for write in &mut content.pending {
            if write.state == State::Stray {
                write.state = State::Landed;
            }
        }
        blocks * self.block()
    }

    /// A sync has failed: what it covered will never be known to be durable.
    pub(super) fn fail_sync(&self, sync: u64) {
        let mut content = self.content();
        let content = &mut *content;
        for failed in content.syncs.extract_if(.., |other| other.id == sync) {
            for write in &mut content.pending {
                if failed.covers.contains(&write.id) {
                    write.state = State::Doomed;
                }
            }
        }
    }

    /// A sync does nothing, and nobody is told.
    pub(super) fn lose_sync(&self, sync: u64) {
        self.content().syncs.retain(|other| other.id != sync);
    }

    /// Nobody will know when a sync lands.
    pub(super) fn stray_sync(&self, sync: u64) {
        for other in &mut self.content().syncs {
            other.is_stray |= other.id == sync;
        }
    }

    /// Copies what is visible from `offset` on.
    pub(super) fn read(&self, offset: u64, target: &mut [u8]) {
        let content = self.content();
        for (number, part) in (offset / self.block()..).zip(target.chunks_mut(self.block)) {
            match content.visible.get(number) {
                Some(bytes) => part.copy_from_slice(&bytes[..part.len()]),
                None => part.fill(0),
            }
        }
    }

    pub(super) fn visible(&self, range: Range<u64>) -> Vec<u8> {
        let start = range.start / self.block() * self.block();
        let mut bytes = vec![0; (range.end.next_multiple_of(self.block()) - start) as usize];
        self.read(start, &mut bytes);
        bytes.truncate((range.end - start) as usize);
        bytes.split_off((range.start - start) as usize)
    }

    /// Flips bits of the byte at `at`, wherever it is kept.
    pub(super) fn rot(&self, at: u64, bits: u8) {
        let (number, inside) = (at / self.block(), at as usize % self.block);
        let flip = |block: Block| {
            let mut bytes = block.map_or_else(|| vec![0; self.block], |block| block.to_vec());
            bytes[inside] ^= bits;
            Some(Arc::from(bytes))
        };
        let mut content = self.content();
        let content = &mut *content;
        for blocks in [&mut content.visible, &mut content.durable] {
            let (_, block) = blocks.0.entry(number).or_default();
            *block = flip(block.take());
        }
        for write in &mut content.pending {
            if let Some(block) = number
                .checked_sub(write.first)
                .and_then(|index| write.blocks.get_mut(index as usize))
            {
                *block = flip(block.take());
            }
        }
    }

    /// The file that a crash leaves.
    pub(super) fn after(&self, crash: Crash, dice: &mut Dice, room: &Arc<Room>) -> Arc<Self> {
        let content = self.content().after(crash, dice);
        let holes = content.holes.len() as u64 * self.block();
        // It fitted before, and a shrunken disk is as large as its files.
        let taken = room.take(self.len - holes, "a file that is there");
        taken.expect("a disk has room for the files that it has");
        Arc::new(Self {
            name: self.name.clone(),
            len: self.len,
            block: self.block,
            room: Arc::clone(room),
            content: Mutex::new(content),
        })
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        let holes = self.content().holes.len() as u64 * self.block();
        self.room.give(self.len - holes);
    }
}

impl Content {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn add(&mut self, first: u64, blocks: Vec<Block>, state: State) -> u64 {
        let id = self.number();
        let write = Pending {
            id,
            first,
            blocks,
            state,
        };
        self.visible.apply(&write);
        self.pending.push(write);
        id
    }

    fn set(&mut self, write: u64, state: State) {
        // A write that its own sync has made durable is not pending any more.
        if let Some(write) = self.pending.iter_mut().find(|other| other.id == write) {
            write.state = state;
        }
    }

    fn after(&self, crash: Crash, dice: &mut Dice) -> Self {
        let mut after = Self {
            durable: self.durable.clone(),
            holes: self.holes.clone(),
            next: self.next,
            ..Self::default()
        };
        let mut covered: BTreeSet<u64> = BTreeSet::new();
        for sync in &self.syncs {
            if dice.below(2) == 0 {
                covered.extend(&sync.covers);
            }
        }
        let mood = Mood::roll(dice);
        for write in &self.pending {
            if covered.contains(&write.id) && write.state != State::Doomed {
                after.durable.apply(write);
                continue;
            }
            let is_safe = crash == Crash::Process && write.state != State::UnderWay;
            let fate = if is_safe { Mood::Keeps } else { mood };
            let write = fate.of(write, dice);
            match crash {
                Crash::Power => after.durable.apply(&write),
                Crash::Process => after.pending.push(write),
            }
        }
        after.visible = after.durable.clone();
        for write in &after.pending {
            after.visible.apply(write);
        }
        after
    }
}

/// How a crash treats the writes of a file: now and then all alike, so that both ends are tried.
#[derive(Clone, Copy)]
enum Mood {
    Keeps,
    Loses,
    Tears,
    EachItsOwn,
}

impl Mood {
    fn roll(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0 => Self::Keeps,
            1 => Self::Loses,
            2 => Self::Tears,
            _ => Self::EachItsOwn,
        }
    }

    /// What is left of a write, as one that has landed.
    fn of(self, write: &Pending, dice: &mut Dice) -> Pending {
        let fate = match self {
            Self::EachItsOwn => [Self::Keeps, Self::Loses, Self::Tears][dice.below(3) as usize],
            fate => fate,
        };
        let mut left = Pending {
            state: State::Landed,
            ..write.clone()
        };
        match fate {
            Self::Keeps | Self::EachItsOwn => {}
            Self::Loses => left.blocks.clear(),
            Self::Tears => return left.torn(dice),
        }
        left
    }
}

impl Pending {
    /// Any run of its blocks: devices write in pieces, and a piece need not begin at the front.
    fn torn(mut self, dice: &mut Dice) -> Self {
        let count = self.blocks.len() as u64;
        let start = dice.below(count + 1);
        let len = dice.below(count - start + 1);
        self.blocks = self.blocks[start as usize..(start + len) as usize].to_vec();
        self.first += start;
        self
    }
}
