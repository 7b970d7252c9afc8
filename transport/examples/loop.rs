//! The data plane against a raw socket loop with the same socket options, between two processes, in the same run.
//!
//! `cargo run --release -p ziggurat-transport --example loop -- [ROUNDS] [LANES]` prints one line per shape: medians of
//! the rounds in GB/s, their ratio, and operations per second. Raw put: header, payload, one byte back. Raw get: header,
//! payload back. One connection and one operation under way in both; ours has its checksums on.
#![forbid(unsafe_code)]

use socket2::SockRef;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};
use ziggurat_base::{
    ByteCount, Extent, Extents, MemberId, Placement, SegmentId, Ticket,
    checksum::table_len,
    memory::{Region, RegionOptions},
};
use ziggurat_engine::{
    command::Target,
    port::{ReadOp, WriteOp},
};
use ziggurat_tiers::dram::DramTier;
use ziggurat_transport::{
    client::{Peer, PeerOptions},
    server::{Limits, Server},
    socket::SocketOptions,
};

const POOL: usize = 256 << 20;
const MEMBER: MemberId = MemberId(1);
const SEGMENT: SegmentId = SegmentId(1);
const PUT: u64 = 1;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One line of the result: objects of `size` bytes, `batch` of them at a time.
struct Shape {
    size: usize,
    batch: usize,
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    match args.next() {
        Some(word) if word == "serve" => serve(),
        rounds => {
            let rounds = rounds.map_or(Ok(7), |n| n.parse())?;
            let lanes = args.next().map_or(Ok(1), |n| n.parse())?;
            measure(rounds, lanes)
        }
    }
}

fn options(stream: &TcpStream) -> std::io::Result<()> {
    let buffer = SocketOptions::default().buffer.0 as usize;
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(buffer)?;
    socket.set_recv_buffer_size(buffer)?;
    socket.set_tcp_congestion(b"cubic")
}

/// The other process: our server and a raw one.
fn serve() -> Outcome<()> {
    let tier = DramTier::new(MEMBER);
    let options = RegionOptions {
        len: (POOL + (64 << 20)) as u64,
        populate: true,
        name: "loop".into(),
        ..RegionOptions::default()
    };
    tier.mount(SEGMENT, Region::create(&options)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let server = Server::new(Arc::new(tier), Limits::default());
    let guard = runtime.enter();
    let ours = SocketOptions::default().listen(([127, 0, 0, 1], 0).into())?;
    drop(guard);
    let raw = TcpListener::bind("127.0.0.1:0")?;
    println!("{} {}", ours.local_addr()?, raw.local_addr()?);
    runtime.spawn(async move { server.run(ours, std::future::pending()).await });
    let (stream, _) = raw.accept()?;
    serve_raw(stream)
}

fn serve_raw(mut stream: TcpStream) -> Outcome<()> {
    options(&stream)?;
    let mut pool = vec![1_u8; POOL];
    let mut head = [0; 24];
    while stream.read_exact(&mut head).is_ok() {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| head[8 * i + j]));
        let (at, len) = (word(1) as usize, word(2) as usize);
        let window = &mut pool[at..at + len];
        if word(0) == PUT {
            stream.read_exact(window)?;
            stream.write_all(&[1])?;
        } else {
            stream.write_all(window)?;
        }
    }
    Ok(())
}

