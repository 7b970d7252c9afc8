//! What a node holds in the log files of one directory: the index of its records.
//!
//! Records are found by ticket, which is unique in a cluster's life. Everything of a record lies with its file (40 bytes
//! and its names), so a file that goes takes its part of the index with it, and the index is walked in the order of the
//! files. A dead record stays in its file's part until the file goes.

use crate::command::Hint;
use hashbrown::{HashTable, hash_table::Entry as TableEntry};
use std::collections::BTreeMap;
use ziggurat_base::{ByteCount, Crc32, Key, ObjectKey, Ticket, hash::mix, key::KEY_LEN_MAX};

/// Payloads begin on multiples of this many bytes at least, and record headers on multiples of 8.
const PAYLOAD_GRAIN: u64 = 512;
const HEADER_GRAIN: u64 = 8;

/// The most reads that are remembered of a record.
const HEAT_MAX: u8 = 3;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Number of the file.
    pub file: u32,
    /// First byte of the payload, a multiple of 512.
    pub at: u64,
    /// First byte of the record's header, a multiple of 8, before the payload.
    pub header_at: u64,
}

/// What is known of a record without its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The version.
    pub ticket: Ticket,
    /// Bytes of the payload.
    pub len: u64,
    /// Bytes of it on disk.
    pub stored_len: u64,
    /// Sum of the payload.
    pub crc: Crc32,
    /// Where it lies.
    pub spot: Spot,
    /// How it is stored; a number of the format's.
    pub codec: u8,
    /// Whether it is likely to be used again.
    pub hint: Hint,
    /// Whether it may not be evicted.
    pub pinned: bool,
    /// How often it was read since it was written, up to 3.
    pub heat: u8,
}

/// The names of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The key.
    pub key: Key<'a>,
    /// The object before it in a prompt.
    pub parent: Option<Key<'a>>,
    /// The group it belongs to.
    pub group: Option<Key<'a>>,
}

impl Names<'_> {
    /// The parent, owned.
    #[must_use]
    pub fn parent_owned(&self) -> Option<ObjectKey> {
        self.parent.map(Key::to_owned)
    }

    /// The group, owned.
    #[must_use]
    pub fn group_owned(&self) -> Option<ObjectKey> {
        self.group.map(Key::to_owned)
    }
}

/// How full a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// Bytes that it takes from the directory's capacity.
    pub len: u64,
    /// Records that are alive.
    pub live: u32,
    /// Their bytes on disk.
    pub live_bytes: u64,
    /// Records that are dead.
    pub dead: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    ticket: [u32; 2],
    /// In units of [`PAYLOAD_GRAIN`].
    at: u32,
    /// From the header to the payload, in units of [`HEADER_GRAIN`].
    back: u32,
    crc: Crc32,
    names: u32,
    tenant: u16,
    len: Len,
    stored_len: Len,
    codec: u8,
    /// Heat in bits 0 and 1, hint in 2 and 3, pinned in 4, alive in 5.
    bits: u8,
}

const _: () = assert!(
    size_of::<Slot>() == 40,
    "a record takes 40 bytes beyond its names"
);

/// Payloads of this many bytes and more cannot be described.
pub const PAYLOAD_END: u64 = 1 << 40;

/// A number of bytes below [`PAYLOAD_END`].
#[derive(Clone, Copy, Debug)]
struct Len([u8; 5]);

impl Len {
    fn new(len: u64) -> Option<Self> {
        let [a, b, c, d, e, rest @ ..] = len.to_le_bytes();
        (rest == [0; 3]).then_some(Self([a, b, c, d, e]))
    }

    fn get(self) -> u64 {
        let [a, b, c, d, e] = self.0;
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
    }
}

/// Beside the length of a key, which has 13 bits at most: the record has a parent.
const PARENT: u16 = 1 << 13;
/// It has a group.
const GROUP: u16 = 1 << 14;

const _: () = assert!(KEY_LEN_MAX < PARENT as usize, "the flags are free");

const PINNED: u8 = 16;
const ALIVE: u8 = 32;

fn hint_bits(hint: Hint) -> u8 {
    match hint {
        Hint::None => 0,
        Hint::Cold => 4,
        Hint::Hot => 8,
    }
}

