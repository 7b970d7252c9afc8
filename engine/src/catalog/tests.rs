use super::{Catalog, Config};
use crate::{
    catalog::Matcher,
    command::{
        Effect, Force, GetGrant, Keep, Keys, MemberOffer, Prefetch, Prefetched, PutAnswer, PutEnd,
        PutGrant, PutItem, Recency, ScanAction, SegmentOffer, Wish, Written,
    },
};
use std::time::Duration;
use ziggurat_base::{
    ByteCount, Code, Crc32, Era, Error, Key, MemberId, SegmentId, TenantId, Ticket, Timestamp,
};

const MS: u64 = 1_000_000;
const TENANT: TenantId = TenantId(0);

/// A partition with one node and one writer, and a clock.
struct Rig {
    catalog: Catalog,
    now: Timestamp,
    node: MemberId,
    writer: MemberId,
    segments: Vec<SegmentId>,
}

fn key(text: &str) -> Key<'_> {
    Key::new(text.as_bytes()).unwrap()
}

impl Rig {
    fn new(config: Config, capacities: &[u64]) -> Self {
        let mut catalog = Catalog::new(
            Config {
                paranoid: true,
                ..config
            },
            Era(7),
        );
        let now = Timestamp(MS);
        let offer = MemberOffer {
            in_process: true,
            ..MemberOffer::default()
        };
        let node = catalog.join(now, &offer).unwrap();
        let writer = catalog.join(now, &offer).unwrap();
        let mount = |(i, capacity): (usize, &u64)| {
            let offer = SegmentOffer {
                name: format!("seg{i}").into(),
                capacity: ByteCount(*capacity),
                highest_era: Era(0),
                keep: Keep::Delegated,
                stock: Default::default(),
            };
            catalog.mount(now, node, &offer).unwrap()
        };
        let segments = capacities.iter().enumerate().map(mount).collect();
        Self {
            catalog,
            now,
            node,
            writer,
            segments,
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now = Timestamp(self.now.0 + ms * MS);
        while self.catalog.tick(self.now).more {}
    }

    fn start(&mut self, text: &str, len: u64) -> Result<PutAnswer, Error> {
        self.start_wish(text, len, &Wish::default())
    }

    fn start_wish(&mut self, text: &str, len: u64, wish: &Wish) -> Result<PutAnswer, Error> {
        let items = [PutItem::new(key(text), len)];
        self.catalog
            .put_start(self.now, self.writer, TENANT, &items, wish)
            .remove(0)
    }

    fn granted(&mut self, text: &str, len: u64) -> PutGrant {
        match self.start(text, len).unwrap() {
            PutAnswer::Granted(grant) => grant,
            PutAnswer::Existed => panic!("{text} exists"),
        }
    }

    fn end(&mut self, ticket: Ticket) -> Result<u32, Error> {
        let end = PutEnd {
            ticket,
            crc: Crc32(1),
            written: Written::All,
        };
        self.catalog
            .put_end(self.now, &[end])
            .remove(0)
            .map(|done| done.replicas)
    }

    fn put(&mut self, text: &str, len: u64) -> Ticket {
        let ticket = self.granted(text, len).ticket;
        self.end(ticket).unwrap();
        ticket
    }

    fn locate(&mut self, text: &str) -> Result<Option<GetGrant>, Error> {
        let keys = [key(text)];
        self.catalog
            .locate(
                self.now,
                Keys {
                    tenant: TENANT,
                    keys: &keys,
                },
                Recency::Touch,
            )
            .remove(0)
    }

    fn exist(&mut self, text: &str) -> bool {
        let keys = [key(text)];
        self.catalog
            .exist(
                self.now,
                Keys {
                    tenant: TENANT,
                    keys: &keys,
                },
            )
            .remove(0)
            .unwrap()
    }

    fn prefetch(&mut self, text: &str, wish: Prefetch) -> Result<Option<Prefetched>, Code> {
        let keys = [key(text)];
        let keys = Keys {
            tenant: TENANT,
            keys: &keys,
        };
        let answer = self.catalog.prefetch(self.now, keys, wish).remove(0);
        answer.map_err(|error| error.code())
    }

    fn remove(&mut self, text: &str, force: Force) -> Result<(), Code> {
        let keys = [key(text)];
        let answer = self
            .catalog
            .remove(
                self.now,
                Keys {
                    tenant: TENANT,
                    keys: &keys,
                },
                force,
            )
            .remove(0);
        answer.map_err(|e| e.code())
    }

    /// Acknowledges every fence that was asked for.
    fn fence_all(&mut self) -> usize {
        let mut fenced = 0;
        for effect in self.catalog.take_effects() {
            let Effect::Fence {
                member,
                ticket,
                placement,
            } = effect
            else {
                continue;
            };
            self.catalog.fenced(member, ticket, placement.segment);
            fenced += 1;
        }
        fenced
    }

    fn used(&self) -> u64 {
        self.catalog.stats().used
    }
}

#[test]
fn put_get_remove_returns_to_the_start() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let grant = rig.granted("a", 1000);
    assert_eq!(rig.locate("a").unwrap_err().code(), Code::ReplicaIsNotReady);
    assert!(!rig.exist("a"));
    assert_eq!(rig.end(grant.ticket).unwrap(), 1);
    let got = rig.locate("a").unwrap().unwrap();
    assert_eq!(
        (got.ticket, got.len, got.crc),
        (grant.ticket, 1000, Crc32(1))
    );
    assert_eq!(got.replicas, grant.targets);
    assert_eq!(rig.remove("a", Force::No), Err(Code::ObjectHasLease));
    rig.catalog.give_back(rig.now, &[got.hold]);
    assert_eq!(rig.remove("a", Force::No), Ok(()));
    assert_eq!(rig.remove("a", Force::No), Err(Code::ObjectNotFound));
    assert_eq!(rig.locate("a").unwrap(), None);
    assert_eq!(rig.used(), 0);
}

