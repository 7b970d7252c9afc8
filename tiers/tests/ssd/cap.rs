//! A directory with a bound on the payload that it holds, whatever that takes on disk.

use super::rig::{Object, Rig, options};
use std::sync::Arc;
use ziggurat_base::{ByteCount, Code, DirectoryId, ManualClock, hash::Dice};
use ziggurat_engine::evict::PolicyKind;
use ziggurat_io::{
    Pool,
    mem::{MemDisk, MemOptions},
};
use ziggurat_tiers::ssd::{Codec, LOGICAL_CAP_MIN, News, Options, Packing, SsdTier};

const CAP: ByteCount = ByteCount::mib(6);

fn capped(policy: PolicyKind) -> Options {
    Options {
        capacity: ByteCount::mib(64),
        logical_cap: Some(CAP),
        policy,
        packing: Packing {
            codec: Codec::Planes,
            level: 1,
        },
        ..options()
    }
}

fn gone(rig: &Rig) -> Vec<u64> {
    let news = rig.tier.take_news().into_iter();
    let gone = news.filter_map(|one| match one {
        News::Gone { ticket, .. } => Some(ticket.0),
        News::Present(_) | News::Refused { .. } => None,
    });
    gone.collect()
}

#[test]
fn payload_stays_within_the_cap_though_it_compresses() {
    for policy in PolicyKind::ALL {
        let rig = Rig::with(capped(policy));
        let objects: Vec<_> = (1..=400).map(|t| Object::numbers(t, 90_000)).collect();
        let mut told = Vec::new();
        for batch in objects.chunks(7) {
            for answer in rig.append(batch) {
                answer.unwrap();
            }
            told.extend(gone(&rig));
            let stats = rig.tier.stats();
            assert!(stats.logical_bytes <= CAP.0, "{policy}: {stats:?}");
        }
        let stats = rig.tier.stats();
        assert!(
            stats.live_bytes < stats.logical_bytes && stats.file_bytes < CAP.0,
            "{policy}: {stats:?}"
        );
        assert!(stats.logical_bytes > CAP.0 / 2, "most is used: {stats:?}");
        assert_eq!(stats.records + told.len() as u64, 400, "{policy}");
        assert!(
            told.is_sorted(),
            "{policy}: nothing was read, the oldest go"
        );
        for object in &objects {
            let is_gone = told.contains(&object.ticket.0);
            match rig.get(object) {
                Ok(bytes) => assert!(!is_gone && bytes == object.payload()),
                Err(error) => assert!(is_gone && error.code() == Code::ReplicaIsGone),
            }
        }
    }
}

#[test]
fn what_is_read_outlives_what_is_not() {
    let rig = Rig::with(capped(PolicyKind::Lru));
    let hot = Object::numbers(1, 30_000);
    rig.append(std::slice::from_ref(&hot));
    for ticket in 2..=400 {
        rig.append(&[Object::numbers(ticket, 90_000)])[0]
            .as_ref()
            .unwrap();
        assert_eq!(rig.get(&hot).unwrap(), hot.payload(), "after {ticket}");
    }
    assert!(rig.tier.stats().evicted > 300);
}

#[test]
fn one_object_may_take_all_of_it_and_no_more() {
    let rig = Rig::with(capped(PolicyKind::Lru));
    let small: Vec<_> = (1..=20).map(|t| Object::new(t, 50_000)).collect();
    rig.append(&small).into_iter().for_each(|a| a.unwrap());
    let all = Object::numbers(100, CAP.0);
    rig.append(std::slice::from_ref(&all))[0].as_ref().unwrap();
    assert_eq!(rig.get(&all).unwrap(), all.payload());
    let stats = rig.tier.stats();
    assert_eq!((stats.records, stats.logical_bytes), (1, CAP.0));
    let error = rig.append(&[Object::numbers(101, CAP.0 + 1)]).remove(0);
    let error = error.unwrap_err();
    assert_eq!(error.code(), Code::UnableOffload);
    assert!(error.what().contains("logical cap"), "{error}");
    assert_eq!(rig.get(&all).unwrap(), all.payload(), "nothing went for it");
}

#[test]
fn a_pinned_object_is_no_reason_to_turn_for_ever() {
    let rig = Rig::with(capped(PolicyKind::S3Fifo));
    let mut pinned = Object::new(1, CAP.0 - 100_000);
    pinned.pinned = true;
    rig.append(std::slice::from_ref(&pinned))[0]
        .as_ref()
        .unwrap();
    let error = rig
        .append(&[Object::new(2, 200_000)])
        .remove(0)
        .unwrap_err();
    assert_eq!(error.code(), Code::UnableOffloading);
    rig.append(&[Object::new(3, 90_000)])[0].as_ref().unwrap();
}

#[test]
fn a_lowered_cap_holds_soon_after_the_start() {
    let rig = Rig::with(Options {
        logical_cap: None,
        ..capped(PolicyKind::Lru)
    });
    let objects: Vec<_> = (1..=400).map(|t| Object::numbers(t, 90_000)).collect();
    rig.append(&objects).into_iter().for_each(|a| a.unwrap());
    assert!(rig.tier.stats().logical_bytes > 5 * CAP.0);
    let disk = rig.disk.kill(&mut Dice::new(0));
    let rig = Rig::on(disk, capped(PolicyKind::Lru)).unwrap();
    pollster::block_on(rig.tier.tend()).unwrap();
    let stats = rig.tier.stats();
    assert!(stats.logical_bytes <= CAP.0, "{stats:?}");
}

#[test]
fn a_cap_that_holds_nothing_is_refused() {
    let open = |cap| {
        let pool = Pool::new(4 << 20).expect("the machine has the memory");
        let disk = MemDisk::new(&pool, MemOptions::default());
        let options = Options {
            logical_cap: Some(ByteCount(cap)),
            ..options()
        };
        let clock = Arc::new(ManualClock::default());
        let opened = SsdTier::open(Arc::new(disk), clock, options, DirectoryId(1));
        pollster::block_on(opened).map(|_| ())
    };
    for cap in [0, 1, LOGICAL_CAP_MIN.0 - 1] {
        let error = open(cap).unwrap_err();
        assert_eq!(error.code(), Code::InvalidParams);
        assert!(error.what().contains("2MiB"), "{error}");
    }
    open(LOGICAL_CAP_MIN.0).unwrap();
}
