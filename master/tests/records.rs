//! What a master remembers across its own death: no key that was removed comes back, whoever was away at the time.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{path::Path, sync::Arc};
use ziggurat_base::{
    ByteCount, Clock as _, Code, Crc32, DirectoryId, Era, Key, ManualClock, MemberId, ObjectKey,
    SegmentId, TenantId, Ticket,
};
use ziggurat_engine::{
    catalog::Config,
    command::{
        BATCH_MAX, Force, Keep, Keys, MemberOffer, OwnedTags, Recency, ScanAction, SegmentOffer,
    },
    ledger::{Holding, LedgerBatch, Verdict, Version},
    port::{MemberApi as _, MetadataApi as _},
};
use ziggurat_master::{EraStore, Partition, partition::TICK};

const TENANT: TenantId = TenantId(0);

fn open(dir: Option<&Path>) -> (Arc<Partition>, ManualClock) {
    let (eras, clock) = (EraStore::open(dir).unwrap(), ManualClock::default());
    let partition = Partition::open(Config::default(), Arc::new(clock.clone()), eras);
    (partition.unwrap(), clock)
}

fn text(number: u32) -> String {
    format!("key{number:05}")
}

/// A node with one directory and what lies in it.
struct Owner {
    member: MemberId,
    space: SegmentId,
    disk: Vec<Holding>,
}

fn mount(partition: &Partition, member: MemberId) -> Result<SegmentId, Code> {
    let offer = SegmentOffer {
        name: "ssd".into(),
        capacity: ByteCount::gib(1),
        highest_era: Era(0),
        keep: Keep::Owned {
            directory: DirectoryId(7),
        },
        stock: Default::default(),
    };
    let mounted = partition.mount_now(member, &offer);
    mounted.map_err(|error| error.code())
}

impl Owner {
    fn new(count: u32) -> Self {
        let holding = |number| Holding {
            version: Version {
                tenant: "default".into(),
                key: ObjectKey::new(text(number)).unwrap(),
                ticket: Ticket::new(Era(3), number + 1),
            },
            len: 100,
            stored_len: 512,
            crc: Crc32(1),
            tags: OwnedTags::default(),
            placement: None,
        };
        Self {
            member: MemberId(0),
            space: SegmentId(0),
            disk: (0..count).map(holding).collect(),
        }
    }

    /// Joins, mounts and tells what lies on disk; what has to be discarded stays there.
    fn come(&mut self, partition: &Partition) -> usize {
        let joined = partition.join_now(&MemberOffer::default()).unwrap();
        self.member = joined.member;
        self.space = mount(partition, self.member).unwrap();
        let tell = |batch| {
            let reply = partition.ledger_now(self.member, self.space, &batch);
            reply.unwrap().verdicts
        };
        tell(LedgerBatch::Begin { generation: 1 });
        let mut taken = 0;
        for (number, holdings) in self.disk.chunks(BATCH_MAX).enumerate() {
            let verdicts = tell(LedgerBatch::Page {
                generation: 1,
                number: number as u64,
                holdings: holdings.to_vec(),
            });
            taken += verdicts.iter().filter(|v| **v == Verdict::Taken).count();
        }
        tell(LedgerBatch::Commit {
            generation: 1,
            sequence: 0,
        });
        taken
    }

    /// Goes; nothing that it held is left when this returns.
    async fn leave(&self, partition: &Partition, clock: &ManualClock) {
        partition.leave(self.member).await.unwrap();
        while partition.stats_now().objects > 0 {
            clock.advance_to(clock.now().after(TICK));
            partition.tick();
        }
    }
}

async fn remove(partition: &Partition, numbers: std::ops::Range<u32>) -> usize {
    let texts: Vec<_> = numbers.map(text).collect();
    let keys: Vec<_> = texts
        .iter()
        .map(|t| Key::new(t.as_bytes()).unwrap())
        .collect();
    let mut removed = 0;
    for some in keys.chunks(BATCH_MAX) {
        let keys = Keys {
            tenant: TENANT,
            keys: some,
        };
        let answers = partition.remove(keys, Force::No).await.unwrap();
        removed += answers.iter().filter(|answer| answer.is_ok()).count();
    }
    removed
}

async fn readable(partition: &Partition, count: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for number in 0..count {
        let text = text(number);
        let keys = [Key::new(text.as_bytes()).unwrap()];
        let keys = Keys {
            tenant: TENANT,
            keys: &keys,
        };
        let mut located = partition.locate(keys, Recency::Touch).await.unwrap();
        if located.remove(0).unwrap().is_some() {
            found.push(number);
        }
    }
    found
}

#[tokio::test]
async fn without_a_state_directory_nothing_that_outlives_its_process_is_mounted() {
    let (partition, _) = open(None);
    let member = partition.join_now(&MemberOffer::default()).unwrap().member;
    let refused = mount(&partition, member);
    assert_eq!(refused, Err(Code::UnavailableInCurrentMode));
}

#[tokio::test]
async fn exactly_what_was_not_removed_is_readable_whoever_was_away() {
    for when in ["owner there", "owner away", "master restarted before it"] {
        let dir = tempfile::tempdir().unwrap();
        let (mut partition, clock) = open(Some(dir.path()));
        let mut owner = Owner::new(2000);
        assert_eq!(owner.come(&partition), 2000);
        if when != "owner there" {
            owner.leave(&partition, &clock).await;
        }
        if when == "master restarted before it" {
            drop(partition);
            (partition, _) = open(Some(dir.path()));
        }
        let removed = remove(&partition, 0..1000).await;
        assert_eq!(removed == 1000, when == "owner there", "{when}");
        // Another master in the place of this one, which has not told the owner anything.
        drop(partition);
        let (partition, _) = open(Some(dir.path()));
        assert_eq!(owner.come(&partition), 1000, "{when}");
        let found = readable(&partition, 2000).await;
        assert_eq!(found, (1000..2000).collect::<Vec<_>>(), "{when}");
    }
}

#[tokio::test]
async fn a_removal_of_everything_covers_what_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let (partition, clock) = open(Some(dir.path()));
    let mut owner = Owner::new(100);
    assert_eq!(owner.come(&partition), 100);
    owner.leave(&partition, &clock).await;
    let page = partition
        .scan(TENANT, "", ScanAction::Remove(Force::Yes), None)
        .await
        .unwrap();
    assert_eq!((page.removed, page.next), (0, None));
    drop(partition);
    assert_eq!(owner.come(&open(Some(dir.path())).0), 0);
}

#[tokio::test]
async fn two_masters_do_not_share_a_state_directory() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(Some(dir.path()));
    let eras = EraStore::open(Some(dir.path())).unwrap();
    let clock = Arc::new(ManualClock::default());
    let second = Partition::open(Config::default(), clock, eras).unwrap_err();
    assert_eq!(second.code(), Code::FileLockFail);
}
