//! Reading: the blocks of the payload and nothing else, proved before anybody sees them.

use super::{
    SsdTier,
    append::sums_of,
    codec_of,
    format::{
        PAGE,
        codec::{Codec, Index, index_len},
        damaged,
        record::{Form, Record},
    },
    logfile::{self, LogFile},
    pack::Unpacker,
    record_of,
};
use std::{ops::Range, sync::Arc};
use ziggurat_base::{
    CHUNK, ChunkTable, Code, Crc32, Error, Result, Ticket,
    checksum::{Summer, table_len},
    copy::copy_and_sum,
};
use ziggurat_engine::{port::ReadSums, shelf::holdings::Held};
use ziggurat_io::{Buffer, Pool};

/// Which bytes of which version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The version.
    pub ticket: Ticket,
    /// Bytes of the whole payload, as the asker knows them.
    pub object_len: u64,
    /// First byte, a multiple of [`CHUNK`].
    pub offset: u64,
    /// Number of bytes; a multiple of [`CHUNK`] unless the range ends with the object.
    pub len: u64,
}

impl Wanted {
    /// All of it.
    #[must_use]
    pub fn whole(ticket: Ticket, len: u64) -> Self {
        Self {
            ticket,
            object_len: len,
            offset: 0,
            len,
        }
    }

    fn is_whole(&self) -> bool {
        self.len == self.object_len
    }

    fn check(&self, held: &Held) -> Result<()> {
        if held.len != self.object_len {
            return Err(Error::new(
                Code::InvalidReplica,
                format!(
                    "the version has {} bytes, not {}",
                    held.len, self.object_len
                ),
            ));
        }
        let end = self
            .offset
            .checked_add(self.len)
            .filter(|end| *end <= held.len);
        let whole = |at: u64| at.is_multiple_of(CHUNK as u64) || at == held.len;
        if self.offset.is_multiple_of(CHUNK as u64) && end.is_some_and(whole) {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidRead,
            format!(
                "{} bytes at {} are not whole chunks of an object of {} bytes",
                self.len, self.offset, held.len
            ),
        ))
    }
}

/// Bytes that were proved.
#[derive(Debug)]
pub struct Found {
    buffer: Option<Buffer>,
    skip: usize,
    len: usize,
    /// What they sum to.
    pub sums: ReadSums,
}

impl Found {
    /// The range.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.skip..self.skip + self.len],
            None => &[],
        }
    }
}

/// A version that is held, and the open file that it lies in: the file stays readable as long as this lives.
struct Pinned {
    held: Held,
    file: Arc<LogFile>,
    /// The header without its chunk table, for comparison.
    record: Option<Record>,
}

/// Whether something has to be decompressed.
fn is_packed(wanted: &Wanted, pinned: &Pinned) -> bool {
    wanted.len > 0 && codec_of(&pinned.held) != Codec::Plain
}

/// What of a compressed payload is to be read.
struct Reading {
    index: Index,
    chunks: Range<usize>,
    /// Their bodies, in the file.
    bytes: Range<u64>,
    /// The blocks around them.
    blocks: Range<u64>,
    /// Bytes that are read at once, whole blocks.
    window: usize,
}

impl SsdTier {
    /// Reads a range into a buffer of the pool and proves it. The chunk table comes along when the range is not the whole
    /// object.
    ///
    /// # Errors
    /// `ReplicaIsGone` when the version is not held or its bytes are not what they were: it is dropped then. `InvalidRead`
    /// for a range that is not whole chunks.
    pub async fn read(&self, wanted: &Wanted) -> Result<Found> {
        let _reading = self.readers.enter();
        let pinned = self.pin(wanted)?;
        let result = self.read_pinned(wanted, &pinned).await;
        let found = self.settle(wanted.ticket, result).await?;
        self.count_read(wanted);
        Ok(found)
    }

