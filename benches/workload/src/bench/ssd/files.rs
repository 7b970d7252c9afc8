//! A root with one shard file, driven from one thread as a client drives it.

use super::{
    Speed,
    bed::{Bed, Watch},
    fill::ticket,
    goods::Goods,
};
use crate::bench::key;
use futures_util::future::join_all;
use pollster::block_on;
use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};
use ziggurat_base::{Code, Error, Extent, Job, Key, Result, hash::Dice};
use ziggurat_engine::{command::Tags, shard_record::record_len};
use ziggurat_io::{Options as DiskOptions, Pages, Pool};
use ziggurat_store::{
    SsdOptions,
    dfs::{Ack, Layout, Name, Place, Root, ShardRead, ShardWrite},
};

/// Extents are multiples of this.
const ALIGNMENT: u32 = 4096;

/// In front of the records, at most.
const START: u64 = 1 << 20;

/// See the module.
pub(super) struct RootBed {
    root: Root,
    folder: PathBuf,
    engine: String,
    depth: usize,
}

impl RootBed {
    /// An empty root with room for all goods.
    pub(super) fn make(folder: PathBuf, goods: &Goods, depth: usize, pages: Pages) -> Result<Self> {
        let pool = Pool::of(SsdOptions::default().staging.0, pages)?;
        let (disk, report) = ziggurat_io::open(&folder, &pool, &DiskOptions::default())?;
        let room = goods.count * (goods.block() + u64::from(ALIGNMENT));
        let layout = Layout {
            cluster: "bench".into(),
            shard_bytes: START + room,
            alignment: ALIGNMENT,
            shards: 1,
        };
        Ok(Self {
            root: block_on(Root::format(disk, &layout, 1))?,
            folder,
            engine: report.to_string(),
            depth,
        })
    }

    /// Writes one object after the other until none is left.
    async fn writer(&self, goods: &Goods, next: &AtomicU64) -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= goods.count {
                return Ok(());
            }
            self.put(goods, number, Ack::Written).await?;
        }
    }

    async fn put(&self, goods: &Goods, number: u64, ack: Ack) -> Result<()> {
        let bytes = key(6, number);
        let write = ShardWrite {
            name: name(&bytes, number)?,
            tags: Tags::default(),
            place: place(&bytes, goods.block(), number)?,
            parts: &[goods.get(number).0],
            ack,
        };
        self.root.write(&write).await.map(drop)
    }

    /// Reads one object after the other; how many.
    async fn read_until(&self, goods: &Goods, mut dice: Dice, until: Instant) -> Result<u64> {
        let mut into = vec![0; goods.block() as usize];
        let mut count = 0;
        while Instant::now() < until {
            let number = dice.below(goods.count);
            let bytes = key(6, number);
            let read = ShardRead {
                name: name(&bytes, number)?,
                place: place(&bytes, goods.block(), number)?,
                object_len: goods.block(),
                offset: 0,
                want_table: false,
            };
            self.root.read(&read, &mut into).await?;
            if !goods.is(number, &into) {
                let what = format!("object {number} came back with other bytes than were written");
                return Err(Error::new(Code::ChecksumMismatch, what));
            }
            count += 1;
        }
        Ok(count)
    }
}

const TENANT: &str = "default";

fn name(key: &[u8], number: u64) -> Result<Name<'_>> {
    Ok(Name {
        tenant: TENANT,
        key: Key::new(key)?,
        ticket: ticket(number),
    })
}

/// Objects lie one behind the other.
fn place(key: &[u8], block: u64, number: u64) -> Result<Place> {
    let tags = Tags::default();
    let len = record_len(TENANT, Key::new(key)?, &tags, block, ALIGNMENT.into());
    Ok(Place {
        shard: 0,
        extent: Extent::new(number * len, len),
    })
}

impl Bed for RootBed {
    fn engine(&self) -> &str {
        &self.engine
    }

    fn file(&self) -> Result<PathBuf> {
        Ok(self.folder.join("shard-0000.zig"))
    }

    fn write(&self, goods: &Goods) -> Result<Speed> {
        let next = AtomicU64::new(0);
        let watch = Watch::start();
        let writers = (0..self.depth).map(|_| self.writer(goods, &next));
        block_on(join_all(writers))
            .into_iter()
            .collect::<Result<()>>()?;
        // As fio: all of it is durable at the end.
        block_on(self.put(goods, goods.count - 1, Ack::Synced))?;
        Ok(watch.stop(goods.count * goods.block()))
    }

    fn reader<'a>(&'a self, goods: &'a Goods, dice: Dice, until: Instant) -> Job<'a, Result<u64>> {
        Box::pin(self.read_until(goods, dice, until))
    }
}
