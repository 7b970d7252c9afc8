//! Which state × event cells of the life cycles the runs have tried, and which they can never try.
//!
//! A cell that no run can try is declared here with its reason. Trying one is a violation: then either the reason or the
//! product is wrong.

use ziggurat_engine::{
    lease::Lease,
    member::Member,
    replica::Replica,
    segment::Segment,
    state::{LifeCycle, Seen},
    write::Write,
};

/// Cells of one state that are out of reach.
struct Unreachable {
    machine: &'static str,
    state: &'static str,
    events: &'static [&'static str],
    /// Why.
    reason: &'static str,
}

const fn unreachable(
    machine: &'static str,
    state: &'static str,
    events: &'static [&'static str],
    reason: &'static str,
) -> Unreachable {
    Unreachable {
        machine,
        state,
        events,
        reason,
    }
}

const UNREACHABLE: &[Unreachable] = &[
    unreachable(
        "Replica",
        "Writing",
        &["Fenced", "Retire", "Cool"],
        "an owner's word on a fence is looked up among given-up writes; only the readable version is retired; only what \
         was retired cools",
    ),
    unreachable(
        "Replica",
        "Readable",
        &["Commit", "Abandon", "Fenced", "Cool"],
        "a repeated report passes over a readable replica, and a given-up write keeps it; the rest as for Writing",
    ),
    unreachable(
        "Replica",
        "Fencing",
        &["Abandon", "Retire", "Cool"],
        "a closing write is not closed again, and it is not the readable version",
    ),
    unreachable(
        "Replica",
        "Cooling",
        &["Commit", "Abandon", "Fenced", "Retire"],
        "cooling replicas have left their write and their row",
    ),
    unreachable(
        "Replica",
        "Freed",
        &["Commit", "Abandon", "Fenced", "Retire", "Cool", "Lose"],
        "the record of a freed replica is dropped at once",
    ),
    unreachable(
        "Write",
        "Open",
        &["Settle"],
        "only a closing write is settled",
    ),
    unreachable(
        "Write",
        "Ended",
        &["End", "Revoke", "Preempt", "Expire", "Settle"],
        "an ended write is remembered by its ticket alone, for repetitions",
    ),
    unreachable(
        "Write",
        "Closing",
        &["Preempt", "Expire"],
        "the row names only an open write, and only open writes grow old",
    ),
    unreachable(
        "Write",
        "Closed",
        &["End", "Revoke", "Preempt", "Expire", "Settle"],
        "a settled write is forgotten at once",
    ),
    unreachable(
        "Lease",
        "Idle",
        &["HoldMore", "Return"],
        "a hold of an idle lease begins a new term; what is given back of an earlier one is void",
    ),
    unreachable(
        "Lease",
        "Held",
        &["HoldMore"],
        "a further holder of a held lease is a Hold",
    ),
    unreachable(
        "Lease",
        "Promised",
        &["Hold", "Return"],
        "a holder of a promised lease is a HoldMore, and giving back leaves the promise",
    ),
    unreachable(
        "Member",
        "Gone",
        &["Ping", "Leave", "Expire"],
        "a member that has gone is forgotten at once",
    ),
    unreachable(
        "Segment",
        "Mounted",
        &["Finish", "Swept"],
        "time ends a grace period only, and only what was lost or unmounted is swept",
    ),
    unreachable("Segment", "Unmounting", &["Swept"], "as for Mounted"),
    unreachable(
        "Segment",
        "Sweeping",
        &["Finish", "Lose"],
        "its grace period is over, and its member has nothing there to lose",
    ),
    unreachable(
        "Segment",
        "Gone",
        &["Unmount", "Finish", "Lose", "Swept"],
        "the number of a segment that has gone is forgotten at once",
    ),
];

/// How much of the life cycles was visited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Cells that can be tried.
    pub reachable: usize,
    /// Those of them that were.
    pub visited: usize,
    /// Those that were not, as `Machine/State/Event`.
    pub missed: Vec<String>,
    /// Cells that were tried although they were declared unreachable, with the reason that was wrong.
    pub impossible: Vec<String>,
}

impl Coverage {
    /// Judges what was seen.
    #[must_use]
    pub fn of(seen: &Seen) -> Self {
        let mut coverage = Self::default();
        coverage.add::<Replica>(seen);
        coverage.add::<Write>(seen);
        coverage.add::<Lease>(seen);
        coverage.add::<Member>(seen);
        coverage.add::<Segment>(seen);
        coverage
    }

    fn add<M: LifeCycle>(&mut self, seen: &Seen) {
        let states = M::STATES.iter().enumerate();
        for (number, state) in states {
            for (index, event) in M::EVENTS.iter().enumerate() {
                let tried = seen.has::<M>(number * M::EVENTS.len() + index);
                let name = format!("{}/{state}/{event}", M::NAME);
                let mut declared = UNREACHABLE.iter();
                let declared = declared.find(|u| {
                    u.machine == M::NAME && u.state == *state && u.events.contains(event)
                });
                match declared {
                    Some(declared) if tried => {
                        self.impossible.push(format!("{name}: {}", declared.reason));
                    }
                    Some(_) => {}
                    None => {
                        self.reachable += 1;
                        self.visited += usize::from(tried);
                        self.missed.extend((!tried).then_some(name));
                    }
                }
            }
        }
    }

    /// The share that was visited.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.visited as f64 / self.reachable.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{Coverage, UNREACHABLE};
    use std::collections::BTreeSet;
    use ziggurat_engine::state::Seen;

    #[test]
    fn every_declaration_names_cells_that_exist_and_a_reason() {
        let coverage = Coverage::of(&Seen::default());
        let cells = 5 * 6 + 4 * 5 + 3 * 5 + 2 * 3 + 4 * 4;
        let declared: usize = UNREACHABLE.iter().map(|u| u.events.len()).sum();
        assert_eq!(coverage.reachable + declared, cells);
        let names: BTreeSet<_> = UNREACHABLE.iter().map(|u| (u.machine, u.state)).collect();
        assert_eq!(names.len(), UNREACHABLE.len());
        assert!(UNREACHABLE.iter().all(|u| !u.reason.is_empty()));
    }
}
