//! The names of the simulated directory: what is visible, what is durable, and the changes in between.

use super::{
    Crash,
    content::{Inode, Room},
};
use crate::disk::FileStat;
use std::{collections::BTreeMap, sync::Arc};
use ziggurat_base::hash::Dice;

type Table = BTreeMap<String, Arc<Inode>>;

/// A change of names.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A name for a file.
    Link(String, Arc<Inode>),
    /// No name.
    Unlink(String),
    /// Another name, in one step.
    Move(String, String, Arc<Inode>),
}

impl Change {
    fn apply(&self, table: &mut Table) {
        match self {
            Self::Link(name, inode) => {
                table.insert(name.clone(), Arc::clone(inode));
            }
            Self::Unlink(name) => {
                table.remove(name);
            }
            Self::Move(from, to, inode) => {
                table.remove(from);
                table.insert(to.clone(), Arc::clone(inode));
            }
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Names {
    visible: Table,
    durable: Table,
    /// What leads from the durable names to the visible ones.
    changes: Vec<Change>,
    /// How many changes are durable.
    synced: u64,
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<Arc<Inode>> {
        self.visible.get(name).cloned()
    }

    pub(super) fn list(&self) -> Vec<FileStat> {
        let files = self.visible.iter();
        files
            .map(|(name, inode)| FileStat {
                name: name.clone(),
                len: inode.len(),
            })
            .collect()
    }

    pub(super) fn apply(&mut self, change: Change) {
        change.apply(&mut self.visible);
        self.changes.push(change);
    }

    /// How many changes there were so far, for [`Self::sync`].
    pub(super) fn mark(&self) -> u64 {
        self.synced + self.changes.len() as u64
    }

    /// Makes the changes up to a mark durable.
    pub(super) fn sync(&mut self, mark: u64) {
        let count = mark.saturating_sub(self.synced);
        for change in self.changes.drain(..count as usize) {
            change.apply(&mut self.durable);
        }
        self.synced += count;
    }

    /// The names that a crash leaves, and their files.
    pub(super) fn after(&self, crash: Crash, dice: &mut Dice, room: &Arc<Room>) -> Self {
        let mut after = Self {
            durable: self.durable.clone(),
            ..Self::default()
        };
        match crash {
            Crash::Power => {
                for change in self.changes.iter().filter(|_| dice.below(2) == 0) {
                    change.apply(&mut after.durable);
                }
                after.visible = after.durable.clone();
            }
            Crash::Process => {
                after.visible = self.visible.clone();
                after.changes = self.changes.clone();
            }
        }
        after.replace_files(|inode| inode.after(crash, dice, room));
        after
    }

    /// Puts other files in the place of these, each once, whatever the number of its names.
    fn replace_files(&mut self, mut make: impl FnMut(&Inode) -> Arc<Inode>) {
        let mut made: Vec<(Arc<Inode>, Arc<Inode>)> = Vec::new();
        let mut replace = |inode: &mut Arc<Inode>| {
            let known = made.iter().find(|(old, _)| Arc::ptr_eq(old, inode));
            let new = known.map(|(_, new)| Arc::clone(new)).unwrap_or_else(|| {
                let new = make(inode);
                made.push((Arc::clone(inode), Arc::clone(&new)));
                new
            });
            *inode = new;
        };
        self.visible.values_mut().for_each(&mut replace);
        self.durable.values_mut().for_each(&mut replace);
        for change in &mut self.changes {
            match change {
                Change::Link(_, inode) | Change::Move(_, _, inode) => replace(inode),
                Change::Unlink(_) => {}
            }
        }
    }
}
