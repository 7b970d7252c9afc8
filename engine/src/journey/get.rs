//! Get: locate, move the bytes once, then believe them only if the guard held and the sums agree.
//!
//! A failed replica is followed by the next; a grant that went stale meanwhile is asked for anew. In the end there is
//! a value, a miss, or a coded error, never a doubtful byte.

use super::{Patience, usable};
use crate::{
    canary::{Canary, planted},
    command::{Answer, BATCH_MAX, GetGrant, Hold, Keys, Recency},
    port::{Ports, ReadOp, ReadSums},
};
use std::time::Duration;
use ziggurat_base::{CHUNK, ChunkTable, Code, Crc32, Error, Key, TenantId, Timestamp};

/// An object with a guard on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// What was granted.
    pub grant: GetGrant,
    /// The guard protects until here, on the reader's own clock.
    pub until: Timestamp,
}

/// Which bytes of an object are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// The key.
    pub key: Key<'a>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; all to the end when `None`.
    pub len: Option<u64>,
}

impl<'a> Get<'a> {
    /// The whole object.
    #[must_use]
    pub fn whole(key: Key<'a>) -> Self {
        Self {
            key,
            offset: 0,
            len: None,
        }
    }

    /// The range within an object of `object_len` bytes, as offset and length.
    fn range(&self, object_len: u64) -> Answer<(u64, u64)> {
        let rest = object_len.checked_sub(self.offset);
        match (rest, self.len) {
            (Some(rest), None) => Ok((self.offset, rest)),
            (Some(rest), Some(len)) if len <= rest => Ok((self.offset, len)),
            _ => Err(Error::new(
                Code::InvalidRead,
                format!(
                    "{:?} bytes at {} lie outside the object of {object_len} bytes",
                    self.len, self.offset
                ),
            )),
        }
    }
}

/// Where the bytes of one answer go.
pub trait GetInto: Send {
    /// Room for exactly the given number of bytes for each of several answers, by index; the indices rise. An error
    /// becomes the answer. Asked anew when a read begins anew.
    fn rooms<'a>(&'a mut self, wanted: &[(usize, u64)]) -> Vec<Answer<&'a mut [u8]>>;
}

/// The pause before an object is asked for a third time, and five times as long before the fourth: an owner that has let go
/// of a version says so only when it is off its disk for good, and until then the partition still names it.
const PAUSE: Duration = Duration::from_millis(10);

