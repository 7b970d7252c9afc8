//! Where replicas lie: targets of a whole batch in columns, and single placements.

use super::{batch::at, broken};
use crate::wire;
use ziggurat_base::{Error, Extent, Extents, MemberId, Placement, SegmentId, extent::EXTENTS_MAX};
use ziggurat_engine::command::{Target, Targets};

/// Collects the targets of a batch.
#[derive(Default)]
pub(crate) struct Writer {
    places: wire::Places,
    has_check: bool,
}

impl Writer {
    /// Adds the targets of the next item.
    pub(crate) fn push(&mut self, targets: &Targets) {
        let list = targets.as_slice();
        self.places.target_counts.push(list.len() as u32);
        for target in list {
            self.push_target(target);
        }
    }

    fn push_target(&mut self, target: &Target) {
        let places = &mut self.places;
        let extents = target.placement.extents.as_slice();
        places.members.push(target.member.0);
        places.segments.push(target.placement.segment.0);
        places.extent_counts.push(extents.len() as u32);
        places.offsets.extend(extents.iter().map(|e| e.offset));
        places.lens.extend(extents.iter().map(|e| e.len));
        let check = target.placement.check.unwrap_or_default();
        places.check_offsets.push(check.offset);
        places.check_lens.push(check.len);
        self.has_check |= check.len > 0;
    }

    /// The columns; those that say nothing are left out.
    pub(crate) fn finish(self) -> wire::Places {
        let mut places = self.places;
        if places.target_counts.iter().all(|count| *count == 1) {
            places.target_counts = Vec::new();
        }
        if places.extent_counts.iter().all(|count| *count == 1) {
            places.extent_counts = Vec::new();
        }
        if !self.has_check {
            places.check_offsets = Vec::new();
            places.check_lens = Vec::new();
        }
        places
    }
}

/// Takes the targets of a batch from their columns, item by item.
pub(crate) struct Reader<'a> {
    places: &'a wire::Places,
    item: usize,
    target: usize,
    extent: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(places: &'a wire::Places) -> Self {
        Self {
            places,
            item: 0,
            target: 0,
            extent: 0,
        }
    }

    /// The targets of the next item.
    pub(crate) fn next(&mut self) -> Result<Targets, Error> {
        let count = count_at(&self.places.target_counts, self.item)?;
        self.item += 1;
        if count == 1 {
            return self.next_target().map(Targets::One);
        }
        (0..count).map(|_| self.next_target()).collect()
    }

    fn next_target(&mut self) -> Result<Target, Error> {
        let places = self.places;
        let member = MemberId(at(&places.members, self.target)?);
        let segment = SegmentId(at(&places.segments, self.target)?);
        let count = count_at(&places.extent_counts, self.target)?;
        let extents = self.next_extents(count)?;
        let check = if places.check_lens.is_empty() {
            None
        } else {
            let offset = at(&places.check_offsets, self.target)?;
            check(offset, at(&places.check_lens, self.target)?)?
        };
        self.target += 1;
        Ok(Target {
            member,
            placement: Placement {
                segment,
                extents,
                check,
            },
        })
    }

    fn next_extents(&mut self, count: usize) -> Result<Extents, Error> {
        let mut list = [Extent::default(); EXTENTS_MAX];
        let list = list
            .get_mut(..count)
            .ok_or_else(|| broken(format!("a replica of {count} extents")))?;
        for extent in &mut *list {
            let offset = at(&self.places.offsets, self.extent)?;
            *extent = Extent::new(offset, at(&self.places.lens, self.extent)?);
            self.extent += 1;
        }
        Extents::checked(list)
    }
}

fn count_at(counts: &[u32], index: usize) -> Result<usize, Error> {
    if counts.is_empty() {
        return Ok(1);
    }
    at(counts, index).map(|count| count as usize)
}

fn check(offset: u64, len: u64) -> Result<Option<Extent>, Error> {
    if len == 0 {
        return Ok(None);
    }
    match offset.checked_add(len) {
        Some(_) => Ok(Some(Extent::new(offset, len))),
        None => Err(broken("a check extent ends beyond 2^64")),
    }
}

/// One placement as it travels.
pub(crate) fn pack(placement: &Placement) -> wire::Place {
    let extents = placement.extents.as_slice();
    let check = placement.check.unwrap_or_default();
    wire::Place {
        segment: placement.segment.0,
        offsets: extents.iter().map(|e| e.offset).collect(),
        lens: extents.iter().map(|e| e.len).collect(),
        check_offset: check.offset,
        check_len: check.len,
    }
}

/// The placement of a message.
pub(crate) fn unpack(place: Option<&wire::Place>) -> Result<Placement, Error> {
    let place = place.ok_or_else(|| broken("a placement is missing"))?;
    if place.offsets.len() != place.lens.len() {
        return Err(broken("columns of extents differ in length"));
    }
    let columns = place.offsets.iter().zip(&place.lens);
    let list: Vec<_> = columns.map(|(o, l)| Extent::new(*o, *l)).collect();
    Ok(Placement {
        segment: SegmentId(place.segment),
        extents: Extents::checked(&list)?,
        check: check(place.check_offset, place.check_len)?,
    })
}
