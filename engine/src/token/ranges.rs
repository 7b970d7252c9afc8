//! Which bytes of a payload are there: sorted ranges that neither overlap nor touch.

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    list: Vec<(u64, u64)>,
}

impl Ranges {
    /// Number of ranges.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Bytes of `0..len` that are in none of them.
    #[must_use]
    pub fn missing(&self, len: u64) -> u64 {
        let inside = self.list.iter().map(|(start, end)| {
            let end = len.min(*end);
            end.saturating_sub(*start)
        });
        len - inside.sum::<u64>()
    }

    /// Adds `start..end`.
    pub fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.list.partition_point(|(_, other)| *other < start);
        let last = self.list.partition_point(|(other, _)| *other <= end);
        let joined = match self.list.get(first..last) {
            Some([.., most]) => (start.min(self.list[first].0), end.max(most.1)),
            _ => (start, end),
        };
        self.list.splice(first..last, [joined]);
    }

    /// Takes `start..end` away.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.list.partition_point(|(_, other)| *other <= start);
        let last = self.list.partition_point(|(other, _)| *other < end);
        if first >= last {
            return;
        }
        let before = (self.list[first].0, start);
        let after = (end, self.list[last - 1].1);
        let kept = [before, after]
            .into_iter()
            .filter(|(start, end)| start < end);
        self.list.splice(first..last, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_flag_per_byte(ops in prop::collection::vec((any::<bool>(), 0..40_u64, 0..12_u64), 0..60)) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 64];
            for (adds, start, len) in ops {
                bytes[start as usize..(start + len) as usize].fill(adds);
                if adds {
                    ranges.add(start, start + len);
                } else {
                    ranges.remove(start, start + len);
                }
                let runs = bytes.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                prop_assert_eq!(ranges.count(), runs, "{:?}", &ranges);
                for end in 0..64 {
                    let missing = bytes[..end].iter().filter(|there| !**there).count();
                    prop_assert_eq!(ranges.missing(end as u64), missing as u64);
                }
            }
        }
    }
}
