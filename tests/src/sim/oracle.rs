//! The oracle of values: which bytes a read may give.
//!
//! A miss is always legal: this is a cache. Bytes are legal when they are those of a version that was granted to the
//! reader, whose guard held when they were believed, and that was neither removed nor replaced before the read began.

use super::{
    books::Broken,
    payload::{Name, Payload},
};
use std::collections::{BTreeMap, BTreeSet};
use ziggurat_base::{Crc32, Era, Key, TenantId, Ticket, Timestamp};
use ziggurat_engine::command::{PutDone, PutEnd};

/// One version that was ever granted.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    name: Name,
    payload: Payload,
    crc: Option<Crc32>,
    /// When the master made it readable, in true time.
    published: Option<Timestamp>,
    /// When the master removed it on request.
    removed: Option<Timestamp>,
}

/// A guard as it truly is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrueGuard {
    pub(crate) ticket: Ticket,
    /// When the master granted it.
    pub(crate) granted: Timestamp,
    /// When it ends.
    pub(crate) until: Timestamp,
}

/// What one operation of a client went through: its ports write it, the oracle reads it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passage {
    pub(crate) begun: Timestamp,
    /// Whose objects it is about.
    pub(crate) tenant: TenantId,
    /// The nonce of what it puts.
    pub(crate) nonce: u64,
    pub(crate) guards: Vec<TrueGuard>,
    /// When reads without an error arrived at the client.
    pub(crate) arrivals: Vec<(Ticket, Timestamp)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    versions: BTreeMap<Ticket, Version>,
    names: BTreeMap<Name, Vec<Ticket>>,
    /// When each master began: what was stored before is gone, but for what a node had on its disk.
    eras: Vec<(Timestamp, Era)>,
    /// What a node has told of.
    told: BTreeSet<Ticket>,
}

impl Oracle {
    /// A master with an empty catalog began.
    pub(crate) fn master_began(&mut self, now: Timestamp, era: Era) {
        self.eras.push((now, era));
    }

    /// A node has told that it holds a version on its disk, or found it in a shard file, and was believed. There it may be one
    /// whose writer has never heard that it is readable.
    pub(crate) fn told(&mut self, now: Timestamp, ticket: Ticket) {
        self.told.insert(ticket);
        if let Some(version) = self.versions.get_mut(&ticket) {
            version.published.get_or_insert(now);
        }
    }

    /// A write was granted.
    pub(crate) fn granted(
        &mut self,
        ticket: Ticket,
        name: Name,
        nonce: u64,
        len: u64,
    ) -> Option<Broken> {
        let payload = Payload::new(name.0, name.1.as_key(), nonce, len);
        self.names.entry(name.clone()).or_default().push(ticket);
        let version = Version {
            name,
            payload,
            crc: None,
            published: None,
            removed: None,
        };
        let twice = self.versions.insert(ticket, version).is_some();
        twice.then(|| ("ticket_issued_twice", format!("{ticket}")))
    }

    /// The name of a version.
    pub(crate) fn name(&self, ticket: Ticket) -> Option<Name> {
        self.versions.get(&ticket).map(|v| v.name.clone())
    }

    /// A report was accepted.
    pub(crate) fn ended(&mut self, now: Timestamp, end: &PutEnd, done: PutDone) -> Option<Broken> {
        let Some(version) = self.versions.get_mut(&end.ticket) else {
            return Some(("end_of_unknown_write", format!("{}", end.ticket)));
        };
        if *version.crc.get_or_insert(end.crc) != end.crc {
            let what = format!("{} has {:?} and {:?}", end.ticket, version.crc, end.crc);
            return Some(("two_sums_accepted", what));
        }
        if done.replicas > 0 {
            version.published.get_or_insert(now);
        }
        None
    }

    /// Everything readable under a name was removed on request.
    pub(crate) fn removed(&mut self, now: Timestamp, name: &Name) {
        for ticket in self.names.get(name).into_iter().flatten() {
            if let Some(version) = self.versions.get_mut(ticket)
                && version.published.is_some()
            {
                version.removed.get_or_insert(now);
            }
        }
    }

