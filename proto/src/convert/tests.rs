//! Round trips of everything that travels, decoders against any bytes, and golden bytes.

use super::{batch, get, keys, ledger, member, order, put};
use crate::{
    hello::{Greeting, Hello, PeerKind, Versions, Welcome},
    order::{Announce, NodeCommand, Order, Outcome, Prove, Report, TokenRange, TokenUse},
    wire,
};
use proptest::{collection::vec, option, prelude::*};
use prost::Message;
use std::time::Duration;
use ziggurat_base::{
    ByteCount, CHUNK, Code, Crc32, DirectoryId, Era, Error, Extent, Extents, Key, MemberId,
    ObjectKey, Placement, SegmentId, TenantId, Ticket,
};
use ziggurat_engine::{
    Row,
    command::{
        Answer, Cursor, Effect, Force, GetGrant, Hint, Hold, Keep, Keys, MemberOffer, ObjectStat,
        Page, Prefetch, Prefetched, Priority, PutAnswer, PutDone, PutEnd, PutGrant, PutItem,
        ScanAction, SegmentOffer, SegmentStat, Stats, Stock, Tags, Target, Targets, Wish, Written,
    },
    port::Joined,
    segment::Segment,
};

/// Through bytes and back.
fn over<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).unwrap()
}

fn any_key() -> impl Strategy<Value = ObjectKey> {
    let bytes = prop_oneof![vec(any::<u8>(), 1..40), vec(any::<u8>(), 4096..=4096)];
    bytes.prop_map(|bytes| ObjectKey::new(bytes).unwrap())
}

fn any_hint() -> impl Strategy<Value = Hint> {
    prop_oneof![Just(Hint::None), Just(Hint::Cold), Just(Hint::Hot)]
}

fn any_span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::from_secs(10)),
        any::<u64>().prop_map(Duration::from_nanos)
    ]
}

fn any_prefetched() -> impl Strategy<Value = Answer<Option<Prefetched>>> {
    prop_oneof![
        Just(Ok(None)),
        Just(Ok(Some(Prefetched::InMemory))),
        Just(Ok(Some(Prefetched::UnderWay))),
        Just(Ok(Some(Prefetched::Stopped))),
        Just(Err(Error::new(Code::Backpressure, "soon"))),
    ]
}

fn any_extents() -> impl Strategy<Value = Extents> {
    let chunk = CHUNK as u64;
    let one = (0..u64::MAX / 2, 0..u64::MAX / 2).prop_map(|(o, l)| Extents::One(Extent::new(o, l)));
    let piece = (0..1_u64 << 40, 1..1_u64 << 20);
    let many = (vec(piece, 1..32), 1..1_000_000_u64).prop_map(move |(list, last)| {
        let whole = list.iter().map(|(o, l)| Extent::new(*o, l * chunk));
        let list: Vec<_> = whole.chain([Extent::new(7, last)]).collect();
        Extents::checked(&list).unwrap()
    });
    prop_oneof![4 => one, 1 => many]
}

fn any_placement() -> impl Strategy<Value = Placement> {
    let check = option::of((0..1_u64 << 40, 1..1_u64 << 20));
    (any::<u32>(), any_extents(), check).prop_map(|(segment, extents, check)| Placement {
        segment: SegmentId(segment),
        extents,
        check: check.map(|(o, l)| Extent::new(o, l)),
    })
}

fn any_targets() -> impl Strategy<Value = Targets> {
    let target = (any::<u64>(), any_placement()).prop_map(|(member, placement)| Target {
        member: MemberId(member),
        placement,
    });
    let target = target.boxed();
    prop_oneof![
        3 => vec(target.clone(), 1..=1),
        1 => vec(target, 0..4)
    ]
    .prop_map(|list| list.into_iter().collect())
}

fn any_error() -> impl Strategy<Value = Error> {
    let codes: Vec<_> = Code::ALL
        .iter()
        .copied()
        .filter(|c| *c != Code::Ok)
        .collect();
    (prop::sample::select(codes), ".{0,20}").prop_map(|(code, what)| Error::new(code, what))
}

