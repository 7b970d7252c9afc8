//! The owner's end of a segment's ledger: what is told next, and what has to be told again.
//!
//! A stream begins with a snapshot of the inventory and goes on with changes. Notes are never dropped: one that was made
//! before a snapshot and is part of it is told again afterwards, which is harmless; one that no inventory shows (that a
//! version was refused or forgotten) would be missed.

use crate::{
    command::BATCH_MAX,
    ledger::{Change, Holding, LedgerBatch, Version},
};
use std::collections::VecDeque;
use ziggurat_base::Ticket;

/// What has happened at the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// It holds the version now.
    Present(Ticket),
    /// It does not hold the version any more.
    Gone(Version),
    /// It will not take the version over from memory.
    Refused(Version),
    /// It has done what it was asked to: it does not hold the version and will not come to hold it.
    Forgotten(Ticket),
    /// A write that it was asked for has copied its version.
    Copied(Ticket),
    /// A write that it was asked for has come to nothing.
    NotCopied(Ticket),
}

/// How far a walk over an inventory has come; its owner gives the numbers a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub [u64; 2]);

/// What the owner of a segment holds.
pub trait Inventory {
    /// One version.
    fn find(&self, ticket: Ticket) -> Option<Holding>;
    /// Versions from a place on, at most `most`, and where to go on. What is held all the time comes at least once.
    fn page(&self, from: Place, most: usize) -> (Vec<Holding>, Option<Place>);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// A snapshot is to begin.
    #[default]
    Begin,
    /// Some of it is told.
    Paging { number: u64, from: Option<Place> },
    /// It is complete.
    Live,
}

/// A batch that has no answer yet, and what to do once it has.
#[derive(Debug)]
struct Sent {
    batch: LedgerBatch,
    /// What it tells, with what there was nothing to say of: none counts as told before those that it follows.
    notes: Vec<Note>,
    then: Stage,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Teller {
    generation: u64,
    /// Changes told of this snapshot.
    sequence: u64,
    stage: Stage,
    notes: VecDeque<Note>,
    sent: Option<Sent>,
    noted: u64,
    told: u64,
}

impl Teller {
    /// Notes what has happened; it is told in this order.
    pub fn note(&mut self, note: Note) {
        self.notes.push_back(note);
        self.noted += 1;
    }

    /// How many notes there were.
    #[must_use]
    pub fn noted(&self) -> u64 {
        self.noted
    }

    /// How many of them have been told and answered.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Begins a new snapshot: the partition does not know where this stream is, or is another one.
    pub fn restart(&mut self) {
        if let Some(sent) = self.sent.take() {
            sent.notes
                .into_iter()
                .rev()
                .for_each(|note| self.notes.push_front(note));
        }
        self.stage = Stage::Begin;
    }

    /// Whether everything is told and answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Live && self.notes.is_empty() && self.sent.is_none()
    }

    /// What to tell now: again what was not answered, else the next batch; `None` when there is nothing.
    pub fn next(&mut self, inventory: &dyn Inventory) -> Option<&LedgerBatch> {
        if self.sent.is_none() {
            self.sent = self.compose(inventory);
        }
        self.sent.as_ref().map(|sent| &sent.batch)
    }

