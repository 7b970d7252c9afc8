//! Reads and scans: `locate`, `exist`, `stat`, `scan`.

use super::{
    batch::{Bits, Spans, at, join, span_at, split},
    broken, keys, nanos, places, put,
};
use crate::wire;
use std::time::Duration;
use ziggurat_base::{Crc32, Error, Key, ObjectKey, TenantId, Ticket};
use ziggurat_engine::command::{
    Answer, Cursor, Force, GetGrant, ObjectStat, Page, Prefetch, Prefetched, Priority, ScanAction,
};

/// Found objects as they travel. The ticket of a hold is the grant's own and is not sent twice.
pub(crate) fn pack_grants(answers: Vec<Answer<Option<GetGrant>>>) -> wire::GetGrants {
    let count = answers.len();
    let mut found = Bits::clear(count);
    let mut grants = wire::GetGrants {
        count: count as u32,
        ..Default::default()
    };
    let (mut targets, mut spans) = (places::Writer::default(), Spans::default());
    grants.errors = split(answers, |index, answer| {
        let Some(grant) = answer else { return };
        found.set(index);
        grants.tickets.push(grant.ticket.0);
        grants.lens.push(grant.len);
        grants.crcs.push(grant.crc.0);
        grants.rows.push(grant.hold.row.0);
        grants.terms.push(grant.hold.term.into());
        targets.push(&grant.replicas);
        spans.push(grant.span);
    });
    grants.found = found.0;
    grants.places = Some(targets.finish());
    grants.spans = spans.finish();
    grants
}

/// The found objects of an answer to `count` keys.
pub(crate) fn grants(
    message: wire::GetGrants,
    count: usize,
) -> Answer<Vec<Answer<Option<GetGrant>>>> {
    let found = Bits::checked(message.found, count)?;
    let columns = message.places.unwrap_or_default();
    let mut targets = places::Reader::new(&columns);
    let mut next = 0;
    join(count, message.count, message.errors, |index| {
        if !found.get(index) {
            return Ok(None);
        }
        let ticket = at(&message.tickets, next)?;
        let grant = GetGrant {
            ticket: Ticket(ticket),
            len: at(&message.lens, next)?,
            crc: Crc32(at(&message.crcs, next)?),
            replicas: targets.next()?,
            hold: keys::hold(at(&message.rows, next)?, ticket, at(&message.terms, next)?)?,
            span: span_at(&message.spans, next)?,
        };
        next += 1;
        Ok(Some(grant))
    })
}

/// Whether objects exist, as it travels.
pub(crate) fn pack_found(answers: Vec<Answer<bool>>) -> wire::Found {
    let count = answers.len();
    let mut found = Bits::clear(count);
    let errors = split(answers, |index, exists| {
        if exists {
            found.set(index);
        }
    });
    wire::Found {
        count: count as u32,
        found: found.0,
        errors,
    }
}

/// Whether the `count` keys of a request exist.
pub(crate) fn found(message: wire::Found, count: usize) -> Answer<Vec<Answer<bool>>> {
    let found = Bits::checked(message.found, count)?;
    join(count, message.count, message.errors, |index| {
        Ok(found.get(index))
    })
}

/// Facts about objects as they travel.
pub(crate) fn pack_stats(answers: Vec<Answer<Option<ObjectStat>>>) -> wire::ObjectStats {
    let count = answers.len();
    let mut found = Bits::clear(count);
    let mut targets = places::Writer::default();
    let mut objects = Vec::new();
    let errors = split(answers, |index, answer| {
        let Some(stat) = answer else { return };
        found.set(index);
        targets.push(&stat.replicas);
        objects.push(wire::ObjectStat {
            len: stat.len,
            ticket: stat.ticket.0,
            crc: stat.crc.0,
            lease: nanos(stat.lease),
            parent: keys::optional(stat.parent.as_ref().map(ObjectKey::as_key)),
            group: keys::optional(stat.group.as_ref().map(ObjectKey::as_key)),
            hint: put::pack_hint(stat.hint).into(),
        });
    });
    wire::ObjectStats {
        count: count as u32,
        found: found.0,
        errors,
        objects,
        places: Some(targets.finish()),
    }
}

/// The facts of an answer to `count` keys.
pub(crate) fn stats(
    message: wire::ObjectStats,
    count: usize,
) -> Answer<Vec<Answer<Option<ObjectStat>>>> {
    let found = Bits::checked(message.found, count)?;
    let columns = message.places.unwrap_or_default();
    let mut targets = places::Reader::new(&columns);
    let mut objects = message.objects.iter();
    join(count, message.count, message.errors, |index| {
        if !found.get(index) {
            return Ok(None);
        }
        let stat = objects.next().ok_or_else(|| broken("facts are missing"))?;
        Ok(Some(ObjectStat {
            len: stat.len,
            ticket: Ticket(stat.ticket),
            crc: Crc32(stat.crc),
            replicas: targets.next()?,
            lease: Duration::from_nanos(stat.lease),
            parent: keys::optional_owned(&stat.parent)?,
            group: keys::optional_owned(&stat.group)?,
            hint: put::hint(stat.hint),
        }))
    })
}

