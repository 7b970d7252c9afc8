//! Where the bytes of a range lie in a segment, piece by piece.

use ziggurat_base::{CHUNK, Extent, frame::Span};

/// What is left of a range, chunk by chunk.
pub(super) struct Pieces {
    /// The next one is last.
    rest: Vec<Extent>,
}

impl Pieces {
    pub(super) fn of(span: &Span) -> Self {
        let mut rest = Vec::new();
        let mut at = span.offset;
        for extent in span.placement.extents.pieces(span.offset, span.len) {
            let mut from = extent.offset;
            while from < extent.end() {
                let len = (CHUNK as u64 - at % CHUNK as u64).min(extent.end() - from);
                rest.push(Extent::new(from, len));
                (at, from) = (at + len, from + len);
            }
        }
        rest.reverse();
        Self { rest }
    }

    pub(super) fn left(&self) -> u64 {
        self.rest.iter().map(|piece| piece.len).sum()
    }

    /// The next piece, of at most `most` bytes.
    pub(super) fn next(&self, most: usize) -> Extent {
        let piece = self.rest.last().copied().unwrap_or_default();
        Extent::new(piece.offset, piece.len.min(most as u64))
    }

    /// Takes the first `len` bytes off the next piece.
    pub(super) fn advance(&mut self, len: usize) {
        let Some(piece) = self.rest.pop() else { return };
        let len = len as u64;
        if len < piece.len {
            self.rest
                .push(Extent::new(piece.offset + len, piece.len - len));
        }
    }
}
