//! A directory that is full: it forgets by its policy, stays within its bounds, and goes on when the disk has room again.

use super::rig::{Object, Rig, options};
use std::time::Duration;
use ziggurat_base::{ByteCount, Clock, Code, Ticket};
use ziggurat_engine::evict::PolicyKind;
use ziggurat_tiers::ssd::{BURST, News, Options, PATIENCE, WriteBudget};

fn small(policy: PolicyKind) -> Options {
    Options {
        capacity: ByteCount::mib(16),
        file_bytes: ByteCount::mib(2),
        policy,
        ..options()
    }
}

fn gone(rig: &Rig) -> Vec<u64> {
    let news = rig.tier.take_news().into_iter();
    news.filter_map(|one| match one {
        News::Gone { ticket, .. } => Some(ticket.0),
        News::Present(_) | News::Refused { .. } => None,
    })
    .collect()
}

#[test]
fn the_oldest_go_and_the_bounds_hold() {
    let rig = Rig::with(small(PolicyKind::Fifo));
    let mut told = Vec::new();
    for ticket in 1..=1000 {
        rig.append(&[Object::new(ticket, 60_000)])[0]
            .as_ref()
            .unwrap();
        told.extend(gone(&rig));
        let stats = rig.tier.stats();
        assert!(stats.file_bytes <= stats.capacity, "{stats:?}");
    }
    assert!(!told.is_empty());
    assert!(told.is_sorted(), "first in, first out");
    let held = rig.tier.stats().records;
    assert_eq!(
        held + told.len() as u64,
        1000,
        "every object is there or was told to be gone, once"
    );
    assert!(
        held * 60_000 > (16 << 20) / 2,
        "most of the room is used: {held}"
    );
    for ticket in 1..=1000 {
        let object = Object::new(ticket, 60_000);
        assert_eq!(rig.get(&object).is_ok(), !told.contains(&ticket));
    }
    assert!(
        rig.tier.stats().write_amplification() < 1.15,
        "{:?}",
        rig.tier.stats()
    );
}

#[test]
fn what_is_read_stays_longer() {
    for policy in [PolicyKind::Lru, PolicyKind::S3Fifo] {
        let rig = Rig::with(small(policy));
        let hot: Vec<_> = (1..=15).map(|t| Object::new(t, 30_000)).collect();
        rig.append(&hot);
        for ticket in 21..=1500 {
            rig.append(&[Object::new(ticket, 30_000)])[0]
                .as_ref()
                .unwrap();
            if ticket % 20 == 0 {
                for object in &hot {
                    assert_eq!(
                        rig.get(object).unwrap(),
                        object.payload(),
                        "{policy} after {ticket}"
                    );
                }
            }
        }
        let stats = rig.tier.stats();
        assert!(
            stats.copied > 0 && stats.write_amplification() < 1.4,
            "{stats:?}"
        );
    }
}

#[test]
fn pinned_objects_outlive_all_others() {
    let rig = Rig::with(small(PolicyKind::Fifo));
    let mut pinned = Object::new(1, 50_000);
    pinned.pinned = true;
    rig.append(std::slice::from_ref(&pinned));
    for ticket in 2..=800 {
        rig.append(&[Object::new(ticket, 60_000)])[0]
            .as_ref()
            .unwrap();
    }
    assert_eq!(rig.get(&pinned).unwrap(), pinned.payload());
}

#[test]
fn removed_space_comes_back_without_a_restart() {
    let rig = Rig::with(small(PolicyKind::Lru));
    for round in 0..20 {
        let objects: Vec<_> = (1..=100)
            .map(|t| Object::new(round * 1000 + t, 60_000))
            .collect();
        rig.append(&objects)
            .into_iter()
            .for_each(|answer| answer.unwrap());
        let tickets: Vec<_> = objects.iter().map(|object| object.ticket).collect();
        pollster::block_on(rig.tier.discard(&tickets)).unwrap();
        pollster::block_on(rig.tier.tend()).unwrap();
    }
    let stats = rig.tier.stats();
    assert_eq!((stats.records, stats.evicted), (0, 0));
    assert!(stats.file_bytes <= 3 * (2 << 20), "{stats:?}");
}

#[test]
fn what_lives_in_mostly_dead_files_is_copied_whatever_its_size() {
    let rig = Rig::with(Options {
        capacity: ByteCount::mib(32),
        file_bytes: ByteCount::mib(4),
        ..small(PolicyKind::Lru)
    });
    let larger_than_a_batch = 3 << 19;
    let kept: Vec<_> = (1..=12)
        .map(|t| Object::new(t, larger_than_a_batch))
        .collect();
    for object in &kept {
        let other = Object::new(100 + object.ticket.0, larger_than_a_batch);
        for one in [object, &other] {
            let answers = rig.append(std::slice::from_ref(one));
            answers.into_iter().for_each(|answer| answer.unwrap());
        }
        pollster::block_on(rig.tier.discard(&[other.ticket])).unwrap();
    }
    assert!(gone(&rig).iter().all(|ticket| *ticket > 100));
    let stats = rig.tier.stats();
    assert!(stats.copied > 0, "files were cleaned: {stats:?}");
    for object in &kept {
        assert_eq!(rig.get(object).unwrap(), object.payload());
    }
}

