//! Contract suite of [`SpaceMap`], and the oracle that it is checked against: a sorted list of what is in use.
//!
//! An implementation runs the suite with [`crate::space_contract`] and, for its property test, [`Replay`].

use crate::space::{GRAIN, PAGE, SpaceMap};
use std::collections::BTreeMap;
use ziggurat_base::{CHUNK, Extent, hash::Dice};

/// What an implementation promises about one of its spaces.
#[derive(Clone, Debug)]
pub struct Promise {
    /// Bytes managed; at least 8 times `piece`.
    pub capacity: u64,
    /// The longest extent with nothing in use.
    pub longest: u64,
    /// Lengths of which `capacity / length` extents fit, whatever the order in which they come and go.
    pub exact: Vec<u64>,
    /// Length of the extents whose gaps serve a request in pieces.
    pub piece: u64,
    /// What a refusal proves.
    pub refusal: Refusal,
}

/// What a refusal proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No gap is long enough, or none is 1/32 longer when there are more than 64 gaps.
    NoGap,
    /// Nothing: gaps may serve other lengths only.
    Nothing,
}

/// A step of a random run.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// [`SpaceMap::reserve`].
    Reserve(u64),
    /// [`SpaceMap::reserve_pieces`], with the most pieces.
    Pieces(u64, usize),
    /// Releases one of the objects, counted modulo their number.
    Release(usize),
}

/// The naive allocator's books: every extent in use, by offset, with its footprint.
#[derive(Debug, Default)]
pub struct Oracle {
    capacity: u64,
    in_use: BTreeMap<u64, u64>,
}

impl Oracle {
    /// Books of a space with nothing in use.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            in_use: BTreeMap::new(),
        }
    }

    /// Notes a new extent, which must be aligned, inside the capacity and apart from all others.
    pub fn take(&mut self, extent: Extent, footprint: u64) {
        let align = if extent.len < PAGE { GRAIN } else { PAGE };
        assert!(extent.offset.is_multiple_of(align), "unaligned: {extent:?}");
        assert!(footprint >= extent.len, "{footprint} bytes for {extent:?}");
        let end = extent.offset + footprint;
        assert!(end <= self.capacity, "I1: {extent:?} ends outside");
        if let Some((offset, len)) = self.in_use.range(..end).next_back() {
            assert!(
                offset + len <= extent.offset,
                "I1: {extent:?} overlaps {len} bytes at {offset}"
            );
        }
        self.in_use.insert(extent.offset, footprint);
    }

    /// Strikes out an extent.
    pub fn give(&mut self, extent: Extent) {
        let known = self.in_use.remove(&extent.offset);
        assert!(known.is_some(), "the test gives back what it has");
    }

    /// Bytes not in use.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.capacity - self.in_use.values().sum::<u64>()
    }

    /// The ranges not in use, in order.
    #[must_use]
    pub fn gaps(&self) -> Vec<Extent> {
        let ends = [(self.capacity, 0)];
        let mut from = 0;
        let mut gaps = Vec::new();
        for (offset, len) in self.in_use.iter().map(|(o, l)| (*o, *l)).chain(ends) {
            if offset > from {
                gaps.push(Extent::new(from, offset - from));
            }
            from = offset + len;
        }
        gaps
    }
}

/// The longest extent of at least a page that fits into a gap; 0 when none does.
fn paged_room(gap: Extent) -> u64 {
    let end = gap.end() / PAGE * PAGE;
    end.saturating_sub(gap.offset.next_multiple_of(PAGE))
}

/// The longest extent that fits into a gap.
fn room(gap: Extent) -> u64 {
    match paged_room(gap) {
        0 => gap.len.min(PAGE - 1),
        paged => paged,
    }
}

/// A run of steps against a space and its oracle; every step checks everything.
#[derive(Debug)]
pub struct Replay<S> {
    space: S,
    oracle: Oracle,
    refusal: Refusal,
    objects: Vec<Vec<Extent>>,
}

