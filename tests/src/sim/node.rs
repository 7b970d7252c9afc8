//! The shell of a node: memory, the product's shelf in front of it, and the loop that keeps it in the partition.
//!
//! Bytes land piece by piece, each at its own time; between any two of them the node or the writer may stand still, the
//! write may be stopped, or the process may die.

use super::{
    clock::Rate,
    disk::{Crash, NodeDisk},
    world::{Process, World},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use ziggurat_base::{
    CHUNK, Code, Error, Extent, MemberId, SegmentId, Ticket, Timestamp, checksum::chunk_count,
    frame::Span, hash::Dice,
};
use ziggurat_dfs::Carriers;
use ziggurat_engine::{
    command::{Answer, Effect},
    port::Access,
    shelf::{Shelf, WriteId},
};
use ziggurat_node::Keeper;

pub(super) mod control;
mod copy;
pub(super) mod directory;
#[cfg(test)]
mod host;
pub(super) mod inbox;
mod memory;
mod pieces;
mod port;
pub(super) mod read;
pub(super) mod write;

/// See the module.
pub(crate) struct Node {
    pub(crate) rate: Rate,
    /// The incarnation as the partition knows it.
    pub(crate) member: Option<MemberId>,
    pub(crate) shelf: Shelf,
    pub(crate) memory: BTreeMap<SegmentId, Vec<u8>>,
    /// What the partition calls each region of memory, or what nobody does while it is laid aside.
    pub(crate) given: Vec<Option<SegmentId>>,
    /// When, on its own clock, it asked what a master has last answered to it as a member.
    pub(crate) standing: Option<Timestamp>,
    /// Segments that this member has given up itself: what is fenced there is fenced for ever.
    pub(crate) retired: BTreeSet<SegmentId>,
    /// Writes under way; whether each may go on.
    writes: BTreeMap<WriteId, bool>,
    pub(crate) highest_era: u32,
    /// What its partition lets it know, on its way.
    pub(crate) inbox: inbox::Inbox,
    /// Its disk, which outlives its processes.
    pub(crate) disk: Option<NodeDisk>,
    /// The product's keeper of the directory on it, while a process runs that has opened it.
    pub(crate) keeper: Option<Arc<Keeper>>,
    /// The product's carriers of the shard files, while a process runs that has opened their root.
    pub(crate) carriers: Option<Arc<Carriers>>,
    /// Records that the process before held on disk and must find again.
    pub(crate) kept: BTreeSet<Ticket>,
}

impl Node {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        Self {
            rate: Rate::rolled(dice),
            member: None,
            shelf: Shelf::default(),
            memory: BTreeMap::new(),
            given: Vec::new(),
            standing: None,
            retired: BTreeSet::new(),
            writes: BTreeMap::new(),
            highest_era: 0,
            inbox: inbox::Inbox::default(),
            disk: None,
            keeper: None,
            carriers: None,
            kept: BTreeSet::new(),
        }
    }

    fn is_for_us(&self, access: Access) -> Answer<()> {
        if self.member == Some(access.member) {
            return Ok(());
        }
        let what = format!("the request is for incarnation {}", access.member);
        Err(Error::new(Code::ClientNotFound, what))
    }

    fn stop(&mut self, writes: &[WriteId]) {
        for id in writes {
            if let Some(goes_on) = self.writes.get_mut(id) {
                *goes_on = false;
            }
        }
    }

    /// Admits a write and stops whatever it displaces.
    fn admit(&mut self, access: Access, touched: &[Extent]) -> Answer<WriteId> {
        self.is_for_us(access)?;
        let begun = self
            .shelf
            .begin_write(access.ticket, access.segment, touched)?;
        saw(self, access.ticket);
        self.stop(&begun.stop);
        self.writes.insert(begun.id, true);
        Ok(begun.id)
    }

    /// Whether a write may go on: it was not stopped, and its segment is there.
    fn goes_on(&self, access: Access, id: WriteId) -> Answer<()> {
        let is_there = self.memory.contains_key(&access.segment);
        if is_there && self.writes.get(&id) == Some(&true) {
            return Ok(());
        }
        Err(Error::new(Code::InvalidWrite, "the write was stopped"))
    }

    /// The bytes of an extent of a segment that is there.
    fn window(&mut self, segment: SegmentId, extent: Extent) -> &mut [u8] {
        let memory = self.memory.get_mut(&segment).expect("it is there");
        &mut memory[extent.offset as usize..extent.end() as usize]
    }

    /// A write has landed its last byte, or was stopped.
    fn end(&mut self, segment: SegmentId, id: WriteId) {
        self.writes.remove(&id);
        self.shelf.end_write(segment, id);
    }

    /// Admits a read: asked before its first byte.
    fn admit_read(&self, access: Access, extents: &[Extent]) -> Answer<()> {
        self.is_for_us(access)?;
        if !self.memory.contains_key(&access.segment) {
            let what = format!("segment {} is not on this node", access.segment);
            return Err(Error::new(Code::SegmentNotFound, what));
        }
        self.owns(access, extents)
    }

    /// Whether every byte belongs to the version: asked after the last one too.
    fn owns(&self, access: Access, extents: &[Extent]) -> Answer<()> {
        if self.shelf.owns(access.ticket, access.segment, extents) {
            return Ok(());
        }
        Err(Error::new(
            Code::ReplicaIsGone,
            format!("the space does not belong to {} any more", access.ticket),
        ))
    }

    /// Takes a segment on.
    pub(crate) fn mount(&mut self, segment: SegmentId, capacity: u64) {
        self.shelf.mount(segment, capacity);
        self.memory.insert(segment, vec![0; capacity as usize]);
    }

    /// Forgets a segment; its writes move nothing more.
    pub(crate) fn unmount(&mut self, segment: SegmentId) {
        let writes = self.shelf.unmount(segment);
        self.stop(&writes);
        self.memory.remove(&segment);
        self.retired.insert(segment);
    }

    /// Calls a segment by another number, with all that lies in it; what is being written there is not written on.
    pub(crate) fn renumber(&mut self, old: SegmentId, new: SegmentId) {
        let writes = self.shelf.renumber(old, new);
        self.stop(&writes);
        if let Some(memory) = self.memory.remove(&old) {
            self.memory.insert(new, memory);
        }
    }

    /// The incarnation is over; what lies in memory is nobody's business yet.
    pub(crate) fn end_membership(&mut self) {
        self.member = None;
        self.retired.clear();
        self.inbox.close();
    }

    /// The partition does not know this member any more: nothing of it is served.
    pub(crate) fn part(&mut self) {
        for segment in self.memory.keys().copied().collect::<Vec<_>>() {
            self.unmount(segment);
        }
        self.given.clear();
        self.standing = None;
        self.end_membership();
        if let Some(keeper) = &self.keeper {
            keeper.begin_memory(&[]);
        }
    }

    /// The process dies, and its memory with it; its disk is as the crash leaves it.
    pub(crate) fn die(&mut self, crash: Crash) {
        let kept = directory::must_find(self, crash);
        if let Some(disk) = &mut self.disk {
            disk.crash(crash);
        }
        *self = Self {
            rate: self.rate,
            disk: self.disk.take(),
            kept,
            ..Self::new(&mut Dice::new(0))
        };
    }
}