    fn count_read(&self, wanted: &Wanted) {
        let mut state = self.lock();
        state.holdings.touch(wanted.ticket);
        state.stats.reads += 1;
        state.stats.read_bytes += wanted.len;
    }

    /// As [`SsdTier::read`], into memory of the caller's, in one copy.
    ///
    /// # Errors
    /// As [`SsdTier::read`]; the memory has any content then.
    pub async fn read_into(&self, wanted: &Wanted, into: &mut [u8]) -> Result<ReadSums> {
        let _reading = self.readers.enter();
        let sums = self.read_for_copy(wanted, into).await?;
        self.count_read(wanted);
        Ok(sums)
    }

    /// Completes when no reader is being served: for reads that others come before.
    pub async fn unread(&self) {
        self.readers.none().await;
    }

    /// As [`SsdTier::read_into`], and counts as no use and as no reader.
    ///
    /// # Errors
    /// As [`SsdTier::read`]; the memory has any content then.
    pub async fn read_for_copy(&self, wanted: &Wanted, into: &mut [u8]) -> Result<ReadSums> {
        if into.len() as u64 != wanted.len {
            return Err(Error::new(
                Code::BufferOverflow,
                format!("{} bytes of memory for {} bytes", into.len(), wanted.len),
            ));
        }
        let pinned = self.pin(wanted)?;
        let result = self.read_pinned_into(wanted, &pinned, into).await;
        self.settle(wanted.ticket, result).await
    }

    fn pin(&self, wanted: &Wanted) -> Result<Pinned> {
        let state = self.lock();
        let held = state.holdings.find(wanted.ticket);
        let file = held.and_then(|held| state.files.get(&held.spot.file));
        let (Some(held), Some(file)) = (held, file) else {
            return Err(Error::new(
                Code::ReplicaIsGone,
                "the version is not on this SSD any more",
            ));
        };
        wanted.check(&held)?;
        let file = Arc::clone(file);
        let record = (!wanted.is_whole())
            .then(|| state.holdings.names(wanted.ticket))
            .flatten()
            .map(|names| record_of(&held, &names));
        Ok(Pinned { held, file, record })
    }

    /// Counts what was read; drops what cannot be read or proved.
    async fn settle<T>(&self, ticket: Ticket, result: Result<T>) -> Result<T> {
        let Err(error) = result else {
            return result;
        };
        // No buffer and no time are troubles of the reader, not of the record.
        let rotten = matches!(
            error.code(),
            Code::ChecksumMismatch | Code::FileReadFail | Code::FileNotFound
        );
        if !rotten {
            return Err(error);
        }
        if error.code() == Code::ChecksumMismatch {
            self.lock().stats.mismatched += 1;
        }
        self.give_up_rotten(ticket).await;
        Err(Error::new(
            Code::ReplicaIsGone,
            format!("the record on SSD is damaged and was dropped: {error}"),
        ))
    }

    async fn read_pinned(&self, wanted: &Wanted, pinned: &Pinned) -> Result<Found> {
        if is_packed(wanted, pinned) {
            return self.read_packed(wanted, pinned).await;
        }
        let len = wanted.len as usize;
        let table = self.table(wanted, pinned).await?;
        let (buffer, skip) = match len {
            0 => (None, 0),
            _ => {
                let (buffer, skip) = self.blocks(pinned, wanted.offset, wanted.len).await?;
                (Some(buffer), skip)
            }
        };
        let mut found = Found {
            buffer,
            skip,
            len,
            sums: ReadSums::default(),
        };
        let (crc, chunks) = sums_of(found.bytes());
        prove(wanted, pinned, crc, &chunks, table.as_ref())?;
        found.sums = sums(crc, chunks, table);
        Ok(found)
    }

