//! Bytes that are ready to be sent: frames are gathered here, large payloads follow them in the same system call.

use super::Watch;
use std::io::{self, IoSlice};
use tokio::net::TcpStream;
use ziggurat_base::frame::Header;

/// When so many bytes are gathered they are sent; the buffer grows a little beyond.
const FULL: usize = 64 << 10;

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
    ) -> io::Result<usize> {
        let gathered = &self.bytes[self.sent..];
        let n = match (gathered, payload) {
            ([], []) => return Ok(0),
            ([], payload) => return stream.try_write(payload),
            (gathered, []) => stream.try_write(gathered)?,
            both => stream.try_write_vectored(&[IoSlice::new(both.0), IoSlice::new(both.1)])?,
        };
        let ours = n.min(gathered.len());
        self.sent += ours;
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
        Ok(n - ours)
    }

    /// Sends what is gathered and then all of `payload`.
    pub(crate) async fn send_with(
        &mut self,
        stream: &TcpStream,
        watch: &mut Watch,
        mut payload: &[u8],
    ) -> io::Result<()> {
        while !(self.is_empty() && payload.is_empty()) {
            match self.try_send_with(stream, payload) {
                Ok(n) => payload = &payload[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    watch.wait(stream.writable()).await?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends what is gathered.
    pub(crate) async fn flush(&mut self, stream: &TcpStream, watch: &mut Watch) -> io::Result<()> {
        self.send_with(stream, watch, &[]).await
    }
}
