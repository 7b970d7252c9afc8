//! Fragmentation under the mix of sizes that users of such stores reported: many crumbs and a few objects that are a
//! third of a segment.

use std::collections::VecDeque;
use ziggurat_base::{Extent, extent::EXTENTS_MAX, hash::Dice};
use ziggurat_engine::space::{SpaceMap, offset::OffsetSpace, slab::SlabSpace};

const MIB: u64 = 1 << 20;
const SEGMENTS: usize = 8;
const SEGMENT: u64 = 32 * MIB;
const STEPS: usize = 500;

/// One object: its segment and its extents.
type Object = (usize, Vec<Extent>);

#[derive(Clone, Copy)]
enum Pieces {
    One,
    Many,
}

/// What one run met.
#[derive(Debug)]
struct Outcome {
    puts: u64,
    failures: u64,
    /// Share of all bytes in use, in percent, at the emptiest moment at which a put failed.
    failed_at: f64,
    /// Highest share of bytes in use.
    filled_to: f64,
}

struct Store {
    segments: Vec<Box<dyn SpaceMap>>,
    pieces: Pieces,
}

impl Store {
    /// Asks the segment with most free bytes first.
    fn put(&mut self, len: u64) -> Option<Object> {
        let mut order: Vec<_> = (0..self.segments.len()).collect();
        order.sort_by_key(|index| u64::MAX - self.segments[*index].free());
        order.into_iter().find_map(|index| {
            let segment = &mut self.segments[index];
            let extents = match self.pieces {
                Pieces::One => segment.reserve(len).map(|extent| vec![extent]),
                Pieces::Many => segment.reserve_pieces(len, EXTENTS_MAX),
            };
            extents.map(|extents| (index, extents))
        })
    }

    fn remove(&mut self, (index, extents): Object) {
        for extent in extents {
            self.segments[index].release(extent);
        }
    }

    fn fill(&self) -> f64 {
        let free: u64 = self.segments.iter().map(|segment| segment.free()).sum();
        let all = SEGMENTS as u64 * SEGMENT;
        (all - free) as f64 * 100.0 / all as f64
    }
}

/// Per step and producer 31 objects of 256 B to 10 KiB and 3 of 10.5 to 12.4 MiB, each removed 1 to 3 steps later.
fn run(
    make: impl Fn() -> Box<dyn SpaceMap>,
    pieces: Pieces,
    producers: usize,
    seed: u64,
) -> Outcome {
    let segments = (0..SEGMENTS).map(|_| make()).collect();
    let mut store = Store { segments, pieces };
    let mut dice = Dice::new(seed);
    let mut due: VecDeque<Vec<Object>> = (0..4).map(|_| Vec::new()).collect();
    let mut outcome = Outcome {
        puts: 0,
        failures: 0,
        failed_at: 100.0,
        filled_to: 0.0,
    };
    for _ in 0..STEPS {
        for object in due.pop_front().unwrap_or_default() {
            store.remove(object);
        }
        due.push_back(Vec::new());
        for index in 0..34 * producers {
            let len = match index % 34 {
                0 | 11 | 22 => 10 * MIB + MIB / 2 + dice.below(19 * MIB / 10),
                _ => 256 + dice.below((10 << 10) - 255),
            };
            let life = dice.below(3) as usize;
            outcome.puts += 1;
            match store.put(len) {
                Some(object) => due[life].push(object),
                None => {
                    outcome.failures += 1;
                    outcome.failed_at = outcome.failed_at.min(store.fill());
                }
            }
            outcome.filled_to = outcome.filled_to.max(store.fill());
        }
    }
    outcome
}

fn offset() -> Box<dyn SpaceMap> {
    Box::new(OffsetSpace::new(SEGMENT))
}

fn slab() -> Box<dyn SpaceMap> {
    Box::new(SlabSpace::new(SEGMENT))
}

/// Sweeps the load from a quarter of the bytes to more than there are.
fn no_failure_below(stated: f64, make: fn() -> Box<dyn SpaceMap>, pieces: Pieces) {
    for producers in 1..=4 {
        for seed in 0..3 {
            let outcome = run(make, pieces, producers, seed);
            println!("{producers} producers, seed {seed}: {outcome:?}");
            assert!(
                outcome.failed_at > stated,
                "{producers} producers, seed {seed}: {outcome:?}"
            );
        }
    }
}

/// What the catalog does: 65 %. Measured over 40 seeds: no put fails while less than 68.6 % of all bytes are in use, and
/// the segments fill to 76 %. The bound of any allocator is near: two large objects take up to 78 % of a segment, and
/// there is no room for a third.
#[test]
fn two_peaked_sizes_do_not_fail_below_the_stated_fill() {
    no_failure_below(65.0, offset, Pieces::Many);
}

/// Where an object must be in one piece: 36 %. Measured over 40 seeds: 40.0 %; one large object in the middle of each
/// segment would be enough at 33 %.
#[test]
fn two_peaked_sizes_in_one_piece_do_not_fail_below_the_stated_fill() {
    no_failure_below(36.0, offset, Pieces::One);
}

/// Slab classes are not made for segments of 8 slabs: the crumbs' classes take a slab each. 8 %, measured 11.3 % over 40
/// seeds; in one piece 4.9 %.
#[test]
fn slab_classes_need_segments_of_many_slabs() {
    no_failure_below(8.0, slab, Pieces::Many);
    no_failure_below(4.0, slab, Pieces::One);
}
