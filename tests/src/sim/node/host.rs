//! The simulated node as a [`Host`], so that it is held against the same contract as the product's. Admission, windows and
//! ends are those of the simulation; only the pieces are cut as a caller asks.

use super::{Node, pieces::Pieces, table_part, touched};
use std::sync::{Arc, Mutex, MutexGuard};
use ziggurat_base::{
    Code, Crc32, Error, Extent, MemberId, Placement, Ticket,
    checksum::chunk_count,
    frame::{Span, TokenSpan},
    hash::Dice,
};
use ziggurat_engine::{
    command::Answer,
    port::{Access, Host, ReadSlot, WriteSlot},
    shelf::WriteId,
    testkit::host::{Bench, MEMBER, SEGMENT, SEGMENT_LEN},
};

#[derive(Clone)]
struct SimHost(Arc<Mutex<Node>>);

impl std::fmt::Debug for SimHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimHost")
    }
}

impl SimHost {
    fn new() -> Self {
        let mut node = Node::new(&mut Dice::new(0));
        node.member = Some(MEMBER);
        node.mount(SEGMENT, SEGMENT_LEN);
        Self(Arc::new(Mutex::new(node)))
    }

    fn node(&self) -> MutexGuard<'_, Node> {
        self.0.lock().expect("no panic under it")
    }
}

struct SimWrite {
    host: SimHost,
    access: Access,
    id: WriteId,
    chunks: u64,
    table: Option<Extent>,
    rest: Pieces,
}

impl Drop for SimWrite {
    fn drop(&mut self) {
        self.host.node().end(self.access.segment, self.id);
    }
}

impl WriteSlot for SimWrite {
    fn left(&self) -> u64 {
        self.rest.left()
    }

    fn step(&mut self, most: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Answer<usize> {
        let mut node = self.host.node();
        node.goes_on(self.access, self.id)?;
        let moved = fill(node.window(self.access.segment, self.rest.next(most)));
        drop(node);
        self.rest.advance(moved);
        Ok(moved)
    }

    fn finish(self: Box<Self>, sums: &[Crc32]) -> Answer<()> {
        if self.left() > 0 || sums.len() as u64 != self.chunks {
            return Err(Error::new(Code::InvalidParams, "bytes or sums are missing"));
        }
        let mut node = self.host.node();
        node.goes_on(self.access, self.id)?;
        if let Some(table) = self.table {
            let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.0.to_le_bytes()).collect();
            node.window(self.access.segment, table)
                .copy_from_slice(&sums);
        }
        Ok(())
    }
}

struct SimRead {
    host: SimHost,
    access: Access,
    touched: Vec<Extent>,
    check: Option<Extent>,
    rest: Pieces,
}

impl ReadSlot for SimRead {
    fn left(&self) -> u64 {
        self.rest.left()
    }

    fn step(&mut self, most: usize, take: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        let piece = self.rest.next(most);
        let taken = take(self.host.node().window(self.access.segment, piece));
        self.rest.advance(taken);
        taken
    }

    fn table(&self) -> Answer<Vec<u8>> {
        let mut node = self.host.node();
        let table = self
            .check
            .map(|check| node.window(self.access.segment, check));
        Ok(table.map(|table| table.to_vec()).unwrap_or_default())
    }

    fn seal(&self) -> Answer<()> {
        self.host.node().owns(self.access, &self.touched)
    }
}

impl Host for SimHost {
    fn open_write(&self, access: Access, span: &Span) -> Answer<Box<dyn WriteSlot>> {
        let table = table_part(span);
        let id = self.node().admit(access, &touched(span, table))?;
        Ok(Box::new(SimWrite {
            host: self.clone(),
            access,
            id,
            chunks: chunk_count(span.len),
            table,
            rest: Pieces::of(span),
        }))
    }

    fn open_read(&self, access: Access, span: &Span) -> Answer<Box<dyn ReadSlot>> {
        let check = span.placement.check;
        let touched = touched(span, check);
        self.node().admit_read(access, &touched)?;
        Ok(Box::new(SimRead {
            host: self.clone(),
            access,
            touched,
            check,
            rest: Pieces::of(span),
        }))
    }

    fn open_token_write(&self, _: &TokenSpan) -> Answer<Box<dyn WriteSlot>> {
        Err(Code::UnavailableInCurrentMode.into())
    }

    fn open_token_read(&self, _: &TokenSpan) -> Answer<Box<dyn ReadSlot>> {
        Err(Code::UnavailableInCurrentMode.into())
    }
}

impl Bench for SimHost {
    fn host(&self) -> &dyn Host {
        self
    }

    fn fence(&self, ticket: Ticket, placement: &Placement) {
        let mut node = self.node();
        let writes = node.shelf.fence(ticket, placement);
        node.stop(&writes.expect("the segment is there"));
    }

    fn unmount(&self) {
        self.node().unmount(SEGMENT);
    }

    fn rejoin(&self, member: MemberId) {
        self.node().member = Some(member);
    }
}

ziggurat_engine::host_contract!(contract, Box::new(SimHost::new()));
