//! `random`: a random segment, then those after it. The seed's default: no look at the fill, the highest rate.

use super::{Fleet, PlacementPolicy, TRIES_MAX};
use ziggurat_base::hash::Dice;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Random;

/// At most [`TRIES_MAX`] consecutive segments from a random one on.
pub(super) fn consecutive(count: usize, dice: &mut Dice) -> impl Iterator<Item = usize> + use<> {
    let start = dice.below(count as u64) as usize;
    (0..count.min(TRIES_MAX)).map(move |step| (start + step) % count)
}

impl PlacementPolicy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn order(&self, _: usize, fleet: &dyn Fleet, dice: &mut Dice, order: &mut Vec<usize>) {
        order.extend(consecutive(fleet.count(), dice));
    }
}
