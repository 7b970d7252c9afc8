//! Put: reserve, move the bytes once to every replica, commit. Whatever fails leaves nothing readable behind.

use super::{Patience, with_alarm};
use crate::{
    command::{
        Answer, BATCH_MAX, PutAnswer, PutEnd, PutGrant, PutItem, Tags, Target, Wish, Written,
    },
    port::{Name, Ports, WriteOp},
};
use std::time::Duration;
use ziggurat_base::{Code, Crc32, Error, Key, TenantId, Ticket, Timestamp};

/// The first pause between two questions for room.
const PAUSE_MIN: Duration = Duration::from_micros(200);

/// One object to put.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// Its payload in parts, in order.
    pub parts: &'a [&'a [u8]],
    /// What it is related to.
    pub tags: Tags<'a>,
}

impl Put<'_> {
    fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// What a put has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The object is readable, with this many replicas.
    Stored {
        /// At least 1.
        replicas: u32,
    },
    /// The key was readable before; its value stays and the new one is dropped.
    Existed,
}

/// Puts objects; answers by position.
pub async fn put(
    ports: &Ports,
    patience: &Patience,
    tenant: TenantId,
    puts: &[Put<'_>],
    wish: &Wish,
) -> Vec<Answer<PutOutcome>> {
    let mut answers = Vec::with_capacity(puts.len());
    let mut rest = puts;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(stretch(rest, patience.stretch));
        answers.extend(put_stretch(ports, patience, tenant, now, wish).await);
        rest = later;
    }
    answers
}

/// How many objects go together: bounded in number and in bytes, so that no ticket waits long for its turn.
fn stretch(puts: &[Put<'_>], bytes_max: u64) -> usize {
    let mut bytes = 0;
    let fits = |put: &&Put<'_>| {
        let first = bytes == 0;
        bytes += put.len().max(1);
        first || bytes <= bytes_max
    };
    puts.iter().take(BATCH_MAX).take_while(fits).count()
}

/// A granted put on its way.
struct Going<'a> {
    index: usize,
    put: &'a Put<'a>,
    grant: PutGrant,
}

async fn put_stretch(
    ports: &Ports,
    patience: &Patience,
    tenant: TenantId,
    puts: &[Put<'_>],
    wish: &Wish,
) -> Vec<Answer<PutOutcome>> {
    let unanswered = || Err(Error::new(Code::Internal, "a put has no answer"));
    let mut answers: Vec<Answer<PutOutcome>> = puts.iter().map(|_| unanswered()).collect();
    let mut asking: Vec<usize> = (0..puts.len()).collect();
    let mut deadline = ports.clock.now().after(patience.room);
    let mut pause = PAUSE_MIN;
    loop {
        let (going, waiting) = ask(ports, tenant, puts, wish, asking, &mut answers).await;
        if !going.is_empty() {
            // What was granted is finished before more is asked for: a writer never waits for room that it holds itself.
            move_and_end(ports, &going, &mut answers).await;
            deadline = ports.clock.now().after(patience.room);
            pause = PAUSE_MIN;
        }
        if waiting.is_empty() {
            return answers;
        }
        let now = ports.clock.now();
        if going.is_empty() && now >= deadline {
            for (index, error) in waiting {
                let span = ziggurat_base::unit::human_span(patience.room);
                let what = format!("no room within {span}: {}", error.what());
                answers[index] = Err(Error::new(Code::NoAvailableHandle, what));
            }
            return answers;
        }
        asking = waiting.into_iter().map(|(index, _)| index).collect();
        if going.is_empty() {
            ports.clock.sleep_until(now.after(pause)).await;
            pause = (pause * 2).min(patience.pause_max);
        }
    }
}

/// Asks for space once. Returns what was granted and what has to wait.
async fn ask<'a>(
    ports: &Ports,
    tenant: TenantId,
    puts: &'a [Put<'a>],
    wish: &Wish,
    asking: Vec<usize>,
    answers: &mut [Answer<PutOutcome>],
) -> (Vec<Going<'a>>, Vec<(usize, Error)>) {
    let item = |index: &usize| PutItem {
        key: puts[*index].key,
        len: puts[*index].len(),
        tags: puts[*index].tags,
    };
    let items: Vec<_> = asking.iter().map(item).collect();
    let (mut going, mut waiting) = (Vec::with_capacity(asking.len()), Vec::new());
    match ports.metadata.put_start(tenant, &items, wish).await {
        Ok(granted) => {
            for (index, answer) in asking.into_iter().zip(granted) {
                match answer {
                    Ok(PutAnswer::Granted(grant)) => going.push(Going {
                        index,
                        put: &puts[index],
                        grant,
                    }),
                    Ok(PutAnswer::Existed) => answers[index] = Ok(PutOutcome::Existed),
                    Err(error) if error.code() == Code::Backpressure => {
                        waiting.push((index, error))
                    }
                    Err(error) => answers[index] = Err(error),
                }
            }
        }
        Err(error) => asking
            .into_iter()
            .for_each(|index| answers[index] = Err(error.clone())),
    }
    (going, waiting)
}

/// What became of the replicas of each granted put, by position in its grant.
type Moved = Vec<Vec<Answer<Crc32>>>;

