//! Payloads that are compressed: the same bytes come back, whole and in ranges, and the rules of when it is done hold.

use super::rig::{Object, Rig, item, options};
use futures_util::future::join_all;
use std::sync::Arc;
use ziggurat_base::{
    ByteCount, CHUNK, Code, Crc32, DirectoryId, ManualClock, Result, Ticket, hash::Dice,
};
use ziggurat_io::{
    Pool,
    mem::{MemDisk, MemOptions},
};
use ziggurat_tiers::ssd::{
    Codec, Options, Packing, Source, SsdTier, Wanted,
    format::{
        codec::decode,
        record::{Form, Record},
    },
    offline,
};

const PACKING: [Codec; 2] = [Codec::Zstd, Codec::Planes];

fn with(codec: Codec) -> Options {
    Options {
        packing: Packing { codec, level: 1 },
        ..options()
    }
}

/// Objects that compress, of one chunk, of several, and of more than a batch.
fn numbers() -> Vec<Object> {
    let chunk = CHUNK as u64;
    let lens = [
        5000,
        chunk - 1,
        chunk,
        chunk + 1,
        5 * chunk + 17,
        1 << 20,
        5 << 20,
    ];
    (1..)
        .zip(lens)
        .map(|(t, len)| Object::numbers(t, len))
        .collect()
}

fn wanted(object: &Object, offset: u64, len: u64) -> Wanted {
    Wanted {
        ticket: object.ticket,
        object_len: object.len,
        offset,
        len,
    }
}

fn read_back(rig: &Rig, object: &Object) {
    let payload = object.payload();
    let read = rig.get(object).expect("it is held");
    assert_eq!(read, payload, "{object:?}");
    let chunk = CHUNK as u64;
    if object.len <= chunk {
        return;
    }
    for (offset, len) in [(0, chunk), (chunk, object.len - chunk), (0, 0)] {
        let wanted = wanted(object, offset, len);
        let range = offset as usize..(offset + len) as usize;
        let found = pollster::block_on(rig.tier.read(&wanted));
        let found = found.expect("it is held");
        assert_eq!(found.bytes(), &payload[range.clone()]);
        let mut into = vec![0; len as usize];
        let sums = pollster::block_on(rig.tier.read_into(&wanted, &mut into));
        let sums = sums.expect("it is held");
        assert_eq!((&into[..], &sums), (found.bytes(), &found.sums));
        assert_eq!(sums.crc, Crc32::of(&payload[range]));
    }
}

#[test]
fn what_compresses_takes_less_and_comes_back() {
    for codec in PACKING {
        let rig = Rig::with(with(codec));
        let objects = numbers();
        assert!(rig.append(&objects).iter().all(Result::is_ok));
        let stats = rig.tier.stats();
        assert_eq!(stats.compressed, objects.len() as u64);
        assert!(
            stats.stored_bytes < stats.written_bytes * 7 / 8,
            "{stats:?}"
        );
        assert!(stats.device_bytes < stats.written_bytes, "{stats:?}");
        objects.iter().for_each(|object| read_back(&rig, object));
        let report = pollster::block_on(offline::inspect(&rig.disk)).unwrap();
        let stored = report.codecs[&codec];
        assert_eq!(
            (stored.records, stored.len),
            (objects.len() as u64, stats.written_bytes)
        );
        // The process is killed: the tail is proved by reading it. Then all is read out of footers.
        let rig = rig.restart();
        assert_eq!(rig.recovered.torn, 0);
        pollster::block_on(rig.tier.seal_all());
        let rig = rig.restart();
        objects.iter().for_each(|object| read_back(&rig, object));
        for placed in pollster::block_on(offline::records(&rig.disk)).unwrap() {
            let object = objects
                .iter()
                .find(|o| o.ticket == placed.1.ticket)
                .unwrap();
            let payload = pollster::block_on(offline::payload(&rig.disk, &placed)).unwrap();
            assert_eq!(payload, object.payload());
        }
    }
}

#[test]
fn a_range_reads_its_chunks_and_no_others() {
    let rig = Rig::with(with(Codec::Planes));
    let object = Object::numbers(1, 5 << 20);
    rig.append(std::slice::from_ref(&object))[0]
        .as_ref()
        .unwrap();
    let before = rig.disk.counts().bytes_read;
    let chunk = CHUNK as u64;
    let wanted = wanted(&object, 40 * chunk, chunk);
    let found = pollster::block_on(rig.tier.read(&wanted)).unwrap();
    assert_eq!(found.bytes(), &object.payload()[40 * CHUNK..41 * CHUNK]);
    let bytes = rig.disk.counts().bytes_read - before;
    assert!(bytes < 80_000, "{bytes}");
}

