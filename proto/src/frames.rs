//! Frames of control messages on a byte stream: cutting them out of what was read, appending them to what will be written.

use crate::convert::batch;
use prost::Message;
use std::io;
use tokio::{io::AsyncReadExt as _, net::tcp::OwnedReadHalf};
use ziggurat_base::{
    Code, Error,
    frame::{HEADER_LEN, Header, Kind, META_LEN_MAX},
};

/// Room of an idle connection for what arrives.
const ROOM: usize = 16 << 10;

/// Room that a busy connection may keep.
const ROOM_KEPT: usize = 256 << 10;

/// Less room than this behind what is there: it is moved to the front.
const ROOM_LOW: usize = 4 << 10;

/// A frame in the reader's buffer.
pub(crate) struct Frame<'a> {
    pub(crate) header: Header,
    pub(crate) meta: &'a [u8],
}

/// What was read and not yet taken.
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// An inbox that has already received `first`.
    pub(crate) fn new(first: &[u8]) -> Self {
        let mut buffer = vec![0; ROOM];
        buffer[..first.len()].copy_from_slice(first);
        Self {
            buffer,
            start: 0,
            end: first.len(),
        }
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// As [`Header::decode`]; `DeserializeFail` for a frame that is no control message.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, Error> {
        let Some(bytes) = self.buffer[self.start..self.end].first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let header = Header::decode(bytes)?;
        if header.body_len != 0 || header.table_len != 0 {
            let what =
                "a control frame with a payload: this port serves metadata, nodes serve data";
            return Err(Error::new(Code::DeserializeFail, what));
        }
        let len = HEADER_LEN + header.meta_len as usize;
        if self.end - self.start < len {
            return Ok(None);
        }
        let meta = self.start + HEADER_LEN..self.start + len;
        self.start += len;
        Ok(Some(Frame {
            header,
            meta: &self.buffer[meta],
        }))
    }

    /// Reads whatever is there; 0 means that the peer has finished.
    pub(crate) async fn fill(&mut self, stream: &mut OwnedReadHalf) -> io::Result<usize> {
        self.make_room();
        let count = stream.read(&mut self.buffer[self.end..]).await?;
        self.end += count;
        Ok(count)
    }

    /// Leaves room to read. It doubles when the last read filled it, so that what a peer announces costs no memory before
    /// it arrives; no frame exceeds `HEADER_LEN + META_LEN_MAX`.
    fn make_room(&mut self) {
        let is_full = self.end == self.buffer.len();
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > ROOM_KEPT {
                self.buffer = vec![0; ROOM];
            }
        } else if self.start > 0 && self.buffer.len() - self.end < ROOM_LOW {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() || (is_full && self.buffer.len() < ROOM_KEPT) {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
    }
}

/// Appends a frame with a message.
///
/// # Errors
/// `BufferOverflow` when the message exceeds what a frame takes; nothing is appended.
pub(crate) fn append(
    out: &mut Vec<u8>,
    mut header: Header,
    message: &impl Message,
) -> Result<(), Error> {
    let start = out.len();
    let meta = start + HEADER_LEN;
    out.resize(meta, 0);
    message
        .encode(out)
        .expect("a vector has room for any message");
    let len = out.len() - meta;
    if len > META_LEN_MAX as usize {
        out.truncate(start);
        let what =
            format!("a message of {len} bytes: {META_LEN_MAX} are the most; use smaller batches");
        return Err(Error::new(Code::BufferOverflow, what));
    }
    header.meta_len = len as u32;
    out[start..meta].copy_from_slice(&header.encode());
    Ok(())
}

/// Appends a frame that says what went wrong.
pub(crate) fn append_failure(out: &mut Vec<u8>, kind: Kind, request: u64, error: &Error) {
    let text = batch::text(error);
    let mut header = Header::new(kind, request);
    header.status = error.code().number();
    header.meta_len = text.len() as u32;
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(text.as_bytes());
}

/// The error of a frame whose status is not 0.
pub(crate) fn failure(status: i32, meta: &[u8]) -> Error {
    batch::error(status, String::from_utf8_lossy(meta).into_owned())
}
