//! The life of a member: one incarnation of a process that joined the partition.

crate::life_cycle! {
    /// ```text
    ///          ┌─Ping─┐
    ///          ▼      │
    /// Alive ───┴──────┘
    ///   ├──Leave───▶ Gone
    ///   └──Expire──▶ Gone
    /// ```
    Member / MemberEvent #3 {
        /// Heard of within its time to live.
        Alive,
        /// It left or fell silent. Its word counts for nothing; its process must join as another member.
        Gone,
    }
    /// Any sign of life.
    Ping(Alive => Alive);
    /// It said goodbye.
    Leave(Alive => Gone);
    /// It was silent for its time to live, while this partition was not stalled itself.
    Expire(Alive => Gone);
}

#[cfg(test)]
mod tests {
    use super::{Member, MemberEvent};
    use crate::state::table;

    #[test]
    fn table_is_the_documented_one() {
        let expected = "\
| Member | Ping | Leave | Expire |
| Alive | Alive | Gone | Gone |
| Gone | - | - | - |
";
        assert_eq!(table(Member::ALL, MemberEvent::ALL), expected);
    }
}
