//! Looking at a root that nobody serves.

use super::rig::{ID, Object, disk, layout, list, made_on, opened, overwrite, shard_name};
use pollster::block_on;
use std::sync::Arc;
use ziggurat_base::{CHUNK, Code, Ticket, hash::Dice};
use ziggurat_dfs::{
    Root,
    format::{index::Index, removed},
    offline::{Logs, Recovered, Verified, inspect, recover, verify},
};
use ziggurat_io::{
    Disk as _,
    mem::{Fault, MemDisk, Op, Verdict},
};

const START: u64 = 64 << 10;

fn verified(disk: &MemDisk) -> Verified {
    let mut last = (0, 0);
    let mut progress = |done, total| last = (done, total);
    let verified = block_on(verify(Arc::new(disk.clone()), &mut progress)).unwrap();
    assert!(last.0 <= last.1);
    verified
}

fn recovered(disk: &MemDisk, logs: Logs) -> Recovered {
    block_on(recover(Arc::new(disk.clone()), logs, &mut |_, _| {})).unwrap()
}

fn some(root: &Root) -> Vec<Object> {
    let objects: Vec<_> = (1..=8)
        .map(|t| Object::at(t, t * 30_000, (t % 2) as u32, t * 400_000 / 4096 * 4096))
        .collect();
    objects.iter().for_each(|object| object.put(root));
    objects
}

fn counts(verified: &Verified) -> [u64; 5] {
    let Verified {
        shards,
        objects,
        overlaps,
        corrupt,
        torn,
        ..
    } = verified;
    [*shards, *objects, *overlaps, *corrupt, *torn]
}

#[test]
fn a_good_root_is_proved() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    let found = verified(&disk);
    assert_eq!((counts(&found), found.faults.len()), ([2, 8, 0, 0, 0], 0));
    assert_eq!(
        found.bytes,
        objects.iter().map(|object| object.len).sum::<u64>()
    );
}

#[test]
fn damage_is_named_to_the_byte() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    // The third chunk of a payload, a payload without a table, and one header.
    let last = &objects[7];
    let payload = START + last.place.extent.end() - last.len.next_multiple_of(4096);
    let chunk = payload + 2 * CHUNK as u64;
    overwrite(&disk, &shard_name(0), chunk + 512, &[0; 512]);
    let first = &objects[0];
    let small = START + first.place.extent.offset + 4096;
    overwrite(&disk, &shard_name(1), small, &[0; 512]);
    let header = START + objects[2].place.extent.offset + 512;
    overwrite(&disk, &shard_name(1), header, &[1; 512]);
    let found = verified(&disk);
    assert_eq!(counts(&found), [2, 7, 0, 2, 1]);
    let at: Vec<_> = found
        .faults
        .iter()
        .map(|fault| {
            let (tenant, key, ticket) = fault.object.clone().unwrap();
            assert_eq!(&*tenant, "tenant");
            (fault.file.clone(), fault.offset, key.to_string(), ticket.0)
        })
        .collect();
    let want = [
        (shard_name(0), chunk, "key/8".to_owned(), 8),
        (shard_name(1), small, "key/1".to_owned(), 1),
    ];
    assert_eq!(at, want);
}

#[test]
fn records_that_share_bytes_are_found() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    // A writer that came late over a range in use: one before, one behind its start.
    let now = Object::at(10, 100_000, 0, 40_960);
    let inner = Object::at(9, 3000, 0, 65_536);
    now.put(&root);
    inner.put(&root);
    let found = verified(&disk);
    assert_eq!(counts(&found), [2, 2, 1, 1, 0]);
    let outer = Object::at(8, 60_000, 0, 0);
    outer.put(&root);
    let found = verified(&disk);
    // The outer one is proved, so that what lies inside of it is its payload.
    assert_eq!(
        counts(&found)[..4],
        [2, 1, 0, 0].map(|n: u64| if n == 1 { found.objects } else { n })
    );
    now.put(&root);
    let found = verified(&disk);
    assert_eq!(counts(&found), [2, 2, 1, 1, 0], "{:?}", found.faults);
}

#[test]
fn a_damaged_root_is_looked_at_all_the_same() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    overwrite(&disk, &shard_name(1), 0, &[3; 8192]);
    assert_eq!(opened(&disk).unwrap_err().code(), Code::ChecksumMismatch);
    let report = block_on(inspect(Arc::new(disk.clone()), &mut |_, _| {})).unwrap();
    assert!(report.shards[0].trouble.is_none());
    let trouble = report.shards[1].trouble.as_ref().unwrap();
    assert!(trouble.contains("shard-0001.zig"), "{trouble}");
    assert_eq!(report.tenants["tenant"].0, 8);
    let found = verified(&disk);
    assert_eq!(
        (found.objects, found.corrupt, found.faults.len()),
        (8, 0, 1)
    );
    let found = recovered(&disk, Logs::Keep);
    assert_eq!(
        (found.objects, found.unproven, found.remarks.len()),
        (4, 4, 1)
    );
    // A shard file that is away altogether.
    block_on(disk.remove(&shard_name(1))).unwrap();
    let found = recovered(&disk, Logs::Keep);
    assert_eq!(
        (found.objects, found.unproven, found.remarks.len()),
        (4, 0, 1)
    );
    assert_eq!(verified(&disk).shards, 1);
    drop(objects);
}

