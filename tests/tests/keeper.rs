//! What a keeper tells its partition is final: looked at with a clock by hand and a disk that takes its time, so that only
//! the order of events decides.

use futures_util::future::join;
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use ziggurat_base::{
    ByteCount, Clock, Code, Crc32, DirectoryId, Extent, Extents, Job, MemberId, ObjectKey,
    Placement, SegmentId, TenantId, Ticket, Timestamp, frame::Span,
};
use ziggurat_engine::{
    command::{Answer, Effect, MemberOffer, OwnedTags, SegmentOffer, SegmentStat, Stats},
    ledger::{Change, Holding, LedgerBatch, LedgerReply, Version},
    port::{Access, Joined, MemberApi, ReadOp, ReadSums, WriteSlot},
};
use ziggurat_io::{
    Pool,
    mem::{Attempt, Fault, MemDisk, MemOptions, Op, Verdict},
};
use ziggurat_node::{Directory, Keeper, Lender};
use ziggurat_tiers::ssd::{Options, PATIENCE, SsdTier, WriteBudget};

const MEMBER: MemberId = MemberId(7);
const MEMORY: SegmentId = SegmentId(1);
const SPACE: SegmentId = SegmentId(2);
const TICKET: Ticket = Ticket(1 << 32 | 5);
const PAYLOAD: &[u8] = b"some bytes";

/// A clock that somebody moves.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn pass(&self, span: Duration) {
        let nanos = span.as_nanos() as u64;
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, at: Timestamp) -> Job<'static, ()> {
        let clock = self.clone();
        Box::pin(poll_fn(move |_| match clock.now() >= at {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }))
    }
}

/// Memory in which one version lies.
#[derive(Debug)]
struct Lent;

impl Lender for Lent {
    fn member(&self) -> MemberId {
        MEMBER
    }

    fn capacity(&self) -> ByteCount {
        ByteCount(8 * PAYLOAD.len() as u64)
    }

    fn read(&self, op: &mut ReadOp<'_>) -> Answer<ReadSums> {
        op.into.copy_from_slice(PAYLOAD);
        Ok(ReadSums {
            crc: Crc32::of(PAYLOAD),
            ..ReadSums::default()
        })
    }

    fn holds(&self, _: Ticket, _: &Placement) -> bool {
        true
    }

    fn open_write(&self, _: Access, _: &Span) -> Answer<Box<dyn WriteSlot>> {
        Err(Code::InvalidWrite.into())
    }

    fn copied(&self, _: Ticket, _: Ticket, _: &Placement) -> Answer<()> {
        Ok(())
    }

    fn is_copied(&self, _: Ticket, _: Ticket, _: &Placement) -> bool {
        true
    }
}

/// A partition that believes everything and notes what it was told of the directory.
#[derive(Default)]
struct Notes(Mutex<Vec<LedgerBatch>>);

