//! The master's side of what nodes with directories tell and are told: ledgers come in, effects go out in order, and
//! what must outlive the master is kept.

use super::{
    node::inbox::receive,
    world::{Process, World},
};
use std::collections::BTreeMap;
use ziggurat_base::{MemberId, Placement, SegmentId, Ticket};
use ziggurat_engine::{
    command::{Answer, Effect},
    ledger::{Change, Holding, LedgerBatch, LedgerReply, Verdict},
    record::Record,
};

/// One member's connection: its number, and messages sent on it.
#[derive(Clone, Copy, Debug, Default)]
struct Mail {
    connection: u64,
    sent: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    mail: BTreeMap<MemberId, Mail>,
    /// The state directory.
    records: Vec<Record>,
    /// Objects that became readable by what nodes told, in this era.
    pub(crate) adopted: u64,
}

impl Letters {
    /// A master begins: what it said before is void, what was kept is there.
    pub(crate) fn begin(&mut self) -> Vec<Record> {
        self.mail.clear();
        self.adopted = 0;
        self.records.clone()
    }

    pub(crate) fn keep(&mut self, records: Vec<Record>) {
        self.records.extend(records);
    }
}

/// What a batch says is held.
fn told(batch: &LedgerBatch) -> Vec<Ticket> {
    match batch {
        LedgerBatch::Page { holdings, .. } => holdings.iter().map(|h| h.version.ticket).collect(),
        LedgerBatch::Delta { changes, .. } => changes
            .iter()
            .map(|change| match change {
                Change::Present(holding) => holding.version.ticket,
                _ => Ticket::NONE,
            })
            .collect(),
        LedgerBatch::Begin { .. } | LedgerBatch::Commit { .. } => Vec::new(),
    }
}

/// What of a snapshot was taken on where it lies in memory.
fn in_memory<'a>(
    batch: &'a LedgerBatch,
    verdicts: &'a [Verdict],
) -> impl Iterator<Item = (&'a Holding, &'a Placement)> {
    let holdings = match batch {
        LedgerBatch::Page { holdings, .. } => &holdings[..],
        _ => &[],
    };
    let taken = holdings
        .iter()
        .zip(verdicts)
        .filter(|(_, verdict)| **verdict == Verdict::Taken);
    taken.filter_map(|(holding, _)| Some((holding, holding.placement.as_ref()?)))
}

/// The writes of a batch that the partition takes for copies.
fn copied(batch: &LedgerBatch, reply: &LedgerReply) -> Vec<Ticket> {
    let LedgerBatch::Delta { changes, .. } = batch else {
        return Vec::new();
    };
    let judged = changes.iter().zip(&reply.verdicts);
    let taken = judged.filter(|(_, verdict)| **verdict == Verdict::Taken);
    taken
        .filter_map(|(change, _)| match change {
            Change::Copied(write) => Some(*write),
            _ => None,
        })
        .collect()
}

impl World {
    /// Takes a batch of what a node holds.
    pub(crate) fn ledger(
        &mut self,
        member: MemberId,
        segment: SegmentId,
        batch: &LedgerBatch,
    ) -> Answer<LedgerReply> {
        let now = self.master_time();
        let before = self.master.catalog.stats();
        let reply = self.master.catalog.ledger(now, member, segment, batch);
        let after = self.master.catalog.stats();
        self.master.letters.adopted +=
            after.objects + (after.dropped - before.dropped) - before.objects;
        self.outcome
            .tell(|| format!("{member} tells {segment} {batch:?}: {reply:?}"));
        if let Ok(reply) = &reply {
            let verdicts = told(batch).into_iter().zip(&reply.verdicts);
            let taken = verdicts.filter(|(_, verdict)| **verdict == Verdict::Taken);
            let at = self.now;
            taken.for_each(|(ticket, _)| self.oracle.told(at, ticket));
            for (holding, placement) in in_memory(batch, &reply.verdicts) {
                let ticket = holding.version.ticket;
                self.books.adopted(ticket, (member, segment), placement);
            }
            for write in copied(batch, reply) {
                let broken = self.books.copied(write, (member, segment));
                self.judge(broken);
            }
        }
        self.after_call();
        reply
    }

    /// A member connects to its effects, beginning with everything that it has to do.
    pub(crate) fn attach(&mut self, member: MemberId, connection: u64) {
        let mail = self.master.letters.mail.entry(member).or_default();
        // A connection that was given up may be heard of late.
        if mail.connection >= connection {
            return;
        }
        *mail = Mail {
            connection,
            sent: 0,
        };
        let effects = self.master.catalog.attach(member);
        self.post(member, effects);
        self.after_call();
    }

    /// How many messages were sent to a member, and on which connection.
    pub(crate) fn sent_to(&self, member: MemberId) -> Option<(u64, u64)> {
        let mail = self.master.letters.mail.get(&member)?;
        Some((mail.connection, mail.sent))
    }

    /// Sends effects to a member that is connected; one that is not is told when it connects.
    pub(crate) fn post(&mut self, member: MemberId, effects: Vec<Effect>) {
        let (Some(index), Some(mail)) = (
            self.addresses.get(&member).copied(),
            self.master.letters.mail.get_mut(&member),
        ) else {
            return;
        };
        let message = (mail.connection, mail.sent);
        mail.sent += 1;
        let arrives = move |world: &mut Self| receive(world, index, member, message, effects);
        self.send(Process::Master, Process::Node(index), arrives, |_| {});
    }
}
