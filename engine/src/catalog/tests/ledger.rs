//! Segments that their owners allocate: mounting, the order of a ledger, adoption, debts, and what eviction may do.

use super::{
    Rig,
    owner::{Owner, discards, holding, next_life, retired, rig},
};
use crate::{
    catalog::{Config, Matcher, OffloadMode},
    command::{BATCH_MAX, Effect, Force, PutAnswer, ScanAction, Stock, Wish},
    ledger::{Change, LedgerBatch, Verdict},
    record::{Cause, Record},
};
use std::time::Duration;
use ziggurat_base::{Code, Era, Ticket};

const PAGE: u64 = 4096;

fn unkept() -> Config {
    Config {
        offload: OffloadMode::Off,
        high_watermark: 1.0,
        ..Config::default()
    }
}

#[test]
fn owned_space_is_never_used_for_placement() {
    let mut rig = rig(unkept());
    let owner = Owner::join(&mut rig, 1, PAGE);
    let wish = Wish {
        replicas: 3,
        preferred: vec![format!("directory-{}", owner.directory).into()],
        ..Wish::default()
    };
    for len in [0, 10] {
        let key = format!("k{len}");
        let PutAnswer::Granted(grant) = rig.start_wish(&key, len, &wish).unwrap() else {
            panic!("{key} is new");
        };
        let segments: Vec<_> = grant.targets.as_slice().iter().collect();
        assert_eq!(segments.len(), 1);
        assert_eq!(segments[0].placement.segment, owner.memory);
    }
    let stats = rig.catalog.stats();
    assert_eq!((stats.capacity, stats.owned_capacity), (PAGE, 1 << 30));
}

#[test]
fn without_a_keeper_of_records_owned_space_is_refused() {
    let mut rig = Rig::new(unkept(), &[]);
    let mut owner = Owner {
        member: rig.node,
        ..Owner::blank(1)
    };
    let refused = owner.mount(&mut rig).unwrap_err();
    assert_eq!(refused.code(), Code::UnavailableInCurrentMode);
    assert!(refused.what().contains("--state-dir"), "{refused}");
}

#[test]
fn a_later_member_takes_a_directory_over_and_an_earlier_one_is_refused() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 10);
    assert!(owner.take_over(&mut rig, "a", ticket, 10));
    let (first, old_space) = (owner.member, owner.space);
    assert!(owner.mount(&mut rig).is_ok(), "a repeated mount");
    assert_eq!(owner.space, old_space, "finds the segment that is there");
    owner.rejoin(&mut rig, 1 << 20);
    assert_ne!(owner.space, old_space);
    assert!(
        rig.catalog.ping(rig.now, first).is_ok(),
        "only the segment is lost"
    );
    let mut late = Owner {
        member: first,
        ..Owner::blank(1)
    };
    let refused = late.mount(&mut rig).unwrap_err();
    assert_eq!(refused.code(), Code::SegmentAlreadyExists);
    assert_eq!(owner.snapshot(&mut rig), [Verdict::Taken]);
    rig.pass(10);
    rig.catalog.leave(first);
    rig.pass(10);
    let got = rig.locate("a").unwrap().unwrap();
    assert_eq!(got.replicas.as_slice()[0].placement.segment, owner.space);
    assert_eq!(rig.catalog.stats().owned_used, 512, "charged once");
}

#[test]
fn the_same_version_becomes_a_replica_behind_those_in_memory() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    for (key, len) in [("small", 100), ("large", 200_000)] {
        let ticket = rig.put(key, len);
        assert!(owner.take_over(&mut rig, key, ticket, len));
        assert!(owner.take_over(&mut rig, key, ticket, len), "again");
        let got = rig.locate(key).unwrap().unwrap();
        let targets = got.replicas.as_slice();
        assert_eq!(targets.len(), 2);
        assert_eq!(targets[0].placement.segment, owner.memory);
        let kept = &targets[1].placement;
        assert_eq!((kept.segment, kept.check), (owner.space, None));
        assert_eq!(
            kept.extents.as_slice(),
            [ziggurat_base::Extent::new(0, len)]
        );
    }
    let segments = rig.catalog.segments();
    let kept = segments.iter().find(|s| s.id == owner.space).unwrap();
    assert_eq!((kept.used.0, kept.replicas), (512 + 200_192, 2));
}

