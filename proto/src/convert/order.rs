//! What a partition tells a member unasked, and the reports on it.

use super::{batch, broken, ledger, nanos, places};
use crate::{
    order::{Announce, NodeCommand, Order, Outcome, Prove, Report, TokenRange, TokenUse},
    wire,
};
use std::time::Duration;
use wire::{order::Command, report};
use ziggurat_base::{ByteCount, Crc32, Error, MemberId, SegmentId, Ticket};
use ziggurat_engine::command::Effect;

/// Effects of one member as they travel.
pub(crate) fn pack_effects(member: MemberId, effects: &[Effect]) -> wire::Push {
    let mut push = wire::Push {
        member: member.0,
        ..Default::default()
    };
    for effect in effects {
        match effect {
            Effect::Fence {
                ticket, placement, ..
            } => push.fences.push(wire::Fence {
                ticket: ticket.0,
                place: Some(places::pack(placement)),
            }),
            noted => push.notes.extend(ledger::pack_note(noted)),
        }
    }
    push
}

/// Orders for one member as they travel.
pub(crate) fn pack_orders(member: MemberId, orders: &[Order]) -> wire::Push {
    wire::Push {
        member: member.0,
        orders: orders.iter().map(pack_order).collect(),
        ..Default::default()
    }
}

/// The end of a subscription as it travels.
pub(crate) fn pack_gone(member: MemberId, error: &Error) -> wire::Push {
    wire::Push {
        member: member.0,
        gone: Some(batch::failed(0, error)),
        ..Default::default()
    }
}

/// What a push says to its member.
#[derive(Debug)]
pub(crate) struct Pushed {
    pub(crate) member: MemberId,
    pub(crate) effects: Vec<Effect>,
    pub(crate) orders: Vec<Order>,
    pub(crate) gone: Option<Error>,
}

/// Reads a push.
pub(crate) fn pushed(message: wire::Push) -> Result<Pushed, Error> {
    let member = MemberId(message.member);
    let effect = |fence: wire::Fence| {
        Ok(Effect::Fence {
            member,
            ticket: Ticket(fence.ticket),
            placement: places::unpack(fence.place.as_ref())?,
        })
    };
    let fences = message.fences.into_iter().map(effect);
    let notes = message.notes.into_iter();
    let notes = notes.map(|note| ledger::note(member, note));
    Ok(Pushed {
        member,
        effects: fences.chain(notes).collect::<Result<_, Error>>()?,
        orders: message
            .orders
            .into_iter()
            .map(order)
            .collect::<Result<_, _>>()?,
        gone: message.gone.map(|gone| batch::error(gone.code, gone.what)),
    })
}

fn pack_order(order: &Order) -> wire::Order {
    let command = match &order.command {
        NodeCommand::Announce(announce) => Command::Announce(pack_announce(announce)),
        NodeCommand::Prove(prove) => Command::Prove(wire::Prove {
            ticket: prove.ticket.0,
            place: Some(places::pack(&prove.placement)),
            object_len: prove.object_len,
        }),
        NodeCommand::Host { name, capacity } => Command::Host(wire::Host {
            name: name.to_string(),
            capacity: capacity.0,
        }),
        NodeCommand::Unhost { segment } => Command::Unhost(wire::Unhost { segment: segment.0 }),
    };
    wire::Order {
        serial: order.serial,
        command: Some(command),
    }
}

fn pack_announce(announce: &Announce) -> wire::Announce {
    let tokens = &announce.tokens;
    wire::Announce {
        ticket: announce.ticket.0,
        place: Some(places::pack(&announce.placement)),
        object_len: announce.object_len,
        write: announce.allows == TokenUse::Write,
        span: nanos(announce.span),
        tokens: tokens.iter().map(|range| range.token).collect(),
        offsets: tokens.iter().map(|range| range.offset).collect(),
        lens: tokens.iter().map(|range| range.len).collect(),
    }
}

fn announce(message: &wire::Announce) -> Result<Announce, Error> {
    let count = message.tokens.len();
    if message.offsets.len() != count || message.lens.len() != count {
        return Err(broken("columns of tokens differ in length"));
    }
    let columns = message
        .tokens
        .iter()
        .zip(&message.offsets)
        .zip(&message.lens);
    let range = |((token, offset), len): ((&u64, &u64), &u64)| TokenRange {
        token: *token,
        offset: *offset,
        len: *len,
    };
    Ok(Announce {
        ticket: Ticket(message.ticket),
        placement: places::unpack(message.place.as_ref())?,
        object_len: message.object_len,
        allows: if message.write {
            TokenUse::Write
        } else {
            TokenUse::Read
        },
        span: Duration::from_nanos(message.span),
        tokens: columns.map(range).collect(),
    })
}

fn order(message: wire::Order) -> Result<Order, Error> {
    let command = match message.command {
        Some(Command::Announce(message)) => NodeCommand::Announce(announce(&message)?),
        Some(Command::Prove(prove)) => NodeCommand::Prove(Prove {
            ticket: Ticket(prove.ticket),
            placement: places::unpack(prove.place.as_ref())?,
            object_len: prove.object_len,
        }),
        Some(Command::Host(host)) => NodeCommand::Host {
            name: host.name.into(),
            capacity: ByteCount(host.capacity),
        },
        Some(Command::Unhost(unhost)) => NodeCommand::Unhost {
            segment: SegmentId(unhost.segment),
        },
        None => return Err(broken("an order without a command")),
    };
    Ok(Order {
        serial: message.serial,
        command,
    })
}

/// A report as it travels.
pub(crate) fn pack_report(report: &Report) -> wire::Report {
    let outcome = match &report.outcome {
        Err(error) => report::Outcome::Failed(batch::failed(0, error)),
        Ok(Outcome::Done) => report::Outcome::Done(wire::Empty {}),
        Ok(Outcome::Proof(crc)) => report::Outcome::Proof(crc.0),
        Ok(Outcome::Hosted(segment)) => report::Outcome::Hosted(segment.0),
    };
    wire::Report {
        member: report.member.0,
        serial: report.serial,
        outcome: Some(outcome),
    }
}

/// The report of a message.
pub(crate) fn report(message: wire::Report) -> Result<Report, Error> {
    let outcome = match message.outcome {
        Some(report::Outcome::Failed(item)) => Err(batch::error(item.code, item.what)),
        Some(report::Outcome::Done(_)) => Ok(Outcome::Done),
        Some(report::Outcome::Proof(crc)) => Ok(Outcome::Proof(Crc32(crc))),
        Some(report::Outcome::Hosted(segment)) => Ok(Outcome::Hosted(SegmentId(segment))),
        None => return Err(broken("a report without an outcome")),
    };
    Ok(Report {
        member: MemberId(message.member),
        serial: message.serial,
        outcome,
    })
}
