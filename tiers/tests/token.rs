//! Foreign clients at the memory of a node: bytes come and go by tokens, and only what is whole is proved.
#![forbid(unsafe_code)]

use proptest::prelude::*;
use std::{sync::Arc, time::Duration};
use ziggurat_base::{
    CHUNK, ChunkTable, Code, Crc32, Extent, Extents, ManualClock, MemberId, Placement, SegmentId,
    Ticket, Timestamp,
    checksum::table_len,
    frame::TokenSpan,
    memory::{Region, RegionOptions},
};
use ziggurat_engine::{
    command::Target,
    port::{Host, ReadOp, WriteOp, WriteSlot},
    token::{Announce, TokenRange, TokenUse},
};
use ziggurat_tiers::dram::DramTier;

const HERE: SegmentId = SegmentId(1);
const US: MemberId = MemberId(7);
const SEGMENT_LEN: u64 = 4 << 20;
const SPAN: Duration = Duration::from_secs(10);

struct Rig {
    clock: ManualClock,
    tier: DramTier,
    region: Arc<Region>,
}

impl Rig {
    fn new() -> Self {
        let clock = ManualClock::default();
        let tier = DramTier::with_tokens(US, Arc::new(clock.clone()));
        let options = RegionOptions {
            len: SEGMENT_LEN,
            name: "test".into(),
            ..RegionOptions::default()
        };
        let region = Arc::new(Region::create(&options).expect("the machine has 4 MiB"));
        tier.mount_shared(HERE, region.clone())
            .expect("a new tier has no segment");
        Self {
            clock,
            tier,
            region,
        }
    }

    /// Tokens 1, 2, … of a version for slices of its payload.
    fn announce(&self, ticket: u64, allows: TokenUse, slices: &[u64]) -> Placement {
        let announced = self.try_announce(ticket, allows, slices);
        announced.expect("space is there")
    }

    fn try_announce(
        &self,
        ticket: u64,
        allows: TokenUse,
        slices: &[u64],
    ) -> Result<Placement, Code> {
        let mut offset = 0;
        let mut tokens = Vec::new();
        for (number, len) in slices.iter().enumerate() {
            tokens.push(TokenRange {
                token: number as u64 + 1 + 100 * ticket * u64::from(allows == TokenUse::Read),
                offset,
                len: *len,
            });
            offset += len;
        }
        let placement = placement(offset);
        let announce = Announce {
            ticket: Ticket(ticket),
            placement: placement.clone(),
            object_len: offset,
            allows,
            span: SPAN,
            tokens,
        };
        let announced = self.tier.announce(&announce);
        announced.map_err(|error| error.code())?;
        Ok(placement)
    }

    fn open(&self, token: u64, offset: u64, len: u64) -> Result<Box<dyn WriteSlot>, Code> {
        let span = TokenSpan { token, offset, len };
        self.tier
            .open_token_write(&span)
            .map_err(|error| error.code())
    }

    fn write(&self, token: u64, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        let mut slot = self.open(token, offset, bytes.len() as u64)?;
        fill(&mut *slot, bytes)?;
        slot.finish(&[]).map_err(|error| error.code())
    }

    fn prove(&self, ticket: u64, placement: &Placement) -> Result<Crc32, Code> {
        let len = placement.extents.len().0;
        let proof = self.tier.prove(Ticket(ticket), placement, len);
        proof.map_err(|error| error.code())
    }

    fn read(&self, token: u64, offset: u64, len: u64) -> Result<Vec<u8>, Code> {
        let span = TokenSpan { token, offset, len };
        let slot = self.tier.open_token_read(&span);
        let mut slot = slot.map_err(|error| error.code())?;
        let table = slot.table().map_err(|error| error.code())?;
        let mut bytes = Vec::new();
        while slot.left() > 0 {
            slot.step(50_000, &mut |window| {
                bytes.extend_from_slice(window);
                window.len()
            });
        }
        assert_eq!(table, ChunkTable::of(&bytes).encode());
        slot.seal().map_err(|error| error.code())?;
        Ok(bytes)
    }
}