#[test]
fn other_versions_of_a_known_key_are_discarded() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 10);
    let mut lie = |holding| owner.change(&mut rig, vec![Change::Present(holding)]);
    assert_eq!(
        lie(holding("a", Ticket(ticket.0 - 1), 10)),
        [Verdict::Discard]
    );
    assert_eq!(lie(holding("a", ticket, 11)), [Verdict::Discard], "length");
    let unborn = Ticket(rig.catalog.newest_ticket().0 + 1);
    let mut lie = |holding| owner.change(&mut rig, vec![Change::Present(holding)]);
    assert_eq!(lie(holding("b", unborn, 10)), [Verdict::Discard]);
    assert_eq!(rig.locate("b").unwrap(), None);
}

#[test]
fn an_open_write_wins_over_an_older_version() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.begin(&mut rig);
    let open = rig.granted("a", 10);
    let older = holding("a", Ticket::new(Era(6), 5), 10);
    assert_eq!(owner.page(&mut rig, 0, vec![older]), [Verdict::Discard]);
    owner.commit(&mut rig);
    rig.end(open.ticket).unwrap();
    assert_eq!(rig.locate("a").unwrap().unwrap().ticket, open.ticket);
}

#[test]
fn an_absent_key_is_adopted_and_readable_before_the_snapshot_ends() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.begin(&mut rig);
    let ticket = Ticket::new(Era(6), 5);
    let verdicts = owner.page(&mut rig, 0, vec![holding("a", ticket, 100_000)]);
    assert_eq!(verdicts, [Verdict::Taken]);
    let got = rig.locate("a").unwrap().unwrap();
    assert_eq!((got.ticket, got.len), (ticket, 100_000));
    assert_eq!(rig.start("a", 5).unwrap(), PutAnswer::Existed);
    assert_eq!(rig.catalog.stats().adopted, 1);
}

#[test]
fn a_committed_snapshot_drops_what_it_did_not_name() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    let old = |serial| Ticket::new(Era(6), serial);
    for serial in 1..=20 {
        let key = format!("k{serial}");
        owner
            .disk
            .insert(old(serial), holding(&key, old(serial), 10));
    }
    owner.snapshot(&mut rig);
    let in_memory = rig.put("both", 10);
    assert!(owner.take_over(&mut rig, "both", in_memory, 10));
    owner
        .disk
        .retain(|ticket, _| ticket.serial() % 2 == 0 && *ticket != in_memory);
    owner.begin(&mut rig);
    assert!(rig.exist("k1") && rig.exist("k2"), "until it is committed");
    let named: Vec<_> = owner.disk.values().cloned().collect();
    assert!(
        owner
            .page(&mut rig, 0, named)
            .iter()
            .all(|v| *v == Verdict::Taken)
    );
    // An attempt that comes to nothing, and a second one.
    owner.begin(&mut rig);
    let named: Vec<_> = owner.disk.values().cloned().collect();
    owner.page(&mut rig, 0, named);
    owner.commit(&mut rig);
    assert!(!rig.exist("k1") && rig.exist("k2"));
    let got = rig.locate("both").unwrap().unwrap();
    assert_eq!(got.replicas.as_slice().len(), 1, "in memory only");
    rig.pass(100);
    let stats = rig.catalog.stats();
    assert_eq!((stats.owned_replicas, stats.owned_used), (10, 5120));
    assert_eq!(rig.catalog.segments().len(), 2);
}

