//! Making, opening, growing and claiming a root.

use super::rig::{
    CARRIER, CLUSTER, ID, Object, disk, layout, made_on, opened, overwrite, shard_name,
};
use pollster::block_on;
use std::{collections::BTreeSet, sync::Arc};
use ziggurat_base::{Code, Era, hash::Dice};
use ziggurat_dfs::{Layout, Root, shard_directory};
use ziggurat_io::{
    Disk, Pool,
    mem::{Fault, MemDisk, MemOptions, Op, Verdict},
};

fn code(disk: &MemDisk) -> Code {
    opened(disk).unwrap_err().code()
}

/// A copy of a disk on which anything may be done.
fn copy(disk: &MemDisk) -> MemDisk {
    disk.kill(&mut Dice::new(1))
}

#[test]
fn a_root_says_what_it_is() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    assert_eq!(
        (root.id(), root.cluster(), root.layout()),
        (ID, CLUSTER.into(), layout())
    );
    let shards = root.shards();
    assert_eq!(shards.len(), 2);
    assert_eq!(shards[0].capacity, (16 << 20) - (64 << 10));
    assert_eq!(shards[1].directory, shard_directory(ID, 1));
    assert_eq!(root.highest_era(), Era(0));
    let other = block_on(Root::open(Arc::new(disk.clone()), Some("other"), CARRIER)).unwrap_err();
    assert_eq!(other.code(), Code::DfsServiceUnavailable);
    assert!(other.what().contains("\"test\""), "{other}");
    let any = block_on(Root::open(Arc::new(disk), None, CARRIER)).unwrap();
    assert_eq!(any.id(), ID);
}

#[test]
fn shard_directories_are_the_same_for_ever_and_never_twice() {
    assert_eq!(
        shard_directory(ID, 0).0,
        0xa073_4975_d154_4178_2306_3abd_caf2_14fb
    );
    let many = (0..1000).flat_map(|i| [shard_directory(ID, i), shard_directory(ID + 1, i)]);
    assert_eq!(many.collect::<BTreeSet<_>>().len(), 2000);
}

#[test]
fn layouts_out_of_range_are_refused() {
    let wrong = [
        Layout {
            alignment: 2048,
            ..layout()
        },
        Layout {
            alignment: 12_288,
            ..layout()
        },
        Layout {
            alignment: 2 << 20,
            ..layout()
        },
        Layout {
            shards: 0,
            ..layout()
        },
        Layout {
            shards: 10_000,
            ..layout()
        },
        Layout {
            shard_bytes: 128 << 10,
            ..layout()
        },
        Layout {
            shard_bytes: (16 << 20) + 1,
            ..layout()
        },
        Layout {
            cluster: String::new(),
            ..layout()
        },
        Layout {
            cluster: "x".repeat(257),
            ..layout()
        },
        Layout {
            cluster: "a\nb".into(),
            ..layout()
        },
    ];
    for layout in wrong {
        let disk = disk();
        let error = made_on(&disk, &layout).unwrap_err();
        assert_eq!(error.code(), Code::InvalidParams, "{layout:?}: {error}");
        assert!(disk.files().is_empty());
    }
}

#[test]
fn a_directory_with_anything_in_it_is_not_made_a_root() {
    let disk = disk();
    block_on(disk.create("notes.txt", 4096)).unwrap();
    let error = made_on(&disk, &layout()).unwrap_err();
    assert_eq!(error.code(), Code::FileOpenFail);
    assert!(error.what().contains("notes.txt"), "{error}");
    assert_eq!(code(&disk), Code::DfsServiceUnavailable);
    block_on(disk.remove("notes.txt")).unwrap();
    made_on(&disk, &layout()).unwrap();
    assert_eq!(
        made_on(&disk, &layout()).unwrap_err().code(),
        Code::FileOpenFail
    );
}

