//! The suite behind [`policy_contract!`](crate::policy_contract): one function per promise.

use super::{STEPS_MAX, Watched};
use crate::{Row, evict::EvictionPolicy};
use std::collections::BTreeSet;
use ziggurat_base::hash::Dice;

/// Makes an empty policy.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn EvictionPolicy>;

/// Declares the module `$name` with the contract suite for the policies that the expression `$make` makes.
#[macro_export]
macro_rules! policy_contract {
    ($name:ident, $make:expr) => {
        $crate::policy_contract!(
            $name,
            $make,
            nothing_goes_when_nothing_is_there,
            no_step_no_look,
            only_present_and_unheld_rows_go,
            every_row_goes_in_the_end,
            held_rows_stay_and_the_only_other_goes,
            victims_do_not_depend_on_the_division_of_steps,
            memory_is_counted_and_hints_are_harmless
        );
    };
    ($name:ident, $make:expr, $($promise:ident),+) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $promise() {
                    $crate::testkit::evict::contract::$promise(&|| $make);
                }
            )+
        }
    };
}

const ROWS: u32 = 300;

/// Uses, removes, evicts and inserts by chance; tells each victim to `on_victim`.
fn stroll(watched: &mut Watched, seed: u64, steps: u32, on_victim: &mut dyn FnMut(u32)) {
    let mut dice = Dice::new(seed);
    let absent = |row: &u32| !watched.present().contains(row);
    let mut spare: Vec<u32> = (0..ROWS).filter(absent).collect();
    for _ in 0..20_000 {
        let some = dice.below(u64::from(ROWS)) as u32;
        let present = watched.present().range(some..).next().copied();
        match (dice.below(8), present) {
            (0..=3, Some(row)) => watched.touch(row),
            (4, Some(row)) => {
                watched.remove(row);
                spare.push(row);
            }
            (5, Some(_)) => {
                if let Some(row) = watched.evict(&BTreeSet::new(), steps) {
                    spare.push(row);
                    on_victim(row);
                }
            }
            (6 | 7, _) if !spare.is_empty() => {
                let row = spare.swap_remove(dice.below(spare.len() as u64) as usize);
                watched.insert(row, dice.below(1_000), dice.below(50));
            }
            _ => {}
        }
    }
}

/// An empty policy proposes nothing and says so without using up its steps.
pub fn nothing_goes_when_nothing_is_there(make: Make<'_>) {
    let mut watched = Watched::new(make(), 1_000);
    let mut steps = 10;
    assert_eq!(watched.propose(&BTreeSet::new(), &mut steps), None);
    assert!(steps > 0);
    watched.insert(4, 4, 4);
    watched.remove(4);
    assert_eq!(watched.evict(&BTreeSet::new(), 10), None);
}

/// Without steps nothing is looked at.
pub fn no_step_no_look(make: Make<'_>) {
    let mut watched = Watched::new(make(), 1_000);
    watched.insert(4, 4, 4);
    assert_eq!(watched.propose(&BTreeSet::new(), &mut 0), None);
    assert_eq!(watched.evict(&BTreeSet::new(), 10), Some(4));
}

/// [`Watched`] asserts it at every call of a long stroll.
pub fn only_present_and_unheld_rows_go(make: Make<'_>) {
    for seed in 0..4 {
        let mut watched = Watched::new(make(), 5_000);
        stroll(&mut watched, seed, 1 << 10, &mut |_| {});
        let held: BTreeSet<u32> = watched.present().iter().copied().step_by(3).collect();
        let mut left = watched.present().len();
        while let Some(row) = watched.evict(&held, STEPS_MAX) {
            assert!(!held.contains(&row));
            left -= 1;
        }
        assert_eq!(left, held.len(), "all that is not held can go");
        stroll(&mut watched, seed, 1 << 10, &mut |_| {});
    }
}

/// With nothing held and nothing new, every row goes, each once.
pub fn every_row_goes_in_the_end(make: Make<'_>) {
    for capacity in [0, 50, 5_000, u64::MAX] {
        let mut watched = Watched::new(make(), capacity);
        stroll(&mut watched, 9, 5, &mut |_| {});
        let present = watched.present().len();
        let mut gone = BTreeSet::new();
        while let Some(row) = watched.evict(&BTreeSet::new(), 5) {
            assert!(gone.insert(row), "{row} went twice");
        }
        assert_eq!(gone.len(), present);
    }
}

/// One unheld row among many is found within one call; with all held the call ends with steps left.
pub fn held_rows_stay_and_the_only_other_goes(make: Make<'_>) {
    for unheld in [0, 1, ROWS / 2, ROWS - 1] {
        let mut watched = Watched::new(make(), u64::from(ROWS));
        for row in 0..ROWS {
            watched.insert(row, u64::from(row), 1);
        }
        for row in (0..ROWS).step_by(2) {
            watched.touch(row);
            watched.touch(row);
        }
        let mut held: BTreeSet<u32> = (0..ROWS).collect();
        assert_eq!(watched.evict(&held, STEPS_MAX), None);
        held.remove(&unheld);
        assert_eq!(watched.evict(&held, STEPS_MAX), Some(unheld));
        assert_eq!(watched.evict(&held, STEPS_MAX), None);
    }
}

/// One step a call or all at once: the same rows go in the same order.
pub fn victims_do_not_depend_on_the_division_of_steps(make: Make<'_>) {
    let run = |steps| {
        let mut watched = Watched::new(make(), 4_000);
        let mut victims = Vec::new();
        stroll(&mut watched, 21, steps, &mut |row| victims.push(row));
        victims
    };
    let all_at_once = run(STEPS_MAX);
    assert!(all_at_once.len() > 1_000);
    assert_eq!(run(1), all_at_once);
    assert_eq!(run(7), all_at_once);
}

/// Memory grows with the rows, at most 64 bytes for each, and a hint for any row changes nothing.
pub fn memory_is_counted_and_hints_are_harmless(make: Make<'_>) {
    const MANY: u64 = 100_000;
    let mut policy = make();
    policy.prefetch(Row(0));
    policy.prefetch(Row(Row::MAX));
    let before = policy.memory().0;
    for row in 0..MANY {
        policy.insert(Row(row as u32), row, ziggurat_base::ByteCount(1));
    }
    let growth = policy.memory().0 - before;
    assert!((MANY..=64 * MANY).contains(&growth), "{growth} bytes");
}