#[test]
fn a_ledger_takes_repetitions_and_refuses_gaps() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    let refused = |owner: &Owner, rig: &mut Rig, batch| {
        let segment = owner.space;
        assert_eq!(
            owner.tell(rig, segment, &batch),
            Err(Code::LedgerOutOfOrder)
        );
    };
    let begin = LedgerBatch::Begin { generation: 3 };
    let page = |generation, number, serial| LedgerBatch::Page {
        generation,
        number,
        holdings: vec![holding("a", Ticket::new(Era(6), serial), 10)],
    };
    let commit = |generation| LedgerBatch::Commit {
        generation,
        sequence: 7,
    };
    let delta = |after| LedgerBatch::Delta {
        generation: 3,
        after,
        changes: vec![Change::Forgotten(Ticket(1)), Change::Forgotten(Ticket(2))],
    };
    refused(&owner, &mut rig, page(3, 0, 1));
    refused(&owner, &mut rig, commit(3));
    for batch in [begin, page(3, 0, 1), page(3, 1, 1)] {
        let first = owner.tell(&mut rig, owner.space, &batch).unwrap();
        assert_eq!(owner.tell(&mut rig, owner.space, &batch), Ok(first));
    }
    refused(&owner, &mut rig, page(3, 0, 1));
    refused(&owner, &mut rig, page(3, 3, 1));
    refused(&owner, &mut rig, page(3, 1, 2));
    refused(&owner, &mut rig, commit(2));
    refused(&owner, &mut rig, delta(7));
    for batch in [commit(3), delta(7), delta(9)] {
        let first = owner.tell(&mut rig, owner.space, &batch).unwrap();
        assert_eq!(owner.tell(&mut rig, owner.space, &batch), Ok(first));
    }
    refused(&owner, &mut rig, delta(7));
    refused(&owner, &mut rig, delta(12));
    refused(&owner, &mut rig, LedgerBatch::Begin { generation: 3 });
    owner.told.0 = 3;
    owner.begin(&mut rig);
    let long = LedgerBatch::Page {
        generation: 4,
        number: 0,
        holdings: vec![holding("a", Ticket(1), 1); 513],
    };
    let too_long = owner.tell(&mut rig, owner.space, &long);
    assert_eq!(too_long, Err(Code::InvalidParams));
    let stranger = Owner {
        member: rig.writer,
        ..Owner::blank(1)
    };
    let begin = LedgerBatch::Begin { generation: 9 };
    let foreign = stranger.tell(&mut rig, owner.space, &begin);
    assert_eq!(foreign, Err(Code::IllegalClient));
}

#[test]
fn a_removal_leaves_a_debt_that_outlives_the_partition_until_it_is_paid() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 10);
    assert!(owner.take_over(&mut rig, "a", ticket, 10));
    let mut records = rig.catalog.take_records();
    rig.catalog.take_effects();
    rig.remove("a", Force::No).unwrap();
    let debt = rig.catalog.take_records();
    let directory = owner.directory;
    assert_eq!(debt, [Record::Debt { directory, ticket }]);
    records.extend(debt);
    assert_eq!(discards(&rig.catalog.take_effects()), [ticket]);
    assert_eq!(
        discards(&rig.catalog.attach(owner.member)),
        [ticket],
        "again"
    );
    next_life(&mut rig, records);
    owner.rejoin(&mut rig, 1 << 20);
    assert_eq!(owner.snapshot(&mut rig), [Verdict::Discard]);
    assert_eq!(rig.locate("a").unwrap(), None);
    rig.pass(1);
    assert_eq!(
        rig.catalog.stats().debts,
        1,
        "it was named, so it is still there"
    );
    rig.catalog.take_records();
    owner.change(&mut rig, vec![Change::Forgotten(ticket)]);
    let paid = rig.catalog.take_records();
    assert_eq!(paid, [Record::DebtPaid { directory, ticket }]);
}

#[test]
fn after_the_first_snapshot_its_owner_is_asked_for_debts_from_before_it() {
    let mut rig = rig(unkept());
    let directory = ziggurat_base::DirectoryId(1);
    let debt = |serial| Record::Debt {
        directory,
        ticket: Ticket::new(Era(6), serial),
    };
    next_life(&mut rig, (1..=700).map(debt));
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    let ticket = Ticket::new(Era(6), 5);
    owner.disk.insert(ticket, holding("a", ticket, 10));
    assert_eq!(owner.snapshot(&mut rig), [Verdict::Discard]);
    rig.catalog.take_effects();
    rig.pass(1);
    assert_eq!(rig.catalog.stats().debts, 700, "it has not said so");
    let asked = discards(&rig.catalog.take_effects());
    let all = (1..=700).map(|serial| Ticket::new(Era(6), serial));
    let others: Vec<_> = all.filter(|other| *other != ticket).collect();
    assert_eq!(asked, others, "what it named it was told at once");
    for some in others.chunks(BATCH_MAX) {
        let told = some.iter().map(|ticket| Change::Forgotten(*ticket));
        owner.change(&mut rig, told.collect());
    }
    assert_eq!(rig.catalog.stats().debts, 1);
    let later = rig.put("b", 10);
    rig.remove("b", Force::No).unwrap();
    owner.snapshot(&mut rig);
    rig.pass(1);
    let unforgotten: Vec<_> = discards(&rig.catalog.attach(owner.member));
    assert_eq!(unforgotten, [ticket, later], "something may be on its way");
}