#[test]
fn an_empty_value_is_a_value() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    rig.put("empty", 0);
    assert!(rig.exist("empty"));
    assert_eq!(rig.locate("empty").unwrap().unwrap().len, 0);
    assert_eq!(rig.used(), 0);
}

#[test]
fn a_readable_key_keeps_its_value() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    rig.put("a", 10);
    assert_eq!(rig.start("a", 20).unwrap(), PutAnswer::Existed);
    let open = rig.granted("b", 10);
    assert_eq!(
        rig.start("b", 10).unwrap_err().code(),
        Code::ObjectAlreadyExists
    );
    rig.end(open.ticket).unwrap();
    assert_eq!(rig.start("b", 10).unwrap(), PutAnswer::Existed);
}

#[test]
fn a_repeated_put_end_gets_the_same_answer_and_another_sum_is_refused() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let ticket = rig.put("a", 10);
    assert_eq!(rig.end(ticket).unwrap(), 1);
    let other = PutEnd {
        ticket,
        crc: Crc32(2),
        written: Written::All,
    };
    let refused = rig
        .catalog
        .put_end(rig.now, &[other])
        .remove(0)
        .unwrap_err();
    assert_eq!(refused.code(), Code::ChecksumMismatch);
}

#[test]
fn a_zombie_is_pre_empted_and_its_space_waits_for_the_fence() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let zombie = rig.granted("a", 4096);
    rig.pass(29_000);
    assert_eq!(
        rig.start("a", 4096).unwrap_err().code(),
        Code::ObjectAlreadyExists
    );
    rig.pass(2_000);
    let second = rig.granted("a", 4096);
    assert_ne!(
        zombie.targets, second.targets,
        "the space of the zombie is not reused"
    );
    assert_eq!(
        rig.end(zombie.ticket).unwrap_err().code(),
        Code::InvalidWrite
    );
    rig.end(second.ticket).unwrap();
    assert_eq!(rig.used(), 8192);
    assert_eq!(rig.fence_all(), 1);
    assert_eq!(rig.used(), 4096);
    assert_eq!(rig.locate("a").unwrap().unwrap().ticket, second.ticket);
}

#[test]
fn an_old_write_is_given_up_unless_it_is_young() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let old = rig.granted("a", 100);
    rig.pass(599_000);
    let young = rig.granted("b", 100);
    rig.pass(2_000);
    assert_eq!(rig.end(old.ticket).unwrap_err().code(), Code::InvalidWrite);
    assert_eq!(rig.locate("a").unwrap(), None);
    assert_eq!(rig.end(young.ticket).unwrap(), 1);
}

#[test]
fn a_renewed_write_is_not_pre_empted() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let grant = rig.granted("a", 100);
    rig.pass(20_000);
    rig.catalog
        .renew(rig.now, &[grant.ticket])
        .remove(0)
        .unwrap();
    rig.pass(20_000);
    assert!(rig.start("a", 100).is_err());
    rig.end(grant.ticket).unwrap();
    assert!(
        rig.catalog
            .renew(rig.now, &[grant.ticket])
            .remove(0)
            .is_err()
    );
}

