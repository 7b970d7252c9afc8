//! The free spans of a segment: numbered, each in the list of its bin, findable by either border.
//!
//! Costs about 50 bytes for each free span and nothing for what is in use. Spans live in chunks that never move, so
//! that growth costs one chunk and never a copy; numbers of spans that are gone are used again.

use super::{bitmap::Bitmap, borders::Borders, span::BINS, span::Span};
use std::collections::BTreeMap;
use ziggurat_base::prefetch::prefetch;

/// Spans in a chunk; also the most that one call may have to initialise.
const CHUNK_SPANS: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 10;

const NONE: u32 = u32::MAX;

/// Aligned so that a node never lies in two cache lines.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Node {
    span: Span,
    previous: u32,
    next: u32,
}

const _: () = assert!(size_of::<Node>() == 32);

#[derive(Debug)]
pub(super) struct Spans {
    chunks: Vec<Box<[Node]>>,
    /// Numbers given out so far, and the head of the list of those free again.
    numbers: u32,
    vacant: u32,
    count: u64,
    heads: Box<[u32]>,
    filled: Bitmap,
    borders: Borders,
    /// Every span by its start, with its number: only while extents are restored, and in a debug build always, to prove what
    /// the borders alone cannot.
    ordered: Option<BTreeMap<u64, u32>>,
}

