//! Writing and reading.

use super::rig::{ID, Object, disk, layout, list, made_on, opened, shard_name};
use pollster::block_on;
use ziggurat_base::{CHUNK, ChunkTable, Code, Crc32, Extent, Ticket, hash::Dice};
use ziggurat_dfs::{Ack, Layout, Name, Place, ShardRead, ShardWrite};
use ziggurat_engine::port::ReadSums;
use ziggurat_io::{
    Pool,
    mem::{Fault, MemDisk, MemOptions, Op},
};

const LENS: [u64; 10] = [
    0,
    1,
    4095,
    4096,
    4097,
    CHUNK as u64,
    CHUNK as u64 + 1,
    5 * CHUNK as u64 + 17,
    1 << 20,
    (3 << 20) + 12_345,
];

fn laid_out(alignment: u64) -> Vec<Object> {
    let mut offset = 0;
    let objects = (1..).zip(LENS).map(|(ticket, len)| {
        let mut object = Object::at(ticket, len, ticket as u32 % 2, offset);
        object.place.extent.len = object.room(alignment);
        offset += object.place.extent.len;
        object
    });
    objects.collect()
}

#[test]
fn what_is_written_is_read_whole_and_in_ranges() {
    for alignment in [4096, 65_536, 1 << 20] {
        let layout = Layout {
            alignment,
            shard_bytes: 32 << 20,
            ..layout()
        };
        let root = made_on(&disk(), &layout).unwrap();
        let objects = laid_out(u64::from(alignment));
        objects.iter().for_each(|object| object.put(&root));
        let chunk = CHUNK as u64;
        for object in &objects {
            let payload = object.payload();
            assert!(object.get(&root).unwrap() == payload, "{object:?}");
            if object.len > 2 * chunk {
                let mut into = vec![0; CHUNK];
                let sums = object.get_range(&root, chunk, &mut into).unwrap();
                assert!(into == payload[CHUNK..2 * CHUNK]);
                let table = ChunkTable::of(&payload);
                let want = ReadSums {
                    crc: Crc32::of(&into),
                    chunks: vec![table.sums()[1]],
                    table: table.encode(),
                };
                assert_eq!(sums, want);
                let last = object.len / chunk * chunk;
                let mut into = vec![0; (object.len - last) as usize];
                object.get_range(&root, last, &mut into).unwrap();
                assert!(into == payload[last as usize..]);
            }
        }
    }
}

