//! Looking at a directory that nobody serves.

use super::rig::{Object, Rig, options};
use std::task::{Context, Poll, Waker};
use ziggurat_base::{CHUNK, Ticket, hash::Dice};
use ziggurat_io::mem::MemDisk;
use ziggurat_tiers::ssd::{
    News,
    offline::{self, Fault},
};

fn filled() -> (Rig, Vec<Object>) {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=30).map(|t| Object::new(t, 9000 * t)).collect();
    rig.append(&objects)
        .into_iter()
        .for_each(|answer| answer.expect("there is room"));
    pollster::block_on(rig.tier.discard(&[Ticket(9)])).expect("the disk works");
    (rig, objects)
}

fn verify(disk: &MemDisk) -> Vec<Fault> {
    let mut last = (0, 0);
    let mut progress = |done, total| last = (done, total);
    let faults = offline::verify(disk, &mut progress);
    let faults = pollster::block_on(faults).expect("it is a directory");
    assert_eq!(last.0, last.1, "progress ends at the end");
    faults
}

#[test]
fn a_directory_tells_what_it_holds_and_is_left_as_it_was() {
    let (rig, objects) = filled();
    for rig in [Some(rig), Some(filled().0.restart())]
        .into_iter()
        .flatten()
    {
        let before = rig.disk.counts();
        let report = pollster::block_on(offline::inspect(&rig.disk)).unwrap();
        let live: u64 = report.files.iter().map(|file| file.live).sum();
        assert_eq!((live, report.tombstones), (29, 1));
        assert_eq!(report.tenants["tenant"].0, 29);
        assert_eq!(report.directory, rig.tier.directory());
        assert_eq!(report.foreign, Vec::<String>::new());
        let records = pollster::block_on(offline::records(&rig.disk)).unwrap();
        let object = objects
            .iter()
            .find(|object| object.ticket == records[3].1.ticket)
            .unwrap();
        assert_eq!(
            pollster::block_on(offline::payload(&rig.disk, &records[3])).unwrap(),
            object.payload()
        );
        assert_eq!(verify(&rig.disk), []);
        let after = rig.disk.counts();
        assert_eq!((before.writes, before.syncs), (after.writes, after.syncs));
    }
}

#[test]
fn one_flipped_byte_is_found_with_its_file_offset_and_key() {
    let (rig, objects) = filled();
    let held = rig.tier.look(|holdings| holdings.find(Ticket(25))).unwrap();
    let third = held.spot.at + 2 * CHUNK as u64;
    rig.disk
        .rot("00000001.log", third + 5..third + 6, &mut Dice::new(1))
        .unwrap();
    let faults = verify(&rig.disk);
    assert_eq!(faults.len(), 1);
    let (tenant, key, ticket) = faults[0].object.clone().unwrap();
    assert_eq!((&*tenant, ticket), ("tenant", Ticket(25)));
    assert_eq!(key.as_key().bytes(), objects[24].key.as_bytes());
    assert_eq!(
        (faults[0].file.as_str(), faults[0].offset),
        ("00000001.log", third),
        "the chunk that is damaged"
    );
}

#[test]
fn damage_outside_of_payloads_is_told_too() {
    let rig = filled().0.restart();
    rig.disk
        .rot("00000001.log", 4096..4200, &mut Dice::new(1))
        .unwrap();
    let faults = verify(&rig.disk);
    assert!(
        faults
            .iter()
            .any(|fault| fault.offset == 4096 && fault.object.is_none()),
        "{faults:?}"
    );
    let rig = filled().0.restart();
    let held = rig.tier.look(|holdings| holdings.find(Ticket(25))).unwrap();
    let at = held.spot.header_at;
    rig.disk
        .rot("00000001.log", at + 20..at + 21, &mut Dice::new(1))
        .unwrap();
    assert!(verify(&rig.disk)[0].what.contains("header"));
}

#[test]
fn damage_behind_the_last_sync_that_is_vouched_for_is_told_with_its_key() {
    let rig = Rig::new();
    let object = Object::new(1, 9000);
    rig.append(&[object])[0].as_ref().expect("there is room");
    let held = rig.tier.look(|holdings| holdings.find(Ticket(1))).unwrap();
    let at = held.spot.at;
    rig.disk
        .rot("00000001.log", at + 7..at + 8, &mut Dice::new(1))
        .unwrap();
    let faults = verify(&rig.disk);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].offset, at);
    assert_eq!(faults[0].object.as_ref().map(|of| of.2), Some(Ticket(1)));
}

#[test]
fn a_batch_that_cannot_be_read_any_more_is_a_gap() {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=3).map(|t| Object::new(t, 9000)).collect();
    for object in &objects {
        rig.append(std::slice::from_ref(object))[0]
            .as_ref()
            .expect("there is room");
    }
    let held = rig.tier.look(|holdings| holdings.find(Ticket(1))).unwrap();
    let header = held.spot.header_at / 4096 * 4096;
    rig.disk
        .rot("00000001.log", header..header + 40, &mut Dice::new(1))
        .unwrap();
    let faults = verify(&rig.disk);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!((faults[0].offset, &faults[0].object), (header, &None));
    let rig = rig.restart();
    assert!(!rig.tier.holds(Ticket(1)) && rig.tier.holds(Ticket(2)));
}

#[test]
fn a_file_that_was_being_made_is_no_fault_and_goes() {
    let (rig, objects) = filled();
    let disk = rig.disk.kill(&mut Dice::new(0));
    pollster::block_on(ziggurat_io::Disk::create(&disk, "00000009.log", 1 << 20)).unwrap();
    assert_eq!(verify(&disk), []);
    let rig = Rig::on(disk, options()).unwrap();
    assert_eq!(rig.recovered.remarks, Vec::<String>::new());
    assert_eq!(rig.get(&objects[0]).unwrap(), objects[0].payload());
    let names = pollster::block_on(ziggurat_io::Disk::list(&rig.disk)).unwrap();
    assert!(names.iter().all(|file| file.name != "00000009.log"));
}

#[test]
fn a_file_that_was_sealed_at_the_end_needs_no_proof() {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=3).map(|t| Object::new(t, 9000)).collect();
    rig.append(&objects)
        .into_iter()
        .for_each(|answer| answer.expect("there is room"));
    pollster::block_on(rig.tier.seal_all());
    let report = pollster::block_on(offline::inspect(&rig.disk)).unwrap();
    assert!(report.files.iter().all(|file| file.sealed), "{report:?}");
    let more = Object::new(4, 9000);
    rig.append(std::slice::from_ref(&more))[0]
        .as_ref()
        .expect("there is room in another file");
    let rig = rig.restart();
    assert_eq!(rig.get(&objects[0]).unwrap(), objects[0].payload());
    assert_eq!(rig.get(&more).unwrap(), more.payload());
}

#[test]
fn what_is_no_directory_is_named() {
    let rig = Rig::new();
    let disk = rig.disk.kill(&mut Dice::new(0));
    pollster::block_on(ziggurat_io::Disk::remove(&disk, "ziggurat.id")).unwrap();
    let error = pollster::block_on(offline::inspect(&disk)).unwrap_err();
    assert!(
        error.to_string().contains("no SSD directory of the store"),
        "{error}"
    );
}

#[test]
fn who_waits_for_news_is_woken() {
    let rig = Rig::new();
    let mut waiting = Box::pin(rig.tier.next_news());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    rig.append(&[Object::new(1, 10)])[0].as_ref().unwrap();
    assert_eq!(
        waiting.as_mut().poll(&mut context),
        Poll::Ready(vec![News::Present(Ticket(1))])
    );
}
