//! The SSD tier over a simulated disk: what is acknowledged survives, what is gone stays gone, and no byte is wrong.
#![forbid(unsafe_code)]

#[path = "ssd/cap.rs"]
mod cap;
#[path = "ssd/crash.rs"]
mod crash;
#[path = "ssd/format.rs"]
mod format;
#[path = "ssd/offline.rs"]
mod offline;
#[path = "ssd/packed.rs"]
mod packed;
#[path = "ssd/rig.rs"]
mod rig;
#[path = "ssd/rot.rs"]
mod rot;
#[path = "ssd/space.rs"]
mod space;

use rig::{Object, Rig};
use ziggurat_base::{CHUNK, Code, Crc32, Result, Ticket};
use ziggurat_tiers::ssd::{News, Source, SsdTier, Wanted};

#[test]
fn what_is_written_is_read_whole_and_in_ranges() {
    let rig = Rig::new();
    let chunk = CHUNK as u64;
    let lens = [
        0,
        1,
        511,
        512,
        4096,
        chunk - 1,
        chunk,
        chunk + 1,
        5 * chunk + 17,
        9 << 20,
    ];
    let objects: Vec<_> = (1..)
        .zip(lens)
        .map(|(t, len)| Object::new(t, len))
        .collect();
    rig.append(&objects)
        .into_iter()
        .for_each(|answer| answer.unwrap());
    for object in &objects {
        assert_eq!(rig.get(object).unwrap(), object.payload(), "{object:?}");
        if object.len > chunk {
            let wanted = Wanted {
                ticket: object.ticket,
                object_len: object.len,
                offset: chunk,
                len: object.len - chunk,
            };
            let found = pollster::block_on(rig.tier.read(&wanted)).unwrap();
            assert_eq!(found.bytes(), &object.payload()[CHUNK..]);
            assert_eq!(found.sums.crc, Crc32::of(&object.payload()[CHUNK..]));
            let mut into = vec![0; (object.len - chunk) as usize];
            let sums = pollster::block_on(rig.tier.read_into(&wanted, &mut into)).unwrap();
            assert_eq!((&into[..], &sums), (found.bytes(), &found.sums));
        }
    }
    let told = rig.tier.take_news();
    let present = objects.iter().map(|object| News::Present(object.ticket));
    assert_eq!(told, present.collect::<Vec<_>>());
}

#[test]
fn a_second_offload_of_a_version_is_done_already() {
    let rig = Rig::new();
    let object = Object::new(1, 5000);
    rig.append(std::slice::from_ref(&object))[0]
        .as_ref()
        .unwrap();
    let before = rig.disk.counts().bytes_written;
    rig.append(std::slice::from_ref(&object))[0]
        .as_ref()
        .unwrap();
    assert_eq!(rig.disk.counts().bytes_written, before);
    assert_eq!(rig.tier.stats().records, 1);
}

#[test]
fn a_payload_that_is_not_the_announced_one_is_left_out() {
    let rig = Rig::new();
    let mut wrong = Object::new(2, 5000);
    wrong.crc = Crc32(1);
    let mut wrong_large = Object::new(4, 9 << 20);
    wrong_large.crc = Crc32(1);
    let objects = [
        Object::new(1, 5000),
        wrong,
        Object::new(3, 5000),
        wrong_large,
        Object::new(5, 7),
    ];
    let answers = rig.append(&objects);
    for (object, answer) in objects.iter().zip(answers) {
        if [2, 4].contains(&object.ticket.0) {
            assert_eq!(answer.unwrap_err().code(), Code::ChecksumMismatch);
            assert_eq!(rig.get(object).unwrap_err().code(), Code::ReplicaIsGone);
        } else {
            assert_eq!(rig.get(object).unwrap(), object.payload());
        }
    }
    let rig = rig.restart();
    assert_eq!(rig.recovered.records, 3);
    assert_eq!(rig.recovered.remarks, Vec::<String>::new());
}

