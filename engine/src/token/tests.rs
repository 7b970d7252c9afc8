use super::{Announce, TOKENS_MAX, TokenRange, TokenUse, Tokens};
use proptest::prelude::*;
use std::time::Duration;
use ziggurat_base::{
    Code, Extent, Extents, Placement, SegmentId, Ticket, Timestamp, frame::TokenSpan,
};

const HERE: SegmentId = SegmentId(4);
const SPAN: Duration = Duration::from_secs(10);
const NOW: Timestamp = Timestamp(1);

fn announce(ticket: u64, allows: TokenUse, slices: &[(u64, u64)]) -> Announce {
    let mut offset = 0;
    let mut tokens = Vec::new();
    for (token, len) in slices {
        tokens.push(TokenRange {
            token: *token,
            offset,
            len: *len,
        });
        offset += len;
    }
    Announce {
        ticket: Ticket(ticket),
        placement: Placement {
            segment: HERE,
            extents: Extents::One(Extent::new(0, offset)),
            check: None,
        },
        object_len: offset,
        allows,
        span: SPAN,
        tokens,
    }
}

fn span(token: u64, offset: u64, len: u64) -> TokenSpan {
    TokenSpan { token, offset, len }
}

/// Writes a range as a tier does.
fn write(tokens: &mut Tokens, token: u64, offset: u64, len: u64) -> Result<(), Code> {
    let span = span(token, offset, len);
    let at = tokens.resolve(NOW, &span, TokenUse::Write);
    let at = at.map_err(|error| error.code())?;
    tokens.begin_write(&at).map_err(|error| error.code())?;
    tokens.finish_write(&at).map_err(|error| error.code())
}

#[test]
fn slices_lead_to_their_part_of_the_payload() {
    let mut tokens = Tokens::default();
    let slices = announce(7, TokenUse::Write, &[(11, 3), (12, 0), (13, 5)]);
    tokens.announce(NOW, &slices).unwrap();
    tokens.announce(NOW, &slices).unwrap();
    assert_eq!(tokens.count(), 3);
    let at = tokens.resolve(NOW, &span(13, 1, 4), TokenUse::Write);
    let at = at.unwrap();
    assert_eq!((at.ticket, at.offset, at.len), (Ticket(7), 4, 4));
    let code = |span, allows| tokens.resolve(NOW, &span, allows).unwrap_err().code();
    assert_eq!(code(span(13, 2, 4), TokenUse::Write), Code::InvalidParams);
    assert_eq!(
        code(span(13, u64::MAX, 2), TokenUse::Write),
        Code::InvalidParams
    );
    assert_eq!(code(span(13, 0, 1), TokenUse::Read), Code::InvalidReplica);
    assert_eq!(code(span(14, 0, 1), TokenUse::Write), Code::InvalidWrite);
}

#[test]
fn a_write_is_sealed_once_and_only_when_it_is_whole() {
    let mut tokens = Tokens::default();
    for ticket in [7, 8] {
        let slices = [(10 * ticket, 3), (10 * ticket + 1, 5)];
        tokens
            .announce(NOW, &announce(ticket, TokenUse::Write, &slices))
            .unwrap();
        assert_eq!(write(&mut tokens, 10 * ticket, 0, 3), Ok(()));
        assert_eq!(write(&mut tokens, 10 * ticket + 1, 2, 3), Ok(()));
    }
    assert_eq!(write(&mut tokens, 71, 0, 2), Ok(()));
    for _ in 0..2 {
        assert_eq!(tokens.seal(NOW, Ticket(7), HERE), Ok(()));
        let short = tokens.seal(NOW, Ticket(8), HERE).unwrap_err();
        assert_eq!(short.code(), Code::InvalidWrite);
        assert!(short.what().starts_with("2 of 8 bytes"), "{short}");
    }
    assert_eq!(tokens.count(), 0);
    assert_eq!(write(&mut tokens, 70, 0, 3), Err(Code::InvalidWrite));
    let late = announce(7, TokenUse::Write, &[(90, 3), (91, 5)]);
    tokens.announce(NOW, &late).unwrap();
    assert_eq!(write(&mut tokens, 90, 0, 3), Err(Code::InvalidWrite));
    let unknown = tokens.seal(NOW, Ticket(9), HERE).unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidWrite);
}

