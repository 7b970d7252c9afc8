//! Ranges of bytes inside a segment: what the engine hands around instead of pointers.

use crate::{ByteCount, CHUNK, Code, Error, SegmentId};

/// The most extents that one replica may have.
pub const EXTENTS_MAX: usize = 32;

/// A range of bytes inside one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte, counted from the start of the segment.
    pub offset: u64,
    /// Size in bytes.
    pub len: u64,
}

impl Extent {
    /// Composes an extent.
    #[must_use]
    pub fn new(offset: u64, len: u64) -> Self {
        Self { offset, len }
    }

    /// One past the last byte.
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Whether two extents share a byte.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.len > 0 && other.len > 0 && self.offset < other.end() && other.offset < self.end()
    }
}

/// The extents of one replica, in the order of the payload; usually one, which needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extents {
    /// A payload in one piece (an empty payload has an extent of length 0).
    One(Extent),
    /// A payload in 2 to [`EXTENTS_MAX`] pieces, each but the last a multiple of [`CHUNK`] long.
    Many(Box<[Extent]>),
}

impl Extents {
    /// Checks a list that came from outside against the rules of the variants.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] naming the rule that is broken.
    pub fn checked(list: &[Extent]) -> Result<Self, Error> {
        let wrong = |what: String| Err(Error::new(Code::InvalidParams, what));
        let sum = list.iter().try_fold(0_u64, |sum, e| sum.checked_add(e.len));
        if sum.is_none() || list.iter().any(|e| e.offset.checked_add(e.len).is_none()) {
            return wrong("the extents end beyond 2^64".into());
        }
        match list {
            [] => wrong("a replica needs at least one extent".into()),
            [one] => Ok(Self::One(*one)),
            many if many.len() > EXTENTS_MAX => wrong(format!(
                "a replica has at most {EXTENTS_MAX} extents, not {}",
                many.len()
            )),
            [firsts @ .., last] => {
                let whole = |e: &Extent| e.len > 0 && e.len.is_multiple_of(CHUNK as u64);
                if !firsts.iter().all(whole) || last.len == 0 {
                    return wrong(format!(
                        "every extent but the last must be a multiple of {CHUNK} bytes long"
                    ));
                }
                Ok(Self::Many(list.into()))
            }
        }
    }

    /// All extents.
    #[must_use]
    pub fn as_slice(&self) -> &[Extent] {
        match self {
            Self::One(extent) => std::slice::from_ref(extent),
            Self::Many(list) => list,
        }
    }

    /// Bytes in all of them.
    #[must_use]
    pub fn len(&self) -> ByteCount {
        ByteCount(self.as_slice().iter().map(|e| e.len).sum())
    }

    /// Whether there is no byte in them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len().0 == 0
    }

    /// The pieces that hold the payload range `offset .. offset + len`, in order; shorter if the payload ends before.
    pub fn pieces(&self, offset: u64, len: u64) -> impl Iterator<Item = Extent> + '_ {
        let wanted = Extent::new(offset, len);
        let mut start = 0_u64;
        self.as_slice().iter().filter_map(move |extent| {
            let here = Extent::new(start, extent.len);
            start = here.end();
            let from = wanted.offset.max(here.offset);
            let to = wanted.end().min(here.end());
            (from < to).then(|| Extent::new(extent.offset + (from - here.offset), to - from))
        })
    }
}

/// Where one replica lies: all its extents are in one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The segment.
    pub segment: SegmentId,
    /// The payload.
    pub extents: Extents,
    /// The chunk table of a payload longer than [`CHUNK`]; see [`crate::checksum`].
    pub check: Option<Extent>,
}

impl Placement {
    /// Every extent: payload and chunk table.
    pub fn all(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.as_slice().iter().copied().chain(self.check)
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Extents};
    use crate::CHUNK;

    #[test]
    fn pieces_follow_the_payload() {
        let chunk = CHUNK as u64;
        let extents = Extents::checked(&[
            Extent::new(10 * chunk, 2 * chunk),
            Extent::new(0, chunk),
            Extent::new(40 * chunk, 100),
        ])
        .unwrap();
        let pieces: Vec<_> = extents.pieces(chunk, 2 * chunk + 50).collect();
        assert_eq!(
            pieces,
            [
                Extent::new(11 * chunk, chunk),
                Extent::new(0, chunk),
                Extent::new(40 * chunk, 50)
            ]
        );
        assert_eq!(extents.pieces(3 * chunk + 100, 1).count(), 0);
    }

    #[test]
    fn lists_from_outside_are_checked() {
        assert!(Extents::checked(&[]).is_err());
        assert!(Extents::checked(&[Extent::new(0, 5), Extent::new(9, 5)]).is_err());
        assert!(Extents::checked(&[Extent::new(u64::MAX, 5)]).is_err());
        let half = Extent::new(0, 1 << 63);
        assert!(Extents::checked(&[half, half]).is_err());
        assert!(Extents::checked(&[Extent::new(3, 0)]).is_ok());
    }
}