#[test]
fn what_is_discarded_is_gone_for_good() {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=600).map(|t| Object::new(t, 900)).collect();
    rig.append(&objects);
    let (dead, live) = objects.split_at(400);
    let tickets: Vec<_> = dead.iter().map(|object| object.ticket).collect();
    let _present = rig.tier.take_news();
    pollster::block_on(rig.tier.discard(&tickets)).unwrap();
    assert_eq!(rig.tier.take_news().len(), 400);
    assert!(dead.iter().all(|object| rig.get(object).is_err()));
    let rig = rig.restart();
    assert_eq!(rig.recovered.records, 200);
    assert!(dead.iter().all(|object| !rig.tier.holds(object.ticket)));
    assert!(
        live.iter()
            .all(|object| rig.get(object).unwrap() == object.payload())
    );
}

#[test]
fn what_is_discarded_while_it_is_written_does_not_become_held() {
    let rig = Rig::new();
    rig.append(&[Object::new(1, 100)])[0].as_ref().unwrap();
    let object = Object::new(2, 5000);
    let payload = object.payload();
    let mut source = Interrupted {
        payload: &payload,
        tier: &rig.tier,
        ticket: object.ticket,
    };
    let mut items = [rig::item(&object, &mut source)];
    pollster::block_on(rig.tier.append(&mut items))[0]
        .as_ref()
        .unwrap();
    assert!(!rig.tier.holds(object.ticket));
    assert_eq!(rig.tier.take_news(), [News::Present(Ticket(1))]);
    let rig = rig.restart();
    assert!(!rig.tier.holds(object.ticket));
}

/// Somebody discards the version in the middle of its way.
struct Interrupted<'a> {
    payload: &'a [u8],
    tier: &'a SsdTier,
    ticket: Ticket,
}

impl Source for Interrupted<'_> {
    fn fill(&mut self, offset: u64, into: &mut [u8]) -> Result<Vec<Crc32>> {
        pollster::block_on(self.tier.discard(&[self.ticket]))?;
        self.payload.fill(offset, into)
    }
}

#[test]
fn a_restart_finds_everything_under_the_same_identity() {
    let rig = Rig::new();
    let objects: Vec<_> = (1..=50).map(|t| Object::new(t, t * 3001)).collect();
    rig.append(&objects);
    let identity = rig.tier.directory();
    let rig = rig.restart();
    assert_eq!(rig.tier.directory(), identity);
    assert!(!rig.recovered.fresh);
    assert_eq!(rig.recovered.records, 50);
    assert_eq!(rig.tier.highest_era(), Ticket(1).era());
    assert!(
        objects
            .iter()
            .all(|object| rig.get(object).unwrap() == object.payload())
    );
    let names = rig.tier.look(|holdings| {
        let names = holdings.names(Ticket(7)).expect("it is held");
        (
            names.tenant.to_owned(),
            names.key.to_owned(),
            names.parent_owned(),
            names.group_owned(),
        )
    });
    assert_eq!(names.0, "tenant");
    assert_eq!(names.1.as_key().bytes(), b"key/7");
    assert_eq!(names.2.unwrap().as_key().bytes(), b"key/6");
    assert_eq!(names.3, None);
}

#[test]
fn ranges_that_cannot_be_proved_are_refused() {
    let rig = Rig::new();
    let object = Object::new(1, 3 * CHUNK as u64);
    rig.append(std::slice::from_ref(&object));
    let ask = |object_len, offset, len| {
        let wanted = Wanted {
            ticket: object.ticket,
            object_len,
            offset,
            len,
        };
        pollster::block_on(rig.tier.read(&wanted))
            .map(|_| ())
            .unwrap_err()
            .code()
    };
    assert_eq!(ask(object.len, 1, CHUNK as u64), Code::InvalidRead);
    assert_eq!(ask(object.len, 0, 5), Code::InvalidRead);
    assert_eq!(ask(object.len, u64::MAX, 2), Code::InvalidRead);
    assert_eq!(ask(object.len + 1, 0, object.len + 1), Code::InvalidReplica);
    assert_eq!(
        rig.get(&object).unwrap(),
        object.payload(),
        "a wrong question costs the record nothing"
    );
}
