//! The default [`SpaceMap`]: any mix of sizes, one extent wherever one fits, a few steps per call.
//!
//! It keeps the free spans only: an extent in use costs nothing, because whoever holds it knows its offset and length.
//! Free spans lie in bins by length with a bitmap above, and are found by their borders when something beside them is
//! given back, so that two free spans never touch.
//!
//! Rules:
//! * An extent below [`PAGE`] takes whole grains, a longer one whole pages: what is left of a page could hold nothing
//!   that starts on a page, so it is counted as used.
//! * The shortest span that fits is preferred. Small extents fill the broken pages at its edges and then its high end,
//!   extents from [`CHUNK`] up its low end, so that short-lived crumbs do not land between large extents.
//! * A request below 64 pages always gets a span that fits, if there is one. A longer one is refused only when no free
//!   span is 1/32 longer and none among the first 64 of its own bin is long enough.
//!
//! It refuses to know what the extents hold, and to move them.

mod bitmap;
mod borders;
mod span;
mod spans;

use self::{
    span::{PAGE_GRAINS, Span, page_bin, sure_page_bin},
    spans::Spans,
};
use super::{GRAIN, PAGE, SpaceMap};
use ziggurat_base::{CHUNK, Extent, extent::EXTENTS_MAX};

/// Spans of a request's own bin that are looked at before a longer span is broken: the hole that an equal object left.
const EXACT_TRIES: usize = 8;

/// Spans of a request's own bin that are looked at before it is refused.
const FIT_TRIES: usize = 64;

/// Spans of the top bin that [`OffsetSpace::largest_free`] compares.
const LARGEST_TRIES: usize = 8;

/// Spans that a request in pieces chooses from; the longest come first.
const CANDIDATES_MAX: usize = 4 * EXTENTS_MAX;

const CHUNK_PAGES: u64 = CHUNK as u64 / PAGE;

/// Binned allocator of one segment; see the [module](self).
#[derive(Debug)]
pub struct OffsetSpace {
    capacity: u64,
    free: u64,
    spans: Spans,
}

impl OffsetSpace {
    /// Manages `capacity` bytes, rounded down to [`GRAIN`], all of them free.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let grains = capacity / GRAIN;
        let mut spans = Spans::new(grains);
        if grains > 0 {
            spans.insert(Span::new(0, grains));
        }
        Self {
            capacity: grains * GRAIN,
            free: grains * GRAIN,
            spans,
        }
    }

    /// A span with room for an extent of `len` bytes.
    fn fitting(&self, len: u64) -> Option<u32> {
        let footprint = self.footprint(len);
        if len < PAGE {
            // Every bin from here up fits: the exact ones first, then those of spans with a whole page.
            let bin = self.spans.bin_at_or_above((footprint / GRAIN) as usize)?;
            return self.spans.of_bin(bin).next();
        }
        let pages = footprint / PAGE;
        let exact = |tries| {
            let mut first = self.spans.of_bin(page_bin(pages)).take(tries);
            first.find(|id| self.spans.get(*id).pages() >= pages)
        };
        let above = || {
            let bin = self.spans.bin_at_or_above(sure_page_bin(pages))?;
            self.spans.of_bin(bin).next()
        };
        exact(EXACT_TRIES)
            .or_else(above)
            .or_else(|| exact(FIT_TRIES))
    }

    /// Takes an extent out of a span that has room for it.
    fn cut(&mut self, id: u32, len: u64) -> Extent {
        let whole = self.spans.get(id);
        let taken = place(whole, self.footprint(len) / GRAIN, len >= PAGE);
        self.carve(id, taken);
        Extent::new(taken.start * GRAIN, len)
    }

    /// Takes a part out of a free span.
    fn carve(&mut self, id: u32, taken: Span) {
        let whole = self.spans.get(id);
        let rest = [
            Span::new(whole.start, taken.start),
            Span::new(taken.end, whole.end),
        ];
        match rest.map(Span::is_empty) {
            [true, true] => {
                self.spans.remove(id);
            }
            [false, true] => self.spans.resize(id, rest[0]),
            [true, false] => self.spans.resize(id, rest[1]),
            [false, false] => {
                self.spans.resize(id, rest[0]);
                self.spans.insert(rest[1]);
            }
        }
        self.free -= taken.grains() * GRAIN;
    }

    /// The longest spans of at least a chunk with their page counts, best first: the one that gives most whole chunks
    /// and, of equals, the one that wastes least by it.
    fn candidates(&self) -> Vec<(u64, u32)> {
        let mut list: Vec<_> = self
            .spans
            .longest_first(page_bin(CHUNK_PAGES))
            .take(CANDIDATES_MAX)
            .map(|id| (self.spans.get(id).pages(), id))
            .collect();
        list.sort_by_key(|(pages, _)| (u64::MAX - pages / CHUNK_PAGES, *pages));
        list
    }
}

