//! The small model: two writers, two readers, one key, a segment with room for one object. Every interleaving of put,
//! lease, pre-emption, fencing, removal, late and repeated writes up to a depth, on the product's own catalog and shelf.
//!
//! A reader whose guard holds and whose read was sealed must have the right bytes here even without their sums: the
//! proof of bytes is the second net, and this test is about the first.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};
use ziggurat_base::{
    ByteCount, Crc32, Era, Extent, Key, MemberId, SegmentId, TenantId, Ticket, Timestamp,
};
use ziggurat_engine::{
    catalog::{Catalog, Config},
    command::{
        Effect, Force, GetGrant, Keep, Keys, MemberOffer, PutAnswer, PutEnd, PutGrant, PutItem,
        Recency, SegmentOffer, Wish, Written,
    },
    journey::usable,
    shelf::{Shelf, WriteId},
};

const LEN: usize = 64;
const HALF: usize = LEN / 2;
const TENANT: TenantId = TenantId(0);

/// One step of time. A guard and the patience with a writer last two of them, an open write five.
const STEP: u64 = 1_000_000;
const STEPS_MAX: u64 = 6;

/// Longest histories.
const DEPTH: usize = if cfg!(debug_assertions) { 11 } else { 15 };

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// A writer asks for space.
    Start(usize),
    /// A write of a writer arrives at the node, for the first time or once more.
    Begin(usize),
    /// The next half of its bytes lands.
    Land(usize),
    /// A writer reports success.
    End(usize),
    /// A writer gives up.
    Revoke(usize),
    /// A reader asks for a guard.
    Locate(usize),
    /// A reader copies the next half.
    Copy(usize),
    /// A reader believes what it has, and gives its guard back.
    Believe(usize),
    /// Somebody removes the key.
    Remove(Force),
    /// The node hears of a fence.
    Fence,
    /// The master hears that a fence is done.
    Fenced,
    /// Time passes.
    Pass,
    /// The master looks at the time.
    Tick,
}

const MOVES: &[Move] = &[
    Move::Start(0),
    Move::Start(1),
    Move::Begin(0),
    Move::Begin(1),
    Move::Land(0),
    Move::Land(1),
    Move::End(0),
    Move::End(1),
    Move::Revoke(0),
    Move::Revoke(1),
    Move::Locate(0),
    Move::Locate(1),
    Move::Copy(0),
    Move::Copy(1),
    Move::Believe(0),
    Move::Believe(1),
    Move::Remove(Force::No),
    Move::Remove(Force::Yes),
    Move::Fence,
    Move::Fenced,
    Move::Pass,
    Move::Tick,
];

/// A write under way at the node: its number, the halves that have landed, whether it may go on.
type UnderWay = (WriteId, usize, bool);

#[derive(Debug, Default)]
struct Writer {
    grant: Option<PutGrant>,
    started: Timestamp,
    begun: u32,
    under_way: Option<UnderWay>,
    /// All its bytes have landed once.
    written: bool,
    ended: bool,
    revoked: bool,
}

#[derive(Debug, Default)]
struct Reader {
    grant: Option<(GetGrant, Timestamp)>,
    copied: Vec<u8>,
    /// The shelf said so before the first half and after the last.
    owned: bool,
    rounds: u32,
}

impl Reader {
    /// Readers are alike: the first is the one that has a guard first.
    fn is_fresh(&self) -> bool {
        self.grant.is_none() && self.rounds == 0
    }
}

/// The world after some moves.
struct Small {
    catalog: Catalog,
    shelf: Shelf,
    memory: [u8; LEN],
    now: Timestamp,
    node: MemberId,
    segment: SegmentId,
    members: [MemberId; 2],
    writers: [Writer; 2],
    readers: [Reader; 2],
    removals: u32,
    /// Fences on their way to the node, and acknowledgements on their way back.
    fences: Vec<Effect>,
    acknowledged: Vec<Ticket>,
    /// Who was given the space last, and whose bytes landed last.
    owner: Ticket,
    last: Ticket,
    believed: u64,
}

fn key() -> Key<'static> {
    Key::new(b"k").expect("short")
}