    /// The batch has been answered.
    pub fn answered(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.stage = sent.then;
            self.told += sent.notes.len() as u64;
            if let LedgerBatch::Delta { changes, .. } = &sent.batch {
                self.sequence += changes.len() as u64;
            }
        }
    }

    fn compose(&mut self, inventory: &dyn Inventory) -> Option<Sent> {
        let plain = |batch, then| {
            Some(Sent {
                batch,
                notes: Vec::new(),
                then,
            })
        };
        match self.stage {
            Stage::Begin => {
                self.generation += 1;
                self.sequence = 0;
                let generation = self.generation;
                let then = Stage::Paging {
                    number: 0,
                    from: Some(Place::default()),
                };
                plain(LedgerBatch::Begin { generation }, then)
            }
            Stage::Paging {
                number,
                from: Some(from),
            } => {
                let (holdings, next) = inventory.page(from, BATCH_MAX);
                let batch = LedgerBatch::Page {
                    generation: self.generation,
                    number,
                    holdings,
                };
                let then = Stage::Paging {
                    number: number + 1,
                    from: next,
                };
                plain(batch, then)
            }
            Stage::Paging { from: None, .. } => {
                let batch = LedgerBatch::Commit {
                    generation: self.generation,
                    sequence: 0,
                };
                plain(batch, Stage::Live)
            }
            Stage::Live => self.compose_delta(inventory),
        }
    }

    fn compose_delta(&mut self, inventory: &dyn Inventory) -> Option<Sent> {
        let mut notes = Vec::new();
        let mut changes = Vec::new();
        while changes.len() < BATCH_MAX
            && let Some(note) = self.notes.pop_front()
        {
            let change = match &note {
                // What is not held any more has a note of its own behind this one.
                Note::Present(ticket) => inventory.find(*ticket).map(Change::Present),
                Note::Gone(version) => Some(Change::Gone(version.clone())),
                Note::Refused(version) => Some(Change::Refused(version.clone())),
                Note::Forgotten(ticket) => Some(Change::Forgotten(*ticket)),
                Note::Copied(write) => Some(Change::Copied(*write)),
                Note::NotCopied(write) => Some(Change::NotCopied(*write)),
            };
            changes.extend(change);
            notes.push(note);
        }
        if changes.is_empty() {
            // Nothing was left to say of them, and everything before them has been answered.
            self.told += notes.len() as u64;
            return None;
        }
        Some(Sent {
            batch: LedgerBatch::Delta {
                generation: self.generation,
                after: self.sequence,
                changes,
            },
            notes,
            then: Stage::Live,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Inventory, Note, Place, Teller};
    use crate::ledger::{Change, Holding, LedgerBatch, Version};
    use std::collections::BTreeMap;
    use ziggurat_base::{Crc32, ObjectKey, Ticket};

    #[derive(Default)]
    struct Shelf(BTreeMap<Ticket, Holding>);

    impl Shelf {
        fn put(&mut self, ticket: u64) {
            let holding = Holding {
                version: version(ticket),
                len: ticket,
                stored_len: ticket,
                crc: Crc32(1),
                tags: crate::command::OwnedTags::default(),
                placement: None,
            };
            self.0.insert(Ticket(ticket), holding);
        }
    }

    impl Inventory for Shelf {
        fn find(&self, ticket: Ticket) -> Option<Holding> {
            self.0.get(&ticket).cloned()
        }

        fn page(&self, from: Place, most: usize) -> (Vec<Holding>, Option<Place>) {
            let mut rest = self.0.range(Ticket(from.0[0])..);
            let page: Vec<_> = rest
                .by_ref()
                .take(most)
                .map(|(_, holding)| holding.clone())
                .collect();
            (page, rest.next().map(|(ticket, _)| Place([ticket.0, 0])))
        }
    }

    fn version(ticket: u64) -> Version {
        Version {
            tenant: "default".into(),
            key: ObjectKey::new(format!("k{ticket}")).unwrap(),
            ticket: Ticket(ticket),
        }
    }

    /// Everything that is told until there is nothing more.
    fn tell(teller: &mut Teller, shelf: &Shelf) -> Vec<LedgerBatch> {
        let mut told = Vec::new();
        while let Some(batch) = teller.next(shelf) {
            told.push(batch.clone());
            teller.answered();
        }
        told
    }

    #[test]
    fn a_stream_is_a_snapshot_and_then_changes() {
        let mut shelf = Shelf::default();
        (1..=1000).for_each(|ticket| shelf.put(ticket));
        let mut teller = Teller::default();
        let told = tell(&mut teller, &shelf);
        assert!(matches!(told[0], LedgerBatch::Begin { generation: 1 }));
        let pages = told[1..3].iter().map(|batch| match batch {
            LedgerBatch::Page { holdings, .. } => holdings.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(pages.sum::<usize>(), 1000);
        assert_eq!(
            told[3],
            LedgerBatch::Commit {
                generation: 1,
                sequence: 0
            }
        );
        assert!(teller.is_idle());
        shelf.put(2000);
        teller.note(Note::Present(Ticket(2000)));
        teller.note(Note::Present(Ticket(3000)));
        teller.note(Note::Gone(version(3000)));
        let told = tell(&mut teller, &shelf);
        let LedgerBatch::Delta {
            after: 0, changes, ..
        } = &told[0]
        else {
            panic!("{told:?}");
        };
        assert!(
            matches!(&changes[..], [Change::Present(_), Change::Gone(_)]),
            "what is gone is not told to be there"
        );
        teller.note(Note::Forgotten(Ticket(7)));
        assert!(matches!(
            tell(&mut teller, &shelf)[0],
            LedgerBatch::Delta { after: 2, .. }
        ));
    }

    #[test]
    fn what_has_no_answer_is_told_again_as_it_was() {
        let shelf = Shelf::default();
        let mut teller = Teller::default();
        tell(&mut teller, &shelf);
        teller.note(Note::Forgotten(Ticket(7)));
        let first = teller.next(&shelf).cloned();
        teller.note(Note::Forgotten(Ticket(8)));
        assert_eq!(teller.next(&shelf).cloned(), first);
    }

    #[test]
    fn what_needs_no_word_is_not_told_before_what_it_follows() {
        let mut shelf = Shelf::default();
        let mut teller = Teller::default();
        tell(&mut teller, &shelf);
        shelf.put(7);
        teller.note(Note::Present(Ticket(7)));
        teller.note(Note::Present(Ticket(8)));
        for _ in 0..2 {
            assert!(teller.next(&shelf).is_some());
            assert_eq!(teller.told(), 0, "nothing has an answer");
            teller.restart();
            (0..3).for_each(|_| {
                teller.next(&shelf);
                teller.answered();
            });
        }
        tell(&mut teller, &shelf);
        assert_eq!((teller.told(), teller.noted()), (2, 2));
        teller.note(Note::Present(Ticket(8)));
        assert_eq!(teller.next(&shelf), None);
        assert_eq!((teller.told(), teller.noted()), (3, 3));
    }

    #[test]
    fn a_new_snapshot_loses_no_note() {
        let shelf = Shelf::default();
        let mut teller = Teller::default();
        tell(&mut teller, &shelf);
        teller.note(Note::Refused(version(7)));
        teller.note(Note::Forgotten(Ticket(7)));
        let _sent = teller.next(&shelf);
        teller.note(Note::Forgotten(Ticket(8)));
        teller.restart();
        let told = tell(&mut teller, &shelf);
        assert!(matches!(told[0], LedgerBatch::Begin { generation: 2 }));
        let LedgerBatch::Delta {
            after: 0, changes, ..
        } = told.last().unwrap()
        else {
            panic!("{told:?}");
        };
        assert_eq!(
            changes[..],
            [
                Change::Refused(version(7)),
                Change::Forgotten(Ticket(7)),
                Change::Forgotten(Ticket(8))
            ]
        );
    }
}