#[test]
fn what_was_removed_or_put_anew_while_its_directory_was_away_stays_dead() {
    for how in ["removed", "put anew", "removed by all", "lost and removed"] {
        let mut rig = rig(unkept());
        let mut owner = Owner::join(&mut rig, 1, 1 << 20);
        let mut other = Owner::join(&mut rig, 2, 1 << 20);
        for _ in 0..2 {
            owner.snapshot(&mut rig);
            other.snapshot(&mut rig);
        }
        let dead = Ticket::new(Era(6), 5);
        owner.disk.insert(dead, holding("a", dead, 10));
        owner
            .disk
            .insert(Ticket(dead.0 + 1), holding("b", Ticket(dead.0 + 1), 10));
        owner.snapshot(&mut rig);
        rig.catalog.leave(owner.member);
        match how {
            "lost and removed" => assert_eq!(rig.remove("a", Force::No), Err(Code::ObjectNotFound)),
            _ => rig.pass(10),
        }
        assert_eq!(rig.locate("a").unwrap(), None);
        match how {
            "put anew" => {
                rig.put("a", 20);
                rig.catalog.leave(other.member);
                rig.pass(10);
            }
            "removed by all" => {
                let all = Matcher::new("").unwrap();
                let at = rig.catalog.scan_start();
                let action = ScanAction::Remove(Force::Yes);
                rig.catalog.scan(rig.now, super::TENANT, &all, action, at);
            }
            _ => assert_eq!(rig.remove("a", Force::No), Err(Code::ObjectNotFound)),
        }
        let records = rig.catalog.take_records();
        assert!(!records.is_empty());
        next_life(&mut rig, records);
        owner.rejoin(&mut rig, 1 << 20);
        let verdicts = owner.snapshot(&mut rig);
        assert_eq!(verdicts[0], Verdict::Discard, "{how}");
        let spared = how != "removed by all";
        assert_eq!(verdicts[1] == Verdict::Taken, spared, "{how}");
        assert_eq!(rig.locate("a").unwrap(), None, "{how}");
        assert_eq!(rig.exist("b"), spared, "{how}");
    }
}

#[test]
fn what_a_floor_covers_is_asked_for_until_it_is_forgotten() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    rig.catalog.leave(owner.member);
    let all = Matcher::new("").unwrap();
    let at = rig.catalog.scan_start();
    let action = ScanAction::Remove(Force::Yes);
    rig.catalog.scan(rig.now, super::TENANT, &all, action, at);
    owner.rejoin(&mut rig, 1 << 20);
    let dead = Ticket::new(Era(6), 5);
    owner.disk.insert(dead, holding("a", dead, 10));
    assert_eq!(owner.snapshot(&mut rig), [Verdict::Discard]);
    let _lost_on_the_way = rig.catalog.take_effects();
    assert_eq!(discards(&rig.catalog.attach(owner.member)), [dead]);
    owner.change(&mut rig, vec![Change::Forgotten(dead)]);
    assert_eq!(discards(&rig.catalog.attach(owner.member)), []);
    assert_eq!(rig.catalog.stats().debts, 0);
}

#[test]
fn a_floor_refuses_nothing_that_is_readable() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 10);
    assert!(owner.take_over(&mut rig, "a", ticket, 10));
    owner.begin(&mut rig);
    let other = Matcher::new("^other").unwrap();
    let at = rig.catalog.scan_start();
    let action = ScanAction::Remove(Force::Yes);
    rig.catalog.scan(rig.now, super::TENANT, &other, action, at);
    let held: Vec<_> = owner.disk.values().cloned().collect();
    assert_eq!(owner.page(&mut rig, 0, held), [Verdict::Taken]);
    owner.commit(&mut rig);
    assert_eq!(rig.catalog.stats().owned_replicas, 1);
}

