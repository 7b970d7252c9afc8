//! What owners tell of their segments, and what they are told of their memory.

use super::{
    batch::{Bits, check_count},
    broken, keys, places, put,
};
use crate::wire::{self, ledger::Step, note::Note};
use std::sync::Arc;
use wire::LedgerItemKind as Kind;
use ziggurat_base::{Crc32, Error, Extent, Key, MemberId, SegmentId, Ticket};
use ziggurat_engine::{
    command::{DeadRecord, Effect, OwnedTags, Priority},
    ledger::{Change, Holding, LedgerBatch, LedgerReply, Verdict, Version},
};

/// Collects the names of the tenants that items mention.
#[derive(Default)]
struct Tenants(Vec<String>);

impl Tenants {
    fn index(&mut self, name: &str) -> u32 {
        let known = self.0.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        index as u32
    }

    fn pack_version(&mut self, kind: Kind, version: &Version) -> wire::LedgerItem {
        wire::LedgerItem {
            kind: kind.into(),
            ticket: version.ticket.0,
            tenant: self.index(&version.tenant),
            key: version.key.as_key().bytes().to_vec(),
            ..Default::default()
        }
    }

    fn pack_holding(&mut self, holding: &Holding) -> wire::LedgerItem {
        wire::LedgerItem {
            len: holding.len,
            stored_len: holding.stored_len,
            crc: holding.crc.0,
            parent: keys::optional(holding.tags.as_tags().parent),
            group: keys::optional(holding.tags.as_tags().group),
            hint: put::pack_hint(holding.tags.hint).into(),
            place: holding.placement.as_ref().map(places::pack),
            ..self.pack_version(Kind::Present, &holding.version)
        }
    }

    fn pack_change(&mut self, change: &Change) -> wire::LedgerItem {
        match change {
            Change::Present(holding) => self.pack_holding(holding),
            Change::Gone(version) => self.pack_version(Kind::Gone, version),
            Change::Refused(version) => self.pack_version(Kind::Refused, version),
            Change::Forgotten(ticket) => pack_ticket(Kind::Forgotten, *ticket),
            Change::Copied(write) => pack_ticket(Kind::Copied, *write),
            Change::NotCopied(write) => pack_ticket(Kind::NotCopied, *write),
        }
    }
}

fn pack_ticket(kind: Kind, ticket: Ticket) -> wire::LedgerItem {
    wire::LedgerItem {
        kind: kind.into(),
        ticket: ticket.0,
        ..Default::default()
    }
}

/// A batch as it travels.
pub(crate) fn pack(member: MemberId, segment: SegmentId, batch: &LedgerBatch) -> wire::Ledger {
    let mut tenants = Tenants::default();
    let (generation, step, items) = match batch {
        LedgerBatch::Begin { generation } => (*generation, Step::Begin(wire::Empty {}), Vec::new()),
        LedgerBatch::Page {
            generation,
            number,
            holdings,
        } => {
            let items = holdings.iter().map(|h| tenants.pack_holding(h));
            (*generation, Step::Page(*number), items.collect())
        }
        LedgerBatch::Commit {
            generation,
            sequence,
        } => (*generation, Step::Commit(*sequence), Vec::new()),
        LedgerBatch::Delta {
            generation,
            after,
            changes,
        } => {
            let items = changes.iter().map(|c| tenants.pack_change(c));
            (*generation, Step::Delta(*after), items.collect())
        }
    };
    wire::Ledger {
        member: member.0,
        segment: segment.0,
        generation,
        step: Some(step),
        tenants: tenants.0,
        items,
    }
}

fn unpack_version(tenants: &[Arc<str>], item: &wire::LedgerItem) -> Result<Version, Error> {
    let tenant = tenants.get(item.tenant as usize);
    Ok(Version {
        tenant: tenant
            .ok_or_else(|| broken(format!("tenant {} of a ledger is not named", item.tenant)))?
            .clone(),
        key: Key::new(&item.key)?.to_owned(),
        ticket: Ticket(item.ticket),
    })
}

fn unpack_holding(tenants: &[Arc<str>], item: &wire::LedgerItem) -> Result<Holding, Error> {
    let place = item.place.as_ref();
    Ok(Holding {
        version: unpack_version(tenants, item)?,
        len: item.len,
        stored_len: item.stored_len,
        crc: Crc32(item.crc),
        tags: OwnedTags {
            parent: keys::optional_owned(&item.parent)?,
            group: keys::optional_owned(&item.group)?,
            hint: put::hint(item.hint),
        },
        placement: place.map(|place| places::unpack(Some(place))).transpose()?,
    })
}