fn split(ticket: Ticket) -> [u32; 2] {
    [(ticket.0 >> 32) as u32, ticket.0 as u32]
}

impl Slot {
    fn ticket(&self) -> Ticket {
        let [high, low] = self.ticket.map(u64::from);
        Ticket(high << 32 | low)
    }

    fn held(&self, file: u32) -> Held {
        let at = u64::from(self.at) * PAYLOAD_GRAIN;
        Held {
            ticket: self.ticket(),
            len: self.len.get(),
            stored_len: self.stored_len.get(),
            crc: self.crc,
            spot: Spot {
                file,
                at,
                header_at: at - u64::from(self.back) * HEADER_GRAIN,
            },
            codec: self.codec,
            hint: match self.bits & 12 {
                4 => Hint::Cold,
                8 => Hint::Hot,
                _ => Hint::None,
            },
            pinned: self.bits & PINNED != 0,
            heat: self.bits & HEAT_MAX,
        }
    }

    fn alive(&self) -> bool {
        self.bits & ALIVE != 0
    }
}

#[derive(Debug, Default)]
struct FilePart {
    slots: Vec<Slot>,
    names: Vec<u8>,
    usage: FileUse,
}

impl FilePart {
    /// Appends the names of a record: the length of its key and what else there is in one word, a word each for the
    /// lengths of that, then their bytes.
    fn push_names(&mut self, names: &Names<'_>) -> Option<u32> {
        let at = u32::try_from(self.names.len()).ok()?;
        let len = |key: Key<'_>| key.bytes().len() as u16;
        let flag = |key: Option<Key<'_>>, flag| if key.is_some() { flag } else { 0 };
        let first = len(names.key) | flag(names.parent, PARENT) | flag(names.group, GROUP);
        let others = [names.parent, names.group];
        let others = others.into_iter().flatten();
        for word in [first].into_iter().chain(others.clone().map(len)) {
            self.names.extend_from_slice(&word.to_le_bytes());
        }
        for key in [names.key].into_iter().chain(others) {
            self.names.extend_from_slice(key.bytes());
        }
        Some(at)
    }

    fn names<'a>(&'a self, slot: &Slot, tenants: &'a [Box<str>]) -> Names<'a> {
        let mut rest = &self.names[slot.names as usize..];
        let mut word = || {
            let (word, later) = rest
                .split_first_chunk::<2>()
                .expect("names begin with lengths");
            rest = later;
            u16::from_le_bytes(*word)
        };
        let first = word();
        let mut other = |flag| if first & flag == 0 { 0 } else { word() };
        let lens = [first & !(PARENT | GROUP), other(PARENT), other(GROUP)];
        let [key, parent, group] = lens.map(|len| {
            let (now, later) = rest.split_at(usize::from(len));
            rest = later;
            Key::new(now).ok()
        });
        Names {
            tenant: &tenants[usize::from(slot.tenant)],
            key: key.expect("a record has a key"),
            parent,
            group,
        }
    }
}

/// How far a walk over the records has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Walk {
    file: u32,
    slot: u32,
}

impl From<[u64; 2]> for Walk {
    fn from([file, slot]: [u64; 2]) -> Self {
        let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
        Self {
            file: number(file),
            slot: number(slot),
        }
    }
}

impl From<Walk> for [u64; 2] {
    fn from(walk: Walk) -> Self {
        [walk.file.into(), walk.slot.into()]
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Holdings {
    files: BTreeMap<u32, FilePart>,
    /// Alive records by ticket: file and slot.
    table: HashTable<(u32, u32)>,
    tenants: Vec<Box<str>>,
    live_bytes: u64,
    logical_bytes: u64,
}

fn hash(ticket: Ticket) -> u64 {
    mix(ticket.0)
}

impl Holdings {
    /// Records that are alive.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.table.len() as u64
    }

    /// Their bytes on disk.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Bytes of their payloads as they came.
    #[must_use]
    pub fn logical_bytes(&self) -> u64 {
        self.logical_bytes
    }

    /// Bytes of all files.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.files.values().map(|part| part.usage.len).sum()
    }

