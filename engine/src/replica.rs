//! The life of one replica of one version.

crate::life_cycle! {
    /// ```text
    /// Writing ──Commit──▶ Readable ──Retire──▶ Cooling ──Cool──▶ Freed
    ///    │                    │                   │                ▲
    ///    └─Abandon─▶ Fencing ─┼──────Fenced───────┼────────────────┤
    ///    └──────────────Lose──┴───Lose────────────┴──(any)─Lose────┘
    /// ```
    Replica / ReplicaEvent #0 {
        /// Space is held; a client is writing.
        Writing,
        /// Bytes are complete and may be read under a guard.
        Readable,
        /// The write was given up; space is held until its writer is fenced.
        Fencing,
        /// Not handed out any more; space is held until the last guard has ended.
        Cooling,
        /// Space is back in the map, or gone with its segment.
        Freed,
    }
    /// The writer has reported success.
    Commit(Writing => Readable);
    /// The writer gave up, ran out of time, died or was pre-empted.
    Abandon(Writing => Fencing);
    /// The owner of the space refuses the writer from now on.
    Fenced(Fencing => Freed);
    /// Removed or evicted.
    Retire(Readable => Cooling);
    /// No guard is left.
    Cool(Cooling => Freed);
    /// The segment is gone, and its bytes with it.
    Lose(Writing | Readable | Fencing | Cooling => Freed);
}

#[cfg(test)]
mod tests {
    use super::{Replica, ReplicaEvent};
    use crate::state::table;

    #[test]
    fn table_is_the_documented_one() {
        let expected = "\
| Replica | Commit | Abandon | Fenced | Retire | Cool | Lose |
| Writing | Readable | Fencing | - | - | - | Freed |
| Readable | - | - | - | Cooling | - | Freed |
| Fencing | - | - | Freed | - | - | Freed |
| Cooling | - | - | - | - | Freed | Freed |
| Freed | - | - | - | - | - | - |
";
        assert_eq!(table(Replica::ALL, ReplicaEvent::ALL), expected);
    }
}
