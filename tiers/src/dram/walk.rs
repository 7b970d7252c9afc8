//! Walks a range of a payload through its extents, in pieces that lie in one chunk and one extent.

use ziggurat_base::{CHUNK, Extent, Extents};

/// Where the next byte of the range lies. Does not allocate for a payload in one extent.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    extents: Extents,
    /// Position in the extents of the next byte.
    index: usize,
    within: u64,
    /// Position of the next byte in its chunk; chunks are cut by payload offset.
    in_chunk: u64,
    left: u64,
}

impl Walk {
    /// From payload byte `offset` for `len` bytes, or until the extents end.
    pub(crate) fn new(extents: &Extents, offset: u64, len: u64) -> Self {
        let mut walk = Self {
            extents: extents.clone(),
            index: 0,
            within: 0,
            in_chunk: 0,
            left: u64::MAX,
        };
        let mut skip = offset;
        while let Some(extent) = walk.extents.as_slice().get(walk.index)
            && skip >= extent.len
            && skip > 0
        {
            skip -= extent.len;
            walk.index += 1;
        }
        walk.within = skip;
        walk.in_chunk = offset % CHUNK as u64;
        walk.left = len.min(extents.len().0.saturating_sub(offset));
        walk
    }

    /// Bytes still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next piece, of at most `most` bytes; empty at the end.
    pub(crate) fn piece(&self, most: usize) -> Extent {
        let Some(extent) = self.extents.as_slice().get(self.index) else {
            return Extent::default();
        };
        let len = (CHUNK as u64 - self.in_chunk)
            .min(extent.len - self.within)
            .min(self.left)
            .min(most as u64);
        Extent::new(extent.offset + self.within, len)
    }

    /// Goes on by `len` bytes, which must not be more than the last piece had.
    pub(crate) fn advance(&mut self, len: u64) {
        assert!(
            len <= self.piece(CHUNK).len,
            "a walk goes on within its piece"
        );
        self.left -= len;
        self.in_chunk = (self.in_chunk + len) % CHUNK as u64;
        self.within += len;
        if self.within == self.extents.as_slice()[self.index].len && self.left > 0 {
            self.index += 1;
            self.within = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Walk;
    use proptest::prelude::*;
    use ziggurat_base::{CHUNK, Extent, Extents};

    proptest! {
        #[test]
        fn agrees_with_the_pieces_of_the_extents(
            chunks in prop::collection::vec(1..4_u64, 1..5),
            tail in 1..CHUNK as u64,
            from in 0..300_000_u64,
            len in 0..300_000_u64,
            most in 1..100_000_usize,
        ) {
            let chunk = CHUNK as u64;
            let last = chunks.len() - 1;
            let list: Vec<_> = chunks.iter().enumerate().map(|(i, n)| {
                Extent::new(i as u64 * 100 * chunk, n * chunk - if i == last { tail } else { 0 })
            }).collect();
            let extents = Extents::checked(&list).unwrap();
            let mut walk = Walk::new(&extents, from, len);
            let mut bytes = Vec::new();
            let mut at = from;
            while walk.left() > 0 {
                let piece = walk.piece(most);
                prop_assert!(piece.len > 0 && piece.len <= most as u64);
                prop_assert_eq!(at / chunk, (at + piece.len - 1) / chunk, "one chunk");
                bytes.extend(piece.offset..piece.end());
                walk.advance(piece.len);
                at += piece.len;
            }
            let expected: Vec<_> = extents.pieces(from, len).flat_map(|e| e.offset..e.end()).collect();
            prop_assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn an_empty_payload_has_no_piece() {
        let walk = Walk::new(&Extents::One(Extent::new(64, 0)), 0, 0);
        assert_eq!((walk.left(), walk.piece(9).len), (0, 0));
    }
}
