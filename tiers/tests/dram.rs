//! The contract of a host, kept by the memory of this process: what is written is read, and nobody touches space that
//! was given to somebody else.
#![forbid(unsafe_code)]

use proptest::prelude::*;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc,
};
use ziggurat_base::{
    CHUNK, ChunkTable, Code, Crc32, Extent, Extents, MemberId, Placement, SegmentId, Ticket,
    checksum::table_len,
    frame::Span,
    memory::{Region, RegionOptions},
};
use ziggurat_engine::{
    command::Target,
    port::{Access, Host, ReadOp, ReadSums, WriteOp},
    testkit::host,
};
use ziggurat_tiers::dram::DramTier;

const HERE: SegmentId = SegmentId(1);
const US: MemberId = MemberId(7);
const SEGMENT_LEN: u64 = 8 << 20;

fn tier() -> DramTier {
    let tier = DramTier::new(US);
    let options = RegionOptions {
        len: SEGMENT_LEN,
        name: "test".into(),
        ..RegionOptions::default()
    };
    let region = Region::create(&options).expect("the machine has 8 MiB");
    tier.mount(HERE, region).expect("a new tier has no segment");
    tier
}

struct Bench(DramTier);

impl host::Bench for Bench {
    fn host(&self) -> &dyn Host {
        &self.0
    }

    fn fence(&self, ticket: Ticket, placement: &Placement) {
        self.0.fence(ticket, placement).expect("it is mounted");
    }

    fn unmount(&self) {
        self.0.unmount(host::SEGMENT).expect("it is mounted");
    }

    fn rejoin(&self, member: MemberId) {
        self.0.set_member(member);
    }
}

fn bench() -> Box<dyn host::Bench> {
    let tier = DramTier::new(host::MEMBER);
    let options = RegionOptions {
        len: host::SEGMENT_LEN,
        name: "bench".into(),
        ..RegionOptions::default()
    };
    let region = Region::create(&options).expect("the machine has 4 MiB");
    let mounted = tier.mount(host::SEGMENT, region);
    mounted.expect("a new tier has no segment");
    Box::new(Bench(tier))
}

ziggurat_engine::host_contract!(contract, bench());

fn payload(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + i / 241 + seed) as u8).collect()
}

/// A payload of `len` bytes in one extent, or in several from `2 * CHUNK` bytes on; its table is at the end.
fn target(offset: u64, len: u64, scattered: bool) -> Target {
    let chunk = CHUNK as u64;
    let extents = if scattered && len > 2 * chunk {
        vec![
            Extent::new(offset + 9 * chunk, chunk),
            Extent::new(offset + 2 * chunk, chunk),
            Extent::new(offset + 11 * chunk, len - 2 * chunk),
        ]
    } else {
        vec![Extent::new(offset, len)]
    };
    let table = table_len(len);
    Target {
        member: US,
        placement: Placement {
            segment: HERE,
            extents: Extents::checked(&extents).expect("all but the last are whole chunks"),
            check: (table > 0).then(|| Extent::new(SEGMENT_LEN - 4096, table)),
        },
    }
}

fn put(tier: &DramTier, ticket: u64, target: &Target, bytes: &[u8]) -> Result<Crc32, Code> {
    let op = WriteOp {
        name: None,
        ticket: Ticket(ticket),
        target,
        parts: &[bytes],
        len: bytes.len() as u64,
    };
    tier.write(&op).map_err(|e| e.code())
}

fn get(
    tier: &DramTier,
    ticket: u64,
    source: &Target,
    range: std::ops::Range<u64>,
) -> Result<(Vec<u8>, ReadSums), Code> {
    let mut into = vec![0xee; (range.end - range.start) as usize];
    let mut op = ReadOp {
        name: None,
        ticket: Ticket(ticket),
        source,
        object_len: source.placement.extents.len().0,
        offset: range.start,
        into: &mut into,
        want_table: true,
    };
    let sums = tier.read(&mut op).map_err(|e| e.code())?;
    Ok((into, sums))
}

fn access(ticket: u64) -> Access {
    Access {
        member: US,
        segment: HERE,
        ticket: Ticket(ticket),
    }
}

