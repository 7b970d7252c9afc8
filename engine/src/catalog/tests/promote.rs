//! Back into memory: what is read often or wished for, how much at a time, at whose cost, and every way in which it ends.

use super::{
    MS, Rig,
    owner::{Owner, retired, rig},
};
use crate::{
    catalog::{Config, PromotionMode},
    command::{Effect, Force, Prefetch, Prefetched, Priority},
    ledger::{Change, Holding, Verdict},
};
use std::time::Duration;
use ziggurat_base::{ByteCount, Code, Era, SegmentId, Ticket, Timestamp};

const PAGE: u64 = 4096;
const WISH: Prefetch = Prefetch::Begin(Priority::Normal);
const UNDER_WAY: Result<Option<Prefetched>, Code> = Ok(Some(Prefetched::UnderWay));

fn config() -> Config {
    Config {
        high_watermark: 1.0,
        lease: Duration::from_millis(10),
        ..Config::default()
    }
}

/// A node with so many pages of memory and a directory.
fn node(config: Config, pages: u64) -> (Rig, Owner) {
    let mut rig = rig(config);
    let mut owner = Owner::join(&mut rig, 1, pages * PAGE);
    owner.snapshot(&mut rig);
    (rig, owner)
}

/// Objects that lie only on disk, each of a page: they were there before the memory.
fn on_disk(rig: &mut Rig, owner: &mut Owner, keys: &[&str]) -> Vec<Ticket> {
    let tickets = keys.iter().enumerate().map(|(number, key)| {
        let ticket = Ticket::new(Era(6), 1 + number as u32);
        assert!(owner.take_over(rig, key, ticket, PAGE));
        ticket
    });
    tickets.collect()
}

/// Puts an object that its owner takes over.
fn kept(rig: &mut Rig, owner: &mut Owner, key: &str) -> Ticket {
    let ticket = rig.put(key, PAGE);
    assert!(owner.take_over(rig, key, ticket, PAGE));
    ticket
}

/// The writes that effects ask for, with their versions.
fn promotions(effects: &[Effect]) -> Vec<(Ticket, Holding)> {
    let promotions = effects.iter().filter_map(|effect| match effect {
        Effect::Promote { write, holding, .. } => Some((*write, (**holding).clone())),
        _ => None,
    });
    promotions.collect()
}

fn asked(rig: &mut Rig) -> Vec<(Ticket, Holding)> {
    promotions(&rig.catalog.take_effects())
}

fn segments(rig: &mut Rig, key: &str) -> Vec<SegmentId> {
    let grant = rig.locate(key).unwrap().unwrap();
    rig.catalog.give_back(rig.now, &[grant.hold]);
    let targets = grant.replicas.as_slice().iter();
    targets.map(|t| t.placement.segment).collect()
}

/// Reads an object and lets its guard end.
fn read(rig: &mut Rig, key: &str) {
    segments(rig, key);
}

#[test]
fn what_is_read_again_comes_into_memory_and_leaves_it_without_being_written_again() {
    let (mut rig, mut owner) = node(config(), 2);
    let ticket = on_disk(&mut rig, &mut owner, &["a"])[0];
    rig.catalog.take_effects();
    read(&mut rig, "a");
    assert_eq!(asked(&mut rig), [], "once is not often");
    read(&mut rig, "a");
    let asked_for = asked(&mut rig);
    let [(write, holding)] = asked_for.as_slice() else {
        panic!("{asked_for:?}");
    };
    assert!(*write > ticket, "above everything that was in its place");
    assert_eq!(holding.version.ticket, ticket);
    let placement = holding.placement.clone().unwrap();
    assert_eq!(placement.segment, owner.memory);
    let stats = rig.catalog.stats();
    assert_eq!((stats.promoting, stats.promoting_bytes), (1, PAGE));
    assert_eq!(segments(&mut rig, "a"), [owner.space], "not yet");
    assert_eq!(asked(&mut rig), [], "it is under way");
    let verdicts = owner.change_memory(&mut rig, vec![Change::Copied(*write)]);
    assert_eq!(verdicts, [Verdict::Taken]);
    assert_eq!(segments(&mut rig, "a"), [owner.memory, owner.space]);
    let effects = rig.catalog.take_effects();
    let is_told = |e: &Effect| {
        matches!(e, Effect::Committed { holding, .. }
            if holding.version.ticket == ticket && holding.placement.as_ref() == Some(&placement))
    };
    assert!(effects.iter().any(is_told), "{effects:?}");
    let stats = rig.catalog.stats();
    assert_eq!(
        (stats.promoting, stats.promoted, stats.promoted_bytes),
        (0, 1, PAGE)
    );
    assert_eq!(stats.offloading, 0, "it is kept already");
    for key in ["b", "c"] {
        kept(&mut rig, &mut owner, key);
    }
    assert_eq!(rig.catalog.stats().demoted, 1);
    assert_eq!(segments(&mut rig, "a"), [owner.space]);
    assert_eq!(retired(&rig.catalog.take_effects()), [ticket]);
}

