//! Objects of the node's memory as its partition feeds them to a keeper: which are to be taken over to SSD, in which order,
//! and which are too many for the write budget.

use super::copies::{Copies, Copy};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use ziggurat_base::{Code, Result, SegmentId, Ticket};
use ziggurat_engine::ledger::Holding;
use ziggurat_tiers::ssd::{BATCH_BYTES, BATCH_OBJECTS};

/// What a keeper may let wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes that need not wait for a write budget.
    pub(super) now: u64,
    /// Bytes that need not wait for it longer than objects may.
    pub(super) soon: u64,
    /// Bytes of memory that may be kept from eviction by waiting.
    pub(super) waiting: u64,
}

impl Room {
    /// Nothing waits for a write budget.
    pub(super) const ENDLESS: Self = Self {
        now: u64::MAX,
        soon: u64::MAX,
        waiting: u64::MAX,
    };
}

/// When an object is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Next: somebody waits for its memory. It is not to wait for a write budget.
    First,
    /// After the others.
    Last,
}

/// What has become of the objects that were to be taken over to SSD, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Objects that wait.
    pub waiting: u64,
    /// Bytes of them.
    pub waiting_bytes: u64,
    /// Objects that are being taken over.
    pub under_way: u64,
    /// Bytes of them.
    pub under_way_bytes: u64,
    /// Objects that were taken over.
    pub done: u64,
    /// Objects that left memory before it was their turn.
    pub dropped: u64,
    /// Objects that no directory took: for want of room, or of write budget.
    pub refused: u64,
    /// Objects that could not be written.
    pub failed: u64,
}

impl Offload {
    fn note(&mut self, answer: &Result<()>) {
        let counter = match answer.as_ref().map_err(|error| error.code()) {
            Ok(()) => &mut self.done,
            Err(Code::ReplicaIsGone | Code::SegmentNotFound) => &mut self.dropped,
            Err(Code::UnableOffloading) => &mut self.refused,
            Err(_) => &mut self.failed,
        };
        *counter += 1;
    }
}

#[derive(Debug)]
struct Queued {
    ticket: Ticket,
    len: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// What lies in memory, by version.
    pub(super) held: BTreeMap<Ticket, Holding>,
    /// What is to be taken over, in order.
    queue: VecDeque<Queued>,
    /// Bytes of it.
    queued_bytes: u64,
    /// What is not: it came when the write budget was too far behind.
    turned_away: VecDeque<Ticket>,
    /// What is being taken over, or turned away.
    under_way: BTreeSet<Ticket>,
    /// Bytes of it.
    loaded_bytes: u64,
    /// What of it lay in the memory of an earlier incarnation.
    pub(super) earlier: BTreeSet<Ticket>,
    /// What is not handed out any more, with its segment, until that is acknowledged.
    pub(super) retiring: Vec<(SegmentId, Ticket)>,
    /// What of it is about to be acknowledged.
    pub(super) leaving: Vec<(SegmentId, Ticket)>,
    /// What is to come back into memory.
    pub(super) copies: Copies,
    /// What the owner is asked to forget, by directory, until that is acknowledged.
    pub(super) discards: VecDeque<(SegmentId, Vec<Ticket>)>,
    /// What has become of objects; the rest of it is counted when somebody asks.
    ends: Offload,
}

impl Feed {
    /// Takes an object into the queue, or among those that are turned away.
    pub(super) fn queue(&mut self, ticket: Ticket, len: u64, turn: Turn, room: &Room) {
        let queued = self.queued_bytes.saturating_add(len);
        let waiting = queued.saturating_add(self.loaded_bytes);
        let may_wait = turn == Turn::Last && queued <= room.soon && waiting <= room.waiting;
        if queued > room.now && !may_wait {
            self.turned_away.push_back(ticket);
            return;
        }
        self.queued_bytes = queued;
        match turn {
            Turn::First => self.queue.push_front(Queued { ticket, len }),
            Turn::Last => self.queue.push_back(Queued { ticket, len }),
        }
    }

    /// Takes what lies in memory and not on disk into the queue.
    pub(super) fn queue_missing(&mut self, is_on_disk: impl Fn(&Ticket) -> bool, room: &Room) {
        let held = self.held.values();
        let known = held.map(|holding| (holding.version.ticket, holding.len));
        let missing = known.filter(|(t, _)| !self.under_way.contains(t) && !is_on_disk(t));
        for (ticket, len) in missing.collect::<Vec<_>>() {
            self.queue(ticket, len, Turn::Last, room);
        }
    }

