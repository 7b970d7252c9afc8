//! A directory that is full: it forgets by its policy, stays within its bounds, and goes on when the disk has room again.

use super::rig::{Object, Rig, options};
use std::time::Duration;
use ziggurat_base::{ByteCount, Clock, Code, Ticket};
use ziggurat_engine::evict::PolicyKind;
use ziggurat_tiers::ssd::{News, Options};

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

#[test]
fn the_index_takes_little_memory() {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=20_000).map(|t| Object::new(t, 100)).collect();
    rig.append(&objects);
    let stats = rig.tier.stats();
    let names: u64 = objects
        .iter()
        .map(|object| (object.key.len() + object.parent.as_ref().map_or(0, String::len)) as u64)
        .sum();
    let beyond = (stats.index_bytes - names) / stats.records;
    // Tables double; the bound of 64 bytes is for their usual filling, this one for the worst.
    assert!(
        beyond <= 128,
        "{beyond} bytes beyond the names of each object"
    );
}