#[test]
fn often_is_within_a_time_and_can_be_turned_off() {
    let late = |promotion| Config {
        promotion,
        promotion_window: Duration::from_secs(1),
        ..config()
    };
    for (mode, after) in [
        (PromotionMode::Off, [0, 0, 0]),
        (PromotionMode::FirstHit, [1, 1, 1]),
        (PromotionMode::SecondHit, [0, 0, 1]),
    ] {
        let (mut rig, mut owner) = node(late(mode), 2);
        on_disk(&mut rig, &mut owner, &["a"]);
        let mut promoting = |ms| {
            rig.pass(ms);
            read(&mut rig, "a");
            rig.catalog.stats().promoting
        };
        assert_eq!(
            [promoting(0), promoting(2_000), promoting(900)],
            after,
            "{mode}"
        );
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert_eq!(
        "often".parse::<PromotionMode>().unwrap_err().code(),
        Code::InvalidParams
    );
}

#[test]
fn a_copy_ends_with_its_version_and_its_space_waits_for_the_fence() {
    let (mut rig, mut owner) = node(config(), 2);
    let ticket = on_disk(&mut rig, &mut owner, &["a"])[0];
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    let write = asked(&mut rig)[0].0;
    rig.remove("a", Force::Yes).unwrap();
    assert_eq!((rig.used(), rig.catalog.stats().promoting), (PAGE, 0));
    let new = rig.put("a", PAGE);
    let verdicts = owner.change_memory(&mut rig, vec![Change::Copied(write)]);
    assert_eq!(verdicts, [Verdict::Discard], "too late");
    assert_eq!(segments(&mut rig, "a"), [owner.memory]);
    assert_eq!(rig.locate("a").unwrap().unwrap().ticket, new);
    let effects = rig.catalog.take_effects();
    let fences = |e: &&Effect| matches!(e, Effect::Fence { ticket, .. } if *ticket == write);
    assert_eq!(effects.iter().filter(fences).count(), 1);
    assert_eq!(rig.used(), 2 * PAGE, "it may still be writing");
    rig.catalog.fenced(owner.member, write, owner.memory);
    assert_eq!(rig.used(), PAGE);
    assert!(new > ticket);
    assert_eq!(rig.catalog.stats().promotions_failed, 1);
}

#[test]
fn a_copy_that_fails_may_be_tried_again() {
    let (mut rig, mut owner) = node(config(), 2);
    on_disk(&mut rig, &mut owner, &["a"]);
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    let write = asked(&mut rig)[0].0;
    owner.change(&mut rig, vec![Change::NotCopied(write)]);
    assert_eq!(
        rig.catalog.stats().promoting,
        1,
        "not the word of that segment"
    );
    for _ in 0..2 {
        owner.change_memory(&mut rig, vec![Change::NotCopied(write)]);
    }
    assert_eq!(rig.fence_all(), 1);
    assert_eq!(rig.used(), 0);
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    let again = asked(&mut rig)[0].0;
    assert!(again > write);
    let verdicts =
        owner.change_memory(&mut rig, vec![Change::Copied(write), Change::Copied(again)]);
    assert_eq!(verdicts, [Verdict::Discard, Verdict::Taken]);
    let again = owner.change_memory(&mut rig, vec![Change::Copied(again)]);
    assert_eq!(again, [Verdict::Discard], "it is over");
    assert_eq!(rig.catalog.stats().promoted, 1);
}

#[test]
fn a_wish_is_answered_and_can_be_cancelled() {
    let (mut rig, mut owner) = node(config(), 4);
    on_disk(&mut rig, &mut owner, &["a", "b"]);
    let in_memory = rig.put("m", PAGE);
    let open = rig.granted("open", PAGE).ticket;
    rig.catalog.take_effects();
    assert_eq!(rig.prefetch("nothing", WISH), Ok(None));
    assert_eq!(rig.prefetch("open", WISH), Err(Code::ReplicaIsNotReady));
    for wish in [WISH, Prefetch::Cancel] {
        assert_eq!(rig.prefetch("m", wish), Ok(Some(Prefetched::InMemory)));
    }
    assert_eq!(
        rig.prefetch("a", Prefetch::Cancel),
        Ok(Some(Prefetched::Stopped))
    );
    for _ in 0..2 {
        assert_eq!(
            rig.prefetch("a", Prefetch::Begin(Priority::High)),
            UNDER_WAY
        );
    }
    let effects = rig.catalog.take_effects();
    let urgent = |e: &Effect| {
        matches!(
            e,
            Effect::Promote {
                priority: Some(Priority::High),
                ..
            }
        )
    };
    assert_eq!(
        effects.iter().filter(|e| urgent(e)).count(),
        1,
        "{effects:?}"
    );
    assert_eq!(
        rig.prefetch("a", Prefetch::Cancel),
        Ok(Some(Prefetched::Stopped))
    );
    let write = promotions(&effects)[0].0;
    let late = owner.change_memory(&mut rig, vec![Change::Copied(write)]);
    assert_eq!(late, [Verdict::Discard]);
    assert_eq!(rig.fence_all(), 1);
    assert_eq!(segments(&mut rig, "a"), [owner.space]);
    rig.catalog.revoke(&[open]);
    assert_eq!(rig.locate("m").unwrap().unwrap().ticket, in_memory);
}

#[test]
fn nothing_leaves_the_store_and_nothing_in_use_leaves_memory_for_a_copy() {
    let (mut rig, mut owner) = node(config(), 2);
    on_disk(&mut rig, &mut owner, &["a", "b", "c"]);
    rig.put("m", PAGE);
    kept(&mut rig, &mut owner, "n");
    let full = rig.prefetch("a", WISH);
    assert_eq!(
        full,
        Err(Code::NoAvailableHandle),
        "what would leave next is kept nowhere"
    );
    let m = rig.locate("m").unwrap().unwrap();
    rig.catalog.give_back(rig.now, &[m.hold]);
    let hold = rig.locate("n").unwrap().unwrap().hold;
    assert_eq!(rig.prefetch("a", WISH), Err(Code::NoAvailableHandle));
    assert_eq!(rig.catalog.stats().promotions_dropped, 2);
    assert!(owner.take_over(&mut rig, "m", m.ticket, PAGE));
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY, "now it is on SSD too");
    rig.catalog.give_back(rig.now, &[hold]);
    let stats = rig.catalog.stats();
    assert_eq!((stats.demoted, stats.evicted), (1, 0));
    for key in ["b", "b"] {
        read(&mut rig, key);
    }
    assert_eq!(
        rig.catalog.stats().promoting,
        1,
        "enough is on its way for one that nobody wished for"
    );
    assert_eq!(rig.catalog.stats().promotions_dropped, 3);
    assert_eq!(
        rig.start("x", 3 * PAGE).unwrap_err().code(),
        Code::NoAvailableHandle
    );
    rig.put("x", PAGE);
    let late = rig.start("y", 2 * PAGE).unwrap_err();
    assert_eq!(late.code(), Code::Backpressure, "a copy in the way ends");
}