impl<S: SpaceMap> Replay<S> {
    /// Starts with an empty space.
    pub fn new(space: S, refusal: Refusal) -> Self {
        Self {
            oracle: Oracle::new(space.capacity()),
            space,
            refusal,
            objects: Vec::new(),
        }
    }

    /// Carries out one step.
    pub fn apply(&mut self, step: Step) {
        match step {
            Step::Reserve(len) => match self.space.reserve(len) {
                Some(extent) => self.take(vec![extent], len, 1),
                None => self.judge(len),
            },
            Step::Pieces(len, pieces_max) => match self.space.reserve_pieces(len, pieces_max) {
                Some(pieces) => self.take(pieces, len, pieces_max),
                None => self.judge_pieces(len, pieces_max),
            },
            Step::Release(_) if self.objects.is_empty() => {}
            Step::Release(index) => {
                let object = self.objects.swap_remove(index % self.objects.len());
                for extent in object {
                    self.oracle.give(extent);
                    self.space.release(extent);
                }
            }
        }
        self.check();
    }

    /// Releases all that is left and checks that nothing was lost.
    pub fn finish(mut self) {
        while !self.objects.is_empty() {
            self.apply(Step::Release(self.objects.len() / 2));
        }
        assert_eq!(self.space.free(), self.space.capacity(), "I2");
        let ranges = u64::from(self.space.capacity() > 0);
        assert_eq!(self.space.free_ranges(), ranges, "all free space is one");
    }

    fn take(&mut self, pieces: Vec<Extent>, len: u64, pieces_max: usize) {
        assert!((1..=pieces_max).contains(&pieces.len()), "{pieces:?}");
        assert_eq!(pieces.iter().map(|piece| piece.len).sum::<u64>(), len);
        for piece in &pieces[..pieces.len() - 1] {
            let whole = piece.len > 0 && piece.len.is_multiple_of(CHUNK as u64);
            assert!(whole, "a piece must be whole chunks: {pieces:?}");
        }
        for piece in &pieces {
            self.oracle.take(*piece, self.space.footprint(piece.len));
        }
        self.objects.push(pieces);
    }

    fn check(&mut self) {
        assert_eq!(self.space.free(), self.oracle.free(), "I2");
        let largest = self.space.largest_free();
        if largest > 0 {
            let extent = self.space.reserve(largest);
            self.space
                .release(extent.expect("the largest free extent is granted"));
        }
        if self.refusal == Refusal::NoGap {
            let gaps = self.oracle.gaps();
            assert_eq!(self.space.free_ranges(), gaps.len() as u64);
            let truth = gaps.into_iter().map(room).max().unwrap_or(0);
            assert!(largest <= truth, "{largest} of {truth}");
            assert!(largest >= truth - truth / 8, "{largest} of {truth}");
        }
    }

    /// Whether a request that was refused could have been granted.
    fn judge(&self, len: u64) {
        if self.refusal == Refusal::Nothing {
            return;
        }
        let gaps = self.oracle.gaps();
        let need = self.space.footprint(len);
        let slack = if gaps.len() > 64 { need / 32 } else { 0 };
        let room = |gap: Extent| if len < PAGE { gap.len } else { paged_room(gap) };
        let fits = gaps
            .iter()
            .find(|gap| room(**gap) >= need.saturating_add(slack));
        assert!(fits.is_none(), "{len} bytes refused but {fits:?} is free");
    }

    fn judge_pieces(&self, len: u64, pieces_max: usize) {
        self.judge(len);
        if self.refusal == Refusal::Nothing {
            return;
        }
        let gaps = self.oracle.gaps();
        let slack = if gaps.len() > 128 { 32 } else { u64::MAX };
        let whole = |gap: Extent| paged_room(gap) / CHUNK as u64 * CHUNK as u64;
        let mut list: Vec<_> = gaps.into_iter().map(whole).map(|w| w - w / slack).collect();
        list.sort_unstable_by_key(|len| u64::MAX - len);
        let most: u64 = list.iter().take(pieces_max).sum();
        assert!(most < len, "{len} bytes refused but {most} add up");
    }
}

