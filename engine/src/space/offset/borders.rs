//! Finds the free span that starts or ends at a given grain: the neighbours of an extent that is given back.
//!
//! Two free spans never touch, so a grain is the border of at most one of them and one table serves starts and ends.
//! It is cut by region into many sub-tables: growing one of them is the longest pause that it can cause, and a call,
//! which works in one place, finds what it needs side by side.

use hashbrown::HashTable;

/// Grains of a region: 256 KiB. A region has at most this many borders, when every second grain is free.
const REGION_GRAINS: u64 = 1 << 12;

/// Beyond 16 GiB, regions that far apart share a sub-table.
const TABLES_MAX: u64 = 1 << 16;

/// One border: its grain modulo 2^32, so that growth needs to look at nothing else, and the number of the span.
#[derive(Clone, Copy, Debug)]
struct Border {
    grain: u32,
    span: u32,
}

#[derive(Debug)]
pub(super) struct Borders {
    tables: Box<[HashTable<Border>]>,
}

/// The table takes its bucket from the low bits: neighbours lie in one cache line, and a region alone in its table has
/// no collisions once that is large. It takes its tag from the top bits, which the product fills.
fn hash(grain: u32) -> u64 {
    let spread = u64::from(grain).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> 57 << 57) | u64::from(grain)
}

impl Borders {
    pub(super) fn new(capacity_grains: u64) -> Self {
        let count = capacity_grains.div_ceil(REGION_GRAINS).clamp(1, TABLES_MAX);
        Self {
            tables: (0..count.next_power_of_two())
                .map(|_| HashTable::new())
                .collect(),
        }
    }

    /// The span with a border at `grain`; `is_border` says whether a given span has one there.
    pub(super) fn find(&self, grain: u64, is_border: impl Fn(u32) -> bool) -> Option<u32> {
        let low = grain as u32;
        let same = |border: &Border| border.grain == low && is_border(border.span);
        let border = self.tables[self.table_of(grain)].find(hash(low), same);
        border.map(|border| border.span)
    }

    /// Looks where [`Borders::find`] will look. Look-ups of a batch do not wait for each other, so their misses overlap.
    pub(super) fn guess(&self, grain: u64) -> Option<u32> {
        let low = grain as u32;
        self.tables[self.table_of(grain)]
            .find(hash(low), |_| true)
            .map(|border| border.span)
    }

    pub(super) fn insert(&mut self, grain: u64, span: u32) {
        let (table, grain) = (self.table_of(grain), grain as u32);
        let border = Border { grain, span };
        self.tables[table].insert_unique(hash(grain), border, |border| hash(border.grain));
    }

    pub(super) fn remove(&mut self, grain: u64, span: u32) {
        let (table, grain) = (self.table_of(grain), grain as u32);
        // Both borders of one span may be equal modulo 2^32; the entries are then the same and either will do.
        let same = |border: &Border| border.grain == grain && border.span == span;
        match self.tables[table].find_entry(hash(grain), same) {
            Ok(entry) => entry.remove(),
            Err(_) => unreachable!("every free span has both its borders in the table"),
        };
    }

    fn table_of(&self, grain: u64) -> usize {
        (grain / REGION_GRAINS) as usize & (self.tables.len() - 1)
    }
}
