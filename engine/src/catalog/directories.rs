//! What keeps the dead dead: the directories that were ever mounted, and what none of them may bring back.
//!
//! Three kinds of facts, durable as [`Record`]s. *Debts* name one version that one directory must not offer again; they are
//! paid when its owner has forgotten the version. *Floors* cover everything up to a ticket in one directory. *Debts of keys*
//! cover every version of a key up to a ticket wherever it lies; they are made only while somebody may hold what the
//! partition does not know of: while a directory is absent, or a version on its way. Each kind is bounded, and gives way to
//! the floors: then more is forgotten than need be, never less.

use crate::record::{Cause, Record};
use std::collections::{BTreeMap, BTreeSet};
use ziggurat_base::{Code, DirectoryId, Error, Ticket};

/// The most directories that a partition remembers.
pub(super) const DIRECTORIES_MAX: usize = 4096;

/// Stands for the memory of all nodes, which is away from the beginning of a life of the partition until everybody who was
/// there in the life before has offered what it holds. No directory has this number.
pub(super) const MEMORY: DirectoryId = DirectoryId(0);

/// The most debts of one directory.
pub(super) const DEBTS_MAX: usize = 65_536;

/// The most debts of keys of each cause.
pub(super) const KEY_DEBTS_MAX: usize = 1 << 20;

/// Which snapshot of a mount has been committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Snapshot {
    First,
    Later,
}

/// What the partition knows of what a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// Everything.
    Full,
    /// It is mounted, and may get new versions, but has not told all that it holds.
    Partial,
    /// It is away. It holds nothing newer than this.
    Stale(Ticket),
}

#[derive(Debug)]
struct Directory {
    floor: Ticket,
    /// Versions to forget, with the mount in whose time the debt was made or last seen to be owed.
    debts: BTreeMap<Ticket, u64>,
    /// How often it was mounted.
    mounts: u64,
    /// Debts of earlier mounts from here on are still to be gone through.
    unproved: Option<Ticket>,
    knowledge: Knowledge,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            floor: Ticket::NONE,
            debts: BTreeMap::new(),
            mounts: 0,
            unproved: None,
            knowledge: Knowledge::Partial,
        }
    }
}

impl Directory {
    /// Whether it may hold something that the partition does not know of and would adopt.
    fn may_surprise(&self) -> bool {
        match self.knowledge {
            Knowledge::Full => false,
            Knowledge::Partial => true,
            Knowledge::Stale(newest) => self.floor < newest,
        }
    }
}

/// Dead versions of keys, for one cause.
#[derive(Debug, Default)]
struct DeadKeys {
    by_digest: BTreeMap<u64, Ticket>,
    by_ticket: BTreeSet<(Ticket, u64)>,
}

impl DeadKeys {
    /// Says whether it was not covered before.
    fn insert(&mut self, digest: u64, upto: Ticket) -> bool {
        let before = self.by_digest.get(&digest).copied();
        if before.is_some_and(|before| before >= upto) {
            return false;
        }
        if let Some(before) = before {
            self.by_ticket.remove(&(before, digest));
        }
        self.by_digest.insert(digest, upto);
        self.by_ticket.insert((upto, digest));
        true
    }

    fn remove(&mut self, digest: u64) -> bool {
        let upto = self.by_digest.remove(&digest);
        upto.is_some_and(|upto| self.by_ticket.remove(&(upto, digest)))
    }

    /// Takes out what is oldest while there is too much; says up to which ticket.
    fn spill(&mut self) -> Option<Ticket> {
        if self.by_digest.len() <= KEY_DEBTS_MAX {
            return None;
        }
        let (upto, digest) = self.by_ticket.pop_first()?;
        self.by_digest.remove(&digest);
        Some(upto)
    }

