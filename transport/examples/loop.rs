//! The data plane against a raw socket loop with the same socket options, between two processes, in the same run.
//!
//! `cargo run --release -p ziggurat-transport --example loop -- [ROUNDS] [LANES] [ONLY]`. A round is one raw put, one of
//! ours, one raw get, one of ours, so that whatever else the machine does hits all alike; each round takes other memory,
//! so that caches are cold. One line per shape and direction: median microseconds of both, our GB/s at the median, the
//! ratio of the medians and of the tenths (over 1: we are faster), operations per second. Raw put: header, payload, one
//! byte back. Raw get: header, payload back; a batch counts as one payload there. Ours has its checksums on.
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
            let rounds = rounds.map_or(Ok(300), |n| n.parse())?;
            let lanes = args.next().map_or(Ok(1), |n| n.parse())?;
            let only = args.next().map(|n| n.parse()).transpose()?;
            measure(rounds, lanes, only)
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

fn measure(rounds: usize, lanes: usize, only: Option<usize>) -> Outcome<()> {
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
        "{:>8} {:>5} {:>4} {:>8} {:>8} {:>6} {:>6} {:>6} {:>9}",
        "size", "batch", "op", "raw us", "ours us", "GB/s", "p50", "p10", "ops/s"
    );
    for (size, batch) in [
        (1 << 20, 1),
        (4 << 20, 1),
        (16 << 20, 1),
        (64 << 10, 64),
        (4 << 10, 128),
    ] {
        if only.is_none_or(|only| only == size) {
            bench.shape(&Shape { size, batch }, rounds)?;
        }
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
        let mut times = [const { Vec::new() }; 4];
        let len = shape.size * shape.batch;
        for round in 0..rounds {
            let at = round % (POOL / len) * len;
            times[0].push(self.raw(at, len, true)?);
            times[1].push(self.write(shape, at)?);
            times[2].push(self.raw(at, len, false)?);
            times[3].push(self.read(shape, at)?);
        }
        times.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
        let part = |way: usize, percent: usize| times[way][rounds * percent / 100];
        for (op, raw, ours) in [("put", 0, 1), ("get", 2, 3)] {
            let seconds = part(ours, 50);
            println!(
                "{:>8} {:>5} {op:>4} {:8.0} {:8.0} {:6.2} {:6.2} {:6.2} {:9.0}",
                ByteCount(shape.size as u64).to_string(),
                shape.batch,
                part(raw, 50) * 1e6,
                seconds * 1e6,
                len as f64 / seconds / 1e9,
                part(raw, 50) / seconds,
                part(raw, 10) / part(ours, 10),
                shape.batch as f64 / seconds
            );
        }
        Ok(())
    }

    fn raw(&mut self, at: usize, len: usize, put: bool) -> Outcome<f64> {
        let words = [u64::from(put), at as u64, len as u64];
        let head: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let window = &mut self.pool[at..at + len];
        let start = Instant::now();
        self.raw.write_all(&head)?;
        if put {
            self.raw.write_all(window)?;
            self.raw.read_exact(&mut [0])?;
        } else {
            self.raw.read_exact(window)?;
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn write(&mut self, shape: &Shape, at: usize) -> Outcome<f64> {
        self.ticket += 1;
        let (targets, end) = targets(shape, at);
        let parts: Vec<_> = self.pool[at..end]
            .chunks(shape.size)
            .map(|part| [part])
            .collect();
        let start = Instant::now();
        let ops: Vec<_> = targets
            .iter()
            .zip(&parts)
            .map(|(target, parts)| WriteOp {
                name: None,
                ticket: Ticket(self.ticket),
                target,
                parts,
                len: shape.size as u64,
            })
            .collect();
        for answer in self.runtime.block_on(self.peer.write(&ops)) {
            answer?;
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn read(&mut self, shape: &Shape, at: usize) -> Outcome<f64> {
        let (targets, end) = targets(shape, at);
        let start = Instant::now();
        let mut ops: Vec<_> = targets
            .iter()
            .zip(self.pool[at..end].chunks_mut(shape.size))
            .map(|(source, into)| ReadOp {
                name: None,
                ticket: Ticket(self.ticket),
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
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Places for one batch from `at` on, and where they end.
fn targets(shape: &Shape, at: usize) -> (Vec<Target>, usize) {
    let places = (at..).step_by(shape.size).take(shape.batch);
    let targets = places.map(|at| target(at, shape.size)).collect();
    (targets, at + shape.size * shape.batch)
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
