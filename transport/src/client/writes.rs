//! Writes of one lane: frames out, each piece summed while it is hot from being sent; results in.

use super::{
    Work,
    link::{Link, Receiver, broken},
    stripe::Cut,
};
use crate::wire::{INLINE_MAX, Outbound, Then, Watch};
use std::{future::Future, io};
use tokio::net::TcpStream;
use ziggurat_base::{
    Code, Crc32, Error, Result,
    checksum::Summer,
    frame::{Header, Kind, Span},
};
use ziggurat_engine::{command::Answer, port::WriteOp};

/// The most payload that is offered to the socket at once.
const PIECE: usize = 256 << 10;

/// The most payload that may be sent and not summed yet: it is still in the second-level cache.
const UNSUMMED_MAX: usize = 512 << 10;

/// Whether an operation makes sense; the sum of nothing if so.
pub(super) fn check(op: &WriteOp<'_>) -> Answer<Crc32> {
    let parts: u64 = op.parts.iter().map(|part| part.len() as u64).sum();
    if parts != op.len {
        let what = format!("parts of {parts} bytes for a payload of {}", op.len);
        return Err(Error::new(Code::InvalidParams, what));
    }
    Span::whole(op.len, op.target.placement.clone()).check()?;
    Ok(Crc32::default())
}

pub(super) struct Writes<'a> {
    ops: &'a [WriteOp<'a>],
    cuts: Vec<Cut>,
    /// Sums of what was sent, by cut.
    sums: Vec<Crc32>,
    /// What the peer said, by cut.
    answers: Vec<Answer<()>>,
}

impl<'a> Writes<'a> {
    pub(super) fn new(ops: &'a [WriteOp<'a>], cuts: Vec<Cut>) -> Self {
        Self {
            ops,
            sums: Vec::with_capacity(cuts.len()),
            answers: Vec::with_capacity(cuts.len()),
            cuts,
        }
    }

    /// Adds the outcome to the answers of the batch; cuts of one operation come in order.
    pub(super) fn report(self, answers: &mut [Answer<Crc32>]) {
        for ((cut, sum), answer) in self.cuts.iter().zip(self.sums).zip(self.answers) {
            let whole = &mut answers[cut.op];
            *whole = match (&*whole, answer) {
                (Ok(before), Ok(())) => Ok(before.combine(sum, cut.len)),
                (Ok(_), Err(error)) => Err(error),
                (Err(_), _) => continue,
            };
        }
    }
}

impl Work for Writes<'_> {
    fn exchange(&mut self, link: &mut Link) -> impl Future<Output = Result<()>> + Send {
        let first = link.request;
        link.request += self.cuts.len() as u64;
        let Self {
            ops,
            cuts,
            sums,
            answers,
        } = self;
        sums.clear();
        let (ops, cuts) = (*ops, &*cuts);
        let mut sender = Sender {
            stream: &link.stream,
            outbound: &mut link.outbound,
            watch: Watch::none(),
        };
        let mut receiver = Receiver {
            stream: &link.stream,
            inbound: &mut link.inbound,
        };
        let send = async move {
            for (request, cut) in (first..).zip(cuts) {
                sums.push(sender.write(request, &ops[cut.op], *cut).await?);
            }
            sender.flush().await
        };
        let receive = async move {
            for request in first..first + cuts.len() as u64 {
                let answer = receiver.answer(Kind::Done, request).await?;
                answers.push(answer.map(drop));
            }
            Ok(())
        };
        async { tokio::try_join!(send, receive).map(drop) }
    }

    fn is_unanswered(&self) -> bool {
        self.answers.is_empty()
    }

    fn fail(&mut self, error: &Error) {
        self.sums.resize(self.cuts.len(), Crc32::default());
        self.answers
            .resize_with(self.cuts.len(), || Err(error.clone()));
    }
}

/// The sending half of a link.
pub(super) struct Sender<'a> {
    pub(super) stream: &'a TcpStream,
    pub(super) outbound: &'a mut Outbound,
    pub(super) watch: Watch,
}

