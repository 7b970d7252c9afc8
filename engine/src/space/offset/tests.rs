use super::OffsetSpace;
use crate::{
    space::{GRAIN, PAGE, SpaceMap},
    space_contract,
    testkit::space::{Promise, Refusal, Replay, Step},
};
use proptest::prelude::*;
use ziggurat_base::{CHUNK, Extent};

const MIB: u64 = 1 << 20;

fn promise(capacity: u64) -> Promise {
    Promise {
        capacity,
        longest: capacity / PAGE * PAGE,
        exact: vec![GRAIN, 16 * GRAIN, PAGE, CHUNK as u64],
        piece: CHUNK as u64,
        refusal: Refusal::NoGap,
    }
}

space_contract!(contract, promise(2 * MIB), || OffsetSpace::new(2 * MIB));

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        1..200_u64,
        1..3 * PAGE,
        1..40 * PAGE,
        1..1000 * PAGE,
        (1..64_u64).prop_map(|pages| pages * PAGE),
    ];
    prop_oneof![
        4 => len.clone().prop_map(Step::Reserve),
        1 => (len, 1..6_usize).prop_map(|(len, pieces_max)| Step::Pieces(len, pieces_max)),
        4 => any::<usize>().prop_map(Step::Release),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_oracle(grains in 0..80_000_u64, steps in prop::collection::vec(step(), 0..250)) {
        let mut replay = Replay::new(OffsetSpace::new(grains * GRAIN), Refusal::NoGap);
        steps.into_iter().for_each(|step| replay.apply(step));
        replay.finish();
    }
}

#[test]
fn a_capacity_of_broken_pages_gives_its_whole_pages() {
    for capacity in [0, 1, 63] {
        let mut none = OffsetSpace::new(capacity);
        assert_eq!((none.capacity(), none.largest_free()), (0, 0));
        assert_eq!(none.reserve(1), None);
    }
    let mut space = OffsetSpace::new(5 * PAGE + 3 * GRAIN + 1);
    assert_eq!(space.capacity(), 5 * PAGE + 3 * GRAIN);
    assert_eq!(space.reserve(5 * PAGE), Some(Extent::new(0, 5 * PAGE)));
    assert_eq!(space.free(), 3 * GRAIN);
    assert_eq!(space.largest_free(), 3 * GRAIN);
}

#[test]
fn small_and_large_extents_keep_apart() {
    let mut space = OffsetSpace::new(MIB);
    let mut smalls = Vec::new();
    let mut larges = Vec::new();
    for _ in 0..4 {
        smalls.push(space.reserve(100).unwrap().offset);
        larges.push(space.reserve(CHUNK as u64).unwrap().offset);
        smalls.push(space.reserve(3 * PAGE).unwrap().offset);
    }
    assert!(larges.iter().max() < smalls.iter().min());
    assert_eq!(space.free_ranges(), 2, "the broken page and the middle");
}

#[test]
fn just_below_a_page_fits_across_a_page_border() {
    let mut space = OffsetSpace::new(2 * PAGE);
    let low = space.reserve(GRAIN).unwrap();
    assert_eq!(low.offset, 2 * PAGE - GRAIN);
    let page = space.reserve(PAGE).unwrap();
    space.release(low);
    let first = space.reserve(GRAIN).unwrap();
    assert_eq!(page.offset, 0);
    assert_eq!(space.largest_free(), PAGE - GRAIN);
    assert!(space.reserve(PAGE - GRAIN + 1).is_none());
    space.release(first);
    assert!(space.reserve(PAGE - 1).is_some());
}

#[test]
fn space_beyond_four_tebibytes_is_addressed() {
    let mut space = OffsetSpace::new(8 << 40);
    let whole = space.reserve(8 << 40).unwrap();
    space.release(whole);
    let small = space.reserve(64).unwrap();
    assert_eq!(small.offset, (8 << 40) - 64);
    let most = space.largest_free();
    assert!(most >= (8 << 40) - (8 << 35) && space.reserve(most).is_some());
}

#[test]
fn an_exact_hole_is_filled_before_a_longer_one_is_broken() {
    let mut space = OffsetSpace::new(64 * MIB);
    let len = 1234 * PAGE;
    let held: Vec<_> = (0..4).map(|_| space.reserve(len).unwrap()).collect();
    space.release(held[1]);
    assert_eq!(space.reserve(len), Some(held[1]));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "overlaps free space")]
fn debug_builds_notice_a_release_in_the_middle_of_free_space() {
    let mut space = OffsetSpace::new(MIB);
    space.reserve(CHUNK as u64).unwrap();
    space.release(Extent::new(MIB / 2, PAGE));
}
