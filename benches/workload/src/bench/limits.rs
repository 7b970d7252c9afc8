//! What the machine can do without us: a bare copy, and a bare loop over a socket with the options that ours has.
//!
//! ```text
//! request: kind u64 | place u64 | length u64 | back u64     (little-endian), then `length` bytes unless it is a get
//! put:  the bytes go to `place` of the server's pool, one byte comes back
//! get:  `length` bytes come from `place`
//! echo: the bytes are dropped, `back` bytes come back
//! ```

use super::{
    failed,
    stopwatch::{Spans, cpu_of},
};
use socket2::SockRef;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Instant,
};
use ziggurat_base::{Result, hash::Dice};
use ziggurat_transport::socket::SocketOptions;

/// Bytes of a request without its payload.
const HEAD_LEN: usize = 32;

/// Round trips before those that count.
const WARM_UP: usize = 200;

#[derive(Clone, Copy, Debug)]
struct Head {
    kind: u64,
    place: usize,
    len: usize,
    back: usize,
}

const PUT: u64 = 1;
const GET: u64 = 2;
const ECHO: u64 = 3;

impl Head {
    fn encode(self) -> [u8; HEAD_LEN] {
        let words = [
            self.kind,
            self.place as u64,
            self.len as u64,
            self.back as u64,
        ];
        let mut bytes = [0; HEAD_LEN];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; HEAD_LEN]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]));
        Self {
            kind: word(0),
            place: word(1) as usize,
            len: word(2) as usize,
            back: word(3) as usize,
        }
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    let size = SocketOptions::default().buffer.0 as usize;
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(size)?;
    socket.set_recv_buffer_size(size)?;
    // As the data plane does: the first of the two that the system permits, else its own.
    if socket.set_tcp_congestion(b"cubic").is_err() {
        let _refused = socket.set_tcp_congestion(b"reno");
    }
    Ok(())
}

/// Serves with a pool of so many bytes on a thread of its own, one connection after the other.
pub(super) fn serve(pool: usize) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind("127.0.0.1:0").map_err(|e| failed("listen for raw connections", e))?;
    let address = listener.local_addr().map_err(|e| failed("listen", e))?;
    std::thread::spawn(move || {
        let mut pool = vec![1_u8; pool];
        for stream in listener.incoming().flatten() {
            // The other side has hung up: the next one may come.
            let _ended = answer(stream, &mut pool);
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream, pool: &mut [u8]) -> io::Result<()> {
    set_options(&stream)?;
    let mut scratch = vec![2_u8; 1 << 20];
    let mut head = [0; HEAD_LEN];
    loop {
        stream.read_exact(&mut head)?;
        let head = Head::decode(&head);
        let outside = || io::Error::from(io::ErrorKind::InvalidInput);
        let end = head.place.checked_add(head.len).ok_or_else(outside)?;
        match head.kind {
            PUT => {
                stream.read_exact(pool.get_mut(head.place..end).ok_or_else(outside)?)?;
                stream.write_all(&[1])?;
            }
            GET => stream.write_all(pool.get(head.place..end).ok_or_else(outside)?)?,
            ECHO => {
                stream.read_exact(scratch.get_mut(..head.len).ok_or_else(outside)?)?;
                stream.write_all(scratch.get(..head.back).ok_or_else(outside)?)?;
            }
            _ => return Err(outside()),
        }
    }
}

/// Bytes of one request and its answer on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) out: usize,
    pub(super) back: usize,
}

/// A bare connection: one request under way at a time.
#[derive(Debug)]
pub(super) struct Raw {
    stream: TcpStream,
    message: Vec<u8>,
}

impl Raw {
    pub(super) fn connect(address: &str) -> Result<Self> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            set_options(&stream)?;
            Ok(stream)
        };
        let stream = connect().map_err(|e: io::Error| failed("connect to the raw server", e))?;
        Ok(Self {
            stream,
            message: Vec::new(),
        })
    }

    pub(super) fn put(&mut self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let head = Head {
            kind: PUT,
            place,
            len: bytes.len(),
            back: 1,
        };
        self.stream.write_all(&head.encode())?;
        self.stream.write_all(bytes)?;
        self.stream.read_exact(&mut [0])
    }

    pub(super) fn get(&mut self, place: usize, into: &mut [u8]) -> io::Result<()> {
        let head = Head {
            kind: GET,
            place,
            len: into.len(),
            back: into.len(),
        };
        self.stream.write_all(&head.encode())?;
        self.stream.read_exact(into)
    }

    fn echo(&mut self, exchange: Exchange) -> io::Result<()> {
        let head = Head {
            kind: ECHO,
            place: 0,
            len: exchange.out.saturating_sub(HEAD_LEN),
            back: exchange.back,
        };
        self.message.clear();
        self.message.extend_from_slice(&head.encode());
        self.message.resize(HEAD_LEN + head.len, 3);
        self.stream.write_all(&self.message)?;
        self.message.resize(exchange.back, 0);
        self.stream.read_exact(&mut self.message)
    }

    /// The median time, in microseconds, of several exchanges one behind the other.
    pub(super) fn floor_us(&mut self, exchanges: &[Exchange], rounds: usize) -> Result<f64> {
        let mut spans = Spans::default();
        for round in 0..WARM_UP + rounds {
            let began = Instant::now();
            for exchange in exchanges {
                self.echo(*exchange).map_err(|e| failed("echo", e))?;
            }
            if round >= WARM_UP {
                spans.add(began.elapsed());
            }
        }
        Ok(spans.share_us(0.5))
    }
}

/// Cache lines that are walked through at random: 256 MiB.
const LINES: usize = 4 << 20;

/// Loads of a walk.
const LOADS: u32 = 1 << 20;

/// Nanoseconds of CPU time that one load takes whose address the last one gave.
pub(super) fn dependent_load_ns() -> f64 {
    // Sattolo's shuffle gives one cycle through all lines.
    let mut lines: Vec<[u32; 16]> = (0..LINES as u32).map(|line| [line; 16]).collect();
    let mut dice = Dice::new(1);
    for last in (1..LINES).rev() {
        lines.swap(last, dice.below(last as u64) as usize);
    }
    let (end, span) = cpu_of(|| (0..LOADS).fold(0, |at, _| lines[at as usize][0]));
    std::hint::black_box(end);
    span.as_secs_f64() * 1e9 / f64::from(LOADS)
}

/// Copies piece by piece, as a copy of objects does.
pub(super) fn copy(source: &[u8], target: &mut [u8], piece: usize) {
    for (source, target) in source.chunks(piece).zip(target.chunks_mut(piece)) {
        target.copy_from_slice(source);
    }
}

#[cfg(test)]
mod tests {
    use super::{Exchange, Raw, serve};

    #[test]
    fn bytes_come_back_from_where_they_were_put() {
        let address = serve(4096).unwrap().to_string();
        let mut raw = Raw::connect(&address).unwrap();
        raw.put(100, b"some bytes").unwrap();
        let mut back = [0; 10];
        raw.get(100, &mut back).unwrap();
        assert_eq!(&back, b"some bytes");
        let exchange = Exchange { out: 100, back: 9 };
        assert!(raw.floor_us(&[exchange; 2], 3).unwrap() > 0.0);
        assert!(raw.put(4090, b"too far out").is_err() || raw.get(0, &mut back).is_err());
    }
}