impl Sender<'_> {
    async fn write(&mut self, request: u64, op: &WriteOp<'_>, cut: Cut) -> Result<Crc32> {
        let span = Span {
            offset: cut.offset,
            len: cut.len,
            ..Span::whole(op.len, op.target.placement.clone())
        };
        let mut header = Header::new(Kind::Write, request);
        header.ticket = op.ticket;
        header.member = op.target.member;
        header.segment = span.placement.segment;
        header.body_len = cut.len;
        header.table_len = 4 * span.chunks() as u32;
        self.frame(header, &span);
        let mut summer = Summer::default();
        for part in range_of(op.parts, cut.offset, cut.len) {
            self.payload(part, &mut summer).await?;
        }
        let crc = summer.crc();
        for sum in summer.finish().sums() {
            self.outbound
                .buffer()
                .extend_from_slice(&sum.0.to_le_bytes());
        }
        Ok(crc)
    }

    /// Gathers a header and its span.
    pub(super) fn frame(&mut self, mut header: Header, span: &Span) {
        let at = self.outbound.buffer().len();
        // The length of the span is known once it is there, so the header goes over its place.
        self.outbound.header(&header);
        let buffer = self.outbound.buffer();
        let start = buffer.len();
        span.encode_into(buffer);
        header.meta_len = (buffer.len() - start) as u32;
        buffer[at..start].copy_from_slice(&header.encode());
    }

    /// Sends payload and sums what has gone, which the kernel's copy has brought into the cache: when the socket is full
    /// anyway, or at the latest [`UNSUMMED_MAX`] bytes behind.
    async fn payload(&mut self, part: &[u8], summer: &mut Summer) -> Result<()> {
        if part.len() <= INLINE_MAX {
            summer.update(part);
            self.outbound.buffer().extend_from_slice(part);
            return self.flush_if_full().await;
        }
        let (mut unsent, mut unsummed) = (part, part);
        while !unsent.is_empty() {
            let piece = &unsent[..unsent.len().min(PIECE)];
            // The sums of the chunks follow the payload.
            let sent = self.outbound.try_send_with(self.stream, piece, Then::More);
            unsent = &unsent[*sent.as_ref().unwrap_or(&0)..];
            let behind = unsummed.len() - unsent.len();
            if behind > UNSUMMED_MAX || (sent.is_err() && behind > 0) {
                let (gone, rest) = unsummed.split_at(behind);
                summer.update(gone);
                unsummed = rest;
                continue;
            }
            match sent {
                Ok(_) => tokio::task::consume_budget().await,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.writable().await.map_err(broken)?;
                }
                Err(e) => return Err(broken(e)),
            }
        }
        summer.update(unsummed);
        Ok(())
    }

    pub(super) async fn flush_if_full(&mut self) -> Result<()> {
        if self.outbound.is_full() {
            self.flush().await?;
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<()> {
        let sent = self.outbound.flush(self.stream, &mut self.watch).await;
        tokio::task::consume_budget().await;
        sent.map_err(broken)
    }
}

/// The bytes `offset .. offset + len` of a payload in parts.
fn range_of<'a>(parts: &'a [&'a [u8]], offset: u64, len: u64) -> impl Iterator<Item = &'a [u8]> {
    let mut start = 0;
    parts.iter().filter_map(move |part| {
        let here = start;
        start += part.len() as u64;
        let from = offset.max(here);
        let to = (offset + len).min(start);
        (from < to).then(|| &part[(from - here) as usize..(to - here) as usize])
    })
}

#[cfg(test)]
mod tests {
    use super::range_of;

    #[test]
    fn ranges_cross_parts() {
        let parts: [&[u8]; 4] = [b"abc", b"", b"defg", b"h"];
        let range = |offset, len| range_of(&parts, offset, len).collect::<Vec<_>>().concat();
        assert_eq!(range(0, 8), b"abcdefgh");
        assert_eq!(range(2, 3), b"cde");
        assert_eq!(range(7, 9), b"h");
        assert_eq!(range(3, 0), b"");
    }
}
