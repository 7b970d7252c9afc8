//! What was removed stays away.

use super::rig::{ID, Object, disk, layout, list, made_on, opened, overwrite, shard_name, tickets};
use pollster::block_on;
use ziggurat_base::{Code, Extent, Ticket, hash::Dice};
use ziggurat_dfs::{Root, format::removed};
use ziggurat_io::mem::{Fault, MemDisk, Op, Verdict};

const START: u64 = 64 << 10;

fn logs(disk: &MemDisk) -> Vec<String> {
    let files = disk.files().into_iter().map(|file| file.name);
    files.filter(|name| removed::is_name(name)).collect()
}

fn some(root: &Root) -> Vec<Object> {
    let objects: Vec<_> = (1..=6)
        .map(|t| Object::at(t, 20_000, 0, t * 65_536))
        .collect();
    objects.iter().for_each(|object| object.put(root));
    objects
}

#[test]
fn a_discarded_object_is_gone_and_its_extent_is_free() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    let versions = [objects[1].version(), objects[3].version()];
    block_on(root.discard(0, &versions)).unwrap();
    assert_eq!(
        objects[1].get(&root).unwrap_err().code(),
        Code::ReplicaIsGone
    );
    assert_eq!(tickets(&list(&root, 0).0), [1, 3, 5, 6]);
    let next = Object::at(50, 20_000, 0, 2 * 65_536);
    next.put(&root);
    // Repeated late, it does no harm to what lies there now.
    block_on(root.discard(0, &versions)).unwrap();
    assert!(next.is_there(&root));
    assert_eq!(tickets(&list(&root, 0).0), [1, 50, 3, 5, 6]);
    assert_eq!(block_on(root.removals()).unwrap().count(), 2);
    let outside = (Ticket(1), Extent::new(16 << 20, 4096));
    assert_eq!(
        block_on(root.discard(0, &[outside])).unwrap_err().code(),
        Code::InvalidReplica
    );
    assert_eq!(
        block_on(root.discard(9, &versions)).unwrap_err().code(),
        Code::InvalidReplica
    );
}

#[test]
fn a_removal_that_was_noted_holds_although_the_record_is_whole() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    // The wipe fails: the process ends there.
    disk.set_hook(|attempt| Verdict {
        fault: (attempt.op == Op::Write && attempt.file.starts_with("shard")).then_some(Fault::EIO),
        ..Verdict::default()
    });
    block_on(root.discard(0, &[objects[2].version()])).unwrap_err();
    let root = opened(&disk.crash(&mut Dice::new(1))).unwrap();
    assert!(objects[2].is_there(&root), "nobody has wiped it");
    let (found, counts) = list(&root, 0);
    assert_eq!(tickets(&found), [1, 2, 4, 5, 6]);
    assert_eq!(counts.removed, 1);
    // Its space may be in use again: what lies inside of it is found.
    let inside = Object::at(60, 3000, 0, objects[2].place.extent.offset + 8192);
    inside.put(&root);
    assert_eq!(tickets(&list(&root, 0).0), [1, 2, 60, 4, 5, 6]);
}

#[test]
fn a_wipe_is_not_noted() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    block_on(root.wipe(0, &[objects[0].version()])).unwrap();
    assert!(!objects[0].is_there(&root));
    assert!(logs(&disk).is_empty());
    // The same version may come back: it was never removed.
    objects[0].put(&root);
    assert_eq!(tickets(&list(&root, 0).0), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn older_versions_of_a_removed_key_stay_away_too() {
    let root = made_on(&disk(), &layout()).unwrap();
    let old = Object::at(3, 5000, 0, 0).named("same");
    let new = Object::at(8, 5000, 1, 0).named("same");
    let other = Object::at(4, 5000, 0, 65_536);
    for object in [&old, &new, &other] {
        object.put(&root);
    }
    // A crash has left the old version when the new one replaced it; then the key is removed.
    block_on(root.discard(1, &[new.version()])).unwrap();
    assert_eq!(tickets(&list(&root, 0).0), [4]);
    // What is written after that is alive.
    let again = Object::at(9, 5000, 1, 0).named("same");
    again.put(&root);
    assert_eq!(tickets(&list(&root, 1).0), [9]);
}

#[test]
fn logs_of_all_processes_count() {
    let disk = disk();
    let one = made_on(&disk, &layout()).unwrap();
    let objects = some(&one);
    let other = block_on(Root::open(std::sync::Arc::new(disk.clone()), None, 5)).unwrap();
    // A removal of a record that lies elsewhere by now: only its ticket is known.
    for (root, ticket) in [(&one, 1), (&other, 2)] {
        let nowhere = Extent::new(8 << 20, 4096);
        block_on(root.discard(0, &[(Ticket(ticket), nowhere)])).unwrap();
    }
    assert_eq!(logs(&disk).len(), 2);
    assert_eq!(tickets(&list(&one, 0).0), [3, 4, 5, 6]);
    assert!(objects[0].is_there(&one));
}

#[test]
fn many_removals_fill_several_logs() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let at = |ticket: u64| (Ticket(ticket), Extent::new(ticket % 1000 * 4096, 4096));
    let many: Vec<_> = (1..=1000).map(at).collect();
    block_on(root.discard(0, &many)).unwrap();
    for ticket in 1001..=1100 {
        block_on(root.discard(0, &[at(ticket)])).unwrap();
    }
    assert_eq!(logs(&disk).len(), 2);
    let removals = block_on(root.removals()).unwrap();
    assert_eq!((removals.count(), removals.doubts().len()), (1100, 0));
}