#[test]
fn shard_files_that_are_not_what_they_should_be_are_named() {
    let disk = disk();
    made_on(&disk, &layout()).unwrap();
    let elsewhere = super::rig::disk();
    let strange = block_on(Root::format(Arc::new(elsewhere.clone()), &layout(), 99)).unwrap();
    assert_eq!(strange.id(), 99);
    let name = shard_name(1);
    let check = |disk: &MemDisk, want: Code| {
        let error = opened(disk).unwrap_err();
        assert_eq!(error.code(), want, "{error}");
        assert!(error.what().contains(&name), "{error}");
    };
    // Missing.
    let missing = copy(&disk);
    block_on(missing.remove(&name)).unwrap();
    check(&missing, Code::FileNotFound);
    // Cut.
    block_on(missing.create(&name, 4 << 20)).unwrap();
    check(&missing, Code::ChecksumMismatch);
    // Empty.
    block_on(missing.remove(&name)).unwrap();
    block_on(missing.create(&name, 16 << 20)).unwrap();
    check(&missing, Code::ChecksumMismatch);
    // Of another root.
    let start = elsewhere.bytes(&name, 0..8192).unwrap();
    overwrite(&missing, &name, 0, &start);
    check(&missing, Code::InvalidParams);
    // Swapped.
    let swapped = copy(&disk);
    block_on(swapped.rename(&shard_name(0), "aside")).unwrap();
    block_on(swapped.rename(&name, &shard_name(0))).unwrap();
    block_on(swapped.rename("aside", &name)).unwrap();
    assert_eq!(code(&swapped), Code::InvalidParams);
    // Of a later release, in one copy.
    let later = copy(&disk);
    let mut block = disk.bytes(&name, 0..4096).unwrap();
    block[12] = 2;
    let sum = ziggurat_base::Crc32::of(&block[12..]).0.to_le_bytes();
    block[8..12].copy_from_slice(&sum);
    overwrite(&later, &name, 4096, &block);
    check(&later, Code::InvalidVersion);
    // Neither copy.
    let damaged = copy(&disk);
    overwrite(&damaged, &name, 0, &[7; 8192]);
    check(&damaged, Code::ChecksumMismatch);
    // One copy is enough.
    let half = copy(&disk);
    overwrite(&half, &name, 0, &[7; 4096]);
    opened(&half).unwrap();
}

#[test]
fn a_damaged_identity_is_no_reason_to_make_a_new_root() {
    let disk = disk();
    made_on(&disk, &layout()).unwrap();
    overwrite(&disk, "root.zig", 0, &[1; 4096]);
    assert_eq!(code(&disk), Code::ChecksumMismatch);
    assert_eq!(
        made_on(&disk, &layout()).unwrap_err().code(),
        Code::ChecksumMismatch
    );
    block_on(disk.remove("root.zig")).unwrap();
    assert_eq!(
        made_on(&disk, &layout()).unwrap_err().code(),
        Code::FileOpenFail
    );
}

#[test]
fn a_full_disk_leaves_what_the_next_attempt_goes_on_with() {
    let pool = Pool::new(8 << 20).unwrap();
    let options = MemOptions {
        capacity: 40 << 20,
        ..MemOptions::default()
    };
    let disk = MemDisk::new(&pool, options);
    let layout = Layout {
        shards: 4,
        ..layout()
    };
    let error = made_on(&disk, &layout).unwrap_err();
    assert_eq!(error.code(), Code::NoAvailableHandle, "{error}");
    assert!(error.what().contains("shard-0002.zig of 4"), "{error}");
    let half = opened(&disk).unwrap_err();
    assert!(half.what().contains("format"), "{half}");
    // Another layout is not what was begun.
    let other = Layout {
        alignment: 8192,
        ..layout.clone()
    };
    assert_eq!(
        made_on(&disk, &other).unwrap_err().code(),
        Code::FileOpenFail
    );
    disk.set_capacity(80 << 20);
    let root = made_on(&disk, &layout).unwrap();
    assert_eq!(root.shards().len(), 4);
}

#[test]
fn half_made_shard_files_are_made_anew() {
    // What kill -9 leaves in the middle of allocation: a shorter file, a whole one without superblocks, or with one torn.
    for (len, torn) in [
        (0, 0),
        (4096, 0),
        (1 << 20, 0),
        (16 << 20, 0),
        (16 << 20, 512),
        (16 << 20, 6000),
    ] {
        let disk = disk();
        let root = made_on(&disk, &layout()).unwrap();
        let name = shard_name(2);
        block_on(disk.create(&name, len)).unwrap();
        if torn > 0 {
            // As `shard::make` would have written it.
            let whole = super::rig::disk();
            made_on(
                &whole,
                &Layout {
                    shards: 3,
                    ..layout()
                },
            )
            .unwrap();
            let mut start = whole.bytes(&name, 0..8192).unwrap();
            start[torn..].fill(0);
            overwrite(&disk, &name, 0, &start);
        }
        let grown = block_on(root.grow(3)).unwrap();
        assert_eq!((grown.before, grown.after), (2, 3));
        assert_eq!(opened(&disk).unwrap().shards().len(), 3);
    }
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    block_on(disk.create(&shard_name(2), 1 << 20)).unwrap();
    overwrite(&disk, &shard_name(2), 0, &[9; 8192]);
    let error = block_on(root.grow(3)).unwrap_err();
    assert_eq!(error.code(), Code::FileOpenFail, "{error}");
    assert_eq!(opened(&disk).unwrap().shards().len(), 2);
}

