//! A free span and the number of the bin that it belongs to: pure arithmetic, in grains.
//!
//! A span that holds a whole aligned page is binned by its number of such pages, so that a request for pages meets no
//! loss to alignment; any other span is shorter than two pages and has a bin for its exact length.

use crate::space::{GRAIN, PAGE};

/// Grains in a page.
pub(super) const PAGE_GRAINS: u64 = PAGE / GRAIN;

/// Page counts keep this many bits after the leading one: a bin is at most 1/32 wide, and exact below 64 pages.
const MANTISSA: u32 = 5;

/// The first bin of spans that hold a page. Spans without one are at most 126 grains long.
pub(super) const FIRST_PAGE_BIN: usize = 2 * PAGE_GRAINS as usize;

/// Number of bins: enough for any span within 2^64 bytes.
pub(super) const BINS: usize = FIRST_PAGE_BIN + floor_bin(u64::MAX / PAGE) + 1;

/// Bytes `start * GRAIN .. end * GRAIN` of the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Span {
    pub(super) fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(super) fn grains(self) -> u64 {
        self.end - self.start
    }

    /// Where the first whole page would start; may lie beyond the end.
    pub(super) fn first_page(self) -> u64 {
        self.start.next_multiple_of(PAGE_GRAINS)
    }

    /// Where the last whole page would end; may lie before the start.
    pub(super) fn last_page_end(self) -> u64 {
        self.end - self.end % PAGE_GRAINS
    }

    /// Number of whole aligned pages inside.
    pub(super) fn pages(self) -> u64 {
        self.last_page_end().saturating_sub(self.first_page()) / PAGE_GRAINS
    }

    /// The bin that this span belongs to.
    pub(super) fn bin(self) -> usize {
        match self.pages() {
            0 => self.grains() as usize,
            pages => FIRST_PAGE_BIN + floor_bin(pages),
        }
    }
}

/// The bin whose spans may have fewer than `pages`, or more.
pub(super) fn page_bin(pages: u64) -> usize {
    FIRST_PAGE_BIN + floor_bin(pages)
}

/// The first bin all of whose spans have at least `pages`.
pub(super) fn sure_page_bin(pages: u64) -> usize {
    let width = 1_u64 << pages.max(1).ilog2().saturating_sub(MANTISSA);
    FIRST_PAGE_BIN + floor_bin(pages + (width - 1))
}

const fn floor_bin(pages: u64) -> usize {
    if pages < 1 << MANTISSA {
        return pages as usize;
    }
    let shift = pages.ilog2() - MANTISSA;
    ((shift as usize) << MANTISSA) + (pages >> shift) as usize
}

#[cfg(test)]
mod tests {
    use super::{BINS, FIRST_PAGE_BIN, PAGE_GRAINS, Span, page_bin, sure_page_bin};

    #[test]
    fn bins_grow_with_the_page_count_and_are_at_most_a_32nd_wide() {
        let mut first_of_bin = 1;
        for pages in 2..100_000_u64 {
            match page_bin(pages) - page_bin(pages - 1) {
                0 => assert!((pages - first_of_bin) * 32 < pages, "{pages}"),
                1 => first_of_bin = pages,
                step => panic!("bin {step} ahead at {pages}"),
            }
            assert!(pages >= 64 || first_of_bin == pages);
            let sure = sure_page_bin(pages);
            assert_eq!(sure == page_bin(pages), first_of_bin == pages, "{pages}");
            assert!(sure <= page_bin(pages) + 1);
        }
        assert!(page_bin(u64::MAX / 4096) < BINS);
    }

    #[test]
    fn spans_without_a_page_have_exact_bins() {
        for start in 0..2 * PAGE_GRAINS {
            for len in 1..4 * PAGE_GRAINS {
                let span = Span::new(start, start + len);
                let naive = (start..=span.end - len.min(PAGE_GRAINS))
                    .filter(|at| at % PAGE_GRAINS == 0 && at + PAGE_GRAINS <= span.end)
                    .count() as u64;
                assert_eq!(span.pages(), naive);
                match naive {
                    0 => assert_eq!(span.bin() as u64, len),
                    _ => assert_eq!(span.bin(), page_bin(naive)),
                }
                assert!(naive > 0 || span.bin() < FIRST_PAGE_BIN);
            }
        }
    }
}
