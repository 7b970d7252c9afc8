//! A root on a simulated disk, and objects whose bytes follow from their ticket.

use pollster::block_on;
use std::sync::Arc;
use ziggurat_base::{Crc32, Extent, Key, Result, Ticket, hash::Dice};
use ziggurat_dfs::{
    Ack, Found, Layout, Name, Place, Removals, Root, ScanCounts, ShardRead, ShardWrite,
};
use ziggurat_engine::{command::Tags, port::ReadSums, shard_record::record_len};
use ziggurat_io::{
    Disk as _, Pool, Request,
    mem::{MemDisk, MemOptions},
};

pub(crate) const CLUSTER: &str = "test";
pub(crate) const ID: u128 = 0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00;
pub(crate) const CARRIER: u64 = 77;

pub(crate) fn layout() -> Layout {
    Layout {
        cluster: CLUSTER.into(),
        shard_bytes: 16 << 20,
        alignment: 4096,
        shards: 2,
    }
}

pub(crate) fn disk() -> MemDisk {
    let pool = Pool::new(24 << 20).expect("the machine has the memory");
    MemDisk::new(&pool, MemOptions::default())
}

pub(crate) fn made_on(disk: &MemDisk, layout: &Layout) -> Result<Root> {
    block_on(Root::format(Arc::new(disk.clone()), layout, ID))
}

pub(crate) fn opened(disk: &MemDisk) -> Result<Root> {
    block_on(Root::open(Arc::new(disk.clone()), Some(CLUSTER), CARRIER))
}

/// An object and where it lies.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) ticket: Ticket,
    pub(crate) key: String,
    pub(crate) len: u64,
    pub(crate) parent: Option<String>,
    pub(crate) place: Place,
}

pub(crate) fn payload(ticket: Ticket, len: u64) -> Vec<u8> {
    let mut dice = Dice::new(ticket.0);
    let mut bytes = Vec::with_capacity(len as usize + 8);
    while (bytes.len() as u64) < len {
        bytes.extend_from_slice(&dice.roll().to_le_bytes());
    }
    bytes.truncate(len as usize);
    bytes
}

pub(crate) const TENANT: &str = "tenant";

impl Object {
    /// One at this offset of a shard file.
    pub(crate) fn at(ticket: u64, len: u64, shard: u32, offset: u64) -> Self {
        let mut object = Self {
            ticket: Ticket(ticket),
            key: format!("key/{ticket}"),
            len,
            parent: (ticket % 2 == 1).then(|| format!("key/{}", ticket - 1)),
            place: Place {
                shard,
                extent: Extent::new(offset, 0),
            },
        };
        object.place.extent.len = object.room(4096);
        object
    }

    /// The same of another key.
    pub(crate) fn named(mut self, key: &str) -> Self {
        key.clone_into(&mut self.key);
        self.place.extent.len = self.room(4096);
        self
    }

    pub(crate) fn room(&self, alignment: u64) -> u64 {
        let name = self.name();
        record_len(name.tenant, name.key, &self.tags(), self.len, alignment)
    }

    pub(crate) fn name(&self) -> Name<'_> {
        Name {
            tenant: TENANT,
            key: Key::new(self.key.as_bytes()).expect("a good key"),
            ticket: self.ticket,
        }
    }

    pub(crate) fn tags(&self) -> Tags<'_> {
        Tags {
            parent: self
                .parent
                .as_ref()
                .map(|key| Key::new(key.as_bytes()).expect("a good key")),
            ..Tags::default()
        }
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        payload(self.ticket, self.len)
    }

    pub(crate) fn version(&self) -> (Ticket, Extent) {
        (self.ticket, self.place.extent)
    }

    pub(crate) async fn write(&self, root: &Root, ack: Ack) -> Result<Crc32> {
        let payload = self.payload();
        let (first, second) = payload.split_at(payload.len() / 3);
        let write = ShardWrite {
            name: self.name(),
            tags: self.tags(),
            place: self.place,
            parts: &[first, second],
            ack,
        };
        root.write(&write).await
    }

    pub(crate) fn put(&self, root: &Root) {
        let crc = block_on(self.write(root, Ack::Synced)).expect("a healthy disk writes");
        assert_eq!(crc, Crc32::of(&self.payload()), "{self:?}");
    }

    pub(crate) fn get(&self, root: &Root) -> Result<Vec<u8>> {
        let mut into = vec![0; self.len as usize];
        let sums = self.get_range(root, 0, &mut into)?;
        assert_eq!(sums.crc, Crc32::of(&into), "{self:?}");
        Ok(into)
    }

    pub(crate) fn get_range(&self, root: &Root, offset: u64, into: &mut [u8]) -> Result<ReadSums> {
        let read = ShardRead {
            name: self.name(),
            place: self.place,
            object_len: self.len,
            offset,
            want_table: offset > 0 || into.len() as u64 != self.len,
        };
        block_on(root.read(&read, into))
    }

    /// Whether a read gives the bytes. Anything but the right ones or an error ends the test.
    pub(crate) fn is_there(&self, root: &Root) -> bool {
        match self.get(root) {
            Ok(bytes) => {
                assert!(bytes == self.payload(), "wrong bytes of {self:?}");
                true
            }
            Err(_) => false,
        }
    }
}

/// All that a shard file has, and what else was met.
pub(crate) fn list(root: &Root, shard: u32) -> (Vec<Found>, ScanCounts) {
    list_without(
        root,
        shard,
        &block_on(root.removals()).expect("a healthy disk reads"),
    )
}

pub(crate) fn list_without(
    root: &Root,
    shard: u32,
    removals: &Removals,
) -> (Vec<Found>, ScanCounts) {
    let mut scan = root
        .scan(shard, &Arc::new(removals.clone()))
        .expect("the shard file is there");
    let mut found = Vec::new();
    loop {
        let page = block_on(scan.next_page()).expect("a healthy disk reads");
        assert!(page.len() <= 512);
        if page.is_empty() {
            return (found, scan.counts());
        }
        found.extend(page);
    }
}

pub(crate) fn shard_name(index: u32) -> String {
    format!("shard-{index:04}.zig")
}

/// Lays bytes over a file, past the root.
pub(crate) fn overwrite(disk: &MemDisk, name: &str, offset: u64, bytes: &[u8]) {
    let file = block_on(disk.open(name)).unwrap();
    let mut buffer = disk.pool().try_take(bytes.len()).unwrap();
    buffer.copy_from_slice(bytes);
    let write = Request::Write {
        offset,
        buffer,
        sync: true,
    };
    block_on(file.start(vec![write]).remove(0)).result.unwrap();
}

pub(crate) fn tickets(found: &[Found]) -> Vec<u64> {
    found.iter().map(|one| one.ticket.0).collect()
}
