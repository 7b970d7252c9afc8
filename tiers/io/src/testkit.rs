//! The contract suite of [`Disk`]: what every engine is held against.
//!
//! An engine runs it with [`disk_contract`](crate::disk_contract), giving it a function that makes a [`Stand`].

use crate::{Buffer, Disk, File, Flight, Landed, Request};
use pollster::block_on;
use std::{collections::BTreeMap, fmt, sync::Arc};
use ziggurat_base::{Code, Result, hash::Dice};

/// Why nothing below may fail.
const HEALTHY: &str = "a healthy disk does this";

/// An empty disk under test.
pub struct Stand {
    /// The disk. Its pool has at least 1 MiB.
    pub disk: Arc<dyn Disk>,
    /// Opens what it leaves, once it is dropped; keeps the directory alive.
    pub again: Box<dyn Fn() -> Arc<dyn Disk>>,
}

impl fmt::Debug for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Stand {
    fn block(&self) -> u64 {
        u64::from(self.disk.geometry().block)
    }

    fn create(&self, name: &str, len: u64) -> Arc<dyn File> {
        block_on(self.disk.create(name, len)).expect(HEALTHY)
    }
}

fn take(disk: &dyn Disk, len: u64) -> Buffer {
    block_on(disk.pool().take(len as usize)).expect(HEALTHY)
}

fn write(disk: &dyn Disk, offset: u64, bytes: &[u8], sync: bool) -> Request {
    let mut buffer = take(disk, bytes.len() as u64);
    buffer.copy_from_slice(bytes);
    Request::Write {
        offset,
        buffer,
        sync,
    }
}

fn read(disk: &dyn Disk, offset: u64, len: u64) -> Request {
    let buffer = take(disk, len);
    Request::Read { offset, buffer }
}

fn start(file: &dyn File, request: Request) -> Flight {
    file.start(vec![request]).remove(0)
}

fn run(file: &dyn File, request: Request) -> Landed {
    block_on(start(file, request))
}

fn good(file: &dyn File, request: Request) -> Option<Buffer> {
    let landed = run(file, request);
    landed.result.expect(HEALTHY);
    landed.buffer
}

fn code<T>(result: Result<T>) -> Option<Code> {
    result.err().map(|error| error.code())
}

fn names(disk: &dyn Disk) -> Vec<(String, u64)> {
    let files = block_on(disk.list()).expect(HEALTHY);
    files
        .into_iter()
        .map(|file| (file.name, file.len))
        .collect()
}

/// Bytes that tell where they belong.
fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let words = (0..len.div_ceil(8)).flat_map(|_| dice.roll().to_le_bytes());
    words.take(len as usize).collect()
}

/// New files have their length, are zeros, and keep what is written, synced or not.
pub fn written_is_read(stand: &Stand) {
    let block = stand.block();
    let disk = &*stand.disk;
    let file = stand.create("a", 64 * block);
    assert_eq!(file.len(), 64 * block);
    assert!(!file.is_empty());
    let zeros = good(&*file, read(disk, 0, 64 * block)).expect(HEALTHY);
    assert!(zeros.iter().all(|byte| *byte == 0));
    drop(zeros);
    for (offset, len, sync) in [(0, 1, false), (3, 7, true), (63, 1, true), (10, 50, false)] {
        let bytes = pattern(offset, len * block);
        let landed = good(&*file, write(disk, offset * block, &bytes, sync)).expect(HEALTHY);
        assert_eq!(landed[..], bytes, "a write leaves its buffer alone");
        good(&*file, Request::Sync);
        let found = good(&*file, read(disk, offset * block, len * block)).expect(HEALTHY);
        assert_eq!(found[..], bytes);
    }
    let other = block_on(disk.open("a")).expect(HEALTHY);
    assert_eq!(other.len(), 64 * block);
    let found = good(&*other, read(disk, 10 * block, 50 * block)).expect(HEALTHY);
    assert_eq!(found[..], pattern(10, 50 * block));
}

