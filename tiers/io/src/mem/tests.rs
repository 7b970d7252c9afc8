use super::{Fault, MemDisk, MemOptions, Op, Verdict};
use crate::{Disk, File, Landed, Pool, Request, Space};
use pollster::block_on;
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};
use ziggurat_base::{Clock, Code, Job, ManualClock, Timestamp, hash::Dice};

const BLOCK: u64 = 512;

fn disk() -> MemDisk {
    MemDisk::new(&Pool::new(1 << 20).unwrap(), MemOptions::default())
}

/// A file whose name is durable.
fn file(disk: &MemDisk, blocks: u64) -> Arc<dyn File> {
    let file = block_on(disk.create("a", blocks * BLOCK)).unwrap();
    block_on(disk.sync_names()).unwrap();
    file
}

fn write(disk: &MemDisk, block: u64, blocks: u64, value: u8, sync: bool) -> Request {
    let len = (blocks * BLOCK) as usize;
    let mut buffer = disk.pool().try_take(len).unwrap();
    buffer.fill(value);
    let offset = block * BLOCK;
    Request::Write {
        offset,
        buffer,
        sync,
    }
}

fn read(disk: &MemDisk, block: u64, blocks: u64) -> Request {
    let buffer = disk.pool().try_take((blocks * BLOCK) as usize).unwrap();
    let offset = block * BLOCK;
    Request::Read { offset, buffer }
}

fn run(file: &Arc<dyn File>, request: Request) -> Landed {
    block_on(file.start(vec![request]).remove(0))
}

fn good(file: &Arc<dyn File>, request: Request) {
    run(file, request).result.unwrap();
}

/// The value of each block as the next process finds it; none for a block whose bytes differ.
fn values(disk: &MemDisk, blocks: u64) -> Vec<Option<u8>> {
    let bytes = disk.bytes("a", 0..blocks * BLOCK).unwrap();
    let blocks = bytes.chunks(BLOCK as usize);
    blocks
        .map(|block| Some(block[0]).filter(|value| block.iter().all(|byte| byte == value)))
        .collect()
}

#[test]
fn what_was_written_is_read() {
    let disk = disk();
    let file = file(&disk, 16);
    assert_eq!(file.len(), 16 * BLOCK);
    good(&file, write(&disk, 3, 2, 7, false));
    let landed = run(&file, read(&disk, 2, 4));
    landed.result.unwrap();
    let bytes = landed.buffer.unwrap();
    assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), 1024);
    assert_eq!(
        (bytes[0], bytes[512], bytes[1535], bytes[1536]),
        (0, 7, 7, 0)
    );
    let counts = disk.counts();
    assert_eq!((counts.reads, counts.bytes_read), (1, 2048));
    assert_eq!((counts.writes, counts.bytes_written), (1, 1024));
    assert_eq!(counts.syncs, 0);
}

#[test]
fn what_was_synced_survives_every_crash_and_the_rest_some() {
    let disk = disk();
    let file = file(&disk, 4);
    good(&file, write(&disk, 0, 1, 1, false));
    good(&file, Request::Sync);
    good(&file, write(&disk, 1, 1, 2, true));
    good(&file, write(&disk, 2, 2, 3, false));
    assert_eq!(disk.counts().bytes_synced, 1024);
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let after = values(&disk.crash(&mut Dice::new(seed)), 4);
        assert_eq!(after[..2], [Some(1), Some(2)]);
        seen.insert(after[2..].to_vec());
    }
    let all: BTreeSet<Vec<Option<u8>>> = [[0, 0], [0, 3], [3, 0], [3, 3]]
        .map(|blocks| blocks.map(Some).to_vec())
        .into();
    assert_eq!(seen, all, "kept, lost, and torn both ways");
}

#[test]
fn a_sync_covers_what_had_landed_and_nothing_else() {
    let disk = disk();
    let file = file(&disk, 2);
    let mut flights = file.start(vec![write(&disk, 0, 1, 1, false), Request::Sync]);
    block_on(flights.remove(1)).result.unwrap();
    let lost = |disk: &MemDisk| {
        (0..50).any(|seed| values(&disk.crash(&mut Dice::new(seed)), 1) == [Some(0)])
    };
    assert!(lost(&disk), "the write had not landed when the sync began");
    block_on(flights.remove(0)).result.unwrap();
    good(&file, Request::Sync);
    assert!(!lost(&disk));
}

