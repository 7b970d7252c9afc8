//! For tests and measurements of this and other crates: [`FakePartition`], a few maps that answer what arrives over the wire
//! without leases, space or rules (the real one is the engine's catalog), and [`decode_any`] for fuzz targets.

mod decoders;

pub use decoders::decode_any;

use crate::{
    hello::Greeting,
    lock::lock,
    order::{Order, OrderApi, Report},
    partition::Partition,
};
use std::{
    collections::{HashMap, VecDeque},
    future::{pending, ready},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use ziggurat_base::{
    Code, Crc32, Era, Error, Extent, Extents, Job, Key, MemberId, ObjectKey, Placement, SegmentId,
    TenantId, Ticket,
};
use ziggurat_engine::{
    Row,
    command::{
        Answer, Cursor, Effect, Force, GetGrant, Hold, Keys, MemberOffer, ObjectStat, Page,
        Prefetch, Prefetched, Priority, PutAnswer, PutDone, PutEnd, PutGrant, PutItem, Recency,
        ScanAction, SegmentOffer, SegmentStat, Stats, Target, Targets, Wish,
    },
    ledger::{LedgerBatch, LedgerReply, Verdict},
    port::{Joined, MemberApi, MetadataApi},
};

/// A call that names this key is never answered.
pub const STALL: &[u8] = b"stall";

/// The span of every grant of a [`FakePartition`].
pub const SPAN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
struct Object {
    ticket: Ticket,
    len: u64,
    crc: Crc32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct FakePartition {
    objects: Mutex<HashMap<Vec<u8>, Object>>,
    writes: Mutex<HashMap<Ticket, (Vec<u8>, u64)>>,
    serial: AtomicU64,
    /// Guards that came back, in order.
    pub holds: Mutex<Vec<Hold>>,
    /// Reports that came, in order.
    pub reports: Mutex<Vec<Report>>,
    /// Fences that were acknowledged, in order.
    pub fences: Mutex<Vec<Ticket>>,
    /// How often a subscription began.
    pub rewound: AtomicU64,
    effects: Mutex<VecDeque<Effect>>,
    orders: Mutex<VecDeque<Order>>,
    bell: Notify,
    is_gone: Mutex<bool>,
}

impl FakePartition {
    /// Makes keys readable.
    pub fn fill<'a>(&self, keys: impl IntoIterator<Item = Key<'a>>) {
        for key in keys {
            let object = Object {
                ticket: self.next_ticket(),
                len: 1,
                crc: Crc32(0),
            };
            lock(&self.objects).insert(key.bytes().to_vec(), object);
        }
    }

    /// Has an effect pushed.
    pub fn push_effect(&self, effect: Effect) {
        lock(&self.effects).push_back(effect);
        self.bell.notify_waiters();
    }

    /// Has an order pushed.
    pub fn push_order(&self, order: Order) {
        lock(&self.orders).push_back(order);
        self.bell.notify_waiters();
    }

    /// Declares every member gone.
    pub fn lose_members(&self) {
        *lock(&self.is_gone) = true;
        self.bell.notify_waiters();
    }

    /// The placement that belongs to a ticket.
    #[must_use]
    pub fn target(ticket: Ticket, len: u64) -> Target {
        let extent = Extent::new(u64::from(ticket.serial()) * 4096, len);
        Target {
            member: MemberId(1),
            placement: Placement {
                segment: SegmentId(1),
                extents: Extents::One(extent),
                check: None,
            },
        }
    }

    fn next_ticket(&self) -> Ticket {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        Ticket::new(Era(1), serial as u32)
    }

    fn find(&self, key: Key<'_>) -> Option<Object> {
        lock(&self.objects).get(key.bytes()).copied()
    }

    fn start(&self, item: &PutItem<'_>) -> PutAnswer {
        if self.find(item.key).is_some() {
            return PutAnswer::Existed;
        }
        let ticket = self.next_ticket();
        lock(&self.writes).insert(ticket, (item.key.bytes().to_vec(), item.len));
        PutAnswer::Granted(PutGrant {
            ticket,
            targets: Targets::One(Self::target(ticket, item.len)),
            span: SPAN,
        })
    }

    fn end(&self, end: &PutEnd) -> Answer<PutDone> {
        let Some((key, len)) = lock(&self.writes).remove(&end.ticket) else {
            return Err(Error::new(Code::InvalidWrite, "not open"));
        };
        let object = Object {
            ticket: end.ticket,
            len,
            crc: end.crc,
        };
        lock(&self.objects).insert(key, object);
        Ok(PutDone { replicas: 1 })
    }

    fn grant(&self, key: Key<'_>) -> Option<GetGrant> {
        self.find(key).map(|object| GetGrant {
            ticket: object.ticket,
            len: object.len,
            crc: object.crc,
            replicas: Targets::One(Self::target(object.ticket, object.len)),
            hold: Hold {
                row: Row(object.ticket.serial()),
                ticket: object.ticket,
                term: 1,
            },
            span: SPAN,
        })
    }

    async fn next<T: Clone>(&self, queue: &Mutex<VecDeque<T>>) -> Answer<Vec<T>> {
        loop {
            let rung = self.bell.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            let waiting: Vec<_> = lock(queue).drain(..).collect();
            if !waiting.is_empty() {
                return Ok(waiting);
            }
            if *lock(&self.is_gone) {
                return Err(Error::new(Code::ClientNotFound, "the member is gone"));
            }
            rung.await;
        }
    }
}

fn now<'a, T: Send + 'a>(value: T) -> Job<'a, T> {
    Box::pin(ready(value))
}

