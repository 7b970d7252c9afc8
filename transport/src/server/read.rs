//! A read: bytes go straight from the segment to the socket; a last frame says whether they may be believed.

use super::{
    ahead::Fetched,
    ask::Ask,
    connection::{Connection, Step},
};
use crate::{
    counts::add,
    wire::{INLINE_MAX, Then},
};
use std::io;
use ziggurat_base::{
    CHUNK, Code, Error,
    frame::{Header, Kind, META_LEN_MAX, WANT_TABLE},
};
use ziggurat_engine::port::ReadSlot;

impl Connection<'_> {
    /// Serves one read of what lies in memory.
    pub(super) async fn read(&mut self, header: &Header, ask: &Ask) -> Step<()> {
        let opened = ask.open_read(&*self.shared.host);
        self.send(header, opened).await
    }

    /// Serves the first of the reads that are fetched, if there is one.
    pub(super) async fn read_fetched(&mut self) -> Step<()> {
        if !self.ahead.go_on().await {
            self.flush().await?;
            self.ahead.first().await;
        }
        match self.ahead.take() {
            Some((header, fetched)) => self.send(&header, fetched).await,
            None => Ok(()),
        }
    }

    /// `Done`, table, payload, `Sealed`; or a `Done` that says why not.
    async fn send(&mut self, header: &Header, opened: Fetched) -> Step<()> {
        let opened = opened.and_then(|slot| open(header, slot));
        let (mut slot, table) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                add(&self.shared.counters.refused, 1);
                self.answer(Kind::Done, header, Err(error));
                return Ok(());
            }
        };
        let mut done = Header::new(Kind::Done, header.request);
        done.ticket = header.ticket;
        done.body_len = slot.left();
        done.table_len = table.len() as u32;
        self.outbound.header(&done);
        self.outbound.buffer().extend_from_slice(&table);
        add(&self.shared.counters.bytes_out, slot.left());
        while slot.left() > 0 {
            if slot.left() <= INLINE_MAX as u64 {
                let buffer = self.outbound.buffer();
                slot.step(INLINE_MAX, &mut |window| {
                    buffer.extend_from_slice(window);
                    window.len()
                });
            } else if let Err(error) = self.send_piece(&mut *slot) {
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(error.into());
                }
                self.stall.wait(self.stream.writable()).await?;
            }
            tokio::task::consume_budget().await;
        }
        let sealed = slot.seal();
        if sealed.is_err() {
            add(&self.shared.counters.unsealed, 1);
        }
        self.answer(Kind::Sealed, header, sealed);
        Ok(())
    }

    /// Sends what is gathered and the next bytes in place, as far as the socket takes them.
    fn send_piece(&mut self, slot: &mut dyn ReadSlot) -> io::Result<()> {
        let (stream, outbound) = (&self.stream, &mut self.outbound);
        let mut result = Ok(0);
        slot.step(CHUNK, &mut |window| {
            // The seal follows the payload.
            result = outbound.try_send_with(stream, window, Then::More);
            *result.as_ref().unwrap_or(&0)
        });
        result.map(drop)
    }
}

type Opened = (Box<dyn ReadSlot>, Vec<u8>);

/// The slot and the chunk table, if the reader wants one.
fn open(header: &Header, slot: Box<dyn ReadSlot>) -> Result<Opened, Error> {
    let table = match header.flags & WANT_TABLE {
        0 => Vec::new(),
        _ => slot.table()?,
    };
    if table.len() > META_LEN_MAX as usize {
        let what = format!(
            "a chunk table of {} bytes does not fit a frame",
            table.len()
        );
        return Err(Error::new(Code::NotSupported, what));
    }
    Ok((slot, table))
}