#[test]
fn a_sync_that_nobody_awaited_may_have_happened() {
    let disk = disk();
    let file = file(&disk, 1);
    good(&file, write(&disk, 0, 1, 1, false));
    let flight = file.start(vec![Request::Sync]).remove(0);
    let outcomes = |disk: &MemDisk| -> BTreeSet<_> {
        (0..50)
            .map(|seed| values(&disk.crash(&mut Dice::new(seed)), 1)[0])
            .collect()
    };
    assert_eq!(outcomes(&disk).len(), 2);
    drop(flight);
    assert_eq!(outcomes(&disk).len(), 2);
    good(&file, Request::Sync);
    assert_eq!(outcomes(&disk), [Some(1)].into());
}

#[test]
fn a_write_that_nobody_awaited_is_covered_by_the_sync_after_the_next() {
    let disk = disk();
    let file = file(&disk, 1);
    drop(file.start(vec![write(&disk, 0, 1, 1, false)]));
    let lost = |disk: &MemDisk| {
        (0..50).any(|seed| values(&disk.crash(&mut Dice::new(seed)), 1) == [Some(0)])
    };
    good(&file, Request::Sync);
    assert!(lost(&disk));
    good(&file, Request::Sync);
    assert!(!lost(&disk));
}

#[test]
fn a_failed_sync_dooms_what_it_covered() {
    let disk = disk();
    let file = file(&disk, 1);
    good(&file, write(&disk, 0, 1, 1, false));
    disk.plan(Op::Sync, 1, Fault::EIO);
    let error = run(&file, Request::Sync).result.unwrap_err();
    assert_eq!(error.code(), Code::FileWriteFail);
    good(&file, Request::Sync);
    let lost = (0..50).any(|seed| values(&disk.crash(&mut Dice::new(seed)), 1) == [Some(0)]);
    assert!(lost, "the second sync must not vouch for it");
    good(&file, write(&disk, 0, 1, 2, true));
    let kept = (0..50).all(|seed| values(&disk.crash(&mut Dice::new(seed)), 1) != [Some(0)]);
    assert!(kept);
}

#[test]
fn a_killed_process_leaves_what_had_landed_without_making_it_durable() {
    let disk = disk();
    let file = file(&disk, 2);
    good(&file, write(&disk, 0, 1, 1, false));
    let flight = file.start(vec![write(&disk, 1, 1, 2, false)]);
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let next = disk.kill(&mut Dice::new(seed));
        let after = values(&next, 2);
        assert_eq!(after[0], Some(1));
        seen.insert(after[1]);
        let lost = (0..50).any(|seed| values(&next.crash(&mut Dice::new(seed)), 1) == [Some(0)]);
        assert!(lost, "nothing was synced");
    }
    assert_eq!(seen, [Some(0), Some(2)].into());
    drop(flight);
}

#[test]
fn names_last_when_they_were_synced() {
    let disk = disk();
    block_on(disk.create("old", BLOCK)).unwrap();
    block_on(disk.create("gone", BLOCK)).unwrap();
    block_on(disk.sync_names()).unwrap();
    block_on(disk.remove("gone")).unwrap();
    block_on(disk.create("new", BLOCK)).unwrap();
    block_on(disk.rename("new", "old")).unwrap();
    let names = |disk: &MemDisk| -> Vec<String> {
        let files = block_on(disk.list()).unwrap();
        files.into_iter().map(|file| file.name).collect()
    };
    assert_eq!(names(&disk), ["old"]);
    let seen: BTreeSet<Vec<String>> = (0..200)
        .map(|seed| names(&disk.crash(&mut Dice::new(seed))))
        .collect();
    assert!(seen.iter().all(|names| names.contains(&"old".to_owned())));
    assert_eq!(seen.len(), 4, "gone or not, new or not: {seen:?}");
    assert_eq!(names(&disk.kill(&mut Dice::new(0))), ["old"]);
    block_on(disk.sync_names()).unwrap();
    for seed in 0..50 {
        assert_eq!(names(&disk.crash(&mut Dice::new(seed))), ["old"]);
    }
}

#[test]
fn a_crashed_disk_is_another_disk() {
    let disk = disk();
    let file = file(&disk, 1);
    let after = disk.crash(&mut Dice::new(1));
    good(&file, write(&disk, 0, 1, 1, true));
    assert_eq!(values(&after, 1), [Some(0)]);
    assert_eq!(values(&disk, 1), [Some(1)]);
    assert_eq!(after.counts().writes, 0);
}

