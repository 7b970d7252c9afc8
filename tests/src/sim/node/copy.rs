//! A write of the node itself: its keeper copies a version back into memory.

use super::{
    super::world::{Process, Sim},
    pieces::Pieces,
    table_part, touched,
};
use ziggurat_base::{Code, Crc32, Error, Extent, checksum::chunk_count, frame::Span};
use ziggurat_engine::{
    command::Answer,
    port::{Access, WriteSlot},
    shelf::WriteId,
};

/// See the module.
pub(super) struct Copying {
    sim: Sim,
    index: usize,
    life: u64,
    access: Access,
    id: WriteId,
    chunks: u64,
    table: Option<Extent>,
    rest: Pieces,
}

impl Copying {
    pub(super) fn begin(sim: &Sim, index: usize, access: Access, span: &Span) -> Answer<Self> {
        let table = table_part(span);
        let (id, life) = sim.with(|world| {
            let life = world.health(Process::Node(index)).life;
            let id = world.nodes[index].admit(access, &touched(span, table))?;
            Ok::<_, Error>((id, life))
        })?;
        Ok(Self {
            sim: sim.clone(),
            index,
            life,
            access,
            id,
            chunks: chunk_count(span.len),
            table,
            rest: Pieces::of(span),
        })
    }

    /// Lands bytes, and has them looked at as those of anybody else.
    fn land(&self, extent: Extent, fill: impl FnOnce(&mut [u8]) -> usize) -> Answer<usize> {
        let access = self.access;
        self.sim.with(|world| {
            let node = &mut world.nodes[self.index];
            node.goes_on(access, self.id)?;
            let moved = fill(node.window(access.segment, extent));
            let place = (access.member, access.segment);
            let broken = world.books.landed(access.ticket, place, extent);
            world.judge(broken);
            Ok(moved)
        })
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.sim.with(|world| {
            if world.health(Process::Node(self.index)).life == self.life {
                world.nodes[self.index].end(self.access.segment, self.id);
            }
        });
    }
}

impl WriteSlot for Copying {
    fn left(&self) -> u64 {
        self.rest.left()
    }

    fn step(&mut self, most: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Answer<usize> {
        let moved = self.land(self.rest.next(most), fill)?;
        self.rest.advance(moved);
        Ok(moved)
    }

    fn finish(self: Box<Self>, sums: &[Crc32]) -> Answer<()> {
        if self.left() > 0 || sums.len() as u64 != self.chunks {
            return Err(Error::new(Code::InvalidParams, "bytes or sums are missing"));
        }
        let Some(table) = self.table else {
            return self.land(Extent::default(), |_| 0).map(|_| ());
        };
        let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.0.to_le_bytes()).collect();
        let lay = |to: &mut [u8]| {
            to.copy_from_slice(&sums);
            to.len()
        };
        self.land(table, lay).map(|_| ())
    }
}
