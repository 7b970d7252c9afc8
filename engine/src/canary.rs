//! Planted bugs: each must be caught by the ordinary checks of the simulator, or the simulator has no teeth.
//!
//! Without the feature `canary`, [`planted`] is the constant `false` and costs nothing; the command line refuses to be
//! built with it.

/// One bug each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Canary {
    /// The space of a given-up write returns to the map before its writer is fenced.
    SpaceReusedEarly = 1,
    /// A `put_end` of a write that was pre-empted is acknowledged as if its object were readable.
    LatePutEndAccepted = 2,
    /// The owner of memory lets a fenced ticket write.
    FenceIgnored = 3,
    /// A reader believes bytes that arrived after its guard had ended.
    GuardUnchecked = 4,
    /// A ranged read believes bytes that were not proved.
    RangedChecksumUnchecked = 5,
    /// A reader counts the span of its guard from the arrival of the grant instead of from its request.
    LeaseClockRestarted = 6,
    /// A version that an owner holds becomes a replica of whichever version of its key is readable.
    ForeignTicketAdopted = 7,
    /// The partition answers changes that an owner tells, and does not take in the first of them.
    LedgerDeltaLost = 8,
    /// A record that was being written when its node ended is held after the restart, whole or not.
    TornRecordAccepted = 9,
    /// What a node offers from its memory to the next master is believed to live, whatever was removed meanwhile.
    DeadMemoryAdopted = 10,
    /// A copy of a version that was on its way into memory becomes a replica of whichever version of the row is readable when
    /// it arrives.
    StaleCopyCommitted = 11,
    /// What a carrier finds in a shard file is believed to live, whatever was removed meanwhile.
    DeadRecordAdopted = 12,
}

impl Canary {
    /// Every planted bug.
    pub const ALL: &'static [Self] = &[
        Self::SpaceReusedEarly,
        Self::LatePutEndAccepted,
        Self::FenceIgnored,
        Self::GuardUnchecked,
        Self::RangedChecksumUnchecked,
        Self::LeaseClockRestarted,
        Self::ForeignTicketAdopted,
        Self::LedgerDeltaLost,
        Self::TornRecordAccepted,
        Self::DeadMemoryAdopted,
        Self::StaleCopyCommitted,
        Self::DeadRecordAdopted,
    ];
}

/// Whether this build can plant bugs. The command line refuses to be one.
pub const BUILT_IN: bool = cfg!(feature = "canary");

#[cfg(feature = "canary")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Whether this bug is in the product now.
#[inline]
#[must_use]
pub fn planted(canary: Canary) -> bool {
    #[cfg(feature = "canary")]
    return PLANTED.load(std::sync::atomic::Ordering::Relaxed) == canary as u8;
    #[cfg(not(feature = "canary"))]
    {
        let _ = canary;
        false
    }
}

/// Plants one bug in this process, or takes it out.
#[cfg(feature = "canary")]
pub fn plant(canary: Option<Canary>) {
    PLANTED.store(
        canary.map_or(0, |c| c as u8),
        std::sync::atomic::Ordering::Relaxed,
    );
}
