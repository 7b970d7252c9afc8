//! What a node serves: its memory, and the SSD directories of its keeper.

use crate::keeper::Keeper;
use std::sync::Arc;
use ziggurat_base::{
    Job, Result,
    frame::{Span, TokenSpan},
};
use ziggurat_engine::port::{Access, Host, ReadSlot, WriteSlot};
use ziggurat_tiers::dram::DramTier;

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
        self.keeper.fetch(access, span)
    }

    fn open_token_write(&self, span: &TokenSpan) -> Result<Box<dyn WriteSlot>> {
        self.dram.open_token_write(span)
    }

    fn open_token_read(&self, span: &TokenSpan) -> Result<Box<dyn ReadSlot>> {
        self.dram.open_token_read(span)
    }
}
