//! From key to row: many small hash tables, so that the growth of one never holds a turn for long.

use super::rows::{Head, Rows};
use crate::Row;
use hashbrown::HashTable;
use ziggurat_base::{ByteCount, Key, TenantId, hash::key_hash};

/// Sub-tables of a partition. At 10 million keys one of them has 2,441 entries, and doubling it takes some 0.1 ms.
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
    subs: Box<[HashTable<u32>]>,
    pub(crate) rows: Rows,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            subs: (0..SUB_TABLES).map(|_| HashTable::new()).collect(),
            rows: Rows::default(),
        }
    }
}

/// The middle bits: hashbrown uses the lowest for the bucket and the highest for its tags.
fn sub_of(hash: u64) -> usize {
    (hash >> 40) as usize & (SUB_TABLES - 1)
}

impl Table {
    /// The row of a key.
    pub(crate) fn find(&self, probe: Probe<'_>) -> Option<Row> {
        let same = |row: &u32| self.rows.is(Row(*row), probe.tenant, probe.key.bytes());
        self.subs[sub_of(probe.hash)]
            .find(probe.hash, same)
            .map(|row| Row(*row))
    }

    /// Probably the row of a key, without looking at the rows: what to prefetch for [`Table::find`].
    pub(crate) fn guess(&self, probe: Probe<'_>) -> Option<Row> {
        self.subs[sub_of(probe.hash)]
            .find(probe.hash, |_| true)
            .map(|row| Row(*row))
    }

    /// Adds a key that is not there; `None` when there are no more row numbers.
    pub(crate) fn insert(&mut self, probe: Probe<'_>) -> Option<Row> {
        let row = self.rows.insert(probe.tenant, probe.key, probe.hash)?;
        let rows = &self.rows;
        self.subs[sub_of(probe.hash)]
            .insert_unique(probe.hash, row.0, |row| rows.head(Row(*row)).hash);
        Some(row)
    }

    /// Removes a key by its row.
    pub(crate) fn remove(&mut self, row: Row) {
        let hash = self.rows.head(row).hash;
        let found = self.subs[sub_of(hash)].find_entry(hash, |other| *other == row.0);
        found.expect("a row in use is in its table").remove();
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
        let tables: usize = self.subs.iter().map(HashTable::allocation_size).sum();
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