/// Moves the bytes to memory, and then to the shard files of what has a good replica in the memory that was asked for.
async fn move_all(ports: &Ports, going: &[Going<'_>]) -> Moved {
    let unwritten = |here: &Going<'_>| {
        let targets = here.grant.targets.as_slice();
        targets.iter().map(|_| Err(not_tried())).collect()
    };
    let mut moved: Moved = going.iter().map(unwritten).collect();
    write_class(ports, going, &mut moved, |_, target| !target.is_shared()).await;
    let is_good = |here: &Going<'_>, results: &[Answer<Crc32>]| {
        let targets = here.grant.targets.as_slice();
        let mut memory = targets
            .iter()
            .zip(results)
            .filter(|(t, _)| !t.is_shared())
            .peekable();
        memory.peek().is_none() || memory.any(|(_, result)| result.is_ok())
    };
    let good: Vec<_> = going
        .iter()
        .zip(&moved)
        .map(|(here, r)| is_good(here, r))
        .collect();
    write_class(ports, going, &mut moved, |index, target| {
        target.is_shared() && good[index]
    })
    .await;
    moved
}

fn not_tried() -> Error {
    Error::new(
        Code::WriteFail,
        "nothing was written to the shard files, for memory failed",
    )
}

/// Writes the replicas that `which` names.
async fn write_class(
    ports: &Ports,
    going: &[Going<'_>],
    moved: &mut Moved,
    which: impl Fn(usize, &Target) -> bool,
) {
    let mut ops = Vec::with_capacity(going.len());
    let mut cells = Vec::with_capacity(going.len());
    for (index, here) in going.iter().enumerate() {
        let targets = here.grant.targets.as_slice().iter().enumerate();
        let name = Name {
            key: here.put.key,
            tags: here.put.tags,
        };
        for (position, target) in targets.filter(|(_, target)| which(index, target)) {
            ops.push(WriteOp {
                name: target.is_shared().then_some(name),
                ticket: here.grant.ticket,
                target,
                parts: here.put.parts,
                len: here.put.len(),
            });
            cells.push((index, position));
        }
    }
    if ops.is_empty() {
        return;
    }
    for ((index, position), result) in cells.into_iter().zip(ports.data.write(&ops).await) {
        moved[index][position] = result;
    }
}

async fn move_and_end(ports: &Ports, going: &[Going<'_>], answers: &mut [Answer<PutOutcome>]) {
    let tickets: Vec<_> = going.iter().map(|g| g.grant.ticket).collect();
    let moved = with_alarm(move_all(ports, going), || renew(ports, going, &tickets)).await;
    let moved = match moved {
        Ok(moved) => moved,
        Err(error) => {
            for here in going {
                answers[here.index] = Err(error.clone());
            }
            revoke(ports, tickets).await;
            return;
        }
    };
    let mut ends = Vec::with_capacity(going.len());
    let mut ending = Vec::with_capacity(going.len());
    let mut revoked = Vec::new();
    for (here, results) in going.iter().zip(&moved) {
        match judge(&here.grant, results) {
            Ok(end) => {
                ends.push(end);
                ending.push(here.index);
            }
            Err(error) => {
                answers[here.index] = Err(error);
                revoked.push(here.grant.ticket);
            }
        }
    }
    if !revoked.is_empty() {
        revoke(ports, revoked).await;
    }
    if ends.is_empty() {
        return;
    }
    match ports.metadata.put_end(&ends).await {
        Ok(done) => {
            for (index, done) in ending.into_iter().zip(done) {
                answers[index] = done.map(|done| PutOutcome::Stored {
                    replicas: done.replicas,
                });
            }
        }
        Err(error) => {
            for index in ending {
                answers[index] = Err(error.clone());
            }
        }
    }
}

/// Sleeps for half of the writers' span, then asks for more of it.
async fn renew(ports: &Ports, going: &[Going<'_>], tickets: &[Ticket]) -> Result<(), Error> {
    let span = going.iter().map(|g| g.grant.span).min().unwrap_or_default();
    let half: Timestamp = ports.clock.now().after(span / 2);
    ports.clock.sleep_until(half).await;
    for renewed in ports.metadata.renew(tickets).await? {
        renewed?;
    }
    Ok(())
}

/// Makes one report of what became of the replicas, or says why it came to nothing: each kind of space that was asked for
/// needs a good replica.
fn judge(grant: &PutGrant, replicas: &[Answer<Crc32>]) -> Result<PutEnd, Error> {
    let crc = replicas.iter().find_map(|r| r.as_ref().ok()).copied();
    // A replica with another sum saw other bytes: the caller changed its buffer meanwhile.
    let good = |r: &Answer<Crc32>| r.as_ref().is_ok_and(|sum| Some(*sum) == crc);
    for shared in [false, true] {
        let targets = grant.targets.as_slice().iter().zip(replicas);
        let class: Vec<_> = targets
            .filter(|(target, _)| target.is_shared() == shared)
            .map(|(_, result)| result)
            .collect();
        if !class.is_empty() && !class.iter().any(|result| good(result)) {
            let first = class.iter().find_map(|r| r.as_ref().err()).cloned();
            return Err(first.unwrap_or_else(changed));
        }
    }
    let Some(crc) = crc else {
        return Err(Code::WriteFail.into());
    };
    let written = if replicas.iter().all(good) {
        Written::All
    } else {
        Written::Each(replicas.iter().map(|r| Some(good(r))).collect())
    };
    Ok(PutEnd {
        ticket: grant.ticket,
        crc,
        written,
    })
}

fn changed() -> Error {
    Error::new(
        Code::ChecksumMismatch,
        "the value changed while it was written",
    )
}

/// Gives tickets up, best effort: a writer that is not heard is fenced in time.
async fn revoke(ports: &Ports, tickets: Vec<Ticket>) {
    if !tickets.is_empty() {
        let _unheard = ports.metadata.revoke(&tickets).await;
    }
}