impl MetadataApi for FakePartition {
    fn put_start<'a>(
        &'a self,
        _tenant: TenantId,
        items: &'a [PutItem<'a>],
        _wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        now(Ok(items.iter().map(|item| Ok(self.start(item))).collect()))
    }

    fn put_end<'a>(&'a self, ends: &'a [PutEnd]) -> Job<'a, Answer<Vec<Answer<PutDone>>>> {
        now(Ok(ends.iter().map(|end| self.end(end)).collect()))
    }

    fn revoke<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        let revoke = |ticket| match lock(&self.writes).remove(ticket) {
            Some(_) => Ok(()),
            None => Err(Error::new(Code::InvalidWrite, "not open")),
        };
        now(Ok(tickets.iter().map(revoke).collect()))
    }

    fn renew<'a>(&'a self, tickets: &'a [Ticket]) -> Job<'a, Answer<Vec<Answer<()>>>> {
        now(Ok(tickets.iter().map(|_| Ok(())).collect()))
    }

    fn locate<'a>(
        &'a self,
        keys: Keys<'a>,
        _recency: Recency,
    ) -> Job<'a, Answer<Vec<Answer<Option<GetGrant>>>>> {
        now(Ok(keys
            .keys
            .iter()
            .map(|key| Ok(self.grant(*key)))
            .collect()))
    }

    fn exist<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<bool>>>> {
        if keys.keys.iter().any(|key| key.bytes() == STALL) {
            return Box::pin(pending());
        }
        let objects = lock(&self.objects);
        let exists = |key: &Key<'_>| Ok(objects.contains_key(key.bytes()));
        now(Ok(keys.keys.iter().map(exists).collect()))
    }

    fn touch<'a>(&'a self, _keys: Keys<'a>) -> Job<'a, Answer<()>> {
        now(Ok(()))
    }

    fn give_back(&self, holds: &[Hold]) {
        lock(&self.holds).extend(holds);
    }

    fn remove<'a>(&'a self, keys: Keys<'a>, _force: Force) -> Job<'a, Answer<Vec<Answer<()>>>> {
        let remove = |key: &Key<'_>| match lock(&self.objects).remove(key.bytes()) {
            Some(_) => Ok(()),
            None => Err(Error::new(Code::ObjectNotFound, "no such object")),
        };
        now(Ok(keys.keys.iter().map(remove).collect()))
    }

    fn prefetch<'a>(
        &'a self,
        keys: Keys<'a>,
        wish: Prefetch,
    ) -> Job<'a, Answer<Vec<Answer<Option<Prefetched>>>>> {
        let prefetch = |key: &Key<'_>| {
            let found = self.grant(*key);
            Ok(found.map(|_| match wish {
                Prefetch::Begin(Priority::High) => Prefetched::InMemory,
                Prefetch::Begin(_) => Prefetched::UnderWay,
                Prefetch::Cancel => Prefetched::Stopped,
            }))
        };
        now(Ok(keys.keys.iter().map(prefetch).collect()))
    }

    fn scan<'a>(
        &'a self,
        _tenant: TenantId,
        pattern: &'a str,
        _action: ScanAction,
        _cursor: Option<Cursor>,
    ) -> Job<'a, Answer<Page>> {
        let objects = lock(&self.objects);
        let listed = objects
            .iter()
            .filter(|(key, _)| String::from_utf8_lossy(key).contains(pattern))
            .filter_map(|(key, object)| Some((ObjectKey::new(key).ok()?, object.len)));
        let mut keys: Vec<_> = listed.collect();
        keys.sort();
        now(Ok(Page {
            keys,
            ..Page::default()
        }))
    }

    fn stat<'a>(&'a self, keys: Keys<'a>) -> Job<'a, Answer<Vec<Answer<Option<ObjectStat>>>>> {
        let stat = |key: &Key<'_>| {
            Ok(self.grant(*key).map(|grant| ObjectStat {
                len: grant.len,
                ticket: grant.ticket,
                crc: grant.crc,
                replicas: grant.replicas,
                lease: Duration::ZERO,
                parent: None,
                group: None,
                hint: Default::default(),
            }))
        };
        now(Ok(keys.keys.iter().map(stat).collect()))
    }
}

