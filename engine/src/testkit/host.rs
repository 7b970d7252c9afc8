//! Contract suite of [`Host`]: what is written is read, and nobody touches space that was given to somebody else.
//!
//! A host runs the suite with [`host_contract!`](crate::host_contract) through a [`Bench`], which does to it what its owner
//! does: fence, unmount, join anew.

use crate::{
    port::{Access, Host, ReadSlot, WriteSlot},
    shelf::WRITES_MAX,
};
use ziggurat_base::{
    CHUNK, ChunkTable, Code, Crc32, Error, Extent, Extents, MemberId, Placement, SegmentId, Ticket,
    checksum::table_len,
    frame::{Span, TokenSpan},
};

/// The incarnation as which the host of a bench begins.
pub const MEMBER: MemberId = MemberId(7);

/// Its only segment.
pub const SEGMENT: SegmentId = SegmentId(1);

/// Bytes of the segment.
pub const SEGMENT_LEN: u64 = 4 << 20;

/// Where payloads have their tables.
const TABLES_AT: u64 = SEGMENT_LEN - 4096;

/// A host with one segment, and what its owner does to it.
pub trait Bench {
    /// The host.
    fn host(&self) -> &dyn Host;
    /// Refuses a ticket in its space from now on; its writes under way have moved their last byte.
    fn fence(&self, ticket: Ticket, placement: &Placement);
    /// Forgets the segment.
    fn unmount(&self);
    /// Joins anew, as this incarnation.
    fn rejoin(&self, member: MemberId);
}

/// Makes a bench whose host is [`MEMBER`] and has nothing but [`SEGMENT`], which nobody has written to.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Bench>;

/// Declares the module `$name` with the contract suite for the benches that the expression `$make` makes.
#[macro_export]
macro_rules! host_contract {
    ($name:ident, $make:expr) => {
        $crate::host_contract!(
            $name,
            $make,
            what_is_written_is_read_in_any_cut,
            an_empty_payload_is_a_value,
            stripes_are_written_side_by_side_and_in_any_order,
            a_write_ends_only_with_all_bytes_and_sums,
            a_fence_stops_a_write_half_way_and_for_ever,
            a_fence_before_the_first_byte_counts_too,
            a_fenced_write_does_not_finish,
            a_newer_write_stops_an_older_one_in_its_space,
            space_that_nobody_wrote_is_not_read,
            a_read_of_space_that_was_given_on_is_not_sealed,
            only_the_present_incarnation_is_served,
            an_unmounted_segment_stops_writers_and_refuses_everybody,
            space_outside_the_segment_is_refused,
            a_dropped_write_has_ended,
            a_token_that_nobody_gave_opens_nothing
        );
    };
    ($name:ident, $make:expr, $($promise:ident),+) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $promise() {
                    $crate::testkit::host::$promise(&|| $make);
                }
            )+
        }
    };
}

fn payload(len: u64, salt: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + i / 241 + salt) as u8).collect()
}

fn access(ticket: u64) -> Access {
    Access {
        member: MEMBER,
        segment: SEGMENT,
        ticket: Ticket(ticket),
    }
}

/// Room for `len` bytes in one extent from `offset` on.
fn room(offset: u64, len: u64) -> Span {
    placed(vec![Extent::new(offset, len)], len)
}

/// Room for `len` bytes, more than two chunks, in three extents that are out of order.
fn scattered(len: u64) -> Span {
    let chunk = CHUNK as u64;
    let extents = vec![
        Extent::new(9 * chunk, chunk),
        Extent::new(2 * chunk, chunk),
        Extent::new(11 * chunk, len - 2 * chunk),
    ];
    placed(extents, len)
}

fn placed(extents: Vec<Extent>, len: u64) -> Span {
    let table = table_len(len);
    let placement = Placement {
        segment: SEGMENT,
        extents: Extents::checked(&extents).expect("all but the last are whole chunks"),
        check: (table > 0).then(|| Extent::new(TABLES_AT, table)),
    };
    Span::whole(len, placement)
}

fn code<T>(answer: Result<T, Error>) -> Option<Code> {
    answer.err().map(|error| error.code())
}

fn open_write(bench: &dyn Bench, ticket: u64, span: &Span) -> Box<dyn WriteSlot> {
    let opened = bench.host().open_write(access(ticket), span);
    opened.expect("the write is admitted")
}

fn open_read(bench: &dyn Bench, ticket: u64, span: &Span) -> Box<dyn ReadSlot> {
    let opened = bench.host().open_read(access(ticket), span);
    opened.expect("the read is admitted")
}

/// Asserts what is promised of the window of one step.
fn check_window(window: &[u8], most: usize, left: u64, at: u64) {
    let in_chunk = (at % CHUNK as u64) as usize;
    assert!(!window.is_empty(), "there is more to come");
    assert!(window.len() <= most, "at most as much as was asked for");
    assert!(window.len() as u64 <= left, "at most what is left");
    assert!(window.len() <= CHUNK - in_chunk, "within one chunk");
}

