//! Reading: header and payload in one batch of requests. What the header says is proved first, then each chunk.

use crate::{
    Name, Place, Root,
    format::{
        BLOCK, damaged,
        record::{Header, Peek},
    },
    shard::Shard,
    transfer::{Inflow, landed_buffer},
    write::in_order,
};
use ziggurat_base::{
    CHUNK, ChunkTable, Code, Crc32, Error, Job, Result,
    checksum::{Summer, table_len},
    copy::copy_and_sum,
};
use ziggurat_engine::{
    command::Tags,
    port::ReadSums,
    shard_record::{header_len, payload_len},
};

/// Which bytes of which record.
#[derive(Clone, Copy, Debug)]
pub struct ShardRead<'a> {
    /// Who it should be.
    pub name: Name<'a>,
    /// Where it should lie.
    pub place: Place,
    /// Bytes of the whole payload.
    pub object_len: u64,
    /// First byte of the range, a multiple of [`CHUNK`]. The range ends on another one, or with the payload.
    pub offset: u64,
    /// Whether the chunk table of the object is wanted too.
    pub want_table: bool,
}

impl ShardRead<'_> {
    fn check(&self, shard: &Shard, len: u64) -> Result<()> {
        let extent = self.place.extent;
        shard.check_extent(extent)?;
        let least = payload_len(self.object_len).saturating_add(BLOCK);
        if extent.len < least {
            let what = format!(
                "an extent of {} bytes has no room for an object of {}",
                extent.len, self.object_len
            );
            return Err(Error::new(Code::InvalidReplica, what));
        }
        let end = self.offset.checked_add(len);
        let end = end.filter(|end| *end <= self.object_len);
        let is_cut = |at: u64| at.is_multiple_of(CHUNK as u64) || at == self.object_len;
        if self.offset.is_multiple_of(CHUNK as u64) && end.is_some_and(is_cut) {
            return Ok(());
        }
        let what = format!(
            "{len} bytes at {} are not whole chunks of an object of {} bytes",
            self.offset, self.object_len
        );
        Err(Error::new(Code::InvalidRead, what))
    }

    /// Bytes in front of the payload.
    fn room(&self) -> u64 {
        self.place.extent.len - payload_len(self.object_len)
    }

    /// Whether a header is the one that is wanted.
    fn prove(&self, header: &Header, shard: &Shard) -> Result<()> {
        let Name {
            tenant,
            key,
            ticket,
        } = self.name;
        let is_here = (header.root, header.shard, header.extent)
            == (shard.root, shard.index, self.place.extent);
        let is_it = header.ticket == ticket && *header.tenant == *tenant;
        if is_here && is_it && header.key.as_key() == key && header.len == self.object_len {
            return Ok(());
        }
        Err(gone("another record lies where it was"))
    }
}

fn gone(what: &str) -> Error {
    Error::new(
        Code::ReplicaIsGone,
        format!("the object is not on the shared filesystem any more: {what}"),
    )
}

/// A header that has to be read again because it is longer.
enum Head {
    Proved(Box<Header>),
    Longer(u64),
}

impl Root {
    /// Reads a range of a payload and proves it: who it is by the header, each chunk by its sum.
    ///
    /// # Errors
    /// `ReplicaIsGone` when another record or none lies there, `ChecksumMismatch` when the payload is not what was
    /// written, `InvalidReplica` for a shard file or an extent that there is not, `InvalidRead` for a range that is not
    /// whole chunks, and errors of the disk. The memory has any content then.
    pub async fn read(&self, read: &ShardRead<'_>, into: &mut [u8]) -> Result<ReadSums> {
        let shard = self.shard(read.place.shard)?;
        read.check(&shard, into.len() as u64)?;
        match self.try_read(read, &shard, into).await {
            Err(error) if self.may_be_stale(&error) => {
                shard.reopen(self.disk()).await?;
                self.try_read(read, &shard, into).await
            }
            result => result,
        }
    }

    /// Whether a fresh handle may see something else: the old one can have lost its file, and some filesystems go on showing
    /// through it what their cache has.
    fn may_be_stale(&self, error: &Error) -> bool {
        let is_cached = !self.disk().geometry().direct;
        match error.code() {
            Code::FileReadFail | Code::FileNotFound => true,
            Code::ReplicaIsGone | Code::ChecksumMismatch => is_cached,
            _ => false,
        }
    }

