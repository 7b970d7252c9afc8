//! What is written is read, in every shape; what may not be written or read is refused in its place.

use crate::rig::{Rig, header, payload, target, write_frame};
use proptest::{prelude::*, test_runner::TestRunner};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Runtime,
};
use ziggurat_base::{
    ByteCount, CHUNK, ChunkTable, Code, Crc32, MemberId, Ticket, checksum::table_len, frame::Kind,
};
use ziggurat_engine::{
    command::Target,
    port::{ReadOp, ReadSums, WriteOp},
};
use ziggurat_transport::client::{Peer, PeerOptions};

fn write_op<'a>(ticket: u64, target: &'a Target, parts: &'a [&'a [u8]]) -> WriteOp<'a> {
    WriteOp {
        name: None,
        ticket: Ticket(ticket),
        target,
        parts,
        len: parts.iter().map(|part| part.len() as u64).sum(),
    }
}

fn read_op<'a>(ticket: u64, source: &'a Target, into: &'a mut [u8]) -> ReadOp<'a> {
    ReadOp {
        name: None,
        ticket: Ticket(ticket),
        source,
        object_len: source.placement.extents.len().0,
        offset: 0,
        into,
        want_table: true,
    }
}

async fn put(peer: &Peer, ticket: u64, target: &Target, bytes: &[u8]) -> Result<Crc32, Code> {
    let parts = [bytes];
    let answers = peer.write(&[write_op(ticket, target, &parts)]).await;
    answers[0].clone().map_err(|e| e.code())
}

async fn get(peer: &Peer, ticket: u64, source: &Target) -> Result<(Vec<u8>, ReadSums), Code> {
    let mut into = vec![0xee; source.placement.extents.len().0 as usize];
    let mut answers = peer.read(&mut [read_op(ticket, source, &mut into)]).await;
    let sums = answers.remove(0).map_err(|e| e.code())?;
    Ok((into, sums))
}

/// Lengths of objects, whether they are scattered, and how their payloads are cut into parts.
type Batch = Vec<(u64, bool, Vec<u64>)>;

fn batches() -> impl Strategy<Value = (Batch, usize)> {
    let len = prop_oneof![0..100_u64, 4000..20_000_u64, 60_000..700_000_u64];
    let cuts = prop::collection::vec(0..700_000_u64, 0..4);
    (
        prop::collection::vec((len, any::<bool>(), cuts), 1..12),
        1..5_usize,
    )
}

async fn write_and_read(rig: &Rig, ticket: u64, batch: &Batch, lanes: usize) {
    let peer = rig.peer_with(PeerOptions {
        lanes_max: lanes,
        stripe: ByteCount(100_000),
        ..PeerOptions::default()
    });
    let mut at = 0;
    let places = batch.iter().map(|(len, scattered, _)| {
        let target = target(at, *len, *scattered);
        at += len.next_multiple_of(CHUNK as u64);
        target
    });
    let places: Vec<_> = places.collect();
    let payloads: Vec<_> = batch
        .iter()
        .map(|(len, ..)| payload(*len, ticket))
        .collect();
    let parts: Vec<Vec<&[u8]>> = batch
        .iter()
        .zip(&payloads)
        .map(|((len, _, cuts), bytes)| {
            let mut cuts: Vec<_> = cuts.iter().map(|c| (*c).min(*len) as usize).collect();
            cuts.extend([0, *len as usize]);
            cuts.sort_unstable();
            cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
        })
        .collect();
    let ops = places.iter().zip(&parts);
    let ops: Vec<_> = ops
        .map(|(place, parts)| write_op(ticket, place, parts))
        .collect();
    let written = peer.write(&ops).await;
    for (answer, bytes) in written.into_iter().zip(&payloads) {
        assert_eq!(answer.expect("nobody objects"), Crc32::of(bytes));
    }
    let mut buffers: Vec<_> = payloads.iter().map(|p| vec![0xee; p.len()]).collect();
    let ops = places.iter().zip(&mut buffers);
    let mut ops: Vec<_> = ops
        .map(|(place, into)| read_op(ticket, place, into))
        .collect();
    let read = peer.read(&mut ops).await;
    for ((answer, bytes), back) in read.into_iter().zip(&payloads).zip(&buffers) {
        let sums = answer.expect("it is there");
        assert!(bytes == back, "other bytes came back");
        let table = ChunkTable::of(bytes);
        assert_eq!(sums.crc, table.object_crc());
        assert_eq!(sums.chunks, table.sums());
        assert_eq!(sums.table.len() as u64, table_len(bytes.len() as u64));
        assert!(sums.table.is_empty() || sums.table == table.encode());
    }
}