/// With nothing in use the longest extent is granted, and nothing beyond the capacity.
pub fn longest_extent_fits<S: SpaceMap>(promise: &Promise, mut space: S) {
    assert_eq!(space.capacity(), promise.capacity);
    assert!(space.capacity().is_multiple_of(GRAIN));
    for _ in 0..3 {
        let largest = space.largest_free();
        assert!(largest >= promise.longest - promise.longest / 8);
        let extent = space.reserve(promise.longest).expect("the longest fits");
        assert_eq!(extent.len, promise.longest);
        let used = space.footprint(promise.longest);
        assert_eq!(space.free(), promise.capacity - used, "I2");
        space.release(extent);
        for len in [promise.capacity + 1, u64::MAX] {
            assert_eq!(space.reserve(len), None);
            assert_eq!(space.reserve_pieces(len, 32), None);
        }
        assert_eq!(space.free(), promise.capacity, "I2");
        assert_eq!(space.free_ranges(), 1);
    }
}

/// Equal extents fill the space to the last byte, again and again, in any order.
pub fn equal_extents_fill_the_space<S: SpaceMap>(promise: &Promise, make: impl Fn() -> S) {
    for len in &promise.exact {
        let (mut space, mut dice) = (make(), Dice::new(*len));
        let mut held = Vec::new();
        for _ in 0..4 {
            while held.len() as u64 * len < promise.capacity {
                let extent = space.reserve(*len);
                held.push(extent.expect("there is room for one more"));
            }
            assert_eq!((space.free(), space.free_ranges()), (0, 0));
            assert_eq!((space.largest_free(), space.reserve(1)), (0, None));
            for _ in 0..held.len() / 2 {
                let index = dice.below(held.len() as u64) as usize;
                space.release(held.swap_remove(index));
            }
        }
        held.into_iter().for_each(|extent| space.release(extent));
        assert_eq!((space.free(), space.free_ranges()), (promise.capacity, 1));
    }
}

/// A request that no gap can hold is served from several, within the number that was asked for.
pub fn gaps_add_up_to_pieces<S: SpaceMap>(promise: &Promise, mut space: S) {
    let held: Vec<_> = std::iter::from_fn(|| space.reserve(promise.piece)).collect();
    assert!(held.len() >= 8);
    let (odd, even): (Vec<_>, Vec<_>) = held
        .into_iter()
        .partition(|extent| extent.offset / promise.piece % 2 == 1);
    odd.into_iter().for_each(|extent| space.release(extent));
    let (free, ranges) = (space.free(), space.free_ranges());
    let len = 3 * promise.piece - 100;
    assert_eq!(space.reserve_pieces(len, 2), None, "two gaps are too few");
    assert_eq!((space.free(), space.free_ranges()), (free, ranges));
    let pieces = space.reserve_pieces(len, 3).expect("three gaps suffice");
    let lens: Vec<_> = pieces.iter().map(|piece| piece.len).collect();
    assert_eq!(lens, [promise.piece, promise.piece, promise.piece - 100]);
    pieces
        .into_iter()
        .chain(even)
        .for_each(|extent| space.release(extent));
    assert_eq!((space.free(), space.free_ranges()), (promise.capacity, 1));
}

/// A long random run of all sizes keeps the books straight.
pub fn random_steps_keep_the_books<S: SpaceMap>(promise: &Promise, make: impl Fn() -> S) {
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let mut replay = Replay::new(make(), promise.refusal);
        for _ in 0..500 {
            // Sizes are spread evenly over their logarithm, up to the capacity.
            let top = 1 + dice.below(u64::from(promise.capacity.ilog2()));
            let len = 1 + dice.below(1 << top);
            replay.apply(match dice.below(5) {
                0 | 1 => Step::Reserve(len),
                2 => Step::Pieces(len, 1 + dice.below(32) as usize),
                _ => Step::Release(dice.roll() as usize),
            });
        }
        replay.finish();
    }
}