fn whole(target: &Target) -> Span {
    Span::whole(target.placement.extents.len().0, target.placement.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_is_read(
        len in prop_oneof![0..5000_u64, 60_000..400_000_u64],
        scattered: bool,
        cuts in prop::collection::vec(0..400_000_u64, 0..5),
        first in 0..7_u64,
        count in 0..7_u64,
    ) {
        let tier = tier();
        let target = target(1000, len, scattered);
        let bytes = payload(len, 1);
        let mut cuts: Vec<_> = cuts.into_iter().map(|c| c.min(len) as usize).chain([0, len as usize]).collect();
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let op = WriteOp { name: None, ticket: Ticket(3), target: &target, parts: &parts, len };
        let crc = tier.write(&op).unwrap();
        prop_assert_eq!(crc, Crc32::of(&bytes));
        let chunk = CHUNK as u64;
        let start = (first * chunk).min(len / chunk * chunk);
        let end = (start + count * chunk).min(len);
        let (range, sums) = get(&tier, 3, &target, start..end).unwrap();
        prop_assert_eq!(&range, &bytes[start as usize..end as usize]);
        prop_assert_eq!(sums.crc, Crc32::of(&range));
        prop_assert_eq!(sums.chunks, ChunkTable::of(&range).sums().to_vec());
        prop_assert_eq!(sums.table.len() as u64, table_len(len));
        if len > chunk {
            prop_assert_eq!(ChunkTable::proved(&sums.table, len, crc).unwrap(), ChunkTable::of(&bytes));
        }
    }

    #[test]
    fn slots_move_bytes_in_any_cut(
        len in prop_oneof![0..5000_u64, 60_000..400_000_u64],
        scattered: bool,
        step in 1..100_000_usize,
    ) {
        let tier = tier();
        let target = target(0, len, scattered);
        let bytes = payload(len, 2);
        let mut slot = tier.open_write(access(4), &whole(&target)).unwrap();
        let mut rest = &bytes[..];
        while slot.left() > 0 {
            let moved = slot.step(step, &mut |window| {
                let n = window.len().min(30_000);
                window[..n].copy_from_slice(&rest[..n]);
                n
            }).unwrap();
            rest = &rest[moved..];
        }
        slot.finish(ChunkTable::of(&bytes).sums()).unwrap();
        let mut back = Vec::new();
        let mut slot = tier.open_read(access(4), &whole(&target)).unwrap();
        while slot.left() > 0 {
            slot.step(step, &mut |window| {
                back.extend_from_slice(window);
                window.len()
            });
        }
        prop_assert_eq!(&back, &bytes);
        slot.seal().unwrap();
        let table = slot.table().unwrap();
        prop_assert_eq!(table.len() as u64, table_len(len));
        prop_assert!(table.is_empty() || table == ChunkTable::of(&bytes).encode());
    }
}

#[test]
fn a_fence_stops_a_write_half_way_and_for_ever() {
    let tier = tier();
    let target = target(0, 200_000, false);
    let mut slot = tier.open_write(access(5), &whole(&target)).unwrap();
    let mut fill = |window: &mut [u8]| window.len();
    slot.step(1000, &mut fill).unwrap();
    tier.fence(Ticket(5), &target.placement).unwrap();
    let mut untouched = |_: &mut [u8]| unreachable!("not a byte more is moved");
    let refused = slot.step(1000, &mut untouched).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidWrite);
    drop(slot);
    assert_eq!(
        tier.open_write(access(5), &whole(&target))
            .err()
            .map(|e| e.code()),
        Some(Code::InvalidWrite)
    );
    assert_eq!(
        put(&tier, 5, &target, &payload(200_000, 0)),
        Err(Code::InvalidWrite)
    );
    put(&tier, 6, &target, &payload(200_000, 0)).unwrap();
}

#[test]
fn a_fence_waits_for_the_piece_that_is_being_moved() {
    let tier = Arc::new(tier());
    let target = target(0, 200_000, false);
    let (inside, is_inside) = mpsc::channel();
    let pieces = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let writer = std::thread::spawn({
        let (tier, target, pieces) = (Arc::clone(&tier), target.clone(), Arc::clone(&pieces));
        move || {
            let mut slot = tier.open_write(access(5), &whole(&target)).unwrap();
            let mut fill = |_: &mut [u8]| {
                let begun = pieces[0].fetch_add(1, Ordering::SeqCst);
                if begun == 1000 {
                    inside.send(()).unwrap();
                }
                pieces[1].fetch_add(1, Ordering::SeqCst);
                0
            };
            loop {
                if let Err(e) = slot.step(4096, &mut fill) {
                    return e.code();
                }
            }
        }
    });
    is_inside.recv().unwrap();
    tier.fence(Ticket(5), &target.placement).unwrap();
    let [begun, ended] = [0, 1].map(|i| pieces[i].load(Ordering::SeqCst));
    assert_eq!(begun, ended, "no piece is half-way when the fence returns");
    assert_eq!(writer.join().unwrap(), Code::InvalidWrite);
    assert_eq!(
        pieces[0].load(Ordering::SeqCst),
        begun,
        "and none is begun later"
    );
}

