//! Ledgers and notes: round trips, and the batches of the golden bytes.

use super::*;
use ziggurat_engine::{
    command::{DeadRecord, OwnedTags, Priority},
    ledger::{Change, Holding, LedgerBatch, LedgerReply, Verdict, Version},
};

fn version(serial: u32) -> Version {
    Version {
        tenant: "t".into(),
        key: ObjectKey::new("a").unwrap(),
        ticket: Ticket::new(Era(1), serial),
    }
}

fn holding(serial: u32) -> Holding {
    Holding {
        version: version(serial),
        len: 5,
        stored_len: 4096,
        crc: Crc32(7),
        tags: OwnedTags {
            parent: Some(ObjectKey::new("p").unwrap()),
            group: None,
            hint: Hint::Cold,
        },
        placement: None,
    }
}

pub(super) fn begin() -> LedgerBatch {
    LedgerBatch::Begin { generation: 2 }
}

pub(super) fn page() -> LedgerBatch {
    LedgerBatch::Page {
        generation: 2,
        number: 1,
        holdings: vec![holding(1)],
    }
}

pub(super) fn commit() -> LedgerBatch {
    LedgerBatch::Commit {
        generation: 2,
        sequence: 9,
    }
}

pub(super) fn delta() -> LedgerBatch {
    LedgerBatch::Delta {
        generation: 2,
        after: 9,
        changes: vec![
            Change::Present(holding(1)),
            Change::Gone(version(2)),
            Change::Refused(version(3)),
            Change::Forgotten(Ticket::new(Era(1), 4)),
            Change::Copied(Ticket::new(Era(1), 5)),
            Change::NotCopied(Ticket::new(Era(1), 6)),
        ],
    }
}

pub(super) fn reply() -> LedgerReply {
    LedgerReply {
        verdicts: vec![Verdict::Taken, Verdict::Discard],
        is_first: false,
    }
}

pub(super) fn notes(member: MemberId) -> Vec<Effect> {
    let (segment, ticket) = (SegmentId(3), Ticket::new(Era(1), 1));
    let committed = Holding {
        placement: Some(Placement {
            segment,
            extents: Extents::One(Extent::new(4096, 5)),
            check: None,
        }),
        ..holding(1)
    };
    vec![
        Effect::Committed {
            member,
            holding: Box::new(committed.clone()),
        },
        Effect::Retired {
            member,
            segment,
            ticket,
        },
        Effect::Offload {
            member,
            segment,
            ticket,
        },
        Effect::Discard {
            member,
            segment,
            tickets: vec![ticket, Ticket::new(Era(1), 2)],
        },
        Effect::Bury {
            member,
            segment,
            dead: vec![
                DeadRecord {
                    ticket,
                    extent: Extent::new(8192, 4096),
                },
                DeadRecord {
                    ticket: Ticket::new(Era(1), 2),
                    extent: Extent::default(),
                },
            ],
        },
        Effect::Promote {
            member,
            holding: Box::new(committed),
            from: SegmentId(4),
            write: Ticket::new(Era(1), 9),
            priority: Some(Priority::High),
        },
    ]
}

fn any_version() -> impl Strategy<Value = Version> {
    let tenant = prop_oneof![Just("default"), Just("other"), Just("third")];
    (tenant, any_key(), any::<u64>()).prop_map(|(tenant, key, ticket)| Version {
        tenant: tenant.into(),
        key,
        ticket: Ticket(ticket),
    })
}

fn any_holding() -> impl Strategy<Value = Holding> {
    let tags = (option::of(any_key()), option::of(any_key()), any_hint());
    let tags = tags.prop_map(|(parent, group, hint)| OwnedTags {
        parent,
        group,
        hint,
    });
    let numbers = (any::<[u64; 2]>(), any::<u32>());
    (any_version(), numbers, tags, option::of(any_placement())).prop_map(
        |(version, ([len, stored_len], crc), tags, placement)| Holding {
            version,
            len,
            stored_len,
            crc: Crc32(crc),
            tags,
            placement,
        },
    )
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any_holding().prop_map(Change::Present),
        any_version().prop_map(Change::Gone),
        any_version().prop_map(Change::Refused),
        any::<u64>().prop_map(|ticket| Change::Forgotten(Ticket(ticket))),
        any::<u64>().prop_map(|ticket| Change::Copied(Ticket(ticket))),
        any::<u64>().prop_map(|ticket| Change::NotCopied(Ticket(ticket))),
    ]
}

fn any_batch() -> impl Strategy<Value = LedgerBatch> {
    let numbers = any::<[u64; 2]>();
    prop_oneof![
        any::<u64>().prop_map(|generation| LedgerBatch::Begin { generation }),
        numbers.prop_map(|[generation, sequence]| LedgerBatch::Commit {
            generation,
            sequence
        }),
        (numbers, vec(any_holding(), 0..6)).prop_map(|([generation, number], holdings)| {
            LedgerBatch::Page {
                generation,
                number,
                holdings,
            }
        }),
        (numbers, vec(any_change(), 0..6)).prop_map(|([generation, after], changes)| {
            LedgerBatch::Delta {
                generation,
                after,
                changes,
            }
        }),
    ]
}

proptest! {
    #[test]
    fn batches_round_trip(batch in any_batch(), member in any::<u64>(), segment in any::<u32>()) {
        let (member, segment) = (MemberId(member), SegmentId(segment));
        let message = over(&ledger::pack(member, segment, &batch));
        prop_assert_eq!(ledger::unpack(message).unwrap(), (member, segment, batch));
    }

    #[test]
    fn verdicts_round_trip(discarded in vec(any::<bool>(), 0..20), is_first in any::<bool>()) {
        let verdict = |discard: &bool| if *discard { Verdict::Discard } else { Verdict::Taken };
        let reply = LedgerReply { verdicts: discarded.iter().map(verdict).collect(), is_first };
        let message = over(&ledger::pack_reply(&reply));
        prop_assert!(ledger::reply(message.clone(), discarded.len() + 1).is_err());
        prop_assert_eq!(ledger::reply(message, discarded.len()).unwrap(), reply);
    }
}

#[test]
fn notes_round_trip_in_their_order() {
    let member = MemberId(2);
    let pushed = order::pushed(over(&order::pack_effects(member, &notes(member)))).unwrap();
    assert_eq!(pushed.effects, notes(member));
}

#[test]
fn ledgers_that_contradict_themselves_are_refused() {
    let good = ledger::pack(MemberId(2), SegmentId(3), &delta());
    let broken = |change: fn(&mut wire::Ledger)| {
        let mut message = good.clone();
        change(&mut message);
        ledger::unpack(message).unwrap_err().code()
    };
    assert_eq!(broken(|m| m.tenants.clear()), Code::DeserializeFail);
    assert_eq!(broken(|m| m.step = None), Code::DeserializeFail);
    assert_eq!(broken(|m| m.items[1].kind = 9), Code::DeserializeFail);
    assert_eq!(broken(|m| m.items[0].key.clear()), Code::InvalidKey);
    let begin = |m: &mut wire::Ledger| m.step = Some(wire::ledger::Step::Begin(wire::Empty {}));
    assert_eq!(broken(begin), Code::DeserializeFail);
    let page = |m: &mut wire::Ledger| m.step = Some(wire::ledger::Step::Page(0));
    assert_eq!(broken(page), Code::DeserializeFail);
    let long = |m: &mut wire::Ledger| m.items = vec![wire::LedgerItem::default(); 513];
    assert_eq!(broken(long), Code::InvalidParams);
}
