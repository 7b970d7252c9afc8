//! Bytes that have arrived and are not used yet.

use std::io;
use tokio::net::TcpStream;

/// Size of the buffer: several small requests come in one system call.
const CAPACITY: usize = 128 << 10;

/// How far to read ahead when large payloads are expected: what is read ahead must be copied again.
const AHEAD_OF_LARGE: usize = 4 << 10;

/// A receive buffer. Headers, metas and small payloads are used from here; large payloads are received past it, after
/// the part of them that was read ahead.
#[derive(Debug)]
pub(crate) struct Inbound {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    ahead: usize,
}

impl Inbound {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; CAPACITY].into(),
            start: 0,
            end: 0,
            ahead: CAPACITY,
        }
    }

    /// Says what the next payload is probably like.
    pub(crate) fn expect(&mut self, payload_len: u64) {
        self.ahead = if payload_len > super::INLINE_MAX as u64 {
            AHEAD_OF_LARGE
        } else {
            CAPACITY
        };
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Marks bytes as used.
    pub(crate) fn skip(&mut self, n: usize) {
        assert!(n <= self.end - self.start, "only what has arrived is used");
        self.start += n;
    }

    /// Takes what is there, at most as much as `target` has room for.
    pub(crate) fn take(&mut self, target: &mut [u8]) -> usize {
        let n = target.len().min(self.end - self.start);
        target[..n].copy_from_slice(&self.bytes[self.start..self.start + n]);
        self.start += n;
        n
    }

    /// Takes the next `N` bytes, which must have arrived.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        assert_eq!(self.take(&mut array), N, "only what has arrived is used");
        array
    }

    /// Receives more behind what is there; 0 means that the other side has closed.
    pub(crate) fn try_more(&mut self, stream: &TcpStream) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end + self.ahead > CAPACITY {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let most = (self.end + self.ahead).min(CAPACITY);
        assert!(self.end < most, "whoever wants more reads past the buffer");
        let n = stream.try_read(&mut self.bytes[self.end..most])?;
        self.end += n;
        Ok(n)
    }
}
