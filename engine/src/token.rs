//! Tokens: how a node lets a foreign client at bytes without telling it where they lie.
//!
//! The partition's process makes a token up and announces it; the node remembers what it stands for, and which bytes of a
//! write have arrived. A write by tokens has no sums of its writer, so it is over when the owner of the memory is asked to
//! prove it: from then on its tokens are void, and bytes that never arrived are found missing. The shelf has the last word
//! on every access (I11, I12); a token only finds the place.
//!
//! Lapsed tokens are forgotten by the next announcement, so that what is remembered is bounded by what is alive.

mod ranges;

pub use ranges::Ranges;

use crate::command::Answer;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use ziggurat_base::{
    Code, Error, Placement, SegmentId, Ticket, Timestamp, checksum::table_len, frame::TokenSpan,
};

/// The most tokens that a node remembers, and the most writes by token.
pub const TOKENS_MAX: usize = 1 << 18;

/// The most separate ranges in which the bytes of one write may arrive.
pub const RANGES_MAX: usize = 1024;

/// How long a sealed write is remembered, so that a repeated order finds it.
const SEALED_KEPT: Duration = Duration::from_secs(30);

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenUse {
    /// Read the bytes of the version.
    Read,
    /// Write them, until the version is fenced or proved.
    Write,
}

/// A token and the payload range that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRange {
    /// Unguessable, unique in the era, not 0.
    pub token: u64,
    /// First payload byte; any number.
    pub offset: u64,
    /// Payload bytes.
    pub len: u64,
}

/// Tokens that the node honours from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announce {
    /// The version.
    pub ticket: Ticket,
    /// Where its payload lies.
    pub placement: Placement,
    /// Bytes of the whole payload.
    pub object_len: u64,
    /// What the tokens are good for.
    pub allows: TokenUse,
    /// How long, from the moment the order was received. A write ends earlier by a fence.
    pub span: Duration,
    /// The tokens.
    pub tokens: Vec<TokenRange>,
}

/// What a token stands for, and which part of it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The version.
    pub ticket: Ticket,
    /// Where its payload lies.
    pub placement: Placement,
    /// Bytes of the whole payload.
    pub object_len: u64,
    /// First payload byte of the range; any number.
    pub offset: u64,
    /// Bytes in the range.
    pub len: u64,
}

/// What all tokens of one announcement have in common.
#[derive(Debug, PartialEq, Eq)]
struct Grant {
    ticket: Ticket,
    placement: Placement,
    object_len: u64,
    allows: TokenUse,
}

#[derive(Clone, Debug)]
struct Entry {
    grant: Arc<Grant>,
    range: TokenRange,
    until: Timestamp,
}

/// A write names the version and the segment: replicas of one version are in different segments.
type WriteKey = (Ticket, SegmentId);

#[derive(Debug)]
struct Write {
    object_len: u64,
    tokens: Vec<u64>,
    arrived: Ranges,
    /// Whether its bytes had all arrived when it was sealed.
    sealed: Option<Answer<()>>,
    until: Timestamp,
}

/// Something that ends by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Token(u64),
    Write(Ticket, SegmentId),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Tokens {
    entries: BTreeMap<u64, Entry>,
    writes: BTreeMap<WriteKey, Write>,
    endings: BTreeSet<(Timestamp, Ending)>,
}