/// Moves the next bytes into a write.
fn fill(slot: &mut dyn WriteSlot, mut bytes: &[u8]) -> Result<(), Code> {
    while !bytes.is_empty() {
        let moved = slot.step(40_000, &mut |window| {
            let n = window.len().min(bytes.len());
            window[..n].copy_from_slice(&bytes[..n]);
            n
        });
        bytes = &bytes[moved.map_err(|error| error.code())?..];
    }
    Ok(())
}

/// Two extents from two chunks on; the table is at the end.
fn placement(len: u64) -> Placement {
    let chunk = CHUNK as u64;
    let extents = if len > chunk {
        vec![
            Extent::new(9 * chunk, chunk),
            Extent::new(2 * chunk, len - chunk),
        ]
    } else {
        vec![Extent::new(chunk, len)]
    };
    let table = table_len(len);
    Placement {
        segment: HERE,
        extents: Extents::checked(&extents).expect("all but the last are whole chunks"),
        check: (table > 0).then(|| Extent::new(SEGMENT_LEN - 4096, table)),
    }
}

fn payload(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + i / 241) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_arrives_in_any_pieces_is_proved_and_read(
        slices in prop::collection::vec(0..90_000_u64, 1..6),
        step in 1..70_000_u64,
        (from, len) in (0..200_000_u64, 0..200_000_u64),
    ) {
        let rig = Rig::new();
        let placement = rig.announce(5, TokenUse::Write, &slices);
        let bytes = payload(slices.iter().sum());
        let mut start = 0;
        for (number, slice) in slices.iter().enumerate() {
            let mut pieces: Vec<_> = (0..*slice).step_by(step as usize).collect();
            pieces.reverse();
            for offset in pieces.into_iter().filter(|_| *slice / step < 500) {
                let end = (offset + step).min(*slice);
                let piece = &bytes[(start + offset) as usize..(start + end) as usize];
                prop_assert_eq!(rig.write(number as u64 + 1, offset, piece), Ok(()));
            }
            let whole = &bytes[start as usize..(start + slice) as usize];
            prop_assert_eq!(rig.write(number as u64 + 1, 0, whole), Ok(()));
            start += slice;
        }
        for _ in 0..2 {
            prop_assert_eq!(rig.prove(5, &placement), Ok(Crc32::of(&bytes)));
        }
        let mut into = vec![0; bytes.len()];
        let target = Target { member: US, placement };
        let mut op = ReadOp {
            name: None,
            ticket: Ticket(5),
            source: &target,
            object_len: bytes.len() as u64,
            offset: 0,
            into: &mut into,
            want_table: true,
        };
        let sums = rig.tier.read(&mut op).unwrap();
        if !sums.table.is_empty() {
            prop_assert_eq!(&sums.table, &ChunkTable::of(&bytes).encode());
        }
        prop_assert_eq!(&into, &bytes);
        rig.announce(5, TokenUse::Read, &[bytes.len() as u64]);
        let from = from.min(bytes.len() as u64);
        let len = len.min(bytes.len() as u64 - from);
        let read = rig.read(501, from, len).unwrap();
        prop_assert_eq!(&read, &bytes[from as usize..(from + len) as usize]);
    }
}

#[test]
fn a_proof_ends_the_write_and_finds_what_is_missing() {
    let rig = Rig::new();
    let bytes = payload(100_000);
    let placement = rig.announce(5, TokenUse::Write, &[60_000, 40_000]);
    rig.write(1, 0, &bytes[..60_000]).unwrap();
    rig.write(2, 0, &bytes[60_000..99_000]).unwrap();
    for _ in 0..2 {
        assert_eq!(rig.prove(5, &placement), Err(Code::InvalidWrite));
    }
    let late = rig.write(2, 39_000, &bytes[99_000..]);
    assert_eq!(late, Err(Code::InvalidWrite), "the write is over");
    assert_eq!(rig.prove(6, &placement), Err(Code::InvalidWrite));
    let target = Target {
        member: US,
        placement,
    };
    let op = WriteOp {
        name: None,
        ticket: Ticket(5),
        target: &target,
        parts: &[&bytes],
        len: 100_000,
    };
    let by_ticket = rig.tier.write(&op).unwrap_err();
    assert_eq!(by_ticket.code(), Code::InvalidWrite, "by its ticket too");
}

