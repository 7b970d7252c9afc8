//! A data write at the node: admitted by the shelf, landed in pieces, ended.

use super::{
    super::world::{Process, World},
    table_part, touched,
};
use std::sync::Arc;
use ziggurat_base::{Crc32, Extent, frame::Span};
use ziggurat_engine::{command::Answer, port::Access, shelf::WriteId};

/// A range of a payload on its way to a node.
#[derive(Clone, Debug)]
pub(crate) struct WriteMessage {
    pub(crate) node: usize,
    pub(crate) access: Access,
    pub(crate) span: Span,
    /// The bytes of the range.
    pub(crate) bytes: Arc<[u8]>,
    /// The sums of its chunks, as the writer took them.
    pub(crate) sums: Arc<[Crc32]>,
}

/// Who is told how it ended.
pub(crate) type Done = Box<dyn FnOnce(&mut World, Answer<()>) + Send>;

/// A write under way.
struct Landing {
    message: WriteMessage,
    life: u64,
    id: WriteId,
    /// What is still to land, last first: where, and where in the range it comes from; no source for the table.
    rest: Vec<(Extent, Option<usize>)>,
    done: Done,
}

/// A write arrives.
pub(crate) fn begin(world: &mut World, message: WriteMessage, done: Done) {
    let index = message.node;
    let life = world.health(Process::Node(index)).life;
    let node = &mut world.nodes[index];
    let touched = touched(&message.span, table_part(&message.span));
    let access = message.access;
    match node.admit(access, &touched) {
        Ok(id) => {
            let rest = pieces(world, &message.span);
            world
                .outcome
                .tell(|| format!("n{index} admits {} +{}", access.ticket, message.span.offset));
            step(
                world,
                Landing {
                    message,
                    life,
                    id,
                    rest,
                    done,
                },
            );
        }
        Err(error) => {
            world
                .outcome
                .tell(|| format!("n{index} refuses {}: {error}", access.ticket));
            done(world, Err(error));
        }
    }
}

/// The pieces in which a range lands, last first.
fn pieces(world: &mut World, span: &Span) -> Vec<(Extent, Option<usize>)> {
    let most = (4096_u64 << world.dice.below(5)).max(span.len / 6);
    let mut pieces = Vec::new();
    let mut source = 0;
    for extent in span.placement.extents.pieces(span.offset, span.len) {
        let mut from = extent.offset;
        while from < extent.end() {
            let len = most.min(extent.end() - from);
            pieces.push((Extent::new(from, len), Some(source)));
            source += len as usize;
            from += len;
        }
    }
    pieces.extend(table_part(span).map(|table| (table, None)));
    pieces.reverse();
    pieces
}

/// Plans the next piece, or ends the write.
fn step(world: &mut World, landing: Landing) {
    let process = Process::Node(landing.message.node);
    let pause = world.network.delay(world.now) / 4;
    world.within(process, Some(landing.life), pause, move |world| {
        land(world, landing)
    });
}

fn land(world: &mut World, mut landing: Landing) {
    let (index, access) = (landing.message.node, landing.message.access);
    let node = &mut world.nodes[index];
    if let Err(stopped) = node.goes_on(access, landing.id) {
        return finish(world, landing, Err(stopped));
    }
    let Some((extent, source)) = landing.rest.pop() else {
        return finish(world, landing, Ok(()));
    };
    let window = node.window(access.segment, extent);
    match source {
        Some(from) => window.copy_from_slice(&landing.message.bytes[from..from + window.len()]),
        None => {
            let sums = landing.message.sums.iter();
            let table: Vec<u8> = sums.flat_map(|sum| sum.0.to_le_bytes()).collect();
            window.copy_from_slice(&table);
        }
    }
    let place = (access.member, access.segment);
    let broken = world.books.landed(access.ticket, place, extent);
    world.judge(broken);
    if landing.rest.is_empty() {
        finish(world, landing, Ok(()));
    } else {
        step(world, landing);
    }
}

fn finish(world: &mut World, landing: Landing, answer: Answer<()>) {
    let node = &mut world.nodes[landing.message.node];
    node.end(landing.message.access.segment, landing.id);
    (landing.done)(world, answer);
}
