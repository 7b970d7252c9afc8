//! Golden bytes: one message of each kind. A change here is a change of the protocol; see docs/versioning.md.

use super::*;
use crate::wire::{Request, answer::Outcome as Reply, request::Call};

fn placement() -> Placement {
    Placement {
        segment: SegmentId(3),
        extents: Extents::One(Extent::new(4096, 5)),
        check: None,
    }
}

fn tabled() -> Placement {
    let chunk = CHUNK as u64;
    Placement {
        segment: SegmentId(3),
        extents: Extents::checked(&[Extent::new(0, chunk), Extent::new(5 * chunk, 9)]).unwrap(),
        check: Some(Extent::new(128, 8)),
    }
}

fn targets() -> Targets {
    Targets::One(Target {
        member: MemberId(2),
        placement: placement(),
    })
}

fn ticket(serial: u32) -> Ticket {
    Ticket::new(Era(1), serial)
}

fn not_found() -> Error {
    Error::new(Code::ObjectNotFound, "no")
}

fn two_keys() -> wire::Keys {
    let list = [Key::new(b"a").unwrap(), Key::new(b"bc").unwrap()];
    keys::pack_iter(TenantId(1), list.into_iter())
}

fn call(call: Call) -> String {
    hex(&Request {
        give_back: None,
        call: Some(call),
    })
}

fn answer(outcome: Reply) -> String {
    hex(&wire::Answer {
        outcome: Some(outcome),
    })
}

fn metadata_calls() -> Vec<(&'static str, String)> {
    let item = PutItem {
        tags: Tags {
            parent: Some(Key::new(b"p").unwrap()),
            group: Some(Key::new(b"g").unwrap()),
            hint: Hint::Hot,
        },
        ..PutItem::new(Key::new(b"a").unwrap(), 5)
    };
    let wish = Wish {
        replicas: 2,
        dfs: 1,
        preferred: vec!["s".into()],
    };
    let end = PutEnd {
        ticket: ticket(1),
        crc: Crc32(7),
        written: Written::Each(vec![Some(true), Some(false), None]),
    };
    let cursor = Cursor {
        next_row: 9,
        newest: ticket(8),
    };
    let tickets = keys::pack_tickets(&[ticket(1), ticket(2)]);
    let scan = get::pack_scan(
        TenantId(1),
        "^a",
        ScanAction::Remove(Force::Yes),
        Some(cursor),
    );
    let hold = Hold {
        row: Row(6),
        ticket: ticket(1),
        term: 2,
    };
    let alone = Request {
        give_back: Some(keys::pack_holds(&[hold])),
        call: None,
    };
    let located = wire::Locate {
        keys: Some(two_keys()),
        keep: true,
    };
    let removed = wire::Remove {
        keys: Some(two_keys()),
        force: true,
    };
    vec![
        ("give_back", hex(&alone)),
        (
            "put_start",
            call(Call::PutStart(put::pack_start(TenantId(1), &[item], &wish))),
        ),
        ("put_end", call(Call::PutEnd(put::pack_ends(&[end])))),
        ("revoke", call(Call::Revoke(tickets.clone()))),
        ("renew", call(Call::Renew(tickets))),
        ("locate", call(Call::Locate(located))),
        ("exist", call(Call::Exist(two_keys()))),
        ("touch", call(Call::Touch(two_keys()))),
        ("remove", call(Call::Remove(removed))),
        ("scan", call(Call::Scan(scan))),
        ("stat", call(Call::Stat(two_keys()))),
        (
            "prefetch",
            call(Call::Prefetch(wire::Prefetch {
                keys: Some(two_keys()),
                wish: get::pack_wish(Prefetch::Begin(Priority::High)).into(),
            })),
        ),
    ]
}

fn ledger_call(batch: &ziggurat_engine::ledger::LedgerBatch) -> String {
    let message = ledger::pack(MemberId(2), SegmentId(3), batch);
    call(Call::Ledger(message))
}

fn member_calls() -> Vec<(&'static str, String)> {
    let offer = MemberOffer {
        address: "h:1".into(),
        in_process: true,
        feed: true,
        promotes: true,
    };
    let segment = SegmentOffer {
        name: "s".into(),
        capacity: ByteCount(4096),
        highest_era: Era(4),
        keep: Keep::Owned {
            directory: DirectoryId(0x0102),
        },
        stock: Default::default(),
    };
    let unmount = wire::Unmount {
        member: 2,
        segment: 3,
        grace: 5,
    };
    let fenced = wire::Fenced {
        member: 2,
        ticket: ticket(1).0,
        segment: 3,
    };
    let report = Report {
        member: MemberId(2),
        serial: 5,
        outcome: Ok(Outcome::Proof(Crc32(7))),
    };
    let hello = Hello {
        software: "0.1.0".into(),
        ..Hello::new(PeerKind::Node)
    };
    vec![
        ("hello", hex(&member::pack_hello(&hello))),
        ("join", call(Call::Join(member::pack_offer(&offer)))),
        ("ping", call(Call::Ping(2))),
        ("leave", call(Call::Leave(2))),
        ("tenant", call(Call::Tenant("t".into()))),
        (
            "mount",
            call(Call::Mount(member::pack_mount(MemberId(2), &segment))),
        ),
        ("unmount", call(Call::Unmount(unmount))),
        ("fenced", call(Call::Fenced(fenced))),
        ("segments", call(Call::Segments(wire::Empty {}))),
        ("stats", call(Call::Stats(wire::Empty {}))),
        ("watch", call(Call::Watch(2))),
        ("report", call(Call::Report(order::pack_report(&report)))),
        ("ledger_begin", ledger_call(&ledgers::begin())),
        ("ledger_page", ledger_call(&ledgers::page())),
        ("ledger_commit", ledger_call(&ledgers::commit())),
        ("ledger_delta", ledger_call(&ledgers::delta())),
    ]
}