/// What a space had in use is restored in another one, in any order; what overlaps it, or never was an extent, is refused.
pub fn what_was_in_use_is_restored<S: SpaceMap>(promise: &Promise, make: impl Fn() -> S) {
    for seed in 0..4 {
        let (mut space, mut dice) = (make(), Dice::new(seed));
        let mut held = Vec::new();
        for _ in 0..300 {
            let top = 1 + dice.below(u64::from(promise.piece.ilog2()) + 1);
            let pieces = space.reserve_pieces(1 + dice.below(1 << top), 1 + dice.below(4) as usize);
            held.extend(pieces.into_iter().flatten());
            if dice.below(3) == 0 && !held.is_empty() {
                let index = dice.below(held.len() as u64) as usize;
                space.release(held.swap_remove(index));
            }
        }
        let mut again = make();
        let mut order = held.clone();
        while !order.is_empty() {
            let extent = order.swap_remove(dice.below(order.len() as u64) as usize);
            assert!(again.restore(extent), "{extent:?} was in use");
            let free = again.free();
            let nothing = Extent::new(extent.offset, 0);
            let outside = Extent::new(promise.capacity / PAGE * PAGE, extent.len);
            let crooked = Extent::new(extent.offset + 1, extent.len);
            for bad in [extent, nothing, outside, crooked] {
                assert!(!again.restore(bad), "{bad:?} beside {extent:?}");
            }
            assert_eq!(again.free(), free, "a refusal changes nothing");
        }
        again.restored();
        let both = (space.free(), space.free_ranges(), space.largest_free());
        assert_eq!(
            (again.free(), again.free_ranges(), again.largest_free()),
            both
        );
        let more = again.reserve(promise.exact[0]);
        held.extend(more);
        held.into_iter().for_each(|extent| again.release(extent));
        assert_eq!((again.free(), again.free_ranges()), (promise.capacity, 1));
    }
}

/// Gives back, in turn, what cannot be in use; each must panic, or a wrong one would go unnoticed.
pub fn bad_releases_panic<S: SpaceMap>(promise: &Promise, make: impl Fn() -> S) {
    let bad = |what: &str, release: &dyn Fn(&mut S, Extent)| {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut space = make();
            let extent = space.reserve(PAGE).expect("an empty space has a page");
            release(&mut space, extent);
        }));
        assert!(outcome.is_err(), "{what} went unnoticed");
    };
    let (piece, end) = (promise.piece, promise.capacity);
    bad("a second release", &|space, extent| {
        space.release(extent);
        space.release(extent);
    });
    bad("a part without its start", &|space, extent| {
        space.release(Extent::new(extent.offset + 1, extent.len));
    });
    bad("an empty extent", &|space, extent| {
        space.release(Extent::new(extent.offset, 0));
    });
    bad("an extent beyond the end", &|space, _| {
        space.release(Extent::new(end, PAGE));
    });
    bad("an extent at the end of all numbers", &|space, extent| {
        space.release(Extent::new(extent.offset, u64::MAX));
    });
    bad("a neighbour that is free", &|space, extent| {
        let other = if extent.offset == 0 { end - piece } else { 0 };
        space.release(Extent::new(other, piece));
    });
}

/// Makes the tests of the [`SpaceMap`] contract: a name for their module, the [`Promise`], and what makes a space.
#[macro_export]
macro_rules! space_contract {
    ($name:ident, $promise:expr, $make:expr) => {
        mod $name {
            use super::*;
            use $crate::testkit::space as contract;

            #[test]
            fn longest_extent_fits() {
                contract::longest_extent_fits(&$promise, $make());
            }

            #[test]
            fn equal_extents_fill_the_space() {
                contract::equal_extents_fill_the_space(&$promise, $make);
            }

            #[test]
            fn gaps_add_up_to_pieces() {
                contract::gaps_add_up_to_pieces(&$promise, $make());
            }

            #[test]
            fn random_steps_keep_the_books() {
                contract::random_steps_keep_the_books(&$promise, $make);
            }

            #[test]
            fn what_was_in_use_is_restored() {
                contract::what_was_in_use_is_restored(&$promise, $make);
            }

            #[test]
            fn bad_releases_panic() {
                contract::bad_releases_panic(&$promise, $make);
            }
        }
    };
}
