//! Prefetch: ask for objects in memory until each is there, on its way, or refused for good.

use super::Patience;
use crate::{
    command::{Answer, BATCH_MAX, Keys, Prefetch, Prefetched},
    port::Ports,
};
use std::time::Duration;
use ziggurat_base::{Code, Error, Key, TenantId};

/// The first pause between two questions.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Asks for objects; answers by position. Waits for what is on its way to make room for more, at most as long as a put waits
/// for room since the last of them was taken.
pub async fn prefetch(
    ports: &Ports,
    patience: &Patience,
    tenant: TenantId,
    keys: &[Key<'_>],
    wish: Prefetch,
) -> Vec<Answer<Option<Prefetched>>> {
    let mut answers = Vec::with_capacity(keys.len());
    for keys in keys.chunks(BATCH_MAX) {
        answers.extend(prefetch_part(ports, patience, tenant, keys, wish).await);
    }
    answers
}

async fn prefetch_part(
    ports: &Ports,
    patience: &Patience,
    tenant: TenantId,
    keys: &[Key<'_>],
    wish: Prefetch,
) -> Vec<Answer<Option<Prefetched>>> {
    let unanswered = || Err(Error::new(Code::Internal, "a prefetch has no answer"));
    let mut answers: Vec<_> = keys.iter().map(|_| unanswered()).collect();
    let mut asking: Vec<usize> = (0..keys.len()).collect();
    let mut deadline = ports.clock.now().after(patience.room);
    let mut pause = PAUSE_MIN;
    loop {
        let list: Vec<_> = asking.iter().map(|index| keys[*index]).collect();
        let asked = Keys {
            tenant,
            keys: &list,
        };
        let got = match ports.metadata.prefetch(asked, wish).await {
            Ok(got) => got,
            Err(error) => list.iter().map(|_| Err(error.clone())).collect(),
        };
        let before = asking.len();
        let must_wait = |answer: &Answer<Option<Prefetched>>| {
            answer
                .as_ref()
                .is_err_and(|e| e.code() == Code::Backpressure)
        };
        let mut waiting = Vec::new();
        for (index, answer) in asking.into_iter().zip(got) {
            if must_wait(&answer) {
                waiting.push(index);
            }
            answers[index] = answer;
        }
        let now = ports.clock.now();
        if waiting.len() < before {
            deadline = now.after(patience.room);
            pause = PAUSE_MIN;
        }
        if waiting.is_empty() || now >= deadline {
            return answers;
        }
        asking = waiting;
        ports.clock.sleep_until(now.after(pause)).await;
        pause = (pause * 2).min(patience.pause_max);
    }
}