#[test]
fn debts_of_keys_end_when_every_directory_has_told_what_it_holds() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    rig.put("a", 10);
    assert_eq!(rig.catalog.stats().key_debts, 1, "nothing is known of it");
    owner.snapshot(&mut rig);
    assert_eq!(rig.catalog.stats().key_debts, 0);
    assert!(rig.catalog.take_records().contains(&Record::AbsencePaid));
    rig.put("b", 10);
    rig.remove("nothing", Force::No).unwrap_err();
    assert_eq!(rig.catalog.take_records(), []);
}

#[test]
fn what_a_removing_scan_passed_does_not_come_back_behind_it() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    for serial in 1..=900 {
        let ticket = Ticket::new(Era(6), serial);
        let new = holding(&format!("k{serial}"), ticket, 10);
        owner.disk.insert(ticket, new);
    }
    owner.begin(&mut rig);
    let all: Vec<_> = owner.disk.values().cloned().collect();
    owner.page(&mut rig, 0, all[..450].to_vec());
    owner.page(&mut rig, 1, all[450..].to_vec());
    owner.commit(&mut rig);
    let matcher = Matcher::new("").unwrap();
    let at = rig.catalog.scan_start();
    let action = ScanAction::Remove(Force::Yes);
    let page = rig
        .catalog
        .scan(rig.now, super::TENANT, &matcher, action, at);
    let next = page.next.unwrap();
    // Away and back between two turns.
    owner.rejoin(&mut rig, 1 << 20);
    owner.begin(&mut rig);
    let verdicts = owner.page(&mut rig, 0, all[..450].to_vec());
    assert!(verdicts.iter().all(|v| *v == Verdict::Discard));
    owner.commit(&mut rig);
    rig.catalog
        .scan(rig.now, super::TENANT, &matcher, action, next);
    rig.pass(1);
    assert_eq!(rig.catalog.stats().objects, 0);
}

#[test]
fn a_removing_scan_removes_what_is_lost_and_not_swept_yet() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 10);
    assert!(owner.take_over(&mut rig, "a", ticket, 10));
    // Back at once: nobody has come to the row of the version since its segment was lost.
    let before = owner.member;
    owner.come(&mut rig, 1 << 20, Stock::Fresh);
    owner.mount(&mut rig).unwrap();
    rig.catalog.leave(before);
    let all = Matcher::new("").unwrap();
    let at = rig.catalog.scan_start();
    let action = ScanAction::Remove(Force::No);
    let page = rig.catalog.scan(rig.now, super::TENANT, &all, action, at);
    assert_eq!((page.removed, page.leased), (0, 0), "it was a miss already");
    assert_eq!(owner.snapshot(&mut rig), [Verdict::Discard]);
    assert_eq!(rig.locate("a").unwrap(), None);
}

#[test]
fn a_version_on_its_way_to_disk_when_it_is_removed_is_not_adopted() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 10);
    rig.catalog.take_effects();
    rig.remove("a", Force::No).unwrap();
    assert_eq!(discards(&rig.catalog.take_effects()), [ticket]);
    assert!(!owner.take_over(&mut rig, "a", ticket, 10));
    owner.disk.insert(ticket, holding("a", ticket, 10));
    assert_eq!(owner.snapshot(&mut rig), [Verdict::Discard]);
    assert_eq!(rig.locate("a").unwrap(), None);
}