#[test]
fn what_does_not_pay_is_stored_as_it_came() {
    for codec in PACKING {
        let rig = Rig::with(with(codec));
        let lens = [0, 1, 400, 5000, 300_000, 3 << 20];
        let noise: Vec<_> = (1..)
            .zip(lens)
            .map(|(t, len)| Object::new(t, len))
            .collect();
        // Blocks of 512 bytes: nothing shorter can save any.
        let short = Object::numbers(9, 512);
        assert!(rig.append(&noise).iter().all(Result::is_ok));
        rig.append(std::slice::from_ref(&short))[0]
            .as_ref()
            .unwrap();
        let stats = rig.tier.stats();
        assert_eq!(
            (stats.compressed, stats.stored_bytes),
            (0, stats.written_bytes)
        );
        noise.iter().for_each(|object| read_back(&rig, object));
    }
}

#[test]
fn a_directory_is_read_whatever_the_setting_says() {
    let mut rig = Rig::with(with(Codec::Zstd));
    let mut all = Vec::new();
    for (round, codec) in [Codec::Planes, Codec::Plain, Codec::Zstd]
        .into_iter()
        .enumerate()
    {
        let objects: Vec<_> = (0..5)
            .map(|t| Object::numbers(round as u64 * 10 + t, 100_000 + t))
            .collect();
        assert!(rig.append(&objects).iter().all(Result::is_ok));
        all.extend(objects);
        let disk = rig.disk.kill(&mut Dice::new(0));
        rig = Rig::on(disk, with(codec)).unwrap();
        all.iter().for_each(|object| read_back(&rig, object));
    }
    let report = pollster::block_on(offline::inspect(&rig.disk)).unwrap();
    let records = report.codecs.values().map(|stored| stored.records);
    assert_eq!(records.collect::<Vec<_>>(), [5, 5, 5]);
}

#[test]
fn damage_is_a_miss_and_is_told_with_its_place() {
    for codec in PACKING {
        let rig = Rig::with(with(codec));
        let objects: Vec<_> = (1..=5).map(|t| Object::numbers(t, 300_000)).collect();
        rig.append(&objects);
        let held = rig
            .tier
            .look(|holdings| holdings.find(objects[2].ticket))
            .unwrap();
        let at = held.spot.at + held.stored_len / 2;
        let dice = &mut Dice::new(1);
        rig.disk.rot("00000001.log", at..at + 1, dice).unwrap();
        let mut seen = |_, _| {};
        let faults = pollster::block_on(offline::verify(&rig.disk, &mut seen)).unwrap();
        let [fault] = &faults[..] else {
            panic!("{faults:?}")
        };
        assert_eq!(fault.object.as_ref().unwrap().2, objects[2].ticket);
        let within = held.spot.at + 1..=at;
        assert!(within.contains(&fault.offset), "{fault:?}");
        for object in &objects {
            match rig.get(object) {
                Ok(bytes) => assert_eq!(bytes, object.payload()),
                Err(error) => {
                    let told = (error.code(), object.ticket);
                    assert_eq!(told, (Code::ReplicaIsGone, objects[2].ticket));
                }
            }
        }
        assert_eq!(rig.tier.stats().rotten, 1);
    }
}

#[test]
fn a_lost_power_leaves_no_part_of_a_compressed_object() {
    for seed in 0..20 {
        let rig = Rig::with(with(Codec::Planes));
        let objects: Vec<_> = (1..=4).map(|t| Object::numbers(t, 200_000 * t)).collect();
        rig.append(&objects[..2]);
        rig.disk
            .plan(ziggurat_io::mem::Op::Sync, 1, ziggurat_io::mem::Fault::EIO);
        let late = rig.append(&objects[2..]);
        let disk = rig.disk.crash(&mut Dice::new(seed));
        let rig = Rig::on(disk, with(Codec::Planes)).unwrap();
        for (object, was_kept) in objects
            .iter()
            .zip([true, true, late[0].is_ok(), late[1].is_ok()])
        {
            match rig.get(object) {
                Ok(bytes) => assert_eq!(bytes, object.payload()),
                Err(error) => assert_eq!((error.code(), was_kept), (Code::ReplicaIsGone, false)),
            }
        }
    }
}

#[test]
fn cleaning_copies_what_is_compressed() {
    let rig = Rig::with(Options {
        capacity: ByteCount::mib(32),
        file_bytes: ByteCount::mib(1),
        ..with(Codec::Planes)
    });
    let objects: Vec<_> = (1..=40).map(|t| Object::numbers(t, 90_000)).collect();
    assert!(rig.append(&objects).iter().all(Result::is_ok));
    let is_dead = |object: &&Object| !object.ticket.0.is_multiple_of(8);
    let dead: Vec<_> = objects.iter().filter(is_dead).map(|o| o.ticket).collect();
    // Whoever cleans may have another setting.
    let rig = Rig::on(
        rig.disk.kill(&mut Dice::new(0)),
        Options {
            packing: Packing::default(),
            ..rig.options
        },
    )
    .unwrap();
    pollster::block_on(rig.tier.discard(&dead)).unwrap();
    for _ in 0..10 {
        pollster::block_on(rig.tier.tend()).unwrap();
    }
    assert!(rig.tier.stats().copied > 0, "{:?}", rig.tier.stats());
    let report = pollster::block_on(offline::inspect(&rig.disk)).unwrap();
    assert_eq!(report.codecs.keys().collect::<Vec<_>>(), [&Codec::Planes]);
    let rig = rig.restart();
    for object in objects.iter().filter(|object| !is_dead(object)) {
        read_back(&rig, object);
    }
}