#[test]
fn many_at_once_with_hardly_any_memory() {
    let pool = Pool::new(300 << 10).unwrap();
    let disk = MemDisk::new(&pool, MemOptions::default());
    let root = made_on(&disk, &layout()).unwrap();
    let objects: Vec<_> = (0..40)
        .map(|i| Object::at(i + 1, 200_000 + i, (i % 2) as u32, i * (256 << 10)))
        .collect();
    let payloads: Vec<_> = objects.iter().map(Object::payload).collect();
    let parts: Vec<_> = payloads.iter().map(|payload| [&payload[..]]).collect();
    let writes: Vec<_> = objects
        .iter()
        .zip(&parts)
        .map(|(object, parts)| ShardWrite {
            name: object.name(),
            tags: object.tags(),
            place: object.place,
            parts,
            ack: Ack::Written,
        })
        .collect();
    let answers = block_on(root.write_many(&writes));
    for (answer, payload) in answers.into_iter().zip(&payloads) {
        assert_eq!(answer.unwrap(), Crc32::of(payload));
    }
    let mut room: Vec<_> = objects.iter().map(|o| vec![0; o.len as usize]).collect();
    let mut reads: Vec<_> = objects
        .iter()
        .zip(&mut room)
        .map(|(object, into)| {
            let read = ShardRead {
                name: object.name(),
                place: object.place,
                object_len: object.len,
                offset: 0,
                want_table: false,
            };
            (read, &mut into[..])
        })
        .collect();
    let answers = block_on(root.read_many(&mut reads));
    assert_eq!(answers.len(), 40);
    answers.into_iter().for_each(|answer| drop(answer.unwrap()));
    assert!(room == payloads);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn two_clients_of_one_directory_read_each_other() {
    let disk = disk();
    let one = made_on(&disk, &layout()).unwrap();
    let other = opened(&disk).unwrap();
    assert_eq!((one.id(), other.id()), (ID, ID));
    let objects = [Object::at(1, 70_000, 0, 0), Object::at(2, 5000, 1, 8192)];
    objects[0].put(&one);
    objects[1].put(&other);
    assert!(objects.iter().all(|object| object.is_there(&one)));
    assert!(objects.iter().all(|object| object.is_there(&other)));
    // What one removes the other does not read, nor list.
    block_on(one.discard(0, &[objects[0].version()])).unwrap();
    assert_eq!(
        objects[0].get(&other).unwrap_err().code(),
        Code::ReplicaIsGone
    );
    assert_eq!(list(&other, 0).0.len(), 0);
}

#[test]
fn a_reader_believes_only_the_record_that_it_was_sent_to() {
    let root = made_on(&disk(), &layout()).unwrap();
    let object = Object::at(2, 100_000, 0, 4096);
    object.put(&root);
    let good = ShardRead {
        name: object.name(),
        place: object.place,
        object_len: object.len,
        offset: 0,
        want_table: false,
    };
    let code = |read: &ShardRead<'_>| {
        let mut into = vec![0; read.object_len as usize];
        block_on(root.read(read, &mut into)).map_err(|error| error.code())
    };
    code(&good).unwrap();
    let other_key = object.clone().named("key/3");
    let named = |ticket, tenant| Name {
        ticket: Ticket(ticket),
        tenant,
        ..good.name
    };
    for name in [named(3, "tenant"), named(2, "other"), other_key.name()] {
        let read = ShardRead { name, ..good };
        assert_eq!(code(&read), Err(Code::ReplicaIsGone), "{read:?}");
    }
    let shorter = ShardRead {
        object_len: object.len - 1,
        ..good
    };
    assert_eq!(code(&shorter), Err(Code::ReplicaIsGone));
    let Extent { offset, len } = object.place.extent;
    let places = [
        (0, offset, len + 4096, Code::ReplicaIsGone),
        (0, offset + 4096, len, Code::ReplicaIsGone),
        (1, offset, len, Code::ReplicaIsGone),
        (7, offset, len, Code::InvalidReplica),
        (0, 16 << 20, len, Code::InvalidReplica),
        (0, offset + 1, len, Code::InvalidReplica),
        (0, offset, 4096, Code::InvalidReplica),
        (0, u64::MAX - 4095, len, Code::InvalidReplica),
    ];
    for (shard, offset, len, want) in places {
        let extent = Extent::new(offset, len);
        let place = Place { shard, extent };
        let read = ShardRead { place, ..good };
        assert_eq!(code(&read), Err(want), "{read:?}");
    }
    let mut into = vec![0; 100];
    let error = block_on(root.read(&good, &mut into)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidRead);
}

#[test]
fn a_write_that_does_not_fill_its_extent_is_refused() {
    let root = made_on(&disk(), &layout()).unwrap();
    let mut object = Object::at(1, 5000, 0, 0);
    object.place.extent.len += 4096;
    let error = block_on(object.write(&root, Ack::Written)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidParams);
    assert!(error.what().contains("takes 12288"), "{error}");
    object.place.extent = Extent::new(16 << 20, 12_288);
    let error = block_on(object.write(&root, Ack::Written)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidReplica);
    let unnamed = Object::at(0, 5000, 0, 0);
    let error = block_on(unnamed.write(&root, Ack::Written)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidParams);
}

#[test]
fn long_names_are_read_although_the_reader_does_not_know_the_tags() {
    let root = made_on(&disk(), &layout()).unwrap();
    let mut object = Object::at(1, 70_000, 0, 0).named(&"k".repeat(4096));
    object.parent = Some("p".repeat(4096));
    object.place.extent.len = object.room(4096);
    object.put(&root);
    assert!(object.is_there(&root));
    let next = Object::at(2, 10, 0, object.place.extent.end());
    next.put(&root);
    let (found, counts) = list(&root, 0);
    assert_eq!((found.len(), counts.damaged), (2, 0));
    assert_eq!(found[0].tags.as_tags(), object.tags());
}

