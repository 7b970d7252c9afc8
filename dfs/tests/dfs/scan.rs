//! Listing shard files by their headers.

use super::rig::{Object, disk, layout, list, made_on, overwrite, shard_name, tickets};
use pollster::block_on;
use proptest::prelude::*;
use ziggurat_base::{Code, Extent, Ticket, hash::Dice};
use ziggurat_dfs::{Layout, Root};
use ziggurat_io::{
    Pool,
    mem::{Fault, MemDisk, MemOptions, Op, Verdict},
};

const START: u64 = 64 << 10;

#[test]
fn everything_is_found_and_payloads_are_not_read() {
    let disk = disk();
    let big = Layout {
        shard_bytes: 256 << 20,
        ..layout()
    };
    let root = made_on(&disk, &big).unwrap();
    let mut offset = 0;
    let mut written = Vec::new();
    for ticket in 1..=120 {
        let object = Object::at(ticket, 2 << 20, 0, offset);
        offset = object.place.extent.end();
        object.put(&root);
        written.push(object);
    }
    let before = disk.counts();
    let (found, counts) = list(&root, 0);
    let read = disk.counts().bytes_read - before.bytes_read;
    assert_eq!(tickets(&found), (1..=120).collect::<Vec<_>>());
    assert_eq!((counts.found, counts.damaged, counts.removed), (120, 0, 0));
    for (found, object) in found.iter().zip(&written) {
        assert_eq!((found.name(), found.len), (object.name(), object.len));
        assert_eq!(found.tags.as_tags(), object.tags());
        assert_eq!(found.extent, object.place.extent);
    }
    // Little more than the headers and what is free behind them.
    let free = (256 << 20) - START - offset;
    assert!(read < free + (2 << 20), "{read} bytes were read");
}

#[test]
fn a_shard_file_of_small_objects_is_listed_in_pages() {
    let root = made_on(&disk(), &layout()).unwrap();
    for ticket in 1..=1500 {
        Object::at(ticket, ticket % 5000, 0, ticket * 8192).put(&root);
    }
    let (found, _) = list(&root, 0);
    assert_eq!(tickets(&found), (1..=1500).collect::<Vec<_>>());
}

#[test]
fn garbage_and_holes_are_passed_over() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let mut dice = Dice::new(3);
    let mut garbage = vec![0; 1 << 20];
    garbage.fill_with(|| dice.roll() as u8);
    // Blocks that begin like headers.
    for block in garbage.chunks_mut(4096).step_by(3) {
        block[..8].copy_from_slice(b"ZGDFSREC");
    }
    for at in 0..15 {
        overwrite(
            &disk,
            &shard_name(0),
            START + (at << 20),
            &garbage[..(1 << 20) - START as usize],
        );
    }
    let objects = [
        Object::at(1, 100, 0, 40_960),
        Object::at(2, 900_000, 0, 3 << 20),
        Object::at(3, 0, 0, (16 << 20) - START - 4096),
    ];
    objects.iter().for_each(|object| object.put(&root));
    let (found, counts) = list(&root, 0);
    assert_eq!(tickets(&found), [1, 2, 3]);
    assert_eq!(counts.damaged, 0, "no header of this shard file");
}

#[test]
fn a_header_that_was_moved_or_copied_is_no_record() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let object = Object::at(1, 5000, 0, 0);
    object.put(&root);
    let record = disk
        .bytes(&shard_name(0), START..START + object.place.extent.len)
        .unwrap();
    overwrite(&disk, &shard_name(0), START + 65_536, &record);
    overwrite(&disk, &shard_name(1), START, &record);
    assert_eq!(tickets(&list(&root, 0).0), [1]);
    assert!(list(&root, 1).0.is_empty());
    // Half of a header counts as damaged.
    let next = Object::at(2, 5000, 0, 1 << 20);
    next.put(&root);
    overwrite(&disk, &shard_name(0), START + (1 << 20) + 512, &[0x55; 512]);
    let (found, counts) = list(&root, 0);
    assert_eq!((tickets(&found), counts.damaged), (vec![1], 1));
}