    /// Whether a write was accepted for the put of this nonce.
    pub(crate) fn was_published(&self, name: &Name, nonce: u64) -> bool {
        let mut tickets = self.names.get(name).into_iter().flatten();
        tickets.any(|ticket| {
            let version = &self.versions[ticket];
            version.published.is_some()
                && version.payload
                    == Payload::new(name.0, name.1.as_key(), nonce, version.payload.len)
        })
    }

    /// Whether something could be readable under a name for a question that began at `begun`.
    pub(crate) fn may_exist(&self, name: &Name, begun: Timestamp) -> bool {
        let mut tickets = self.names.get(name).into_iter().flatten();
        tickets.any(|ticket| {
            self.versions[ticket].published.is_some() && self.dead(*ticket, begun).is_none()
        })
    }

    /// Why a version cannot be the answer to a question that began at `begun`.
    fn dead(&self, ticket: Ticket, begun: Timestamp) -> Option<Broken> {
        let version = &self.versions[&ticket];
        if let Some(at) = version.removed.filter(|at| *at <= begun) {
            return Some((
                "removed_bytes_returned",
                format!("{ticket}, removed at {at:?}"),
            ));
        }
        let gone = |(at, era): &&(Timestamp, Era)| *at <= begun && ticket.era() < *era;
        if let Some((at, era)) = self.eras.iter().find(gone)
            && !self.told.contains(&ticket)
        {
            return Some((
                "bytes_of_an_earlier_era",
                format!("{ticket}, era {era:?} began at {at:?}"),
            ));
        }
        let newer = self.names[&version.name]
            .iter()
            .filter(|other| **other > ticket);
        let replaced = newer
            .filter_map(|other| self.versions[other].published.map(|at| (other, at)))
            .find(|(_, at)| *at <= begun);
        replaced.map(|(other, at)| {
            (
                "stale_bytes_returned",
                format!("{ticket}, {other} is readable since {at:?}"),
            )
        })
    }

    /// Checks bytes that a client was given as the value of a name.
    pub(crate) fn read(
        &self,
        tenant: TenantId,
        key: Key<'_>,
        offset: u64,
        bytes: &[u8],
        passage: &Passage,
    ) -> Option<Broken> {
        let name = (tenant, key.to_owned());
        let is_it = |ticket: &Ticket| {
            self.versions
                .get(ticket)
                .is_some_and(|v| v.name == name && v.payload.has(offset, bytes))
        };
        let mut granted: Vec<_> = passage
            .guards
            .iter()
            .map(|g| g.ticket)
            .filter(is_it)
            .collect();
        granted.dedup();
        if granted.is_empty() {
            let mut all = self.names.get(&name).into_iter().flatten().copied();
            let what = match all.rfind(is_it) {
                Some(other) => format!(
                    "{key}: bytes of {other}, which was not granted: {:?}",
                    passage.guards
                ),
                None => format!(
                    "{key}: {} bytes at {offset} that nobody wrote there: {:?}",
                    bytes.len(),
                    passage.guards
                ),
            };
            return Some(("wrong_bytes", what));
        }
        let faults: Vec<_> = granted
            .iter()
            .map(|ticket| {
                self.dead(*ticket, passage.begun)
                    .or_else(|| believed_late(*ticket, passage))
            })
            .collect();
        // Equal bytes of two versions: one legal one is enough.
        if faults.iter().any(Option::is_none) {
            return None;
        }
        faults.into_iter().flatten().next()
    }
}

/// Whether no read of the version arrived while its guard held.
fn believed_late(ticket: Ticket, passage: &Passage) -> Option<Broken> {
    let held = |at: Timestamp| {
        let mut guards = passage
            .guards
            .iter()
            .filter(|g| g.ticket == ticket && g.granted <= at);
        guards.any(|guard| at < guard.until)
    };
    let mut arrivals = passage.arrivals.iter().filter(|(of, _)| *of == ticket);
    if arrivals.any(|(_, at)| held(*at)) {
        return None;
    }
    let what = format!(
        "{ticket}: {:?} under {:?}",
        passage.arrivals, passage.guards
    );
    Some(("believed_after_the_guard", what))
}