#[test]
fn what_is_written_is_read_over_any_number_of_connections() {
    let runtime = Runtime::new().unwrap();
    let rig = runtime.block_on(async { Rig::new() });
    let mut runner = TestRunner::new(ProptestConfig::with_cases(40));
    let ticket = AtomicU64::new(1);
    let checked = runner.run(&batches(), |(batch, lanes)| {
        let ticket = ticket.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(write_and_read(&rig, ticket, &batch, lanes));
        Ok(())
    });
    checked.unwrap();
}

#[tokio::test]
async fn ranges_are_read_with_the_whole_table() {
    let rig = Rig::new();
    let peer = rig.peer();
    let chunk = CHUNK as u64;
    let bytes = payload(5 * chunk + 100, 1);
    let place = target(0, bytes.len() as u64, true);
    put(&peer, 1, &place, &bytes).await.unwrap();
    for (start, end) in [(1, 3), (0, 0), (5, 6)] {
        let range = start * CHUNK..(end * CHUNK).min(bytes.len());
        let mut into = vec![0; range.len()];
        let mut ops = [ReadOp {
            offset: range.start as u64,
            ..read_op(1, &place, &mut into)
        }];
        let sums = peer.read(&mut ops).await.remove(0).unwrap();
        assert_eq!(into, bytes[range]);
        assert_eq!(sums.chunks, ChunkTable::of(&into).sums());
        assert_eq!(sums.table, ChunkTable::of(&bytes).encode());
    }
    let mut into = vec![0; 10];
    let odd = peer.read(&mut [read_op(1, &place, &mut into)]).await;
    assert_eq!(odd[0].clone().unwrap_err().code(), Code::InvalidParams);
}

#[tokio::test]
async fn a_refusal_stands_in_its_place_and_costs_nobody_else() {
    let rig = Rig::new();
    let peer = rig.peer();
    let bytes = payload(300_000, 1);
    let places = [0, 1, 2, 3].map(|i| target(i << 20, 300_000, false));
    rig.tier.fence(Ticket(5), &places[1].placement).unwrap();
    let stranger = Target {
        member: MemberId(99),
        ..places[2].clone()
    };
    let parts = [&bytes[..]];
    let short = WriteOp {
        len: 299_999,
        ..write_op(5, &places[3], &parts)
    };
    let ops = [
        write_op(5, &places[0], &parts),
        write_op(5, &places[1], &parts),
        write_op(5, &stranger, &parts),
        short,
        write_op(5, &places[3], &parts),
    ];
    let answers = peer.write(&ops).await;
    let codes: Vec<_> = answers
        .iter()
        .map(|a| a.as_ref().err().map(|e| e.code()))
        .collect();
    assert_eq!(
        codes,
        [
            None,
            Some(Code::InvalidWrite),
            Some(Code::ClientNotFound),
            Some(Code::InvalidParams),
            None
        ]
    );
    let words = answers[1].as_ref().unwrap_err().what();
    assert!(words.contains("0.5"), "the owner's own words: {words}");
    let mut buffers = [vec![0; 300_000], vec![0; 300_000]];
    let [first, second] = &mut buffers;
    let mut ops = [
        read_op(6, &places[0], first),
        read_op(5, &places[3], second),
    ];
    let answers = peer.read(&mut ops).await;
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::ReplicaIsGone);
    assert!(answers[1].is_ok() && buffers[1] == bytes);
    assert_eq!(rig.server.counts().greeted, 1, "all over one connection");
}