impl Notes {
    fn lock(&self) -> MutexGuard<'_, Vec<LedgerBatch>> {
        self.0.lock().expect("nobody panics under it")
    }

    fn has(&self, which: impl Fn(&LedgerBatch) -> bool) -> bool {
        self.lock().iter().any(which)
    }

    /// What became of versions that were fed, in the order in which it was told: whether each is on disk.
    fn verdicts(&self) -> Vec<(Ticket, bool)> {
        let mut told = Vec::new();
        for batch in self.lock().iter() {
            if let LedgerBatch::Delta { changes, .. } = batch {
                told.extend(changes.iter().filter_map(|change| match change {
                    Change::Present(holding) => Some((holding.version.ticket, true)),
                    Change::Refused(version) => Some((version.ticket, false)),
                    Change::Gone(_)
                    | Change::Forgotten(_)
                    | Change::Copied(_)
                    | Change::NotCopied(_) => None,
                }));
            }
        }
        told
    }

    fn has_forgotten(&self) -> bool {
        let forgotten = Change::Forgotten(TICKET);
        self.has(|batch| matches!(batch, LedgerBatch::Delta { changes, .. } if changes.contains(&forgotten)))
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> Job<'a, Answer<T>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl MemberApi for Notes {
    fn join<'a>(&'a self, _: &'a MemberOffer) -> Job<'a, Answer<Joined>> {
        unreachable!("a keeper does not join")
    }

    fn ping(&self, _: MemberId) -> Job<'_, Answer<()>> {
        ready(())
    }

    fn leave(&self, _: MemberId) -> Job<'_, Answer<()>> {
        ready(())
    }

    fn tenant<'a>(&'a self, _: &'a str) -> Job<'a, Answer<TenantId>> {
        ready(TenantId(0))
    }

    fn mount<'a>(&'a self, _: MemberId, _: &'a SegmentOffer) -> Job<'a, Answer<SegmentId>> {
        ready(SPACE)
    }

    fn unmount(&self, _: MemberId, _: SegmentId, _: Duration) -> Job<'_, Answer<()>> {
        ready(())
    }

    fn fenced(&self, _: MemberId, _: Ticket, _: SegmentId) -> Job<'_, Answer<()>> {
        ready(())
    }

    fn ledger<'a>(
        &'a self,
        _: MemberId,
        segment: SegmentId,
        batch: &'a LedgerBatch,
    ) -> Job<'a, Answer<LedgerReply>> {
        if segment == SPACE {
            self.lock().push(batch.clone());
        }
        ready(LedgerReply::default())
    }

    fn segments(&self) -> Job<'_, Answer<Vec<SegmentStat>>> {
        ready(Vec::new())
    }

    fn effects(&self, _: MemberId) -> Job<'_, Answer<Vec<Effect>>> {
        Box::pin(std::future::pending())
    }

    fn stats(&self) -> Job<'_, Answer<Stats>> {
        ready(Stats::default())
    }
}

fn committed() -> Effect {
    committed_as(TICKET)
}

fn committed_as(ticket: Ticket) -> Effect {
    Effect::Committed {
        member: MEMBER,
        holding: Box::new(Holding {
            version: Version {
                tenant: "default".into(),
                key: ObjectKey::new("key").expect("short"),
                ticket,
            },
            len: PAYLOAD.len() as u64,
            stored_len: PAYLOAD.len() as u64,
            crc: Crc32::of(PAYLOAD),
            tags: OwnedTags::default(),
            placement: Some(Placement {
                segment: MEMORY,
                extents: Extents::One(Extent::new(0, PAYLOAD.len() as u64)),
                check: None,
            }),
        }),
    }
}

fn removed() -> [Effect; 2] {
    [
        Effect::Discard {
            member: MEMBER,
            segment: SPACE,
            tickets: vec![TICKET],
        },
        Effect::Retired {
            member: MEMBER,
            segment: MEMORY,
            ticket: TICKET,
        },
    ]
}

struct Stage {
    clock: Hand,
    disk: MemDisk,
    tier: Arc<SsdTier>,
    keeper: Keeper,
}