    fn covers(&self, digest: u64, ticket: Ticket) -> bool {
        self.by_digest
            .get(&digest)
            .is_some_and(|upto| ticket <= *upto)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Directories {
    by_id: BTreeMap<DirectoryId, Directory>,
    absence: DeadKeys,
    flight: DeadKeys,
    /// Paid debts of keys whose memory is given back by and by.
    fading: DeadKeys,
    /// Directories that may surprise.
    surprises: u64,
    debts: u64,
    records: Vec<Record>,
    /// Whether somebody keeps the records: nothing that outlives its owner is mounted otherwise.
    pub(super) durable: bool,
}

impl Directories {
    /// Takes what an earlier life has left. Every directory is absent until it has told what it holds.
    pub(super) fn absorb(&mut self, newest: Ticket, records: impl IntoIterator<Item = Record>) {
        self.durable = true;
        for record in records {
            match record {
                Record::Directory { directory } => {
                    self.by_id.entry(directory).or_default();
                }
                Record::Debt { directory, ticket } => {
                    let here = self.by_id.entry(directory).or_default();
                    here.debts.insert(ticket, 0);
                }
                Record::DebtPaid { directory, ticket } => {
                    let here = self.by_id.entry(directory).or_default();
                    here.debts.remove(&ticket);
                }
                Record::Floor { directory, ticket } => {
                    let here = self.by_id.entry(directory).or_default();
                    here.floor = here.floor.max(ticket);
                    here.debts = here.debts.split_off(&Ticket(here.floor.0 + 1));
                }
                Record::KeyDebt {
                    digest,
                    upto,
                    cause,
                } => {
                    self.dead(cause).insert(digest, upto);
                }
                Record::KeyPaid { digest } => {
                    self.flight.remove(digest);
                }
                Record::AbsencePaid => self.absence = DeadKeys::default(),
            }
        }
        // What was on its way has arrived at a directory, or nowhere; and all of them are absent now.
        for (digest, upto) in std::mem::take(&mut self.flight).by_digest {
            self.bury(digest, upto, Cause::Absence);
            self.note(Record::KeyPaid { digest });
        }
        for here in self.by_id.values_mut() {
            here.knowledge = Knowledge::Stale(newest);
        }
        self.debts = self.by_id.values().map(|d| d.debts.len() as u64).sum();
        self.recount();
    }

    fn dead(&mut self, cause: Cause) -> &mut DeadKeys {
        match cause {
            Cause::Absence => &mut self.absence,
            Cause::Flight => &mut self.flight,
        }
    }

    /// What has to be durable before the answer of the call leaves.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    pub(super) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    fn note(&mut self, record: Record) {
        if self.durable {
            self.records.push(record);
        }
    }

    fn recount(&mut self) {
        self.surprises = self.by_id.values().filter(|d| d.may_surprise()).count() as u64;
    }

    /// Directories that are away or have not told what they hold, debts, and debts of keys.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let unknown =
            |(id, d): &(&DirectoryId, &Directory)| **id != MEMORY && d.knowledge != Knowledge::Full;
        let absent = self.by_id.iter().filter(unknown).count();
        let keys = self.absence.by_digest.len() + self.flight.by_digest.len();
        (absent as u64, self.debts, keys as u64)
    }

    /// A directory is mounted.
    ///
    /// # Errors
    /// `UnavailableInCurrentMode` when nobody keeps the records, `KeysUltraLimit` beyond [`DIRECTORIES_MAX`].
    pub(super) fn mounted(&mut self, directory: DirectoryId) -> Result<(), Error> {
        if !self.durable {
            return Err(Error::new(
                Code::UnavailableInCurrentMode,
                "space that outlives its process needs a master that remembers what was removed: start it with --state-dir",
            ));
        }
        if !self.by_id.contains_key(&directory) {
            if self.by_id.len() >= DIRECTORIES_MAX {
                let what = format!(
                    "{DIRECTORIES_MAX} directories were mounted already; start the master on a fresh --state-dir to forget them"
                );
                return Err(Error::new(Code::KeysUltraLimit, what));
            }
            self.by_id.insert(directory, Directory::default());
            self.note(Record::Directory { directory });
        }
        if let Some(here) = self.by_id.get_mut(&directory) {
            here.mounts += 1;
            here.unproved = None;
        }
        self.know(directory, Knowledge::Partial);
        Ok(())
    }

