//! Over TCP: client here, master and node in another process, both on loopback.
//!
//! The limit of a call is one bare exchange of as many bytes, batches included: header and payload one way, one byte or
//! the payload the other.

use super::{DataOptions, DataRow, KIB, MIB, Pools, Rounds, Shape, shape};
use crate::bench::{
    Program, Progress, failed,
    limits::Raw,
    peer::{Child, Role, Spec},
};
use std::time::{Duration, Instant};
use tokio::runtime::{self, Runtime};
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_engine::command::{BATCH_MAX, Recency};
use ziggurat_store::{ConnectOptions, Force, PutOptions, PutOutcome, PutRequest, Store};

const SHAPES: [Shape; 8] = [
    shape(MIB, 1),
    shape(4 * MIB, 1),
    shape(16 * MIB, 1),
    shape(4 * KIB, 128),
    shape(64 * KIB, 64),
    shape(MIB, 32),
    shape(4 * MIB, 16),
    shape(16 * MIB, 8),
];

/// Share of the pool that batches of small objects go through: they take longer.
const SMALL_SHARE: usize = 4;

struct Bench {
    runtime: Runtime,
    store: Store,
    raw: Raw,
    pools: Pools,
    _child: Child,
}

pub(super) fn measure(
    options: &DataOptions,
    program: &Program,
    progress: Progress<'_>,
) -> Result<Vec<DataRow>> {
    let mut bench = Bench::start(options, program)?;
    let mut rows = Vec::new();
    for shape in SHAPES {
        let (mut puts, mut gets) = (Rounds::default(), Rounds::default());
        for number in 0..options.rounds {
            progress(&format!(
                "over TCP, {} x {}, round {}",
                ByteCount(shape.size as u64),
                shape.batch,
                number + 1
            ));
            bench.round(shape, number, &mut puts, &mut gets)?;
        }
        let (put, get) = if shape.batch == 1 {
            ("tcp_put_from", "tcp_get_into")
        } else {
            ("tcp_batch_put_from", "tcp_batch_get_into")
        };
        rows.push(puts.row(put, shape));
        rows.push(gets.row(get, shape));
    }
    Ok(rows)
}

impl Bench {
    fn start(options: &DataOptions, program: &Program) -> Result<Self> {
        let pool = options.pool;
        let role = Role::AllInOne {
            // Below the watermark with everything that belongs to the objects.
            dram: (pool + pool / 4) as u64,
            raw: pool,
        };
        let spec = Spec {
            role,
            pinning: options.pinning,
        };
        let child = Child::start(program, &spec)?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| failed("start a runtime", e))?;
        let connect = ConnectOptions::new(child.addresses.master.clone());
        Ok(Self {
            store: runtime.block_on(Store::connect(connect))?,
            raw: Raw::connect(&child.addresses.raw)?,
            pools: Pools::new(pool),
            runtime,
            _child: child,
        })
    }

    fn round(
        &mut self,
        shape: Shape,
        number: u32,
        puts: &mut Rounds,
        gets: &mut Rounds,
    ) -> Result<()> {
        let call = shape.size * shape.batch;
        let share = if shape.size < MIB { SMALL_SHARE } else { 1 };
        let bytes = (self.pools.source.len() / share / call).max(1) * call;
        let bytes = bytes.min(self.pools.source.len() / shape.size * shape.size);
        let gbps = |span: Duration| bytes as f64 / span.as_secs_f64() / 1e9;
        self.pools.name(number.into(), shape.size);
        puts.limit.push(gbps(self.raw_put(bytes, call)?));
        puts.ours.push(gbps(self.put(bytes, shape)?));
        gets.limit.push(gbps(self.raw_get(bytes, call)?));
        gets.ours.push(gbps(self.get(bytes, shape)?));
        self.pools.check(bytes)?;
        self.remove(bytes / shape.size)
    }

    fn raw_put(&mut self, bytes: usize, call: usize) -> Result<Duration> {
        let began = Instant::now();
        for (number, part) in self.pools.source[..bytes].chunks(call).enumerate() {
            let put = self.raw.put(number * call, part);
            put.map_err(|e| failed("raw put", e))?;
        }
        Ok(began.elapsed())
    }

    fn raw_get(&mut self, bytes: usize, call: usize) -> Result<Duration> {
        let began = Instant::now();
        for (number, room) in self.pools.target[..bytes].chunks_mut(call).enumerate() {
            let got = self.raw.get(number * call, room);
            got.map_err(|e| failed("raw get", e))?;
        }
        Ok(began.elapsed())
    }

    fn put(&mut self, bytes: usize, shape: Shape) -> Result<Duration> {
        let Self {
            runtime,
            store,
            pools,
            ..
        } = self;
        let parts: Vec<_> = pools.source[..bytes]
            .chunks(shape.size)
            .map(|part| [part])
            .collect();
        let requests = pools.keys.iter().zip(&parts);
        let requests: Vec<_> = requests
            .map(|(key, parts)| PutRequest::new(key, parts))
            .collect();
        runtime.block_on(async {
            let began = Instant::now();
            for requests in requests.chunks(shape.batch) {
                for outcome in store.put_many(requests, &PutOptions::default()).await {
                    if outcome? == PutOutcome::Existed {
                        return Err(Error::from(Code::ObjectAlreadyExists));
                    }
                }
            }
            Ok(began.elapsed())
        })
    }

    fn get(&mut self, bytes: usize, shape: Shape) -> Result<Duration> {
        let Self {
            runtime,
            store,
            pools,
            ..
        } = self;
        let keys: Vec<&[u8]> = pools.keys.iter().map(|key| &key[..]).collect();
        let mut rooms: Vec<_> = pools.target[..bytes].chunks_mut(shape.size).collect();
        runtime.block_on(async {
            let began = Instant::now();
            for (keys, rooms) in keys.chunks(shape.batch).zip(rooms.chunks_mut(shape.batch)) {
                for found in store.get_many_into(keys, rooms, Recency::Touch).await {
                    found?.ok_or_else(|| Error::from(Code::ObjectNotFound))?;
                }
            }
            Ok(began.elapsed())
        })
    }

    fn remove(&mut self, count: usize) -> Result<()> {
        let keys: Vec<&[u8]> = self
            .pools
            .keys
            .iter()
            .take(count)
            .map(|key| &key[..])
            .collect();
        self.runtime.block_on(async {
            for keys in keys.chunks(BATCH_MAX) {
                for removed in self.store.remove_many(keys, Force::No).await {
                    removed?;
                }
            }
            Ok(())
        })
    }
}