/// Moves the bytes of a range in steps of at most `most`, of which `fill` takes at most `each`.
fn fill(slot: &mut dyn WriteSlot, span: &Span, range: &[u8], most: usize, each: usize) {
    let mut done = 0;
    while slot.left() > 0 {
        let left = slot.left();
        assert_eq!(left as usize, range.len() - done);
        let copy = &mut |window: &mut [u8]| {
            check_window(window, most, left, span.offset + done as u64);
            let len = window.len().min(each);
            window[..len].copy_from_slice(&range[done..done + len]);
            len
        };
        done += slot.step(most, copy).expect("nobody has stopped it");
    }
    assert_eq!(done, range.len());
}

/// The bytes of a range, read in steps of at most `most`, of which `each` are taken at most.
fn drain(slot: &mut dyn ReadSlot, span: &Span, most: usize, each: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while slot.left() > 0 {
        let left = slot.left();
        let take = &mut |window: &[u8]| {
            check_window(window, most, left, span.offset + bytes.len() as u64);
            let len = window.len().min(each);
            bytes.extend_from_slice(&window[..len]);
            len
        };
        slot.step(most, take);
    }
    bytes
}

/// Writes a whole payload.
fn put(bench: &dyn Bench, ticket: u64, span: &Span, bytes: &[u8]) {
    let mut slot = open_write(bench, ticket, span);
    fill(&mut *slot, span, bytes, CHUNK, CHUNK);
    let finished = slot.finish(ChunkTable::of(bytes).sums());
    finished.expect("all is there");
}

/// Reads a whole payload and its table, which must both be right.
fn assert_has(bench: &dyn Bench, ticket: u64, span: &Span, bytes: &[u8]) {
    let mut slot = open_read(bench, ticket, span);
    assert!(drain(&mut *slot, span, CHUNK, CHUNK) == bytes);
    slot.seal().expect("nobody has touched it");
    let table = slot.table().expect("it lies inside");
    assert_eq!(table.len() as u64, table_len(bytes.len() as u64));
    assert!(table.is_empty() || table == ChunkTable::of(bytes).encode());
}

/// A write that has moved 1000 bytes and was stopped then: not one more is moved.
fn assert_stopped(slot: &mut dyn WriteSlot) {
    let untouched = &mut |_: &mut [u8]| unreachable!("not a byte more is moved");
    assert_eq!(code(slot.step(1000, untouched)), Some(Code::InvalidWrite));
}

fn begin(bench: &dyn Bench, ticket: u64, span: &Span) -> Box<dyn WriteSlot> {
    let mut slot = open_write(bench, ticket, span);
    let moved = slot.step(1000, &mut |window| window.len());
    assert_eq!(moved, Ok(1000));
    slot
}

/// Whatever the steps: every length, in one extent or several.
pub fn what_is_written_is_read_in_any_cut(make: Make<'_>) {
    let chunk = CHUNK as u64;
    let bench = make();
    let mut ticket = 0;
    for len in [
        1,
        4095,
        chunk - 1,
        chunk,
        chunk + 1,
        3 * chunk,
        5 * chunk + 9,
    ] {
        let mut spans = vec![room(1000, len)];
        spans.extend((len > 2 * chunk).then(|| scattered(len)));
        for span in spans {
            for (most, each) in [(CHUNK, CHUNK), (usize::MAX, usize::MAX), (30_000, 777)] {
                ticket += 1;
                let bytes = payload(len, ticket);
                let mut slot = open_write(&*bench, ticket, &span);
                fill(&mut *slot, &span, &bytes, most, each);
                let finished = slot.finish(ChunkTable::of(&bytes).sums());
                finished.expect("all is there");
                let mut slot = open_read(&*bench, ticket, &span);
                assert!(drain(&mut *slot, &span, most, each) == bytes);
                slot.seal().expect("nobody has touched it");
                assert_has(&*bench, ticket, &span, &bytes);
            }
        }
    }
}

/// It is written and read like any other, without a step.
pub fn an_empty_payload_is_a_value(make: Make<'_>) {
    let bench = make();
    let span = room(64, 0);
    put(&*bench, 5, &span, &[]);
    assert_has(&*bench, 5, &span, &[]);
}