    /// Every file and how full it is, oldest first.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = (u32, FileUse)> + '_ {
        self.files
            .iter()
            .map(|(number, part)| (*number, part.usage))
    }

    /// How full a file is.
    #[must_use]
    pub fn usage(&self, file: u32) -> FileUse {
        self.files
            .get(&file)
            .map_or_else(FileUse::default, |part| part.usage)
    }

    /// Takes a file on, `len` bytes long.
    pub fn add_file(&mut self, number: u32, len: u64) {
        self.files.entry(number).or_default().usage.len = len;
    }

    /// A file of `len` bytes that takes no more records: what was kept ready for them is given back.
    pub fn close_file(&mut self, number: u32, len: u64) {
        let part = self.files.entry(number).or_default();
        part.usage.len = len;
        part.slots.shrink_to_fit();
        part.names.shrink_to_fit();
    }

    /// Forgets a file. Its records that are alive are gone; they come back, in order.
    pub fn drop_file(&mut self, number: u32) -> Vec<Held> {
        let Some(part) = self.files.remove(&number) else {
            return Vec::new();
        };
        let alive: Vec<_> = part
            .slots
            .iter()
            .filter(|s| s.alive())
            .map(|s| s.held(number))
            .collect();
        for held in &alive {
            let own = |place: &(u32, u32)| {
                place.0 == number && part.slots[place.1 as usize].ticket() == held.ticket
            };
            if let Ok(entry) = self.table.find_entry(hash(held.ticket), own) {
                entry.remove();
            }
        }
        self.live_bytes -= part.usage.live_bytes;
        self.logical_bytes -= alive.iter().map(|held| held.len).sum::<u64>();
        alive
    }

    fn tenant(&mut self, name: &str) -> Option<u16> {
        let found = self.tenants.iter().position(|here| &**here == name);
        let number = found.unwrap_or_else(|| {
            self.tenants.push(name.into());
            self.tenants.len() - 1
        });
        u16::try_from(number).ok()
    }

    /// Takes a record on. A ticket that is held already moves to the new place, and the old one is dead; `false` when the
    /// index cannot describe it: an offset beyond 2 TiB, a payload of 1 TiB, or more than 65,536 tenants.
    ///
    /// # Panics
    /// When the file was not added.
    pub fn insert(&mut self, held: &Held, names: &Names<'_>) -> bool {
        let spot = held.spot;
        let whole =
            spot.at.is_multiple_of(PAYLOAD_GRAIN) && spot.header_at.is_multiple_of(HEADER_GRAIN);
        let at = u32::try_from(spot.at / PAYLOAD_GRAIN);
        let back = spot
            .at
            .checked_sub(spot.header_at)
            .map(|back| u32::try_from(back / HEADER_GRAIN));
        let (true, Ok(at), Some(Ok(back)), Some(tenant)) =
            (whole, at, back, self.tenant(names.tenant))
        else {
            return false;
        };
        let (Some(len), Some(stored_len)) = (Len::new(held.len), Len::new(held.stored_len)) else {
            return false;
        };
        let part = self
            .files
            .get_mut(&spot.file)
            .expect("a record comes after its file");
        let Some(names) = part.push_names(names) else {
            return false;
        };
        let index = part.slots.len() as u32;
        part.slots.push(Slot {
            ticket: split(held.ticket),
            len,
            stored_len,
            at,
            back,
            crc: held.crc,
            names,
            tenant,
            codec: held.codec,
            bits: held.heat.min(HEAT_MAX)
                | hint_bits(held.hint)
                | if held.pinned { PINNED } else { 0 }
                | ALIVE,
        });
        part.usage.live += 1;
        part.usage.live_bytes += held.stored_len;
        self.live_bytes += held.stored_len;
        self.logical_bytes += held.len;
        if let Some(old) = self.point(held.ticket, (spot.file, index)) {
            self.bury(old);
        }
        true
    }

    /// Points the ticket at a place; returns where it pointed before.
    fn point(&mut self, ticket: Ticket, place: (u32, u32)) -> Option<(u32, u32)> {
        let Self { table, files, .. } = self;
        let of = |place: &(u32, u32)| files[&place.0].slots[place.1 as usize].ticket();
        match table.entry(
            hash(ticket),
            |other| of(other) == ticket,
            |other| hash(of(other)),
        ) {
            TableEntry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), place)),
            TableEntry::Vacant(entry) => {
                entry.insert(place);
                None
            }
        }
    }

    fn place(&self, ticket: Ticket) -> Option<(u32, u32)> {
        let own =
            |place: &(u32, u32)| self.files[&place.0].slots[place.1 as usize].ticket() == ticket;
        self.table.find(hash(ticket), own).copied()
    }

    fn bury(&mut self, place: (u32, u32)) {
        let part = self.files.get_mut(&place.0).expect("a place is in a file");
        let slot = &mut part.slots[place.1 as usize];
        slot.bits &= !ALIVE;
        let (len, bytes) = (slot.len.get(), slot.stored_len.get());
        part.usage.live -= 1;
        part.usage.dead += 1;
        part.usage.live_bytes -= bytes;
        self.live_bytes -= bytes;
        self.logical_bytes -= len;
    }

    /// What is known of a version.
    #[must_use]
    pub fn find(&self, ticket: Ticket) -> Option<Held> {
        let (file, index) = self.place(ticket)?;
        Some(self.files[&file].slots[index as usize].held(file))
    }

    /// The names of a version.
    #[must_use]
    pub fn names(&self, ticket: Ticket) -> Option<Names<'_>> {
        let (file, index) = self.place(ticket)?;
        let part = &self.files[&file];
        Some(part.names(&part.slots[index as usize], &self.tenants))
    }

    /// The version was read.
    pub fn touch(&mut self, ticket: Ticket) {
        let Some((file, index)) = self.place(ticket) else {
            return;
        };
        let part = self.files.get_mut(&file).expect("a place is in a file");
        let slot = &mut part.slots[index as usize];
        if slot.bits & HEAT_MAX < HEAT_MAX {
            slot.bits += 1;
        }
    }

    /// Drops a version; what it was.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Held> {
        let Self { table, files, .. } = self;
        let own = |place: &(u32, u32)| files[&place.0].slots[place.1 as usize].ticket() == ticket;
        let (place, _) = table.find_entry(hash(ticket), own).ok()?.remove();
        let held = files[&place.0].slots[place.1 as usize].held(place.0);
        self.bury(place);
        Some(held)
    }

    /// The records of a file that are alive, in the order in which they were written.
    pub fn of_file(&self, file: u32) -> impl Iterator<Item = (Held, Names<'_>)> + '_ {
        let part = self.files.get(&file);
        part.into_iter().flat_map(move |part| {
            let alive = part.slots.iter().filter(|slot| slot.alive());
            alive.map(move |slot| (slot.held(file), part.names(slot, &self.tenants)))
        })
    }

    /// The next records of a walk over all of them, at most `most`. A record that moves meanwhile may come twice and is
    /// never left out.
    pub fn walk(&self, from: Walk, most: usize) -> (Vec<(Held, Names<'_>)>, Option<Walk>) {
        let mut page = Vec::new();
        let mut next = from;
        for (file, part) in self.files.range(from.file..) {
            let first = if *file == from.file {
                from.slot as usize
            } else {
                0
            };
            for (index, slot) in part.slots.iter().enumerate().skip(first) {
                if page.len() == most {
                    return (page, Some(next));
                }
                next = Walk {
                    file: *file,
                    slot: index as u32 + 1,
                };
                if slot.alive() {
                    page.push((slot.held(*file), part.names(slot, &self.tenants)));
                }
            }
        }
        (page, None)
    }

    /// Bytes of memory that the index takes, names included.
    #[must_use]
    pub fn memory(&self) -> ByteCount {
        let parts = self.files.values();
        let parts: usize = parts
            .map(|part| part.slots.capacity() * size_of::<Slot>() + part.names.capacity())
            .sum();
        ByteCount((parts + self.table.allocation_size()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, Holdings, Names, Spot, Walk};
    use crate::command::Hint;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use ziggurat_base::{Crc32, Key, Ticket};

    fn held(ticket: u64, file: u32, at: u64) -> Held {
        Held {
            ticket: Ticket(ticket),
            len: ticket * 3,
            stored_len: ticket * 2,
            crc: Crc32(ticket as u32),
            spot: Spot {
                file,
                at,
                header_at: at - 512,
            },
            codec: 0,
            hint: Hint::Hot,
            pinned: ticket.is_multiple_of(2),
            heat: 0,
        }
    }

    fn names(key: &str) -> Names<'_> {
        Names {
            tenant: "default",
            key: Key::new(key.as_bytes()).unwrap(),
            parent: None,
            group: Key::new(b"group").ok(),
        }
    }

    #[test]
    fn what_is_taken_on_is_found_with_its_names() {
        let mut holdings = Holdings::default();
        holdings.add_file(1, 1 << 20);
        assert!(holdings.insert(&held(7, 1, 8192), &names("a")));
        assert_eq!(holdings.find(Ticket(7)), Some(held(7, 1, 8192)));
        assert_eq!(holdings.names(Ticket(7)), Some(names("a")));
        holdings.touch(Ticket(7));
        assert_eq!(holdings.find(Ticket(7)).unwrap().heat, 1);
        assert_eq!(holdings.find(Ticket(8)), None);
        assert!(
            !holdings.insert(&held(9, 1, (1 << 41) + 512), &names("far")),
            "beyond what it can describe"
        );
    }

    #[test]
    fn a_file_that_goes_takes_its_records_along() {
        let mut holdings = Holdings::default();
        for file in 1..=2 {
            holdings.add_file(file, 1 << 20);
        }
        holdings.insert(&held(7, 1, 8192), &names("a"));
        holdings.insert(&held(8, 1, 16_384), &names("b"));
        holdings.insert(&held(7, 2, 8192), &names("a"));
        assert_eq!(
            holdings.find(Ticket(7)).unwrap().spot.file,
            2,
            "the copy counts"
        );
        let gone: Vec<_> = holdings
            .drop_file(1)
            .iter()
            .map(|held| held.ticket)
            .collect();
        assert_eq!(gone, [Ticket(8)]);
        assert_eq!(holdings.count(), 1);
        assert_eq!((holdings.live_bytes(), holdings.logical_bytes()), (14, 21));
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_a_plain_map(steps in prop::collection::vec((0..4_u8, 1..40_u64, 1..6_u32), 1..200)) {
            let mut holdings = Holdings::default();
            let mut model: BTreeMap<Ticket, Held> = BTreeMap::new();
            let mut at = BTreeMap::new();
            for (what, ticket, file) in steps {
                match what {
                    0 | 1 => {
                        let next = at.entry(file).or_insert(8192_u64);
                        *next += 4096;
                        holdings.add_file(file, 1 << 30);
                        let new = held(ticket, file, *next);
                        let key = format!("k{ticket}");
                        prop_assert!(holdings.insert(&new, &names(&key)));
                        model.insert(Ticket(ticket), new);
                    }
                    2 => prop_assert_eq!(holdings.remove(Ticket(ticket)), model.remove(&Ticket(ticket))),
                    _ => {
                        let gone: Vec<_> = holdings.drop_file(file).iter().map(|h| h.ticket).collect();
                        let expected = model.extract_if(.., |_, h| h.spot.file == file).map(|(t, _)| t);
                        let mut sorted = gone.clone();
                        sorted.sort();
                        prop_assert_eq!(sorted, expected.collect::<Vec<_>>());
                    }
                }
                prop_assert_eq!(holdings.count(), model.len() as u64);
                prop_assert_eq!(holdings.live_bytes(), model.values().map(|h| h.stored_len).sum::<u64>());
                prop_assert_eq!(holdings.logical_bytes(), model.values().map(|h| h.len).sum::<u64>());
            }
            let mut walked = BTreeMap::new();
            let mut from = Some(Walk::default());
            while let Some(walk) = from {
                let (page, next) = holdings.walk(walk, 3);
                for (held, names) in page {
                    let key = format!("k{}", held.ticket.0);
                    prop_assert_eq!(names.key.bytes(), key.as_bytes());
                    walked.insert(held.ticket, held);
                }
                from = next;
            }
            prop_assert_eq!(walked, model);
        }
    }
}
