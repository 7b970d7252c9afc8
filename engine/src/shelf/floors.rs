//! Floors of one segment: for each byte the highest ticket that has written or been fenced there, and the version whose byte
//! it is: the same ticket, unless a write has copied a version that was there before it.

use std::collections::BTreeMap;
use ziggurat_base::{Extent, Ticket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Floor {
    end: u64,
    ticket: Ticket,
    fenced: bool,
    /// Whose byte it is for readers.
    version: Ticket,
}

impl Floor {
    fn is_like(&self, other: &Self) -> bool {
        (self.ticket, self.fenced, self.version) == (other.ticket, other.fenced, other.version)
    }
}

/// Ranges by their start, never overlapping; bytes outside have never been written. Neighbours with the same floor are
/// joined, so that the number of ranges follows the number of objects and not of stripes.
#[derive(Debug, Default)]
pub struct Floors {
    ranges: BTreeMap<u64, Floor>,
}

impl Floors {
    /// Number of ranges.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    fn overlapping(&self, extent: Extent) -> impl Iterator<Item = (u64, &Floor)> {
        let first = self
            .ranges
            .range(..=extent.offset)
            .next_back()
            .map_or(extent.offset, |(start, _)| *start);
        self.ranges
            .range(first..extent.end().max(first))
            .map(|(start, floor)| (*start, floor))
            .filter(move |(start, floor)| Extent::new(*start, floor.end - start).overlaps(extent))
    }

    /// Whether `ticket` may write there: nothing newer has, and it is not fenced.
    #[must_use]
    pub fn admits(&self, ticket: Ticket, extent: Extent) -> bool {
        self.overlapping(extent)
            .all(|(_, f)| f.ticket < ticket || (f.ticket == ticket && !f.fenced))
    }

    /// Whether every byte is one of `version`. An extent without bytes belongs to everybody.
    #[must_use]
    pub fn owned(&self, version: Ticket, extent: Extent) -> bool {
        self.all(extent, |floor| floor.version == version)
    }

    /// Whether `ticket` may still write every byte and has been given it last.
    #[must_use]
    pub fn is_held(&self, ticket: Ticket, extent: Extent) -> bool {
        self.all(extent, |floor| floor.ticket == ticket && !floor.fenced)
    }

    /// Whether `ticket` may still write every byte, and has copied `version` there.
    #[must_use]
    pub fn is_copied(&self, ticket: Ticket, version: Ticket, extent: Extent) -> bool {
        self.is_held(ticket, extent) && self.owned(version, extent)
    }

    /// Whether every byte has a floor that is `good`.
    fn all(&self, extent: Extent, good: impl Fn(&Floor) -> bool) -> bool {
        let mut covered = extent.offset;
        for (start, floor) in self.overlapping(extent) {
            if !good(floor) || start > covered {
                return false;
            }
            covered = floor.end;
        }
        extent.len == 0 || covered >= extent.end()
    }

    /// Makes `ticket` the floor of every byte.
    pub fn raise(&mut self, ticket: Ticket, extent: Extent) {
        self.copied(ticket, ticket, extent);
    }

    /// What `ticket` has written there are the bytes of `version`. Lower tickets than `ticket` are refused as before. The
    /// caller knows that it holds every byte.
    pub fn copied(&mut self, ticket: Ticket, version: Ticket, extent: Extent) {
        self.set(
            extent,
            Floor {
                end: extent.end(),
                ticket,
                fenced: false,
                version,
            },
        );
    }

    /// Makes `ticket` a floor that it may not pass itself, wherever nothing newer has been.
    pub fn fence(&mut self, ticket: Ticket, extent: Extent) {
        let newer: Vec<_> = self
            .overlapping(extent)
            .filter(|(_, f)| f.ticket > ticket)
            .map(|(start, f)| (start.max(extent.offset), f.end.min(extent.end())))
            .collect();
        let mut from = extent.offset;
        for (start, end) in newer.into_iter().chain([(extent.end(), extent.end())]) {
            self.set(
                Extent::new(from, start - from),
                Floor {
                    end: start,
                    ticket,
                    fenced: true,
                    version: ticket,
                },
            );
            from = end;
        }
    }

    /// Replaces whatever is in the extent by `floor`.
    fn set(&mut self, extent: Extent, mut floor: Floor) {
        if extent.len == 0 {
            return;
        }
        let covered: Vec<_> = self
            .overlapping(extent)
            .map(|(start, f)| (start, *f))
            .collect();
        for (start, old) in covered {
            self.ranges.remove(&start);
            if start < extent.offset {
                self.ranges.insert(
                    start,
                    Floor {
                        end: extent.offset,
                        ..old
                    },
                );
            }
            if old.end > extent.end() {
                self.ranges.insert(extent.end(), old);
            }
        }
        let same = |other: &Floor| other.is_like(&floor);
        let mut start = extent.offset;
        if let Some((before, other)) = self.ranges.range(..start).next_back()
            && other.end == start
            && same(other)
        {
            start = *before;
        }
        if let Some(other) = self.ranges.get(&floor.end).copied()
            && same(&other)
        {
            self.ranges.remove(&floor.end);
            floor.end = other.end;
        }
        self.ranges.insert(start, floor);
    }
}

#[cfg(test)]
mod tests {
    use super::Floors;
    use proptest::prelude::*;
    use ziggurat_base::{Extent, Ticket};

    proptest! {
        #[test]
        fn agrees_with_a_floor_per_byte(ops in prop::collection::vec((0..4_u8, 1..6_u64, 0..40_u64, 0..12_u64), 1..60)) {
            let mut floors = Floors::default();
            let mut bytes = [(0_u64, false, 0_u64); 64];
            for (op, ticket, offset, len) in ops {
                let extent = Extent::new(offset, len);
                let range = offset as usize..(offset + len) as usize;
                let admits = bytes[range.clone()].iter().all(|(t, f, _)| *t < ticket || (*t == ticket && !f));
                prop_assert_eq!(floors.admits(Ticket(ticket), extent), admits);
                let owned = bytes[range.clone()].iter().all(|(_, _, v)| *v == ticket);
                prop_assert_eq!(floors.owned(Ticket(ticket), extent), owned);
                let is_held = bytes[range.clone()].iter().all(|(t, f, _)| *t == ticket && !f);
                prop_assert_eq!(floors.is_held(Ticket(ticket), extent), is_held);
                match op {
                    0 if admits => {
                        floors.raise(Ticket(ticket), extent);
                        bytes[range].fill((ticket, false, ticket));
                    }
                    1 => {
                        floors.fence(Ticket(ticket), extent);
                        for byte in &mut bytes[range] {
                            if byte.0 <= ticket {
                                *byte = (ticket, true, ticket);
                            }
                        }
                    }
                    2 if is_held => {
                        floors.copied(Ticket(ticket), Ticket(ticket - 1), extent);
                        bytes[range].fill((ticket, false, ticket - 1));
                    }
                    _ => {}
                }
                let runs = bytes.chunk_by(|a, b| a == b).filter(|run| run[0].0 > 0).count();
                prop_assert_eq!(floors.count(), runs, "neighbours with the same floor are joined");
            }
        }
    }
}