fn unpack_change(tenants: &[Arc<str>], item: &wire::LedgerItem) -> Result<Change, Error> {
    Ok(match Kind::try_from(item.kind) {
        Ok(Kind::Present) => Change::Present(unpack_holding(tenants, item)?),
        Ok(Kind::Gone) => Change::Gone(unpack_version(tenants, item)?),
        Ok(Kind::Refused) => Change::Refused(unpack_version(tenants, item)?),
        Ok(Kind::Forgotten) => Change::Forgotten(Ticket(item.ticket)),
        Ok(Kind::Copied) => Change::Copied(Ticket(item.ticket)),
        Ok(Kind::NotCopied) => Change::NotCopied(Ticket(item.ticket)),
        Err(_) => return Err(broken(format!("a ledger item of kind {}", item.kind))),
    })
}

/// The batch of a message.
///
/// # Errors
/// `DeserializeFail` for a message that contradicts itself, `InvalidParams` for too many items.
pub(crate) fn unpack(message: wire::Ledger) -> Result<(MemberId, SegmentId, LedgerBatch), Error> {
    check_count(message.items.len())?;
    let tenants: Vec<Arc<str>> = message.tenants.into_iter().map(Into::into).collect();
    let (generation, items) = (message.generation, message.items);
    let no_items = |batch| match items.is_empty() {
        true => Ok(batch),
        false => Err(broken("a step of a ledger that has no items")),
    };
    let batch = match message.step {
        Some(Step::Begin(_)) => no_items(LedgerBatch::Begin { generation })?,
        Some(Step::Commit(sequence)) => no_items(LedgerBatch::Commit {
            generation,
            sequence,
        })?,
        Some(Step::Page(number)) => LedgerBatch::Page {
            generation,
            number,
            holdings: items
                .iter()
                .map(|item| match unpack_change(&tenants, item)? {
                    Change::Present(holding) => Ok(holding),
                    _ => Err(broken("a page of a ledger names what is not present")),
                })
                .collect::<Result<_, _>>()?,
        },
        Some(Step::Delta(after)) => LedgerBatch::Delta {
            generation,
            after,
            changes: items
                .iter()
                .map(|item| unpack_change(&tenants, item))
                .collect::<Result<_, _>>()?,
        },
        None => return Err(broken("a batch of a ledger without a step")),
    };
    Ok((MemberId(message.member), SegmentId(message.segment), batch))
}

/// An answer as it travels.
pub(crate) fn pack_reply(reply: &LedgerReply) -> wire::LedgerReply {
    let mut discarded = Bits::clear(reply.verdicts.len());
    for (index, verdict) in reply.verdicts.iter().enumerate() {
        if *verdict == Verdict::Discard {
            discarded.set(index);
        }
    }
    wire::LedgerReply {
        count: reply.verdicts.len() as u32,
        discarded: discarded.0,
        first: reply.is_first,
    }
}

/// The answer to a batch of `count` items.
pub(crate) fn reply(message: wire::LedgerReply, count: usize) -> Result<LedgerReply, Error> {
    if message.count as usize != count {
        let what = format!("an answer for {} items to {count}", message.count);
        return Err(broken(what));
    }
    let discarded = Bits::checked(message.discarded, count)?;
    let verdict = |index| match discarded.get(index) {
        true => Verdict::Discard,
        false => Verdict::Taken,
    };
    Ok(LedgerReply {
        verdicts: (0..count).map(verdict).collect(),
        is_first: message.first,
    })
}

/// What an owner is told, as it travels; `None` for what travels otherwise.
pub(crate) fn pack_note(effect: &Effect) -> Option<wire::Note> {
    let versions = |segment: &SegmentId, tickets: Vec<u64>| wire::Versions {
        segment: segment.0,
        tickets,
    };
    let note = match effect {
        Effect::Fence { .. } => return None,
        Effect::Committed { holding, .. } => Note::Committed(wire::Committed {
            tenant: holding.version.tenant.to_string(),
            item: Some(Tenants::default().pack_holding(holding)),
        }),
        Effect::Retired {
            segment, ticket, ..
        } => Note::Retired(versions(segment, vec![ticket.0])),
        Effect::Offload {
            segment, ticket, ..
        } => Note::Offload(versions(segment, vec![ticket.0])),
        Effect::Promote {
            holding,
            from,
            write,
            priority,
            ..
        } => Note::Promote(wire::Promote {
            tenant: holding.version.tenant.to_string(),
            item: Some(Tenants::default().pack_holding(holding)),
            from: from.0,
            write: write.0,
            priority: pack_priority(*priority).into(),
        }),
        Effect::Discard {
            segment, tickets, ..
        } => Note::Discard(versions(segment, tickets.iter().map(|t| t.0).collect())),
        Effect::Bury { segment, dead, .. } => Note::Bury(wire::Burials {
            segment: segment.0,
            tickets: dead.iter().map(|dead| dead.ticket.0).collect(),
            offsets: dead.iter().map(|dead| dead.extent.offset).collect(),
            lens: dead.iter().map(|dead| dead.extent.len).collect(),
        }),
    };
    Some(wire::Note { note: Some(note) })
}