#[test]
fn told_faults_are_told_and_the_others_are_not() {
    let disk = disk();
    let file = file(&disk, 4);
    let told = [
        (Fault::EIO, Code::FileWriteFail),
        (Fault::Fails { blocks: 1 }, Code::FileWriteFail),
        (Fault::Full, Code::NoAvailableHandle),
    ];
    for (fault, code) in told {
        disk.plan(Op::Write, 1, fault);
        let landed = run(&file, write(&disk, 0, 2, 1, false));
        assert_eq!(landed.result.unwrap_err().code(), code);
        assert!(landed.buffer.is_some());
    }
    assert_eq!(values(&disk, 2), [Some(1), Some(0)]);
    disk.plan(Op::Read, 2, Fault::EIO);
    good(&file, read(&disk, 0, 1));
    let error = run(&file, read(&disk, 0, 1)).result.unwrap_err();
    assert_eq!(error.code(), Code::FileReadFail);

    disk.plan(Op::Write, 1, Fault::Lost);
    disk.plan(Op::Write, 2, Fault::Torn { blocks: 1 });
    disk.plan(Op::Write, 3, Fault::Misplaced { offset: BLOCK });
    good(&file, write(&disk, 0, 1, 2, false));
    good(&file, write(&disk, 2, 2, 3, false));
    good(&file, write(&disk, 3, 1, 4, false));
    assert_eq!(values(&disk, 4), [Some(1), Some(4), Some(3), Some(0)]);
    disk.plan(Op::Write, 1, Fault::Rot { bit: 4096 + 9 });
    good(&file, write(&disk, 0, 2, 0, false));
    let bytes = disk.bytes("a", 0..2 * BLOCK).unwrap();
    assert_eq!(
        (bytes[513], bytes.iter().map(|b| u32::from(*b)).sum()),
        (2, 2)
    );
    disk.plan(Op::Read, 1, Fault::Rot { bit: 0 });
    let landed = run(&file, read(&disk, 3, 1));
    assert_eq!(landed.buffer.unwrap()[0], 1);
}

#[test]
fn rot_is_visible_and_durable() {
    let disk = disk();
    let file = file(&disk, 4);
    good(&file, write(&disk, 0, 4, 9, true));
    let at = disk.rot("a", 700..800, &mut Dice::new(5)).unwrap();
    assert!((700..800).contains(&at));
    for disk in [disk.clone(), disk.crash(&mut Dice::new(1))] {
        let bytes = disk.bytes("a", 0..4 * BLOCK).unwrap();
        let wrong: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 9).collect();
        assert_eq!(wrong, [at as usize]);
    }
}

#[test]
fn a_hook_sees_every_request() {
    let disk = disk();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    disk.set_hook(move |attempt| {
        let what = (
            attempt.op,
            attempt.file.to_owned(),
            attempt.range.clone(),
            attempt.count,
        );
        log.lock().unwrap().push(what);
        Verdict::default()
    });
    let file = file(&disk, 2);
    good(&file, write(&disk, 1, 1, 1, true));
    good(&file, read(&disk, 0, 2));
    good(&file, read(&disk, 0, 1));
    let name = || "a".to_owned();
    let want = [
        (Op::Create, name(), 0..0, 1),
        (Op::SyncNames, String::new(), 0..0, 1),
        (Op::Write, name(), 512..1024, 1),
        (Op::Read, name(), 0..1024, 1),
        (Op::Read, name(), 0..512, 2),
    ];
    assert_eq!(*seen.lock().unwrap(), want);
}

/// A clock that stands until it is moved.
#[derive(Clone, Default)]
struct Stopwatch(ManualClock);

impl Clock for Stopwatch {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        let clock = self.0.clone();
        Box::pin(std::future::poll_fn(move |_| {
            if clock.now() >= at {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        }))
    }
}

