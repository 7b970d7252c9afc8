//! A data read at the node: owned before, copied in pieces, owned after.

use super::{
    super::world::{Order, Process, Sim, World},
    touched,
};
use std::sync::Arc;
use ziggurat_base::{CHUNK, Code, Error, Extent, frame::Span};
use ziggurat_engine::{command::Answer, port::Access};
use ziggurat_node::Keeper;

/// A range of a payload that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct ReadMessage {
    pub(crate) node: usize,
    pub(crate) access: Access,
    pub(crate) span: Span,
    pub(crate) want_table: bool,
}

/// What goes back: the range, and the chunk table when it was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) bytes: Vec<u8>,
    pub(crate) table: Vec<u8>,
}

/// Who is told.
pub(crate) type Done = Box<dyn FnOnce(&mut World, Answer<Found>) + Send>;

struct Sending {
    message: ReadMessage,
    life: u64,
    rest: Vec<Extent>,
    found: Found,
    done: Done,
}

/// Every byte that a read may send.
fn extents(message: &ReadMessage) -> Vec<Extent> {
    touched(&message.span, message.span.placement.check)
}

/// A read arrives.
pub(crate) fn begin(world: &mut World, sim: &Sim, message: ReadMessage, done: Done) {
    let node = &world.nodes[message.node];
    let segment = message.access.segment;
    if let Some(keeper) = node.keeper.clone().filter(|k| k.tier(segment).is_some()) {
        let (process, sim) = (Process::Node(message.node), sim.clone());
        let work = async move {
            let answer = fetch(&keeper, &message).await;
            sim.with(|world| done(world, answer));
        };
        world.orders.push(Order::Spawn(process, Box::pin(work)));
        return;
    }
    if let Err(error) = node.admit_read(message.access, &extents(&message)) {
        done(world, Err(error));
        return;
    }
    let span = &message.span;
    let mut rest = Vec::new();
    for extent in span.placement.extents.pieces(span.offset, span.len) {
        let mut from = extent.offset;
        while from < extent.end() {
            let len = (CHUNK as u64).min(extent.end() - from);
            rest.push(Extent::new(from, len));
            from += len;
        }
    }
    rest.reverse();
    let life = world.health(Process::Node(message.node)).life;
    let found = Found::default();
    step(
        world,
        Sending {
            message,
            life,
            rest,
            found,
            done,
        },
    );
}

/// Reads out of the node's directory.
async fn fetch(keeper: &Arc<Keeper>, message: &ReadMessage) -> Answer<Found> {
    let Some(fetching) = keeper.fetch(message.access, &message.span) else {
        return Err(Error::new(Code::SegmentNotFound, "the directory is gone"));
    };
    let mut slot = fetching.await?;
    let mut found = Found::default();
    while slot.left() > 0 {
        slot.step(CHUNK, &mut |bytes| {
            found.bytes.extend_from_slice(bytes);
            bytes.len()
        });
    }
    if message.want_table {
        found.table = slot.table()?;
    }
    slot.seal()?;
    Ok(found)
}

fn step(world: &mut World, sending: Sending) {
    let pause = world.network.delay(world.now) / 4;
    let process = Process::Node(sending.message.node);
    world.within(process, Some(sending.life), pause, move |world| {
        look(world, sending)
    });
}

/// Copies the next piece; the shelf is asked only before the first and after the last.
fn look(world: &mut World, mut sending: Sending) {
    let segment = sending.message.access.segment;
    let Some(memory) = world.nodes[sending.message.node].memory.get(&segment) else {
        let gone = Error::new(Code::ReplicaIsGone, "the segment is gone");
        (sending.done)(world, Err(gone));
        return;
    };
    if let Some(extent) = sending.rest.pop() {
        let window = &memory[extent.offset as usize..extent.end() as usize];
        sending.found.bytes.extend_from_slice(window);
    }
    if !sending.rest.is_empty() {
        step(world, sending);
        return;
    }
    if sending.message.want_table
        && let Some(check) = sending.message.span.placement.check
    {
        sending.found.table = memory[check.offset as usize..check.end() as usize].to_vec();
    }
    let node = &world.nodes[sending.message.node];
    let owned = node.owns(sending.message.access, &extents(&sending.message));
    let answer = owned.map(|()| sending.found);
    (sending.done)(world, answer);
}
