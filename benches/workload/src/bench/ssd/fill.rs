//! Objects by their numbers, brought to a tier as a node does it.

use futures_util::future::join_all;
use pollster::block_on;
use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use ziggurat_base::{Crc32, DirectoryId, Key, Result, Ticket};
use ziggurat_engine::{command::Hint, shelf::holdings::Names};
use ziggurat_io::{Options as DiskOptions, Pages, Pool};
use ziggurat_store::{SsdOptions, SystemClock};
use ziggurat_tiers::ssd::{Item, Options, Recovered, SsdTier};

/// The payload of an object, and its sum.
pub(super) type Payload<'a> = (&'a [u8], Crc32);

/// The version of an object.
pub(super) fn ticket(number: u64) -> Ticket {
    Ticket(number + 1)
}

/// Opens a directory, with the buffers that a node has; tells how the disk is driven, and why not better.
pub(super) fn open(
    folder: &Path,
    pages: Pages,
    options: Options,
) -> Result<(SsdTier, Recovered, String)> {
    let pool = Pool::of(SsdOptions::default().staging.0, pages)?;
    let (disk, report) = ziggurat_io::open(folder, &pool, &DiskOptions::default())?;
    let clock = Arc::new(SystemClock::default());
    let (tier, recovered) = block_on(SsdTier::open(disk, clock, options, DirectoryId(1)))?;
    Ok((tier, recovered, report.to_string()))
}

/// Appends `count` objects, `group` at a time, with as many appends under way as a node has.
pub(super) fn fill<'a>(
    tier: &SsdTier,
    count: u64,
    group: u64,
    payload: &impl Fn(u64) -> Payload<'a>,
) -> Result<()> {
    let next = AtomicU64::new(0);
    let writer = async || -> Result<()> {
        loop {
            let from = next.fetch_add(group, Ordering::Relaxed);
            if from >= count {
                return Ok(());
            }
            append(tier, from..(from + group).min(count), payload).await?;
        }
    };
    let writers = (0..ziggurat_node::keeper::APPENDS).map(|_| writer());
    block_on(join_all(writers)).into_iter().collect()
}

/// Appends objects in one call.
pub(super) async fn append<'a>(
    tier: &SsdTier,
    numbers: Range<u64>,
    payload: &impl Fn(u64) -> Payload<'a>,
) -> Result<()> {
    let keys: Vec<_> = numbers
        .clone()
        .map(|number| crate::bench::key(5, number))
        .collect();
    let mut sources: Vec<_> = numbers.clone().map(payload).collect();
    let mut items = Vec::with_capacity(keys.len());
    for ((number, key), (source, crc)) in numbers.zip(&keys).zip(&mut sources) {
        items.push(Item {
            names: Names {
                tenant: "default",
                key: Key::new(key)?,
                parent: None,
                group: None,
            },
            ticket: ticket(number),
            len: source.len() as u64,
            crc: *crc,
            hint: Hint::None,
            pinned: false,
            source,
        });
    }
    tier.append(&mut items).await.into_iter().collect()
}