#[test]
fn a_late_writer_never_gives_a_later_object_wrong_bytes() {
    // The range of one object is used again, and the first writer's bytes arrive after that: in every order of what was
    // under way, and whole or in part.
    let root = made_on(&disk(), &layout()).unwrap();
    for late_len in [3000, 60_000, 200_000] {
        for now_len in [3000, 60_000, 200_000] {
            let now = Object::at(10, now_len, 0, 65_536);
            for offset in [65_536, 65_536 + 8192, 65_536 - 8192] {
                let late = Object::at(5, late_len, 0, offset);
                now.put(&root);
                late.put(&root);
                if late.place.extent.overlaps(now.place.extent) {
                    let error = now.get(&root).expect_err("its bytes are damaged");
                    let is_miss = [Code::ReplicaIsGone, Code::ChecksumMismatch];
                    assert!(is_miss.contains(&error.code()), "{error}");
                }
                // Neither is ever the other.
                late.is_there(&root);
                let stale = Object::at(10, now_len, 0, offset).named("key/5");
                assert!(!stale.is_there(&root));
            }
        }
    }
}

#[test]
fn rot_and_misplaced_writes_are_never_believed() {
    let mut dice = Dice::new(7);
    for ticket in 1..60 {
        let disk = disk();
        let root = made_on(&disk, &layout()).unwrap();
        let object = Object::at(ticket, 200_000, 0, 0);
        object.put(&root);
        let start = 64 << 10;
        let range = start..start + object.place.extent.len;
        let at = disk.rot(&shard_name(0), range, &mut dice).unwrap();
        let is_filling =
            at >= start + object.place.extent.len - (object.place.extent.len - 4096 - 200_000);
        if !is_filling {
            let error = object.get(&root).expect_err("a bit is wrong");
            let is_miss = [Code::ReplicaIsGone, Code::ChecksumMismatch];
            assert!(is_miss.contains(&error.code()), "{error} at {at}");
        }
        // A chunk that is right can be read beside one that is not.
        let mut into = vec![0; CHUNK];
        for chunk in 0..3 {
            let read = object.get_range(&root, chunk * CHUNK as u64, &mut into);
            let from = chunk as usize * CHUNK;
            assert!(read.is_err() || into == object.payload()[from..from + CHUNK]);
        }
    }
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let (first, second) = (Object::at(1, 5000, 0, 0), Object::at(2, 5000, 0, 12_288));
    first.put(&root);
    disk.plan(
        Op::Write,
        1,
        Fault::Misplaced {
            offset: (64 << 10) + 4096,
        },
    );
    second.put(&root);
    assert!(!first.is_there(&root) && !second.is_there(&root));
}

#[test]
fn a_read_that_fails_is_tried_through_a_fresh_handle() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let object = Object::at(1, 100_000, 0, 0);
    object.put(&root);
    disk.plan(Op::Read, 1, Fault::EIO);
    assert!(object.is_there(&root));
    disk.set_hook(|attempt| ziggurat_io::mem::Verdict {
        fault: (attempt.op == Op::Read && attempt.range.start >= 64 << 10).then_some(Fault::EIO),
        ..Default::default()
    });
    assert_eq!(object.get(&root).unwrap_err().code(), Code::FileReadFail);
}

#[test]
fn a_failed_write_leaves_no_record_and_nothing_under_way() {
    for step in 1..=3 {
        let disk = disk();
        let root = made_on(&disk, &layout()).unwrap();
        let object = Object::at(1, 3 << 19, 0, 0);
        disk.plan(Op::Write, step, Fault::EIO);
        let error = block_on(object.write(&root, Ack::Synced)).unwrap_err();
        assert_eq!(error.code(), Code::FileWriteFail);
        assert!(!object.is_there(&root));
        assert_eq!(list(&root, 0).0.len(), 0);
        object.put(&root);
        assert!(object.is_there(&root));
    }
}