#[test]
fn an_object_of_its_own_size_gets_a_file_of_its_own() {
    let rig = Rig::with(Options {
        capacity: ByteCount::mib(64),
        file_bytes: ByteCount::mib(2),
        ..options()
    });
    let large = Object::new(1, 20 << 20);
    rig.append(std::slice::from_ref(&large))[0]
        .as_ref()
        .unwrap();
    assert_eq!(rig.get(&large).unwrap(), large.payload());
    let too_large = Object::new(2, 80 << 20);
    let error = rig
        .append(std::slice::from_ref(&too_large))
        .remove(0)
        .unwrap_err();
    assert_eq!(error.code(), Code::UnableOffload);
    let rig = rig.restart();
    assert_eq!(rig.get(&large).unwrap(), large.payload());
}

#[test]
fn a_full_disk_pauses_the_tier_and_a_free_one_resumes_it() {
    let rig = Rig::with(options());
    rig.append(&[Object::new(1, 1000)])[0].as_ref().unwrap();
    rig.disk.set_capacity(40 << 20);
    let mut refused = 0;
    for ticket in 2..=60 {
        refused += u32::from(rig.append(&[Object::new(ticket, 900_000)])[0].is_err());
    }
    assert!(refused > 10, "{refused}");
    assert!(rig.tier.stats().full);
    assert_eq!(
        rig.get(&Object::new(2, 900_000)).unwrap(),
        Object::new(2, 900_000).payload(),
        "reads go on"
    );
    rig.disk.set_capacity(1 << 40);
    let now = rig.clock.now();
    rig.clock.advance_to(now.after(Duration::from_secs(2)));
    rig.append(&[Object::new(100, 900_000)])[0]
        .as_ref()
        .unwrap();
    assert!(!rig.tier.stats().full);
    let rig = rig.restart();
    assert!(rig.tier.holds(Ticket(100)));
    assert_eq!(
        rig.recovered.remarks,
        Vec::<String>::new(),
        "no partial file is left"
    );
}

fn budgeted(bytes_per_second: u64, options: Options) -> Rig {
    let rate = WriteBudget::PerSecond(ByteCount(bytes_per_second));
    Rig::with(Options {
        write_budget: Some(rate),
        ..options
    })
}

fn pass(rig: &Rig, span: Duration) {
    rig.clock.advance_to(rig.clock.now().after(span));
}

#[test]
fn objects_wait_for_the_write_budget_and_what_would_wait_too_long_is_refused() {
    const RATE: u64 = 50_000;
    let rig = budgeted(RATE, options());
    let objects: Vec<_> = (1..=6).map(|t| Object::new(t, 980_000)).collect();
    let append = |object: &Object| rig.append(std::slice::from_ref(object)).remove(0);
    // The burst is worth three and a part of the fourth, which is owed.
    objects[..4].iter().for_each(|o| append(o).unwrap());
    assert_eq!(rig.tier.stats().budget.waits, 0);
    assert_eq!(rig.tier.reach(PATIENCE), 0);
    let _present = rig.tier.take_news();
    let error = append(&objects[4]).unwrap_err();
    assert_eq!(error.code(), Code::UnableOffloading);
    assert!(
        error.what().contains("50000B/s") && error.what().contains("ssd-write-budget"),
        "{error}"
    );
    let news = rig.tier.take_news();
    assert!(
        matches!(&news[..], [News::Refused { ticket, .. }] if *ticket == objects[4].ticket),
        "{news:?}"
    );
    assert_eq!(rig.tier.stats().budget.refused, 1);
    assert_eq!(rig.tier.stats().device_bytes, rig.tier.stats().budget.used);
    // A while later it has to wait a little, and the clock of the rig passes by that.
    pass(&rig, Duration::from_secs(15));
    let before = rig.clock.now();
    append(&objects[4]).unwrap();
    let stats = rig.tier.stats();
    assert_eq!(stats.budget.waits, 1);
    assert_eq!(stats.budget.waited, rig.clock.now().since(before));
    let seconds = rig.clock.now().0 as f64 / 1e9 + BURST.as_secs_f64();
    let earlier = stats.device_bytes - 1_000_000;
    assert!(
        earlier as f64 <= RATE as f64 * seconds && stats.budget.share() > 0.99,
        "{stats:?}"
    );
    assert_eq!(rig.get(&objects[4]).unwrap(), objects[4].payload());
    assert_eq!(stats.budget.rate, RATE);
}