/// Two ranges of one payload under way together, the later one finished first; and a range is read alone.
pub fn stripes_are_written_side_by_side_and_in_any_order(make: Make<'_>) {
    let bench = make();
    let chunk = CHUNK as u64;
    let len = 5 * chunk + 9;
    let whole = scattered(len);
    let bytes = payload(len, 3);
    let stripe = |offset: u64, len: u64| Span {
        offset,
        len,
        ..whole.clone()
    };
    let spans = [stripe(0, 3 * chunk), stripe(3 * chunk, len - 3 * chunk)];
    let part = |span: &Span| &bytes[span.offset as usize..(span.offset + span.len) as usize];
    let mut slots: Vec<_> = spans
        .iter()
        .map(|span| open_write(&*bench, 5, span))
        .collect();
    for (slot, span) in slots.iter_mut().zip(&spans).rev() {
        fill(&mut **slot, span, part(span), 50_000, CHUNK);
    }
    for (slot, span) in slots.into_iter().zip(&spans).rev() {
        let finished = slot.finish(ChunkTable::of(part(span)).sums());
        finished.expect("all is there");
    }
    assert_has(&*bench, 5, &whole, &bytes);
    let middle = stripe(2 * chunk, 2 * chunk);
    let mut slot = open_read(&*bench, 5, &middle);
    assert!(drain(&mut *slot, &middle, CHUNK, CHUNK) == part(&middle));
    slot.seal().expect("nobody has touched it");
}

/// Bytes missing, or sums that are not as many as the chunks, are refused.
pub fn a_write_ends_only_with_all_bytes_and_sums(make: Make<'_>) {
    let bench = make();
    let bytes = payload(100_000, 1);
    let table = ChunkTable::of(&bytes);
    let span = room(0, 100_000);
    let slot = begin(&*bench, 5, &span);
    assert_eq!(code(slot.finish(table.sums())), Some(Code::InvalidParams));
    for sums in [&table.sums()[..1], &[Crc32::default(); 3], &[]] {
        let mut slot = open_write(&*bench, 5, &span);
        fill(&mut *slot, &span, &bytes, CHUNK, CHUNK);
        assert_eq!(code(slot.finish(sums)), Some(Code::InvalidParams));
    }
    put(&*bench, 5, &span, &bytes);
    assert_has(&*bench, 5, &span, &bytes);
}

/// I11 from the side of the writer.
pub fn a_fence_stops_a_write_half_way_and_for_ever(make: Make<'_>) {
    let bench = make();
    let span = room(0, 200_000);
    let mut slot = begin(&*bench, 5, &span);
    bench.fence(Ticket(5), &span.placement);
    assert_stopped(&mut *slot);
    drop(slot);
    let refused = bench.host().open_write(access(5), &span);
    assert_eq!(code(refused), Some(Code::InvalidWrite));
    let part = room(150_000, 100);
    let refused = bench.host().open_write(access(5), &part);
    assert_eq!(code(refused), Some(Code::InvalidWrite));
    let bytes = payload(200_000, 6);
    put(&*bench, 6, &span, &bytes);
    assert_has(&*bench, 6, &span, &bytes);
}

/// A writer that comes for the first time after its fence is as late as any.
pub fn a_fence_before_the_first_byte_counts_too(make: Make<'_>) {
    let bench = make();
    let span = room(0, 4096);
    bench.fence(Ticket(5), &span.placement);
    let refused = bench.host().open_write(access(5), &span);
    assert_eq!(code(refused), Some(Code::InvalidWrite));
    // Beside its space the ticket may write.
    put(&*bench, 5, &room(4096, 100), &payload(100, 5));
}

/// All bytes were there, and yet nothing is promised and no table is laid.
pub fn a_fenced_write_does_not_finish(make: Make<'_>) {
    let bench = make();
    let bytes = payload(100_000, 1);
    let span = room(0, 100_000);
    put(&*bench, 4, &span, &bytes);
    let mut slot = open_write(&*bench, 5, &span);
    fill(&mut *slot, &span, &bytes, CHUNK, CHUNK);
    bench.fence(Ticket(5), &span.placement);
    let newer = payload(100_000, 2);
    put(&*bench, 6, &span, &newer);
    let finished = slot.finish(&[Crc32(1), Crc32(2)]);
    assert_eq!(code(finished), Some(Code::InvalidWrite));
    assert_has(&*bench, 6, &span, &newer);
}

/// One byte in common is enough; a newer write elsewhere stops nobody.
pub fn a_newer_write_stops_an_older_one_in_its_space(make: Make<'_>) {
    let bench = make();
    let span = room(0, 60_000);
    let mut slot = begin(&*bench, 5, &span);
    put(&*bench, 8, &room(60_000, 100), &payload(100, 8));
    slot.step(10, &mut |window| window.len())
        .expect("the newer write is elsewhere");
    let new = room(59_999, 50);
    put(&*bench, 9, &new, &payload(50, 9));
    assert_stopped(&mut *slot);
    assert_has(&*bench, 9, &new, &payload(50, 9));
    let refused = bench.host().open_write(access(5), &span);
    assert_eq!(code(refused), Some(Code::InvalidWrite));
}