fn keys<'a>(list: &'a [Key<'a>; 1]) -> Keys<'a> {
    Keys {
        tenant: TENANT,
        keys: list,
    }
}

fn byte(ticket: Ticket) -> u8 {
    ticket.serial() as u8
}

fn crc(ticket: Ticket) -> Crc32 {
    Crc32::of(&[byte(ticket); LEN])
}

impl Small {
    fn new() -> Self {
        let config = Config {
            lease: Duration::from_nanos(2 * STEP),
            write_discard: Duration::from_nanos(2 * STEP),
            write_release: Duration::from_nanos(5 * STEP),
            high_watermark: 1.0,
            paranoid: true,
            ..Config::default()
        };
        let mut catalog = Catalog::new(config, Era(1));
        let now = Timestamp(STEP);
        let offer = MemberOffer {
            in_process: true,
            ..MemberOffer::default()
        };
        let mut join = || catalog.join(now, &offer).expect("there is room");
        let (node, members) = (join(), [join(), join()]);
        let offer = SegmentOffer {
            name: "s".into(),
            capacity: ByteCount(LEN as u64),
            highest_era: Era(0),
            keep: Keep::Delegated,
            stock: Default::default(),
        };
        let segment = catalog.mount(now, node, &offer).expect("it is new");
        let mut shelf = Shelf::default();
        shelf.mount(segment, LEN as u64);
        Self {
            catalog,
            shelf,
            memory: [0; LEN],
            now,
            node,
            segment,
            members,
            writers: Default::default(),
            readers: Default::default(),
            removals: 0,
            fences: Vec::new(),
            acknowledged: Vec::new(),
            owner: Ticket::NONE,
            last: Ticket::NONE,
            believed: 0,
        }
    }

    fn after(moves: &[u8]) -> Self {
        let mut small = Self::new();
        for index in moves {
            assert!(
                small.make(MOVES[usize::from(*index)]),
                "the move was possible"
            );
        }
        small
    }

    /// Makes a move; `false`, and nothing has changed, when it is not possible.
    fn make(&mut self, next: Move) -> bool {
        let made = match next {
            Move::Start(i) => self.start(i),
            Move::Begin(i) => self.begin(i),
            Move::Land(i) => self.land(i),
            Move::End(i) => self.end(i),
            Move::Revoke(i) => self.revoke(i),
            Move::Locate(i) => self.locate(i),
            Move::Copy(i) => self.copy(i),
            Move::Believe(i) => self.believe(i),
            Move::Remove(force) => self.remove(force),
            Move::Fence => self.fence(),
            Move::Fenced => self.fenced(),
            Move::Pass => self.pass(),
            Move::Tick => {
                self.catalog.tick(self.now);
                true
            }
        };
        self.fences.extend(self.catalog.take_effects());
        made
    }

    fn start(&mut self, i: usize) -> bool {
        // Writers are alike: the first is the one that starts first.
        if self.writers[i].grant.is_some() || (i == 1 && self.writers[0].grant.is_none()) {
            return false;
        }
        let items = [PutItem::new(key(), LEN as u64)];
        let answers =
            self.catalog
                .put_start(self.now, self.members[i], TENANT, &items, &Wish::default());
        let Some(Ok(PutAnswer::Granted(grant))) = answers.into_iter().next() else {
            return true;
        };
        let before = self.owner;
        self.owner = grant.ticket;
        for reader in &self.readers {
            if let Some((held, until)) = &reader.grant {
                let harmless = held.ticket != before || *until <= self.now;
                assert!(harmless, "{before} is given away under a guard");
            }
        }
        self.writers[i] = Writer {
            grant: Some(grant),
            started: self.now,
            ..Writer::default()
        };
        true
    }

    fn begin(&mut self, i: usize) -> bool {
        let writer = &mut self.writers[i];
        let Some(grant) = &writer.grant else {
            return false;
        };
        if writer.begun == 2 || writer.under_way.is_some() {
            return false;
        }
        writer.begun += 1;
        let extent = [Extent::new(0, LEN as u64)];
        if let Ok(admitted) = self.shelf.begin_write(grant.ticket, self.segment, &extent) {
            writer.under_way = Some((admitted.id, 0, true));
            self.stop(&admitted.stop);
        }
        true
    }

    fn stop(&mut self, writes: &[WriteId]) {
        for writer in &mut self.writers {
            if let Some((id, _, goes_on)) = &mut writer.under_way {
                *goes_on &= !writes.contains(id);
            }
        }
    }

    fn land(&mut self, i: usize) -> bool {
        let writer = &mut self.writers[i];
        let (Some((id, landed, goes_on)), Some(grant)) = (writer.under_way, &writer.grant) else {
            return false;
        };
        let ticket = grant.ticket;
        if goes_on {
            let harmless = ticket == self.owner || (writer.ended && self.last <= ticket);
            assert!(harmless, "{ticket} lands in the space of {}", self.owner);
            self.memory[landed * HALF..][..HALF].fill(byte(ticket));
            self.last = ticket;
        }
        if goes_on && landed == 0 {
            writer.under_way = Some((id, 1, true));
        } else {
            writer.under_way = None;
            writer.written |= goes_on;
            self.shelf.end_write(self.segment, id);
        }
        true
    }

    fn end(&mut self, i: usize) -> bool {
        let writer = &mut self.writers[i];
        let Some(grant) = writer.grant.as_ref().filter(|_| writer.written) else {
            return false;
        };
        let ticket = grant.ticket;
        let end = PutEnd {
            ticket,
            crc: crc(ticket),
            written: Written::All,
        };
        let done = self.catalog.put_end(self.now, &[end]).remove(0);
        if done.is_ok_and(|done| done.replicas > 0) {
            assert!(!writer.revoked, "{ticket} was given up by its writer");
            assert_eq!(self.owner, ticket, "a late report was accepted");
            writer.ended = true;
        }
        true
    }

    fn revoke(&mut self, i: usize) -> bool {
        let writer = &mut self.writers[i];
        let Some(grant) = writer.grant.as_ref().filter(|_| !writer.revoked) else {
            return false;
        };
        let revoked = self.catalog.revoke(&[grant.ticket]).remove(0).is_ok();
        assert!(!(revoked && writer.ended), "an ended write is not revoked");
        writer.revoked = revoked;
        revoked
    }

    fn locate(&mut self, i: usize) -> bool {
        let reader = &self.readers[i];
        let first = &self.readers[0];
        if reader.grant.is_some() || reader.rounds == 2 || (i == 1 && first.is_fresh()) {
            return false;
        }
        let list = [key()];
        let answers = self.catalog.locate(self.now, keys(&list), Recency::Touch);
        if let Some(Ok(Some(grant))) = answers.into_iter().next() {
            assert_eq!(grant.crc, crc(grant.ticket));
            let until = self.now.after(usable(grant.span));
            self.readers[i].grant = Some((grant, until));
        }
        true
    }

    fn copy(&mut self, i: usize) -> bool {
        let reader = &mut self.readers[i];
        let Some((grant, _)) = reader.grant.as_ref().filter(|_| reader.copied.len() < LEN) else {
            return false;
        };
        let extent = [Extent::new(0, LEN as u64)];
        let owns = self.shelf.owns(grant.ticket, self.segment, &extent);
        let from = reader.copied.len();
        reader.owned = owns && (from == 0 || reader.owned);
        reader
            .copied
            .extend_from_slice(&self.memory[from..from + HALF]);
        true
    }

    fn believe(&mut self, i: usize) -> bool {
        let reader = &mut self.readers[i];
        if reader.copied.len() < LEN {
            return false;
        }
        let (grant, until) = reader.grant.take().expect("it was copied under a guard");
        if reader.owned && self.now < until {
            let right = [byte(grant.ticket); LEN];
            assert_eq!(reader.copied, right, "wrong bytes of {}", grant.ticket);
            self.believed += 1;
        }
        reader.copied.clear();
        reader.rounds += 1;
        self.catalog.give_back(self.now, &[grant.hold]);
        true
    }

    fn remove(&mut self, force: Force) -> bool {
        if self.removals == 2 {
            return false;
        }
        let list = [key()];
        let removed = self.catalog.remove(self.now, keys(&list), force).remove(0);
        self.removals += u32::from(removed.is_ok());
        removed.is_ok()
    }

    fn fence(&mut self) -> bool {
        if self.fences.is_empty() {
            return false;
        }
        let Effect::Fence {
            ticket, placement, ..
        } = self.fences.remove(0)
        else {
            unreachable!("the node asked for nothing else");
        };
        let writes = self.shelf.fence(ticket, &placement).expect("it is mounted");
        self.stop(&writes);
        self.acknowledged.push(ticket);
        true
    }

    fn fenced(&mut self) -> bool {
        if self.acknowledged.is_empty() {
            return false;
        }
        let ticket = self.acknowledged.remove(0);
        self.catalog.fenced(self.node, ticket, self.segment);
        true
    }

    fn pass(&mut self) -> bool {
        if self.now.0 > STEPS_MAX * STEP {
            return false;
        }
        self.now = Timestamp(self.now.0 + STEP);
        true
    }

    /// Everything that decides what may come: equal texts mean equal futures.
    fn digest(&self) -> String {
        let list = [key()];
        let stats = self.catalog.stats();
        format!(
            "{:?}{:?}{:?}{:?}{:?}{}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
            self.now,
            self.memory[0],
            self.memory[LEN - 1],
            self.writers,
            self.readers,
            self.removals,
            self.fences,
            self.acknowledged,
            (
                self.owner,
                self.last,
                self.writers[0].started,
                self.writers[1].started
            ),
            self.shelf,
            self.catalog.stat(self.now, keys(&list)),
            self.catalog.debts(self.node),
            self.catalog.newest_ticket(),
            (
                stats.used,
                stats.writes_open,
                stats.writes_closing,
                stats.objects
            ),
        )
    }
}

/// What follows a state: moves, digests of what they lead to, and how many reads were believed on the way.
fn follow(path: &[u8]) -> (Vec<(u8, u128)>, u64) {
    let mut small = Small::after(path);
    let mut spoilt = false;
    let (mut next, mut believed) = (Vec::new(), 0);
    for (index, next_move) in MOVES.iter().enumerate() {
        if spoilt {
            small = Small::after(path);
        }
        let made = small.make(*next_move);
        // What the catalog refused may have left a trace in it.
        spoilt = made || matches!(next_move, Move::Remove(_) | Move::Revoke(_));
        if made {
            believed += small.believed;
            next.push((index as u8, hash(&small.digest())));
        }
    }
    (next, believed)
}

/// One search at a time: a planted bug is in the whole process.
static SEARCHING: Mutex<()> = Mutex::new(());

/// Searches all histories of up to `deepest` moves; says how many reads were believed.
fn search(deepest: usize) -> u64 {
    let mut level: Vec<Vec<u8>> = vec![Vec::new()];
    let mut known = BTreeSet::new();
    let mut believed = 0;
    for depth in 1..=deepest {
        let half = level.len().div_ceil(2);
        let (one, other) = level.split_at(half);
        let work = |paths: &[Vec<u8>]| paths.iter().map(|path| follow(path)).collect::<Vec<_>>();
        let followed = std::thread::scope(|scope| {
            let other = scope.spawn(|| work(other));
            let mut all = work(one);
            all.extend(other.join().expect("the other half broke a rule"));
            all
        });
        let mut next = Vec::new();
        for (path, (moves, reads)) in level.iter().zip(followed) {
            believed += reads;
            for (index, digest) in moves {
                if known.insert(digest) {
                    next.push([path.as_slice(), &[index]].concat());
                }
            }
        }
        eprintln!("depth {depth}: {} states, {} new", known.len(), next.len());
        level = next;
    }
    believed
}

#[test]
fn no_interleaving_breaks_a_rule() {
    let _alone = SEARCHING.lock();
    let believed = search(DEPTH);
    assert!(believed > 100, "reads were believed: {believed}");
}

#[cfg(feature = "canary")]
#[test]
fn bugs_of_fencing_are_found_by_search() {
    use ziggurat_engine::canary::{Canary, plant};

    let _alone = SEARCHING.lock();
    for canary in [
        Canary::SpaceReusedEarly,
        Canary::LatePutEndAccepted,
        Canary::FenceIgnored,
    ] {
        plant(Some(canary));
        let found = std::panic::catch_unwind(|| search(11));
        plant(None);
        assert!(found.is_err(), "{canary:?} was not found");
    }
}

/// 128 bits of a text: two seeds of one hash.
fn hash(text: &str) -> u128 {
    let mut halves = [0_u64; 2];
    for (seed, half) in halves.iter_mut().enumerate() {
        let key = text.as_bytes();
        *half = key.chunks(4096).fold(seed as u64, |sum, part| {
            let part = Key::new(part).expect("not empty, at most 4096");
            let here = ziggurat_base::hash::key_hash(TenantId(seed as u16), part);
            ziggurat_base::hash::mix(sum ^ here)
        });
    }
    u128::from(halves[0]) << 64 | u128::from(halves[1])
}
