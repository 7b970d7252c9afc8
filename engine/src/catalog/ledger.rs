//! What owners tell of their segments: the order of a segment's stream, and the views of a segment that it replaces.
//!
//! A snapshot of a segment that had one before is taken into a new view beside the old one, so that everything stays
//! readable meanwhile: what is named moves over, and what is left in the old view when the snapshot is committed is swept
//! like a lost segment.

use super::{Catalog, directories::Snapshot, members};
use crate::{
    canary::{Canary, planted},
    command::{Answer, BATCH_MAX},
    ledger::{Change, LedgerBatch, LedgerReply, Verdict},
    segment::SegmentEvent,
};
use ziggurat_base::{Code, Error, MemberId, SegmentId, Ticket, Timestamp, hash::mix};

/// Old views of one segment: more snapshots in a row than this do not come to their end.
const VIEWS_MAX: usize = 4;

/// Where in its stream a segment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing has been told.
    #[default]
    New,
    /// In a snapshot; the next page.
    Paging(u64),
    /// After a snapshot; the last change.
    Live(u64),
}

/// The stream of one segment.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    generation: u64,
    stage: Stage,
    /// Whether a snapshot was ever committed.
    is_known: bool,
    /// The last batch and its answer, for its repetition.
    last: Option<(u64, LedgerReply)>,
    /// Old views that the snapshot under way replaces.
    pub(crate) old: Vec<u16>,
}

/// Tells two batches of one stream apart.
fn print_of(batch: &LedgerBatch) -> u64 {
    let fold = |words: &[u64]| words.iter().fold(0, |sum, word| mix(sum ^ word));
    match batch {
        LedgerBatch::Begin { generation } => fold(&[1, *generation]),
        LedgerBatch::Page {
            generation,
            number,
            holdings,
        } => {
            let tickets = holdings.iter().map(|h| h.version.ticket.0);
            tickets.fold(fold(&[2, *generation, *number]), |sum, t| mix(sum ^ t))
        }
        LedgerBatch::Commit {
            generation,
            sequence,
        } => fold(&[3, *generation, *sequence]),
        LedgerBatch::Delta {
            generation,
            after,
            changes,
        } => changes
            .iter()
            .fold(fold(&[4, *generation, *after]), |sum, change| {
                let (kind, ticket) = match change {
                    Change::Present(holding) => (1, holding.version.ticket),
                    Change::Gone(version) => (2, version.ticket),
                    Change::Refused(version) => (3, version.ticket),
                    Change::Forgotten(ticket) => (4, *ticket),
                    Change::Copied(write) => (5, *write),
                    Change::NotCopied(write) => (6, *write),
                };
                mix(mix(sum ^ kind) ^ ticket.0)
            }),
    }
}

fn items(batch: &LedgerBatch) -> usize {
    match batch {
        LedgerBatch::Begin { .. } | LedgerBatch::Commit { .. } => 0,
        LedgerBatch::Page { holdings, .. } => holdings.len(),
        LedgerBatch::Delta { changes, .. } => changes.len(),
    }
}

impl Ledger {
    /// Whether a snapshot was ever committed.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Another member goes on with the segment: its stream is a new one.
    pub(crate) fn hand_over(&mut self) {
        *self = Self {
            is_known: self.is_known,
            old: std::mem::take(&mut self.old),
            ..Self::default()
        };
    }

    /// Where the stream is after the batch.
    fn follow(&self, batch: &LedgerBatch) -> Option<(u64, Stage)> {
        let here = self.generation;
        match (batch, self.stage) {
            (LedgerBatch::Begin { generation }, _) if *generation > here => {
                Some((*generation, Stage::Paging(0)))
            }
            (
                LedgerBatch::Page {
                    generation, number, ..
                },
                Stage::Paging(next),
            ) if (*generation, *number) == (here, next) => Some((here, Stage::Paging(next + 1))),
            (
                LedgerBatch::Commit {
                    generation,
                    sequence,
                },
                Stage::Paging(_),
            ) if *generation == here => Some((here, Stage::Live(*sequence))),
            (
                LedgerBatch::Delta {
                    generation,
                    after,
                    changes,
                },
                Stage::Live(last),
            ) if (*generation, *after) == (here, last) => {
                let last = last.checked_add(changes.len() as u64)?;
                Some((here, Stage::Live(last)))
            }
            _ => None,
        }
    }
}

fn out_of_order(ledger: &Ledger) -> Error {
    let at = match ledger.stage {
        Stage::New => "a snapshot".to_owned(),
        Stage::Paging(next) => format!("page {next} of snapshot {}", ledger.generation),
        Stage::Live(last) => format!("a change after {last} of snapshot {}", ledger.generation),
    };
    Error::new(
        Code::LedgerOutOfOrder,
        format!("the ledger expects {at}: begin a new snapshot"),
    )
}

