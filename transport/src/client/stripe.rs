//! Cuts a batch into lanes, one for each connection that it uses.

use ziggurat_base::{CHUNK, frame::BODY_LEN_MAX};

/// A piece of an operation that travels in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Position of the operation in its batch.
    pub(super) op: usize,
    /// First byte, counted from the start of the operation's bytes.
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Shares out operations of these lengths (`None`: not to be sent) over at most `lanes` connections, in order and with
/// about the same number of bytes each. Only operations longer than `stripe` are cut, between chunks.
pub(super) fn plan(lens: &[Option<u64>], lanes: usize, stripe: u64) -> Vec<Vec<Cut>> {
    let total: u64 = lens.iter().flatten().sum();
    let share = total
        .div_ceil(lanes.max(1) as u64)
        .next_multiple_of(CHUNK as u64)
        .max(1);
    let mut plan = Vec::with_capacity(lanes);
    let mut lane = Vec::with_capacity(lens.len());
    let mut room = share;
    for (op, len) in lens.iter().enumerate() {
        let Some(len) = *len else { continue };
        let mut offset = 0;
        loop {
            if room == 0 && plan.len() + 1 < lanes {
                plan.push(std::mem::take(&mut lane));
                room = share;
            }
            let left = len - offset;
            let here = piece(left, room, len > stripe);
            lane.push(Cut {
                op,
                offset,
                len: here,
            });
            offset += here;
            room = room.saturating_sub(here);
            if offset == len {
                break;
            }
        }
    }
    plan.push(lane);
    plan
}

/// How much of the `left` bytes goes into one frame of a lane that has `room` for so much more.
fn piece(left: u64, room: u64, may_cut: bool) -> u64 {
    let chunks = room / CHUNK as u64 * CHUNK as u64;
    let most = match (may_cut, chunks) {
        (true, 1..) => left.min(chunks),
        _ => left,
    };
    most.min(BODY_LEN_MAX)
}

#[cfg(test)]
mod tests {
    use super::{Cut, plan};
    use proptest::prelude::*;
    use ziggurat_base::{CHUNK, frame::BODY_LEN_MAX};

    #[test]
    fn one_lane_takes_everything_whole() {
        let cuts = plan(&[Some(5), None, Some(0), Some(200 << 20)], 1, 4 << 20);
        let cut = |op, offset, len| Cut { op, offset, len };
        let big = BODY_LEN_MAX;
        let mut expected = vec![cut(0, 0, 5), cut(2, 0, 0)];
        expected.extend([0, 1, 2].map(|i| cut(3, i * big, big)));
        expected.push(cut(3, 3 * big, 8 << 20));
        assert_eq!(cuts, [expected]);
    }

    #[test]
    fn a_large_object_is_shared_out_evenly() {
        let lens: Vec<Vec<u64>> = plan(&[Some(16 << 20)], 4, 1 << 20)
            .iter()
            .map(|lane| lane.iter().map(|cut| cut.len).collect())
            .collect();
        assert_eq!(lens, vec![vec![4 << 20]; 4]);
    }

    proptest! {
        #[test]
        fn everything_travels_once(
            lens in prop::collection::vec(prop::option::of(0..3_000_000_u64), 0..9),
            lanes in 1..5_usize,
            stripe in 1..2_000_000_u64,
        ) {
            let plan = plan(&lens, lanes, stripe);
            prop_assert!(plan.len() <= lanes);
            let cuts: Vec<_> = plan.into_iter().flatten().collect();
            for (op, len) in lens.iter().enumerate() {
                let mine: Vec<_> = cuts.iter().filter(|cut| cut.op == op).collect();
                let mut at = 0;
                for cut in &mine {
                    prop_assert_eq!(cut.offset, at);
                    prop_assert!(cut.offset % CHUNK as u64 == 0);
                    at += cut.len;
                }
                prop_assert_eq!(at, len.unwrap_or(0));
                prop_assert_eq!(mine.is_empty(), len.is_none());
                prop_assert!(mine.len() <= 1 || len.unwrap() > stripe);
            }
        }
    }
}
