//! Reads out of the SSD directories of a keeper.

use crate::keeper::Keeper;
use ziggurat_base::{Code, Error, Extents, Job, Result, frame::Span};
use ziggurat_engine::port::{Access, ReadSlot};
use ziggurat_tiers::{
    dram::check_incarnation,
    ssd::{Found, SsdTier, Wanted},
};

impl Keeper {
    /// Fetches a range of a version out of the directory that a segment is; `None` when it is none.
    ///
    /// # Errors
    /// `ClientNotFound` for another incarnation, `InvalidParams` for a placement that no directory has, and as
    /// [`SsdTier::read`].
    pub fn fetch<'a>(
        &'a self,
        access: Access,
        span: &'a Span,
    ) -> Option<Job<'a, Result<Box<dyn ReadSlot>>>> {
        let tier = self.tier(access.segment)?;
        Some(Box::pin(async move {
            check_incarnation(access.member, self.member())?;
            let slot: Box<dyn ReadSlot> = Box::new(fetch(tier, access, span).await?);
            Ok(slot)
        }))
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