impl Tokens {
    /// Tokens that are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Remembers tokens. Those that are known already stay as they are.
    ///
    /// # Errors
    /// `InvalidParams` for an announcement that contradicts itself or another one, `Backpressure` beyond [`TOKENS_MAX`].
    pub fn announce(&mut self, now: Timestamp, announce: &Announce) -> Answer<()> {
        self.lapse(now);
        check(announce)?;
        let until = now.after(announce.span);
        let grant = Arc::new(Grant {
            ticket: announce.ticket,
            placement: announce.placement.clone(),
            object_len: announce.object_len,
            allows: announce.allows,
        });
        let mut fresh = Vec::with_capacity(announce.tokens.len());
        for range in &announce.tokens {
            match self.entries.get(&range.token) {
                None => fresh.push(*range),
                Some(known) if known.grant == grant && known.range == *range => {}
                Some(_) => {
                    return Err(wrong("a token was announced for something else before"));
                }
            }
        }
        let key = (announce.ticket, announce.placement.segment);
        if announce.allows == TokenUse::Write {
            if self.writes.get(&key).is_some_and(|w| w.sealed.is_some()) {
                return Ok(());
            }
            if self.writes.len() >= TOKENS_MAX {
                return Err(crowded());
            }
        }
        if self.entries.len() + fresh.len() > TOKENS_MAX {
            return Err(crowded());
        }
        if announce.allows == TokenUse::Write {
            self.expect_write(key, announce.object_len, until, &fresh);
        }
        for range in fresh {
            let grant = Arc::clone(&grant);
            let entry = Entry {
                grant,
                range,
                until,
            };
            self.entries.insert(range.token, entry);
            self.endings.insert((until, Ending::Token(range.token)));
        }
        Ok(())
    }

    fn expect_write(&mut self, key: WriteKey, len: u64, until: Timestamp, fresh: &[TokenRange]) {
        let write = self.writes.entry(key).or_insert_with(|| {
            self.endings.insert((until, Ending::Write(key.0, key.1)));
            Write {
                object_len: len,
                tokens: Vec::new(),
                arrived: Ranges::default(),
                sealed: None,
                until,
            }
        });
        write.tokens.extend(fresh.iter().map(|range| range.token));
    }