#[test]
fn a_version_on_its_way_to_disk_when_it_is_evicted_is_adopted_unless_it_was_put_anew() {
    for anew in [false, true] {
        let mut rig = rig(unkept());
        let mut owner = Owner::join(&mut rig, 1, 2 * PAGE);
        owner.snapshot(&mut rig);
        let ticket = rig.put("a", PAGE);
        rig.put("b", PAGE);
        rig.put("c", PAGE);
        assert_eq!(rig.locate("a").unwrap(), None, "evicted");
        assert_eq!(retired(&rig.catalog.take_effects()), [ticket]);
        rig.catalog.take_records();
        if anew {
            let later = rig.put("a", PAGE);
            let records = rig.catalog.take_records();
            let flight = |r: &Record| {
                matches!(
                    r,
                    Record::KeyDebt {
                        cause: Cause::Flight,
                        ..
                    }
                )
            };
            assert!(records.iter().any(flight), "{records:?}");
            rig.remove("a", Force::No).unwrap();
            assert!(later > ticket);
        }
        assert_eq!(owner.take_over(&mut rig, "a", ticket, PAGE), !anew);
        assert_eq!(rig.exist("a"), !anew);
        rig.catalog.take_effects();
        let owed: Vec<_> = retired(&rig.catalog.attach(owner.member));
        owner.forget_memory(&mut rig, &owed);
        assert_eq!(retired(&rig.catalog.attach(owner.member)), []);
        assert_eq!(rig.catalog.stats().key_debts, 0, "nothing is on its way");
    }
}

#[test]
fn an_object_leaves_memory_once_its_owner_has_it() {
    let config = Config {
        high_watermark: 1.0,
        offload_share: 1.0,
        ..Config::default()
    };
    let mut rig = rig(config);
    let mut owner = Owner::join(&mut rig, 1, 2 * PAGE);
    owner.snapshot(&mut rig);
    let first = rig.put("a", PAGE);
    let second = rig.put("b", PAGE);
    assert_eq!(rig.catalog.stats().offloading, 2);
    let refused = rig.start("c", PAGE).unwrap_err();
    assert_eq!(refused.code(), Code::Backpressure, "{refused}");
    assert!(owner.take_over(&mut rig, "a", first, PAGE));
    rig.put("c", PAGE);
    let stats = rig.catalog.stats();
    assert_eq!((stats.demoted, stats.evicted, stats.objects), (1, 0, 3));
    let got = rig.locate("a").unwrap().unwrap();
    assert_eq!(got.replicas.as_slice()[0].placement.segment, owner.space);
    // The owner does not want the next one: it may go without it.
    let version = holding("b", second, PAGE).version;
    owner.change(&mut rig, vec![Change::Refused(version)]);
    rig.put("d", PAGE);
    let stats = rig.catalog.stats();
    assert_eq!((stats.evicted, stats.unkept, stats.offloading), (1, 0, 2));
    assert_eq!(rig.locate("b").unwrap(), None);
}

#[test]
fn an_owner_that_has_got_stuck_does_not_block_memory() {
    let config = Config {
        high_watermark: 1.0,
        offload_share: 0.5,
        offload_patience: Duration::from_secs(5),
        ..Config::default()
    };
    let mut rig = rig(config);
    let mut owner = Owner::join(&mut rig, 1, 4 * PAGE);
    owner.snapshot(&mut rig);
    for key in ["a", "b", "c", "d"] {
        rig.put(key, PAGE);
    }
    for key in ["e", "f"] {
        rig.put(key, PAGE);
        assert_eq!(
            rig.catalog.stats().offloading,
            3,
            "half of memory and the newest"
        );
    }
    rig.pass(5_001);
    assert_eq!(rig.catalog.stats().offloading, 0);
    rig.put("g", PAGE);
    assert_eq!(rig.catalog.stats().unkept, 3);
    rig.catalog.leave(owner.member);
    rig.pass(1);
    assert_eq!(rig.catalog.stats().objects, 0);
}

#[test]
fn on_eviction_the_owner_is_asked_and_waited_for() {
    let config = Config {
        high_watermark: 1.0,
        offload: OffloadMode::OnEvict,
        offload_share: 1.0,
        ..Config::default()
    };
    let mut rig = rig(config);
    let mut owner = Owner::join(&mut rig, 1, 2 * PAGE);
    owner.snapshot(&mut rig);
    let first = rig.put("a", PAGE);
    rig.put("b", PAGE);
    assert_eq!(rig.catalog.stats().offloading, 0);
    rig.catalog.take_effects();
    assert_eq!(rig.start("c", PAGE).unwrap_err().code(), Code::Backpressure);
    let effects = rig.catalog.take_effects();
    let asked = |e: &Effect| matches!(e, Effect::Offload { ticket, .. } if *ticket == first);
    assert!(effects.iter().any(asked), "{effects:?}");
    assert!(owner.take_over(&mut rig, "a", first, PAGE));
    rig.put("c", PAGE);
    assert_eq!(rig.catalog.stats().demoted, 1);
}

