//! A write: bytes go straight into the segment and are summed while they are hot; then the sender's sums decide.

use super::{
    ask::Ask,
    connection::{Closed, Connection, Step},
};
use crate::{
    counts::{Fault, add},
    wire::INLINE_MAX,
};
use std::io;
use ziggurat_base::{
    CHUNK, Code, Crc32, Error,
    checksum::Summer,
    frame::{Header, Kind},
};
use ziggurat_engine::port::WriteSlot;

impl Connection<'_> {
    /// Serves one write. A refused one is received all the same, and forgotten.
    pub(super) async fn write(&mut self, header: &Header, ask: &Ask) -> Step<()> {
        self.inbound.expect(ask.len());
        let result = match ask.open_write(&*self.shared.host) {
            Ok(slot) => self.receive(header, slot).await?,
            Err(error) => {
                add(&self.shared.counters.refused, 1);
                self.discard(header.body_len + u64::from(header.table_len))
                    .await?;
                Err(error)
            }
        };
        self.answer(Kind::Done, header, result);
        Ok(())
    }

    /// Receives payload and sums; the inner result is what the sender is told.
    async fn receive(
        &mut self,
        header: &Header,
        mut slot: Box<dyn WriteSlot>,
    ) -> Step<Result<(), Error>> {
        let mut summer = Summer::default();
        while slot.left() > 0 {
            match self.receive_piece(&mut *slot, &mut summer) {
                Ok(Piece::Moved(n)) => {
                    add(&self.shared.counters.bytes_in, n);
                    tokio::task::consume_budget().await;
                }
                Ok(Piece::Buffered) => {}
                Ok(Piece::Ended) => return Err(Closed::By(Fault::Truncated)),
                Ok(Piece::Nothing) => self.await_bytes().await?,
                Err(Stop::Socket(error)) => return Err(error.into()),
                Err(Stop::Write(error)) => {
                    add(&self.shared.counters.fenced, 1);
                    let left = slot.left() + u64::from(header.table_len);
                    drop(slot);
                    self.discard(left).await?;
                    return Ok(Err(error));
                }
            }
        }
        let table_len = header.table_len as usize;
        self.need(table_len).await?;
        let table = summer.finish();
        // Only a foreign client may leave its sums out: then its bytes are proved by their owner alone.
        let same = table_len == 0
            || sums(&self.inbound.unread()[..table_len]).eq(table.sums().iter().copied());
        self.inbound.skip(table_len);
        if same {
            return Ok(slot.finish(table.sums()));
        }
        add(&self.shared.counters.mismatched, 1);
        let what = "the bytes that arrived do not have the sums that their sender gave";
        Ok(Err(Error::new(Code::ChecksumMismatch, what)))
    }

    /// Moves the next bytes of the payload, from the receive buffer while there are some, else from the socket.
    fn receive_piece(
        &mut self,
        slot: &mut dyn WriteSlot,
        summer: &mut Summer,
    ) -> Result<Piece, Stop> {
        let (stream, inbound) = (&self.stream, &mut self.inbound);
        if inbound.unread().is_empty() && slot.left() <= INLINE_MAX as u64 {
            return match inbound.try_more(stream) {
                Ok(0) => Ok(Piece::Ended),
                Ok(_) => Ok(Piece::Buffered),
                Err(error) => would_block(error),
            };
        }
        let mut result = Ok(0);
        slot.step(CHUNK, &mut |window| {
            result = match inbound.take(window) {
                0 => stream.try_read(window),
                n => Ok(n),
            };
            let n = *result.as_ref().unwrap_or(&0);
            summer.update(&window[..n]);
            n
        })
        .map_err(Stop::Write)?;
        match result {
            Ok(0) => Ok(Piece::Ended),
            Ok(n) => Ok(Piece::Moved(n as u64)),
            Err(error) => would_block(error),
        }
    }
}

/// What became of one step of a payload.
enum Piece {
    /// So many bytes are in the segment.
    Moved(u64),
    /// Bytes have arrived in the receive buffer.
    Buffered,
    /// None has arrived yet.
    Nothing,
    /// None will.
    Ended,
}

/// Why a payload goes no further.
enum Stop {
    Socket(io::Error),
    Write(Error),
}

fn would_block(error: io::Error) -> Result<Piece, Stop> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(Piece::Nothing),
        _ => Err(Stop::Socket(error)),
    }
}

fn sums(bytes: &[u8]) -> impl Iterator<Item = Crc32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| Crc32(u32::from_le_bytes(*word)))
}