#[tokio::test]
async fn an_empty_payload_is_a_value() {
    let rig = Rig::new();
    let peer = rig.peer();
    let place = target(64, 0, false);
    assert_eq!(put(&peer, 1, &place, &[]).await.unwrap(), Crc32::default());
    assert_eq!(get(&peer, 1, &place).await.unwrap().1, ReadSums::default());
    assert!(peer.write(&[]).await.is_empty() && peer.read(&mut []).await.is_empty());
}

#[tokio::test]
async fn a_fence_stops_a_write_in_mid_transfer() {
    let rig = Rig::new();
    let place = target(0, 1 << 20, false);
    let bytes = payload(1 << 20, 1);
    let frame = write_frame(5, &place, &bytes);
    let mut stream = rig.stranger().await;
    let (early, late) = frame.split_at(frame.len() / 2);
    stream.write_all(early).await.unwrap();
    while rig.server.counts().bytes_in < 400_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    rig.tier.fence(Ticket(5), &place.placement).unwrap();
    let next = payload(1 << 20, 2);
    put(&rig.peer(), 6, &place, &next).await.unwrap();
    stream.write_all(late).await.unwrap();
    let answer = header(&mut stream).await.unwrap();
    assert_eq!(
        (answer.kind, answer.status),
        (Kind::Done, Code::InvalidWrite.number())
    );
    assert_eq!(rig.server.counts().fenced, 1);
    assert_eq!(
        get(&rig.peer(), 6, &place).await.unwrap().0,
        next,
        "not a byte of the old one"
    );
    let mut text = vec![0; answer.meta_len as usize];
    stream.read_exact(&mut text).await.unwrap();
    stream
        .write_all(&write_frame(7, &place, &bytes))
        .await
        .unwrap();
    assert_eq!(
        header(&mut stream).await.unwrap().status,
        0,
        "the connection goes on"
    );
}

#[tokio::test]
async fn bytes_without_their_sums_are_not_believed() {
    let rig = Rig::new();
    for len in [100, 200_000] {
        let place = target(0, len, false);
        let mut frame = write_frame(len, &place, &payload(len, 1));
        let middle = frame.len() - 50;
        frame[middle] ^= 1;
        let mut stream = rig.stranger().await;
        stream.write_all(&frame).await.unwrap();
        let answer = header(&mut stream).await.unwrap();
        assert_eq!(answer.status, Code::ChecksumMismatch.number());
    }
    assert_eq!(rig.server.counts().mismatched, 2);
}

#[tokio::test]
async fn space_that_is_given_on_while_it_is_sent_is_not_sealed() {
    let rig = Rig::new();
    let peer = rig.peer();
    let len = 24 << 20;
    let place = target(0, len, false);
    put(&peer, 5, &place, &payload(len, 1)).await.unwrap();
    let mut into = vec![0; len as usize];
    let mut ops = [read_op(5, &place, &mut into)];
    let mut read = std::pin::pin!(peer.read(&mut ops));
    let begun = async {
        while rig.server.counts().bytes_out == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = begun => {}
        _ = &mut read => panic!("24 MiB do not fit into the socket's buffers"),
    }
    rig.tier.fence(Ticket(5), &place.placement).unwrap();
    let other = target(0, 100, false);
    put(&rig.peer(), 6, &other, &payload(100, 2)).await.unwrap();
    let answer = read.await.remove(0).unwrap_err();
    assert_eq!(answer.code(), Code::ReplicaIsGone);
    assert_eq!(rig.server.counts().unsealed, 1);
}
