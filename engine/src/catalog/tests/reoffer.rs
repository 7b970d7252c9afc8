//! Memory that outlives the partition: what comes back, what must not, and what is promised when nobody keeps records.

use super::{
    Rig, TENANT,
    owner::{Owner, holding, next_life},
};
use crate::{
    catalog::{Config, Matcher, Retiring},
    command::{Force, ScanAction, Stock},
    ledger::{Change, Holding, Verdict},
    record::Record,
};
use ziggurat_base::{Code, Extent, Extents, Placement, Ticket};

const MEMORY: u64 = 1 << 20;

/// Whether somebody keeps records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Records {
    Kept,
    None,
}

fn config() -> Config {
    Config {
        high_watermark: 1.0,
        ..Config::default()
    }
}

/// A partition and a node that offers its memory to the next one.
fn rig(records: Records) -> (Rig, Owner) {
    let mut rig = Rig::new(config(), &[]);
    if records == Records::Kept {
        rig.catalog.absorb([]);
    }
    rig.catalog.expect_memory(rig.now);
    let mut owner = Owner::blank(1);
    owner.come(&mut rig, MEMORY, Stock::Fresh);
    owner.snapshot_memory(&mut rig);
    // Nobody of an earlier life is left.
    rig.pass(11_000);
    (rig, owner)
}

/// Puts an object; what its owner is told of it.
fn put(rig: &mut Rig, key: &str, len: u64) -> Holding {
    let grant = rig.granted(key, len);
    rig.end(grant.ticket).unwrap();
    Holding {
        placement: Some(grant.targets.as_slice()[0].placement.clone()),
        stored_len: len,
        ..holding(key, grant.ticket, len)
    }
}

/// The partition ends, and another one begins with what was kept of it.
fn restart(rig: &mut Rig, records: Records) {
    let kept: Vec<Record> = rig.catalog.take_records();
    assert!(records == Records::Kept || kept.is_empty());
    match records {
        Records::Kept => next_life(rig, kept),
        Records::None => {
            let now = rig.now;
            *rig = Rig::new(config(), &[]);
            rig.catalog.raise_era(ziggurat_base::Era(9));
            rig.now = now;
        }
    }
    rig.catalog.expect_memory(rig.now);
}

/// Comes again with what it holds; what is refused is not held any more.
fn offer(rig: &mut Rig, owner: &mut Owner, held: &[Holding]) -> Vec<Verdict> {
    owner.come(rig, MEMORY, Stock::Held);
    owner.offer_memory(rig, held.to_vec())
}

fn waits(rig: &mut Rig) -> Vec<Ticket> {
    let waits = rig.catalog.take_waits();
    waits.into_iter().map(|waiting| waiting.ticket).collect()
}

#[test]
fn what_lies_in_memory_is_readable_again_where_it_lies() {
    for records in [Records::Kept, Records::None] {
        let (mut rig, mut owner) = rig(records);
        let lens = [0, 1, 4096, 70_000, 300_000];
        let held: Vec<_> = lens
            .iter()
            .map(|len| put(&mut rig, &format!("k{len}"), *len))
            .collect();
        let used = rig.catalog.stats().used;
        restart(&mut rig, records);
        owner.come(&mut rig, MEMORY, Stock::Held);
        let refused = rig.start("new", 10).unwrap_err();
        assert_eq!(
            refused.code(),
            Code::Backpressure,
            "nothing is allocated yet"
        );
        assert_eq!(
            owner.offer_memory(&mut rig, held.clone()),
            vec![Verdict::Taken; lens.len()]
        );
        assert_eq!(rig.catalog.stats().used, used);
        for (holding, len) in held.iter().zip(lens) {
            let grant = rig.locate(&format!("k{len}")).unwrap().unwrap();
            let target = &grant.replicas.as_slice()[0];
            let before = holding.placement.as_ref().unwrap();
            assert_eq!((grant.ticket, grant.len), (holding.version.ticket, len));
            assert_eq!(target.placement.segment, owner.memory);
            assert_eq!(target.placement.extents, before.extents);
            rig.catalog.give_back(rig.now, &[grant.hold]);
        }
        // The rest of the memory takes new objects, and what came back can be removed.
        put(&mut rig, "new", 100_000);
        for len in lens {
            rig.remove(&format!("k{len}"), Force::Yes).unwrap();
        }
        rig.remove("new", Force::Yes).unwrap();
        rig.pass(20_000);
        assert_eq!(rig.catalog.stats().used, 0);
    }
}

