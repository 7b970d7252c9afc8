//! `free_ratio_first`: the emptiest of six per replica, then as `random`. New, empty segments fill up quickly.

use super::{Fleet, PlacementPolicy, TRIES_MAX, random::consecutive};
use ziggurat_base::hash::Dice;

/// Segments sampled for each replica.
const SAMPLE: usize = 6;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct FreeRatioFirst;

impl PlacementPolicy for FreeRatioFirst {
    fn name(&self) -> &'static str {
        "free_ratio_first"
    }

    fn order(&self, replicas: usize, fleet: &dyn Fleet, dice: &mut Dice, order: &mut Vec<usize>) {
        let first = order.len();
        order.extend(consecutive(fleet.count(), dice).take(SAMPLE * replicas));
        order[first..].sort_by(|a, b| fleet.free_ratio(*b).total_cmp(&fleet.free_ratio(*a)));
        let rest: Vec<_> = consecutive(fleet.count(), dice)
            .filter(|i| !order[first..].contains(i))
            .collect();
        order.extend(
            rest.into_iter()
                .take(TRIES_MAX.saturating_sub(order.len() - first)),
        );
    }
}
