//! Reads of one lane: requests out; payloads in, straight into the callers' buffers and summed while they are hot.

use super::{
    Work,
    link::{Link, Receiver, astray},
    stripe::Cut,
    writes::Sender,
};
use crate::wire::Watch;
use std::future::Future;
use ziggurat_base::{
    Error, MemberId, Result, Ticket,
    checksum::{Summer, table_len},
    frame::{Header, Kind, Span, WANT_TABLE},
};
use ziggurat_engine::{
    command::Answer,
    port::{ReadOp, ReadSums},
};

/// Whether an operation makes sense; the sums of nothing if so.
pub(super) fn check(op: &ReadOp<'_>) -> Answer<ReadSums> {
    span(op, op.offset, op.into.len() as u64).check()?;
    Ok(ReadSums::default())
}

fn span(op: &ReadOp<'_>, offset: u64, len: u64) -> Span {
    Span {
        offset,
        len,
        ..Span::whole(op.object_len, op.source.placement.clone())
    }
}

/// A range that is asked for in one frame.
struct Ask {
    cut: Cut,
    ticket: Ticket,
    member: MemberId,
    span: Span,
    /// Whether the operation wants chunk sums and table; the table comes with its first range.
    want_table: bool,
}

impl Ask {
    fn table_comes(&self) -> bool {
        self.want_table && self.cut.offset == 0
    }

    fn header(&self, request: u64) -> Header {
        let mut header = Header::new(Kind::Read, request);
        header.ticket = self.ticket;
        header.member = self.member;
        header.segment = self.span.placement.segment;
        header.flags = if self.table_comes() { WANT_TABLE } else { 0 };
        header
    }
}

pub(super) struct Reads<'a> {
    asks: Vec<Ask>,
    /// Where each goes.
    buffers: Vec<&'a mut [u8]>,
    answers: Vec<Answer<ReadSums>>,
}

/// Gives every lane of `plan` its part of the callers' buffers.
pub(super) fn lanes<'a>(ops: &'a mut [ReadOp<'_>], plan: Vec<Vec<Cut>>) -> Vec<Reads<'a>> {
    let mut asks: Vec<Vec<Ask>> = Vec::with_capacity(plan.len());
    for cuts in plan {
        let lane = cuts.into_iter().map(|cut| {
            let op = &ops[cut.op];
            Ask {
                cut,
                ticket: op.ticket,
                member: op.source.member,
                span: span(op, op.offset + cut.offset, cut.len),
                want_table: op.want_table,
            }
        });
        asks.push(lane.collect());
    }
    let mut rests: Vec<&mut [u8]> = ops.iter_mut().map(|op| &mut *op.into).collect();
    let lane = |asks: Vec<Ask>| {
        let buffers = asks.iter().map(|ask| {
            let rest = std::mem::take(&mut rests[ask.cut.op]);
            let (here, later) = rest.split_at_mut(ask.cut.len as usize);
            rests[ask.cut.op] = later;
            here
        });
        Reads {
            buffers: buffers.collect(),
            answers: Vec::with_capacity(asks.len()),
            asks,
        }
    };
    asks.into_iter().map(lane).collect()
}

impl Reads<'_> {
    /// Adds the outcome to the answers of the batch; ranges of one operation come in order.
    pub(super) fn report(self, answers: &mut [Answer<ReadSums>]) {
        for (ask, answer) in self.asks.iter().zip(self.answers) {
            let whole = &mut answers[ask.cut.op];
            match (&mut *whole, answer) {
                (Ok(before), Ok(sums)) => {
                    before.crc = before.crc.combine(sums.crc, ask.cut.len);
                    before.chunks.extend(sums.chunks);
                    before.table.extend(sums.table);
                }
                (Ok(_), Err(error)) => *whole = Err(error),
                (Err(_), _) => {}
            }
        }
    }
}

impl Work for Reads<'_> {
    fn exchange(&mut self, link: &mut Link) -> impl Future<Output = Result<()>> + Send {
        let first = link.request;
        link.request += self.asks.len() as u64;
        let Self {
            asks,
            buffers,
            answers,
        } = self;
        let mut sender = Sender {
            stream: &link.stream,
            outbound: &mut link.outbound,
            watch: Watch::none(),
        };
        let mut receiver = Receiver {
            stream: &link.stream,
            inbound: &mut link.inbound,
        };
        let asks = &*asks;
        let send = async move {
            for (request, ask) in (first..).zip(asks) {
                sender.frame(ask.header(request), &ask.span);
                sender.flush_if_full().await?;
            }
            sender.flush().await
        };
        let receive = async move {
            for ((request, ask), buffer) in (first..).zip(asks).zip(buffers) {
                receiver.inbound.expect(ask.cut.len);
                answers.push(receiver.range(request, ask, buffer).await?);
            }
            Ok(())
        };
        async { tokio::try_join!(send, receive).map(drop) }
    }

    fn is_unanswered(&self) -> bool {
        self.answers.is_empty()
    }

    fn fail(&mut self, error: &Error) {
        self.answers
            .resize_with(self.asks.len(), || Err(error.clone()));
    }
}

impl Receiver<'_> {
    /// Receives one range; the inner result is what the peer says of it.
    async fn range(
        &mut self,
        request: u64,
        ask: &Ask,
        buffer: &mut [u8],
    ) -> Result<Answer<ReadSums>> {
        let done = match self.answer(Kind::Done, request).await? {
            Ok(done) => done,
            Err(refused) => return Ok(Err(refused)),
        };
        if done.body_len != ask.cut.len {
            return Err(astray("an answer of another length"));
        }
        let expected = match ask.table_comes() {
            true => table_len(ask.span.object_len),
            false => 0,
        };
        let mut sums = ReadSums {
            table: self.table(&done, expected).await?,
            ..ReadSums::default()
        };
        let mut summer = Summer::default();
        self.payload(buffer, &mut summer).await?;
        sums.crc = summer.crc();
        if ask.want_table {
            sums.chunks = summer.finish().sums().to_vec();
        }
        let sealed = self.answer(Kind::Sealed, request).await?;
        Ok(sealed.map(|_| sums))
    }
}