/// A payload that is another one when it is asked for again.
struct Fickle<'a> {
    payloads: [&'a [u8]; 2],
}

impl Source for Fickle<'_> {
    fn fill(&mut self, offset: u64, into: &mut [u8]) -> Result<Vec<Crc32>> {
        let sums = self.payloads[0].fill(offset, into);
        if offset as usize + into.len() == self.payloads[0].len() {
            self.payloads.swap(0, 1);
        }
        sums
    }
}

#[test]
fn a_payload_that_changes_while_it_is_compressed_is_left_out() {
    let rig = Rig::with(with(Codec::Zstd));
    let object = Object::numbers(1, 5 << 20);
    let (right, other) = (object.payload(), Object::numbers(3, object.len).payload());
    let mut source = Fickle {
        payloads: [&right, &other],
    };
    let mut items = [item(&object, &mut source)];
    let error = pollster::block_on(rig.tier.append(&mut items))
        .remove(0)
        .unwrap_err();
    assert_eq!(error.code(), Code::ChecksumMismatch);
    assert!(!rig.tier.holds(object.ticket));
    let rig = rig.restart();
    assert_eq!(rig.recovered.records, 0);
}

#[test]
fn readers_that_share_little_memory_all_get_their_turn() {
    let pool = Pool::new(3 << 20).unwrap();
    let disk = MemDisk::new(&pool, MemOptions::default());
    let clock = Arc::new(ManualClock::default());
    let opened = SsdTier::open(Arc::new(disk), clock, with(Codec::Planes), DirectoryId(1));
    let (tier, _) = pollster::block_on(opened).unwrap();
    let object = Object::numbers(1, 1 << 20);
    let payload = object.payload();
    let mut source = &payload[..];
    let mut items = [item(&object, &mut source)];
    pollster::block_on(tier.append(&mut items))
        .remove(0)
        .unwrap();
    let wanted = wanted(&object, 0, object.len);
    let reads = (0..8).map(|_| async {
        let found = tier.read(&wanted).await.unwrap();
        assert!(found.bytes() == payload);
    });
    pollster::block_on(join_all(reads));
    assert_eq!(pool.in_use(), 0);
}

/// What `tests/fixtures/payload.*` become. They were made with another program.
fn golden() -> Vec<u8> {
    let byte = |i: usize| match i % 2 {
        0 => (i * i / 7) as u8,
        _ => 0x3e + (i / 2 % 3) as u8,
    };
    (0..CHUNK + 1001).map(byte).collect()
}

#[test]
fn payloads_of_other_writers_can_be_read() {
    let stored: [(Codec, &[u8]); 2] = [
        (Codec::Zstd, include_bytes!("../fixtures/payload.zstd")),
        (
            Codec::Planes,
            include_bytes!("../fixtures/payload.bf16-planes+zstd"),
        ),
    ];
    for (codec, stored) in stored {
        let mut payload = Vec::new();
        decode(codec, CHUNK as u64 + 1001, stored, &mut |bytes| {
            payload.extend_from_slice(bytes);
        })
        .unwrap();
        assert!(payload == golden(), "{codec}");
    }
}

#[test]
fn a_codec_of_a_later_release_is_refused_by_its_number() {
    let rig = Rig::with(with(Codec::Zstd));
    rig.append(&[Object::numbers(1, 9000)])[0].as_ref().unwrap();
    let (_, record) = pollster::block_on(offline::records(&rig.disk))
        .unwrap()
        .remove(0);
    let mut bytes = Vec::new();
    record.encode_into(Form::Full, &mut bytes);
    assert_eq!(bytes[14], 1);
    let again = |bytes: &mut Vec<u8>| {
        let sum = Crc32::of(&bytes[12..]).0.to_le_bytes();
        bytes[8..12].copy_from_slice(&sum);
        Record::decode(bytes).map(|_| ()).unwrap_err()
    };
    bytes[14] = 9;
    let error = again(&mut bytes);
    assert_eq!(error.code(), Code::InvalidVersion);
    assert!(error.what().contains("codec 9"), "{error}");
    // Compressed means shorter, and plain as long.
    bytes[14] = 0;
    assert_eq!(again(&mut bytes).code(), Code::ChecksumMismatch);
    assert_eq!(record.ticket, Ticket(1 | 1 << 40));
}
