//! Payloads on their way through a codec: on to the disk, and back.
//!
//! The work is done where the tier copies, by whoever polls it; after each chunk, a millisecond at most at low levels, others get
//! their turn. An object that fits into a batch is compressed once, into memory of its own. A larger one is compressed twice, once to
//! learn how long it becomes and once as it is written, so that no more of it is in memory than a few pieces.
//!
//! It is stored plain when that is not more than an eighth longer, in blocks of the device; of a large object the first MiB decides
//! whether the rest is tried.

use super::{
    SsdTier,
    append::{Item, Source, join},
    format::codec::{Codec, Index, chunk_len, decode_chunk, encode_chunk, index_len},
};
use std::{future::poll_fn, ops::Range, task::Poll};
use ziggurat_base::{
    CHUNK, Code, Crc32, Error, Result,
    checksum::{Summer, chunk_count},
};

/// How payloads are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The codec that is tried.
    pub codec: Codec,
    /// How hard Zstandard tries, 1 to 19.
    pub level: u8,
}

impl Default for Packing {
    fn default() -> Self {
        Self {
            codec: Codec::Plain,
            level: 1,
        }
    }
}

/// After so many chunks an object that has not become shorter is not tried any further.
const TRIED_CHUNKS: u64 = 16;

/// What became of a payload that pays to be compressed.
pub(super) struct Packed {
    pub(super) codec: Codec,
    pub(super) stored_len: u64,
    /// Sums of the chunks of the payload.
    pub(super) sums: Vec<Crc32>,
    pub(super) bytes: Bytes,
}

/// The bytes that are stored.
pub(super) enum Bytes {
    /// All of them.
    Here(Vec<u8>),
    /// They are made again when they are written: the lengths of the bodies.
    Again(Vec<u32>),
}

