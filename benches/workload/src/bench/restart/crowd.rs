//! The objects: put once, read and compared again and again.

use crate::{Payload, bench::key, payload::Origin};
use std::time::{Duration, Instant};
use ziggurat_base::{
    Key, Result, TenantId,
    hash::{key_hash, mix},
};
use ziggurat_store::{PutOptions, PutRequest, Recency, Store};

/// Objects of a batch.
const BATCH: usize = 128;

/// Objects that are looked at before all of them are.
const PROBES: usize = 256;

/// Their length.
const LEN_MIN: u64 = 4 << 10;
const LEN_MAX: u64 = 16 << 10;

/// Tells their keys from those of other measurements.
const KIND: u64 = 9;

#[derive(Clone, Debug)]
struct Object {
    key: [u8; 32],
    payload: Payload,
    len: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Crowd {
    objects: Vec<Object>,
    /// Room for a batch.
    rooms: Vec<Vec<u8>>,
}

/// What reading some of them has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pass {
    /// Objects that came back as they were put.
    pub(super) right: u64,
    /// Objects that came back otherwise.
    pub(super) wrong: u64,
    /// The longest wait for a batch.
    pub(super) longest: Duration,
}

impl Crowd {
    pub(super) fn new(count: u64, seed: u64) -> Result<Self> {
        let object = |number| {
            let key = key(KIND, number);
            let origin = Origin {
                seed,
                key_hash: key_hash(TenantId(0), Key::new(&key)?),
                version: 1,
            };
            let len = LEN_MIN + mix(number) % (LEN_MAX - LEN_MIN + 1);
            Ok(Object {
                key,
                payload: origin.into(),
                len: len as usize,
            })
        };
        Ok(Self {
            objects: (0..count).map(object).collect::<Result<_>>()?,
            rooms: vec![vec![0; LEN_MAX as usize]; BATCH],
        })
    }

    pub(super) fn objects(&self) -> u64 {
        self.objects.len() as u64
    }

    pub(super) fn payload_bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.len as u64).sum()
    }

    pub(super) async fn put(&mut self, store: &Store) -> Result<()> {
        for objects in self.objects.chunks(BATCH) {
            let rooms = objects.iter().zip(&mut self.rooms);
            let filled: Vec<[&[u8]; 1]> = rooms
                .map(|(object, room)| {
                    let room = &mut room[..object.len];
                    object.payload.fill(room);
                    [&*room]
                })
                .collect();
            let requests: Vec<_> = objects
                .iter()
                .zip(&filled)
                .map(|(object, parts)| PutRequest::new(&object.key, parts))
                .collect();
            for answer in store.put_many(&requests, &PutOptions::default()).await {
                answer?;
            }
        }
        Ok(())
    }

    /// Whether some of them, from everywhere, are all there.
    pub(super) async fn probe(&mut self, store: &Store) -> bool {
        let step = self.objects.len().div_ceil(PROBES);
        let some: Vec<_> = (0..self.objects.len()).step_by(step).collect();
        for numbers in some.chunks(BATCH) {
            let pass = self.read(store, numbers).await;
            if pass.right < numbers.len() as u64 {
                return false;
            }
        }
        true
    }

    /// Reads all of them, or up to the first that is not there.
    pub(super) async fn read_all(&mut self, store: &Store, goes_on: bool) -> Pass {
        let mut sum = Pass::default();
        let numbers: Vec<_> = (0..self.objects.len()).collect();
        for numbers in numbers.chunks(BATCH) {
            let pass = self.read(store, numbers).await;
            sum.right += pass.right;
            sum.wrong += pass.wrong;
            sum.longest = sum.longest.max(pass.longest);
            if pass.right < numbers.len() as u64 && !goes_on {
                break;
            }
        }
        sum
    }

    async fn read(&mut self, store: &Store, numbers: &[usize]) -> Pass {
        let objects: Vec<_> = numbers.iter().map(|at| &self.objects[*at]).collect();
        let keys: Vec<&[u8]> = objects.iter().map(|object| &object.key[..]).collect();
        let mut rooms: Vec<_> = self.rooms.iter_mut().map(|room| &mut room[..]).collect();
        rooms.truncate(objects.len());
        let began = Instant::now();
        let answers = store.get_many_into(&keys, &mut rooms, Recency::Touch).await;
        let mut pass = Pass {
            longest: began.elapsed(),
            ..Pass::default()
        };
        for ((object, room), answer) in objects.iter().zip(&rooms).zip(answers) {
            let Ok(Some(len)) = answer else {
                continue;
            };
            let is_right =
                len == object.len as u64 && object.payload.check(&room[..object.len]).is_ok();
            pass.right += u64::from(is_right);
            pass.wrong += u64::from(!is_right);
        }
        pass
    }
}
