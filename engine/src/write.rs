//! The life of one open write: what a ticket stands for between `put_start` and the moment its space is settled.

crate::life_cycle! {
    /// ```text
    /// Open ──End──▶ Ended
    ///   ├──Revoke───▶ Closing ──Settle──▶ Closed
    ///   ├──Preempt──▶ Closing
    ///   └──Expire───▶ Closing
    /// ```
    Write / WriteEvent #1 {
        /// The writer may write.
        Open,
        /// Every replica has a result.
        Ended,
        /// Given up; replicas wait to be fenced.
        Closing,
        /// Nothing is held any more.
        Closed,
    }
    /// `put_end` has given the last result.
    End(Open => Ended);
    /// The writer gave up, or none of its replicas is good.
    Revoke(Open => Closing);
    /// Another writer wants the key, and this one has had its time; or the key is removed by force.
    Preempt(Open => Closing);
    /// The write is older than it may be, or its writer has died.
    Expire(Open => Closing);
    /// The last replica is fenced or lost.
    Settle(Closing => Closed);
}

#[cfg(test)]
mod tests {
    use super::{Write, WriteEvent};
    use crate::state::table;

    #[test]
    fn table_is_the_documented_one() {
        let expected = "\
| Write | End | Revoke | Preempt | Expire | Settle |
| Open | Ended | Closing | Closing | Closing | - |
| Ended | - | - | - | - | - |
| Closing | - | - | - | - | Closed |
| Closed | - | - | - | - | - |
";
        assert_eq!(table(Write::ALL, WriteEvent::ALL), expected);
    }
}
