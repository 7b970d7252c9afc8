//! Bits that flip, files that are cut, foreign or missing: a miss, never a wrong byte, and the rest stays.

use super::rig::{Object, Rig, options};
use std::ops::Range;
use ziggurat_base::{CHUNK, Code, Ticket, hash::Dice};
use ziggurat_io::{
    Disk,
    mem::{Fault, Op},
};
use ziggurat_tiers::ssd::{News, Wanted};

fn some(rig: &Rig) -> Vec<Object> {
    let objects: Vec<_> = (1..=40).map(|t| Object::new(t, 3000 * t)).collect();
    rig.append(&objects)
        .into_iter()
        .for_each(|answer| answer.expect("there is room"));
    let _present = rig.tier.take_news();
    objects
}

fn log_files(rig: &Rig) -> Vec<(String, u64)> {
    let files = pollster::block_on(rig.disk.list()).expect("it can be listed");
    let logs = files
        .into_iter()
        .filter(|file| file.name.ends_with(".log") && file.name != "tombs.log");
    logs.map(|file| (file.name, file.len)).collect()
}

fn spot(rig: &Rig, ticket: Ticket) -> (u64, u64) {
    let held = rig
        .tier
        .look(|holdings| holdings.find(ticket))
        .expect("it is held");
    (held.spot.at, held.spot.header_at)
}

#[test]
fn a_flipped_bit_in_a_payload_costs_that_object_only() {
    let rig = Rig::new();
    let objects = some(&rig);
    let (at, _) = spot(&rig, Ticket(30));
    let name = log_files(&rig)[0].0.clone();
    rig.disk
        .rot(&name, at + 70_000..at + 70_001, &mut Dice::new(1))
        .unwrap();
    for object in &objects {
        match rig.get(object) {
            Ok(bytes) => assert_eq!(bytes, object.payload()),
            Err(error) => assert_eq!(
                (error.code(), object.ticket),
                (Code::ReplicaIsGone, Ticket(30))
            ),
        }
    }
    assert!(matches!(
        &rig.tier.take_news()[..],
        [News::Gone {
            ticket: Ticket(30),
            ..
        }]
    ));
    assert_eq!(rig.tier.stats().rotten, 1);
    let rig = rig.restart();
    assert!(
        !rig.tier.holds(Ticket(30)),
        "it would be read in vain again"
    );
    assert_eq!(rig.recovered.records, 39);
}

#[test]
fn a_range_is_proved_by_the_header_on_disk() {
    let rig = Rig::new();
    let objects = some(&rig);
    let object = &objects[35];
    let wanted = Wanted {
        ticket: object.ticket,
        object_len: object.len,
        offset: 0,
        len: CHUNK as u64,
    };
    let name = log_files(&rig)[0].0.clone();
    let (at, header_at) = spot(&rig, object.ticket);
    // A byte behind the range does not matter, one in the range or in the table does.
    rig.disk
        .rot(&name, at + CHUNK as u64..at + object.len, &mut Dice::new(1))
        .unwrap();
    let found = pollster::block_on(rig.tier.read(&wanted)).unwrap();
    assert_eq!(found.bytes(), &object.payload()[..CHUNK]);
    rig.disk
        .rot(&name, header_at + 90..header_at + 96, &mut Dice::new(2))
        .unwrap();
    assert_eq!(
        pollster::block_on(rig.tier.read(&wanted))
            .unwrap_err()
            .code(),
        Code::ReplicaIsGone
    );
    assert!(!rig.tier.holds(object.ticket));
}