impl Spans {
    pub(super) fn new(capacity_grains: u64) -> Self {
        Self {
            chunks: Vec::new(),
            numbers: 0,
            vacant: NONE,
            count: 0,
            heads: vec![NONE; BINS].into(),
            filled: Bitmap::new(),
            borders: Borders::new(capacity_grains),
            ordered: cfg!(debug_assertions).then(BTreeMap::new),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn get(&self, id: u32) -> Span {
        self.node(id).span
    }

    /// Adds a span that touches no other.
    pub(super) fn insert(&mut self, span: Span) {
        let id = self.number();
        self.node_mut(id).span = span;
        self.borders.insert(span.start, id);
        self.borders.insert(span.end, id);
        self.link(id);
        self.count += 1;
        if let Some(ordered) = &mut self.ordered {
            ordered.insert(span.start, id);
        }
    }

    /// Takes a span out.
    pub(super) fn remove(&mut self, id: u32) -> Span {
        let span = self.get(id);
        self.borders.remove(span.start, id);
        self.borders.remove(span.end, id);
        self.unlink(id);
        self.count -= 1;
        self.node_mut(id).next = std::mem::replace(&mut self.vacant, id);
        if let Some(ordered) = &mut self.ordered {
            ordered.remove(&span.start);
        }
        span
    }

    /// Moves the borders of a span.
    pub(super) fn resize(&mut self, id: u32, span: Span) {
        let old = self.get(id);
        if old.start != span.start {
            self.borders.remove(old.start, id);
            self.borders.insert(span.start, id);
        }
        if old.end != span.end {
            self.borders.remove(old.end, id);
            self.borders.insert(span.end, id);
        }
        if old.bin() == span.bin() {
            self.node_mut(id).span = span;
        } else {
            self.unlink(id);
            self.node_mut(id).span = span;
            self.link(id);
        }
        if let Some(ordered) = &mut self.ordered {
            ordered.remove(&old.start);
            ordered.insert(span.start, id);
        }
    }

    /// The free span in which all of `taken` lies.
    pub(super) fn around(&mut self, taken: Span) -> Option<u32> {
        if self.ordered.is_none() {
            self.ordered = Some(self.in_order());
        }
        let ordered = self.ordered.as_ref()?;
        let (_, id) = ordered.range(..=taken.start).next_back()?;
        (self.get(*id).end >= taken.end).then_some(*id)
    }

    /// The order is not needed any more.
    pub(super) fn forget_order(&mut self) {
        if !cfg!(debug_assertions) {
            self.ordered = None;
        }
    }

    fn in_order(&self) -> BTreeMap<u64, u32> {
        let all = self.longest_first(0);
        all.map(|id| (self.get(id).start, id)).collect()
    }

    /// Brings what [`Spans::neighbours`] will look at into the cache.
    pub(super) fn prefetch_neighbours(&self, used: Span) {
        for grain in [used.start, used.end] {
            if let Some(id) = self.borders.guess(grain) {
                prefetch(self.node(id));
            }
        }
    }

    /// The spans that end where `used` starts and start where it ends, and proof that it is free of free spans: in a
    /// release build only as far as its borders tell.
    pub(super) fn neighbours(&self, used: Span) -> (Option<u32>, Option<u32>) {
        let touching = |grain| {
            self.borders.find(grain, |id| {
                let span = self.get(id);
                span.start == grain || span.end == grain
            })
        };
        let (before, after) = (touching(used.start), touching(used.end));
        for id in [before, after].into_iter().flatten() {
            let node = self.node(id);
            for link in [node.previous, node.next] {
                if link != NONE {
                    prefetch(self.node(link));
                }
            }
        }
        let apart = |id: Option<u32>| {
            id.is_none_or(|id| self.get(id).end <= used.start || self.get(id).start >= used.end)
        };
        assert!(
            apart(before) && apart(after),
            "space given back is free already: grains {used:?}"
        );
        if let Some(ordered) = &self.ordered
            && let Some((_, id)) = ordered.range(..used.end).next_back()
        {
            assert!(
                self.get(*id).end <= used.start,
                "space given back overlaps free space: grains {used:?}"
            );
        }
        (before, after)
    }

    /// The first non-empty bin at or above `bin`.
    pub(super) fn bin_at_or_above(&self, bin: usize) -> Option<usize> {
        self.filled.at_or_above(bin)
    }

    /// The spans of one bin, the latest first.
    pub(super) fn of_bin(&self, bin: usize) -> impl Iterator<Item = u32> + '_ {
        let some = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(some(self.heads[bin]), move |id| some(self.node(*id).next))
    }

    /// The spans of the bins from the top down to `bottom`; sorted by bin, not within one.
    pub(super) fn longest_first(&self, bottom: usize) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.filled.below(BINS), |bin| self.filled.below(*bin))
            .take_while(move |bin| *bin >= bottom)
            .flat_map(|bin| self.of_bin(bin))
    }

    fn link(&mut self, id: u32) {
        let bin = self.get(id).bin();
        let next = std::mem::replace(&mut self.heads[bin], id);
        let node = self.node_mut(id);
        (node.previous, node.next) = (NONE, next);
        if next == NONE {
            self.filled.insert(bin);
        } else {
            self.node_mut(next).previous = id;
        }
    }

    fn unlink(&mut self, id: u32) {
        let Node {
            span,
            previous,
            next,
        } = *self.node(id);
        if next != NONE {
            self.node_mut(next).previous = previous;
        }
        if previous != NONE {
            self.node_mut(previous).next = next;
            return;
        }
        let bin = span.bin();
        self.heads[bin] = next;
        if next == NONE {
            self.filled.remove(bin);
        }
    }

    fn number(&mut self) -> u32 {
        if self.vacant != NONE {
            let id = self.vacant;
            self.vacant = self.node(id).next;
            return id;
        }
        let id = self.numbers;
        assert!(id != NONE, "a segment has fewer than 2^32 free spans");
        if id as usize >> CHUNK_BITS == self.chunks.len() {
            self.chunks
                .push(vec![Node::default(); CHUNK_SPANS].into_boxed_slice());
        }
        self.numbers += 1;
        id
    }

    fn node(&self, id: u32) -> &Node {
        &self.chunks[id as usize >> CHUNK_BITS][id as usize % CHUNK_SPANS]
    }

    fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.chunks[id as usize >> CHUNK_BITS][id as usize % CHUNK_SPANS]
    }
}