#[test]
fn a_slow_disk_takes_its_time_and_holds_the_buffer() {
    let clock = Stopwatch::default();
    let pool = Pool::new(1 << 16).unwrap();
    let options = MemOptions {
        clock: Some(Arc::new(clock.clone())),
        ..MemOptions::default()
    };
    let disk = MemDisk::new(&pool, options);
    let file = file(&disk, 1);
    disk.set_hook(|_| Duration::from_millis(5).into());
    let mut flight = file.start(vec![write(&disk, 0, 1, 1, true)]).remove(0);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut flight).poll(&mut context).is_pending());
    assert_eq!(pool.in_use(), 4096);
    let lost = |disk: &MemDisk| {
        (0..50).any(|seed| values(&disk.crash(&mut Dice::new(seed)), 1) == [Some(0)])
    };
    assert!(lost(&disk));
    clock.0.advance_to(Timestamp(5_000_000));
    assert!(Pin::new(&mut flight).poll(&mut context).is_ready());
    assert!(!lost(&disk));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_full_disk_takes_no_files_and_holes_give_room() {
    let options = MemOptions {
        capacity: 4 * BLOCK,
        ..MemOptions::default()
    };
    let disk = MemDisk::new(&Pool::new(1 << 16).unwrap(), options);
    let file = file(&disk, 3);
    let free = |disk: &MemDisk| block_on(disk.space()).unwrap();
    let space = |free| Space {
        total: 4 * BLOCK,
        free: free * BLOCK,
    };
    let error = block_on(disk.create("b", 2 * BLOCK)).unwrap_err();
    assert_eq!(error.code(), Code::NoAvailableHandle);
    assert_eq!(block_on(disk.list()).unwrap().len(), 1);
    good(&file, write(&disk, 0, 3, 5, true));
    block_on(file.punch(BLOCK, BLOCK)).unwrap();
    assert_eq!(free(&disk), space(2));
    assert_eq!(values(&disk, 3), [Some(5), Some(0), Some(5)]);
    let other = block_on(disk.create("b", 2 * BLOCK)).unwrap();
    let landed = run(&file, write(&disk, 1, 1, 6, false));
    assert_eq!(landed.result.unwrap_err().code(), Code::NoAvailableHandle);
    block_on(disk.remove("b")).unwrap();
    assert_eq!(free(&disk), space(0), "the file is open");
    drop(other);
    block_on(disk.sync_names()).unwrap();
    assert_eq!(free(&disk), space(2));
    good(&file, write(&disk, 1, 1, 6, false));
    assert_eq!(free(&disk), space(1));
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Write {
        at: u64,
        len: u64,
        sync: bool,
        wait: bool,
    },
    Sync {
        wait: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write =
        (0..8_u64, 1..4_u64, any::<bool>(), any::<bool>()).prop_map(|(at, len, sync, wait)| {
            Step::Write {
                at,
                len: len.min(8 - at),
                sync,
                wait,
            }
        });
    let sync = any::<bool>().prop_map(|wait| Step::Sync { wait });
    prop::collection::vec(prop_oneof![3 => write, 1 => sync], 1..30)
}

proptest! {
    /// Each block holds, after a crash, the last value that is known to be durable, or one that was written later.
    #[test]
    fn a_crash_never_invents_and_never_forgets(steps in steps(), seed: u64) {
        let disk = disk();
        let file = file(&disk, 8);
        // For each block: what may be found, the durable value first.
        let mut possible = vec![vec![0_u8]; 8];
        // What has landed since, for the next sync.
        let mut landed: Vec<(usize, u8)> = Vec::new();
        for (value, step) in (1_u8..).zip(steps) {
            let cover = |possible: &mut Vec<Vec<u8>>, landed: &mut Vec<(usize, u8)>| {
                for (block, value) in landed.drain(..) {
                    let known = &mut possible[block];
                    if let Some(at) = known.iter().position(|other| *other == value) {
                        known.drain(..at);
                    }
                }
            };
            match step {
                Step::Write { at, len, sync, wait } => {
                    let flight = file.start(vec![write(&disk, at, len, value, sync)]).remove(0);
                    let blocks = at as usize..(at + len) as usize;
                    blocks.clone().for_each(|block| possible[block].push(value));
                    if wait {
                        prop_assert!(block_on(flight).result.is_ok());
                        landed.extend(blocks.map(|block| (block, value)));
                        if sync {
                            cover(&mut possible, &mut landed);
                        }
                    }
                }
                Step::Sync { wait } => {
                    let flight = file.start(vec![Request::Sync]).remove(0);
                    if wait {
                        prop_assert!(block_on(flight).result.is_ok());
                        cover(&mut possible, &mut landed);
                    }
                }
            }
        }
        let mut dice = Dice::new(seed);
        for _ in 0..20 {
            let after = disk.crash(&mut dice);
            for (block, value) in values(&after, 8).into_iter().enumerate() {
                let value = value.expect("blocks are written whole");
                prop_assert!(possible[block].contains(&value), "block {block}: {value} of {possible:?}");
            }
        }
    }
}
