//! What a sequence of records comes to: the shortest one that says the same.

use std::collections::{BTreeMap, BTreeSet};
use ziggurat_base::{DirectoryId, Ticket};
use ziggurat_engine::record::{Cause, Record};

#[derive(Debug, Default)]
struct Directory {
    floor: Ticket,
    debts: BTreeSet<Ticket>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Image {
    directories: BTreeMap<DirectoryId, Directory>,
    absence: BTreeMap<u64, Ticket>,
    flight: BTreeMap<u64, Ticket>,
}

impl Image {
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut image = Self::default();
        records.iter().for_each(|record| image.apply(record));
        image
    }

    pub(crate) fn apply(&mut self, record: &Record) {
        match *record {
            Record::Directory { directory } => {
                self.directories.entry(directory).or_default();
            }
            Record::Debt { directory, ticket } => {
                let here = self.directories.entry(directory).or_default();
                here.debts.insert(ticket);
            }
            Record::DebtPaid { directory, ticket } => {
                let here = self.directories.entry(directory).or_default();
                here.debts.remove(&ticket);
            }
            Record::Floor { directory, ticket } => {
                let here = self.directories.entry(directory).or_default();
                here.floor = here.floor.max(ticket);
                let floor = here.floor;
                here.debts.retain(|debt| *debt > floor);
            }
            Record::KeyDebt {
                digest,
                upto,
                cause,
            } => {
                let dead = match cause {
                    Cause::Absence => &mut self.absence,
                    Cause::Flight => &mut self.flight,
                };
                let known = dead.entry(digest).or_default();
                *known = upto.max(*known);
            }
            Record::KeyPaid { digest } => {
                self.flight.remove(&digest);
            }
            Record::AbsencePaid => self.absence.clear(),
        }
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let directories = self.directories.iter().flat_map(|(directory, here)| {
            let directory = *directory;
            let floor = (here.floor > Ticket::NONE).then_some(Record::Floor {
                directory,
                ticket: here.floor,
            });
            let debts = here.debts.iter().map(move |ticket| Record::Debt {
                directory,
                ticket: *ticket,
            });
            [Record::Directory { directory }]
                .into_iter()
                .chain(floor)
                .chain(debts)
        });
        let dead = |dead: &BTreeMap<u64, Ticket>, cause| {
            let debt = move |(digest, upto): (&u64, &Ticket)| Record::KeyDebt {
                digest: *digest,
                upto: *upto,
                cause,
            };
            dead.iter().map(debt).collect::<Vec<_>>()
        };
        directories
            .chain(dead(&self.absence, Cause::Absence))
            .chain(dead(&self.flight, Cause::Flight))
    }

    /// Records that say it all.
    pub(crate) fn len(&self) -> usize {
        let of = |d: &Directory| 1 + usize::from(d.floor > Ticket::NONE) + d.debts.len();
        let directories: usize = self.directories.values().map(of).sum();
        directories + self.absence.len() + self.flight.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Image;
    use crate::journal::format::tests::all;
    use proptest::prelude::*;
    use ziggurat_base::{DirectoryId, Ticket};
    use ziggurat_engine::record::{Cause, Record};

    fn any_record() -> impl Strategy<Value = Record> {
        let directory = (0..3_u128).prop_map(DirectoryId);
        let ticket = (1..9_u64).prop_map(Ticket);
        let pair = (directory, ticket).boxed();
        let dead = (0..4_u64, 1..9_u64, any::<bool>()).prop_map(|(digest, upto, flight)| {
            let cause = if flight {
                Cause::Flight
            } else {
                Cause::Absence
            };
            Record::KeyDebt {
                digest,
                upto: Ticket(upto),
                cause,
            }
        });
        prop_oneof![
            1 => pair.clone().prop_map(|(directory, _)| Record::Directory { directory }),
            3 => pair.clone().prop_map(|(directory, ticket)| Record::Debt { directory, ticket }),
            2 => pair.clone().prop_map(|(directory, ticket)| Record::DebtPaid { directory, ticket }),
            1 => pair.prop_map(|(directory, ticket)| Record::Floor { directory, ticket }),
            3 => dead,
            2 => (0..4_u64).prop_map(|digest| Record::KeyPaid { digest }),
            1 => Just(Record::AbsencePaid),
        ]
    }

    #[test]
    fn what_is_paid_takes_no_room() {
        let image = Image::of(&all());
        // The directory, its floor.
        assert_eq!(image.len(), 2);
        assert_eq!(image.records().count(), 2);
    }

    proptest! {
        #[test]
        fn the_image_says_what_the_records_said(
            before in prop::collection::vec(any_record(), 0..60),
            after in prop::collection::vec(any_record(), 0..20),
        ) {
            let image = Image::of(&before);
            let short: Vec<_> = image.records().collect();
            prop_assert_eq!(short.len(), image.len());
            let whole = Image::of(&[before, after.clone()].concat());
            let again = Image::of(&[short, after].concat());
            prop_assert!(whole.records().eq(again.records()));
        }
    }
}