#[test]
fn a_torn_page_is_the_end_of_its_log_and_a_damaged_one_makes_doubts() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    for object in &objects[..3] {
        block_on(root.discard(0, &[object.version()])).unwrap();
    }
    let log = logs(&disk).remove(0);
    // The last page is torn: it was never acknowledged.
    let torn = disk.kill(&mut Dice::new(1));
    overwrite(&torn, &log, 3 * 4096 + 512, &[1; 512]);
    let removals = block_on(opened(&torn).unwrap().removals()).unwrap();
    assert_eq!((removals.count(), removals.doubts().len()), (2, 0));
    // One before it is not a tear.
    overwrite(&disk, &log, 2 * 4096 + 512, &[1; 512]);
    let removals = block_on(root.removals()).unwrap();
    assert_eq!(removals.doubts().len(), 1, "{:?}", removals.doubts());
    let (found, counts) = list(&root, 0);
    assert_eq!(
        (found.len(), counts.unproven),
        (0, 3),
        "nobody knows what else is dead"
    );
}

#[test]
fn logs_that_are_not_of_this_root_make_doubts_and_half_made_ones_do_not() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    some(&root);
    let name = removed::name(1);
    block_on(ziggurat_io::Disk::create(&disk, &name, 8192)).unwrap();
    assert!(block_on(root.removals()).unwrap().doubts().is_empty());
    // Its head is torn, and nothing is behind it.
    let head = removed::encode_head(ID);
    overwrite(&disk, &name, 0, &head[..512]);
    overwrite(&disk, &name, 512, &[1; 512]);
    assert!(block_on(root.removals()).unwrap().doubts().is_empty());
    overwrite(&disk, &name, 0, &removed::encode_head(ID + 1));
    assert_eq!(block_on(root.removals()).unwrap().doubts().len(), 1);
    assert!(list(&root, 0).0.is_empty());
    let mut later = head;
    later[12] = 2;
    let sum = ziggurat_base::Crc32::of(&later[12..]).0.to_le_bytes();
    later[8..12].copy_from_slice(&sum);
    overwrite(&disk, &name, 0, &later);
    assert_eq!(
        block_on(root.removals()).unwrap_err().code(),
        Code::InvalidVersion
    );
}

#[test]
fn after_an_append_that_failed_another_log_is_begun() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let objects = some(&root);
    block_on(root.discard(0, &[objects[0].version()])).unwrap();
    disk.plan(Op::Write, 1, Fault::Fails { blocks: 3 });
    block_on(root.discard(0, &[objects[1].version()])).unwrap_err();
    assert!(objects[1].is_there(&root), "what is not noted is not wiped");
    block_on(root.discard(0, &[objects[1].version(), objects[2].version()])).unwrap();
    assert_eq!(logs(&disk).len(), 2);
    let removals = block_on(root.removals()).unwrap();
    assert_eq!((removals.count(), removals.doubts().len()), (3, 0));
}

#[test]
fn a_header_is_wiped_only_at_its_own_place() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    let object = Object::at(1, 20_000, 0, 0);
    object.put(&root);
    let (ticket, extent) = object.version();
    for wrong in [
        (Ticket(2), extent),
        (ticket, Extent::new(0, extent.len + 4096)),
        (ticket, Extent::new(4096, 4096)),
    ] {
        block_on(root.wipe(0, &[wrong])).unwrap();
        assert!(object.is_there(&root), "{wrong:?}");
    }
    block_on(root.wipe(0, &[(ticket, extent)])).unwrap();
    assert_eq!(
        disk.bytes(&shard_name(0), START..START + 4096).unwrap(),
        [0; 4096]
    );
}