/// What lies there belongs to no version.
pub fn space_that_nobody_wrote_is_not_read(make: Make<'_>) {
    let bench = make();
    put(&*bench, 5, &room(0, 100), &payload(100, 5));
    for (ticket, span) in [
        (5, room(0, 101)),
        (5, room(200, 100)),
        (4, room(0, 100)),
        (6, room(0, 100)),
    ] {
        let refused = bench.host().open_read(access(ticket), &span);
        assert_eq!(
            code(refused),
            Some(Code::ReplicaIsGone),
            "{ticket} {span:?}"
        );
    }
}

/// I12: a read that was admitted is believed only when its space has stayed with its version to the end.
pub fn a_read_of_space_that_was_given_on_is_not_sealed(make: Make<'_>) {
    let bench = make();
    let span = room(0, 100_000);
    let bytes = payload(100_000, 5);
    put(&*bench, 5, &span, &bytes);
    let mut reading = open_read(&*bench, 5, &span);
    reading.step(1000, &mut |window| window.len());
    reading.seal().expect("nobody has touched it");
    // The admission alone is enough: its first byte may be under way.
    let writing = open_write(&*bench, 6, &room(99_999, 1));
    assert_eq!(code(reading.seal()), Some(Code::ReplicaIsGone));
    drop(writing);
    assert_eq!(code(reading.seal()), Some(Code::ReplicaIsGone));
    let refused = bench.host().open_read(access(5), &span);
    assert_eq!(code(refused), Some(Code::ReplicaIsGone));
}

/// Requests for an earlier or a later one are refused.
pub fn only_the_present_incarnation_is_served(make: Make<'_>) {
    let bench = make();
    let span = room(0, 100);
    put(&*bench, 5, &span, &payload(100, 5));
    bench.rejoin(MemberId(8));
    let read = bench.host().open_read(access(5), &span);
    assert_eq!(code(read), Some(Code::ClientNotFound));
    let write = bench.host().open_write(access(6), &span);
    assert_eq!(code(write), Some(Code::ClientNotFound));
    let strangers = Access {
        member: MemberId(9),
        ..access(6)
    };
    let write = bench.host().open_write(strangers, &span);
    assert_eq!(code(write), Some(Code::ClientNotFound));
}

/// Whoever was writing or reading there is told so at its next step or its end.
pub fn an_unmounted_segment_stops_writers_and_refuses_everybody(make: Make<'_>) {
    let bench = make();
    let span = room(0, 50_000);
    put(&*bench, 5, &span, &payload(50_000, 5));
    let reading = open_read(&*bench, 5, &span);
    let mut writing = begin(&*bench, 6, &room(50_000, 50_000));
    bench.unmount();
    assert_stopped(&mut *writing);
    drop(writing);
    assert_eq!(code(reading.seal()), Some(Code::ReplicaIsGone));
    let write = bench.host().open_write(access(7), &span);
    assert_eq!(code(write), Some(Code::SegmentNotFound));
    let read = bench.host().open_read(access(5), &span);
    assert_eq!(code(read), Some(Code::SegmentNotFound));
}

/// For writes; nobody can have written there, so reads find that it belongs to nobody.
pub fn space_outside_the_segment_is_refused(make: Make<'_>) {
    let bench = make();
    for offset in [SEGMENT_LEN - 50, SEGMENT_LEN, u64::MAX / 2] {
        let span = room(offset, 100);
        let write = bench.host().open_write(access(5), &span);
        assert_eq!(code(write), Some(Code::InvalidReplica), "at {offset}");
        let read = bench.host().open_read(access(5), &span);
        assert_eq!(code(read), Some(Code::ReplicaIsGone), "at {offset}");
    }
}

/// It counts no more among the writes under way, and its ticket may try again.
pub fn a_dropped_write_has_ended(make: Make<'_>) {
    let bench = make();
    let span = room(0, 2000);
    for _ in 0..WRITES_MAX + 10 {
        drop(begin(&*bench, 5, &span));
    }
    let many: Vec<_> = (0..WRITES_MAX as u64)
        .map(|i| open_write(&*bench, 5, &room(i * 64, 64)))
        .collect();
    let refused = bench.host().open_write(access(5), &room(0, 64));
    assert_eq!(code(refused), Some(Code::Backpressure));
    drop(many);
    put(&*bench, 5, &span, &payload(2000, 5));
    assert_has(&*bench, 5, &span, &payload(2000, 5));
}

/// Whether the host serves foreign clients or not.
pub fn a_token_that_nobody_gave_opens_nothing(make: Make<'_>) {
    let bench = make();
    put(&*bench, 5, &room(0, 100), &payload(100, 5));
    let span = TokenSpan {
        offset: 0,
        len: 100,
        token: 77,
    };
    assert!(bench.host().open_token_write(&span).is_err());
    assert!(bench.host().open_token_read(&span).is_err());
}
