//! Scans over all objects of a tenant: list, remove all, remove by pattern. In turns of bounded length.
//!
//! A scan goes through the rows in order, and an object keeps its row while it lives: so an object that is there all the
//! time is seen exactly once, and one that comes or goes meanwhile at most once.

use super::{Catalog, STEPS_MAX, Steps};
use crate::{
    Row,
    command::{Answer, Cursor, Page, ScanAction},
};
use regex::bytes::{Regex, RegexBuilder};
use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{Code, DirectoryId, Error, Key, TenantId, Ticket, Timestamp};

/// The longest pattern, in bytes.
const PATTERN_LEN_MAX: usize = 4096;

/// Memory that a compiled pattern may take.
const PATTERN_MEMORY_MAX: usize = 1 << 20;

/// Key bytes that are matched in one step.
const BYTES_PER_STEP: usize = 128;

/// Keys that one turn may list.
const KEYS_MAX: usize = 256;

/// Removing scans that are remembered while they have turns to come.
const SCANS_MAX: usize = 64;

/// A removing scan without a turn for this long is not going on.
const SCAN_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Removing scans under way: the newest version that each covers, and when it had its last turn.
#[derive(Debug, Default)]
pub(super) struct Scans(BTreeMap<Ticket, Timestamp>);

impl Scans {
    fn turned(&mut self, now: Timestamp, newest: Ticket, has_more: bool) {
        if has_more {
            self.0.insert(newest, now);
        } else {
            self.0.remove(&newest);
        }
        if self.0.len() > SCANS_MAX {
            let idle = self.0.iter().min_by_key(|(_, last)| **last);
            let idle = idle.map(|(newest, _)| *newest);
            self.0.retain(|newest, _| Some(*newest) != idle);
        }
    }

    /// The newest version that a scan under way covers.
    pub(super) fn newest(&self, now: Timestamp) -> Option<Ticket> {
        let alive = |last: &Timestamp| now.since(*last) < SCAN_PAUSE_MAX;
        let mut alive = self.0.iter().filter(|(_, last)| alive(last));
        alive.next_back().map(|(newest, _)| *newest)
    }
}

/// A compiled pattern. Matching takes time linear in the key, whatever the pattern.
#[derive(Clone, Debug)]
pub struct Matcher {
    pattern: Option<Regex>,
}

impl Matcher {
    /// Compiles a pattern; the empty one matches every key. Unanchored: write `^…$` for the whole key.
    ///
    /// # Errors
    /// `InvalidParams` naming what is wrong; look-around and back-references are not supported.
    pub fn new(pattern: &str) -> Answer<Self> {
        if pattern.is_empty() {
            return Ok(Self { pattern: None });
        }
        if pattern.len() > PATTERN_LEN_MAX {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "the pattern is {} bytes long, at most {PATTERN_LEN_MAX} are allowed",
                    pattern.len()
                ),
            ));
        }
        let compiled = RegexBuilder::new(pattern)
            .size_limit(PATTERN_MEMORY_MAX)
            .dfa_size_limit(PATTERN_MEMORY_MAX)
            .build();
        match compiled {
            Ok(pattern) => Ok(Self {
                pattern: Some(pattern),
            }),
            Err(error) => Err(Error::new(
                Code::InvalidParams,
                format!("not a usable pattern: {error}"),
            )),
        }
    }

    /// Whether the pattern is found in the key.
    #[must_use]
    pub fn matches(&self, key: Key<'_>) -> bool {
        self.pattern
            .as_ref()
            .is_none_or(|p| p.is_match(key.bytes()))
    }
}

impl Catalog {
    /// Begins a scan of everything that exists now.
    #[must_use]
    pub fn scan_start(&self) -> Cursor {
        Cursor {
            next_row: 0,
            newest: self.newest_ticket(),
        }
    }

    /// Does one turn of a scan.
    pub fn scan(
        &mut self,
        now: Timestamp,
        tenant: TenantId,
        matcher: &Matcher,
        action: ScanAction,
        cursor: Cursor,
    ) -> Page {
        if let ScanAction::Remove(_) = action {
            // What an absent directory holds cannot be scanned: nothing of it comes back.
            self.directories.raise_absent(cursor.newest);
            if cursor.next_row == 0 {
                self.bury_flights(cursor.newest);
            }
        }
        let mut page = Page::default();
        let mut steps = Steps(STEPS_MAX);
        let mut next = cursor.next_row;
        while next < self.table.rows.end() && page.keys.len() < KEYS_MAX && steps.take() {
            let row = Row(next);
            next = self.table.rows.skip_empty(next + 1);
            let Some(head) = self.table.rows.get(row) else {
                continue;
            };
            let is_served = self.serves(row);
            // A version that is lost with its segment is a miss already, but its owner may come back with it.
            let is_seen = is_served || action != ScanAction::List;
            if head.tenant != tenant || !head.readable() || head.ticket > cursor.newest || !is_seen
            {
                continue;
            }
            let key = self.table.rows.key(row);
            // The turn may run over by one key; a long key is worth several steps.
            steps.take_many((key.bytes().len() / BYTES_PER_STEP) as u32);
            if !matcher.matches(key) {
                continue;
            }
            match action {
                ScanAction::List => page.keys.push((key.to_owned(), head.len)),
                ScanAction::Remove(force) => match self.remove_row(now, row, force) {
                    Ok(()) => page.removed += 1,
                    Err(_) if is_served => page.leased += 1,
                    Err(_) => {}
                },
            }
        }
        page.next = (next < self.table.rows.end()).then_some(Cursor {
            next_row: next,
            ..cursor
        });
        if let ScanAction::Remove(_) = action {
            let has_more = page.next.is_some();
            self.scans.turned(now, cursor.newest, has_more);
        }
        self.settle();
        page
    }
    /// The partition does not know any more what the directory holds. What a scan under way has still to remove of it must not
    /// come back behind the scan.
    pub(super) fn absent_from_now(&mut self, directory: DirectoryId) {
        self.directories.left(directory, self.newest_ticket());
        if let Some(floor) = self.scans.newest(self.last_tick) {
            self.directories.raise(directory, floor);
        }
    }
}
