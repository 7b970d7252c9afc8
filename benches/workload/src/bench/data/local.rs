//! In this process: single puts and gets on the calling thread.

use super::{DataOptions, DataRow, KIB, MIB, Pools, Rounds, Shape, shape};
use crate::bench::{Progress, limits, stopwatch::cpu_of};
use std::time::Duration;
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_engine::command::BATCH_MAX;
use ziggurat_store::{
    Blocking, CatalogConfig, Force, MemoryOptions, OpenOptions, PutOutcome, Store,
};

const SHAPES: [Shape; 5] = [
    shape(4 * KIB, 1),
    shape(64 * KIB, 1),
    shape(MIB, 1),
    shape(4 * MIB, 1),
    shape(16 * MIB, 1),
];

/// A store with room for a pool and what belongs to its objects; it never evicts ahead of need.
fn open(pool: usize) -> Result<Blocking> {
    let store = Store::open(OpenOptions {
        memory: MemoryOptions {
            dram: ByteCount((pool + pool / 8) as u64),
            populate: true,
            ..MemoryOptions::default()
        },
        catalog: CatalogConfig {
            high_watermark: 1.0,
            ..CatalogConfig::default()
        },
        ..OpenOptions::default()
    })?;
    Ok(store.blocking())
}

pub(super) fn measure(options: &DataOptions, progress: Progress<'_>) -> Result<Vec<DataRow>> {
    let store = open(options.pool)?;
    let mut pools = Pools::new(options.pool);
    let mut rows = Vec::new();
    for shape in SHAPES {
        let (mut puts, mut gets) = (Rounds::default(), Rounds::default());
        for number in 0..options.rounds {
            progress(&format!(
                "in process, {}, round {}",
                ByteCount(shape.size as u64),
                number + 1
            ));
            pools.name(number.into(), shape.size);
            let round = round(&store, &mut pools, shape.size)?;
            let gbps = |span: Duration| options.pool as f64 / span.as_secs_f64() / 1e9;
            puts.limit.push(gbps(round.copy));
            gets.limit.push(gbps(round.copy));
            puts.ours.push(gbps(round.put));
            gets.ours.push(gbps(round.get));
        }
        rows.push(puts.row("in_process_put", shape));
        rows.push(gets.row("in_process_get", shape));
    }
    Ok(rows)
}

/// CPU time of each pass over the pool.
struct Round {
    copy: Duration,
    put: Duration,
    get: Duration,
}

fn round(store: &Blocking, pools: &mut Pools, size: usize) -> Result<Round> {
    let Pools {
        source,
        target,
        keys,
    } = pools;
    let ((), copy) = cpu_of(|| limits::copy(source, target, size));
    let (stored, put) = cpu_of(|| {
        let mut objects = keys.iter().zip(source.chunks_exact(size));
        objects.try_for_each(|(key, value)| match store.put(key, value)? {
            PutOutcome::Stored { .. } => Ok(()),
            PutOutcome::Existed => Err(Error::from(Code::ObjectAlreadyExists)),
        })
    });
    stored?;
    let (read, get) = cpu_of(|| {
        let mut objects = keys.iter().zip(target.chunks_exact_mut(size));
        objects.try_for_each(|(key, room)| match store.get_into(key, room)? {
            Some(_) => Ok(()),
            None => Err(Error::from(Code::ObjectNotFound)),
        })
    });
    read?;
    for keys in keys.chunks(BATCH_MAX) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for removed in store.remove_many(&keys, Force::No) {
            removed?;
        }
    }
    pools.check(pools.keys.len() * size)?;
    Ok(Round { copy, put, get })
}
