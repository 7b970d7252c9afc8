//! Readers that never stop, and what they see before and after the death of a node.

use super::Object;
use crate::bench::stopwatch::Spans;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::sleep;
use ziggurat_store::Store;

/// How often a reader looks at its objects before the end: the pause after a read that has found nothing, as anybody would
/// do something else then.
const PAUSE: Duration = Duration::from_millis(1);

/// Stands for a value that was found.
pub(super) const FOUND: &str = "FOUND";

/// Stands for a miss.
const MISS: &str = "MISS";

/// How far the measurement is.
#[derive(Debug, Default)]
pub(super) struct Watch {
    phase: AtomicU8,
}

const BEFORE: u8 = 0;
const AFTER: u8 = 1;
const OVER: u8 = 2;

impl Watch {
    pub(super) fn death_begins(&self) {
        self.phase.store(AFTER, Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.phase.store(OVER, Ordering::SeqCst);
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::SeqCst)
    }
}

/// What a reader has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Times of reads that began before the death and had ended by then.
    pub(super) before: Spans,
    /// Times of all others.
    pub(super) after: Spans,
    /// Payloads that were not what was put.
    pub(super) wrong: u64,
    /// Answers for objects with one replica.
    pub(super) single: BTreeMap<&'static str, u64>,
    /// Values of objects with two replicas that were read after the death began.
    pub(super) failed_over: u64,
    /// Objects with two replicas that were not found.
    pub(super) not_failed_over: u64,
}

/// Reads its objects one after the other, round and round.
pub(super) struct Reader {
    pub(super) store: Store,
    pub(super) objects: Vec<Object>,
    pub(super) len: usize,
    pub(super) watch: Arc<Watch>,
}

impl Reader {
    pub(super) async fn run(self) -> Seen {
        let mut seen = Seen::default();
        let mut room = vec![0; self.len];
        for object in self.objects.iter().cycle() {
            if self.watch.phase() == OVER {
                break;
            }
            let began = Instant::now();
            let read = self.store.get_into(&object.key, &mut room).await;
            let span = began.elapsed();
            let phase = self.watch.phase();
            let spans = if phase == BEFORE {
                &mut seen.before
            } else {
                &mut seen.after
            };
            spans.add(span);
            let answer = match read {
                Ok(Some(len)) => {
                    let right = len == self.len as u64 && object.payload.check(&room).is_ok();
                    seen.wrong += u64::from(!right);
                    FOUND
                }
                Ok(None) => MISS,
                Err(error) => error.code().name(),
            };
            if !object.twofold {
                *seen.single.entry(answer).or_default() += 1;
            } else if answer != FOUND {
                seen.not_failed_over += 1;
            } else if phase != BEFORE {
                seen.failed_over += 1;
            }
            if answer != FOUND {
                sleep(PAUSE).await;
            }
        }
        seen
    }
}