/// More requests than any window is deep land all, each with its own bytes.
pub fn a_large_batch_lands(stand: &Stand) {
    const COUNT: u64 = 200;
    let block = stand.block();
    let disk = &*stand.disk;
    let file = stand.create("a", COUNT * block);
    let writes = (0..COUNT).map(|i| write(disk, i * block, &pattern(i, block), i % 16 == 0));
    for flight in file.start(writes.collect()) {
        block_on(flight).result.expect(HEALTHY);
    }
    let order = (0..COUNT).map(|i| i * 7 % COUNT);
    let reads = order.clone().map(|i| read(disk, i * block, block));
    for (i, flight) in order.zip(file.start(reads.collect())) {
        let landed = block_on(flight);
        landed.result.expect(HEALTHY);
        assert_eq!(
            landed.buffer.expect(HEALTHY)[..],
            pattern(i, block),
            "block {i}"
        );
    }
    assert_eq!(disk.pool().in_use(), 0);
}

/// A request that cannot be carried out gives its buffer back and says why.
pub fn bad_requests_are_refused(stand: &Stand) {
    let block = stand.block();
    let disk = &*stand.disk;
    let file = stand.create("a", 4 * block);
    let cases = [
        (read(disk, 1, block), Code::FileInvalidBuffer),
        (read(disk, 0, block + 1), Code::FileInvalidBuffer),
        (read(disk, 3 * block, 2 * block), Code::InvalidParams),
        (
            write(disk, 4 * block, &pattern(0, block), true),
            Code::InvalidParams,
        ),
        (
            write(disk, block / 2, &pattern(0, block), true),
            Code::FileInvalidBuffer,
        ),
    ];
    let (requests, codes): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    for (flight, wanted) in file.start(requests).into_iter().zip(codes) {
        let landed = block_on(flight);
        assert_eq!(code(landed.result), Some(wanted));
        assert!(landed.buffer.is_some());
    }
    assert_eq!(
        code(block_on(file.punch(1, block))),
        Some(Code::InvalidParams)
    );
    let whole = good(&*file, read(disk, 0, 4 * block)).expect(HEALTHY);
    assert!(whole.iter().all(|byte| *byte == 0), "nothing was written");
}

/// Names are made once, found, replaced and removed; a removed file lives on for whoever has it open.
pub fn names_come_and_go(stand: &Stand) {
    let block = stand.block();
    let disk = &*stand.disk;
    assert_eq!(names(disk), []);
    let one = stand.create("one", block);
    stand.create("two", 3 * block);
    let list = |names: &[(&str, u64)]| -> Vec<(String, u64)> {
        let names = names.iter();
        names
            .map(|(name, len)| ((*name).to_owned(), len * block))
            .collect()
    };
    assert_eq!(names(disk), list(&[("one", 1), ("two", 3)]));
    assert_eq!(
        code(block_on(disk.create("one", block))),
        Some(Code::FileOpenFail)
    );
    assert_eq!(code(block_on(disk.open("three"))), Some(Code::FileNotFound));
    assert_eq!(
        code(block_on(disk.remove("three"))),
        Some(Code::FileNotFound)
    );
    assert_eq!(
        code(block_on(disk.rename("three", "four"))),
        Some(Code::FileNotFound)
    );
    for bad in ["", ".", "..", "../one", "a/b", "a\0b"] {
        assert_eq!(
            code(block_on(disk.create(bad, block))),
            Some(Code::InvalidParams)
        );
        assert_eq!(code(block_on(disk.open(bad))), Some(Code::InvalidParams));
        assert_eq!(code(block_on(disk.remove(bad))), Some(Code::InvalidParams));
        assert_eq!(
            code(block_on(disk.rename("one", bad))),
            Some(Code::InvalidParams)
        );
    }
    good(&*one, write(disk, 0, &pattern(1, block), true));
    block_on(disk.rename("one", "two")).expect(HEALTHY);
    assert_eq!(names(disk), list(&[("two", 1)]));
    let two = block_on(disk.open("two")).expect(HEALTHY);
    block_on(disk.sync_names()).expect(HEALTHY);
    block_on(disk.remove("two")).expect(HEALTHY);
    block_on(disk.sync_names()).expect(HEALTHY);
    assert_eq!(names(disk), []);
    good(&*one, write(disk, 0, &pattern(2, block), false));
    let found = good(&*two, read(disk, 0, block)).expect(HEALTHY);
    assert_eq!(found[..], pattern(2, block));
}

