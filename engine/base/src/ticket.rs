//! Tickets: every write is a version (docs/ARCHITECTURE.md, "Every write is a version").

use std::fmt;

/// A term of one metadata partition. Exceeds every era before it in the cluster's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Era(pub u32);

/// Names one write for ever: `era:32 | serial:32`. Ordered, never issued twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// Below every ticket that is issued; serials start at 1.
    pub const NONE: Self = Self(0);

    /// Composes a ticket.
    #[must_use]
    pub fn new(era: Era, serial: u32) -> Self {
        Self((u64::from(era.0) << 32) | u64::from(serial))
    }

    /// The era in which it was issued.
    #[must_use]
    pub fn era(self) -> Era {
        Era((self.0 >> 32) as u32)
    }

    /// Its place within the era.
    #[must_use]
    pub fn serial(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.era().0, self.serial())
    }
}