    /// Whether an object is in the queue, or out of it on its way.
    pub(super) fn is_queued(&self, ticket: Ticket) -> bool {
        self.under_way.contains(&ticket)
            || self.queue.iter().any(|queued| queued.ticket == ticket)
            || self.turned_away.contains(&ticket)
    }

    /// Whether nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.turned_away.is_empty() && self.under_way.is_empty()
    }

    /// Another partition asks for other things; what is on its way arrives.
    pub(super) fn begin_anew(&mut self) {
        self.retiring.clear();
        self.copies.clear();
        self.queue.clear();
        self.queued_bytes = 0;
        self.turned_away.clear();
        self.earlier = self.under_way.clone();
    }

    /// Takes the next objects for one append.
    pub(super) fn load(&mut self) -> Option<Vec<Holding>> {
        let (mut holdings, mut bytes) = (Vec::new(), 0);
        while holdings.len() < BATCH_OBJECTS
            && let Some(Queued { ticket, len }) = self.queue.front()
        {
            let (ticket, len) = (*ticket, *len);
            // It may have been retired meanwhile.
            let holding = self.held.get(&ticket).cloned();
            if holding.is_some() && !holdings.is_empty() && bytes + len > BATCH_BYTES.0 {
                break;
            }
            self.queue.pop_front();
            self.queued_bytes -= len;
            match holding {
                Some(holding) => {
                    bytes += len;
                    self.begin(holding, &mut holdings);
                }
                None => self.ends.dropped += 1,
            }
        }
        (!holdings.is_empty()).then_some(holdings)
    }

    /// Takes some of what is to be turned away.
    pub(super) fn load_turned_away(&mut self) -> Option<Vec<Holding>> {
        let mut holdings = Vec::new();
        while holdings.len() < BATCH_OBJECTS
            && let Some(ticket) = self.turned_away.pop_front()
        {
            if let Some(holding) = self.held.get(&ticket).cloned() {
                self.begin(holding, &mut holdings);
            }
        }
        (!holdings.is_empty()).then_some(holdings)
    }

    fn begin(&mut self, holding: Holding, holdings: &mut Vec<Holding>) {
        self.under_way.insert(holding.version.ticket);
        self.loaded_bytes += holding.len;
        holdings.push(holding);
    }

    /// What has become of objects so far.
    pub(super) fn counts(&self) -> Offload {
        Offload {
            waiting: (self.queue.len() + self.turned_away.len()) as u64,
            waiting_bytes: self.queued_bytes,
            under_way: self.under_way.len() as u64,
            under_way_bytes: self.loaded_bytes,
            ..self.ends
        }
    }

    /// An append has ended. When the memory became another member's meanwhile, some of it could not be read, and is to be taken
    /// over again.
    pub(super) fn end(
        &mut self,
        holdings: &[Holding],
        answers: &[Result<()>],
        is_same_member: bool,
    ) {
        for (holding, answer) in holdings.iter().zip(answers) {
            let (ticket, len) = (holding.version.ticket, holding.len);
            self.under_way.remove(&ticket);
            self.loaded_bytes -= len;
            self.earlier.remove(&ticket);
            if !is_same_member && self.held.contains_key(&ticket) {
                self.queued_bytes += len;
                self.queue.push_back(Queued { ticket, len });
            } else {
                self.ends.note(answer);
            }
        }
    }

    /// Takes what is to be forgotten and not on its way to disk: what the tier forgot before would arrive there after all.
    pub(super) fn discard(&mut self) -> Option<(SegmentId, Vec<Ticket>)> {
        let Self {
            discards,
            under_way,
            ..
        } = self;
        let has_landed = |tickets: &[Ticket]| !tickets.iter().any(|t| under_way.contains(t));
        let ready = discards
            .iter()
            .position(|(_, tickets)| has_landed(tickets))?;
        discards.remove(ready)
    }

    /// Takes what is retired and not on its way to disk.
    pub(super) fn retired(&mut self) -> Option<Vec<(SegmentId, Ticket)>> {
        let Self {
            retiring,
            under_way,
            ..
        } = self;
        let ready: Vec<_> = retiring
            .extract_if(.., |(_, ticket)| !under_way.contains(ticket))
            .collect();
        self.leaving.clone_from(&ready);
        (!ready.is_empty()).then_some(ready)
    }

    /// Takes the next copy from a directory, of a version that has nothing to be said of its last stay in memory.
    pub(super) fn next_copy(&mut self, from: Option<SegmentId>) -> Option<Copy> {
        let Self {
            copies,
            retiring,
            leaving,
            ..
        } = self;
        let is_leaving = |ticket| {
            let mut all = retiring.iter().chain(leaving.iter());
            all.any(|(_, other)| *other == ticket)
        };
        copies.next(from, is_leaving)
    }
}