/// A flight that nobody awaits lands all the same, and gives its buffer back.
pub fn dropped_flights_land(stand: &Stand) {
    let block = stand.block();
    let disk = &*stand.disk;
    let file = stand.create("a", 16 * block);
    let writes = (0..16).map(|i| write(disk, i * block, &pattern(i, block), false));
    drop(file.start(writes.collect()));
    drop(start(&*file, read(disk, 0, 16 * block)));
    drop(start(&*file, Request::Sync));
    // Whoever gets the whole pool knows that no request has any of it.
    drop(take(disk, disk.pool().bytes()));
    for i in 0..16 {
        let found = good(&*file, read(disk, i * block, block)).expect(HEALTHY);
        assert_eq!(found[..], pattern(i, block));
    }
}

/// Dropping the last owner of a disk lets land what was started; the next process finds it.
pub fn what_was_started_is_found_again(stand: Stand) {
    let block = stand.block();
    let file = stand.create("a", 64 * block);
    block_on(stand.disk.sync_names()).expect(HEALTHY);
    let writes = (0..64).map(|i| write(&*stand.disk, i * block, &pattern(i, block), i == 63));
    let flights = file.start(writes.collect());
    let Stand { disk, again } = stand;
    drop(disk);
    drop(flights);
    drop(file);
    let disk = again();
    assert_eq!(names(&*disk), [("a".to_owned(), 64 * block)]);
    let file = block_on(disk.open("a")).expect(HEALTHY);
    for i in 0..64 {
        let found = good(&*file, read(&*disk, i * block, block)).expect(HEALTHY);
        assert_eq!(found[..], pattern(i, block), "block {i}");
    }
}

/// A batch larger than the pool streams through it.
pub fn batches_stream_through_a_small_pool(stand: &Stand) {
    let disk = &*stand.disk;
    let piece = disk.pool().bytes() / 4;
    let file = stand.create("a", 16 * piece);
    let (mut flights, mut held) = (Vec::new(), disk.pool().bytes());
    for i in 0..16 {
        // As a caller does that has no more than its share: it lands the oldest before it takes another.
        if flights.len() == 4 {
            let landed: Landed = block_on(flights.remove(0));
            landed.result.expect(HEALTHY);
        }
        flights.push(start(
            &*file,
            write(disk, i * piece, &pattern(i, piece), false),
        ));
        held += piece;
    }
    for flight in flights {
        block_on(flight).result.expect(HEALTHY);
    }
    assert!(held > disk.pool().bytes());
    for i in 0..16 {
        let found = good(&*file, read(disk, i * piece, piece)).expect(HEALTHY);
        assert_eq!(found[..], pattern(i, piece));
    }
}

/// What is given back to the filesystem reads as zeros.
pub fn holes_are_zeros(stand: &Stand) {
    let disk = &*stand.disk;
    let file = stand.create("a", 8 * 4096);
    good(&*file, write(disk, 0, &pattern(1, 8 * 4096), true));
    match block_on(file.punch(4096, 2 * 4096)) {
        Err(error) if error.code() == Code::NotSupported => return,
        result => result.expect(HEALTHY),
    }
    let found = good(&*file, read(disk, 0, 8 * 4096)).expect(HEALTHY);
    let mut wanted = pattern(1, 8 * 4096);
    wanted[4096..3 * 4096].fill(0);
    assert_eq!(found[..], wanted);
}

/// There is room, and a file takes some of it.
pub fn room_is_told(stand: &Stand) {
    let before = block_on(stand.disk.space()).expect(HEALTHY);
    assert!(before.free > 0 && before.free <= before.total);
    let _file = stand.create("a", 1 << 20);
    let after = block_on(stand.disk.space()).expect(HEALTHY);
    assert!(after.free <= after.total);
}

/// Threads that share a file do not disturb each other.
pub fn threads_share_a_file(stand: &Stand) {
    let block = stand.block();
    let disk = &*stand.disk;
    let file = stand.create("a", 4 * 16 * block);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let file = &*file;
            scope.spawn(move || {
                for round in 0..50_u64 {
                    let (offset, seed) =
                        ((thread * 16 + round % 16) * block, thread * 1000 + round);
                    let bytes = pattern(seed, block);
                    good(file, write(disk, offset, &bytes, false));
                    let found = good(file, read(disk, offset, block)).expect(HEALTHY);
                    assert_eq!(found[..], bytes);
                }
            });
        }
    });
    assert_eq!(disk.pool().in_use(), 0);
}

