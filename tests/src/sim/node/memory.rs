//! The memory of a simulated node, as the product's keeper reads it.

use super::{super::world::Sim, copy::Copying};
use std::fmt;
use ziggurat_base::{ByteCount, Error, MemberId, Placement, Ticket, checksum::Summer, frame::Span};
use ziggurat_engine::{
    command::Answer,
    port::{Access, ReadOp, ReadSums, WriteSlot},
};
use ziggurat_node::Lender;

/// See the module.
pub(super) struct Memory {
    pub(super) sim: Sim,
    pub(super) index: usize,
    pub(super) capacity: ByteCount,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the memory of node {}", self.index)
    }
}

impl Lender for Memory {
    fn member(&self) -> MemberId {
        let member = self.sim.with(|world| world.nodes[self.index].member);
        member.unwrap_or(MemberId(0))
    }

    fn capacity(&self) -> ByteCount {
        self.capacity
    }

    fn holds(&self, ticket: Ticket, placement: &Placement) -> bool {
        let extents: Vec<_> = placement.all().collect();
        let segment = placement.segment;
        self.sim.with(|world| {
            world.nodes[self.index]
                .shelf
                .owns(ticket, segment, &extents)
        })
    }

    fn open_write(&self, access: Access, span: &Span) -> Answer<Box<dyn WriteSlot>> {
        let copying = Copying::begin(&self.sim, self.index, access, span)?;
        Ok(Box::new(copying))
    }

    fn copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> Answer<()> {
        self.sim.with(|world| {
            let copied = world.nodes[self.index]
                .shelf
                .copied(write, version, placement);
            world
                .outcome
                .tell(|| format!("n{} copies {version} as {write}: {copied:?}", self.index));
            copied
        })
    }

    fn is_copied(&self, write: Ticket, version: Ticket, placement: &Placement) -> bool {
        self.sim.with(|world| {
            world.nodes[self.index]
                .shelf
                .is_copied(write, version, placement)
        })
    }

    fn read(&self, op: &mut ReadOp<'_>) -> Answer<ReadSums> {
        let placement = &op.source.placement;
        let access = Access {
            member: op.source.member,
            segment: placement.segment,
            ticket: op.ticket,
        };
        let len = op.into.len() as u64;
        let pieces: Vec<_> = placement.extents.pieces(op.offset, len).collect();
        let touched: Vec<_> = pieces.iter().copied().chain(placement.check).collect();
        self.sim.with(|world| {
            let node = &mut world.nodes[self.index];
            node.admit_read(access, &touched)?;
            let mut rest = &mut *op.into;
            for piece in pieces {
                let (now, later) = rest.split_at_mut(piece.len as usize);
                now.copy_from_slice(node.window(access.segment, piece));
                rest = later;
            }
            Ok::<_, Error>(())
        })?;
        let mut summer = Summer::default();
        summer.update(op.into);
        let mut sums = ReadSums {
            crc: summer.crc(),
            ..ReadSums::default()
        };
        if op.want_table {
            sums.chunks = summer.finish().sums().to_vec();
        }
        Ok(sums)
    }
}
