//! Parent, group and hint of the objects that have any, beside the rows so that the others do not pay for them.

use crate::{
    Row,
    command::{OwnedTags, Tags},
};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TagTable {
    by_row: BTreeMap<Row, OwnedTags>,
}

impl TagTable {
    /// Replaces the tags of a row; says whether it has any.
    pub(crate) fn set(&mut self, row: Row, tags: &Tags<'_>) -> bool {
        if tags.is_empty() {
            self.by_row.remove(&row);
            return false;
        }
        self.by_row.insert(row, tags.into());
        true
    }

    pub(crate) fn get(&self, row: Row) -> Option<&OwnedTags> {
        self.by_row.get(&row)
    }

    pub(crate) fn remove(&mut self, row: Row) {
        self.by_row.remove(&row);
    }

    pub(crate) fn count(&self) -> usize {
        self.by_row.len()
    }
}
