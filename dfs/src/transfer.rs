//! Moving bytes between files and buffers of the pool: in pieces, with a bounded number under way.
//!
//! Whoever holds a buffer never waits for another, so that no number of transfers over one pool can wait in a ring: the
//! first buffer is waited for, more are taken where there are some, and after that a transfer lives on what it has.

use std::{collections::VecDeque, ops::Range, sync::Arc};
use ziggurat_base::{CHUNK, Code, Result};
use ziggurat_io::{Buffer, Disk, File, Flight, Landed, Pool, Request};

/// The most bytes that are moved by one request; a multiple of [`CHUNK`].
const PIECE: usize = 1 << 20;

/// The most pieces of one object that are under way.
pub(crate) const DEPTH: usize = 8;

/// Bytes of a piece with this pool: several transfers find room in it.
pub(crate) fn piece_of(pool: &Pool) -> usize {
    let share = (pool.bytes() / 8).min(PIECE as u64) as usize;
    (share / CHUNK * CHUNK).max(CHUNK)
}

/// Waits for a request to be over.
pub(crate) async fn land(flight: Flight) -> Result<Option<Buffer>> {
    let Landed { buffer, result } = flight.await;
    result.map(|()| buffer)
}

/// Waits for a read.
pub(crate) async fn landed_buffer(flight: Flight) -> Result<Buffer> {
    land(flight).await?.ok_or_else(|| Code::Internal.into())
}

/// Starts one request.
pub(crate) fn start(file: &dyn File, request: Request) -> Flight {
    let flight = file.start(vec![request]).pop();
    flight.expect("a disk answers each request with a flight")
}

/// Reads a range of whole blocks.
pub(crate) async fn read_all(disk: &dyn Disk, file: &dyn File, at: Range<u64>) -> Result<Vec<u8>> {
    let pool = disk.pool();
    let mut bytes = Vec::with_capacity((at.end - at.start) as usize);
    let mut offset = at.start;
    while offset < at.end {
        let here = (at.end - offset).min(piece_of(pool) as u64);
        let buffer = pool.take(here as usize).await?;
        let request = Request::Read { offset, buffer };
        bytes.extend_from_slice(&landed_buffer(start(file, request)).await?);
        offset += here;
    }
    Ok(bytes)
}

/// Writes whole blocks and makes them durable.
pub(crate) async fn write_synced(
    disk: &dyn Disk,
    file: &dyn File,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    let pool = disk.pool();
    let piece = piece_of(pool);
    let last = bytes.len().saturating_sub(1) / piece;
    for (number, bytes) in bytes.chunks(piece).enumerate() {
        let mut buffer = pool.take(bytes.len()).await?;
        buffer.copy_from_slice(bytes);
        let request = Request::Write {
            offset: offset + (number * piece) as u64,
            buffer,
            sync: number == last,
        };
        land(start(file, request)).await?;
    }
    Ok(())
}

/// A range on its way in, piece after piece.
pub(crate) struct Inflow {
    file: Arc<dyn File>,
    flights: VecDeque<Flight>,
    next: u64,
    end: u64,
    piece: usize,
}

impl Inflow {
    /// Starts reading `head` and `body` in one batch; `head` must not be empty, both are whole blocks.
    pub(crate) async fn start(
        disk: &dyn Disk,
        file: &Arc<dyn File>,
        head: Range<u64>,
        body: Range<u64>,
    ) -> Result<(Flight, Self)> {
        let pool = disk.pool();
        let piece = piece_of(pool);
        let first = (body.end - body.start).min(piece as u64) as usize;
        let head_len = (head.end - head.start) as usize;
        let mut buffer = pool.take(head_len + first).await?;
        let mut flow = Self {
            file: Arc::clone(file),
            flights: VecDeque::with_capacity(DEPTH),
            next: body.start,
            end: body.end,
            piece,
        };
        let mut requests = Vec::with_capacity(DEPTH + 1);
        let body = (first > 0).then(|| buffer.split_off(head_len));
        requests.push(Request::Read {
            offset: head.start,
            buffer,
        });
        requests.extend(body.map(|buffer| flow.request(buffer)));
        while requests.len() <= DEPTH && flow.next < flow.end {
            let Some(buffer) = pool.try_take(flow.here()) else {
                break;
            };
            requests.push(flow.request(buffer));
        }
        flow.flights.extend(file.start(requests));
        let head = flow.flights.pop_front();
        Ok((
            head.expect("a disk answers each request with a flight"),
            flow,
        ))
    }

    fn here(&self) -> usize {
        (self.end - self.next).min(self.piece as u64) as usize
    }

    fn request(&mut self, buffer: Buffer) -> Request {
        let offset = self.next;
        self.next += buffer.len() as u64;
        Request::Read { offset, buffer }
    }

    /// The next piece; `None` behind the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Buffer>> {
        match self.flights.pop_front() {
            Some(flight) => landed_buffer(flight).await.map(Some),
            None => Ok(None),
        }
    }

    /// Goes on with the buffer of a piece that was used.
    pub(crate) fn again(&mut self, mut buffer: Buffer) {
        let here = self.here();
        if here == 0 {
            return;
        }
        if here < buffer.len() {
            buffer.shorten(here);
        }
        let request = self.request(buffer);
        self.flights.push_back(start(&*self.file, request));
    }
}

/// Writes under way to one file, in any order.
pub(crate) struct Outflow<'a> {
    disk: &'a dyn Disk,
    file: &'a dyn File,
    flights: VecDeque<Flight>,
}

impl<'a> Outflow<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, file: &'a dyn File) -> Self {
        Self {
            disk,
            file,
            flights: VecDeque::with_capacity(DEPTH),
        }
    }

    /// A buffer to fill, once fewer than [`DEPTH`] writes are under way.
    pub(crate) async fn buffer(&mut self, len: usize) -> Result<Buffer> {
        loop {
            if self.flights.len() < DEPTH
                && let Some(buffer) = self.disk.pool().try_take(len)
            {
                return Ok(buffer);
            }
            let Some(oldest) = self.flights.pop_front() else {
                return self.disk.pool().take(len).await;
            };
            land(oldest).await?;
        }
    }

    /// Starts a write.
    pub(crate) fn push(&mut self, offset: u64, buffer: Buffer) {
        let request = Request::Write {
            offset,
            buffer,
            sync: false,
        };
        self.flights.push_back(start(self.file, request));
    }

    /// Waits until all have landed, also when one fails: nothing is under way afterwards.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        let mut result = Ok(());
        while let Some(flight) = self.flights.pop_front() {
            result = result.and(land(flight).await.map(drop));
        }
        result
    }
}