#[test]
fn a_removal_that_no_owner_has_heard_of_is_durable() {
    let (mut rig, mut owner) = rig(Records::Kept);
    let held = [put(&mut rig, "dead", 100), put(&mut rig, "alive", 100)];
    rig.remove("dead", Force::No).unwrap();
    assert_eq!(waits(&mut rig), [], "the record is enough");
    restart(&mut rig, Records::Kept);
    let verdicts = offer(&mut rig, &mut owner, &held);
    assert_eq!(verdicts, [Verdict::Discard, Verdict::Taken]);
    assert_eq!(rig.locate("dead").unwrap(), None);
    assert_eq!(rig.catalog.stats().debts, 1);
    rig.pass(11_000);
    assert_eq!(
        rig.catalog.stats().debts,
        0,
        "nobody is left who may offer it"
    );
}

#[test]
fn an_acknowledged_removal_owes_nothing() {
    let (mut rig, mut owner) = rig(Records::Kept);
    let dead = put(&mut rig, "dead", 100);
    rig.remove("dead", Force::No).unwrap();
    assert_eq!(rig.catalog.stats().debts, 1);
    owner.forget_memory(&mut rig, &[dead.version.ticket]);
    assert_eq!(rig.catalog.stats().debts, 0);
}

#[test]
fn without_records_a_removal_waits_for_its_owners() {
    let (mut rig, mut owner) = rig(Records::None);
    let dead = put(&mut rig, "dead", 100).version.ticket;
    rig.remove("dead", Force::No).unwrap();
    let segment = owner.memory;
    let retiring = Retiring {
        segment,
        ticket: dead,
    };
    assert_eq!(rig.catalog.take_waits(), [retiring]);
    // Who finds nothing is told so no earlier.
    assert_eq!(rig.remove("dead", Force::No), Err(Code::ObjectNotFound));
    assert_eq!(waits(&mut rig), [dead]);
    // Neither is who puts it anew.
    put(&mut rig, "dead", 100);
    assert_eq!(waits(&mut rig), [dead]);
    assert!(rig.catalog.is_retiring(&retiring));
    owner.forget_memory(&mut rig, &[dead]);
    assert!(!rig.catalog.is_retiring(&retiring));
    rig.remove("other", Force::No).unwrap_err();
    assert_eq!(waits(&mut rig), []);
    // The memory of an owner that is gone is waited for by nobody.
    rig.remove("dead", Force::Yes).unwrap();
    let waits = rig.catalog.take_waits();
    rig.catalog.leave(owner.member);
    assert!(waits.iter().all(|w| !rig.catalog.is_retiring(w)) && waits.len() == 1);
}

#[test]
fn what_the_next_life_has_removed_or_put_before_does_not_come_back() {
    for records in [Records::Kept, Records::None] {
        let (mut rig, mut owner) = rig(records);
        let keys = ["removed", "left", "put"];
        let held = keys.map(|key| put(&mut rig, key, 100));
        restart(&mut rig, records);
        let mut other = Owner::blank(2);
        other.come(&mut rig, MEMORY, Stock::Fresh);
        other.snapshot_memory(&mut rig);
        assert_eq!(rig.remove("removed", Force::No), Err(Code::ObjectNotFound));
        let new = put(&mut rig, "put", 100).version.ticket;
        assert_eq!(offer(&mut rig, &mut owner, &held[..1]), [Verdict::Discard]);
        owner.come(&mut rig, MEMORY, Stock::Held);
        let verdicts = owner.offer_memory(&mut rig, held[1..].to_vec());
        assert_eq!(verdicts, [Verdict::Taken, Verdict::Discard]);
        let found = rig.locate("put").unwrap().unwrap();
        assert_eq!(found.ticket, new);
    }
}

#[test]
fn a_removal_of_everything_covers_memory_that_is_away() {
    for records in [Records::Kept, Records::None] {
        let (mut rig, mut owner) = rig(records);
        let held = [put(&mut rig, "a", 100)];
        restart(&mut rig, records);
        let all = Matcher::new("").unwrap();
        let (at, action) = (rig.catalog.scan_start(), ScanAction::Remove(Force::Yes));
        rig.catalog.scan(rig.now, TENANT, &all, action, at);
        assert_eq!(offer(&mut rig, &mut owner, &held), [Verdict::Discard]);
    }
}

#[test]
fn memory_comes_back_only_for_as_long_as_it_is_expected() {
    let (mut rig, mut owner) = rig(Records::Kept);
    let held = [put(&mut rig, "a", 100)];
    restart(&mut rig, Records::Kept);
    rig.pass(11_000);
    assert_eq!(offer(&mut rig, &mut owner, &held), [Verdict::Discard]);
    put(&mut rig, "b", 100);
    assert_eq!(
        rig.catalog.stats().key_debts,
        0,
        "nothing is remembered of puts any more"
    );
}

