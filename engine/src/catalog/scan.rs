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
use ziggurat_base::{Code, Error, Key, TenantId, Timestamp};

/// The longest pattern, in bytes.
const PATTERN_LEN_MAX: usize = 4096;

/// Memory that a compiled pattern may take.
const PATTERN_MEMORY_MAX: usize = 1 << 20;

/// Key bytes that are matched in one step.
const BYTES_PER_STEP: usize = 128;

/// Keys that one turn may list.
const KEYS_MAX: usize = 256;

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
        let mut page = Page::default();
        let mut steps = Steps(STEPS_MAX);
        let mut next = cursor.next_row;
        while next < self.table.rows.end() && page.keys.len() < KEYS_MAX && steps.take() {
            let row = Row(next);
            next = self.table.rows.skip_empty(next + 1);
            let Some(head) = self.table.rows.get(row) else {
                continue;
            };
            if head.tenant != tenant
                || !head.readable()
                || head.ticket > cursor.newest
                || !self.serves(row)
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
                    Err(_) => page.leased += 1,
                },
            }
        }
        page.next = (next < self.table.rows.end()).then_some(Cursor {
            next_row: next,
            ..cursor
        });
        self.settle();
        page
    }
}