/// Rots one bit of a range of the first log file of a tier that was sealed by a restart, opens it again and reads all.
fn rot_and_reopen(
    range: impl Fn(&Rig, &str, u64) -> Range<u64>,
    seed: u64,
) -> (usize, Vec<String>) {
    let rig = Rig::new();
    let objects = some(&rig);
    pollster::block_on(rig.tier.discard(&[Ticket(3), Ticket(4)])).expect("the disk works");
    let rig = rig.restart();
    let (name, len) = log_files(&rig)[0].clone();
    rig.disk
        .rot(&name, range(&rig, &name, len), &mut Dice::new(seed))
        .expect("the disk works");
    let again = rig.restart();
    let mut found = 0;
    for object in &objects {
        if let Ok(bytes) = again.get(object) {
            assert_eq!(bytes, object.payload());
            assert!(
                ![3, 4].contains(&object.ticket.0),
                "{} came back",
                object.ticket
            );
            found += 1;
        }
    }
    (found, again.recovered.remarks.clone())
}

#[test]
fn a_damaged_seal_or_footer_makes_the_batches_count() {
    for seed in 0..6 {
        assert_eq!(
            rot_and_reopen(|_, _, _| 4096..8192, seed).0,
            38,
            "in the seal"
        );
        let footer = |rig: &Rig, name: &str, _| {
            let page = rig.disk.bytes(name, 4096..8192).unwrap();
            let at = u64::from_le_bytes(page[16..24].try_into().unwrap());
            at..at + 3000
        };
        assert_eq!(rot_and_reopen(footer, seed).0, 38, "in the footer");
    }
}

#[test]
fn a_damaged_head_leaves_the_file_alone_and_says_so() {
    let (found, remarks) = rot_and_reopen(|_, _, _| 0..64, 3);
    assert_eq!(found, 0);
    assert!(
        remarks[0].contains("00000001.log is left alone"),
        "{remarks:?}"
    );
}

#[test]
fn a_damaged_batch_header_costs_its_batch_only() {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=5).map(|t| Object::new(t, 3000)).collect();
    for object in &objects {
        rig.append(std::slice::from_ref(object));
    }
    let (_, header_at) = spot(&rig, Ticket(3));
    let name = log_files(&rig)[0].0.clone();
    rig.disk
        .rot(&name, header_at..header_at + 80, &mut Dice::new(1))
        .unwrap();
    let again = rig.restart();
    let found: Vec<_> = objects
        .iter()
        .filter(|object| again.get(object).is_ok())
        .collect();
    assert_eq!(
        found
            .iter()
            .map(|object| object.ticket.0)
            .collect::<Vec<_>>(),
        [1, 2, 4, 5]
    );
}

#[test]
fn damaged_tombstones_bring_nothing_back() {
    let rig = Rig::new();
    let objects = some(&rig);
    for ticket in 1..=3 {
        pollster::block_on(rig.tier.discard(&[Ticket(ticket)])).unwrap();
    }
    let rot = |rig: &Rig, page: u64| {
        let range = page * 4096..page * 4096 + 200;
        rig.disk.rot("tombs.log", range, &mut Dice::new(1)).unwrap();
    };
    // Every page is there twice: the last pair, which a crash might have torn, is not lost by one flipped bit.
    rot(&rig, 0);
    rot(&rig, 5);
    let rig = rig.restart();
    assert_eq!(rig.recovered.records, 37);
    rot(&rig, 1);
    let again = rig.restart();
    assert!(
        again.recovered.remarks[0].contains("tombstones"),
        "{:?}",
        again.recovered
    );
    assert!(objects[..3].iter().all(|object| again.get(object).is_err()));
    again.append(&[Object::new(99, 10)])[0].as_ref().unwrap();
    assert!(
        again.get(&Object::new(99, 10)).is_ok(),
        "the directory goes on"
    );
}

#[test]
fn a_damaged_identity_is_mended_from_the_log_files() {
    let rig = Rig::new();
    let objects = some(&rig);
    let identity = rig.tier.directory();
    rig.disk
        .rot("ziggurat.id", 0..60, &mut Dice::new(1))
        .unwrap();
    let again = rig.restart();
    assert_eq!(again.tier.directory(), identity);
    assert!(
        objects
            .iter()
            .all(|object| again.get(object).unwrap() == object.payload())
    );
}