    async fn read_pinned_into(
        &self,
        wanted: &Wanted,
        pinned: &Pinned,
        into: &mut [u8],
    ) -> Result<ReadSums> {
        /// Bytes that are read at once on their way into the caller's memory: a multiple of [`CHUNK`].
        const PIECE: usize = 4 << 20;
        if is_packed(wanted, pinned) {
            return self.read_packed_into(wanted, pinned, into).await;
        }
        let table = self.table(wanted, pinned).await?;
        let mut summer = Summer::default();
        for (number, piece) in into.chunks_mut(PIECE).enumerate() {
            let offset = wanted.offset + (number * PIECE) as u64;
            let (buffer, skip) = self.blocks(pinned, offset, piece.len() as u64).await?;
            let bytes = &buffer[skip..skip + piece.len()];
            for (to, from) in piece.chunks_mut(CHUNK).zip(bytes.chunks(CHUNK)) {
                summer.push(copy_and_sum(to, from), from.len());
            }
        }
        let crc = summer.crc();
        let chunks = summer.finish().sums().to_vec();
        prove(wanted, pinned, crc, &chunks, table.as_ref())?;
        Ok(sums(crc, chunks, table))
    }

    /// As [`SsdTier::read_pinned`], of a payload that is compressed. What is read and what it becomes are one buffer until both are
    /// there, for who holds one must not wait for another.
    async fn read_packed(&self, wanted: &Wanted, pinned: &Pinned) -> Result<Found> {
        let table = self.table(wanted, pinned).await?;
        let mut reading = self.begin_packed(wanted, pinned).await?;
        let len = wanted.len as usize;
        let room = len.next_multiple_of(Pool::GRAIN);
        // What a plain read could have, this one can.
        let pool = self.disk.pool();
        let left = pool.bytes().saturating_sub(room as u64) as usize;
        let most = (left / Pool::GRAIN * Pool::GRAIN).max(Pool::GRAIN);
        reading.window = reading.window.min(most);
        let mut buffer = pool.take(room + reading.window).await?;
        let window = buffer.split_off(room);
        let out = &mut buffer[..len];
        let (crc, chunks) = self.unpack(reading, pinned, window, out).await?;
        prove(wanted, pinned, crc, &chunks, table.as_ref())?;
        Ok(Found {
            buffer: Some(buffer),
            skip: 0,
            len,
            sums: sums(crc, chunks, table),
        })
    }

    async fn read_packed_into(
        &self,
        wanted: &Wanted,
        pinned: &Pinned,
        into: &mut [u8],
    ) -> Result<ReadSums> {
        let table = self.table(wanted, pinned).await?;
        let reading = self.begin_packed(wanted, pinned).await?;
        let window = self.disk.pool().take(reading.window).await?;
        let (crc, chunks) = self.unpack(reading, pinned, window, into).await?;
        prove(wanted, pinned, crc, &chunks, table.as_ref())?;
        Ok(sums(crc, chunks, table))
    }

    /// Finds where a range of a compressed payload lies.
    async fn begin_packed(&self, wanted: &Wanted, pinned: &Pinned) -> Result<Reading> {
        /// Bytes that are read at once.
        const WINDOW: u64 = 1 << 20;
        let Held {
            len,
            stored_len,
            spot,
            ..
        } = pinned.held;
        let index_len = index_len(len);
        if index_len > stored_len {
            return Err(damaged(
                "a compressed payload that is shorter than its index",
            ));
        }
        let block = u64::from(self.disk.geometry().block);
        let file = &*pinned.file.file;
        let index = match index_len {
            0 => Vec::new(),
            _ => {
                let to = (spot.at + index_len).next_multiple_of(block);
                let from = spot.at / block * block;
                let bytes = logfile::read_long(file, self.disk.pool(), from, to - from).await?;
                let skip = (spot.at - from) as usize;
                bytes[skip..skip + index_len as usize].to_vec()
            }
        };
        let index = Index::decode(&index, len, stored_len)?;
        let first = (wanted.offset / CHUNK as u64) as usize;
        let last = (wanted.offset + wanted.len).div_ceil(CHUNK as u64) as usize;
        let span = index.span(first..last);
        let (from, to) = (spot.at + span.start, spot.at + span.end);
        let blocks = from / block * block..to.next_multiple_of(block);
        Ok(Reading {
            index,
            chunks: first..last,
            window: (blocks.end - blocks.start).min(WINDOW) as usize,
            bytes: from..to,
            blocks,
        })
    }