/// Lets others have their turn.
pub(super) async fn breathe() {
    let mut is_over = false;
    poll_fn(|context| {
        if is_over {
            return Poll::Ready(());
        }
        is_over = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether a payload of `len` bytes is stored compressed when that takes `stored_len`: it saves an eighth, in whole blocks.
#[must_use]
pub fn pays(stored_len: u64, len: u64, block: u64) -> bool {
    let blocks = |bytes: u64| bytes.div_ceil(block);
    blocks(stored_len).saturating_mul(8) <= blocks(len).saturating_mul(7)
}

impl SsdTier {
    /// Compresses the payload of an object; `None` when it is to be stored plain. That includes an object whose payload is not there or
    /// not the announced one: who stores it plain finds that out.
    pub(super) async fn pack(&self, item: &mut Item<'_>, codec: Codec) -> Option<Packed> {
        let level = self.options.packing.level;
        let block = u64::from(self.disk.geometry().block);
        // No chunk becomes shorter than a block or so.
        if codec == Codec::Plain || item.len <= block {
            return None;
        }
        let keep = item.len <= self.options.batch_bytes.0;
        let mut packer = Packer::new(&mut *item.source, item.len, Packing { codec, level });
        let mut bodies = Vec::new();
        while packer.next < packer.count {
            let start = bodies.len();
            packer.step(&mut bodies).ok()?;
            if !keep {
                bodies.truncate(start);
            }
            if packer.next == TRIED_CHUNKS {
                let tried = packer.next * CHUNK as u64;
                if !pays(packer.stored_len(), tried, block) {
                    return None;
                }
            }
            breathe().await;
        }
        let stored_len = packer.stored_len();
        let whole = join(Crc32::default(), &packer.sums, item.len) == item.crc;
        if !whole || !pays(stored_len, item.len, block) {
            return None;
        }
        let Packer { lens, sums, .. } = packer;
        let bytes = if keep {
            let mut stored = Index::encode(&lens);
            stored.append(&mut bodies);
            Bytes::Here(stored)
        } else {
            Bytes::Again(lens)
        };
        Some(Packed {
            codec,
            stored_len,
            sums,
            bytes,
        })
    }
}

/// Takes a payload chunk by chunk and gives the bodies.
pub(super) struct Packer<'a> {
    source: &'a mut dyn Source,
    len: u64,
    packing: Packing,
    chunk: Vec<u8>,
    /// The next chunk.
    next: u64,
    count: u64,
    lens: Vec<u32>,
    sums: Vec<Crc32>,
}

impl<'a> Packer<'a> {
    fn new(source: &'a mut dyn Source, len: u64, packing: Packing) -> Self {
        Self {
            source,
            len,
            packing,
            chunk: vec![0; chunk_len(len, 0)],
            next: 0,
            count: chunk_count(len),
            lens: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Appends the next body.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let chunk = &mut self.chunk[..chunk_len(self.len, self.next)];
        let sums = self.source.fill(self.next * CHUNK as u64, chunk)?;
        let start = out.len();
        encode_chunk(self.packing.codec, self.packing.level, chunk, out)?;
        self.lens.push((out.len() - start) as u32);
        self.sums.extend(sums);
        self.next += 1;
        Ok(())
    }

    /// Bytes on disk of the chunks so far, the whole index included.
    fn stored_len(&self) -> u64 {
        let bodies: u64 = self.lens.iter().map(|len| u64::from(*len)).sum();
        index_len(self.len) + bodies
    }
}

/// The bytes of a large object in the order in which they are stored.
pub(super) enum Stream<'a> {
    /// As they come, with the sums of their chunks.
    Plain {
        source: &'a mut dyn Source,
        sums: Vec<Crc32>,
    },
    /// Through a codec.
    Packed {
        packer: Packer<'a>,
        /// What a first pass has found.
        lens: Vec<u32>,
        /// Stored bytes that were made and not taken.
        ready: Vec<u8>,
    },
}

impl<'a> Stream<'a> {
    pub(super) fn plain(source: &'a mut dyn Source) -> Self {
        Self::Plain {
            source,
            sums: Vec::new(),
        }
    }

    pub(super) fn packed(
        source: &'a mut dyn Source,
        len: u64,
        packing: Packing,
        lens: Vec<u32>,
    ) -> Self {
        Self::Packed {
            packer: Packer::new(source, len, packing),
            ready: Index::encode(&lens),
            lens,
        }
    }

    /// Fills `into` with the stored bytes from `at` on: those behind what was filled before.
    pub(super) async fn fill(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        match self {
            Self::Plain { source, sums } => sums.extend(source.fill(at, into)?),
            Self::Packed {
                packer,
                lens,
                ready,
            } => {
                while ready.len() < into.len() && packer.next < packer.count {
                    let number = packer.next as usize;
                    packer.step(ready)?;
                    if packer.lens.get(number) != lens.get(number) {
                        return Err(changed());
                    }
                    breathe().await;
                }
                if ready.len() < into.len() {
                    return Err(changed());
                }
                into.copy_from_slice(&ready[..into.len()]);
                ready.drain(..into.len());
            }
        }
        Ok(())
    }

    /// The sums of the chunks of the payload, when all of it is filled.
    pub(super) fn finish(self) -> Vec<Crc32> {
        match self {
            Self::Plain { sums, .. } => sums,
            Self::Packed { packer, .. } => packer.sums,
        }
    }
}

fn changed() -> Error {
    Error::new(
        Code::ChecksumMismatch,
        "the payload changed while it was compressed",
    )
}

/// Stored bytes on their way back: they come in pieces of any length, and fill memory chunk by chunk.
pub(super) struct Unpacker<'a> {
    codec: Codec,
    index: Index,
    /// Chunks that are still to come.
    chunks: Range<usize>,
    /// The start of a body whose end has not come.
    begun: Vec<u8>,
    out: &'a mut [u8],
    filled: usize,
    summer: Summer,
}

impl<'a> Unpacker<'a> {
    /// For these chunks of a payload, which fill `out`.
    pub(super) fn new(codec: Codec, index: Index, chunks: Range<usize>, out: &'a mut [u8]) -> Self {
        Self {
            codec,
            index,
            chunks,
            begun: Vec::new(),
            out,
            filled: 0,
            summer: Summer::default(),
        }
    }

    /// Takes the next stored bytes.
    pub(super) async fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some(number) = self.chunks.clone().next() {
            let span = self.index.span(number..number + 1);
            let missing = (span.end - span.start) as usize - self.begun.len();
            let Some((now, later)) = bytes.split_at_checked(missing) else {
                self.begun.extend_from_slice(bytes);
                return Ok(());
            };
            let rest = &mut self.out[self.filled..];
            let len = rest.len().min(CHUNK);
            let chunk = &mut rest[..len];
            if self.begun.is_empty() {
                decode_chunk(self.codec, now, chunk)?;
            } else {
                self.begun.extend_from_slice(now);
                decode_chunk(self.codec, &self.begun, chunk)?;
                self.begun.clear();
            }
            self.summer.update(chunk);
            self.filled += len;
            self.chunks.start += 1;
            bytes = later;
            breathe().await;
        }
        Ok(())
    }

    /// The sum of all of it and of each chunk.
    ///
    /// # Errors
    /// `ChecksumMismatch` when something is missing.
    pub(super) fn finish(self) -> Result<(Crc32, Vec<Crc32>)> {
        if !self.chunks.is_empty() || self.filled != self.out.len() {
            return Err(super::format::damaged(
                "a compressed payload that ends too early",
            ));
        }
        let crc = self.summer.crc();
        Ok((crc, self.summer.finish().sums().to_vec()))
    }
}