/// Random requests, many under way at a time and never two on one block, against a vector.
pub fn random_requests_match_a_vector(stand: &Stand) {
    const BLOCKS: u64 = 256;
    const UNDER_WAY_MAX: usize = 24;
    let block = stand.block();
    let disk = &*stand.disk;
    let file = stand.create("a", BLOCKS * block);
    let mut oracle = vec![0_u8; (BLOCKS * block) as usize];
    let mut under_way: BTreeMap<u64, (u64, bool, Flight)> = BTreeMap::new();
    let mut dice = Dice::new(7);
    for round in 0..600 {
        let (at, len) = (dice.below(BLOCKS), 1 + dice.below(16));
        let len = len.min(BLOCKS - at);
        let is_free = under_way
            .iter()
            .all(|(other, (blocks, ..))| at + len <= *other || other + blocks <= at);
        if is_free && under_way.len() < UNDER_WAY_MAX {
            let writes = dice.below(2) == 0;
            let range = (at * block) as usize..((at + len) * block) as usize;
            let request = if writes {
                let bytes = pattern(round, len * block);
                oracle[range].copy_from_slice(&bytes);
                write(disk, at * block, &bytes, dice.below(8) == 0)
            } else {
                read(disk, at * block, len * block)
            };
            under_way.insert(at, (len, writes, start(&*file, request)));
        } else if let Some(at) = pick(&under_way, &mut dice) {
            settle(at, &mut under_way, &oracle, block);
        }
    }
    while let Some(at) = pick(&under_way, &mut dice) {
        settle(at, &mut under_way, &oracle, block);
    }
    let whole = good(&*file, read(disk, 0, BLOCKS * block)).expect(HEALTHY);
    assert!(whole[..] == oracle, "the file is not what was written");
}

fn pick<T>(under_way: &BTreeMap<u64, T>, dice: &mut Dice) -> Option<u64> {
    let index = dice.below(under_way.len() as u64) as usize;
    under_way.keys().nth(index).copied()
}

fn settle(at: u64, under_way: &mut BTreeMap<u64, (u64, bool, Flight)>, oracle: &[u8], block: u64) {
    let (len, wrote, flight) = under_way.remove(&at).expect("it was picked from them");
    let landed = block_on(flight);
    landed.result.expect(HEALTHY);
    if !wrote {
        let range = (at * block) as usize..((at + len) * block) as usize;
        assert!(
            landed.buffer.expect(HEALTHY)[..] == oracle[range],
            "blocks {at} + {len}"
        );
    }
}

/// Runs the contract suite against the disks of `$make`, a function that gives a [`Stand`].
#[macro_export]
macro_rules! disk_contract {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            use $crate::testkit as contract;

            #[test]
            fn written_is_read() {
                contract::written_is_read(&$make());
            }

            #[test]
            fn a_large_batch_lands() {
                contract::a_large_batch_lands(&$make());
            }

            #[test]
            fn bad_requests_are_refused() {
                contract::bad_requests_are_refused(&$make());
            }

            #[test]
            fn names_come_and_go() {
                contract::names_come_and_go(&$make());
            }

            #[test]
            fn dropped_flights_land() {
                contract::dropped_flights_land(&$make());
            }

            #[test]
            fn what_was_started_is_found_again() {
                contract::what_was_started_is_found_again($make());
            }

            #[test]
            fn batches_stream_through_a_small_pool() {
                contract::batches_stream_through_a_small_pool(&$make());
            }

            #[test]
            fn holes_are_zeros() {
                contract::holes_are_zeros(&$make());
            }

            #[test]
            fn room_is_told() {
                contract::room_is_told(&$make());
            }

            #[test]
            fn threads_share_a_file() {
                contract::threads_share_a_file(&$make());
            }

            #[test]
            fn random_requests_match_a_vector() {
                contract::random_requests_match_a_vector(&$make());
            }
        }
    };
}