    /// Owners of an earlier life may offer what lies in their memory.
    pub(super) fn expect_memory(&mut self) {
        let here = self.by_id.entry(MEMORY).or_default();
        here.mounts += 1;
        here.unproved = None;
        // Known before or not: absorbing it twice changes nothing.
        self.note(Record::Directory { directory: MEMORY });
        self.know(MEMORY, Knowledge::Partial);
    }

    /// Nobody who is known has a version in memory any more: it is owed for as long as one may come who is not known.
    pub(super) fn discharge_memory(&mut self, ticket: Ticket) {
        let Some(here) = self.by_id.get_mut(&MEMORY) else {
            return;
        };
        if here.knowledge == Knowledge::Full {
            self.pay(MEMORY, ticket);
        } else {
            // As if made before this life: it ends with the expecting.
            here.debts.insert(ticket, 0);
        }
    }

    fn know(&mut self, directory: DirectoryId, knowledge: Knowledge) {
        if let Some(here) = self.by_id.get_mut(&directory) {
            here.knowledge = knowledge;
            self.recount();
        }
    }

    /// The directory is not mounted any more.
    pub(super) fn left(&mut self, directory: DirectoryId, newest: Ticket) {
        self.know(directory, Knowledge::Stale(newest));
    }

    /// A snapshot of the directory begins.
    pub(super) fn begun(&mut self, directory: DirectoryId) {
        self.know(directory, Knowledge::Partial);
    }

    /// The snapshot is complete. The first one of all memory also tells which debts from before it are paid: what was not
    /// offered is not there. A directory has to say so itself: what it does not name may be out of its index and still on its
    /// disk, when no tombstone could be written. So after its first snapshot it is asked for the debts from before it.
    pub(super) fn settled(&mut self, directory: DirectoryId, snapshot: Snapshot) {
        let Some(here) = self.by_id.get_mut(&directory) else {
            return;
        };
        if snapshot == Snapshot::First {
            here.unproved = Some(Ticket::NONE);
        }
        self.know(directory, Knowledge::Full);
        if self.surprises == 0 && !self.absence.by_digest.is_empty() {
            self.fading = std::mem::take(&mut self.absence);
            self.note(Record::AbsencePaid);
        }
    }

    /// Goes through debts from before a first snapshot, and gives memory back, in steps. Debts of all memory are struck out;
    /// the others have to be asked for again.
    pub(super) fn settle(&mut self, mut take: impl FnMut() -> bool) -> Vec<(DirectoryId, Ticket)> {
        while !self.fading.by_ticket.is_empty() && take() {
            self.fading.by_ticket.pop_first();
            self.fading.by_digest.pop_first();
        }
        let mut old = Vec::new();
        for (directory, here) in &mut self.by_id {
            while let Some(from) = here.unproved {
                if !take() {
                    break;
                }
                let next = here
                    .debts
                    .range(from..)
                    .next()
                    .map(|(t, mount)| (*t, *mount));
                here.unproved = next.map(|(ticket, _)| Ticket(ticket.0.saturating_add(1)));
                old.extend(
                    next.filter(|(_, mount)| *mount < here.mounts)
                        .map(|(ticket, _)| (*directory, ticket)),
                );
            }
        }
        let (paid, asked): (Vec<_>, Vec<_>) = old.into_iter().partition(|(id, _)| *id == MEMORY);
        for (directory, ticket) in paid {
            self.pay(directory, ticket);
        }
        asked
    }

    /// Whether a version that is not in the catalog must stay out of it.
    pub(super) fn refuses(&self, directory: DirectoryId, digest: u64, ticket: Ticket) -> bool {
        let by_directory = |d: &Directory| ticket <= d.floor || d.debts.contains_key(&ticket);
        self.by_id.get(&directory).is_none_or(by_directory)
            || self.absence.covers(digest, ticket)
            || self.flight.covers(digest, ticket)
    }