#[test]
fn a_placement_that_cannot_be_is_refused() {
    let (mut rig, mut owner) = rig(Records::Kept);
    let good = put(&mut rig, "good", 5000);
    restart(&mut rig, Records::Kept);
    owner.come(&mut rig, MEMORY, Stock::Held);
    let at = |key: &str, extent, check| Holding {
        placement: Some(Placement {
            segment: owner.memory,
            extents: Extents::One(extent),
            check,
        }),
        ..holding(key, good.version.ticket, 5000)
    };
    let here = good.placement.clone().unwrap().extents.as_slice()[0];
    let bad = vec![
        at("outside", Extent::new(MEMORY, 5000), None),
        at("short", Extent::new(0, 4999), None),
        at("crooked", Extent::new(1, 5000), None),
        at("table", Extent::new(0, 5000), Some(Extent::new(8192, 4))),
        at("unissued", Extent::new(8192, 5000), None),
    ];
    let mut offered = vec![at("good", here, None)];
    offered.extend(bad);
    offered[5].version.ticket = Ticket(u64::MAX);
    // The space of the first.
    offered.push(at("over", here, None));
    // Another version of a key that is there.
    let mut other = at("good", Extent::new(65_536, 5000), None);
    other.version.ticket = Ticket(good.version.ticket.0 - 1);
    offered.push(other);
    let mut expected = vec![Verdict::Discard; offered.len()];
    expected[0] = Verdict::Taken;
    assert_eq!(owner.offer_memory(&mut rig, offered), expected);
    assert_eq!(rig.catalog.stats().objects, 1);
}

#[test]
fn a_version_in_memory_and_on_disk_has_both_replicas_again() {
    let (mut rig, mut owner) = rig(Records::Kept);
    owner.mount(&mut rig).unwrap();
    owner.snapshot(&mut rig);
    let held = put(&mut rig, "a", 100);
    let ticket = held.version.ticket;
    assert!(owner.take_over(&mut rig, "a", ticket, 100));
    restart(&mut rig, Records::Kept);
    owner.come(&mut rig, MEMORY, Stock::Held);
    owner.mount(&mut rig).unwrap();
    owner.told = (0, 0);
    owner.snapshot(&mut rig);
    assert_eq!(owner.offer_memory(&mut rig, vec![held]), [Verdict::Taken]);
    let grant = rig.locate("a").unwrap().unwrap();
    let segments: Vec<_> = grant
        .replicas
        .as_slice()
        .iter()
        .map(|t| t.placement.segment)
        .collect();
    assert_eq!(
        segments,
        [owner.memory, owner.space],
        "memory is read first"
    );
}

#[test]
fn a_removal_owes_nothing_to_memory_that_is_lost() {
    let (mut rig, mut owner) = rig(Records::Kept);
    owner.mount(&mut rig).unwrap();
    owner.snapshot(&mut rig);
    let ticket = put(&mut rig, "a", 100).version.ticket;
    assert!(owner.take_over(&mut rig, "a", ticket, 100));
    // Another process of the same node: its memory is empty, its directory is not.
    let before = owner.member;
    owner.come(&mut rig, MEMORY, Stock::Fresh);
    rig.catalog.leave(before);
    owner.mount(&mut rig).unwrap();
    owner.told = (0, 0);
    assert_eq!(owner.snapshot(&mut rig), [Verdict::Taken]);
    rig.remove("a", Force::No).unwrap();
    assert_eq!(rig.catalog.stats().debts, 1, "that of the directory");
    owner.change(&mut rig, vec![Change::Forgotten(ticket)]);
    assert_eq!(rig.catalog.stats().debts, 0);
}

#[test]
fn a_removal_while_an_owner_still_tells_its_memory_lasts() {
    let (mut rig, mut owner) = rig(Records::Kept);
    let held = [put(&mut rig, "a", 100)];
    restart(&mut rig, Records::Kept);
    rig.pass(9_000);
    owner.come(&mut rig, MEMORY, Stock::Held);
    // The time for memory to come is over, and the owner has not told its own yet.
    rig.pass(2_000);
    assert!(rig.remove("a", Force::No).is_err(), "nobody knows of it");
    restart(&mut rig, Records::Kept);
    assert_eq!(offer(&mut rig, &mut owner, &held), [Verdict::Discard]);
}
