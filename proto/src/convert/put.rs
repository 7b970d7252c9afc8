//! Puts: `put_start`, `put_end`, and the calls whose answers have no value.

use super::{
    batch::{Spans, at, check_count, join, span_at, split},
    broken, keys, places,
};
use crate::wire;
use ziggurat_base::{Code, Crc32, Error, TenantId, Ticket};
use ziggurat_engine::command::{
    Answer, Hint, PutAnswer, PutDone, PutEnd, PutGrant, PutItem, Tags, Wish, Written,
};

/// Asks for space.
pub(crate) fn pack_start(tenant: TenantId, items: &[PutItem<'_>], wish: &Wish) -> wire::PutStart {
    let tags = items
        .iter()
        .enumerate()
        .filter(|(_, item)| !item.tags.is_empty());
    wire::PutStart {
        keys: Some(keys::pack_iter(tenant, items.iter().map(|item| item.key))),
        lens: items.iter().map(|item| item.len).collect(),
        replicas: wish.replicas.into(),
        dfs: wish.dfs.into(),
        preferred: wish.preferred.iter().map(|name| name.to_string()).collect(),
        tags: tags
            .map(|(index, item)| pack_tags(index, &item.tags))
            .collect(),
    }
}

fn pack_tags(index: usize, tags: &Tags<'_>) -> wire::Tags {
    wire::Tags {
        index: index as u32,
        parent: keys::optional(tags.parent),
        group: keys::optional(tags.group),
        hint: pack_hint(tags.hint).into(),
    }
}

/// A hint as it travels.
pub(crate) fn pack_hint(hint: Hint) -> wire::Hint {
    match hint {
        Hint::None => wire::Hint::None,
        Hint::Cold => wire::Hint::Cold,
        Hint::Hot => wire::Hint::Hot,
    }
}

/// The hint of a message; one that this build does not know is none.
pub(crate) fn hint(number: i32) -> Hint {
    match wire::Hint::try_from(number) {
        Ok(wire::Hint::Cold) => Hint::Cold,
        Ok(wire::Hint::Hot) => Hint::Hot,
        Ok(wire::Hint::None) | Err(_) => Hint::None,
    }
}

/// The tenant and items of a request, borrowed from its message.
pub(crate) fn items(message: &wire::PutStart) -> Result<(TenantId, Vec<PutItem<'_>>), Error> {
    let packed = message
        .keys
        .as_ref()
        .ok_or_else(|| broken("a put without keys"))?;
    let list = keys::unpack(packed)?;
    if message.lens.len() != list.len() {
        return Err(broken("a put has another number of lengths than of keys"));
    }
    let mut items: Vec<_> = list
        .into_iter()
        .zip(&message.lens)
        .map(|(key, len)| PutItem::new(key, *len))
        .collect();
    for tags in &message.tags {
        let item = items
            .get_mut(tags.index as usize)
            .ok_or_else(|| broken("tags of an item that is not there"))?;
        item.tags = Tags {
            parent: keys::optional_key(&tags.parent)?,
            group: keys::optional_key(&tags.group)?,
            hint: hint(tags.hint),
        };
    }
    Ok((keys::tenant(packed.tenant)?, items))
}

/// The wish of a request.
pub(crate) fn wish(message: &wire::PutStart) -> Result<Wish, Error> {
    let count = |count: u32| {
        u8::try_from(count).map_err(|_| {
            let what = format!("{count} replicas: 255 are the most");
            Error::new(Code::InvalidParams, what)
        })
    };
    Ok(Wish {
        replicas: count(message.replicas)?,
        dfs: count(message.dfs)?,
        preferred: message
            .preferred
            .iter()
            .map(|name| name.as_str().into())
            .collect(),
    })
}

/// Grants as they travel.
pub(crate) fn pack_grants(answers: Vec<Answer<PutAnswer>>) -> wire::PutGrants {
    let count = answers.len();
    let mut grants = wire::PutGrants {
        count: count as u32,
        tickets: Vec::with_capacity(count),
        ..Default::default()
    };
    let (mut targets, mut spans) = (places::Writer::default(), Spans::default());
    grants.errors = split(answers, |index, answer| match answer {
        PutAnswer::Existed => grants.existed.push(index as u32),
        PutAnswer::Granted(grant) => {
            grants.tickets.push(grant.ticket.0);
            targets.push(&grant.targets);
            spans.push(grant.span);
        }
    });
    grants.places = Some(targets.finish());
    grants.spans = spans.finish();
    grants
}

/// The grants of an answer to `count` items.
pub(crate) fn grants(message: wire::PutGrants, count: usize) -> Answer<Vec<Answer<PutAnswer>>> {
    let columns = message.places.unwrap_or_default();
    let mut targets = places::Reader::new(&columns);
    let mut existed = message.existed.iter().peekable();
    let mut granted = 0;
    join(count, message.count, message.errors, |index| {
        if existed.next_if(|next| **next as usize == index).is_some() {
            return Ok(PutAnswer::Existed);
        }
        let grant = PutGrant {
            ticket: Ticket(at(&message.tickets, granted)?),
            targets: targets.next()?,
            span: span_at(&message.spans, granted)?,
        };
        granted += 1;
        Ok(PutAnswer::Granted(grant))
    })
}

/// Reports on writes.
pub(crate) fn pack_ends(ends: &[PutEnd]) -> wire::PutEnd {
    let written = ends.iter().enumerate().filter_map(|(index, end)| {
        let Written::Each(results) = &end.written else {
            return None;
        };
        let byte = |result: &Option<bool>| match result {
            Some(false) => 0,
            Some(true) => 1,
            None => 2,
        };
        Some(wire::Written {
            index: index as u32,
            results: results.iter().map(byte).collect(),
        })
    });
    wire::PutEnd {
        tickets: ends.iter().map(|end| end.ticket.0).collect(),
        crcs: ends.iter().map(|end| end.crc.0).collect(),
        written: written.collect(),
    }
}

/// The reports of a request.
pub(crate) fn ends(message: &wire::PutEnd) -> Result<Vec<PutEnd>, Error> {
    check_count(message.tickets.len())?;
    if message.crcs.len() != message.tickets.len() {
        return Err(broken(
            "a put_end has another number of sums than of tickets",
        ));
    }
    let mut ends: Vec<_> = message
        .tickets
        .iter()
        .zip(&message.crcs)
        .map(|(ticket, crc)| PutEnd {
            ticket: Ticket(*ticket),
            crc: Crc32(*crc),
            written: Written::All,
        })
        .collect();
    for written in &message.written {
        let end = ends
            .get_mut(written.index as usize)
            .ok_or_else(|| broken("results of a write that is not there"))?;
        let results = written.results.iter().map(|byte| match byte {
            0 => Ok(Some(false)),
            1 => Ok(Some(true)),
            2 => Ok(None),
            other => Err(broken(format!("{other} is not the result of a write"))),
        });
        end.written = Written::Each(results.collect::<Result<_, _>>()?);
    }
    Ok(ends)
}

/// Ended puts as they travel.
pub(crate) fn pack_dones(answers: Vec<Answer<PutDone>>) -> wire::PutDones {
    let count = answers.len();
    let mut replicas = Vec::with_capacity(count);
    let errors = split(answers, |_, done| replicas.push(done.replicas));
    wire::PutDones {
        count: count as u32,
        errors,
        replicas,
    }
}

/// The ended puts of an answer.
pub(crate) fn dones(message: wire::PutDones, count: usize) -> Answer<Vec<Answer<PutDone>>> {
    let mut replicas = message.replicas.iter();
    join(count, message.count, message.errors, |_| {
        let replicas = *replicas
            .next()
            .ok_or_else(|| broken("an ended put is missing"))?;
        Ok(PutDone { replicas })
    })
}

/// Answers without values as they travel.
pub(crate) fn pack_done(answers: Vec<Answer<()>>) -> wire::Done {
    wire::Done {
        count: answers.len() as u32,
        errors: split(answers, |_, ()| {}),
    }
}

/// The answers of a batch without values.
pub(crate) fn done(message: wire::Done, count: usize) -> Answer<Vec<Answer<()>>> {
    join(count, message.count, message.errors, |_| Ok(()))
}
