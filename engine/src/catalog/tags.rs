//! Parent, group and hint of the objects that have any, beside the rows so that the others do not pay for them.

use crate::{
    Row,
    command::{Hint, Tags},
};
use std::collections::BTreeMap;
use ziggurat_base::ObjectKey;

/// What is kept of [`Tags`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedTags {
    pub(crate) parent: Option<ObjectKey>,
    pub(crate) group: Option<ObjectKey>,
    pub(crate) hint: Hint,
}

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
        let owned = OwnedTags {
            parent: tags.parent.map(|key| key.to_owned()),
            group: tags.group.map(|key| key.to_owned()),
            hint: tags.hint,
        };
        self.by_row.insert(row, owned);
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