    /// Finds what a token stands for.
    ///
    /// # Errors
    /// `InvalidWrite` or `InvalidReplica` (of a read) for a token that is not known, not any more, or not for this use;
    /// `InvalidParams` for a range that is not inside its bytes.
    pub fn resolve(&self, now: Timestamp, span: &TokenSpan, wanted: TokenUse) -> Answer<Resolved> {
        let entry = self.entries.get(&span.token);
        let entry = entry.filter(|entry| entry.grant.allows == wanted && entry.until > now);
        let Some(Entry { grant, range, .. }) = entry else {
            let (code, what) = match wanted {
                TokenUse::Write => (Code::InvalidWrite, "the token does not allow to write"),
                TokenUse::Read => (Code::InvalidReplica, "the token does not allow to read"),
            };
            return Err(Error::new(
                code,
                format!("{what}: it was never announced, is for another use, or has ended"),
            ));
        };
        let inside = span.offset.checked_add(span.len);
        if inside.is_none_or(|end| end > range.len) {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "{} bytes at {} of a handle that has {}",
                    span.len, span.offset, range.len
                ),
            ));
        }
        Ok(Resolved {
            ticket: grant.ticket,
            placement: grant.placement.clone(),
            object_len: grant.object_len,
            offset: range.offset + span.offset,
            len: span.len,
        })
    }

    /// A write of a range begins: its bytes are not there until it has finished. To be called once the shelf has admitted
    /// it and whatever it displaces has stopped.
    ///
    /// # Errors
    /// `InvalidWrite` for a write that is sealed or not known, `Backpressure` when its bytes arrive in too many pieces.
    pub fn begin_write(&mut self, at: &Resolved) -> Answer<()> {
        let arrived = &mut self.open_write(at)?.arrived;
        if arrived.count() >= RANGES_MAX {
            return Err(Error::new(
                Code::Backpressure,
                format!("a write that arrives in more than {RANGES_MAX} separate pieces"),
            ));
        }
        arrived.remove(at.offset, at.offset + at.len);
        Ok(())
    }

    /// A write of a range has finished.
    ///
    /// # Errors
    /// `InvalidWrite` as [`Tokens::begin_write`].
    pub fn finish_write(&mut self, at: &Resolved) -> Answer<()> {
        let arrived = &mut self.open_write(at)?.arrived;
        arrived.add(at.offset, at.offset + at.len);
        Ok(())
    }

    fn open_write(&mut self, at: &Resolved) -> Answer<&mut Write> {
        let key = (at.ticket, at.placement.segment);
        let write = self.writes.get_mut(&key).filter(|w| w.sealed.is_none());
        write.ok_or_else(|| Error::new(Code::InvalidWrite, "the write has ended"))
    }

    /// Ends the write tokens of a version in a segment, and says whether every byte of it has arrived; the same again when
    /// asked again.
    ///
    /// # Errors
    /// `InvalidWrite` when bytes are missing, or nothing is known of the write.
    pub fn seal(&mut self, now: Timestamp, ticket: Ticket, segment: SegmentId) -> Answer<()> {
        let key = (ticket, segment);
        let Some(write) = self.writes.get_mut(&key) else {
            return Err(Error::new(
                Code::InvalidWrite,
                format!("no token of write {ticket} is known in segment {segment}"),
            ));
        };
        if let Some(answer) = &write.sealed {
            return answer.clone();
        }
        let missing = write.arrived.missing(write.object_len);
        let answer = match missing {
            0 => Ok(()),
            _ => Err(Error::new(
                Code::InvalidWrite,
                format!("{missing} of {} bytes were never written", write.object_len),
            )),
        };
        write.sealed = Some(answer.clone());
        write.arrived = Ranges::default();
        let tokens = std::mem::take(&mut write.tokens);
        let ending = Ending::Write(ticket, segment);
        self.endings.remove(&(write.until, ending));
        write.until = write.until.min(now.after(SEALED_KEPT));
        self.endings.insert((write.until, ending));
        tokens.into_iter().for_each(|token| self.forget(token));
        answer
    }

    /// A version was fenced in a segment: its write is over without a result.
    pub fn fence(&mut self, ticket: Ticket, segment: SegmentId) {
        if let Some(write) = self.writes.remove(&(ticket, segment)) {
            self.endings
                .remove(&(write.until, Ending::Write(ticket, segment)));
            write
                .tokens
                .into_iter()
                .for_each(|token| self.forget(token));
        }
    }

    /// A segment is gone, and every token of it.
    pub fn unmount(&mut self, segment: SegmentId) {
        let of_segment = |key: &&WriteKey| key.1 == segment;
        let writes: Vec<_> = self.writes.keys().filter(of_segment).copied().collect();
        writes
            .into_iter()
            .for_each(|(ticket, segment)| self.fence(ticket, segment));
        let entries = self.entries.iter();
        let here = entries.filter(|(_, entry)| entry.grant.placement.segment == segment);
        let tokens: Vec<_> = here.map(|(token, _)| *token).collect();
        tokens.into_iter().for_each(|token| self.forget(token));
    }

    fn forget(&mut self, token: u64) {
        if let Some(entry) = self.entries.remove(&token) {
            self.endings.remove(&(entry.until, Ending::Token(token)));
        }
    }

    /// Forgets what has ended by time.
    fn lapse(&mut self, now: Timestamp) {
        while let Some((until, ending)) = self.endings.first().copied() {
            if until > now {
                return;
            }
            self.endings.pop_first();
            match ending {
                Ending::Token(token) => drop(self.entries.remove(&token)),
                Ending::Write(ticket, segment) => drop(self.writes.remove(&(ticket, segment))),
            }
        }
    }
}

fn wrong(what: &'static str) -> Error {
    Error::new(Code::InvalidParams, what)
}

fn crowded() -> Error {
    Error::new(
        Code::Backpressure,
        format!("the node remembers {TOKENS_MAX} tokens already"),
    )
}

/// Whether an announcement makes sense in itself.
fn check(announce: &Announce) -> Answer<()> {
    let placement = &announce.placement;
    let table = placement.check.map_or(0, |check| check.len);
    let len = announce.object_len;
    if placement.extents.len().0 != len || table != table_len(len) {
        return Err(wrong("a placement that does not fit its payload"));
    }
    let mut seen = BTreeSet::new();
    for range in &announce.tokens {
        let end = range.offset.checked_add(range.len);
        if range.token == 0 || end.is_none_or(|end| end > len) || !seen.insert(range.token) {
            return Err(wrong(
                "a token of 0, for bytes outside the payload, or given twice",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