#[test]
fn what_lies_inside_of_a_record_is_its_payload() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    // A payload that has a whole header at its very place.
    let inner = Object::at(9, 100, 0, 40_960);
    inner.put(&root);
    let whole = disk.bytes(&shard_name(0), START..START + 65_536).unwrap();
    let mut outer = Object::at(5, 65_536 - 4096, 0, 0);
    outer.parent = None;
    let payload = &whole[4096..];
    let write = ziggurat_dfs::ShardWrite {
        name: outer.name(),
        tags: outer.tags(),
        place: outer.place,
        parts: &[payload],
        ack: ziggurat_dfs::Ack::Synced,
    };
    block_on(root.write(&write)).unwrap();
    assert_eq!(tickets(&list(&root, 0).0), [5]);
    block_on(root.wipe(0, &[outer.version()])).unwrap();
    assert_eq!(tickets(&list(&root, 0).0), [9]);
}

#[test]
fn one_block_that_cannot_be_read_hides_no_other() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    for (ticket, offset) in [(1, 0), (2, 8192), (3, 16_384), (4, 1 << 20), (5, 2 << 20)] {
        Object::at(ticket, 100, 0, offset).put(&root);
    }
    let bad = [START + 8192, START + (1 << 20)];
    disk.set_hook(move |attempt| {
        let hits = bad.iter().any(|at| attempt.range.contains(at));
        Verdict {
            fault: (attempt.op == Op::Read && hits).then_some(Fault::EIO),
            ..Verdict::default()
        }
    });
    let (found, counts) = list(&root, 0);
    assert_eq!(tickets(&found), [1, 3, 5]);
    assert_eq!(counts.unreadable, 2);
}

#[test]
fn records_of_a_later_release_are_not_passed_over_in_silence() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    Object::at(1, 100, 0, 0).put(&root);
    let mut block = disk.bytes(&shard_name(0), START..START + 4096).unwrap();
    block[12] = 2;
    let sum = ziggurat_base::Crc32::of(&block[12..]).0.to_le_bytes();
    block[8..12].copy_from_slice(&sum);
    overwrite(&disk, &shard_name(0), START, &block);
    let removals = std::sync::Arc::new(block_on(root.removals()).unwrap());
    let mut scan = root.scan(0, &removals).unwrap();
    assert_eq!(
        block_on(scan.next_page()).unwrap_err().code(),
        Code::InvalidVersion
    );
}

/// Objects that do not overlap, as a partition would have placed them.
fn place(root: &Root, seed: u64, alignment: u64) -> Vec<(u64, Extent)> {
    let mut dice = Dice::new(seed);
    let capacity = root.shards()[0].capacity;
    let (mut offset, mut placed) = (0, Vec::new());
    for ticket in 1..200 {
        if dice.below(3) == 0 {
            offset += dice.below(40) * alignment;
        }
        let len = match dice.below(4) {
            0 => 0,
            1 => dice.below(5000),
            2 => 65_000 + dice.below(2000),
            _ => dice.below(400_000),
        };
        let mut object = Object::at(ticket, len, 0, offset);
        object.place.extent.len = object.room(alignment);
        if object.place.extent.end() > capacity {
            break;
        }
        object.put(root);
        placed.push((ticket, object.place.extent));
        offset = object.place.extent.end();
    }
    placed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_scan_finds_exactly_what_was_placed(seed in any::<u64>(), shift in 0..5_u32, memory in 0..3_u32) {
        let pool = Pool::new((512 << 10) << (memory * 2)).unwrap();
        let disk = MemDisk::new(&pool, MemOptions::default());
        let alignment = 4096 << (shift * 2);
        let layout = Layout { alignment, ..layout() };
        let root = made_on(&disk, &layout).unwrap();
        let mut placed = place(&root, seed, u64::from(alignment));
        let mut dice = Dice::new(seed);
        let gone: Vec<_> = placed.iter().copied().filter(|_| dice.below(4) == 0).collect();
        placed.retain(|one| !gone.contains(one));
        let gone: Vec<_> = gone.into_iter().map(|(ticket, extent)| (Ticket(ticket), extent)).collect();
        block_on(root.discard(0, &gone)).unwrap();
        let (found, counts) = list(&root, 0);
        let found: Vec<_> = found.iter().map(|one| (one.ticket.0, one.extent)).collect();
        prop_assert_eq!(found, placed);
        prop_assert_eq!((counts.damaged, counts.unreadable, counts.unproven), (0, 0, 0));
        prop_assert_eq!(pool.in_use(), 0);
    }
}
