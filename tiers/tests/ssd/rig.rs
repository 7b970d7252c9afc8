//! A tier on a simulated disk, and objects whose bytes follow from their ticket.

use std::sync::Arc;
use ziggurat_base::{ByteCount, Crc32, DirectoryId, Key, ManualClock, Result, Ticket, hash::Dice};
use ziggurat_engine::{command::Hint, evict::PolicyKind, shelf::holdings::Names};
use ziggurat_io::{
    Pool,
    mem::{MemDisk, MemOptions},
};
use ziggurat_tiers::ssd::{Durability, Item, Options, Packing, Recovered, Source, SsdTier, Wanted};

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) ticket: Ticket,
    pub(crate) len: u64,
    pub(crate) crc: Crc32,
    pub(crate) key: String,
    pub(crate) parent: Option<String>,
    pub(crate) pinned: bool,
}

/// In the tickets of objects that compress.
const NUMBERS: u64 = 1 << 40;

pub(crate) fn payload(ticket: Ticket, len: u64) -> Vec<u8> {
    let mut dice = Dice::new(ticket.0);
    let mask = match ticket.0 & NUMBERS {
        0 => u64::MAX,
        _ => 0x03ff_03ff_03ff_03ff,
    };
    let mut bytes = Vec::with_capacity(len as usize + 8);
    while (bytes.len() as u64) < len {
        bytes.extend_from_slice(&(dice.roll() & mask).to_le_bytes());
    }
    bytes.truncate(len as usize);
    bytes
}

impl Object {
    pub(crate) fn new(ticket: u64, len: u64) -> Self {
        Self {
            ticket: Ticket(ticket),
            len,
            crc: Crc32::of(&payload(Ticket(ticket), len)),
            key: format!("key/{ticket}"),
            parent: (ticket % 2 == 1).then(|| format!("key/{}", ticket - 1)),
            pinned: false,
        }
    }

    /// One whose payload compresses: numbers of two bytes, of which the upper one says little.
    pub(crate) fn numbers(ticket: u64, len: u64) -> Self {
        Self::new(ticket | NUMBERS, len)
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        payload(self.ticket, self.len)
    }
}

/// See the module.
pub(crate) struct Rig {
    pub(crate) disk: MemDisk,
    pub(crate) tier: SsdTier,
    pub(crate) recovered: Recovered,
    pub(crate) options: Options,
    pub(crate) clock: ManualClock,
}

pub(crate) fn options() -> Options {
    Options {
        capacity: ByteCount::gib(1),
        logical_cap: None,
        file_bytes: ByteCount::mib(4),
        durability: Durability::Batch,
        policy: PolicyKind::Lru,
        batch_bytes: ByteCount::mib(1),
        write_budget: None,
        packing: Packing::default(),
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: Options) -> Self {
        let pool = Pool::new(24 << 20).expect("the machine has the memory");
        let disk = MemDisk::new(&pool, MemOptions::default());
        Self::on(disk, options).expect("an empty disk can be opened")
    }

    pub(crate) fn on(disk: MemDisk, options: Options) -> Result<Self> {
        let clock = ManualClock::default();
        let opened = SsdTier::open(
            Arc::new(disk.clone()),
            Arc::new(clock.clone()),
            options.clone(),
            DirectoryId(0x1234),
        );
        let (tier, recovered) = pollster::block_on(opened)?;
        Ok(Self {
            disk,
            tier,
            recovered,
            options,
            clock,
        })
    }

    /// The process ends in good order and starts again.
    pub(crate) fn restart(self) -> Self {
        let disk = self.disk.kill(&mut Dice::new(0));
        Self::on(disk, self.options).expect("it opened before")
    }

    pub(crate) fn append(&self, objects: &[Object]) -> Vec<Result<()>> {
        let payloads: Vec<_> = objects.iter().map(Object::payload).collect();
        let mut sources: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let mut items: Vec<_> = objects
            .iter()
            .zip(&mut sources)
            .map(|(object, source)| item(object, source))
            .collect();
        pollster::block_on(self.tier.append(&mut items))
    }

    pub(crate) fn get(&self, object: &Object) -> Result<Vec<u8>> {
        self.get_version(object.ticket, object.len)
    }

    pub(crate) fn get_version(&self, ticket: Ticket, len: u64) -> Result<Vec<u8>> {
        let found = pollster::block_on(self.tier.read(&Wanted::whole(ticket, len)))?;
        Ok(found.bytes().to_vec())
    }
}

pub(crate) fn item<'a>(object: &'a Object, source: &'a mut dyn Source) -> Item<'a> {
    let key = |text: &'a String| Key::new(text.as_bytes()).expect("a good key");
    Item {
        names: Names {
            tenant: "tenant",
            key: key(&object.key),
            parent: object.parent.as_ref().map(key),
            group: None,
        },
        ticket: object.ticket,
        len: object.len,
        crc: object.crc,
        hint: Hint::Hot,
        pinned: object.pinned,
        source,
    }
}