#[test]
fn a_revoked_write_leaves_nothing_behind() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let grant = rig.granted("a", 100_000);
    assert!(rig.catalog.revoke(&[grant.ticket]).remove(0).is_ok());
    assert!(rig.catalog.revoke(&[grant.ticket]).remove(0).is_err());
    assert_eq!(rig.locate("a").unwrap(), None);
    assert!(rig.used() > 0, "until the writer is fenced");
    rig.fence_all();
    assert_eq!(rig.used(), 0);
    rig.put("a", 5);
}

#[test]
fn replicas_go_to_distinct_segments_and_may_end_one_by_one() {
    let mut rig = Rig::new(Config::default(), &[1 << 20, 1 << 20, 1 << 20]);
    let wish = Wish {
        replicas: 5,
        ..Wish::default()
    };
    let PutAnswer::Granted(grant) = rig.start_wish("a", 200_000, &wish).unwrap() else {
        panic!()
    };
    let mut segments: Vec<_> = grant
        .targets
        .as_slice()
        .iter()
        .map(|t| t.placement.segment)
        .collect();
    segments.sort_unstable();
    assert_eq!(segments, rig.segments, "as many as there are segments");
    let mut end = |written| {
        let end = PutEnd {
            ticket: grant.ticket,
            crc: Crc32(1),
            written: Written::Each(written),
        };
        rig.catalog.put_end(rig.now, &[end]).remove(0)
    };
    assert_eq!(
        end(vec![Some(true)]).unwrap_err().code(),
        Code::InvalidParams
    );
    assert_eq!(end(vec![None, Some(true), None]).unwrap().replicas, 1);
    assert_eq!(end(vec![Some(false), None, None]).unwrap().replicas, 1);
    assert_eq!(end(vec![None, None, Some(true)]).unwrap().replicas, 2);
    assert_eq!(rig.fence_all(), 1);
    assert_eq!(
        rig.locate("a").unwrap().unwrap().replicas.as_slice().len(),
        2
    );
    rig.pass(11_000);
    rig.remove("a", Force::No).unwrap();
    assert_eq!(rig.used(), 0);
}

#[test]
fn a_write_without_a_good_replica_fails() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let grant = rig.granted("a", 10);
    let end = PutEnd {
        ticket: grant.ticket,
        crc: Crc32(1),
        written: Written::Each(vec![Some(false)]),
    };
    assert_eq!(
        rig.catalog
            .put_end(rig.now, &[end])
            .remove(0)
            .unwrap_err()
            .code(),
        Code::WriteFail
    );
    assert_eq!(rig.locate("a").unwrap(), None);
    rig.fence_all();
    assert_eq!(rig.used(), 0);
}

#[test]
fn a_forced_removal_keeps_the_space_until_the_guard_has_ended() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    rig.put("a", 4096);
    rig.locate("a").unwrap().unwrap();
    assert_eq!(rig.remove("a", Force::Yes), Ok(()));
    assert_eq!(rig.locate("a").unwrap(), None);
    assert_eq!(rig.used(), 4096);
    rig.pass(10_001);
    assert_eq!(rig.used(), 0);
    let open = rig.granted("b", 10);
    assert_eq!(rig.remove("b", Force::No), Err(Code::ReplicaIsNotReady));
    assert_eq!(rig.remove("b", Force::Yes), Ok(()));
    assert!(rig.end(open.ticket).is_err());
}

#[test]
fn least_recently_used_goes_first_and_leased_objects_stay() {
    let config = Config {
        high_watermark: 1.0,
        ..Config::default()
    };
    let mut rig = Rig::new(config, &[8 * 4096]);
    for i in 0..8 {
        rig.put(&format!("k{i}"), 4096);
    }
    let held = rig.locate("k0").unwrap().unwrap();
    rig.put("new0", 4096);
    assert_eq!(rig.locate("k1").unwrap(), None);
    assert!(rig.locate("k0").unwrap().is_some());
    rig.catalog.give_back(rig.now, &[held.hold]);
    for i in 0..6 {
        rig.put(&format!("new{}", i + 1), 4096);
    }
    assert!(
        rig.locate("k0").unwrap().is_some(),
        "still held by the second reader"
    );
    assert_eq!(rig.catalog.stats().evicted, 7);
}