#[test]
fn a_write_that_is_under_way_is_stopped_by_the_proof() {
    let rig = Rig::new();
    let bytes = payload(100_000);
    let placement = rig.announce(5, TokenUse::Write, &[100_000]);
    rig.write(1, 0, &bytes).unwrap();
    let mut again = rig.open(1, 0, 100_000).unwrap();
    fill(&mut *again, &bytes[..50_000]).unwrap();
    assert_eq!(rig.prove(5, &placement), Err(Code::InvalidWrite));
    let stopped = fill(&mut *again, &bytes[50_000..]);
    assert_eq!(stopped, Err(Code::InvalidWrite));
}

#[test]
fn space_that_was_given_on_is_neither_written_nor_proved() {
    let rig = Rig::new();
    let bytes = payload(100_000);
    let placement = rig.announce(5, TokenUse::Write, &[100_000]);
    rig.write(1, 0, &bytes).unwrap();
    let target = Target {
        member: US,
        placement: placement.clone(),
    };
    let newer = WriteOp {
        name: None,
        ticket: Ticket(9),
        target: &target,
        parts: &[&bytes],
        len: 100_000,
    };
    rig.tier.write(&newer).unwrap();
    assert_eq!(rig.write(1, 0, &bytes), Err(Code::InvalidWrite));
    assert_eq!(rig.prove(5, &placement), Err(Code::InvalidWrite));
    rig.announce(5, TokenUse::Read, &[100_000]);
    assert_eq!(rig.read(501, 0, 10), Err(Code::ReplicaIsGone));
    rig.announce(9, TokenUse::Read, &[100_000]);
    assert_eq!(rig.read(901, 0, 100_000), Ok(bytes));
}

#[test]
fn tokens_end_with_fence_time_and_segment() {
    let rig = Rig::new();
    let placement = rig.announce(5, TokenUse::Write, &[100]);
    rig.tier.fence(Ticket(5), &placement).unwrap();
    assert_eq!(rig.write(1, 0, &[1; 100]), Err(Code::InvalidWrite));
    let late = rig.try_announce(5, TokenUse::Write, &[100]);
    assert_eq!(late, Err(Code::InvalidWrite), "the fence came first");
    rig.announce(6, TokenUse::Write, &[100]);
    rig.clock.advance_to(Timestamp::ZERO.after(SPAN));
    assert_eq!(rig.write(1, 0, &[1; 100]), Err(Code::InvalidWrite));
    let placement = rig.announce(7, TokenUse::Write, &[100]);
    rig.write(1, 0, &[1; 100]).unwrap();
    rig.tier.unmount(HERE).unwrap();
    assert_eq!(rig.write(1, 0, &[1; 100]), Err(Code::InvalidWrite));
    assert_eq!(rig.prove(7, &placement), Err(Code::SegmentNotFound));
}

#[test]
fn whole_chunks_are_read_with_the_sums_of_the_put() {
    let rig = Rig::new();
    let chunk = CHUNK as u64;
    let bytes = payload(2 * chunk + 100);
    let placement = rig.announce(5, TokenUse::Write, &[bytes.len() as u64]);
    rig.write(1, 0, &bytes).unwrap();
    rig.prove(5, &placement).unwrap();
    rig.announce(5, TokenUse::Read, &[bytes.len() as u64]);
    // A bit of the second chunk, which is the first of the second extent, falls over.
    let at = placement.extents.as_slice()[1].offset;
    let bad = [bytes[CHUNK] ^ 1];
    rig.region.copy_in(at, &bad).unwrap();
    let table_of = |offset, len| {
        let span = TokenSpan {
            token: 501,
            offset,
            len,
        };
        rig.tier.open_token_read(&span).unwrap().table().unwrap()
    };
    let sums = ChunkTable::of(&bytes).encode();
    assert_eq!(table_of(0, bytes.len() as u64), sums);
    assert_eq!(table_of(chunk, chunk), sums[4..8]);
    assert_eq!(table_of(chunk, chunk + 100), sums[4..]);
    let other = ChunkTable::of(&[&bad[..], &bytes[CHUNK + 1..2 * CHUNK - 1]].concat());
    assert_eq!(table_of(chunk, chunk - 1), other.encode(), "no whole chunk");
}