/// Where in a free span an extent of `need` grains goes.
fn place(whole: Span, need: u64, paged: bool) -> Span {
    let start = match paged {
        true if need < CHUNK_PAGES * PAGE_GRAINS => whole.last_page_end() - need,
        true => whole.first_page(),
        // The broken page at the low end, or a span that is nothing but broken pages.
        false if whole.first_page() - whole.start >= need || whole.pages() == 0 => whole.start,
        false => whole.end - need,
    };
    Span::new(start, start + need)
}

impl SpaceMap for OffsetSpace {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn free(&self) -> u64 {
        self.free
    }

    fn largest_free(&self) -> u64 {
        let top = self.spans.longest_first(0).take(LARGEST_TRIES);
        let longest = top.map(|id| self.spans.get(id)).map(|span| {
            match span.pages() {
                // A page would have to start on a page.
                0 => (span.grains() * GRAIN).min(PAGE - 1),
                pages => pages * PAGE,
            }
        });
        longest.max().unwrap_or(0)
    }

    fn free_ranges(&self) -> u64 {
        self.spans.count()
    }

    fn reserve(&mut self, len: u64) -> Option<Extent> {
        assert!(len > 0, "an empty payload needs no space");
        if len > self.capacity {
            return None;
        }
        let id = self.fitting(len)?;
        Some(self.cut(id, len))
    }

    /// Chooses among the 128 longest free spans; when there are more, lengths that differ by less than 1/32 count as
    /// equal. More pieces than that are never used.
    fn reserve_pieces(&mut self, len: u64, pieces_max: usize) -> Option<Vec<Extent>> {
        assert!(pieces_max > 0, "something in no piece is nothing");
        if let Some(extent) = self.reserve(len) {
            return Some(vec![extent]);
        }
        let candidates = self.candidates();
        let best = candidates.iter().take(pieces_max);
        // The last piece need not be whole chunks, and may come from a span shorter than one.
        let most = best.map(|(pages, _)| pages).sum::<u64>() + CHUNK_PAGES;
        if most * PAGE < len {
            return None;
        }
        let (mut left, mut pieces) = (len, Vec::new());
        let mut candidates = candidates.into_iter();
        while pieces.len() < pieces_max {
            if !pieces.is_empty()
                && let Some(last) = self.reserve(left)
            {
                pieces.push(last);
                return Some(pieces);
            }
            let Some((pages, id)) = candidates.next() else {
                break;
            };
            let whole = (pages / CHUNK_PAGES * CHUNK as u64).min(left);
            pieces.push(self.cut(id, whole));
            left -= whole;
            if left == 0 {
                return Some(pieces);
            }
        }
        pieces.into_iter().for_each(|piece| self.release(piece));
        None
    }

    fn restore(&mut self, extent: Extent) -> bool {
        let align = if extent.len < PAGE { GRAIN } else { PAGE };
        let footprint = self.footprint(extent.len);
        let fits = footprint <= self.capacity && extent.offset <= self.capacity - footprint;
        if extent.len == 0 || !extent.offset.is_multiple_of(align) || !fits {
            return false;
        }
        let start = extent.offset / GRAIN;
        let taken = Span::new(start, start + footprint / GRAIN);
        let Some(id) = self.spans.around(taken) else {
            return false;
        };
        self.carve(id, taken);
        true
    }

    fn restored(&mut self) {
        self.spans.forget_order();
    }

    fn release(&mut self, extent: Extent) {
        let align = if extent.len < PAGE { GRAIN } else { PAGE };
        let footprint = self.footprint(extent.len);
        assert!(
            extent.len > 0
                && extent.offset.is_multiple_of(align)
                && footprint <= self.capacity - self.free
                && extent.offset <= self.capacity - footprint,
            "no such extent is in use: {extent:?}"
        );
        let start = extent.offset / GRAIN;
        let mut span = Span::new(start, start + footprint / GRAIN);
        let (before, after) = self.spans.neighbours(span);
        if let Some(after) = after {
            span.end = self.spans.get(after).end;
        }
        if let Some(before) = before {
            span.start = self.spans.get(before).start;
        }
        match (before, after) {
            (None, None) => self.spans.insert(span),
            (Some(id), None) | (None, Some(id)) => self.spans.resize(id, span),
            (Some(before), Some(after)) => {
                self.spans.remove(after);
                self.spans.resize(before, span);
            }
        }
        self.free += footprint;
    }

    fn prefetch_release(&self, extent: Extent) {
        let start = extent.offset / GRAIN;
        let span = Span::new(start, start + self.footprint(extent.len) / GRAIN);
        self.spans.prefetch_neighbours(span);
    }

    /// Whole grains below [`PAGE`], whole pages from there up.
    fn footprint(&self, len: u64) -> u64 {
        let unit = if len < PAGE { GRAIN } else { PAGE };
        len.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
