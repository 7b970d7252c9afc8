//! Bytes that no client would send: the connection is closed with a counted reason, and the server goes on.

use crate::rig::{Rig, SEGMENT, greet, payload, span, target, write_frame};
use proptest::{prelude::*, test_runner::TestRunner};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
};
use ziggurat_base::{
    Ticket,
    frame::{HEADER_LEN, Header, Kind},
};
use ziggurat_transport::counts::Fault;

/// Sends, closes the sending half, and reads until the server closes too.
async fn send(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

async fn still_serves(rig: &Rig) {
    let place = target(0, 1000, false);
    let answer = send(
        rig.stranger().await,
        &write_frame(1, &place, &payload(1000, 1)),
    )
    .await;
    let answer = Header::decode(answer.first_chunk().expect("an answer")).expect("it is one");
    assert_eq!((answer.kind, answer.status), (Kind::Done, 0));
}

#[test]
fn random_bytes_close_the_connection_and_nothing_else() {
    let runtime = Runtime::new().unwrap();
    let rig = runtime.block_on(async { Rig::new() });
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(100));
    let checked = runner.run(&(bytes, any::<bool>()), |(bytes, greeted)| {
        let answer = runtime.block_on(async {
            let stream = match greeted {
                true => rig.stranger().await,
                false => TcpStream::connect(rig.address).await.expect("it listens"),
            };
            send(stream, &bytes).await
        });
        prop_assert!(answer.is_empty());
        Ok(())
    });
    checked.unwrap();
    let counts = rig.server.counts();
    assert!(
        counts.fault(Fault::Greeting) > 0 && counts.fault(Fault::Header) > 0,
        "{counts:?}"
    );
    runtime.block_on(still_serves(&rig));
}

#[test]
fn damaged_and_cut_frames_are_never_believed() {
    let runtime = Runtime::new().unwrap();
    let rig = runtime.block_on(async { Rig::new() });
    let place = target(0, 70_000, false);
    let good = write_frame(1, &place, &payload(70_000, 1));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(150));
    let head = HEADER_LEN + 56;
    let damage = (0..2 * head, 0..8_u32, prop::option::of(0..good.len()));
    let checked = runner.run(&damage, |(at, bit, cut)| {
        let mut bytes = good.clone();
        // Half of the damage hits the head, the rest the end: payload and sums.
        let at = if at < head {
            at
        } else {
            bytes.len() - (at - head) - 1
        };
        bytes[at] ^= 1 << bit;
        bytes.truncate(cut.unwrap_or(bytes.len()));
        let answer = runtime.block_on(async { send(rig.stranger().await, &bytes).await });
        if let Some(answer) = answer.first_chunk::<HEADER_LEN>() {
            let answer = Header::decode(answer).expect("a server sends what can be read");
            prop_assert!(answer.status != 0 || at >= HEADER_LEN, "{at}");
        }
        Ok(())
    });
    checked.unwrap();
    assert!(rig.server.counts().fault(Fault::Truncated) > 0);
    runtime.block_on(still_serves(&rig));
}

/// A frame that is whole in itself, of `kind` and with one field changed.
fn odd(kind: Kind, change: impl Fn(&mut Header)) -> Vec<u8> {
    let place = target(0, 1000, false);
    let mut meta = Vec::new();
    span(&place).encode_into(&mut meta);
    let mut header = Header::new(kind, 1);
    header.ticket = Ticket(1);
    header.member = place.member;
    header.segment = SEGMENT;
    header.meta_len = meta.len() as u32;
    change(&mut header);
    [&header.encode()[..], &meta].concat()
}

#[tokio::test]
async fn each_broken_rule_is_counted_as_what_it_is() {
    let mut foreign = odd(Kind::Read, |_| {});
    foreign[0] = b'X';
    let mut long = odd(Kind::Read, |header| header.meta_len = 553);
    long.resize(HEADER_LEN + 553, 0);
    let mut torn = odd(Kind::Read, |_| {});
    torn[HEADER_LEN + 8] ^= 1;
    for (bytes, fault) in [
        (foreign, Fault::Header),
        (odd(Kind::Control, |_| {}), Fault::Kind),
        (odd(Kind::Done, |_| {}), Fault::Kind),
        (
            odd(Kind::Write, |header| header.body_len = 999),
            Fault::Length,
        ),
        (
            odd(Kind::Write, |header| header.body_len = 1000),
            Fault::Length,
        ),
        (odd(Kind::Read, |header| header.body_len = 1), Fault::Length),
        (long, Fault::Length),
        (torn, Fault::Span),
        (odd(Kind::Read, |_| {})[..70].to_vec(), Fault::Truncated),
        (vec![1; 10], Fault::Truncated),
    ] {
        let rig = Rig::new();
        assert!(send(rig.stranger().await, &bytes).await.is_empty());
        rig.counted(fault).await;
        still_serves(&rig).await;
    }
}

#[tokio::test]
async fn a_connection_that_does_not_greet_is_closed() {
    for meta in [
        &[1, 0, 1, 0, 9, 0, 0, 0][..],
        &[2, 0, 1, 0, 1, 0, 0, 0],
        &[],
        &[0; 200],
    ] {
        let rig = Rig::new();
        let mut stream = TcpStream::connect(rig.address).await.unwrap();
        greet(&mut stream, meta).await;
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
        rig.counted(Fault::Greeting).await;
    }
    let rig = Rig::new();
    let stream = TcpStream::connect(rig.address).await.unwrap();
    assert!(send(stream, &odd(Kind::Read, |_| {})).await.is_empty());
    rig.counted(Fault::Greeting).await;
}