/// Takes guards; the clock of each starts before the question leaves.
async fn locate(
    ports: &Ports,
    tenant: TenantId,
    keys: &[Key<'_>],
    recency: Recency,
) -> Answer<Vec<Answer<Option<Located>>>> {
    let sent = ports.clock.now();
    let answers = ports
        .metadata
        .locate(Keys { tenant, keys }, recency)
        .await?;
    let from = if planted(Canary::LeaseClockRestarted) {
        ports.clock.now()
    } else {
        sent
    };
    let located = |grant: GetGrant| Located {
        until: from.after(usable(grant.span)),
        grant,
    };
    Ok(answers
        .into_iter()
        .map(|answer| answer.map(|found| found.map(located)))
        .collect())
}

/// Reads objects or ranges; answers by position with the number of bytes, or `None` for a miss. The same key may be
/// asked for several times.
pub async fn get(
    ports: &Ports,
    patience: &Patience,
    tenant: TenantId,
    gets: &[Get<'_>],
    recency: Recency,
    into: &mut dyn GetInto,
) -> Vec<Answer<Option<u64>>> {
    let mut answers: Vec<Answer<Option<u64>>> = gets.iter().map(|_| Ok(None)).collect();
    let indices: Vec<usize> = (0..gets.len()).collect();
    for batch in indices.chunks(BATCH_MAX) {
        let mut pending = batch.to_vec();
        for round in 0..=patience.relocations {
            let last = round == patience.relocations;
            if let Some(again) = round.checked_sub(2) {
                let pause = PAUSE * 5_u32.saturating_pow(again.min(1));
                ports
                    .clock
                    .sleep_until(ports.clock.now().after(pause))
                    .await;
            }
            pending = get_round(
                ports,
                patience,
                tenant,
                gets,
                recency,
                into,
                &pending,
                &mut answers,
                last,
            )
            .await;
            if pending.is_empty() {
                break;
            }
        }
    }
    answers
}

/// One object of a round: what is wanted of it and what was granted.
struct Wanted<'a> {
    index: usize,
    key: Key<'a>,
    offset: u64,
    len: u64,
    located: Located,
}

/// Locates and reads once; returns what is worth another round.
#[expect(
    clippy::too_many_arguments,
    reason = "one round of a batch with all that the batch shares"
)]
async fn get_round(
    ports: &Ports,
    patience: &Patience,
    tenant: TenantId,
    gets: &[Get<'_>],
    recency: Recency,
    into: &mut dyn GetInto,
    pending: &[usize],
    answers: &mut [Answer<Option<u64>>],
    last: bool,
) -> Vec<usize> {
    let keys: Vec<_> = pending.iter().map(|index| gets[*index].key).collect();
    let located = match locate(ports, tenant, &keys, recency).await {
        Ok(located) => located,
        Err(error) => {
            for index in pending {
                answers[*index] = Err(error.clone());
            }
            return Vec::new();
        }
    };
    let mut wanted = Vec::with_capacity(pending.len());
    let mut holds: Vec<Hold> = Vec::with_capacity(pending.len());
    for (index, answer) in pending.iter().zip(located) {
        answers[*index] = match answer {
            Ok(Some(located)) => {
                holds.push(located.grant.hold);
                gets[*index].range(located.grant.len).map(|(offset, len)| {
                    wanted.push(Wanted {
                        index: *index,
                        key: gets[*index].key,
                        offset,
                        len,
                        located,
                    });
                    None
                })
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
    }
    let mut again = Vec::new();
    let mut rest = &wanted[..];
    while !rest.is_empty() {
        let (now, later) = rest.split_at(stretch(rest, patience.stretch));
        for (one, result) in now.iter().zip(read(ports, now, into).await) {
            if !last && result.as_ref().is_err_and(is_stale) {
                again.push(one.index);
            }
            answers[one.index] = result.map(|()| Some(one.len));
        }
        rest = later;
    }
    ports.metadata.give_back(&holds);
    again
}

/// Whether another look may find the object elsewhere: its place is another by now, or its owner another incarnation.
fn is_stale(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::LeaseExpired
            | Code::ReplicaIsGone
            | Code::ChecksumMismatch
            | Code::ClientNotFound
            | Code::SegmentNotFound
    )
}

fn stretch(wanted: &[Wanted<'_>], bytes_max: u64) -> usize {
    let mut bytes = 0;
    let fits = |one: &&Wanted<'_>| {
        let first = bytes == 0;
        bytes += one.len.max(1);
        first || bytes <= bytes_max
    };
    wanted.iter().take_while(fits).count()
}

/// A range on whole chunks around the one that is wanted: what can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cover {
    offset: u64,
    len: u64,
}

impl Cover {
    fn of(offset: u64, len: u64, object_len: u64) -> Self {
        let chunk = CHUNK as u64;
        if object_len <= chunk {
            return Self {
                offset: 0,
                len: object_len,
            };
        }
        let start = offset / chunk * chunk;
        let end = (offset + len).next_multiple_of(chunk).min(object_len);
        Self {
            offset: start,
            len: end - start,
        }
    }
}

/// Reads what was located, replica after replica, and believes what is proved.
async fn read(ports: &Ports, wanted: &[Wanted<'_>], into: &mut dyn GetInto) -> Vec<Answer<()>> {
    let asked: Vec<_> = wanted.iter().map(|one| (one.index, one.len)).collect();
    let mut results: Vec<Answer<()>> = Vec::with_capacity(wanted.len());
    let mut rooms: Vec<Option<&mut [u8]>> = Vec::with_capacity(wanted.len());
    for room in into.rooms(&asked) {
        match room {
            Ok(room) => {
                rooms.push(Some(room));
                results.push(Err(Code::InvalidReplica.into()));
            }
            Err(error) => {
                rooms.push(None);
                results.push(Err(error));
            }
        }
    }
    let replicas_max = wanted
        .iter()
        .map(|one| one.located.grant.replicas.as_slice().len())
        .max()
        .unwrap_or(0);
    for replica in 0..replicas_max {
        let open = |i: usize| {
            rooms[i].is_some()
                && results[i].is_err()
                && replica < wanted[i].located.grant.replicas.as_slice().len()
        };
        let turn: Vec<bool> = (0..wanted.len()).map(open).collect();
        if turn.iter().all(|open| !open) {
            break;
        }
        read_replica(ports, wanted, replica, &turn, &mut rooms, &mut results).await;
    }
    results
}

async fn read_replica(
    ports: &Ports,
    wanted: &[Wanted<'_>],
    replica: usize,
    turn: &[bool],
    rooms: &mut [Option<&mut [u8]>],
    results: &mut [Answer<()>],
) {
    let cover = |one: &Wanted<'_>| Cover::of(one.offset, one.len, one.located.grant.len);
    let exact = |one: &Wanted<'_>| {
        cover(one)
            == Cover {
                offset: one.offset,
                len: one.len,
            }
    };
    // Ranges that do not lie on whole chunks are read beside the caller's buffer, which gets only what was asked for.
    let beside = |one: &Wanted<'_>| {
        if exact(one) {
            Vec::new()
        } else {
            vec![0; cover(one).len as usize]
        }
    };
    let mut scratch: Vec<Vec<u8>> = wanted
        .iter()
        .zip(turn)
        .map(|(one, turn)| if *turn { beside(one) } else { Vec::new() })
        .collect();
    let mut ops = Vec::with_capacity(wanted.len());
    let places = wanted
        .iter()
        .zip(turn)
        .zip(rooms.iter_mut().zip(&mut scratch));
    for ((one, _), (room, beside)) in places.filter(|((_, turn), _)| **turn) {
        let into = match room {
            Some(room) if exact(one) => &mut **room,
            _ => &mut beside[..],
        };
        let grant = &one.located.grant;
        let source = &grant.replicas.as_slice()[replica];
        ops.push(ReadOp {
            name: source.is_shared().then_some(one.key),
            ticket: grant.ticket,
            source,
            object_len: grant.len,
            offset: cover(one).offset,
            into,
            want_table: cover(one).len != grant.len,
        });
    }
    let answers = ports.data.read(&mut ops).await;
    drop(ops);
    let now = ports.clock.now();
    let mut answers = answers.into_iter();
    for (index, one) in wanted.iter().enumerate().filter(|(index, _)| turn[*index]) {
        let answer = answers.next().unwrap_or_else(|| Err(Code::Internal.into()));
        results[index] = answer.and_then(|sums| believe(&one.located, cover(one), &sums, now));
        if results[index].is_ok()
            && !exact(one)
            && let Some(room) = &mut rooms[index]
        {
            let skip = (one.offset - cover(one).offset) as usize;
            room.copy_from_slice(&scratch[index][skip..skip + room.len()]);
        }
    }
}

/// The only place where bytes are believed: the guard held until now, and the sums prove the range.
fn believe(located: &Located, cover: Cover, sums: &ReadSums, now: Timestamp) -> Answer<()> {
    if now >= located.until && !planted(Canary::GuardUnchecked) {
        return Err(Error::new(
            Code::LeaseExpired,
            "the guard ended before the bytes had arrived",
        ));
    }
    let grant = &located.grant;
    let wrong = |what| Err(Error::new(Code::ChecksumMismatch, what));
    if cover.len == grant.len {
        return if sums.crc == grant.crc {
            Ok(())
        } else {
            wrong("the bytes do not have the object's sum")
        };
    }
    if planted(Canary::RangedChecksumUnchecked) {
        return Ok(());
    }
    let table = ChunkTable::proved(&sums.table, grant.len, grant.crc)?;
    let first = (cover.offset / CHUNK as u64) as usize;
    let wanted: &[Crc32] = table
        .sums()
        .get(first..first + sums.chunks.len())
        .unwrap_or_default();
    let count = cover.len.div_ceil(CHUNK as u64) as usize;
    if sums.chunks.len() == count && wanted == sums.chunks {
        Ok(())
    } else {
        wrong("a chunk of the range does not have its sum")
    }
}