#[test]
fn below_the_watermark_there_is_room_for_puts() {
    let half = Config {
        high_watermark: 0.5,
        evict_ratio: 0.0,
        ..config()
    };
    let (mut rig, mut owner) = node(half, 4);
    on_disk(&mut rig, &mut owner, &["a", "b", "c"]);
    for key in ["m", "n"] {
        kept(&mut rig, &mut owner, key);
    }
    rig.pass(1_000);
    assert_eq!(rig.used(), 2 * PAGE);
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    let stats = rig.catalog.stats();
    assert_eq!((stats.used, stats.demoted), (2 * PAGE, 1), "one for one");
}

#[test]
fn what_is_under_way_is_bounded() {
    let small = Config {
        promotion_budget: ByteCount(4 * PAGE),
        ..config()
    };
    let keys = ["a", "b", "c", "d", "e", "f", "g"];
    let (mut rig, mut owner) = node(small, 64);
    on_disk(&mut rig, &mut owner, &keys);
    for key in keys {
        (0..2).for_each(|_| read(&mut rig, key));
    }
    assert_eq!(rig.catalog.stats().promoting, 2, "half of it");
    assert_eq!(rig.prefetch("c", WISH), UNDER_WAY);
    assert_eq!(rig.prefetch("d", WISH), UNDER_WAY);
    assert_eq!(rig.prefetch("e", WISH), Err(Code::Backpressure));
    let write = asked(&mut rig)[0].0;
    owner.change_memory(&mut rig, vec![Change::Copied(write)]);
    assert_eq!(
        rig.prefetch("e", WISH),
        UNDER_WAY,
        "as soon as one has arrived"
    );
    let none = Config {
        promotion_budget: ByteCount(0),
        ..config()
    };
    let (mut rig, mut owner) = node(none, 64);
    on_disk(&mut rig, &mut owner, &keys);
    (0..2).for_each(|_| read(&mut rig, "a"));
    assert_eq!(rig.catalog.stats().promotions_dropped, 0);
    assert_eq!(rig.prefetch("a", WISH), Err(Code::UnavailableInCurrentMode));
    let (mut rig, mut owner) = node(config(), 2);
    on_disk(&mut rig, &mut owner, &["a"]);
    (0..2).for_each(|_| read(&mut rig, "a"));
    assert_eq!(
        rig.catalog.stats().promoting,
        1,
        "one may be larger than the bound"
    );
}