fn metadata_answers() -> Vec<(&'static str, String)> {
    let granted = PutAnswer::Granted(PutGrant {
        ticket: ticket(1),
        targets: targets(),
        span: Duration::from_secs(30),
    });
    let puts = vec![Ok(granted), Ok(PutAnswer::Existed), Err(not_found())];
    let grant = GetGrant {
        ticket: ticket(1),
        len: 5,
        crc: Crc32(7),
        replicas: targets(),
        hold: keys::hold(6, ticket(1).0, 2).unwrap(),
        span: Duration::from_secs(10),
    };
    let stat = ObjectStat {
        len: 5,
        ticket: ticket(1),
        crc: Crc32(7),
        replicas: targets(),
        lease: Duration::from_secs(1),
        parent: None,
        group: None,
        hint: Hint::Cold,
    };
    let page = Page {
        keys: vec![(ObjectKey::new(b"a").unwrap(), 5)],
        removed: 1,
        leased: 2,
        next: None,
    };
    let dones = vec![Ok(PutDone { replicas: 1 }), Err(not_found())];
    let gets = vec![Ok(Some(grant)), Ok(None), Err(not_found())];
    vec![
        ("put_start", answer(Reply::PutStart(put::pack_grants(puts)))),
        ("put_end", answer(Reply::PutEnd(put::pack_dones(dones)))),
        (
            "done",
            answer(Reply::Done(put::pack_done(vec![Ok(()), Err(not_found())]))),
        ),
        ("locate", answer(Reply::Locate(get::pack_grants(gets)))),
        (
            "exist",
            answer(Reply::Exist(get::pack_found(vec![Ok(true), Ok(false)]))),
        ),
        ("scan", answer(Reply::Scan(get::pack_page(&page)))),
        (
            "stat",
            answer(Reply::Stat(get::pack_stats(vec![Ok(Some(stat))]))),
        ),
        (
            "prefetch",
            answer(Reply::Prefetch(get::pack_prefetched(vec![
                Ok(Some(Prefetched::Stopped)),
                Ok(None),
                Err(not_found()),
            ]))),
        ),
    ]
}

fn member_answers() -> Vec<(&'static str, String)> {
    let joined = Joined {
        member: MemberId(2),
        era: Era(1),
        time_to_live: Duration::from_secs(10),
    };
    let segment = SegmentStat {
        id: SegmentId(3),
        name: "s".into(),
        member: MemberId(2),
        address: "h:1".into(),
        state: Segment::Unmounting,
        capacity: ByteCount(4),
        used: ByteCount(3),
        largest_free: ByteCount(1),
        replicas: 9,
        keep: Keep::Delegated,
    };
    let stats = Stats {
        objects: 1,
        members_expired: 2,
        ..Stats::default()
    };
    let welcome = Welcome {
        version: 1,
        software: "0.1.0".into(),
        greeting: Greeting {
            era: Era(1),
            lease: Duration::from_secs(10),
            time_to_live: Duration::from_secs(10),
        },
        tenant: TenantId(1),
        batch_max: 512,
    };
    vec![
        ("welcome", hex(&member::pack_welcome(&welcome))),
        ("join", answer(Reply::Join(member::pack_joined(joined)))),
        ("tenant", answer(Reply::Tenant(1))),
        ("mount", answer(Reply::Mount(3))),
        (
            "segments",
            answer(Reply::Segments(member::pack_segments(&[segment]))),
        ),
        ("stats", answer(Reply::Stats(member::pack_stats(&stats)))),
        (
            "ledger",
            answer(Reply::Ledger(ledger::pack_reply(&ledgers::reply()))),
        ),
    ]
}

fn pushes() -> Vec<(&'static str, String)> {
    let member = MemberId(2);
    let fence = Effect::Fence {
        member,
        ticket: ticket(1),
        placement: tabled(),
    };
    let announce = NodeCommand::Announce(Announce {
        ticket: ticket(1),
        placement: placement(),
        object_len: 5,
        allows: TokenUse::Write,
        span: Duration::from_secs(30),
        tokens: vec![TokenRange {
            token: 0xab,
            offset: 0,
            len: 5,
        }],
    });
    let prove = NodeCommand::Prove(Prove {
        ticket: ticket(1),
        placement: placement(),
        object_len: 5,
    });
    let host = NodeCommand::Host {
        name: "s".into(),
        capacity: ByteCount(4096),
    };
    let unhost = NodeCommand::Unhost {
        segment: SegmentId(3),
    };
    let order = |command| hex(&order::pack_orders(member, &[Order { serial: 5, command }]));
    vec![
        ("fence", hex(&order::pack_effects(member, &[fence]))),
        (
            "notes",
            hex(&order::pack_effects(member, &ledgers::notes(member))),
        ),
        ("announce", order(announce)),
        ("prove", order(prove)),
        ("host", order(host)),
        ("unhost", order(unhost)),
        ("gone", hex(&order::pack_gone(member, &not_found()))),
    ]
}

#[test]
fn messages_have_the_documented_bytes() {
    let groups = [
        ("call", metadata_calls()),
        ("call", member_calls()),
        ("answer", metadata_answers()),
        ("answer", member_answers()),
        ("push", pushes()),
    ];
    let lines = groups.into_iter().flat_map(|(group, messages)| {
        let line = move |(name, hex)| format!("{group} {name} {hex}\n");
        messages.into_iter().map(line)
    });
    let found: String = lines.collect();
    let golden = include_str!("../../../tests/fixtures/messages.txt");
    assert!(
        found == golden,
        "the protocol has changed; these are the new bytes:\n{found}"
    );
}