/// A wish as it travels.
pub(crate) fn pack_wish(wish: Prefetch) -> wire::PrefetchWish {
    match wish {
        Prefetch::Begin(Priority::Low) => wire::PrefetchWish::Low,
        Prefetch::Begin(Priority::Normal) => wire::PrefetchWish::Normal,
        Prefetch::Begin(Priority::High) => wire::PrefetchWish::High,
        Prefetch::Cancel => wire::PrefetchWish::Cancel,
    }
}

/// What is to be done about objects below memory. A wish that this build does not know is refused, never guessed.
pub(crate) fn wish(number: i32) -> Result<Prefetch, Error> {
    match wire::PrefetchWish::try_from(number) {
        Ok(wire::PrefetchWish::Low) => Ok(Prefetch::Begin(Priority::Low)),
        Ok(wire::PrefetchWish::Normal) => Ok(Prefetch::Begin(Priority::Normal)),
        Ok(wire::PrefetchWish::High) => Ok(Prefetch::Begin(Priority::High)),
        Ok(wire::PrefetchWish::Cancel) => Ok(Prefetch::Cancel),
        Err(_) => Err(broken(format!("prefetch wish {number} does not exist"))),
    }
}

/// Where objects are on their way to memory, as it travels.
pub(crate) fn pack_prefetched(answers: Vec<Answer<Option<Prefetched>>>) -> wire::Prefetched {
    let count = answers.len();
    let mut found = Bits::clear(count);
    let mut places = Vec::new();
    let errors = split(answers, |index, answer| {
        let Some(prefetched) = answer else { return };
        found.set(index);
        places.push(match prefetched {
            Prefetched::InMemory => 0,
            Prefetched::UnderWay => 1,
            Prefetched::Stopped => 2,
        });
    });
    wire::Prefetched {
        count: count as u32,
        found: found.0,
        errors,
        r#where: places,
    }
}

/// Where the `count` keys of a request are on their way.
pub(crate) fn prefetched(
    message: wire::Prefetched,
    count: usize,
) -> Answer<Vec<Answer<Option<Prefetched>>>> {
    let found = Bits::checked(message.found, count)?;
    let mut places = message.r#where.iter();
    join(count, message.count, message.errors, |index| {
        if !found.get(index) {
            return Ok(None);
        }
        match places.next() {
            Some(0) => Ok(Some(Prefetched::InMemory)),
            Some(1) => Ok(Some(Prefetched::UnderWay)),
            Some(2) => Ok(Some(Prefetched::Stopped)),
            Some(other) => Err(broken(format!("an object on its way at {other}"))),
            None => Err(broken("places on the way are missing")),
        }
    })
}

/// A scan as it travels.
pub(crate) fn pack_scan(
    tenant: TenantId,
    pattern: &str,
    action: ScanAction,
    cursor: Option<Cursor>,
) -> wire::Scan {
    let action = match action {
        ScanAction::List => wire::ScanAction::List,
        ScanAction::Remove(Force::No) => wire::ScanAction::Remove,
        ScanAction::Remove(Force::Yes) => wire::ScanAction::RemoveForced,
    };
    wire::Scan {
        tenant: tenant.0.into(),
        pattern: pattern.to_owned(),
        action: action.into(),
        cursor: cursor.map(pack_cursor),
    }
}

/// What a scan does. An action that this build does not know is refused, never guessed.
pub(crate) fn action(number: i32) -> Result<ScanAction, Error> {
    match wire::ScanAction::try_from(number) {
        Ok(wire::ScanAction::List) => Ok(ScanAction::List),
        Ok(wire::ScanAction::Remove) => Ok(ScanAction::Remove(Force::No)),
        Ok(wire::ScanAction::RemoveForced) => Ok(ScanAction::Remove(Force::Yes)),
        Err(_) => Err(broken(format!("scan action {number} does not exist"))),
    }
}

fn pack_cursor(cursor: Cursor) -> wire::Cursor {
    wire::Cursor {
        next_row: cursor.next_row,
        newest: cursor.newest.0,
    }
}

/// How far a scan has come.
pub(crate) fn cursor(message: wire::Cursor) -> Cursor {
    Cursor {
        next_row: message.next_row,
        newest: Ticket(message.newest),
    }
}

/// One turn of a scan as it travels.
pub(crate) fn pack_page(page: &Page) -> wire::Page {
    let list = page.keys.iter().map(|(key, _)| key.as_key());
    wire::Page {
        keys: Some(keys::pack_iter(TenantId::default(), list)),
        lens: page.keys.iter().map(|(_, len)| *len).collect(),
        removed: page.removed,
        leased: page.leased,
        next: page.next.map(pack_cursor),
    }
}

/// The turn of a scan.
pub(crate) fn page(message: wire::Page) -> Result<Page, Error> {
    let packed = message.keys.unwrap_or_default();
    let list = keys::unpack_all(&packed)?;
    if list.len() != message.lens.len() {
        return Err(broken("a page has another number of lengths than of keys"));
    }
    let listed = list.into_iter().map(Key::to_owned).zip(message.lens);
    Ok(Page {
        keys: listed.collect(),
        removed: message.removed,
        leased: message.leased,
        next: message.next.map(cursor),
    })
}
