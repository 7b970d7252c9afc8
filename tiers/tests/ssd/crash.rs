//! Lives that end after any step: the disk fails from the n-th request on, the machine loses power or the process is
//! killed, and the directory is opened again.

use super::rig::{Object, Rig, options};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use ziggurat_base::{ByteCount, Clock, Code, Job, Ticket, Timestamp, hash::Dice};
use ziggurat_io::{
    Pool,
    mem::{Fault, MemDisk, MemOptions, Op, Verdict},
};
use ziggurat_tiers::ssd::{Durability, News, Options};

/// What the caller of the tier knows.
#[derive(Default)]
struct Known {
    /// Everything that was ever given.
    given: BTreeMap<Ticket, u64>,
    /// Acknowledged, and not asked to be discarded.
    held: BTreeSet<Ticket>,
    /// Told to be gone or refused, or its discard was acknowledged.
    gone: BTreeSet<Ticket>,
}

impl Known {
    fn hear(&mut self, news: Vec<News>) {
        for one in news {
            match one {
                News::Present(_) => {}
                News::Gone { ticket, .. } | News::Refused { ticket, .. } => {
                    self.held.remove(&ticket);
                    self.gone.insert(ticket);
                }
            }
        }
    }
}

/// One life: some appends and discards, until the disk stops.
fn live(rig: &Rig, known: &mut Known, dice: &mut Dice, next: &mut u64, large: bool) {
    for _ in 0..6 + dice.below(10) {
        if dice.below(4) == 0 && !known.held.is_empty() {
            let all: Vec<_> = known.held.iter().copied().collect();
            let some: Vec<_> = (0..1 + dice.below(20))
                .map(|_| all[dice.below(all.len() as u64) as usize])
                .collect();
            for ticket in &some {
                known.held.remove(ticket);
            }
            let done = pollster::block_on(rig.tier.discard(&some)).is_ok();
            known.hear(rig.tier.take_news());
            if done {
                known.gone.extend(&some);
            }
            continue;
        }
        let objects: Vec<_> = (0..1 + dice.below(12))
            .map(|_| {
                *next += 1;
                let len = match dice.below(if large { 10 } else { 8 }) {
                    0 => 0,
                    1..6 => dice.below(9000),
                    6..8 => dice.below(300_000),
                    _ => 1_000_000 + dice.below(500_000),
                };
                Object::new(*next, len)
            })
            .collect();
        known
            .given
            .extend(objects.iter().map(|object| (object.ticket, object.len)));
        let answers = rig.append(&objects);
        for (object, answer) in objects.iter().zip(answers) {
            if answer.is_ok() {
                known.held.insert(object.ticket);
            }
        }
        known.hear(rig.tier.take_news());
        if dice.below(6) == 0 {
            let _may_fail = pollster::block_on(rig.tier.tend());
            known.hear(rig.tier.take_news());
        }
    }
}

/// What must be true after any start.
fn check(rig: &Rig, known: &mut Known, nothing_lost: bool, seed: u64) {
    for ticket in &known.gone {
        assert!(!rig.tier.holds(*ticket), "seed {seed}: {ticket} came back");
    }
    for (ticket, len) in &known.given {
        if !rig.tier.holds(*ticket) {
            assert!(
                !nothing_lost || !known.held.contains(ticket),
                "seed {seed}: {ticket} was acknowledged and is lost, {:?}",
                rig.recovered
            );
            continue;
        }
        match rig.get_version(*ticket, *len) {
            Ok(bytes) => assert_eq!(
                bytes,
                super::rig::payload(*ticket, *len),
                "seed {seed}: wrong bytes of {ticket}"
            ),
            Err(error) => panic!("seed {seed}: {ticket} was recovered and cannot be read: {error}"),
        }
    }
    // What survived is acknowledged from now on, whatever the last life knew of it.
    let held = known
        .given
        .keys()
        .copied()
        .filter(|ticket| rig.tier.holds(*ticket));
    known.held = held.collect();
}

/// Stops the disk at the `stop`-th request that changes something; the one at the stop may be torn.
fn stop_at(disk: &MemDisk, stop: u64, torn: Option<u64>) {
    let count = AtomicU64::new(0);
    disk.set_hook(move |attempt| {
        if matches!(attempt.op, Op::Read | Op::List | Op::Space | Op::Open) {
            return Verdict::default();
        }
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        match torn {
            Some(blocks) if number == stop => Fault::Fails { blocks }.into(),
            _ if number >= stop => Fault::EIO.into(),
            _ => Verdict::default(),
        }
    });
}

