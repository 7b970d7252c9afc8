//! Key lists, packed: all bytes in one field, all lengths in another.

use super::{batch::check_count, broken};
use crate::wire;
use ziggurat_base::{Error, Key, ObjectKey, TenantId, Ticket};
use ziggurat_engine::{
    Row,
    command::{Hold, Keys},
};

/// Packs a tenant's keys.
pub(crate) fn pack(keys: Keys<'_>) -> wire::Keys {
    pack_iter(keys.tenant, keys.keys.iter().copied())
}

/// Packs keys from wherever they are.
pub(crate) fn pack_iter<'a>(
    tenant: TenantId,
    keys: impl ExactSizeIterator<Item = Key<'a>>,
) -> wire::Keys {
    let mut packed = Vec::new();
    let mut lens = Vec::with_capacity(keys.len());
    for key in keys {
        packed.extend_from_slice(key.bytes());
        lens.push(key.bytes().len() as u32);
    }
    wire::Keys {
        tenant: tenant.0.into(),
        packed,
        lens,
    }
}

/// The keys of a request, borrowed from its message.
///
/// # Errors
/// `DeserializeFail` when lengths and bytes disagree, `InvalidKey` for a key of a forbidden length, `InvalidParams` for too
/// many.
pub(crate) fn unpack(keys: &wire::Keys) -> Result<Vec<Key<'_>>, Error> {
    check_count(keys.lens.len())?;
    unpack_all(keys)
}

/// The keys of an answer, however many.
///
/// # Errors
/// As [`unpack`], but for their number.
pub(crate) fn unpack_all(keys: &wire::Keys) -> Result<Vec<Key<'_>>, Error> {
    let mut rest = keys.packed.as_slice();
    let mut list = Vec::with_capacity(keys.lens.len());
    for len in &keys.lens {
        let (key, behind) = rest
            .split_at_checked(*len as usize)
            .ok_or_else(|| broken("packed keys are shorter than their lengths say"))?;
        list.push(Key::new(key)?);
        rest = behind;
    }
    if rest.is_empty() {
        Ok(list)
    } else {
        Err(broken("packed keys are longer than their lengths say"))
    }
}

/// A tenant's number.
pub(crate) fn tenant(number: u32) -> Result<TenantId, Error> {
    let checked = u16::try_from(number).map(TenantId);
    checked.map_err(|_| broken(format!("tenant number {number} does not fit 16 bits")))
}

/// An optional key as bytes: none is empty, which no key is.
pub(crate) fn optional(key: Option<Key<'_>>) -> Vec<u8> {
    key.map_or_else(Vec::new, |key| key.bytes().to_vec())
}

/// The optional key of a message, borrowed.
pub(crate) fn optional_key(bytes: &[u8]) -> Result<Option<Key<'_>>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    Key::new(bytes).map(Some)
}

/// The optional key of a message, owned.
pub(crate) fn optional_owned(bytes: &[u8]) -> Result<Option<ObjectKey>, Error> {
    Ok(optional_key(bytes)?.map(Key::to_owned))
}

/// Tickets as they travel.
pub(crate) fn pack_tickets(tickets: &[Ticket]) -> wire::Tickets {
    wire::Tickets {
        tickets: tickets.iter().map(|ticket| ticket.0).collect(),
    }
}

/// The tickets of a request.
pub(crate) fn tickets(message: &wire::Tickets) -> Result<Vec<Ticket>, Error> {
    check_count(message.tickets.len())?;
    Ok(message.tickets.iter().copied().map(Ticket).collect())
}

/// Holds as they travel.
pub(crate) fn pack_holds(holds: &[Hold]) -> wire::Holds {
    wire::Holds {
        rows: holds.iter().map(|hold| hold.row.0).collect(),
        tickets: holds.iter().map(|hold| hold.ticket.0).collect(),
        terms: holds.iter().map(|hold| hold.term.into()).collect(),
    }
}

/// The holds of a request.
pub(crate) fn holds(message: &wire::Holds) -> Result<Vec<Hold>, Error> {
    let count = message.rows.len();
    if message.tickets.len() != count || message.terms.len() != count {
        return Err(broken("columns of holds differ in length"));
    }
    let columns = message
        .rows
        .iter()
        .zip(&message.tickets)
        .zip(&message.terms);
    columns
        .map(|((row, ticket), term)| hold(*row, *ticket, *term))
        .collect()
}

/// One hold from its columns.
pub(crate) fn hold(row: u32, ticket: u64, term: u32) -> Result<Hold, Error> {
    let term = u16::try_from(term).map_err(|_| broken("the term of a hold exceeds 16 bits"))?;
    Ok(Hold {
        row: Row(row),
        ticket: Ticket(ticket),
        term,
    })
}