    /// Reads and decompresses, through a window on the disk.
    async fn unpack(
        &self,
        reading: Reading,
        pinned: &Pinned,
        mut window: Buffer,
        out: &mut [u8],
    ) -> Result<(Crc32, Vec<Crc32>)> {
        let Reading {
            index,
            chunks,
            bytes,
            blocks,
            ..
        } = reading;
        let mut unpacker = Unpacker::new(codec_of(&pinned.held), index, chunks, out);
        let mut at = blocks.start;
        while at < blocks.end {
            let here = (blocks.end - at).min(window.len() as u64);
            if here < window.len() as u64 {
                window.shorten(here as usize);
            }
            window = logfile::read_in(&*pinned.file.file, at, window).await?;
            let from = bytes.start.max(at) - at;
            let to = bytes.end.min(at + here) - at;
            unpacker.push(&window[from as usize..to as usize]).await?;
            at += here;
        }
        unpacker.finish()
    }

    /// The blocks around a range of the payload, and where the range begins in them.
    async fn blocks(&self, pinned: &Pinned, offset: u64, len: u64) -> Result<(Buffer, usize)> {
        let block = u64::from(self.disk.geometry().block);
        let at = pinned.held.spot.at + offset;
        let from = at / block * block;
        let to = (at + len).next_multiple_of(block);
        let file = &*pinned.file.file;
        let buffer = logfile::read(file, self.disk.pool(), from, (to - from) as usize).await?;
        Ok((buffer, (at - from) as usize))
    }

    /// The chunk table out of the record's header, for a range that is not the whole object.
    async fn table(&self, wanted: &Wanted, pinned: &Pinned) -> Result<Option<ChunkTable>> {
        let Some(expected) = &pinned.record else {
            return Ok(None);
        };
        if table_len(wanted.object_len) == 0 {
            return Err(damaged("a range of an object that has no chunks"));
        }
        let header_at = pinned.held.spot.header_at;
        let len = expected.encoded_len(Form::Full) as u64;
        let from = header_at / PAGE * PAGE;
        let to = (header_at + len).next_multiple_of(PAGE);
        let bytes =
            logfile::read_long(&*pinned.file.file, self.disk.pool(), from, to - from).await?;
        let (record, form, _) = Record::decode(&bytes[(header_at - from) as usize..])?;
        let same = form == Form::Full
            && Record {
                table: Vec::new(),
                ..record.clone()
            } == *expected;
        if !same {
            return Err(damaged("another record lies where this one was"));
        }
        let table = ChunkTable::from_sums(record.len, record.table)?;
        if table.object_crc() != pinned.held.crc {
            return Err(damaged("the chunk table does not belong to this object"));
        }
        Ok(Some(table))
    }
}

fn sums(crc: Crc32, chunks: Vec<Crc32>, table: Option<ChunkTable>) -> ReadSums {
    match table {
        Some(table) => ReadSums {
            crc,
            chunks,
            table: table.encode(),
        },
        None => ReadSums {
            crc,
            chunks: Vec::new(),
            table: Vec::new(),
        },
    }
}

/// Whether the bytes are the ones that were written.
fn prove(
    wanted: &Wanted,
    pinned: &Pinned,
    crc: Crc32,
    chunks: &[Crc32],
    table: Option<&ChunkTable>,
) -> Result<()> {
    let right = match table {
        None => crc == pinned.held.crc,
        Some(table) => {
            let first = (wanted.offset / CHUNK as u64) as usize;
            table.sums().get(first..first + chunks.len()) == Some(chunks)
        }
    };
    if right {
        Ok(())
    } else {
        Err(damaged("the payload does not have its sum"))
    }
}
