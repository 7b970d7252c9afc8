//! Writing: the payload first, and its header when all of it has landed, so that a process that ends in between leaves no
//! record.

use crate::{
    Name, Place, Root,
    format::{BLOCK, TENANT_MAX, record::Header},
    shard::Shard,
    transfer::{Outflow, land, piece_of, start},
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ziggurat_base::{
    Code, Crc32, Error, Job, Result, Ticket,
    checksum::{Summer, table_len},
    copy::copy_and_sum,
};
use ziggurat_engine::{
    command::{OwnedTags, Tags},
    shard_record::{payload_len, record_len},
};
use ziggurat_io::Request;

/// Objects of one batch that are under way.
pub(crate) const AT_ONCE: usize = 16;

/// When a write is told to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ack {
    /// Every byte was taken by the filesystem.
    #[default]
    Written,
    /// Every byte is durable.
    Synced,
}

/// One object on its way to one extent.
#[derive(Clone, Copy, Debug)]
pub struct ShardWrite<'a> {
    /// Who it is.
    pub name: Name<'a>,
    /// What it is related to.
    pub tags: Tags<'a>,
    /// Where it goes; as long as [`record_len`] says.
    pub place: Place,
    /// The payload in parts.
    pub parts: &'a [&'a [u8]],
    /// When it is done.
    pub ack: Ack,
}

impl ShardWrite<'_> {
    fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    fn check(&self, shard: &Shard) -> Result<()> {
        shard.check_extent(self.place.extent)?;
        let wrong = |what: String| Err(Error::new(Code::InvalidParams, what));
        if self.name.tenant.len() > TENANT_MAX || self.name.ticket == Ticket::NONE {
            return wrong(format!(
                "version {} of tenant {:?} cannot be written: a tenant's name has at most {TENANT_MAX} bytes, and a \
                 version a ticket",
                self.name.ticket, self.name.tenant
            ));
        }
        let (len, extent) = (self.len(), self.place.extent);
        let Name { tenant, key, .. } = self.name;
        let want = record_len(tenant, key, &self.tags, len, shard.alignment);
        if want == extent.len {
            return Ok(());
        }
        wrong(format!(
            "an object of {len} bytes takes {want} with its header, not {}: ask for an extent of that length",
            extent.len
        ))
    }
}

impl Root {
    /// Writes an object and says what its payload sums to. Dropping the future leaves requests under way that write within
    /// the extent; nobody else may have it until they cannot be any more.
    ///
    /// # Errors
    /// `InvalidReplica` for a shard file or an extent that there is not, `InvalidParams` for an extent of the wrong length,
    /// `NoAvailableHandle` when the filesystem has no room, `FileWriteFail` for other troubles of it. Nothing is under way
    /// afterwards.
    pub async fn write(&self, write: &ShardWrite<'_>) -> Result<Crc32> {
        let shard = self.shard(write.place.shard)?;
        write.check(&shard)?;
        let (file, mark) = (shard.file(), shard.sync_mark());
        let mut flow = Outflow::new(self.disk(), &*file);
        let sent = self.send(&shard, write, &mut flow).await;
        let drained = flow.drain().await;
        let summer = sent?;
        drained?;
        let crc = summer.crc();
        let len = write.len();
        let table = match table_len(len) {
            0 => Vec::new(),
            _ => summer.finish().sums().to_vec(),
        };
        let Name {
            tenant,
            key,
            ticket,
        } = write.name;
        let header = Header {
            root: shard.root,
            shard: shard.index,
            extent: write.place.extent,
            ticket,
            tenant: tenant.into(),
            key: key.to_owned(),
            tags: OwnedTags::from(&write.tags),
            len,
            crc,
            table,
        };
        let bytes = header.encode();
        let mut buffer = self.disk().pool().take(bytes.len()).await?;
        buffer.copy_from_slice(&bytes);
        let request = Request::Write {
            offset: shard.start + write.place.extent.offset,
            buffer,
            sync: write.ack == Ack::Synced,
        };
        let landed = land(start(&*file, request)).await;
        match write.ack {
            Ack::Written => landed?,
            Ack::Synced => shard.synced(mark, landed)?,
        };
        Ok(crc)
    }

    /// Starts writing the payload, piece after piece.
    async fn send(
        &self,
        shard: &Shard,
        write: &ShardWrite<'_>,
        flow: &mut Outflow<'_>,
    ) -> Result<Summer> {
        let mut parts = Parts::new(write.parts);
        let mut left = write.len();
        let end = shard.start + write.place.extent.end();
        let mut at = end - payload_len(left);
        let piece = piece_of(self.disk().pool()) as u64;
        while at < end {
            let here = (end - at).min(piece);
            let mut buffer = flow.buffer(here as usize).await?;
            let (payload, rest) = buffer.split_at_mut(left.min(here) as usize);
            parts.fill(payload);
            rest.fill(0);
            left -= payload.len() as u64;
            flow.push(at, buffer);
            at += here;
        }
        debug_assert!(at.is_multiple_of(BLOCK), "records end on whole blocks");
        Ok(parts.summer)
    }

    /// Writes objects, several at once; answers by position.
    pub async fn write_many(&self, writes: &[ShardWrite<'_>]) -> Vec<Result<Crc32>> {
        let write = |(index, one)| -> Job<'_, (usize, Result<Crc32>)> {
            Box::pin(async move { (index, self.write(one).await) })
        };
        in_order(writes.iter().enumerate().map(write)).await
    }
}

/// Runs jobs, a bounded number at once; each says which answer it is.
pub(crate) async fn in_order<'a, T>(
    mut jobs: impl Iterator<Item = Job<'a, (usize, Result<T>)>>,
) -> Vec<Result<T>> {
    let mut under_way: FuturesUnordered<_> = jobs.by_ref().take(AT_ONCE).collect();
    let mut answers = Vec::new();
    while let Some(answer) = under_way.next().await {
        answers.push(answer);
        under_way.extend(jobs.next());
    }
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A payload in parts, taken from the front and summed.
struct Parts<'a> {
    rest: std::slice::Iter<'a, &'a [u8]>,
    part: &'a [u8],
    summer: Summer,
}

impl<'a> Parts<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Self {
        Self {
            rest: parts.iter(),
            part: &[],
            summer: Summer::default(),
        }
    }

    fn fill(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            if self.part.is_empty() {
                self.part = self.rest.next().expect("no more than all parts together");
                continue;
            }
            let here = to.len().min(self.part.len()).min(self.summer.room());
            let (now, later) = self.part.split_at(here);
            let (target, rest) = to.split_at_mut(here);
            self.summer.push(copy_and_sum(target, now), here);
            (self.part, to) = (later, rest);
        }
    }
}