fn pack_priority(priority: Option<Priority>) -> wire::PromotePriority {
    match priority {
        None => wire::PromotePriority::None,
        Some(Priority::Low) => wire::PromotePriority::Low,
        Some(Priority::Normal) => wire::PromotePriority::Normal,
        Some(Priority::High) => wire::PromotePriority::High,
    }
}

fn unpack_promote(member: MemberId, message: wire::Promote) -> Result<Effect, Error> {
    let item = message.item.as_ref();
    let item = item.ok_or_else(|| broken("a version without its item"))?;
    let holding = unpack_holding(&[message.tenant.into()], item)?;
    if holding.placement.is_none() {
        return Err(broken("a copy that has no place to go to"));
    }
    let priority = match wire::PromotePriority::try_from(message.priority) {
        Ok(wire::PromotePriority::None) => None,
        Ok(wire::PromotePriority::Low) => Some(Priority::Low),
        Ok(wire::PromotePriority::High) => Some(Priority::High),
        // A soft wish: one that this build does not know is as good as the usual.
        Ok(wire::PromotePriority::Normal) | Err(_) => Some(Priority::Normal),
    };
    Ok(Effect::Promote {
        member,
        holding: Box::new(holding),
        from: SegmentId(message.from),
        write: Ticket(message.write),
        priority,
    })
}

fn unpack_dead(burials: &wire::Burials) -> Result<Vec<DeadRecord>, Error> {
    let count = burials.tickets.len();
    check_count(count)?;
    if (burials.offsets.len(), burials.lens.len()) != (count, count) {
        return Err(broken("burials with more or fewer extents than tickets"));
    }
    let extents = burials.offsets.iter().zip(&burials.lens);
    let unpack = |(ticket, (offset, len)): (&u64, (&u64, &u64))| match offset.checked_add(*len) {
        Some(_) => Ok(DeadRecord {
            ticket: Ticket(*ticket),
            extent: Extent::new(*offset, *len),
        }),
        None => Err(broken("an extent that ends beyond 64 bits")),
    };
    burials.tickets.iter().zip(extents).map(unpack).collect()
}

/// What a push tells a member.
pub(crate) fn note(member: MemberId, message: wire::Note) -> Result<Effect, Error> {
    let one = |versions: &wire::Versions| match versions.tickets.as_slice() {
        [ticket] => Ok((SegmentId(versions.segment), Ticket(*ticket))),
        many => Err(broken(format!("{} tickets in place of one", many.len()))),
    };
    Ok(match message.note {
        Some(Note::Committed(committed)) => {
            let item = committed.item.as_ref();
            let item = item.ok_or_else(|| broken("a version without its item"))?;
            let holding = unpack_holding(&[committed.tenant.into()], item)?;
            Effect::Committed {
                member,
                holding: Box::new(holding),
            }
        }
        Some(Note::Retired(versions)) => {
            let (segment, ticket) = one(&versions)?;
            Effect::Retired {
                member,
                segment,
                ticket,
            }
        }
        Some(Note::Offload(versions)) => {
            let (segment, ticket) = one(&versions)?;
            Effect::Offload {
                member,
                segment,
                ticket,
            }
        }
        Some(Note::Discard(versions)) => {
            check_count(versions.tickets.len())?;
            Effect::Discard {
                member,
                segment: SegmentId(versions.segment),
                tickets: versions.tickets.into_iter().map(Ticket).collect(),
            }
        }
        Some(Note::Bury(burials)) => Effect::Bury {
            member,
            segment: SegmentId(burials.segment),
            dead: unpack_dead(&burials)?,
        },
        Some(Note::Promote(promote)) => unpack_promote(member, promote)?,
        None => return Err(broken("a note that says nothing")),
    })
}
