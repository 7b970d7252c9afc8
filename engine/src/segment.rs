//! The life of a segment: space that a member gives.

crate::life_cycle! {
    /// ```text
    /// Mounted ──Unmount──▶ Unmounting ──Finish──▶ Sweeping ──Swept──▶ Gone
    ///    └─────Lose──────────────┴─────Lose──────────▲
    /// ```
    Segment / SegmentEvent #4 {
        /// Takes new objects.
        Mounted,
        /// Takes no new ones; what is there stays readable until the grace period ends.
        Unmounting,
        /// Its bytes may not be read any more; its replicas are being dropped in steps.
        Sweeping,
        /// Nothing refers to it.
        Gone,
    }
    /// Its member asked for it, with a grace period.
    Unmount(Mounted => Unmounting);
    /// The grace period is over.
    Finish(Unmounting => Sweeping);
    /// Its member has gone.
    Lose(Mounted | Unmounting => Sweeping);
    /// The last replica is dropped.
    Swept(Sweeping => Gone);
}

#[cfg(test)]
mod tests {
    use super::{Segment, SegmentEvent};
    use crate::state::table;

    #[test]
    fn table_is_the_documented_one() {
        let expected = "\
| Segment | Unmount | Finish | Lose | Swept |
| Mounted | Unmounting | - | Sweeping | - |
| Unmounting | - | Sweeping | Sweeping | - |
| Sweeping | - | - | - | Gone |
| Gone | - | - | - | - |
";
        assert_eq!(table(Segment::ALL, SegmentEvent::ALL), expected);
    }
}
