//! The port to the nodes: payloads in stripes, each a message of its own, under one deadline.

use super::{
    super::{
        call::call,
        node::{
            read::{Found, ReadMessage, begin as begin_read},
            write::{WriteMessage, begin as begin_write},
        },
        promise::{Giver, Promise, promise},
        world::{Process, World},
    },
    Port, TENANT_NAMES,
};
use std::sync::Arc;
use ziggurat_base::{
    CHUNK, Clock, Code, Crc32, Error, Job, SegmentId, Timestamp,
    checksum::{ChunkTable, Summer, chunk_count},
    frame::Span,
};
use ziggurat_dfs::Roots;
use ziggurat_engine::{
    command::{Answer, Target},
    port::{Access, DataPlane, ReadOp, ReadSums, WriteOp},
};

/// The stripes of a range: offset and length. One even when there is nothing to move.
fn stripes(offset: u64, len: u64, stripe: u64) -> Vec<(u64, u64)> {
    let count = len.div_ceil(stripe).max(1);
    let cut = |number: u64| {
        let start = number * stripe;
        (offset + start, stripe.min(len - start))
    };
    (0..count).map(cut).collect()
}

fn access(ticket: ziggurat_base::Ticket, target: &Target) -> Access {
    Access {
        member: target.member,
        segment: target.placement.segment,
        ticket,
    }
}

fn span(target: &Target, object_len: u64, (offset, len): (u64, u64)) -> Span {
    Span {
        offset,
        len,
        object_len,
        placement: target.placement.clone(),
    }
}

fn broken() -> Error {
    Error::new(Code::TransferFail, "the connection to the node broke")
}

impl Port {
    fn node(&self, target: &Target) -> Answer<usize> {
        let node = self
            .seat
            .sim
            .with(|world| world.addresses.get(&target.member).copied());
        node.ok_or_else(|| Error::new(Code::ClientNotFound, "nobody serves the replica"))
    }

    /// Sends one stripe; it may arrive twice.
    fn send_write(&self, message: WriteMessage) -> Promise<Answer<()>> {
        let (giver, answer) = promise();
        let me = self.seat.me;
        let process = Process::Node(message.node);
        self.seat.sim.with(|world| {
            if let Some(later) = world.network.twice(world.now) {
                world.outcome.fault("duplicate");
                let message = message.clone();
                let life = Some(world.health(process).life);
                world.within(process, life, later, move |world| {
                    begin_write(world, message, Box::new(|_, _| {}));
                });
            }
            let failed = giver.clone();
            let arrives = move |world: &mut World| {
                let message = flipped(world, message);
                begin_write(
                    world,
                    message,
                    Box::new(move |world, answer| reply(world, process, me, giver, answer)),
                );
            };
            world.send(me, process, arrives, move |_| failed.give(Err(broken())));
        });
        answer
    }

    fn send_read(&self, message: ReadMessage) -> Promise<Answer<Found>> {
        let (giver, answer) = promise();
        let me = self.seat.me;
        let process = Process::Node(message.node);
        self.seat.sim.with(|world| {
            let failed = giver.clone();
            let sim = self.seat.sim.clone();
            let arrives = move |world: &mut World| {
                begin_read(
                    world,
                    &sim,
                    message,
                    Box::new(move |world, answer| {
                        let answer = answer.map(|found| flipped_back(world, found));
                        reply(world, process, me, giver, answer);
                    }),
                );
            };
            world.send(me, process, arrives, move |_| failed.give(Err(broken())));
        });
        answer
    }

    /// Waits for a stripe until the deadline of its whole operation.
    async fn until<T>(&self, deadline: Timestamp, answer: Promise<Answer<T>>) -> Answer<T> {
        let left = deadline.since(self.seat.clock.now());
        let answer = self.seat.clock.within(left, answer).await;
        answer.unwrap_or_else(|| Err(Error::new(Code::RpcTimeout, "no answer from the node")))
    }

    fn deadline(&self) -> (Timestamp, u64) {
        let (span, stripe) = self
            .seat
            .sim
            .with(|world| (world.params.data_deadline, world.params.stripe));
        (self.seat.clock.now().after(span), stripe)
    }

    fn start_write(
        &self,
        op: &WriteOp<'_>,
        stripe: u64,
    ) -> Answer<(Crc32, Vec<Promise<Answer<()>>>)> {
        let node = self.node(op.target)?;
        let payload = op.parts.concat();
        assert_eq!(payload.len() as u64, op.len, "a journey counts its parts");
        let table = ChunkTable::of(&payload);
        let send = |(offset, len): (u64, u64)| {
            let first = (offset / CHUNK as u64) as usize;
            let sums = &table.sums()[first..first + chunk_count(len) as usize];
            self.send_write(WriteMessage {
                node,
                access: access(op.ticket, op.target),
                span: span(op.target, op.len, (offset, len)),
                bytes: payload[offset as usize..(offset + len) as usize].into(),
                sums: sums.into(),
            })
        };
        let sent = stripes(0, op.len, stripe).into_iter().map(send).collect();
        Ok((table.object_crc(), sent))
    }

    fn start_read(&self, op: &ReadOp<'_>, stripe: u64) -> Answer<Vec<Promise<Answer<Found>>>> {
        let node = self.node(op.source)?;
        let send = |part: (u64, u64)| {
            self.send_read(ReadMessage {
                node,
                access: access(op.ticket, op.source),
                span: span(op.source, op.object_len, part),
                want_table: op.want_table && part.0 == op.offset,
            })
        };
        let parts = stripes(op.offset, op.into.len() as u64, stripe);
        Ok(parts.into_iter().map(send).collect())
    }
}