fn any_answers<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Answer<T>>> {
    vec(
        prop_oneof![3 => value.prop_map(Ok), 1 => any_error().prop_map(Err)],
        0..20,
    )
}

fn any_put_answer() -> impl Strategy<Value = PutAnswer> {
    let granted = (any::<u64>(), any_targets(), any_span()).prop_map(|(ticket, targets, span)| {
        PutAnswer::Granted(PutGrant {
            ticket: Ticket(ticket),
            targets,
            span,
        })
    });
    prop_oneof![3 => granted, 1 => Just(PutAnswer::Existed)]
}

fn any_hold() -> impl Strategy<Value = Hold> {
    (any::<u32>(), any::<u64>(), any::<u16>()).prop_map(|(row, ticket, term)| Hold {
        row: Row(row),
        ticket: Ticket(ticket),
        term,
    })
}

fn any_get_grant() -> impl Strategy<Value = GetGrant> {
    let numbers = (any::<u64>(), any::<u32>());
    (numbers, any_targets(), any_hold(), any_span()).prop_map(
        |((len, crc), replicas, hold, span)| GetGrant {
            ticket: hold.ticket,
            len,
            crc: Crc32(crc),
            replicas,
            hold,
            span,
        },
    )
}

fn any_stat() -> impl Strategy<Value = ObjectStat> {
    let relations = (option::of(any_key()), option::of(any_key()), any_hint());
    (any_get_grant(), relations).prop_map(|(grant, (parent, group, hint))| ObjectStat {
        len: grant.len,
        ticket: grant.ticket,
        crc: grant.crc,
        replicas: grant.replicas,
        lease: grant.span,
        parent,
        group,
        hint,
    })
}

fn any_put_end() -> impl Strategy<Value = PutEnd> {
    let each = vec(option::of(any::<bool>()), 0..5).prop_map(Written::Each);
    let written = prop_oneof![Just(Written::All), each];
    (any::<u64>(), any::<u32>(), written).prop_map(|(ticket, crc, written)| PutEnd {
        ticket: Ticket(ticket),
        crc: Crc32(crc),
        written,
    })
}

fn any_stock() -> impl Strategy<Value = Stock> {
    prop_oneof![Just(Stock::Volatile), Just(Stock::Fresh), Just(Stock::Held)]
}

fn any_keep() -> impl Strategy<Value = Keep> {
    let keeps = (option::of(any::<u128>()), option::of(any::<u32>()));
    keeps.prop_map(|(number, alignment)| {
        let directory = number.map(DirectoryId);
        match (directory, alignment) {
            (None, _) => Keep::Delegated,
            (Some(directory), None) => Keep::Owned { directory },
            (Some(directory), Some(alignment)) => Keep::Shared {
                directory,
                alignment,
            },
        }
    })
}

fn any_segment() -> impl Strategy<Value = SegmentStat> {
    let numbers = (any::<u32>(), any::<u64>(), any::<[u64; 4]>());
    let state = prop::sample::select(Segment::ALL.to_vec());
    let texts = (".{0,9}", ".{0,9}");
    (numbers, texts, state, any_keep()).prop_map(
        |((id, member, bytes), (name, address), state, keep)| SegmentStat {
            keep,
            id: SegmentId(id),
            name: name.into(),
            member: MemberId(member),
            address: address.into(),
            state,
            capacity: ByteCount(bytes[0]),
            used: ByteCount(bytes[1]),
            largest_free: ByteCount(bytes[2]),
            replicas: bytes[3],
        },
    )
}

