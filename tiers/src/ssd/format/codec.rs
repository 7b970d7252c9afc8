//! How a payload is stored that is not stored as it came: chunk by chunk, so that a range is read without the rest.
//!
//! ```text
//! index: bytes of each chunk's body, u32 each; none for a payload of one chunk
//! body of chunk 0 │ body of chunk 1 │ …
//! ```
//!
//! A body that is as long as its chunk is the chunk itself; every other one is shorter. What is decoded here comes from a
//! disk: it is bounded by what the record says, and proved by its sums afterwards.

use super::damaged;
use std::{cell::RefCell, fmt, ops::Range, str::FromStr};
use ziggurat_base::{CHUNK, Code, Error, Result, checksum::chunk_count};
use zstd_safe::{CCtx, DCtx};

/// How a payload is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Codec {
    /// As it came.
    #[default]
    Plain = 0,
    /// Each chunk a frame of Zstandard.
    Zstd = 1,
    /// Of each chunk first the even bytes, then the odd ones: for numbers of two bytes, whose exponents compress and whose
    /// mantissas do not. The body is the length of what the even bytes became (u32), that, and what the odd bytes became;
    /// each is a frame of Zstandard, or as it came where it is as long.
    Planes = 2,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Zstd, Self::Planes];

    /// The name used in configuration and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "none",
            Self::Zstd => "zstd",
            Self::Planes => "bf16-planes+zstd",
        }
    }

    /// The codec with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| *codec as u8 == number)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(
                Code::InvalidParams,
                format!("{text:?} is not a codec: use one of {names}"),
            )
        })
    }
}

/// The hardest that Zstandard may try.
pub const LEVEL_MAX: u8 = 19;

/// Bytes in front of the planes of a chunk.
const PLANES_HEAD: usize = 4;

thread_local! {
    /// What compressing and decompressing need beside input and output: some hundred KiB, once for each thread.
    static WORK: RefCell<Work> = RefCell::new(Work::default());
}

#[derive(Default)]
struct Work {
    compress: Option<CCtx<'static>>,
    decompress: Option<DCtx<'static>>,
    plane: Vec<u8>,
}

fn no_memory() -> Error {
    Error::new(
        Code::NoAvailableHandle,
        "there is no memory for compression: give the process more",
    )
}

/// Bytes of chunk `number` of a payload.
#[must_use]
pub fn chunk_len(len: u64, number: u64) -> usize {
    len.saturating_sub(number.saturating_mul(CHUNK as u64))
        .min(CHUNK as u64) as usize
}

/// Appends the body of a chunk.
///
/// # Errors
/// `NoAvailableHandle` without memory to work in.
pub fn encode_chunk(codec: Codec, level: u8, chunk: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    WORK.with_borrow_mut(|work| {
        match codec {
            Codec::Plain => out.extend_from_slice(chunk),
            Codec::Zstd => work.pack(level, chunk, out)?,
            Codec::Planes => {
                out.extend_from_slice(&[0; PLANES_HEAD]);
                for parity in 0..2 {
                    let mut plane = std::mem::take(&mut work.plane);
                    plane.clear();
                    plane.extend(chunk.iter().skip(parity).step_by(2));
                    let packed = work.pack(level, &plane, out);
                    work.plane = plane;
                    packed?;
                    if parity == 0 {
                        let len = (out.len() - start - PLANES_HEAD) as u32;
                        out[start..start + PLANES_HEAD].copy_from_slice(&len.to_le_bytes());
                    }
                }
            }
        }
        if out.len() - start >= chunk.len() {
            out.truncate(start);
            out.extend_from_slice(chunk);
        }
        Ok(())
    })
}