    async fn try_read(
        &self,
        read: &ShardRead<'_>,
        shard: &Shard,
        into: &mut [u8],
    ) -> Result<ReadSums> {
        let Name { tenant, key, .. } = read.name;
        // As if it had no tags, which the header says.
        let mut head_len = header_len(tenant, key, &Tags::default(), read.object_len);
        loop {
            if head_len > read.room() {
                return Err(gone("no record of this length fits there"));
            }
            match self.read_with(read, shard, head_len, into).await? {
                (Head::Proved(_), Some(sums)) => return Ok(sums),
                (Head::Longer(len), _) if len > head_len => head_len = len,
                _ => return Err(gone("its header is damaged")),
            }
        }
    }

    async fn read_with(
        &self,
        read: &ShardRead<'_>,
        shard: &Shard,
        head_len: u64,
        into: &mut [u8],
    ) -> Result<(Head, Option<ReadSums>)> {
        let file = shard.file();
        let at = shard.start + read.place.extent.offset;
        let from = at + read.room() + read.offset;
        let body = from..from + payload_len(into.len() as u64);
        let (head, mut flow) = Inflow::start(self.disk(), &file, at..at + head_len, body).await?;
        let head = header_of(&landed_buffer(head).await?)?;
        let Head::Proved(header) = head else {
            return Ok((head, None));
        };
        read.prove(&header, shard)?;
        let (mut summer, mut rest) = (Summer::default(), &mut *into);
        while let Some(buffer) = flow.next().await? {
            let here = rest.len().min(buffer.len());
            let (piece, later) = rest.split_at_mut(here);
            for (to, from) in piece.chunks_mut(CHUNK).zip(buffer[..here].chunks(CHUNK)) {
                summer.push(copy_and_sum(to, from), from.len());
            }
            rest = later;
            flow.again(buffer);
        }
        let sums = prove_payload(read, &header, summer, into.len() as u64)?;
        Ok((Head::Proved(header), Some(sums)))
    }

    /// Reads ranges, several at once; answers by position.
    pub async fn read_many(
        &self,
        reads: &mut [(ShardRead<'_>, &mut [u8])],
    ) -> Vec<Result<ReadSums>> {
        let jobs = reads.iter_mut().enumerate();
        let jobs = jobs.map(
            |(index, (read, into))| -> Job<'_, (usize, Result<ReadSums>)> {
                Box::pin(async move { (index, self.read(read, into).await) })
            },
        );
        in_order(jobs).await
    }
}

/// The header in the first blocks of an extent.
fn header_of(bytes: &[u8]) -> Result<Head> {
    let peek = Peek::of(bytes).ok_or_else(|| gone("no record begins where it was"))?;
    let len = u64::from(peek.len);
    if len > bytes.len() as u64 {
        return Ok(Head::Longer(len));
    }
    match Header::decode(&bytes[..peek.len as usize]) {
        Ok(header) => Ok(Head::Proved(Box::new(header))),
        Err(error) if error.code() == Code::InvalidVersion => Err(error),
        Err(_) => Err(gone("its header is damaged")),
    }
}

/// Whether the bytes are the ones that were written, and what they sum to.
fn prove_payload(
    read: &ShardRead<'_>,
    header: &Header,
    summer: Summer,
    len: u64,
) -> Result<ReadSums> {
    let wrong = || damaged("the payload on the shared filesystem does not have its sum");
    let crc = summer.crc();
    let sums = summer.finish().sums().to_vec();
    let is_whole = len == header.len;
    if is_whole && crc != header.crc {
        return Err(wrong());
    }
    if table_len(header.len) == 0 || (is_whole && !read.want_table) {
        return Ok(ReadSums {
            crc,
            ..ReadSums::default()
        });
    }
    let table = ChunkTable::from_sums(header.len, header.table.clone())?;
    if table.object_crc() != header.crc {
        return Err(damaged("the chunk table does not belong to this object"));
    }
    let first = (read.offset / CHUNK as u64) as usize;
    let want: Option<&[Crc32]> = table.sums().get(first..first + sums.len());
    if want != Some(&sums[..]) {
        return Err(wrong());
    }
    Ok(ReadSums {
        crc,
        chunks: sums,
        table: table.encode(),
    })
}