/// Answers a data request.
fn reply<T: Send + 'static>(
    world: &mut World,
    from: Process,
    to: Process,
    giver: Giver<Answer<T>>,
    answer: Answer<T>,
) {
    let failed = giver.clone();
    let arrives = move |_: &mut World| giver.give(answer);
    world.send(from, to, arrives, move |_| failed.give(Err(broken())));
}

fn flipped(world: &mut World, mut message: WriteMessage) -> WriteMessage {
    if let Some((byte, bit)) = world.network.flip(message.bytes.len()) {
        world.outcome.fault("wire_flip");
        let mut bytes = message.bytes.to_vec();
        bytes[byte] ^= bit;
        message.bytes = Arc::from(bytes);
    }
    message
}

fn flipped_back(world: &mut World, mut found: Found) -> Found {
    if let Some((byte, bit)) = world.network.flip(found.bytes.len()) {
        world.outcome.fault("wire_flip");
        found.bytes[byte] ^= bit;
    }
    if let Some((byte, bit)) = world.network.flip(found.table.len()) {
        world.outcome.fault("wire_flip");
        found.table[byte] ^= bit;
    }
    found
}

impl DataPlane for Port {
    fn write<'a>(&'a self, ops: &'a [WriteOp<'a>]) -> Job<'a, Vec<Answer<Crc32>>> {
        Box::pin(async move {
            // A journey writes memory and shard files one after the other.
            if ops.iter().any(|op| op.target.is_shared()) {
                let segments = ops.iter().map(|op| op.target.placement.segment);
                return match self.roots(segments.collect()).await {
                    Ok(roots) => roots.write(self.tenant_name(), ops).await,
                    Err(error) => ops.iter().map(|_| Err(error.clone())).collect(),
                };
            }
            let (deadline, stripe) = self.deadline();
            let started: Vec<_> = ops.iter().map(|op| self.start_write(op, stripe)).collect();
            let mut answers = Vec::with_capacity(ops.len());
            for one in started {
                answers.push(match one {
                    Ok((crc, sent)) => {
                        let mut all = Ok(crc);
                        for stripe in sent {
                            if let Err(error) = self.until(deadline, stripe).await {
                                all = Err(error);
                            }
                        }
                        all
                    }
                    Err(error) => Err(error),
                });
            }
            answers
        })
    }

    fn read<'a, 'b: 'a>(&'a self, ops: &'a mut [ReadOp<'b>]) -> Job<'a, Vec<Answer<ReadSums>>> {
        Box::pin(async move {
            let (deadline, stripe) = self.deadline();
            let from_nodes =
                |op: &ReadOp<'_>| (!op.source.is_shared()).then(|| self.start_read(op, stripe));
            let started: Vec<_> = ops.iter().map(from_nodes).collect();
            let mut answers = Vec::with_capacity(ops.len());
            for (op, one) in ops.iter_mut().zip(started) {
                answers.push(match one {
                    Some(Ok(sent)) => self.gather(op, deadline, sent).await,
                    Some(Err(error)) => Err(error),
                    None => self.read_shared(op).await,
                });
            }
            let now = self.seat.sim.with(|world| world.now);
            for (op, _) in ops
                .iter()
                .zip(&answers)
                .filter(|(_, answer)| answer.is_ok())
            {
                self.notes
                    .with(|passage| passage.arrivals.push((op.ticket, now)));
            }
            answers
        })
    }
}

impl Port {
    fn tenant_name(&self) -> &'static str {
        let tenant = self.notes.with(|passage| passage.tenant);
        TENANT_NAMES[usize::from(tenant.0)]
    }

    /// The root of this process, which knows these segments if anybody does.
    async fn roots(&self, segments: Vec<SegmentId>) -> Answer<Arc<Roots>> {
        let index = self.seat.index;
        let roots = self
            .seat
            .sim
            .with(|world| world.clients[index].roots.clone());
        let missing = || Error::new(Code::DfsServiceUnavailable, "the root is not open yet");
        let roots = roots.ok_or_else(missing)?;
        if segments.iter().any(|segment| !roots.knows(*segment)) {
            let known = call(&self.seat.sim, self.seat.me, |world| {
                Ok(world.master.catalog.segments())
            });
            roots.learn(&known.await?);
        }
        Ok(roots)
    }

    async fn read_shared(&self, op: &mut ReadOp<'_>) -> Answer<ReadSums> {
        let roots = self.roots(vec![op.source.placement.segment]).await?;
        let ops = std::slice::from_mut(op);
        let mut answers = roots.read(self.tenant_name(), ops).await;
        answers.remove(0)
    }

    async fn gather(
        &self,
        op: &mut ReadOp<'_>,
        deadline: Timestamp,
        sent: Vec<Promise<Answer<Found>>>,
    ) -> Answer<ReadSums> {
        let mut summer = Summer::default();
        let mut table = Vec::new();
        let mut at = 0;
        let mut failed = None;
        for stripe in sent {
            match self.until(deadline, stripe).await {
                Ok(found) => {
                    op.into[at..at + found.bytes.len()].copy_from_slice(&found.bytes);
                    at += found.bytes.len();
                    summer.update(&found.bytes);
                    table.extend(found.table);
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let crc = summer.crc();
        let chunks = if op.want_table {
            summer.finish().sums().to_vec()
        } else {
            Vec::new()
        };
        Ok(ReadSums { crc, chunks, table })
    }
}
