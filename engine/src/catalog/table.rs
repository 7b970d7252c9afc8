//! From key to row: many small hash tables, so that the growth of one never holds a turn for long.

use super::{
    buckets::Buckets,
    rows::{Head, Rows},
};
use crate::Row;
use ziggurat_base::{ByteCount, Key, TenantId, hash::key_hash, prefetch::prefetch};

/// Sub-tables of a partition. At 10 million keys one of them has 2,441 entries, and doubling it takes some 10 us.
const SUB_TABLES: usize = 1 << SUB_BITS;
const SUB_BITS: u32 = 12;

/// A key with everything that a look-up needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) key: Key<'a>,
    pub(crate) hash: u64,
}

impl<'a> Probe<'a> {
    pub(crate) fn new(tenant: TenantId, key: Key<'a>) -> Self {
        Self {
            tenant,
            key,
            hash: key_hash(tenant, key),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    subs: Box<[Buckets]>,
    pub(crate) rows: Rows,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            subs: (0..SUB_TABLES).map(|_| Buckets::default()).collect(),
            rows: Rows::default(),
        }
    }
}

/// The sub-table of a hash, and what it knows of it.
fn split(hash: u64) -> (usize, u32) {
    ((hash >> 32) as usize & (SUB_TABLES - 1), hash as u32)
}

impl Table {
    /// The row of a key.
    #[inline]
    pub(crate) fn find(&self, probe: Probe<'_>) -> Option<Row> {
        let (sub, hash) = split(probe.hash);
        let same = |row| self.rows.is(Row(row), probe.tenant, probe.key.bytes());
        self.subs[sub].find(hash, same).map(Row)
    }

    /// Brings the place where [`Table::guess`] and [`Table::find`] look into the cache.
    pub(crate) fn prefetch(&self, probe: Probe<'_>) {
        let (sub, hash) = split(probe.hash);
        if let Some(line) = self.subs[sub].line(hash) {
            prefetch(line);
        }
    }

    /// Probably the row of a key, without looking at the rows: what to prefetch for [`Table::find`].
    pub(crate) fn guess(&self, probe: Probe<'_>) -> Option<Row> {
        let (sub, hash) = split(probe.hash);
        self.subs[sub].find(hash, |_| true).map(Row)
    }

    /// The row of a key, most likely the one that [`Table::guess`] said before.
    #[inline]
    pub(crate) fn find_guessed(&self, guess: Option<Row>, probe: Probe<'_>) -> Option<Row> {
        // A row that was freed meanwhile has no key.
        let same = |row: &Row| self.rows.is(*row, probe.tenant, probe.key.bytes());
        guess.filter(same).or_else(|| self.find(probe))
    }

    /// Adds a key that is not there; `None` when there are no more row numbers.
    pub(crate) fn insert(&mut self, probe: Probe<'_>) -> Option<Row> {
        let row = self.rows.insert(probe.tenant, probe.key, probe.hash)?;
        let (sub, hash) = split(probe.hash);
        self.subs[sub].insert(hash, row.0);
        Some(row)
    }

    /// Removes a key by its row.
    pub(crate) fn remove(&mut self, row: Row) {
        let (sub, hash) = split(self.rows.head(row).hash);
        self.subs[sub].remove(hash, row.0);
        self.rows.remove(row);
    }

    pub(crate) fn head(&self, row: Row) -> &Head {
        self.rows.head(row)
    }

    pub(crate) fn head_mut(&mut self, row: Row) -> &mut Head {
        self.rows.head_mut(row)
    }

    /// Bytes of memory taken.
    pub(crate) fn memory(&self) -> ByteCount {
        let tables: usize = self.subs.iter().map(Buckets::memory).sum();
        ByteCount((tables + size_of_val(&*self.subs)) as u64 + self.rows.memory().0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Probe, Table};
    use std::collections::BTreeMap;
    use ziggurat_base::{Key, TenantId, hash::Dice};

    #[test]
    fn agrees_with_an_ordered_map() {
        let mut table = Table::default();
        let mut oracle = BTreeMap::new();
        let mut dice = Dice::new(1);
        for _ in 0..40_000 {
            let text = format!("key-{}", dice.below(3000));
            let tenant = TenantId(dice.below(2) as u16);
            let probe = Probe::new(tenant, Key::new(text.as_bytes()).unwrap());
            assert_eq!(
                table.find(probe),
                oracle.get(&(tenant, text.clone())).copied()
            );
            match (table.find(probe), dice.below(2)) {
                (Some(row), 0) => {
                    table.remove(row);
                    oracle.remove(&(tenant, text));
                }
                (None, 1) => {
                    oracle.insert((tenant, text.clone()), table.insert(probe).unwrap());
                }
                _ => {}
            }
        }
        assert_eq!(table.rows.count(), oracle.len() as u64);
    }
}