impl MemberApi for FakePartition {
    fn join<'a>(&'a self, _offer: &'a MemberOffer) -> Job<'a, Answer<Joined>> {
        now(Ok(Joined {
            member: MemberId(1),
            era: Era(1),
            time_to_live: SPAN,
        }))
    }

    fn ping(&self, _member: MemberId) -> Job<'_, Answer<()>> {
        now(Ok(()))
    }

    fn leave(&self, _member: MemberId) -> Job<'_, Answer<()>> {
        now(Ok(()))
    }

    fn tenant<'a>(&'a self, name: &'a str) -> Job<'a, Answer<TenantId>> {
        now(match name {
            "default" => Ok(TenantId(0)),
            "other" => Ok(TenantId(1)),
            _ => Err(Error::new(
                Code::TenantNotRegistered,
                format!("no tenant {name}"),
            )),
        })
    }

    fn mount<'a>(
        &'a self,
        _member: MemberId,
        _offer: &'a SegmentOffer,
    ) -> Job<'a, Answer<SegmentId>> {
        now(Ok(SegmentId(1)))
    }

    fn unmount(
        &self,
        _member: MemberId,
        segment: SegmentId,
        _grace: Duration,
    ) -> Job<'_, Answer<()>> {
        now(match segment {
            SegmentId(1) => Ok(()),
            _ => Err(Code::SegmentNotFound.into()),
        })
    }

    fn fenced(
        &self,
        _member: MemberId,
        ticket: Ticket,
        _segment: SegmentId,
    ) -> Job<'_, Answer<()>> {
        lock(&self.fences).push(ticket);
        now(Ok(()))
    }

    /// Believes everything but what has an odd ticket.
    fn ledger<'a>(
        &'a self,
        _member: MemberId,
        _segment: SegmentId,
        batch: &'a LedgerBatch,
    ) -> Job<'a, Answer<LedgerReply>> {
        let LedgerBatch::Page { holdings, .. } = batch else {
            return now(Ok(LedgerReply::default()));
        };
        let verdict = |odd| match odd {
            true => Verdict::Discard,
            false => Verdict::Taken,
        };
        let odd = holdings.iter().map(|h| h.version.ticket.0 % 2 == 1);
        now(Ok(LedgerReply {
            verdicts: odd.map(verdict).collect(),
            is_first: false,
        }))
    }

    fn segments(&self) -> Job<'_, Answer<Vec<SegmentStat>>> {
        now(Ok(Vec::new()))
    }

    fn effects(&self, _member: MemberId) -> Job<'_, Answer<Vec<Effect>>> {
        Box::pin(self.next(&self.effects))
    }

    fn stats(&self) -> Job<'_, Answer<Stats>> {
        let objects = lock(&self.objects).len() as u64;
        now(Ok(Stats {
            objects,
            ..Stats::default()
        }))
    }
}

impl OrderApi for FakePartition {
    fn orders(&self, _member: MemberId) -> Job<'_, Answer<Vec<Order>>> {
        Box::pin(self.next(&self.orders))
    }

    fn report<'a>(&'a self, report: &'a Report) -> Job<'a, Answer<()>> {
        lock(&self.reports).push(report.clone());
        now(Ok(()))
    }
}

impl Partition for FakePartition {
    fn put_start_as<'a>(
        &'a self,
        _writer: MemberId,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>> {
        self.put_start(tenant, items, wish)
    }

    fn greeting(&self) -> Greeting {
        Greeting {
            era: Era(1),
            lease: SPAN,
            time_to_live: SPAN,
        }
    }

    fn rewind(&self, _member: MemberId) {
        self.rewound.fetch_add(1, Ordering::Relaxed);
    }
}
