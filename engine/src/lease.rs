//! The life of the guard on one object: who may still be reading it.
//!
//! One lease per object, shared by all readers. A `locate` adds a holder and moves the end; a reader that has finished
//! gives its hold back; when the last one does, the lease ends at once unless an `exist` has promised the span. The end
//! is the upper bound for readers that never come back.

use crate::state::Seen;
use ziggurat_base::Timestamp;

crate::life_cycle! {
    /// ```text
    ///        ┌──────────────Lapse / Return──────────────┐
    ///        ▼                                          │
    ///      Idle ──Hold──▶ Held ──Promise──▶ Promised ───┤
    ///        └──Promise──────────────────────▲    (Return keeps it)
    /// ```
    Lease / LeaseEvent #2 {
        /// Nobody may be reading.
        Idle,
        /// Readers hold it; the last one to give back ends it.
        Held,
        /// An `exist` has promised the span; only time ends it.
        Promised,
    }
    /// A `locate`.
    Hold(Idle | Held => Held);
    /// A `locate` of a promised object.
    HoldMore(Promised => Promised);
    /// An `exist`.
    Promise(Idle | Held | Promised => Promised);
    /// The last holder gave back.
    Return(Held => Idle);
    /// The span has passed.
    Lapse(Idle | Held | Promised => Idle);
}

/// The fields of a lease, as they lie in an object's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseFields {
    /// The lease protects until here, exclusive.
    pub(crate) until: Timestamp,
    /// Readers that have not given back.
    pub(crate) holders: u16,
    /// Counts the times that the lease began anew; a hold from an earlier one is void.
    pub(crate) term: u16,
    /// Whether an `exist` has promised the span.
    pub(crate) promised: bool,
}

impl LeaseFields {
    /// Where in its life cycle the lease is, before anybody has looked at the time.
    fn stored(&self) -> Lease {
        if self.until == Timestamp::ZERO {
            Lease::Idle
        } else if self.promised {
            Lease::Promised
        } else {
            Lease::Held
        }
    }

    /// Moves along the life cycle: lapses if the span has passed, then takes `event`.
    pub(crate) fn step(&self, now: Timestamp, event: LeaseEvent, seen: &mut Seen) {
        let mut state = self.stored();
        if self.until <= now {
            seen.must(&mut state, LeaseEvent::Lapse);
        }
        let more = state == Lease::Promised && event == LeaseEvent::Hold;
        seen.must(&mut state, if more { LeaseEvent::HoldMore } else { event });
    }

    fn begin_anew_if_idle(&mut self, now: Timestamp) {
        if self.until <= now {
            self.term = self.term.wrapping_add(1);
            self.holders = 0;
            self.promised = false;
        }
    }

    /// A reader begins: protected until `until` or longer. Returns the term to give back.
    pub(crate) fn hold(&mut self, now: Timestamp, until: Timestamp) -> u16 {
        self.begin_anew_if_idle(now);
        // Beyond 65,535 holders nobody can be told apart any more: then only time ends the lease.
        match self.holders.checked_add(1) {
            Some(holders) => self.holders = holders,
            None => self.promised = true,
        }
        self.until = self.until.max(until);
        self.term
    }

    /// An `exist` promises the span.
    pub(crate) fn promise(&mut self, now: Timestamp, until: Timestamp) {
        self.begin_anew_if_idle(now);
        self.promised = true;
        self.until = self.until.max(until);
    }

    /// A reader of `term` has finished. Returns whether that ended the lease.
    pub(crate) fn give_back(&mut self, now: Timestamp, term: u16) -> bool {
        if self.until <= now || self.term != term || self.holders == 0 {
            return false;
        }
        self.holders -= 1;
        if self.holders > 0 || self.promised {
            return false;
        }
        self.until = Timestamp::ZERO;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Lease, LeaseEvent, LeaseFields};
    use crate::state::table;
    use ziggurat_base::Timestamp;

    #[test]
    fn table_is_the_documented_one() {
        let expected = "\
| Lease | Hold | HoldMore | Promise | Return | Lapse |
| Idle | Held | - | Promised | - | Idle |
| Held | Held | - | Promised | Idle | Idle |
| Promised | - | Promised | Promised | - | Idle |
";
        assert_eq!(table(Lease::ALL, LeaseEvent::ALL), expected);
    }

    #[test]
    fn the_last_reader_ends_the_lease() {
        let mut lease = LeaseFields::default();
        let (now, end) = (Timestamp(5), Timestamp(100));
        let first = lease.hold(now, end);
        let second = lease.hold(now, end);
        assert_eq!(first, second);
        assert!(!lease.give_back(now, first));
        assert_eq!(lease.stored(), Lease::Held);
        assert!(lease.give_back(now, second));
        assert_eq!(lease.stored(), Lease::Idle);
        assert!(!lease.give_back(now, second), "a hold is given back once");
    }

    #[test]
    fn a_hold_of_an_earlier_term_is_void() {
        let mut lease = LeaseFields::default();
        let old = lease.hold(Timestamp(0), Timestamp(10));
        let new = lease.hold(Timestamp(20), Timestamp(30));
        assert_ne!(old, new);
        assert!(!lease.give_back(Timestamp(21), old));
        assert_eq!(lease.stored(), Lease::Held);
    }

    #[test]
    fn a_promise_outlives_the_readers() {
        let mut lease = LeaseFields::default();
        let term = lease.hold(Timestamp(0), Timestamp(10));
        lease.promise(Timestamp(1), Timestamp(11));
        assert!(!lease.give_back(Timestamp(2), term));
        assert_eq!(
            (lease.stored(), lease.until),
            (Lease::Promised, Timestamp(11))
        );
    }
}