fn any_command() -> impl Strategy<Value = NodeCommand> {
    let range =
        any::<[u64; 3]>().prop_map(|[token, offset, len]| TokenRange { token, offset, len });
    let allows = prop_oneof![Just(TokenUse::Read), Just(TokenUse::Write)];
    let version = (any::<u64>(), any_placement(), any::<u64>()).boxed();
    let announce = (version.clone(), allows, any_span(), vec(range, 0..5)).prop_map(
        |((ticket, placement, object_len), allows, span, tokens)| {
            NodeCommand::Announce(Announce {
                ticket: Ticket(ticket),
                placement,
                object_len,
                allows,
                span,
                tokens,
            })
        },
    );
    let prove = version.prop_map(|(ticket, placement, object_len)| {
        NodeCommand::Prove(Prove {
            ticket: Ticket(ticket),
            placement,
            object_len,
        })
    });
    let host = (".{0,9}", any::<u64>()).prop_map(|(name, capacity)| NodeCommand::Host {
        name: name.into(),
        capacity: ByteCount(capacity),
    });
    let unhost = any::<u32>().prop_map(|segment| NodeCommand::Unhost {
        segment: SegmentId(segment),
    });
    prop_oneof![announce, prove, host, unhost]
}

proptest! {
    #[test]
    fn key_lists_round_trip(list in vec(any_key(), 0..20), tenant in any::<u16>()) {
        let borrowed: Vec<_> = list.iter().map(ObjectKey::as_key).collect();
        let message = over(&keys::pack(Keys { tenant: TenantId(tenant), keys: &borrowed }));
        prop_assert_eq!(keys::unpack(&message).unwrap(), borrowed);
        prop_assert_eq!(keys::tenant(message.tenant).unwrap(), TenantId(tenant));
    }

    #[test]
    fn puts_round_trip(
        list in vec((any_key(), any::<u64>(), option::of(any_key()), option::of(any_key()), any_hint()), 0..9),
        replicas in any::<u8>(),
        dfs in any::<u8>(),
        preferred in vec(".{0,9}", 0..3),
    ) {
        let items: Vec<_> = list.iter().map(|(key, len, parent, group, hint)| PutItem {
            key: key.as_key(),
            len: *len,
            tags: Tags {
                parent: parent.as_ref().map(ObjectKey::as_key),
                group: group.as_ref().map(ObjectKey::as_key),
                hint: *hint,
            },
        }).collect();
        let preferred = preferred.into_iter().map(Into::into).collect();
        let wish = Wish { replicas, dfs, preferred };
        let message = over(&put::pack_start(TenantId(3), &items, &wish));
        prop_assert_eq!(put::wish(&message).unwrap(), wish);
        let (tenant, back) = put::items(&message).unwrap();
        prop_assert_eq!(tenant, TenantId(3));
        for (a, b) in back.iter().zip(&items) {
            prop_assert_eq!((a.key, a.len, a.tags), (b.key, b.len, b.tags));
        }
        prop_assert_eq!(back.len(), items.len());
    }

    #[test]
    fn put_grants_round_trip(answers in any_answers(any_put_answer())) {
        let message = over(&put::pack_grants(answers.clone()));
        prop_assert_eq!(put::grants(message, answers.len()).unwrap(), answers);
    }

    #[test]
    fn put_ends_round_trip(ends in vec(any_put_end(), 0..20), counts in any_answers(any::<u32>())) {
        prop_assert_eq!(put::ends(&over(&put::pack_ends(&ends))).unwrap(), ends);
        let dones: Vec<_> = counts.into_iter().map(|c| c.map(|replicas| PutDone { replicas })).collect();
        let message = over(&put::pack_dones(dones.clone()));
        prop_assert_eq!(put::dones(message, dones.len()).unwrap(), dones);
    }

    #[test]
    fn get_grants_round_trip(answers in any_answers(option::of(any_get_grant()))) {
        let message = over(&get::pack_grants(answers.clone()));
        prop_assert_eq!(get::grants(message, answers.len()).unwrap(), answers);
    }

    #[test]
    fn flags_and_facts_round_trip(
        found in any_answers(any::<bool>()),
        done in any_answers(Just(())),
        stats in any_answers(option::of(any_stat())),
    ) {
        let message = over(&get::pack_found(found.clone()));
        prop_assert_eq!(get::found(message, found.len()).unwrap(), found);
        let message = over(&put::pack_done(done.clone()));
        prop_assert_eq!(put::done(message, done.len()).unwrap(), done);
        let message = over(&get::pack_stats(stats.clone()));
        prop_assert_eq!(get::stats(message, stats.len()).unwrap(), stats);
    }

    #[test]
    fn scans_round_trip(
        listed in vec((any_key(), any::<u64>()), 0..600),
        numbers in any::<[u64; 2]>(),
        cursor in option::of((any::<u32>(), any::<u64>())),
    ) {
        let next = cursor.map(|(next_row, newest)| Cursor { next_row, newest: Ticket(newest) });
        let page = Page { keys: listed, removed: numbers[0], leased: numbers[1], next };
        prop_assert_eq!(get::page(over(&get::pack_page(&page))).unwrap(), page);
        for action in [ScanAction::List, ScanAction::Remove(Force::No), ScanAction::Remove(Force::Yes)] {
            let scan = over(&get::pack_scan(TenantId(1), "^a$", action, next));
            prop_assert_eq!(get::action(scan.action).unwrap(), action);
            prop_assert_eq!(scan.cursor.map(get::cursor), next);
        }
    }

    #[test]
    fn holds_and_tickets_round_trip(holds in vec(any_hold(), 0..20), tickets in vec(any::<u64>(), 0..20)) {
        prop_assert_eq!(keys::holds(&over(&keys::pack_holds(&holds))).unwrap(), holds);
        let tickets: Vec<_> = tickets.into_iter().map(Ticket).collect();
        prop_assert_eq!(keys::tickets(&over(&keys::pack_tickets(&tickets))).unwrap(), tickets);
    }

    #[test]
    fn wishes_and_their_answers_round_trip(answers in vec(any_prefetched(), 0..20)) {
        for wish in [Priority::Low, Priority::Normal, Priority::High].map(Prefetch::Begin).into_iter().chain([Prefetch::Cancel]) {
            prop_assert_eq!(get::wish(get::pack_wish(wish).into()).unwrap(), wish);
        }
        let message = over(&get::pack_prefetched(answers.clone()));
        prop_assert!(get::prefetched(message.clone(), answers.len() + 1).is_err());
        prop_assert_eq!(get::prefetched(message, answers.len()).unwrap(), answers);
    }

    #[test]
    fn segments_and_stats_round_trip(segments in vec(any_segment(), 0..5), numbers in any::<[u64; 3]>()) {
        prop_assert_eq!(member::segments(over(&member::pack_segments(&segments))).unwrap(), segments);
        let stats = Stats { objects: numbers[0], evicted: numbers[1], members_expired: numbers[2], ..Stats::default() };
        prop_assert_eq!(member::stats(&over(&member::pack_stats(&stats))), stats);
    }

    #[test]
    fn members_round_trip(text in ".{0,9}", number in any::<u64>(), era in any::<u32>(), flags in any::<[bool; 3]>(), keep in any_keep(), stock in any_stock()) {
        let offer = MemberOffer { address: text.clone().into(), in_process: flags[0], feed: flags[1], promotes: flags[2] };
        prop_assert_eq!(member::offer(over(&member::pack_offer(&offer))), offer);
        let joined = Joined { member: MemberId(number), era: Era(era), time_to_live: Duration::from_nanos(number) };
        prop_assert_eq!(member::joined(over(&member::pack_joined(joined))), joined);
        let offer = SegmentOffer { name: text.into(), capacity: ByteCount(number), highest_era: Era(era), keep, stock };
        let message = over(&member::pack_mount(MemberId(number), &offer));
        prop_assert_eq!(member::mount(message).unwrap(), (MemberId(number), offer));
    }

    #[test]
    fn hellos_round_trip(text in ".{0,9}", versions in any::<[u16; 2]>(), span in any_span()) {
        for kind in [PeerKind::Unknown, PeerKind::Client, PeerKind::Node, PeerKind::Tool] {
            let versions = Versions { min: versions[0], max: versions[1] };
            let hello = Hello { versions, kind, software: text.clone(), tenant: text.clone() };
            prop_assert_eq!(member::hello(over(&member::pack_hello(&hello))).unwrap(), hello);
        }
        let greeting = Greeting { era: Era(5), lease: span, time_to_live: span };
        let welcome = Welcome { version: versions[0], software: text, greeting, tenant: TenantId(versions[1]), batch_max: 512 };
        prop_assert_eq!(member::welcome(over(&member::pack_welcome(&welcome))).unwrap(), welcome);
    }

    #[test]
    fn pushes_and_reports_round_trip(
        places in vec((any::<u64>(), any_placement()), 0..4),
        commands in vec((any::<u64>(), any_command()), 0..4),
        error in any_error(),
        number in any::<u32>(),
    ) {
        let member = MemberId(9);
        let effects: Vec<_> = places.into_iter().map(|(ticket, placement)| Effect::Fence {
            member, ticket: Ticket(ticket), placement,
        }).collect();
        let orders: Vec<_> = commands.into_iter().map(|(serial, command)| Order { serial, command }).collect();
        let pushed = order::pushed(over(&order::pack_effects(member, &effects))).unwrap();
        prop_assert_eq!((pushed.member, pushed.effects), (member, effects));
        let pushed = order::pushed(over(&order::pack_orders(member, &orders))).unwrap();
        prop_assert_eq!(pushed.orders, orders);
        let pushed = order::pushed(over(&order::pack_gone(member, &error))).unwrap();
        prop_assert_eq!(pushed.gone, Some(error.clone()));
        let outcomes = [Err(error), Ok(Outcome::Done), Ok(Outcome::Proof(Crc32(number))), Ok(Outcome::Hosted(SegmentId(number)))];
        for outcome in outcomes {
            let report = Report { member, serial: number.into(), outcome };
            prop_assert_eq!(order::report(over(&order::pack_report(&report))).unwrap(), report);
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..300), count in 0_usize..40) {
        crate::testkit::decode_any(&bytes, count);
    }

    /// Any bytes rarely get past the tags; columns of any length do.
    #[test]
    fn no_columns_make_a_decoder_panic(
        small in vec(vec(0_u32..5, 0..9), 4),
        large in vec(vec(prop_oneof![0..4_u64, any::<u64>()], 0..9), 6),
        count in 0_usize..9,
    ) {
        let places = wire::Places {
            target_counts: small[0].clone(),
            members: large[0].clone(),
            segments: small[1].clone(),
            extent_counts: small[2].clone(),
            offsets: large[1].clone(),
            lens: large[2].clone(),
            check_offsets: large[3].clone(),
            check_lens: large[4].clone(),
        };
        let puts = wire::PutGrants {
            count: count as u32,
            existed: small[3].clone(),
            tickets: large[5].clone(),
            places: Some(places.clone()),
            spans: large[5].clone(),
            ..Default::default()
        };
        let _ = put::grants(puts, count);
        let gets = wire::GetGrants {
            count: count as u32,
            found: vec![0xff; count.div_ceil(8)],
            tickets: large[5].clone(),
            lens: large[5].clone(),
            crcs: small[3].clone(),
            rows: small[3].clone(),
            terms: small[3].clone(),
            places: Some(places),
            spans: large[5].clone(),
            ..Default::default()
        };
        let _ = get::grants(gets, count);
    }
}

#[test]
fn an_unknown_code_of_a_newer_peer_stays_readable() {
    let error = batch::error(-4242, "odd".into());
    assert_eq!(error.code(), Code::Internal);
    assert!(error.what().contains("-4242") && error.what().contains("odd"));
}

#[test]
fn a_batch_that_is_too_large_is_refused() {
    let list = vec![Key::new(b"k").unwrap(); 513];
    let message = keys::pack_iter(TenantId(0), list.into_iter());
    assert_eq!(
        keys::unpack(&message).unwrap_err().code(),
        Code::InvalidParams
    );
}

#[test]
fn a_key_of_a_forbidden_length_is_refused() {
    for len in [0_u32, 4097] {
        let message = wire::Keys {
            tenant: 0,
            packed: vec![b'k'; len as usize],
            lens: vec![len],
        };
        assert_eq!(keys::unpack(&message).unwrap_err().code(), Code::InvalidKey);
    }
}

fn hex(message: &impl Message) -> String {
    message
        .encode_to_vec()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

mod golden;
mod ledgers;
