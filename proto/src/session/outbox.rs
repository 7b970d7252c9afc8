//! Requests on their way to the socket.
//!
//! Whoever finds nobody writing writes, with the lock released; whoever finds somebody writing leaves its bytes and goes.
//! So frames keep their order, nobody waits for a system call of another, and a crowd of callers shares one.

use crate::lock::lock;
use std::{io, mem, sync::Mutex};
use tokio::net::tcp::OwnedWriteHalf;
use ziggurat_base::{Code, Error};

/// Bytes that may wait while the peer does not read.
const PENDING_MAX: usize = 32 << 20;

/// Buffers of this size are kept for the next request.
const SPARE_MAX: usize = 256 << 10;

/// How often a caller writes for others before it leaves that to the task.
const ROUNDS_MAX: usize = 4;

/// Bytes that wait, and whether somebody is writing.
#[derive(Default)]
pub(super) struct Outbox {
    pending: Vec<u8>,
    spare: Vec<u8>,
    is_busy: bool,
}

/// How far a request has come.
pub(super) enum Sent {
    /// Into the socket, or to somebody who is writing.
    All,
    /// The socket is full: the task must go on.
    Partly,
    /// The connection is broken.
    Broken(io::Error),
}

impl Outbox {
    /// What the task shall write next. When there is nothing, callers write by themselves again.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if self.pending.is_empty() {
            self.is_busy = false;
            return None;
        }
        Some(mem::take(&mut self.pending))
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_MAX {
            buffer.clear();
            self.spare = buffer;
        }
    }
}

/// Appends a frame and, when nobody is writing, writes.
///
/// # Errors
/// What `append` says; `Backpressure` when too much waits.
pub(super) fn send(
    outbox: &Mutex<Outbox>,
    stream: &OwnedWriteHalf,
    append: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<Sent, Error> {
    let mut out = lock(outbox);
    if out.pending.len() > PENDING_MAX {
        let what = "the server does not take requests as fast as they come";
        return Err(Error::new(Code::Backpressure, what));
    }
    append(&mut out.pending)?;
    if out.is_busy {
        return Ok(Sent::All);
    }
    out.is_busy = true;
    for _ in 0..ROUNDS_MAX {
        let spare = mem::take(&mut out.spare);
        let mut bytes = mem::replace(&mut out.pending, spare);
        drop(out);
        let written = write(stream, &bytes);
        out = lock(outbox);
        match written {
            Ok(count) if count == bytes.len() => out.keep(bytes),
            Ok(count) => {
                bytes.drain(..count);
                bytes.append(&mut out.pending);
                out.pending = bytes;
                return Ok(Sent::Partly);
            }
            Err(error) => return Ok(Sent::Broken(error)),
        }
        if out.pending.is_empty() {
            out.is_busy = false;
            return Ok(Sent::All);
        }
    }
    Ok(Sent::Partly)
}

/// Writes what the socket takes at once.
pub(super) fn write(stream: &OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
    match stream.try_write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}