#[test]
fn foreign_log_files_are_refused_or_left_alone() {
    let rig = Rig::new();
    let disk = rig.disk.kill(&mut Dice::new(0));
    pollster::block_on(disk.create("00000009.log", 8192)).unwrap();
    disk.rot("00000009.log", 0..100, &mut Dice::new(0)).unwrap();
    let again = Rig::on(disk, options()).unwrap();
    assert!(again.recovered.remarks[0].contains("00000009.log is left alone"));
    let names = pollster::block_on(again.disk.list()).unwrap();
    assert!(names.iter().any(|file| file.name == "00000009.log"));
    let other = Rig::new();
    let stranger = other.disk.kill(&mut Dice::new(0));
    pollster::block_on(stranger.remove("ziggurat.id")).unwrap();
    pollster::block_on(stranger.create("00000001.log", 8192)).unwrap();
    let error = Rig::on(stranger, options()).err().unwrap();
    assert!(
        error.to_string().contains("give an empty directory"),
        "{error}"
    );
}

#[test]
fn a_file_that_vanishes_costs_its_objects_only() {
    let rig = Rig::new();
    let objects = some(&rig);
    let disk = rig.disk.kill(&mut Dice::new(0));
    pollster::block_on(disk.remove("00000001.log")).unwrap();
    let again = Rig::on(disk, options()).unwrap();
    assert!(objects.iter().all(|object| again.get(object).is_err()));
    again
        .append(&objects)
        .into_iter()
        .for_each(|answer| answer.unwrap());
    assert!(
        objects
            .iter()
            .all(|object| again.get(object).unwrap() == object.payload())
    );
}

#[test]
fn a_device_that_cannot_read_gives_a_miss() {
    let rig = Rig::new();
    let objects = some(&rig);
    rig.disk.plan(Op::Read, 1, Fault::EIO);
    assert_eq!(
        rig.get(&objects[0]).unwrap_err().code(),
        Code::ReplicaIsGone
    );
    assert_eq!(rig.get(&objects[1]).unwrap(), objects[1].payload());
}

#[test]
fn what_one_start_could_not_read_the_next_one_does_not_find() {
    let rig = Rig::new();
    let objects = some(&rig);
    let held = |rig: &Rig| -> Vec<bool> {
        let tickets = objects.iter().map(|object| object.ticket);
        tickets.map(|ticket| rig.tier.holds(ticket)).collect()
    };
    let mut given_up = 0;
    for nth in 1..=30 {
        let disk = rig.disk.kill(&mut Dice::new(0));
        // The second look at a page fails too.
        disk.plan(Op::Read, nth, Fault::EIO);
        disk.plan(Op::Read, nth + 1, Fault::EIO);
        // A start that fails says so, and nobody is told anything.
        let Ok(first) = Rig::on(disk, options()) else {
            continue;
        };
        let found = held(&first);
        given_up += u32::from(found.contains(&false));
        assert_eq!(held(&first.restart()), found, "read {nth}");
    }
    assert!(given_up > 0);
}

#[test]
fn misplaced_and_lost_writes_are_never_believed() {
    for (seed, fault) in [
        Fault::Lost,
        Fault::Misplaced { offset: 8192 },
        Fault::Torn { blocks: 3 },
        Fault::Rot { bit: 99_999 },
    ]
    .into_iter()
    .enumerate()
    {
        let rig = Rig::new();
        let objects: Vec<_> = (1..=9).map(|t| Object::new(t, 20_000)).collect();
        for (number, object) in objects.iter().enumerate() {
            if number == 4 {
                rig.disk.plan(Op::Write, 1, fault);
            }
            let _told_nothing = rig.append(std::slice::from_ref(object));
        }
        let again = Rig::on(rig.disk.crash(&mut Dice::new(seed as u64)), options()).unwrap();
        for rig in [&rig, &again] {
            for object in &objects {
                if let Ok(bytes) = rig.get(object) {
                    assert_eq!(bytes, object.payload(), "{fault:?}");
                }
            }
        }
    }
}
