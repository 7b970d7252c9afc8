//! Finds the free span that starts or ends at a given grain: the neighbours of an extent that is given back.
//!
//! Two free spans never touch, so a grain is the border of at most one of them and one table serves starts and ends.
//! It is cut into many sub-tables by hash: growing one of them is the longest pause that it can cause.

use hashbrown::HashTable;
use ziggurat_base::hash::mix;

/// Grains of capacity for each sub-table, within the bounds below. A sub-table reaches as many entries only when every
/// second grain is free; 10 million free spans make about 1200 in each of [`TABLES_MAX`].
const TABLE_GRAINS: u64 = 4096;
const TABLES_MAX: u64 = 1 << 14;

/// One border: the low half of its hash, so that growth needs to look at nothing else, and the number of the span.
#[derive(Clone, Copy, Debug)]
struct Border {
    hash: u32,
    span: u32,
}

#[derive(Debug)]
pub(super) struct Borders {
    tables: Box<[HashTable<Border>]>,
}

/// The table takes its tag from the top bits and its bucket from the low bits.
fn spread(hash: u32) -> u64 {
    (u64::from(hash) << 32) | u64::from(hash)
}

impl Borders {
    pub(super) fn new(capacity_grains: u64) -> Self {
        let count = (capacity_grains / TABLE_GRAINS).clamp(1, TABLES_MAX);
        Self {
            tables: (0..count.next_power_of_two())
                .map(|_| HashTable::new())
                .collect(),
        }
    }

    /// The span with a border at `grain`; `is_border` says whether a given span has one there.
    pub(super) fn find(&self, grain: u64, is_border: impl Fn(u32) -> bool) -> Option<u32> {
        let (table, hash) = self.place(grain);
        let same = |border: &Border| border.hash == hash && is_border(border.span);
        self.tables[table]
            .find(spread(hash), same)
            .map(|border| border.span)
    }

    pub(super) fn insert(&mut self, grain: u64, span: u32) {
        let (table, hash) = self.place(grain);
        let border = Border { hash, span };
        self.tables[table].insert_unique(spread(hash), border, |border| spread(border.hash));
    }

    pub(super) fn remove(&mut self, grain: u64, span: u32) {
        let (table, hash) = self.place(grain);
        // Both borders of one span may have one hash; the entries are then the same and either will do.
        let same = |border: &Border| border.hash == hash && border.span == span;
        match self.tables[table].find_entry(spread(hash), same) {
            Ok(entry) => entry.remove(),
            Err(_) => unreachable!("every free span has both its borders in the table"),
        };
    }

    fn place(&self, grain: u64) -> (usize, u32) {
        let hash = mix(grain);
        let table = (hash >> 32) as usize & (self.tables.len() - 1);
        (table, hash as u32)
    }
}
