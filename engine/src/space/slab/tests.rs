use super::{SLAB, SlabSpace, slot_lens};
use crate::{
    space::{GRAIN, PAGE, SpaceMap},
    space_contract,
    testkit::space::{Promise, Refusal, Replay, Step},
};
use proptest::prelude::*;
use ziggurat_base::Extent;

const SLABS: u64 = 16;

fn promise() -> Promise {
    Promise {
        capacity: SLABS * SLAB,
        longest: SLABS * SLAB,
        exact: vec![GRAIN, PAGE, SLAB],
        piece: SLAB,
        refusal: Refusal::Nothing,
    }
}

space_contract!(contract, promise(), || SlabSpace::new(SLABS * SLAB));

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![1..200_u64, 1..3 * PAGE, 1..2 * SLAB, 1..SLABS * SLAB];
    prop_oneof![
        3 => len.clone().prop_map(Step::Reserve),
        1 => (len, 1..6_usize).prop_map(|(len, pieces_max)| Step::Pieces(len, pieces_max)),
        3 => any::<usize>().prop_map(Step::Release),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_oracle(slabs in 0..20_u64, steps in prop::collection::vec(step(), 0..200)) {
        let mut replay = Replay::new(SlabSpace::new(slabs * SLAB + 5), Refusal::Nothing);
        steps.into_iter().for_each(|step| replay.apply(step));
        replay.finish();
    }
}

#[test]
fn slots_waste_at_most_a_quarter() {
    let lens: Vec<_> = slot_lens().collect();
    assert!(lens.contains(&PAGE));
    for pair in lens.windows(2) {
        let unit = if pair[1] <= PAGE { GRAIN } else { PAGE };
        assert!(pair[1] % unit == 0 && pair[0] < pair[1]);
        assert!(pair[1] <= (pair[0] + pair[0] / 4).max(pair[0] + unit));
    }
    assert!(lens.len() < 64 && lens[lens.len() - 1] * 5 > SLAB * 2 - PAGE);
}

#[test]
fn an_empty_slab_serves_any_class() {
    let mut space = SlabSpace::new(SLAB);
    for len in [64, 5000, SLAB / 2, 64, SLAB] {
        let extent = space.reserve(len).unwrap();
        assert_eq!(extent, Extent::new(0, len));
        assert!(space.reserve(SLAB).is_none());
        space.release(extent);
    }
}

#[test]
fn long_objects_take_slabs_wherever_they_are() {
    let mut space = SlabSpace::new(8 * SLAB);
    let held: Vec<_> = (0..8).map(|_| space.reserve(SLAB).unwrap()).collect();
    for index in [0, 2, 4] {
        space.release(held[index]);
    }
    assert_eq!(space.reserve(2 * SLAB + 100), None);
    let pieces = space.reserve_pieces(2 * SLAB + 100, 3).unwrap();
    let lens: Vec<_> = pieces.iter().map(|piece| piece.len).collect();
    assert_eq!(lens, [SLAB, SLAB, 100]);
    assert_eq!(space.free(), SLAB - space.footprint(100));
}

#[test]
#[should_panic(expected = "in use")]
fn an_extent_of_another_class_is_not_taken_back() {
    let mut space = SlabSpace::new(SLAB);
    let extent = space.reserve(64).unwrap();
    space.release(Extent::new(extent.offset, 1000));
}