impl Work {
    /// Appends a frame, or the bytes themselves where a frame would not be shorter.
    fn pack(&mut self, level: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if self.compress.is_none() {
            self.compress = CCtx::try_create();
        }
        let context = self.compress.as_mut().ok_or_else(no_memory)?;
        let start = out.len();
        out.resize(start + bytes.len().saturating_sub(1), 0);
        match context.compress(&mut out[start..], bytes, i32::from(level)) {
            Ok(len) if len > 0 => out.truncate(start + len),
            // It does not fit into less.
            _ => {
                out.truncate(start);
                out.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Fills `out` from a frame, or from the bytes themselves where there are as many.
    fn unpack(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        if bytes.len() == out.len() {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        if bytes.len() > out.len() {
            return Err(damaged("a chunk that is longer compressed than it is"));
        }
        if self.decompress.is_none() {
            self.decompress = DCtx::try_create();
        }
        let context = self.decompress.as_mut().ok_or_else(no_memory)?;
        match context.decompress(out, bytes) {
            Ok(len) if len == out.len() => Ok(()),
            Ok(_) => Err(damaged("a chunk that is too short when decompressed")),
            Err(code) => Err(damaged(format!(
                "a chunk that cannot be decompressed: {}",
                zstd_safe::get_error_name(code)
            ))),
        }
    }
}

/// Fills `out`, which is as long as the chunk, from its body.
///
/// # Errors
/// `ChecksumMismatch` for a body that no encoder writes for a chunk of this length; `out` has any content then.
pub fn decode_chunk(codec: Codec, body: &[u8], out: &mut [u8]) -> Result<()> {
    if body.len() == out.len() {
        out.copy_from_slice(body);
        return Ok(());
    }
    WORK.with_borrow_mut(|work| match codec {
        Codec::Plain => Err(damaged("a plain chunk of another length")),
        Codec::Zstd => work.unpack(body, out),
        Codec::Planes => {
            let (head, rest) = body
                .split_first_chunk::<PLANES_HEAD>()
                .ok_or_else(|| damaged("a chunk without the length of its planes"))?;
            let even = u32::from_le_bytes(*head) as usize;
            let (even, odd) = rest
                .split_at_checked(even)
                .ok_or_else(|| damaged("a plane that is longer than its chunk"))?;
            let mut plane = std::mem::take(&mut work.plane);
            let mut fill = |parity: usize, bytes: &[u8]| {
                plane.clear();
                plane.resize((out.len() + 1 - parity) / 2, 0);
                work.unpack(bytes, &mut plane)?;
                let places = out.iter_mut().skip(parity).step_by(2);
                places.zip(&plane).for_each(|(to, from)| *to = *from);
                Ok(())
            };
            let filled = fill(0, even).and_then(|()| fill(1, odd));
            work.plane = plane;
            filled
        }
    })
}

/// Bytes of the index of a payload of `len` bytes.
#[must_use]
pub fn index_len(len: u64) -> u64 {
    match chunk_count(len) {
        0 | 1 => 0,
        count => count.saturating_mul(4),
    }
}

/// Where the bodies of a payload lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Where each ends, counted from the first byte of the payload on disk.
    ends: Vec<u64>,
    start: u64,
}

impl Index {
    /// Reads the index of a payload of `len` bytes that takes `stored_len` bytes on disk; of one chunk it is empty.
    ///
    /// # Errors
    /// `ChecksumMismatch` for one that no encoder writes.
    pub fn decode(bytes: &[u8], len: u64, stored_len: u64) -> Result<Self> {
        let wrong = || damaged("the index of a compressed payload contradicts its record");
        let start = index_len(len);
        if bytes.len() as u64 != start || start > stored_len || len == 0 {
            return Err(wrong());
        }
        let alone = [u32::try_from(stored_len - start).map_err(|_| wrong())?];
        let lens = bytes.as_chunks::<4>().0.iter();
        let lens = lens.map(|four| u32::from_le_bytes(*four));
        let lens: Vec<u32> = match start {
            0 => alone.into(),
            _ => lens.collect(),
        };
        let mut end = start;
        let mut ends = Vec::with_capacity(lens.len());
        for (number, body) in (0..).zip(lens) {
            if !(1..=chunk_len(len, number)).contains(&(body as usize)) {
                return Err(wrong());
            }
            end += u64::from(body);
            ends.push(end);
        }
        match end == stored_len {
            true => Ok(Self { ends, start }),
            false => Err(wrong()),
        }
    }

    /// Writes the index of bodies with these lengths.
    #[must_use]
    pub fn encode(lens: &[u32]) -> Vec<u8> {
        match lens {
            [] | [_] => Vec::new(),
            several => several.iter().flat_map(|len| len.to_le_bytes()).collect(),
        }
    }

    /// Where the bodies of some chunks lie, counted from the first byte of the payload on disk.
    ///
    /// # Panics
    /// For chunks that the payload does not have.
    #[must_use]
    pub fn span(&self, chunks: Range<usize>) -> Range<u64> {
        let end = |count: usize| match count {
            0 => self.start,
            _ => self.ends[count - 1],
        };
        end(chunks.start)..end(chunks.end)
    }

    /// Chunks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ends.len()
    }
}

/// Hands out a whole payload, chunk by chunk, from what is stored of it.
///
/// # Errors
/// `ChecksumMismatch` for bytes that no encoder writes for a payload of `len` bytes. What was handed out before is not
/// proved by anything.
pub fn decode(codec: Codec, len: u64, stored: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<()> {
    if codec == Codec::Plain {
        let right = stored.len() as u64 == len;
        right.then(|| sink(stored));
        return right
            .then_some(())
            .ok_or_else(|| damaged("a plain payload of another length"));
    }
    let index = stored.get(..usize::try_from(index_len(len)).unwrap_or(usize::MAX));
    let index = index.ok_or_else(|| damaged("a compressed payload without its index"))?;
    let index = Index::decode(index, len, stored.len() as u64)?;
    let mut chunk = vec![0; chunk_len(len, 0)];
    for number in 0..index.count() {
        let span = index.span(number..number + 1);
        let body = &stored[span.start as usize..span.end as usize];
        let out = &mut chunk[..chunk_len(len, number as u64)];
        decode_chunk(codec, body, out)?;
        sink(out);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