#[test]
fn inspection_tells_what_does_not_belong_there() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    block_on(root.discard(0, &[objects[1].version()])).unwrap();
    block_on(disk.create("notes.txt", 512)).unwrap();
    let report = block_on(inspect(Arc::new(disk.clone()), &mut |_, _| {})).unwrap();
    assert_eq!((report.root, report.layout.clone()), (ID, layout()));
    assert_eq!(report.foreign, ["notes.txt"]);
    assert_eq!((report.removals, report.shards[0].counts.found), (1, 3));
    let extents = objects.iter().filter(|o| o.place.shard == 1);
    let bytes = extents.map(|object| object.place.extent.len).sum::<u64>();
    assert_eq!(report.shards[1].bytes, bytes);
}

#[test]
fn a_recovery_takes_the_newest_version_of_each_key_and_honours_removals() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = [
        Object::at(3, 5000, 0, 0).named("a"),
        Object::at(7, 70_000, 1, 0).named("a"),
        Object::at(4, 5000, 0, 1 << 20).named("b"),
        Object::at(5, 5000, 1, 1 << 20).named("c"),
        // Two replicas of one version.
        Object::at(6, 5000, 0, 2 << 20).named("d"),
        Object::at(6, 5000, 1, 2 << 20).named("d"),
        Object::at(2, 5000, 1, 3 << 20).named("d"),
    ];
    objects.iter().for_each(|object| object.put(&root));
    // The removal of c was noted, and a crash has left its record.
    disk.set_hook(|attempt| Verdict {
        fault: (attempt.op == Op::Write && attempt.file.starts_with("shard")).then_some(Fault::EIO),
        ..Verdict::default()
    });
    block_on(root.discard(1, &[objects[3].version()])).unwrap_err();
    disk.set_hook(|_| Verdict::default());
    let found = recovered(&disk, Logs::Keep);
    let counts = (
        found.objects,
        found.stale,
        found.removed,
        found.corrupt,
        found.unproven,
    );
    assert_eq!(counts, (3, 2, 1, 0, 0));
    let entries = found.index.entries.iter();
    let entries: Vec<_> = entries
        .map(|(shard, one)| (one.key.to_string(), one.ticket.0, *shard))
        .collect();
    let want = [("a", 7, 1), ("b", 4, 0), ("d", 6, 0), ("d", 6, 1)];
    assert_eq!(
        entries,
        want.map(|(key, ticket, shard)| (key.to_owned(), ticket, shard))
    );
    assert_eq!(block_on(root.load_index()).unwrap(), None);
    block_on(root.save_index(&found.index)).unwrap();
    let again = opened(&disk.crash(&mut Dice::new(1))).unwrap();
    assert_eq!(
        block_on(again.load_index()).unwrap().as_ref(),
        Some(&found.index)
    );
    let strange = Index {
        root: 1,
        ..found.index
    };
    assert_eq!(
        block_on(root.save_index(&strange)).unwrap_err().code(),
        Code::InvalidParams
    );
    overwrite(&disk, "index.zig", 512, &[9; 512]);
    assert_eq!(
        block_on(root.load_index()).unwrap_err().code(),
        Code::ChecksumMismatch
    );
}

#[test]
fn compaction_leaves_out_what_nothing_needs() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    let older = Object::at(20, 100, 0, 8 << 20).named("same");
    let newer = Object::at(21, 100, 0, 9 << 20).named("same");
    older.put(&root);
    newer.put(&root);
    block_on(root.discard(1, &[objects[0].version(), objects[2].version()])).unwrap();
    block_on(root.discard(0, &[newer.version()])).unwrap();
    // A log of somebody else names a record that is still whole.
    let other = block_on(Root::open(Arc::new(disk.clone()), None, 9)).unwrap();
    let elsewhere = ziggurat_base::Extent::new(12 << 20, 4096);
    block_on(other.discard(0, &[(Ticket(4), elsewhere)])).unwrap();
    let before = list(&root, 0);
    let found = recovered(&disk, Logs::Compact);
    assert_eq!(
        (found.forgotten, found.remarks.len()),
        (2, 0),
        "{:?}",
        found.remarks
    );
    let logs = disk
        .files()
        .into_iter()
        .filter(|file| removed::is_name(&file.name));
    assert_eq!(logs.count(), 1);
    let root = opened(&disk).unwrap();
    assert_eq!(
        block_on(root.removals()).unwrap().count(),
        2,
        "that of the older version and of 4"
    );
    assert_eq!(list(&root, 0), before);
    // When the records are gone, so are the removals.
    block_on(root.wipe(0, &[older.version(), objects[3].version()])).unwrap();
    assert_eq!(recovered(&disk, Logs::Compact).forgotten, 2);
    assert!(
        disk.files()
            .iter()
            .all(|file| !removed::is_name(&file.name))
    );
}
