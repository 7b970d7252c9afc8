//! A write and a read under way, as a server of data requests drives them: piece by piece, in place.

use super::{Shared, Writing, table_of, table_part, walk::Walk};
use std::sync::Arc;
use ziggurat_base::{
    Code, Crc32, Error, Extent, Placement, Result, checksum::chunk_count, frame::Span,
    memory::Region,
};
use ziggurat_engine::port::{Access, ReadSlot, WriteSlot};

/// A write of a range.
#[derive(Debug)]
pub(super) struct DramWrite {
    writing: Writing,
    walk: Walk,
    chunks: u64,
    table: Option<Extent>,
}

impl DramWrite {
    pub(super) fn new(writing: Writing, span: &Span) -> Self {
        Self {
            writing,
            walk: Walk::new(&span.placement.extents, span.offset, span.len),
            chunks: chunk_count(span.len),
            table: table_part(&span.placement, span.offset, span.len),
        }
    }

    /// A write that has no sums to lay.
    pub(super) fn without_table(writing: Writing, walk: Walk) -> Self {
        Self {
            writing,
            chunks: 0,
            table: None,
            walk,
        }
    }

    /// Does something for the write, unless it was stopped; it is not stopped meanwhile.
    pub(super) fn hold<R>(&self, what: impl FnOnce() -> Result<R>) -> Result<R> {
        self.writing.latch.hold(what)
    }
}

impl WriteSlot for DramWrite {
    fn left(&self) -> u64 {
        self.walk.left()
    }

    fn step(&mut self, most: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Result<usize> {
        let piece = self.walk.piece(most);
        let region = &self.writing.region;
        let len = piece.len as usize;
        let moved = self
            .writing
            .latch
            .hold(|| region.fill(piece.offset, len, fill))?;
        self.walk.advance(moved as u64);
        Ok(moved)
    }

    fn finish(self: Box<Self>, sums: &[Crc32]) -> Result<()> {
        if self.walk.left() > 0 || sums.len() as u64 != self.chunks {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "a write ends with {} bytes missing and {} sums for {} chunks",
                    self.walk.left(),
                    sums.len(),
                    self.chunks
                ),
            ));
        }
        match self.table {
            Some(table) => self.writing.lay_table(table, sums),
            None => self.writing.latch.hold(|| Ok(())),
        }
    }
}

/// A read of a range.
#[derive(Debug)]
pub(super) struct DramRead {
    shared: Arc<Shared>,
    region: Arc<Region>,
    access: Access,
    /// Every byte that the read may send.
    extents: Vec<Extent>,
    placement: Placement,
    walk: Walk,
}

impl DramRead {
    pub(super) fn new(
        shared: Arc<Shared>,
        region: Arc<Region>,
        access: Access,
        extents: Vec<Extent>,
        span: &Span,
    ) -> Self {
        Self {
            shared,
            region,
            access,
            extents,
            placement: span.placement.clone(),
            walk: Walk::new(&span.placement.extents, span.offset, span.len),
        }
    }
}

impl ReadSlot for DramRead {
    fn left(&self) -> u64 {
        self.walk.left()
    }

    fn step(&mut self, most: usize, take: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        let piece = self.walk.piece(most);
        let taken = self
            .region
            .look(piece.offset, piece.len as usize, take)
            .expect("the shelf has admitted only what lies inside the segment");
        self.walk.advance(taken as u64);
        taken
    }

    fn table(&self) -> Result<Vec<u8>> {
        table_of(&self.region, &self.placement)
    }

    fn seal(&self) -> Result<()> {
        self.shared.owns(self.access, &self.extents)
    }
}