#[test]
fn a_root_grows_while_others_use_it() {
    let disk = disk();
    let one = made_on(&disk, &layout()).unwrap();
    let other = opened(&disk).unwrap();
    let object = Object::at(1, 5000, 3, 0);
    assert_eq!(object.get(&other).unwrap_err().code(), Code::InvalidReplica);
    block_on(one.grow(4)).unwrap();
    object.put(&one);
    assert_eq!(block_on(other.refresh()).unwrap(), 4);
    assert!(object.is_there(&other));
    assert_eq!(block_on(one.grow(4)).unwrap().after, 4);
    assert_eq!(
        block_on(one.grow(2)).unwrap_err().code(),
        Code::InvalidParams
    );
}

#[test]
fn making_and_growing_survive_a_crash_after_every_step() {
    for seed in 0..40 {
        for step in 0..60 {
            let disk = disk();
            let mut left = step;
            disk.set_hook(move |attempt| {
                let is_change = !matches!(attempt.op, Op::Read | Op::List | Op::Open | Op::Space);
                if is_change {
                    left -= i64::from(left >= 0);
                }
                Verdict {
                    fault: (is_change && left < 0).then_some(Fault::EIO),
                    ..Verdict::default()
                }
            });
            let made = made_on(&disk, &layout()).and_then(|root| block_on(root.grow(3)));
            let mut dice = Dice::new(seed * 1000 + step as u64);
            let after = disk.crash(&mut dice);
            if made.is_ok() {
                assert_eq!(opened(&after).unwrap().shards().len(), 3);
                break;
            }
            // Whatever is there, the same commands make it whole.
            let root = match opened(&after) {
                Ok(root) => root,
                Err(_) => made_on(&after, &layout()).unwrap(),
            };
            block_on(root.grow(3)).unwrap();
            assert_eq!(
                opened(&after).unwrap().shards().len(),
                3,
                "seed {seed}, step {step}"
            );
        }
    }
}

#[test]
fn eras_only_rise_and_survive_torn_writes() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let mut disk = disk();
        made_on(&disk, &layout()).unwrap();
        let mut acknowledged = Era(0);
        for era in 1..6 {
            let root = opened(&disk).unwrap();
            assert!(root.highest_era() >= acknowledged, "seed {seed}");
            let fails = dice.below(3) == 0;
            if fails {
                disk.plan(
                    Op::Write,
                    1 + dice.below(2),
                    Fault::Fails {
                        blocks: dice.below(8),
                    },
                );
            }
            let claimed = block_on(root.claim(Era(era)));
            assert_eq!(claimed.is_err(), fails, "seed {seed}");
            if claimed.is_ok() {
                acknowledged = Era(era);
                assert!(root.shards().iter().all(|shard| shard.era == Era(era)));
            }
            disk = disk.crash(&mut dice);
        }
        let root = opened(&disk).unwrap();
        if acknowledged > Era(1) {
            assert_eq!(
                block_on(root.claim(Era(1))).unwrap_err().code(),
                Code::IllegalClient
            );
        }
    }
}

#[test]
fn another_root_in_its_place_is_noticed() {
    let disk = disk();
    let root = made_on(&disk, &layout()).unwrap();
    block_on(root.check_mount()).unwrap();
    let elsewhere = super::rig::disk();
    block_on(Root::format(Arc::new(elsewhere.clone()), &layout(), 99)).unwrap();
    let identity = elsewhere.bytes("root.zig", 0..4096).unwrap();
    overwrite(&disk, "root.zig", 0, &identity);
    assert_eq!(
        block_on(root.check_mount()).unwrap_err().code(),
        Code::DfsStaleHandle
    );
    assert_eq!(
        block_on(root.refresh()).unwrap_err().code(),
        Code::DfsStaleHandle
    );
    block_on(disk.remove("root.zig")).unwrap();
    assert_eq!(
        block_on(root.check_mount()).unwrap_err().code(),
        Code::DfsServiceUnavailable
    );
}