impl Catalog {
    /// Takes a batch of what the owner of a segment holds. Versions become readable as they are taken.
    ///
    /// # Errors
    /// `ClientNotFound`, `SegmentNotFound`, `IllegalClient`; `InvalidParams` for too many items; `LedgerOutOfOrder` when the
    /// batch does not follow the one before it.
    pub fn ledger(
        &mut self,
        now: Timestamp,
        member: MemberId,
        segment: SegmentId,
        batch: &LedgerBatch,
    ) -> Answer<LedgerReply> {
        let slot = self.told_by(member, segment)?;
        if items(batch) > BATCH_MAX {
            let what = format!(
                "{} items in one batch: {BATCH_MAX} are the most",
                items(batch)
            );
            return Err(Error::new(Code::InvalidParams, what));
        }
        let print = print_of(batch);
        let ledger = &self.fleet.slot(slot).ledger;
        if let Some((_, reply)) = ledger.last.as_ref().filter(|(last, _)| *last == print) {
            return Ok(reply.clone());
        }
        let Some((generation, stage)) = ledger.follow(batch) else {
            return Err(out_of_order(ledger));
        };
        let (slot, verdicts) = match batch {
            LedgerBatch::Begin { .. } => (self.begin_snapshot(slot)?, Vec::new()),
            LedgerBatch::Page { holdings, .. } => {
                let adopt = |holding| self.adopt(now, slot, holding);
                (slot, holdings.iter().map(adopt).collect())
            }
            LedgerBatch::Commit { .. } => {
                self.commit_snapshot(slot);
                (slot, Vec::new())
            }
            LedgerBatch::Delta { changes, .. } => {
                let lost = usize::from(planted(Canary::LedgerDeltaLost));
                let apply = |change| self.apply_change(now, slot, change);
                (slot, changes.iter().skip(lost).map(apply).collect())
            }
        };
        let begins = matches!(batch, LedgerBatch::Begin { .. });
        let is_first = begins && self.fleet.slot(slot).is_offering();
        let reply = LedgerReply { verdicts, is_first };
        let ledger = &mut self.fleet.slot_mut(slot).ledger;
        (ledger.generation, ledger.stage) = (generation, stage);
        ledger.last = Some((print, reply.clone()));
        self.settle();
        Ok(reply)
    }

    fn told_by(&mut self, member: MemberId, segment: SegmentId) -> Answer<u16> {
        if !self.members.alive(member) {
            return Err(members::unknown(member));
        }
        let found = self.fleet.find(segment);
        let serving = found.filter(|slot| self.fleet.slot(*slot).serves());
        let Some(slot) = serving else {
            return Err(members::not_mounted(segment));
        };
        let here = self.fleet.slot(slot);
        if here.is_shared() && here.member == MemberId::NOBODY {
            self.take_over(slot, member);
        } else if here.member != member {
            return Err(members::not_yours(segment));
        }
        Ok(slot)
    }

    /// The slot into which the snapshot goes.
    fn begin_snapshot(&mut self, slot: u16) -> Answer<u16> {
        let here = self.fleet.slot(slot);
        let Some(directory) = here.directory().filter(|_| here.is_owned()) else {
            return Ok(slot);
        };
        self.directories.begun(directory);
        if here.references == 0 {
            return Ok(slot);
        }
        let Some(new) = self.fleet.renew(slot, self.config.allocator) else {
            return Err(members::too_many_segments());
        };
        let mut ledger = std::mem::take(&mut self.fleet.slot_mut(slot).ledger);
        ledger.old.push(slot);
        if ledger.old.len() > VIEWS_MAX {
            let oldest = ledger.old.remove(0);
            self.fleet.step(oldest, SegmentEvent::Lose, &mut self.seen);
        }
        self.fleet.slot_mut(new).ledger = ledger;
        Ok(new)
    }

    fn commit_snapshot(&mut self, slot: u16) {
        let was_offering = self.fleet.slot(slot).is_offering();
        let ledger = &mut self.fleet.slot_mut(slot).ledger;
        let snapshot = match std::mem::replace(&mut ledger.is_known, true) {
            true => Snapshot::Later,
            false => Snapshot::First,
        };
        for old in std::mem::take(&mut ledger.old) {
            self.fleet.step(old, SegmentEvent::Lose, &mut self.seen);
        }
        if let Some(directory) = self.fleet.slot(slot).directory() {
            self.directories.settled(directory, snapshot);
        }
        if was_offering {
            self.fleet.open(slot);
        }
    }

    fn apply_change(&mut self, now: Timestamp, slot: u16, change: &Change) -> Verdict {
        match change {
            Change::Present(holding) => return self.adopt(now, slot, holding),
            Change::Gone(version) => self.drop_version(now, slot, version),
            Change::Refused(version) => self.refuse_offload(slot, version),
            Change::Forgotten(ticket) => self.forgotten(slot, *ticket),
            Change::Copied(write) => return self.copied(slot, *write),
            Change::NotCopied(write) => self.not_copied(slot, *write),
        }
        Verdict::Taken
    }

    fn forgotten(&mut self, slot: u16, ticket: Ticket) {
        match self.fleet.slot(slot).directory() {
            Some(directory) => {
                self.directories.pay(directory, ticket);
                self.buried(slot, ticket);
            }
            None => self.retirement_acknowledged(slot, ticket),
        }
    }

    /// A segment goes, with its old views; its directory is absent from now on.
    pub(super) fn lose_segment(&mut self, slot: u16, event: SegmentEvent) {
        let old = std::mem::take(&mut self.fleet.slot_mut(slot).ledger.old);
        let directory = self.fleet.slot(slot).directory();
        self.lose_copies(slot);
        for view in old {
            self.fleet.step(view, SegmentEvent::Lose, &mut self.seen);
        }
        match directory {
            Some(directory) => self.absent_from_now(directory),
            None => self.strand_retired(slot),
        }
        self.fleet.step(slot, event, &mut self.seen);
    }
}