impl Stage {
    /// A keeper whose disk answers at once, but for what `hook` decides from now on.
    fn new(hook: impl FnMut(&Attempt<'_>) -> Verdict + Send + 'static) -> Self {
        Self::with(options(), hook)
    }

    fn with(options: Options, hook: impl FnMut(&Attempt<'_>) -> Verdict + Send + 'static) -> Self {
        let clock = Hand::default();
        let pool = Pool::new(8 << 20).expect("the machine has the memory");
        let simulated = MemOptions {
            clock: Some(Arc::new(clock.clone())),
            ..MemOptions::default()
        };
        let disk = MemDisk::new(&pool, simulated);
        let tier = Arc::new(open_as(&disk, &clock, options));
        disk.set_hook(hook);
        let directory = Directory {
            name: "directory".into(),
            tier: tier.clone(),
        };
        let keeper = Keeper::new(Arc::new(Lent), vec![directory], true);
        keeper.add_memory(MEMORY);
        Self {
            clock,
            disk,
            tier,
            keeper,
        }
    }
}

fn options() -> Options {
    Options {
        capacity: ByteCount::mib(16),
        ..Options::default()
    }
}

fn open(disk: &MemDisk, clock: &Hand) -> SsdTier {
    open_as(disk, clock, options())
}

fn open_as(disk: &MemDisk, clock: &Hand, options: Options) -> SsdTier {
    let disk = Arc::new(disk.clone());
    let opening = SsdTier::open(disk, Arc::new(clock.clone()), options, DirectoryId(1));
    let opened = now(pin!(opening)).expect("nothing takes its time");
    opened.expect("the directory can be opened").0
}

/// Lets everything happen that can happen without time.
fn now<T>(mut job: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let context = &mut Context::from_waker(Waker::noop());
    (0..200).find_map(|_| match job.as_mut().poll(context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}

const SLOW: Duration = Duration::from_millis(10);

fn slow(wanted: Op) -> impl FnMut(&Attempt<'_>) -> Verdict {
    move |attempt| match attempt.op == wanted && attempt.file.ends_with(".log") {
        true => SLOW.into(),
        false => Verdict::default(),
    }
}

#[test]
fn a_version_is_not_forgotten_while_it_is_on_its_way_to_disk() {
    let stage = Stage::new(slow(Op::Create));
    let notes = Notes::default();
    now(pin!(stage.keeper.mount(&notes, MEMBER)))
        .unwrap()
        .unwrap();
    let mut all = pin!(join(
        stage.keeper.work(&stage.clock),
        stage.keeper.tell(&notes, MEMBER)
    ));
    stage.keeper.heed(&committed());
    now(all.as_mut());
    // It has not come to its place in a file when it is removed.
    removed().iter().for_each(|effect| {
        stage.keeper.heed(effect);
    });
    now(all.as_mut());
    assert!(!notes.has_forgotten(), "nothing is final yet");
    stage.clock.pass(SLOW);
    now(all.as_mut());
    assert!(notes.has_forgotten());
    assert!(!stage.tier.holds(TICKET));
    let after = stage.disk.kill(&mut ziggurat_base::hash::Dice::new(1));
    assert!(!open(&after, &stage.clock).holds(TICKET));
}

#[test]
fn a_first_snapshot_waits_for_what_an_earlier_incarnation_has_begun() {
    let stage = Stage::new(slow(Op::Sync));
    let notes = Notes::default();
    {
        let mut work = pin!(stage.keeper.work(&stage.clock));
        stage.keeper.heed(&committed());
        now(work.as_mut());
        stage.keeper.begin_memory(&[]);
        now(pin!(stage.keeper.mount(&notes, MEMBER)))
            .unwrap()
            .unwrap();
        let mut tell = pin!(stage.keeper.tell(&notes, MEMBER));
        now(tell.as_mut());
        let is_commit = |batch: &LedgerBatch| matches!(batch, LedgerBatch::Commit { .. });
        assert!(!notes.has(is_commit), "what is on its way would be missed");
        stage.clock.pass(SLOW);
        now(work.as_mut());
        now(tell.as_mut());
        assert!(notes.has(is_commit));
    }
    let is_named = |batch: &LedgerBatch| matches!(batch, LedgerBatch::Page { holdings, .. } if holdings[0].version.ticket == TICKET);
    assert!(notes.has(is_named));
}

#[test]
fn what_could_not_be_forgotten_is_tried_again_without_being_asked() {
    let stage = Stage::new(|_| Verdict::default());
    let notes = Notes::default();
    now(pin!(stage.keeper.mount(&notes, MEMBER)))
        .unwrap()
        .unwrap();
    let mut all = pin!(join(
        stage.keeper.work(&stage.clock),
        stage.keeper.tell(&notes, MEMBER)
    ));
    stage.keeper.heed(&committed());
    now(all.as_mut());
    assert!(stage.tier.holds(TICKET));
    stage.disk.plan(Op::Create, 1, Fault::EIO);
    removed().iter().for_each(|effect| {
        stage.keeper.heed(effect);
    });
    now(all.as_mut());
    assert!(!notes.has_forgotten(), "the tombstone is not written");
    stage.clock.pass(Duration::from_secs(1));
    now(all.as_mut());
    assert!(notes.has_forgotten());
}

#[test]
fn what_the_write_budget_does_not_allow_is_told_at_once_and_little_memory_waits() {
    // One object a batch, and no batch takes less than two pages.
    let rate = ByteCount(1000);
    let stage = Stage::with(
        Options {
            write_budget: Some(WriteBudget::PerSecond(rate)),
            ..options()
        },
        |_| Verdict::default(),
    );
    let notes = Notes::default();
    now(pin!(stage.keeper.mount(&notes, MEMBER)))
        .unwrap()
        .unwrap();
    let mut all = pin!(join(
        stage.keeper.work(&stage.clock),
        stage.keeper.tell(&notes, MEMBER)
    ));
    now(all.as_mut());
    let fed = |number: u64| Ticket(1 << 32 | (100 + number));
    let mut count = 0;
    // As long as the burst lasts nothing waits.
    while stage.tier.reach(Duration::ZERO) > 0 {
        stage.keeper.heed(&committed_as(fed(count)));
        now(all.as_mut());
        count += 1;
        let first: Vec<_> = (0..count).map(|number| (fed(number), true)).collect();
        assert_eq!(notes.verdicts(), first);
    }
    // Half of the memory may wait, which is worth four. The others are refused without a wait.
    let stuck: Vec<_> = (count..count + 20).map(fed).collect();
    stuck.iter().for_each(|ticket| {
        stage.keeper.heed(&committed_as(*ticket));
    });
    now(all.as_mut());
    let refused: Vec<_> = notes.verdicts().split_off(count as usize);
    assert!(refused.iter().all(|(_, is_there)| !is_there), "{refused:?}");
    assert_eq!(refused.len(), 16, "{refused:?}");
    assert_eq!(stage.tier.stats().budget.refused, 16);
    let counts = stage.keeper.offload_counts();
    assert_eq!((counts.done, counts.refused), (count, 16), "{counts:?}");
    assert_eq!(counts.waiting + counts.under_way, 4, "{counts:?}");
    // What is wanted out of memory now does not wait either.
    let wanted = refused[0].0;
    stage.keeper.heed(&Effect::Offload {
        member: MEMBER,
        segment: MEMORY,
        ticket: wanted,
    });
    now(all.as_mut());
    assert_eq!(notes.verdicts().last(), Some(&(wanted, false)));
    stage.clock.pass(PATIENCE);
    now(all.as_mut());
    let mut fates = notes.verdicts();
    fates.retain(|(ticket, _)| *ticket != wanted);
    assert_eq!(fates.len() as u64, count + 19, "each is told once");
    let there = |ticket: &Ticket| stage.tier.holds(*ticket);
    assert!(
        fates
            .iter()
            .all(|(ticket, is_there)| there(ticket) == *is_there)
    );
    let late = stuck.iter().filter(|ticket| there(ticket)).count();
    assert!((1..=4).contains(&late), "{late}");
    let counts = stage.keeper.offload_counts();
    let ended = (counts.done, counts.refused, counts.failed, counts.dropped);
    let done = count + late as u64;
    assert_eq!(ended, (done, count + 21 - done, 0, 0), "{counts:?}");
    assert_eq!((counts.waiting, counts.under_way), (0, 0), "{counts:?}");
    assert_eq!(
        (counts.waiting_bytes, counts.under_way_bytes),
        (0, 0),
        "{counts:?}"
    );
}