fn measure(rounds: usize, lanes: usize) -> Outcome<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child
        .stdout
        .take()
        .ok_or("the other process has an output")?;
    BufReader::new(output).read_line(&mut line)?;
    let (ours, raw) = line.trim().split_once(' ').ok_or("two addresses")?;
    let raw = TcpStream::connect(raw)?;
    options(&raw)?;
    let peer_options = PeerOptions {
        lanes_max: lanes,
        ..PeerOptions::default()
    };
    let mut bench = Bench {
        raw,
        peer: Peer::new(ours, peer_options),
        runtime: tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?,
        pool: vec![2_u8; POOL],
        ticket: 1,
    };
    println!(
        "{:>8} {:>5} {:>4} {:>8} {:>8} {:>6} {:>9}",
        "size", "batch", "op", "raw", "ours", "ratio", "ops/s"
    );
    let shape = |size: usize, batch| Shape { size, batch };
    for shape in [
        shape(1 << 20, 1),
        shape(4 << 20, 1),
        shape(16 << 20, 1),
        shape(64 << 10, 64),
        shape(4 << 10, 128),
    ] {
        bench.shape(&shape, rounds)?;
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

struct Bench {
    raw: TcpStream,
    peer: Peer,
    runtime: tokio::runtime::Runtime,
    pool: Vec<u8>,
    ticket: u64,
}

impl Bench {
    fn shape(&mut self, shape: &Shape, rounds: usize) -> Outcome<()> {
        let mut seconds = [const { Vec::new() }; 4];
        let bytes = if shape.size < 1 << 20 { POOL / 4 } else { POOL };
        for _ in 0..rounds {
            let rounds = [
                self.raw_round(shape, bytes, true)?,
                self.write_round(shape, bytes)?,
                self.raw_round(shape, bytes, false)?,
                self.read_round(shape, bytes)?,
            ];
            for (all, one) in seconds.iter_mut().zip(rounds) {
                all.push(one);
            }
        }
        let speed = seconds.map(|mut all| {
            all.sort_by(f64::total_cmp);
            bytes as f64 / all[all.len() / 2] / 1e9
        });
        for (op, raw, ours) in [("put", speed[0], speed[1]), ("get", speed[2], speed[3])] {
            println!(
                "{:>8} {:>5} {op:>4} {raw:8.2} {ours:8.2} {:6.2} {:9.0}",
                ByteCount(shape.size as u64).to_string(),
                shape.batch,
                ours / raw,
                ours * 1e9 / shape.size as f64
            );
        }
        Ok(())
    }

    fn raw_round(&mut self, shape: &Shape, bytes: usize, put: bool) -> Outcome<f64> {
        let start = Instant::now();
        for at in (0..bytes).step_by(shape.size) {
            let words = [u64::from(put), at as u64, shape.size as u64];
            let head: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            self.raw.write_all(&head)?;
            let window = &mut self.pool[at..at + shape.size];
            if put {
                self.raw.write_all(window)?;
                self.raw.read_exact(&mut [0])?;
            } else {
                self.raw.read_exact(window)?;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn write_round(&mut self, shape: &Shape, bytes: usize) -> Outcome<f64> {
        let targets: Vec<_> = (0..bytes)
            .step_by(shape.size)
            .map(|at| target(at, shape.size))
            .collect();
        let parts: Vec<_> = self.pool[..bytes]
            .chunks(shape.size)
            .map(|part| [part])
            .collect();
        let start = Instant::now();
        for (targets, parts) in targets.chunks(shape.batch).zip(parts.chunks(shape.batch)) {
            self.ticket += 1;
            let ops: Vec<_> = targets
                .iter()
                .zip(parts)
                .map(|(target, parts)| WriteOp {
                    ticket: Ticket(self.ticket),
                    target,
                    parts,
                    len: shape.size as u64,
                })
                .collect();
            for answer in self.runtime.block_on(self.peer.write(&ops)) {
                answer?;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn read_round(&mut self, shape: &Shape, bytes: usize) -> Outcome<f64> {
        let targets: Vec<_> = (0..bytes)
            .step_by(shape.size)
            .map(|at| target(at, shape.size))
            .collect();
        let batches = targets.len().div_ceil(shape.batch) as u64;
        let first = self.ticket + 1 - batches;
        let start = Instant::now();
        let windows = self.pool[..bytes].chunks_mut(shape.size * shape.batch);
        for (ticket, (targets, window)) in (first..).zip(targets.chunks(shape.batch).zip(windows)) {
            let mut ops: Vec<_> = targets
                .iter()
                .zip(window.chunks_mut(shape.size))
                .map(|(source, into)| ReadOp {
                    ticket: Ticket(ticket),
                    source,
                    object_len: shape.size as u64,
                    offset: 0,
                    into,
                    want_table: false,
                })
                .collect();
            for answer in self.runtime.block_on(self.peer.read(&mut ops)) {
                answer?;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

fn target(at: usize, size: usize) -> Target {
    let table = table_len(size as u64);
    let table_at = POOL + at / 4096;
    Target {
        member: MEMBER,
        placement: Placement {
            segment: SEGMENT,
            extents: Extents::One(Extent::new(at as u64, size as u64)),
            check: (table > 0).then(|| Extent::new(table_at as u64, table)),
        },
    }
}