#[test]
fn bytes_that_are_being_written_again_are_missing() {
    let mut tokens = Tokens::default();
    let whole = announce(7, TokenUse::Write, &[(1, 8)]);
    tokens.announce(NOW, &whole).unwrap();
    assert_eq!(write(&mut tokens, 1, 0, 8), Ok(()));
    let again = tokens.resolve(NOW, &span(1, 2, 3), TokenUse::Write);
    let again = again.unwrap();
    tokens.begin_write(&again).unwrap();
    let short = tokens.seal(NOW, Ticket(7), HERE).unwrap_err();
    assert!(short.what().starts_with("3 of 8 bytes"), "{short}");
    assert_eq!(
        tokens.finish_write(&again).unwrap_err().code(),
        Code::InvalidWrite
    );
}

#[test]
fn tokens_end_with_time_fence_and_segment() {
    let mut tokens = Tokens::default();
    let read = announce(1, TokenUse::Read, &[(1, 8)]);
    tokens.announce(NOW, &read).unwrap();
    let late = NOW.after(SPAN);
    let found = |tokens: &Tokens, now| tokens.resolve(now, &span(1, 0, 8), TokenUse::Read).is_ok();
    assert!(found(&tokens, Timestamp(late.0 - 1)) && !found(&tokens, late));
    tokens
        .announce(late, &announce(2, TokenUse::Write, &[(2, 8)]))
        .unwrap();
    assert_eq!(tokens.count(), 1, "the lapsed one is forgotten");
    tokens.fence(Ticket(2), HERE);
    assert_eq!(tokens.count(), 0);
    assert!(tokens.seal(late, Ticket(2), HERE).is_err());
    tokens.announce(late, &read).unwrap();
    tokens
        .announce(late, &announce(3, TokenUse::Write, &[(3, 8)]))
        .unwrap();
    tokens.unmount(HERE);
    assert!(tokens.count() == 0 && tokens.writes.is_empty() && tokens.endings.is_empty());
}

#[test]
fn announcements_that_cannot_be_are_refused() {
    let mut tokens = Tokens::default();
    let good = announce(1, TokenUse::Read, &[(1, 8)]);
    tokens.announce(NOW, &good).unwrap();
    let mut refused = |announce: Announce| tokens.announce(NOW, &announce).unwrap_err().code();
    let other = announce(2, TokenUse::Read, &[(1, 8)]);
    assert_eq!(refused(other), Code::InvalidParams);
    let zero = announce(1, TokenUse::Read, &[(0, 8)]);
    assert_eq!(refused(zero), Code::InvalidParams);
    let mut beyond = announce(1, TokenUse::Read, &[(5, 8)]);
    beyond.tokens[0].offset = 1;
    assert_eq!(refused(beyond), Code::InvalidParams);
    let short = Announce {
        object_len: 9,
        ..good
    };
    assert_eq!(refused(short), Code::InvalidParams);
}

#[test]
fn the_number_of_tokens_is_bounded_by_those_alive() {
    let mut tokens = Tokens::default();
    let many = |from: u64, count: usize| {
        let slices: Vec<_> = (0..count as u64).map(|n| (from + n, 0)).collect();
        announce(from, TokenUse::Read, &slices)
    };
    tokens.announce(NOW, &many(1, TOKENS_MAX)).unwrap();
    let one_more = many(1 << 40, 1);
    let refused = tokens.announce(NOW, &one_more).unwrap_err();
    assert_eq!(refused.code(), Code::Backpressure);
    tokens.announce(NOW.after(SPAN), &one_more).unwrap();
    assert_eq!(tokens.count(), 1);
}

proptest! {
    /// Whatever happens in whatever order, nothing is remembered for longer than it lives.
    #[test]
    fn nothing_outlives_its_end(ops in prop::collection::vec((0..5_u8, 1..5_u64, 0..20_u64), 1..80)) {
        let mut tokens = Tokens::default();
        for (op, ticket, second) in ops {
            let now = Timestamp::ZERO.after(Duration::from_secs(second));
            match op {
                0 => drop(tokens.announce(now, &announce(ticket, TokenUse::Write, &[(ticket, 4)]))),
                1 => drop(tokens.announce(now, &announce(ticket, TokenUse::Read, &[(ticket + 10, 4)]))),
                2 => drop(tokens.seal(now, Ticket(ticket), HERE)),
                3 => tokens.fence(Ticket(ticket), HERE),
                _ => tokens.unmount(HERE),
            }
            prop_assert_eq!(tokens.endings.len(), tokens.entries.len() + tokens.writes.len());
        }
        tokens.lapse(Timestamp::ZERO.after(Duration::from_secs(60)));
        prop_assert!(tokens.entries.is_empty() && tokens.writes.is_empty() && tokens.endings.is_empty());
    }
}