#[test]
fn a_newer_write_stops_the_older_one_in_the_same_space() {
    let tier = tier();
    let old = target(0, 100_000, false);
    let mut slot = tier.open_write(access(5), &whole(&old)).unwrap();
    let bytes = payload(4096, 9);
    let new = target(50_000, 4096, false);
    put(&tier, 9, &new, &bytes).unwrap();
    let mut untouched = |_: &mut [u8]| unreachable!("not a byte more is moved");
    assert_eq!(
        slot.step(10, &mut untouched).unwrap_err().code(),
        Code::InvalidWrite
    );
    assert_eq!(get(&tier, 9, &new, 0..4096).unwrap().0, bytes);
    assert_eq!(
        put(&tier, 5, &new, &bytes),
        Err(Code::InvalidWrite),
        "an older writer is refused"
    );
}

#[test]
fn a_read_of_space_that_was_given_on_is_refused() {
    let tier = tier();
    let old = target(0, 100_000, false);
    put(&tier, 5, &old, &payload(100_000, 1)).unwrap();
    let mut reading = tier.open_read(access(5), &whole(&old)).unwrap();
    reading.step(CHUNK, &mut |window| window.len());
    reading.seal().unwrap();
    put(&tier, 6, &target(99_999, 1, false), &[1]).unwrap();
    assert_eq!(reading.seal().unwrap_err().code(), Code::ReplicaIsGone);
    assert_eq!(
        get(&tier, 5, &old, 0..100_000).unwrap_err(),
        Code::ReplicaIsGone
    );
    let gone = tier.open_read(access(5), &whole(&old)).err().unwrap();
    assert_eq!(gone.code(), Code::ReplicaIsGone);
    assert_eq!(
        get(&tier, 5, &target(0, 4096, false), 0..4096)
            .unwrap()
            .0
            .len(),
        4096
    );
}

#[test]
fn an_empty_payload_is_a_value() {
    let tier = tier();
    let empty = target(64, 0, false);
    assert_eq!(put(&tier, 5, &empty, &[]).unwrap(), Crc32::default());
    let (bytes, sums) = get(&tier, 5, &empty, 0..0).unwrap();
    assert!(bytes.is_empty() && sums == ReadSums::default());
}

#[test]
fn only_the_living_incarnation_is_served() {
    let tier = tier();
    let here = target(0, 100, false);
    put(&tier, 5, &here, &payload(100, 1)).unwrap();
    tier.set_member(MemberId(8));
    assert_eq!(
        put(&tier, 6, &here, &payload(100, 1)),
        Err(Code::ClientNotFound)
    );
    assert_eq!(
        get(&tier, 5, &here, 0..100).unwrap_err(),
        Code::ClientNotFound
    );
}

#[test]
fn an_unmounted_segment_stops_its_writers_and_refuses_everybody() {
    let tier = tier();
    let here = target(0, 100, false);
    let mut slot = tier.open_write(access(5), &whole(&here)).unwrap();
    let region = tier.unmount(HERE).unwrap();
    assert_eq!(region.len(), SEGMENT_LEN);
    let refused = slot
        .step(1, &mut |window: &mut [u8]| window.len())
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidWrite);
    assert_eq!(
        put(&tier, 6, &here, &payload(100, 1)),
        Err(Code::SegmentNotFound)
    );
    assert_eq!(
        get(&tier, 5, &here, 0..100).unwrap_err(),
        Code::SegmentNotFound
    );
    assert_eq!(
        tier.fence(Ticket(5), &here.placement).unwrap_err().code(),
        Code::SegmentNotFound
    );
    assert!(tier.unmount(HERE).is_none());
}

#[test]
fn contradictions_are_refused() {
    let tier = tier();
    let here = target(0, 100, false);
    assert_eq!(
        put(&tier, 5, &here, &payload(99, 1)),
        Err(Code::InvalidParams)
    );
    assert_eq!(
        put(
            &tier,
            5,
            &target(SEGMENT_LEN - 50, 100, false),
            &payload(100, 1)
        ),
        Err(Code::InvalidReplica)
    );
    let mut naked = target(0, 100_000, false);
    naked.placement.check = None;
    assert_eq!(
        put(&tier, 5, &naked, &payload(100_000, 1)),
        Err(Code::InvalidParams)
    );
    let big = target(0, 100_000, false);
    put(&tier, 5, &big, &payload(100_000, 1)).unwrap();
    assert_eq!(get(&tier, 5, &big, 0..99).unwrap_err(), Code::InvalidRead);
    assert_eq!(
        get(&tier, 5, &big, 1..65_537).unwrap_err(),
        Code::InvalidRead
    );
    assert_eq!(
        tier.open_read(
            Access {
                segment: SegmentId(2),
                ..access(5)
            },
            &whole(&big)
        )
        .err()
        .map(|e| e.code()),
        Some(Code::InvalidParams)
    );
}
