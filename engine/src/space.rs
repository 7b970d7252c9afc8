//! Where bytes go: pure range allocation, the same code for a DRAM segment, an SSD and a shard file.
//!
//! A [`SpaceMap`] hands out extents of one segment and takes them back. It knows nothing of objects: who may reuse what,
//! and when, is decided by the catalog (I3: space is released only when nobody may touch it).

pub mod offset;
pub mod slab;

use std::{fmt, str::FromStr};
use ziggurat_base::{Code, Error, Extent};

/// Every extent starts on a multiple of this many bytes: a cache line.
pub const GRAIN: u64 = 64;

/// Extents of at least this many bytes start on a multiple of it, so that pages and device blocks are not shared.
pub const PAGE: u64 = 4096;

/// Allocator of one segment.
///
/// Contract, checked by `space_contract!` of the testkit and a property test against a naive oracle:
/// * extents in use never overlap and lie inside the capacity (I1);
/// * `free()` plus the footprints of the extents in use equals `capacity()` (I2);
/// * an extent of `len` bytes has a footprint of `len` rounded up by a rule that depends on `len` alone;
/// * with nothing in use, one extent of `capacity()` rounded down to [`PAGE`] can be reserved, unless the
///   implementation documents a smaller limit;
/// * each call takes a bounded number of steps, whatever the number of extents.
pub trait SpaceMap: fmt::Debug + Send {
    /// Bytes managed, a multiple of [`GRAIN`].
    fn capacity(&self) -> u64;

    /// Bytes not in use.
    fn free(&self) -> u64;

    /// Length of the longest extent that [`SpaceMap::reserve`] would grant now; a lower bound is allowed when it is
    /// within 1/8 of the truth.
    fn largest_free(&self) -> u64;

    /// Number of separate free ranges; 1 with nothing in use.
    fn free_ranges(&self) -> u64;

    /// Takes `len` bytes in one piece. `len` must not be 0: an empty payload needs no space.
    fn reserve(&mut self, len: u64) -> Option<Extent>;

    /// Takes `len` bytes in at most `pieces_max` pieces, each but the last a multiple of 64 KiB, none shorter than
    /// 64 KiB but the last. Fails, changing nothing, only when the free pieces of at least 64 KiB, each rounded down to
    /// whole 64 KiB, do not add up within `pieces_max`, unless the implementation documents a smaller limit. Prefers
    /// few, large pieces.
    fn reserve_pieces(&mut self, len: u64, pieces_max: usize) -> Option<Vec<Extent>>;

    /// Takes exactly this extent, as one that an earlier life of the space has reserved; `false`, changing nothing, when it is
    /// none that could have been, or a byte of its footprint is in use. The first one of a row costs a step for each free
    /// range, see [`SpaceMap::restored`].
    fn restore(&mut self, extent: Extent) -> bool;

    /// The row of [`SpaceMap::restore`] has ended: gives back what was kept for it.
    fn restored(&mut self);

    /// Gives back exactly what was reserved.
    ///
    /// # Panics
    /// When the extent cannot be one that is in use: that is our bug and would become somebody's wrong bytes.
    fn release(&mut self, extent: Extent);

    /// Brings what a release of `extent` looks at into the cache; a hint ahead of a batch.
    fn prefetch_release(&self, extent: Extent);

    /// Bytes that an extent of `len` takes from `free()`.
    fn footprint(&self, len: u64) -> u64;
}

/// The allocators that configuration can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocatorKind {
    /// Binned offsets, one extent per object whenever possible.
    #[default]
    Offset,
    /// Size classes in slabs.
    Slab,
}

impl AllocatorKind {
    /// A map of `capacity` bytes.
    #[must_use]
    pub fn build(self, capacity: u64) -> Box<dyn SpaceMap> {
        match self {
            Self::Offset => Box::new(offset::OffsetSpace::new(capacity)),
            Self::Slab => Box::new(slab::SlabSpace::new(capacity)),
        }
    }
}

impl fmt::Display for AllocatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Offset => "offset",
            Self::Slab => "slab",
        })
    }
}

impl FromStr for AllocatorKind {
    type Err = Error;

    /// `cachelib` is the established store's name for its slab allocator and means the same here.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "offset" => Ok(Self::Offset),
            "slab" | "cachelib" => Ok(Self::Slab),
            _ => Err(Error::new(
                Code::InvalidParams,
                format!("{text:?} is not a memory allocator: use offset or slab"),
            )),
        }
    }
}
