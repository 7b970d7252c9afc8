//! Bytes that are ready to be sent: frames are gathered here, large payloads follow them in the same system call.

use super::Watch;
use socket2::SockRef;
use std::io::{self, IoSlice};
use tokio::{io::Interest, net::TcpStream};
use ziggurat_base::frame::Header;

/// When so many bytes are gathered they are sent; the buffer grows a little beyond.
const FULL: usize = 64 << 10;

/// What follows a piece at once. A piece of 64 KiB is a little longer than a segment of the loopback: if it is not
/// known that more follows, its last bytes travel in a segment of their own, at the price of a full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// More of the same frame.
    More,
    /// Perhaps nothing.
    Nothing,
}

/// A send buffer.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbound {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(2 * FULL),
            sent: 0,
        }
    }

    /// For encoders that append.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn header(&mut self, header: &Header) {
        self.bytes.extend_from_slice(&header.encode());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() - self.sent >= FULL
    }

    /// Sends what is gathered and then `payload`, as far as the socket takes it. Returns how much of `payload` went.
    pub(crate) fn try_send_with(
        &mut self,
        stream: &TcpStream,
        payload: &[u8],
        then: Then,
    ) -> io::Result<usize> {
        if self.is_empty() && payload.is_empty() {
            return Ok(0);
        }
        let gathered = &self.bytes[self.sent..];
        let both = [IoSlice::new(gathered), IoSlice::new(payload)];
        let slices = if gathered.is_empty() {
            &both[1..]
        } else {
            &both
        };
        let flags = match then {
            Then::More => libc::MSG_MORE,
            Then::Nothing => 0,
        };
        let n = stream.try_io(Interest::WRITABLE, || {
            SockRef::from(stream).send_vectored_with_flags(slices, flags | libc::MSG_NOSIGNAL)
        })?;
        let ours = n.min(gathered.len());
        self.sent += ours;
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
        Ok(n - ours)
    }

    /// Sends what is gathered.
    pub(crate) async fn flush(&mut self, stream: &TcpStream, watch: &mut Watch) -> io::Result<()> {
        while !self.is_empty() {
            match self.try_send_with(stream, &[], Then::Nothing) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    watch.wait(stream.writable()).await?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
