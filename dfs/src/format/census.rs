//! The census of a shard file: which records of earlier eras were alive when an era began there.
//!
//! Nobody can stop a writer of an earlier life of the partition that stood still and goes on. What it writes after its successor
//! has looked is in no census, and so no later life takes it for something that was ever readable.

use super::{BLOCK, Reader, begin, close, damaged, only_encoding};
use ziggurat_base::{Era, Result, Ticket};

const MAGIC: &[u8; 8] = b"ZGDFSCEN";

/// Bytes in front of the tickets.
const FIXED: usize = 64;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The root.
    pub root: u128,
    /// The shard file.
    pub shard: u32,
    /// The era that began: it says nothing of records of this one and later ones.
    pub era: Era,
    /// The records of earlier eras that were alive, ascending.
    pub alive: Vec<Ticket>,
}

/// The name of the census of a shard file.
#[must_use]
pub fn name(shard: u32) -> String {
    format!("census-{shard:04}.zig")
}

/// Whether a file is called like a census.
#[must_use]
pub fn is_name(file: &str) -> bool {
    let number = file
        .strip_prefix("census-")
        .and_then(|rest| rest.strip_suffix(".zig"));
    number.is_some_and(|number| {
        number
            .parse()
            .is_ok_and(|number: u32| name(number) == *file)
    })
}

impl Census {
    /// Whether a record is one that nobody has seen when its time was over.
    #[must_use]
    pub fn excludes(&self, ticket: Ticket) -> bool {
        ticket.era() < self.era && self.alive.binary_search(&ticket).is_err()
    }

    /// The whole file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.root.to_le_bytes());
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.era.0.to_le_bytes());
        out.extend_from_slice(&(self.alive.len() as u64).to_le_bytes());
        out.resize(FIXED, 0);
        for ticket in &self.alive {
            out.extend_from_slice(&ticket.0.to_le_bytes());
        }
        close(out)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for one of a later release.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "census";
        let mut read = Reader::open(bytes, MAGIC, WHAT)?;
        read.exactly(&[0; 2])?;
        let (root, shard) = (read.u128()?, read.u32()?);
        let (era, count) = (Era(read.u32()?), read.u64()?);
        read.exactly(&[0; FIXED - 48])?;
        if count > (bytes.len() / 8) as u64 || !bytes.len().is_multiple_of(BLOCK as usize) {
            return Err(damaged("a census that contradicts itself"));
        }
        let alive: Result<Vec<_>> = (0..count).map(|_| read.u64().map(Ticket)).collect();
        let alive = alive?;
        if !alive.is_sorted() {
            return Err(damaged("a census out of order"));
        }
        let census = Self {
            root,
            shard,
            era,
            alive,
        };
        let again = census.encode();
        only_encoding(census, &again, bytes, WHAT)
    }
}

#[cfg(test)]
mod tests {
    use super::{Census, is_name, name};
    use proptest::prelude::*;
    use ziggurat_base::{Era, Ticket};

    fn census(era: u32, mut alive: Vec<u64>) -> Census {
        alive.sort_unstable();
        Census {
            root: 7,
            shard: 3,
            era: Era(era),
            alive: alive.into_iter().map(Ticket).collect(),
        }
    }

    #[test]
    fn what_was_not_seen_in_time_is_excluded() {
        let old = |serial| Ticket::new(Era(4), serial);
        let census = census(5, vec![old(1).0, old(9).0]);
        assert!(!census.excludes(old(1)) && census.excludes(old(2)));
        assert!(!census.excludes(Ticket::new(Era(5), 2)), "of its own era");
    }

    #[test]
    fn names_are_told_apart() {
        assert!(is_name(&name(0)) && is_name(&name(12_345)));
        assert!(!is_name("census-1.zig") && !is_name("census-0001.zig.new"));
    }

    proptest! {
        #[test]
        fn it_reads_back_what_it_wrote_and_no_flip_of_it(
            era in any::<u32>(),
            alive in prop::collection::vec(any::<u64>(), 0..700),
            bit in any::<prop::sample::Index>(),
        ) {
            let census = census(era, alive);
            let mut bytes = census.encode();
            prop_assert_eq!(Census::decode(&bytes).unwrap(), census);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Census::decode(&bytes).is_err());
        }

        #[test]
        fn anything_else_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
            let _refused = Census::decode(&bytes);
        }
    }
}