    /// Whether the version is one that the directory was told to forget. A floor says nothing of a version that is readable.
    pub(super) fn owes(&self, directory: DirectoryId, ticket: Ticket) -> bool {
        let here = self.by_id.get(&directory);
        here.is_some_and(|d| d.debts.contains_key(&ticket))
    }

    /// The directory must forget a version.
    pub(super) fn owe(&mut self, directory: DirectoryId, ticket: Ticket) {
        let Some(here) = self.by_id.get_mut(&directory) else {
            return;
        };
        // The floor keeps it dead; its owner has to be asked until it has forgotten it all the same.
        let is_covered = ticket <= here.floor;
        let known = here.debts.insert(ticket, here.mounts).is_some();
        let spilt = (here.debts.len() > DEBTS_MAX).then(|| here.debts.pop_first());
        if !known {
            self.debts += 1;
            if !is_covered {
                self.note(Record::Debt { directory, ticket });
            }
        }
        if let Some((oldest, _)) = spilt.flatten() {
            self.debts -= 1;
            self.raise(directory, oldest);
        }
    }

    /// The directory's owner has forgotten a version.
    pub(super) fn pay(&mut self, directory: DirectoryId, ticket: Ticket) {
        let here = self.by_id.get_mut(&directory);
        if here.is_some_and(|d| d.debts.remove(&ticket).is_some()) {
            self.debts -= 1;
            self.note(Record::DebtPaid { directory, ticket });
        }
    }

    /// Versions that the directory's owner has yet to forget.
    pub(super) fn debts(&self, directory: DirectoryId) -> impl Iterator<Item = Ticket> + '_ {
        let here = self.by_id.get(&directory);
        here.into_iter().flat_map(|d| d.debts.keys().copied())
    }

    /// Nothing up to `floor` comes back from the directory. Debts that it covers stay until they are paid, for their
    /// versions have still to be forgotten.
    pub(super) fn raise(&mut self, directory: DirectoryId, floor: Ticket) {
        let here = self.by_id.get_mut(&directory).filter(|d| d.floor < floor);
        if let Some(here) = here {
            here.floor = floor;
            self.note(Record::Floor {
                directory,
                ticket: floor,
            });
            self.recount();
        }
    }

    /// As [`Self::raise`], for every directory that may hold what the partition does not know of.
    pub(super) fn raise_absent(&mut self, floor: Ticket) {
        if self.surprises == 0 {
            return;
        }
        let absent = self.by_id.iter().filter(|(_, d)| d.may_surprise());
        let absent: Vec<_> = absent.map(|(directory, _)| *directory).collect();
        for directory in absent {
            self.raise(directory, floor);
        }
    }

    /// Whether a directory may hold what the partition does not know of.
    pub(super) fn may_surprise(&self) -> bool {
        self.surprises > 0
    }

    /// No version of the key up to a ticket comes back.
    pub(super) fn bury(&mut self, digest: u64, upto: Ticket, cause: Cause) {
        let dead = self.dead(cause);
        if !dead.insert(digest, upto) {
            return;
        }
        let spilt = dead.spill();
        self.note(Record::KeyDebt {
            digest,
            upto,
            cause,
        });
        let Some(floor) = spilt else { return };
        let all: Vec<_> = match cause {
            Cause::Absence => return self.raise_absent(floor),
            Cause::Flight => self.by_id.keys().copied().collect(),
        };
        for directory in all {
            self.raise(directory, floor);
        }
    }

    /// What was on its way of the key may have arrived where nobody sees it.
    pub(super) fn strand(&mut self, digest: u64) {
        if self.surprises > 0
            && let Some(upto) = self.flight.by_digest.get(&digest).copied()
        {
            self.bury(digest, upto, Cause::Absence);
        }
    }

    /// Nothing of the key is on its way any more.
    pub(super) fn arrived(&mut self, digest: u64) {
        if self.flight.remove(digest) {
            self.note(Record::KeyPaid { digest });
        }
    }

    pub(super) fn memory(&self) -> u64 {
        let keys = self.absence.by_digest.len() + self.flight.by_digest.len();
        (keys * 48) as u64 + self.debts * 24
    }
}
