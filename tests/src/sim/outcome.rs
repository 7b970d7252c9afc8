//! What one history came to.

use std::collections::BTreeMap;
use ziggurat_base::{Timestamp, hash::mix};
use ziggurat_engine::state::Seen;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// When, in true time.
    pub at: Timestamp,
    /// The circumstances.
    pub what: String,
}

/// The most violations that are kept: the first says the most.
const VIOLATIONS_MAX: usize = 20;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Changes with every event and every answer: equal traces mean equal histories.
    pub trace: u64,
    /// Operations of clients that have an answer, or died with their client.
    pub ops: u64,
    /// What went wrong on purpose, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// How operations ended, by operation and result.
    pub answers: BTreeMap<String, u64>,
    /// Reads that gave bytes which nobody had written there.
    pub wrong_bytes: u64,
    /// Rules that were broken.
    pub violations: Vec<Violation>,
    /// State × event cells that were tried.
    pub seen: Seen,
    /// True time that passed.
    pub now: Timestamp,
    /// Lines of the story, when it is to be told.
    pub story: Option<Vec<String>>,
}

impl Outcome {
    /// Folds a fact into the trace.
    pub(crate) fn note(&mut self, fact: u64) {
        self.trace = mix(self.trace ^ fact);
    }

    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub(crate) fn violation(&mut self, rule: &'static str, what: String) {
        let at = self.now;
        self.tell(|| format!("VIOLATION {rule}: {what}"));
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { rule, at, what });
        }
    }

    /// Adds a line to the story.
    pub(crate) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            let at = self.now.0 / 1000;
            story.push(format!(
                "{:>5}.{:06} {}",
                at / 1_000_000,
                at % 1_000_000,
                line()
            ));
        }
    }
}