#[test]
fn the_owner_of_memory_is_fed() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 100_000);
    let told = |effects: Vec<Effect>| {
        let committed = effects.into_iter().filter_map(|effect| match effect {
            Effect::Committed { holding, .. } => Some(*holding),
            _ => None,
        });
        committed.collect::<Vec<_>>()
    };
    let first = told(rig.catalog.take_effects());
    let placement = rig.locate("a").unwrap().unwrap().replicas.as_slice()[0]
        .placement
        .clone();
    let [only] = first.as_slice() else {
        panic!("{first:?}");
    };
    assert_eq!((only.version.ticket, only.len), (ticket, 100_000));
    assert_eq!(only.placement, Some(placement));
    rig.catalog.attach(owner.member);
    rig.pass(1);
    assert_eq!(told(rig.catalog.take_effects()), first, "all of it again");
    rig.remove("a", Force::Yes).unwrap();
    assert_eq!(retired(&rig.catalog.take_effects()), [ticket]);
    assert_eq!(retired(&rig.catalog.attach(owner.member)), [ticket]);
    owner.forget_memory(&mut rig, &[ticket]);
    assert_eq!(retired(&rig.catalog.attach(owner.member)), []);
}

#[test]
fn what_an_owner_dropped_is_gone() {
    let mut rig = rig(unkept());
    let mut owner = Owner::join(&mut rig, 1, 1 << 20);
    owner.snapshot(&mut rig);
    let ticket = rig.put("a", 10);
    let version = holding("a", ticket, 10).version;
    assert!(owner.take_over(&mut rig, "a", ticket, 10));
    owner.change(&mut rig, vec![Change::Gone(version.clone())]);
    assert!(rig.exist("a"), "in memory");
    let old = Ticket::new(Era(6), 5);
    assert!(owner.take_over(&mut rig, "b", old, 10));
    rig.locate("b").unwrap().unwrap();
    let version = holding("b", old, 10).version;
    owner.change(&mut rig, vec![Change::Gone(version)]);
    assert_eq!(
        rig.locate("b").unwrap(),
        None,
        "a lease does not bring bytes back"
    );
    let stats = rig.catalog.stats();
    assert_eq!((stats.dropped, stats.owned_replicas), (1, 0));
}

#[test]
fn of_several_disks_the_one_with_least_to_do_is_read_first() {
    let mut rig = rig(unkept());
    let mut owners = [1, 2].map(|number| Owner::join(&mut rig, number, 1 << 20));
    for owner in &mut owners {
        owner.snapshot(&mut rig);
    }
    let wish = Wish {
        replicas: 2,
        ..Wish::default()
    };
    for key in ["a", "b"] {
        let PutAnswer::Granted(grant) = rig.start_wish(key, 1000, &wish).unwrap() else {
            panic!("{key} is new");
        };
        rig.end(grant.ticket).unwrap();
        for owner in &mut owners {
            assert!(owner.take_over(&mut rig, key, grant.ticket, 1000));
        }
    }
    let segments = |rig: &mut Rig, key: &str| {
        let grant = rig.locate(key).unwrap().unwrap();
        let targets = grant.replicas.as_slice().iter();
        targets.map(|t| t.placement.segment).collect::<Vec<_>>()
    };
    let spaces = owners.each_ref().map(|owner| owner.space);
    let in_memory = segments(&mut rig, "a");
    assert_eq!(in_memory[2..], spaces, "memory comes first");
    for owner in &owners {
        rig.catalog
            .unmount(rig.now, owner.member, owner.memory, Duration::ZERO)
            .unwrap();
    }
    rig.pass(1);
    assert_eq!(segments(&mut rig, "a"), spaces);
    assert_eq!(segments(&mut rig, "b"), [spaces[1], spaces[0]]);
    assert_eq!(segments(&mut rig, "b"), spaces, "both have as much to do");
}