#[test]
fn a_disk_that_is_full_costs_no_write_budget() {
    let rig = budgeted(1_000_000, options());
    rig.disk.set_capacity(5 << 20);
    let append = |ticket| rig.append(&[Object::new(ticket, 3_900_000)]).remove(0);
    append(1).unwrap();
    let before = rig.tier.stats();
    for ticket in 2..5 {
        append(ticket).unwrap_err();
        pass(&rig, Duration::from_secs(2));
    }
    let after = rig.tier.stats();
    assert!(after.full && after.write_errors == 3, "{after:?}");
    assert_eq!(after.budget.used, before.budget.used);
}

/// Fills files with objects, every third of them pinned, and leaves ten alive in each but the last: those, by file.
fn mostly_dead(rig: &Rig, count: u64) -> Vec<Vec<Object>> {
    let all: Vec<_> = (1..=count)
        .map(|ticket| Object {
            pinned: ticket % 3 == 0,
            ..Object::new(ticket, 30_000)
        })
        .collect();
    for some in all.chunks(30) {
        assert!(rig.append(some).iter().all(Result::is_ok));
        pass(rig, 2 * BURST);
    }
    let files = rig.tier.stats().files as u32;
    let in_file = |number: u32| {
        let is_there = move |object: &&Object| {
            let held = rig.tier.look(|holdings| holdings.find(object.ticket));
            held.is_some_and(|held| held.spot.file == number)
        };
        all.iter().filter(is_there).cloned().collect::<Vec<_>>()
    };
    let mut lists: Vec<_> = (1..files).map(in_file).collect();
    for list in &mut lists {
        let dead: Vec<_> = list.split_off(10).iter().map(|o| o.ticket).collect();
        let buried = pollster::block_on(rig.tier.discard(&dead));
        buried.expect("the disk is sound");
    }
    lists
}

#[test]
fn what_is_mostly_dead_is_copied_when_the_write_budget_has_it_to_spare() {
    let rig = budgeted(10_000, small(PolicyKind::Lru));
    let live = mostly_dead(&rig, 90);
    let all = rig.tier.reach(Duration::ZERO);
    let other = Object::new(1000, 500_000);
    rig.append(std::slice::from_ref(&other))[0]
        .as_ref()
        .unwrap();
    assert!(rig.tier.reach(Duration::ZERO) < all - 500_000);
    pollster::block_on(rig.tier.tend()).unwrap();
    assert_eq!(rig.tier.stats().copied, 0, "there is less than it takes");
    pass(&rig, BURST);
    pollster::block_on(rig.tier.tend()).unwrap();
    let stats = rig.tier.stats();
    assert_eq!((live.len(), stats.copied, stats.evicted), (1, 10, 0));
    assert_eq!(stats.device_bytes, stats.budget.used, "copies are paid for");
    for object in &live[0] {
        assert_eq!(rig.get(object).unwrap(), object.payload());
    }
}

#[test]
fn when_copies_would_wait_too_long_only_pinned_objects_are_copied() {
    let rig = budgeted(10_000, small(PolicyKind::Lru));
    let live = mostly_dead(&rig, 150);
    assert_eq!(live.len(), 2);
    let _news = rig.tier.take_news();
    // Room for the second is that of both files. Copies of what lives in one of them are owed for half a minute.
    for object in [Object::new(1000, 550_000), Object::new(1001, 12 << 20)] {
        rig.append(&[object])[0].as_ref().unwrap();
    }
    let stats = rig.tier.stats();
    let pinned = live[1].iter().filter(|object| object.pinned).count() as u64;
    assert_eq!(stats.copied, 10 + pinned, "{stats:?}");
    assert_eq!(stats.budget.uncopied, 10 - pinned, "{stats:?}");
    assert_eq!(stats.evicted, 10 - pinned, "{stats:?}");
    let gone = gone(&rig);
    for (number, object) in live.iter().flatten().enumerate() {
        let stays = number < 10 || object.pinned;
        assert_eq!(rig.get(object).is_ok(), stays, "{object:?}");
        assert_eq!(gone.contains(&object.ticket.0), !stays, "it is told");
    }
}

#[test]
fn the_index_takes_little_memory() {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=20_000).map(|t| Object::new(t, 100)).collect();
    rig.append(&objects);
    let names: u64 = objects
        .iter()
        .map(|object| (object.key.len() + object.parent.as_ref().map_or(0, String::len)) as u64)
        .sum();
    let beyond = |rig: &Rig| (rig.tier.stats().index_bytes - names) / rig.tier.stats().records;
    // What takes records doubles when it is full.
    assert!(
        beyond(&rig) <= 100,
        "{} bytes beyond the names",
        beyond(&rig)
    );
    pollster::block_on(rig.tier.seal_all());
    assert!(
        beyond(&rig) <= 64,
        "{} bytes beyond the names",
        beyond(&rig)
    );
    let rig = rig.restart();
    assert_eq!(rig.tier.stats().records, objects.len() as u64);
    assert!(
        beyond(&rig) <= 64,
        "{} bytes beyond the names",
        beyond(&rig)
    );
}