/// The sums of a range's chunks lie here.
fn table_part(span: &Span) -> Option<Extent> {
    let start = span.offset / CHUNK as u64;
    let check = span.placement.check?;
    Some(Extent::new(
        check.offset + 4 * start,
        4 * chunk_count(span.len),
    ))
}

/// Every byte that a transfer of a range touches: its own part of the table for a write, all of it for a read.
fn touched(span: &Span, table: Option<Extent>) -> Vec<Extent> {
    let pieces = span.placement.extents.pieces(span.offset, span.len);
    pieces.chain(table).collect()
}

/// The master asks for a fence. It is acknowledged once nothing of the ticket can land any more.
///
/// A segment that this node does not know is not acknowledged: the answer to its mount may still be under way, and what
/// is refused now would be admitted then.
pub(crate) fn fence(world: &mut World, index: usize, effect: &Effect) {
    let Effect::Fence {
        member,
        ticket,
        placement,
    } = effect
    else {
        return;
    };
    let (member, ticket, segment) = (*member, *ticket, placement.segment);
    let node = &mut world.nodes[index];
    if node.member != Some(member) {
        return;
    }
    match node.shelf.fence(ticket, placement) {
        Ok(writes) => node.stop(&writes),
        Err(_) if node.retired.contains(&segment) => {}
        Err(_) => return,
    }
    world
        .outcome
        .tell(|| format!("n{index} fences {ticket} in {segment}"));
    let arrives = move |world: &mut World| {
        let _unheard = world.serve(member, |world, _| {
            world.books.fenced(ticket, (member, segment));
            world.master.catalog.fenced(member, ticket, segment);
        });
    };
    world.send(Process::Node(index), Process::Master, arrives, |_| {});
}

/// A bit of some node's memory flips.
pub(crate) fn rot(world: &mut World, index: usize) -> bool {
    let World { nodes, dice, .. } = world;
    let count = nodes[index].memory.len() as u64;
    let chosen = dice.below(count) as usize;
    let Some((_, memory)) = nodes[index].memory.iter_mut().nth(chosen) else {
        return false;
    };
    let at = dice.below(memory.len() as u64) as usize;
    memory[at] ^= 1 << dice.below(8);
    true
}

/// Notes the era of a ticket: what the node shows when it mounts.
fn saw(node: &mut Node, ticket: Ticket) {
    node.highest_era = node.highest_era.max(ticket.era().0);
}