#[test]
fn a_version_comes_back_when_its_owner_has_forgotten_its_last_stay() {
    let (mut rig, mut owner) = node(config(), 2);
    let ticket = kept(&mut rig, &mut owner, "a");
    for key in ["b", "c"] {
        kept(&mut rig, &mut owner, key);
    }
    assert_eq!(rig.prefetch("a", WISH), Err(Code::Backpressure));
    owner.forget_memory(&mut rig, &[ticket]);
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    let write = asked(&mut rig)[0].0;
    owner.change_memory(&mut rig, vec![Change::Copied(write)]);
    rig.remove("a", Force::Yes).unwrap();
    assert_eq!(
        retired(&rig.catalog.attach(owner.member)).len(),
        2,
        "a and what gave way to it"
    );
}

#[test]
fn an_owner_is_asked_until_it_answers_and_given_up_in_the_end() {
    let (mut rig, mut owner) = node(config(), 4);
    on_disk(&mut rig, &mut owner, &["a", "b"]);
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    let first = asked(&mut rig);
    assert_eq!(promotions(&rig.catalog.attach(owner.member)), first);
    rig.pass(600_000);
    assert_eq!(rig.catalog.stats().promoting, 0);
    assert_eq!(promotions(&rig.catalog.attach(owner.member)), []);
    assert_eq!(rig.fence_all(), 1);
    assert_eq!(rig.used(), 0);
    assert_eq!(rig.prefetch("b", WISH), UNDER_WAY);
    let unmounted = rig
        .catalog
        .unmount(rig.now, owner.member, owner.memory, Duration::ZERO);
    unmounted.unwrap();
    assert_eq!(
        rig.prefetch("a", WISH),
        Err(Code::NoAvailableHandle),
        "its memory takes nothing"
    );
    rig.pass(1);
    assert_eq!((rig.catalog.stats().promoting, rig.used()), (0, 0));
    owner.rejoin(&mut rig, 4 * PAGE);
    owner.snapshot(&mut rig);
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    rig.catalog.leave(owner.member);
    rig.now = Timestamp(rig.now.0 + MS);
    rig.pass(1);
    let stats = rig.catalog.stats();
    assert_eq!((stats.promoting, stats.objects, stats.used), (0, 0, 0));
}

#[test]
fn a_copy_of_what_its_owner_lost_ends() {
    let (mut rig, mut owner) = node(config(), 4);
    on_disk(&mut rig, &mut owner, &["a"]);
    assert_eq!(rig.prefetch("a", WISH), UNDER_WAY);
    let (write, holding) = asked(&mut rig).remove(0);
    owner.change(&mut rig, vec![Change::Gone(holding.version)]);
    assert_eq!(rig.locate("a"), Ok(None));
    let late = owner.change_memory(&mut rig, vec![Change::Copied(write)]);
    assert_eq!(late, [Verdict::Discard]);
    assert_eq!((rig.fence_all(), rig.used()), (1, 0));
}
