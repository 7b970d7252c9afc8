//! Lives that end after any step: the disk fails from the n-th change on, the machine loses power or the process is killed,
//! and the root is opened again.

use super::rig::{Object, disk, layout, list, made_on, opened};
use pollster::block_on;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future as _, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use ziggurat_base::{Clock, Code, Job, Timestamp, hash::Dice};
use ziggurat_dfs::{
    Ack, Root,
    offline::{Logs, recover},
};
use ziggurat_io::{
    Pool,
    mem::{Fault, MemDisk, MemOptions, Op, Verdict},
};

/// What the callers know.
#[derive(Default)]
struct Known {
    /// Written and acknowledged as durable, or found after a start.
    held: BTreeMap<u64, Object>,
    /// Everything that was ever written, in whole or in part.
    given: BTreeMap<u64, Object>,
    /// Discarded and acknowledged.
    gone: BTreeSet<u64>,
    next: u64,
}

/// Stops the disk at the `stop`-th request that changes something; the one at the stop may be torn.
fn stop_at(disk: &MemDisk, stop: u64, torn: Option<u64>) {
    let mut number = 0;
    disk.set_hook(move |attempt| {
        if matches!(attempt.op, Op::Read | Op::List | Op::Space | Op::Open) {
            return Verdict::default();
        }
        number += 1;
        match torn {
            Some(blocks) if number == stop => Fault::Fails { blocks }.into(),
            _ if number >= stop => Fault::EIO.into(),
            _ => Verdict::default(),
        }
    });
}

/// Slots of 512 KiB, one object in each, as a careful partition would use them.
const SLOTS: u64 = 31;
const SLOT: u64 = 512 << 10;

fn live(root: &Root, known: &mut Known, ack: Ack, dice: &mut Dice) {
    let mut used: BTreeSet<_> = known
        .given
        .values()
        .filter(|object| !known.gone.contains(&object.ticket.0))
        .map(slot)
        .collect();
    for _ in 0..12 {
        let held: Vec<_> = known.held.values().cloned().collect();
        if dice.below(3) == 0 && !held.is_empty() {
            let object = &held[dice.below(held.len() as u64) as usize];
            known.held.remove(&object.ticket.0);
            if block_on(root.discard(object.place.shard, &[object.version()])).is_ok() {
                known.gone.insert(object.ticket.0);
                used.remove(&slot(object));
            }
            continue;
        }
        let at = (dice.below(2) as u32, dice.below(SLOTS));
        if !used.insert(at) {
            continue;
        }
        known.next += 1;
        let len = [0, 3000, 70_000, 300_000][dice.below(4) as usize] + dice.below(3);
        let object = Object::at(known.next, len, at.0, at.1 * SLOT);
        known.given.insert(known.next, object.clone());
        if block_on(object.write(root, ack)).is_ok() {
            known.held.insert(known.next, object);
        }
    }
}

fn slot(object: &Object) -> (u32, u64) {
    (object.place.shard, object.place.extent.offset / SLOT)
}

fn check(root: &Root, known: &mut Known, nothing_torn: bool, seed: u64) {
    for object in known.held.values() {
        assert!(
            object.is_there(root),
            "seed {seed}: {object:?} was acknowledged and is lost"
        );
    }
    let listed = (0..2).flat_map(|shard| list(root, shard).0);
    let listed: BTreeSet<_> = listed.map(|found| found.ticket.0).collect();
    for (ticket, object) in &known.given {
        let is_listed = listed.contains(ticket);
        assert!(
            !is_listed || !known.gone.contains(ticket),
            "seed {seed}: {ticket} came back"
        );
        assert!(
            is_listed || !known.held.contains_key(ticket),
            "seed {seed}: {ticket} is not listed"
        );
        // A read gives the right bytes or none.
        let is_there = object.is_there(root);
        if known.gone.contains(ticket) {
            assert!(!is_there, "seed {seed}: {ticket} can be read");
        }
        assert!(
            is_there || !is_listed || !nothing_torn,
            "seed {seed}: {ticket} is torn"
        );
        if is_listed && is_there {
            known.held.insert(*ticket, object.clone());
        }
    }
}

