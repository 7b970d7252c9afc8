//! What a node holds, as the ledger walks through it: on a disk, and in a segment of memory.

use super::Keeper;
use ziggurat_base::{SegmentId, Ticket};
use ziggurat_engine::{
    command::OwnedTags,
    ledger::{Holding, LedgerBatch, LedgerReply, Verdict, Version},
    shelf::{
        holdings::{Held, Names},
        teller::{Inventory, Place},
    },
};
use ziggurat_tiers::ssd::SsdTier;

/// An inventory that is judged by the partition.
pub(super) trait Judged: Inventory {
    /// The partition has judged a batch.
    fn heed(&self, batch: &LedgerBatch, reply: &LedgerReply);
}

/// What a directory holds.
pub(super) struct Disk<'a>(pub(super) &'a SsdTier);

fn holding(held: &Held, names: &Names<'_>) -> Holding {
    Holding {
        version: Version {
            tenant: names.tenant.into(),
            key: names.key.to_owned(),
            ticket: held.ticket,
        },
        len: held.len,
        stored_len: held.stored_len,
        crc: held.crc,
        tags: OwnedTags {
            parent: names.parent_owned(),
            group: names.group_owned(),
            hint: held.hint,
        },
        placement: None,
    }
}

impl Judged for Disk<'_> {
    /// What has to be discarded is asked for by an effect.
    fn heed(&self, _: &LedgerBatch, _: &LedgerReply) {}
}

impl Inventory for Disk<'_> {
    fn find(&self, ticket: Ticket) -> Option<Holding> {
        self.0.look(|holdings| {
            let held = holdings.find(ticket)?;
            Some(holding(&held, &holdings.names(ticket)?))
        })
    }

    fn page(&self, from: Place, most: usize) -> (Vec<Holding>, Option<Place>) {
        self.0.look(|holdings| {
            let (page, next) = holdings.walk(from.0.into(), most);
            let page = page
                .iter()
                .map(|(held, names)| holding(held, names))
                .collect();
            (page, next.map(|walk| Place(walk.into())))
        })
    }
}

/// What lies in one segment of memory.
pub(super) struct Memory<'a> {
    pub(super) keeper: &'a Keeper,
    pub(super) segment: SegmentId,
}

impl Memory<'_> {
    fn is_here(&self, holding: &Holding) -> bool {
        holding
            .placement
            .as_ref()
            .is_some_and(|placement| placement.segment == self.segment)
    }
}

impl Judged for Memory<'_> {
    /// What is refused is nobody's any more: the partition may give its space to others at once.
    fn heed(&self, batch: &LedgerBatch, reply: &LedgerReply) {
        let LedgerBatch::Page { holdings, .. } = batch else {
            return;
        };
        let mut feed = self.keeper.lock();
        for (holding, verdict) in holdings.iter().zip(&reply.verdicts) {
            if *verdict == Verdict::Discard {
                feed.held.remove(&holding.version.ticket);
            }
        }
    }
}

impl Inventory for Memory<'_> {
    fn find(&self, ticket: Ticket) -> Option<Holding> {
        let feed = self.keeper.lock();
        feed.held
            .get(&ticket)
            .filter(|holding| self.is_here(holding))
            .cloned()
    }

    fn page(&self, from: Place, most: usize) -> (Vec<Holding>, Option<Place>) {
        let feed = self.keeper.lock();
        let mut rest = feed
            .held
            .range(Ticket(from.0[0])..)
            .filter(|(_, holding)| self.is_here(holding));
        let page: Vec<_> = rest
            .by_ref()
            .take(most)
            .map(|(_, holding)| holding.clone())
            .collect();
        (page, rest.next().map(|(ticket, _)| Place([ticket.0, 0])))
    }
}