#[test]
fn everything_leased_is_a_retryable_refusal() {
    let config = Config {
        high_watermark: 1.0,
        ..Config::default()
    };
    let mut rig = Rig::new(config, &[2 * 4096]);
    rig.put("a", 4096);
    rig.put("b", 4096);
    rig.locate("a").unwrap();
    rig.locate("b").unwrap();
    assert_eq!(rig.start("c", 4096).unwrap_err().code(), Code::Backpressure);
    rig.pass(10_001);
    rig.put("c", 4096);
}

#[test]
fn a_hopeless_size_evicts_nothing() {
    let mut rig = Rig::new(Config::default(), &[1 << 20, 1 << 20]);
    for i in 0..10 {
        rig.put(&format!("k{i}"), 100_000);
    }
    let refused = rig.start("huge", (1 << 20) + 1).unwrap_err();
    assert_eq!(refused.code(), Code::NoAvailableHandle);
    assert_eq!(rig.catalog.stats().evicted, 0);
}

#[test]
fn eviction_ahead_of_need_keeps_to_the_watermarks() {
    let mut rig = Rig::new(Config::default(), &[1000 * 4096]);
    let mut lowest_after_full = u64::MAX;
    for i in 0..3000 {
        rig.put(&format!("k{i}"), 4096);
        assert!(rig.used() <= 902 * 4096, "{i}: {}", rig.used());
        if i > 1000 {
            lowest_after_full = lowest_after_full.min(rig.used());
        }
    }
    assert!(
        (848 * 4096..=852 * 4096).contains(&lowest_after_full),
        "{lowest_after_full}"
    );
}

#[test]
fn pollers_do_not_keep_alive_what_nobody_reads() {
    let config = Config {
        lease: Duration::from_millis(500),
        high_watermark: 1.0,
        ..Config::default()
    };
    let mut rig = Rig::new(config, &[100 * 4096]);
    for i in 0..100 {
        rig.put(&format!("old{i}"), 4096);
    }
    let mut failed = 0;
    for step in 0..1000 {
        rig.pass(4);
        for i in 0..100 {
            rig.exist(&format!("old{i}"));
        }
        if step < 500 {
            continue;
        }
        match rig.start(&format!("new{step}"), 4096) {
            Ok(PutAnswer::Granted(grant)) => assert!(rig.end(grant.ticket).is_ok()),
            _ => failed += 1,
        }
    }
    assert_eq!(
        failed, 0,
        "from the fourth lease span on every put finds room"
    );
}

#[test]
fn a_lost_member_takes_its_objects_with_it_and_the_rest_stays() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let other = rig.catalog.join(rig.now, &MemberOffer::default()).unwrap();
    let offer = SegmentOffer {
        name: "other".into(),
        capacity: ByteCount(1 << 20),
        highest_era: Era(0),
        keep: Keep::Delegated,
        stock: Default::default(),
    };
    rig.catalog.mount(rig.now, other, &offer).unwrap();
    let mut on_other = 0;
    for i in 0..40 {
        let grant = rig.granted(&format!("k{i}"), 1000);
        on_other += u32::from(grant.targets.as_slice()[0].member == other);
        rig.end(grant.ticket).unwrap();
    }
    assert!((5..35).contains(&on_other));
    for _ in 0..11 {
        rig.pass(1000);
    }
    assert!(rig.catalog.ping(rig.now, other).is_err());
    let found = (0..40)
        .filter(|i| rig.locate(&format!("k{i}")).unwrap().is_some())
        .count();
    assert_eq!(found as u32, 40 - on_other);
    assert_eq!(
        rig.catalog.stats().segments,
        1,
        "the slot of the lost segment is free again"
    );
    rig.catalog.mount(rig.now, rig.node, &offer).unwrap();
}

#[test]
fn a_stall_of_our_own_is_not_the_death_of_others() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let other = rig.catalog.join(rig.now, &MemberOffer::default()).unwrap();
    rig.pass(100);
    rig.pass(60_000);
    assert!(rig.catalog.ping(rig.now, other).is_ok());
}

#[test]
fn a_graceful_unmount_serves_readers_until_it_is_over() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    rig.put("a", 100);
    let segment = rig.segments[0];
    rig.catalog
        .unmount(rig.now, rig.node, segment, Duration::from_secs(5))
        .unwrap();
    assert_eq!(
        rig.start("b", 100).unwrap_err().code(),
        Code::NoAvailableHandle
    );
    assert!(rig.locate("a").unwrap().is_some());
    assert!(
        rig.catalog
            .unmount(rig.now, rig.node, segment, Duration::ZERO)
            .is_err()
    );
    rig.pass(5_001);
    assert_eq!(rig.locate("a").unwrap(), None);
    assert_eq!(rig.catalog.segments(), []);
}