fn lives(seed: u64, ack: Ack, power: bool) {
    let mut dice = Dice::new(seed);
    let mut known = Known::default();
    let mut disk = disk();
    made_on(&disk, &layout()).unwrap();
    for _ in 0..4 {
        let root = opened(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        check(&root, &mut known, !power, seed);
        let torn = (dice.below(2) == 0).then(|| dice.below(20));
        stop_at(&disk, 1 + dice.below(40), torn);
        live(&root, &mut known, ack, &mut dice);
        drop(root);
        disk = if power {
            disk.crash(&mut dice)
        } else {
            disk.kill(&mut dice)
        };
    }
    let root = opened(&disk).unwrap();
    check(&root, &mut known, !power, seed);
    let found = block_on(recover(Arc::new(disk), Logs::Compact, &mut |_, _| {})).unwrap();
    assert_eq!(found.remarks, [""; 0], "seed {seed}");
    let indexed: BTreeSet<_> = found
        .index
        .entries
        .iter()
        .map(|(_, one)| one.ticket.0)
        .collect();
    assert!(
        known.held.keys().all(|ticket| indexed.contains(ticket)),
        "seed {seed}"
    );
    assert!(known.gone.is_disjoint(&indexed), "seed {seed}");
    check(&root, &mut known, !power, seed);
}

#[test]
fn what_was_synced_survives_a_loss_of_power_after_any_step() {
    for seed in 0..80 {
        lives(seed, Ack::Synced, true);
    }
}

#[test]
fn what_was_written_survives_a_killed_process_after_any_step() {
    for seed in 1000..1080 {
        lives(seed, Ack::Written, false);
    }
}

#[test]
fn losing_unsynced_writes_gives_no_wrong_byte() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let disk = disk();
        let root = made_on(&disk, &layout()).unwrap();
        let objects: Vec<_> = (1..=6)
            .map(|t| Object::at(t, t * 60_000, 0, t * SLOT))
            .collect();
        for object in &objects {
            block_on(object.write(&root, Ack::Written)).unwrap();
        }
        let root = opened(&disk.crash(&mut dice)).unwrap();
        for object in &objects {
            object.is_there(&root);
        }
    }
}

/// Time that stands still until it is let go on.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<AtomicBool>);

impl Clock for Gate {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn sleep_until(&self, _at: Timestamp) -> Job<'static, ()> {
        let open = Arc::clone(&self.0);
        Box::pin(poll_fn(move |_| match open.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }))
    }
}

#[test]
fn a_failed_sync_vouches_for_nothing_that_was_under_way() {
    let gate = Gate::default();
    let options = MemOptions {
        clock: Some(Arc::new(gate.clone())),
        ..MemOptions::default()
    };
    let disk = MemDisk::new(&Pool::new(24 << 20).unwrap(), options);
    let root = made_on(&disk, &layout()).unwrap();
    let objects = [
        Object::at(1, 3 << 20, 0, 0),
        Object::at(2, 50_000, 0, 8 << 20),
    ];
    // Two pieces of the first have landed, the third takes its time; then the sync of the second fails.
    let late = (64 << 10) + 4096 + (2 << 20);
    disk.set_hook(move |attempt| Verdict {
        fault: None,
        delay: Duration::from_millis(u64::from(
            attempt.op == Op::Write && attempt.range.start == late,
        )),
    });
    let mut first = Box::pin(objects[0].write(&root, Ack::Synced));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    disk.plan(Op::Write, 2, Fault::EIO);
    block_on(objects[1].write(&root, Ack::Synced)).unwrap_err();
    gate.0.store(true, Ordering::Relaxed);
    let error = block_on(first).unwrap_err();
    assert_eq!(error.code(), Code::FileWriteFail, "{error}");
    // What is written again is safe.
    objects.iter().for_each(|object| object.put(&root));
    for seed in 0..20 {
        let again = opened(&disk.crash(&mut Dice::new(seed))).unwrap();
        assert!(objects.iter().all(|object| object.is_there(&again)));
    }
}
