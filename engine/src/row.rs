//! Where an object's entry stands in its table.

/// Number of an entry. Dense, at most [`Row::MAX`], reused after its object is gone; stable while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

impl Row {
    /// The largest row number; one more is free for "none" in links.
    pub const MAX: u32 = u32::MAX - 1;

    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
