//! What a node serves: its memory, and the SSD directories of its keeper.

use crate::keeper::Keeper;
use std::sync::Arc;
use ziggurat_base::{
    Code, Error, Extents, Job, Result,
    frame::{Span, TokenSpan},
};
use ziggurat_engine::port::{Access, Host, ReadSlot, WriteSlot};
use ziggurat_tiers::{
    dram::DramTier,
    ssd::{Found, SsdTier, Wanted},
};

/// See the module.
#[derive(Debug)]
pub struct NodeHost {
    dram: Arc<DramTier>,
    keeper: Arc<Keeper>,
}

impl NodeHost {
    /// Serves both.
    #[must_use]
    pub fn new(dram: Arc<DramTier>, keeper: Arc<Keeper>) -> Self {
        Self { dram, keeper }
    }
}

impl Host for NodeHost {
    fn open_write(&self, access: Access, span: &Span) -> Result<Box<dyn WriteSlot>> {
        self.dram.open_write(access, span)
    }

    fn open_read(&self, access: Access, span: &Span) -> Result<Box<dyn ReadSlot>> {
        self.dram.open_read(access, span)
    }

    fn fetch<'a>(
        &'a self,
        access: Access,
        span: &'a Span,
    ) -> Option<Job<'a, Result<Box<dyn ReadSlot>>>> {
        let tier = self.keeper.tier(access.segment)?;
        Some(Box::pin(async move {
            let here = self.dram.member();
            if access.member != here {
                return Err(Error::new(
                    Code::ClientNotFound,
                    format!(
                        "the request is for incarnation {}, this one is {here}",
                        access.member
                    ),
                ));
            }
            let slot: Box<dyn ReadSlot> = Box::new(fetch(tier, access, span).await?);
            Ok(slot)
        }))
    }

    fn open_token_write(&self, span: &TokenSpan) -> Result<Box<dyn WriteSlot>> {
        self.dram.open_token_write(span)
    }

    fn open_token_read(&self, span: &TokenSpan) -> Result<Box<dyn ReadSlot>> {
        self.dram.open_token_read(span)
    }
}

async fn fetch(tier: &SsdTier, access: Access, span: &Span) -> Result<Fetched> {
    let whole = matches!(&span.placement.extents, Extents::One(extent) if extent.offset == 0);
    if !whole || span.placement.check.is_some() {
        return Err(Error::new(
            Code::InvalidParams,
            "a replica on SSD has one extent that begins at 0, and no table beside it",
        ));
    }
    let wanted = Wanted {
        ticket: access.ticket,
        object_len: span.object_len,
        offset: span.offset,
        len: span.len,
    };
    let found = tier.read(&wanted).await?;
    Ok(Fetched { found, sent: 0 })
}

/// Bytes in a buffer of the staging pool, which they keep until they are sent.
struct Fetched {
    found: Found,
    sent: usize,
}

impl ReadSlot for Fetched {
    fn left(&self) -> u64 {
        (self.found.bytes().len() - self.sent) as u64
    }

    fn step(&mut self, most: usize, take: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        let rest = &self.found.bytes()[self.sent..];
        let taken = take(&rest[..most.min(rest.len())]);
        self.sent += taken;
        taken
    }

    fn table(&self) -> Result<Vec<u8>> {
        Ok(self.found.sums.table.clone())
    }

    fn seal(&self) -> Result<()> {
        Ok(())
    }
}