/// A version with one good replica, on a member that has left, and another replica still being written.
fn half_written_on_a_lost_member() -> (Rig, PutGrant) {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let other = rig.catalog.join(rig.now, &MemberOffer::default()).unwrap();
    let offer = SegmentOffer {
        name: "other".into(),
        capacity: ByteCount(1 << 20),
        highest_era: Era(0),
        keep: Keep::Delegated,
        stock: Default::default(),
    };
    rig.catalog.mount(rig.now, other, &offer).unwrap();
    let wish = Wish {
        replicas: 2,
        preferred: vec!["other".into(), "seg0".into()],
        ..Wish::default()
    };
    let PutAnswer::Granted(grant) = rig.start_wish("a", 100, &wish).unwrap() else {
        panic!()
    };
    let end = PutEnd {
        ticket: grant.ticket,
        crc: Crc32(1),
        written: Written::Each(vec![Some(true), None]),
    };
    let done = rig.catalog.put_end(rig.now, &[end]).remove(0).unwrap();
    assert_eq!(done.replicas, 1);
    rig.catalog.leave(other);
    (rig, grant)
}

#[test]
fn a_half_written_version_whose_good_half_is_lost_is_gone_for_everybody() {
    for force in [Force::No, Force::Yes] {
        let (mut rig, grant) = half_written_on_a_lost_member();
        assert_eq!(rig.remove("a", force), Err(Code::ObjectNotFound));
        assert!(rig.end(grant.ticket).is_err());
        rig.fence_all();
        rig.pass(10);
        assert_eq!(rig.used(), 0);
        rig.put("a", 5);
    }
    let (mut rig, grant) = half_written_on_a_lost_member();
    assert_eq!(rig.locate("a"), Ok(None), "a miss, not a write to wait for");
    assert!(rig.end(grant.ticket).is_err());
}

#[test]
fn an_era_that_a_member_has_seen_is_exceeded() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let before = rig.put("a", 1);
    let offer = SegmentOffer {
        name: "later".into(),
        capacity: ByteCount(1 << 20),
        highest_era: Era(50),
        keep: Keep::Delegated,
        stock: Default::default(),
    };
    rig.catalog.mount(rig.now, rig.node, &offer).unwrap();
    assert_eq!(rig.catalog.era(), Era(51));
    let after = rig.put("b", 1);
    assert!(after > before && after.era() == Era(51));
}

#[test]
fn scans_see_every_object_once_and_spare_the_leased() {
    let mut rig = Rig::new(Config::default(), &[64 << 20]);
    for i in 0..2000 {
        rig.put(&format!("k{i:04}"), 10);
    }
    rig.locate("k0007").unwrap();
    let run = |rig: &mut Rig, pattern: &str, action| {
        let matcher = Matcher::new(pattern).unwrap();
        let (mut keys, mut removed, mut leased) = (Vec::new(), 0, 0);
        let mut cursor = Some(rig.catalog.scan_start());
        while let Some(at) = cursor {
            let page = rig.catalog.scan(rig.now, TENANT, &matcher, action, at);
            keys.extend(page.keys);
            removed += page.removed;
            leased += page.leased;
            cursor = page.next;
        }
        (keys.len(), removed, leased)
    };
    assert_eq!(run(&mut rig, "", ScanAction::List), (2000, 0, 0));
    assert_eq!(run(&mut rig, "^k00", ScanAction::List), (100, 0, 0));
    assert_eq!(
        run(&mut rig, "^k00", ScanAction::Remove(Force::No)),
        (0, 99, 1)
    );
    assert_eq!(
        run(&mut rig, "", ScanAction::Remove(Force::Yes)),
        (0, 1901, 0)
    );
    assert_eq!(rig.catalog.stats().objects, 0);
}

#[test]
fn patterns_are_checked_and_linear() {
    for bad in ["(", "[", r"(a)\1", "(?=a)"] {
        assert_eq!(
            Matcher::new(bad).unwrap_err().code(),
            Code::InvalidParams,
            "{bad}"
        );
    }
    let evil = Matcher::new("(a+)+$").unwrap();
    let long = [b'a'; 4096];
    assert!(evil.matches(Key::new(&long).unwrap()));
}