fn lives(seed: u64, options: &Options, nothing_lost: bool, power: bool) {
    let mut dice = Dice::new(seed);
    let mut known = Known::default();
    let mut next = 0;
    let mut rig = Rig::with(options.clone());
    for _ in 0..4 {
        let torn = (dice.below(2) == 0).then(|| dice.below(40));
        stop_at(&rig.disk, 1 + dice.below(60), torn);
        live(&rig, &mut known, &mut dice, &mut next, !nothing_lost);
        let disk = if power {
            rig.disk.crash(&mut dice)
        } else {
            rig.disk.kill(&mut dice)
        };
        rig = Rig::on(disk, options.clone())
            .unwrap_or_else(|error| panic!("seed {seed}: a start needs repair: {error}"));
        check(&rig, &mut known, nothing_lost, seed);
    }
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power_after_any_step() {
    for seed in 0..60 {
        lives(seed, &options(), true, true);
    }
}

#[test]
fn what_had_landed_survives_a_killed_process_after_any_step() {
    let buffered = Options {
        durability: Durability::Buffered,
        ..options()
    };
    for seed in 1000..1040 {
        lives(seed, &buffered, true, false);
    }
}

#[test]
fn a_small_directory_forgets_and_never_errs() {
    let small = Options {
        capacity: ByteCount::mib(16),
        file_bytes: ByteCount::mib(2),
        ..options()
    };
    for seed in 2000..2024 {
        lives(seed, &small, false, true);
    }
}

#[test]
fn losing_unsynced_writes_of_a_buffered_directory_gives_no_torn_record() {
    let buffered = Options {
        durability: Durability::Buffered,
        ..options()
    };
    for seed in 3000..3020 {
        lives(seed, &buffered, false, true);
    }
}

#[test]
fn every_stop_of_one_history_is_survived() {
    // The same few steps, stopped at every request: none is special.
    for stop in 1..40 {
        let rig = Rig::new();
        stop_at(&rig.disk, stop, None);
        let objects: Vec<_> = (1..=6).map(|t| Object::new(t, t * 40_000)).collect();
        let acknowledged: Vec<_> = objects
            .iter()
            .filter(|object| rig.append(std::slice::from_ref(*object))[0].is_ok())
            .collect();
        let discarded = pollster::block_on(rig.tier.discard(&[Ticket(2), Ticket(5)])).is_ok();
        let again =
            Rig::on(rig.disk.crash(&mut Dice::new(stop)), options()).expect("no repair is needed");
        for object in acknowledged {
            let dead = [2, 5].contains(&object.ticket.0);
            if dead && discarded {
                assert!(!again.tier.holds(object.ticket));
            } else if !dead {
                assert_eq!(
                    again.get(object).unwrap(),
                    object.payload(),
                    "stopped at {stop}"
                );
            }
        }
    }
}

#[test]
fn a_failed_sync_is_never_made_good_by_a_later_one() {
    let rig = Rig::new();
    rig.append(&[Object::new(1, 1000)])[0].as_ref().unwrap();
    rig.disk.plan(Op::Sync, 1, Fault::EIO);
    let lost = Object::new(2, 1000);
    assert!(rig.append(std::slice::from_ref(&lost))[0].is_err());
    let after = Object::new(3, 1000);
    rig.append(std::slice::from_ref(&after))[0]
        .as_ref()
        .unwrap();
    for seed in 0..20 {
        let again = Rig::on(rig.disk.crash(&mut Dice::new(seed)), options()).unwrap();
        assert_eq!(
            again.get(&Object::new(1, 1000)).unwrap(),
            Object::new(1, 1000).payload()
        );
        assert_eq!(again.get(&after).unwrap(), after.payload());
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
fn what_is_discarded_before_its_copy_is_written_stays_dead() {
    let gate = Gate::default();
    let pool = Pool::new(24 << 20).expect("the machine has the memory");
    let disk = MemDisk::new(
        &pool,
        MemOptions {
            clock: Some(Arc::new(gate.clone())),
            ..MemOptions::default()
        },
    );
    let rig = Rig::on(disk, options()).expect("an empty disk can be opened");
    let objects: Vec<_> = (1..=40).map(|ticket| Object::new(ticket, 50_000)).collect();
    assert!(
        rig.append(&objects)
            .into_iter()
            .all(|answer| answer.is_ok())
    );
    let dead: Vec<_> = (3..=40).map(Ticket).collect();
    pollster::block_on(rig.tier.discard(&dead)).unwrap();
    // The copies of the two that are left need a file, which takes its time.
    pollster::block_on(rig.tier.seal_all());
    rig.disk.set_hook(|attempt| Verdict {
        fault: None,
        delay: Duration::from_millis(u64::from(attempt.op == Op::Create)),
    });
    let mut cleaning = Box::pin(rig.tier.tend());
    let mut context = Context::from_waker(Waker::noop());
    assert!(cleaning.as_mut().poll(&mut context).is_pending());
    pollster::block_on(rig.tier.discard(&[Ticket(1)])).unwrap();
    gate.0.store(true, Ordering::Relaxed);
    pollster::block_on(cleaning).unwrap();
    assert_eq!(rig.tier.stats().copied, 1);
    let rig = rig.restart();
    assert!(
        rig.get(&objects[0]).is_err(),
        "it was acknowledged as forgotten"
    );
    assert_eq!(rig.get(&objects[1]).unwrap(), objects[1].payload());
}

#[test]
fn what_was_discarded_is_not_written_again_where_its_tombstone_would_cover_it() {
    let rig = Rig::new();
    let objects = [Object::new(1, 5000), Object::new(2, 5000)];
    assert!(rig.append(&objects).iter().all(Result::is_ok));
    pollster::block_on(rig.tier.discard(&[Ticket(1)])).unwrap();
    let again = [Object::new(1, 5000), Object::new(3, 5000)];
    let answers = rig.append(&again);
    assert_eq!(
        answers[0].as_ref().unwrap_err().code(),
        Code::UnableOffload,
        "nothing is acknowledged that a restart would not find"
    );
    assert!(answers[1].is_ok());
    assert!(rig.get(&again[0]).is_err());
    // Another file has no tombstone of it.
    pollster::block_on(rig.tier.seal_all());
    assert!(rig.append(&again[..1])[0].is_ok());
    let rig = rig.restart();
    for object in objects.iter().chain(&again[1..]) {
        assert_eq!(rig.get(object).unwrap(), object.payload());
    }
}