#[test]
fn a_node_that_comes_back_at_its_address_takes_its_own_place() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let at = |address: &str| MemberOffer {
        address: address.into(),
        in_process: false,
        feed: false,
        promotes: false,
    };
    let offer = SegmentOffer {
        name: "n1".into(),
        capacity: ByteCount(1 << 20),
        highest_era: Era(0),
        keep: Keep::Delegated,
        stock: Default::default(),
    };
    let first = rig.catalog.join(rig.now, &at("host:1")).unwrap();
    rig.catalog.mount(rig.now, first, &offer).unwrap();
    let stranger = rig.catalog.join(rig.now, &at("host:2")).unwrap();
    let refused = rig.catalog.mount(rig.now, stranger, &offer).unwrap_err();
    assert_eq!(refused.code(), Code::SegmentAlreadyExists);
    let second = rig.catalog.join(rig.now, &at("host:1")).unwrap();
    rig.catalog.mount(rig.now, second, &offer).unwrap();
    assert!(rig.catalog.ping(rig.now, first).is_err());
}

#[test]
fn a_late_mount_of_an_earlier_incarnation_leaves_the_later_one_alone() {
    let mut rig = Rig::new(Config::default(), &[1 << 20]);
    let at = MemberOffer {
        address: "host:1".into(),
        in_process: false,
        feed: false,
        promotes: false,
    };
    let offer = SegmentOffer {
        name: "n1".into(),
        capacity: ByteCount(1 << 20),
        highest_era: Era(0),
        keep: Keep::Delegated,
        stock: Default::default(),
    };
    let first = rig.catalog.join(rig.now, &at).unwrap();
    let second = rig.catalog.join(rig.now, &at).unwrap();
    rig.catalog.mount(rig.now, second, &offer).unwrap();
    let late = rig.catalog.mount(rig.now, first, &offer).unwrap_err();
    assert_eq!(late.code(), Code::SegmentAlreadyExists);
    assert!(late.what().contains("later incarnation"), "{late}");
    assert!(rig.catalog.ping(rig.now, second).is_ok());
    let segments = rig.catalog.segments();
    let owner = segments.iter().find(|segment| &*segment.name == "n1");
    assert_eq!(owner.map(|segment| segment.member), Some(second));
}

mod adoption;
mod history;
mod ledger;
mod owner;
mod promote;
mod reoffer;
mod shared;

impl Rig {
    fn clear(&mut self, text: &str, segment: Option<&str>) -> bool {
        let keys = [key(text)];
        let keys = Keys {
            tenant: TENANT,
            keys: &keys,
        };
        self.catalog.clear(self.now, keys, segment)[0]
    }

    fn put_on_both(&mut self, text: &str, len: u64) {
        let wish = Wish {
            replicas: 2,
            ..Wish::default()
        };
        let Ok(PutAnswer::Granted(grant)) = self.start_wish(text, len, &wish) else {
            panic!("{text} is granted");
        };
        assert_eq!(self.end(grant.ticket), Ok(2));
    }
}

#[test]
fn clearing_takes_what_nobody_uses() {
    let mut rig = Rig::new(Config::default(), &[1 << 20, 1 << 20]);
    for (text, len) in [("small", 100), ("large", 200_000)] {
        rig.put_on_both(text, len);
        assert!(!rig.clear(text, Some("elsewhere")) && !rig.clear("absent", None));
        rig.locate(text).unwrap().unwrap();
        assert!(
            !rig.clear(text, Some("seg0")) && !rig.clear(text, None),
            "leased"
        );
        rig.pass(10_000);
        assert!(rig.clear(text, Some("seg0")));
        assert!(!rig.clear(text, Some("seg0")), "nothing is left there");
        let left = rig.locate(text).unwrap().unwrap();
        let targets = left.replicas.as_slice();
        assert_eq!(
            (targets.len(), targets[0].placement.segment),
            (1, rig.segments[1])
        );
        rig.pass(10_000);
        assert!(rig.clear(text, Some("seg1")), "its last replica");
        assert_eq!(rig.locate(text), Ok(None));
        rig.put_on_both(text, len);
        assert!(rig.clear(text, None));
        assert_eq!(rig.locate(text), Ok(None));
    }
    let open = rig.granted("open", 100).ticket;
    assert!(!rig.clear("open", None) && !rig.clear("open", Some("seg0")));
    rig.end(open).unwrap();
    assert!(rig.clear("open", None));
    assert_eq!(rig.catalog.stats().used, 0);
}
