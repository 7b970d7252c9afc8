//! The frame: how requests and answers look on every connection of our own, data and control alike.
//!
//! ```text
//!  0       4      5      6       8           16       24        32        36        40         48      52      56     60    64
//!  | magic | ver. | kind | flags | request id | ticket | member  | segment | status  | body len | meta  | table | zero | crc |
//!  |  u32  |  u8  |  u8  |  u16  |    u64     |  u64   |  u64    |   u32   |   i32   |   u64    |  u32  |  u32  | u32  | u32 |
//! ```
//!
//! All numbers are little-endian. Behind the header come `meta len` bytes (a [`Span`], or a message), `body len` bytes
//! of payload, and `table len` bytes of chunk sums. `crc` is the CRC-32 of the 60 bytes before it. Everything that comes
//! from outside is bounded before it is believed; see docs/formats/frame.md.

mod token;

pub use token::{TOKEN_SPAN_LEN, TokenSpan};

use crate::{
    CHUNK, Code, Error, Extent, Extents, MemberId, Placement, SegmentId, Ticket,
    checksum::{chunk_count, table_len},
    extent::EXTENTS_MAX,
};

/// First four bytes of every frame, `ZGT1` on the wire.
pub const MAGIC: u32 = u32::from_le_bytes(*b"ZGT1");

/// The layout that this module writes and reads.
pub const VERSION: u8 = 1;

/// Size of a header in bytes.
pub const HEADER_LEN: usize = 64;

/// The most bytes of meta that a frame may have.
pub const META_LEN_MAX: u32 = 8 << 20;

/// The most payload bytes in one frame: one stripe of a large object. A multiple of [`CHUNK`].
pub const BODY_LEN_MAX: u64 = 64 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First frame of a connection, from the side that connected: meta is a message with the protocol versions.
    Hello = 1,
    /// Answer to `Hello`.
    Welcome = 2,
    /// Write a payload range: meta is a [`Span`] (or a [`TokenSpan`]), then body, then the sums of its chunks.
    Write = 3,
    /// Read a payload range: meta is a [`Span`] (or a [`TokenSpan`]).
    Read = 4,
    /// Answer to `Write` or `Read`: the body, then for a read the sums asked for.
    Done = 5,
    /// Ends the body of an answered `Read`: `status` says whether the range belonged to the ticket all the time.
    Sealed = 6,
    /// A control message or its answer: meta is the message.
    Control = 7,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Write,
            4 => Self::Read,
            5 => Self::Done,
            6 => Self::Sealed,
            7 => Self::Control,
            _ => return None,
        })
    }
}

/// Flag of a `Read`: send the whole chunk table before the body.
pub const WANT_TABLE: u16 = 1;

/// Flag of a `Write` or `Read` of a foreign client: the bytes are named by a token in place of ticket, member, segment and
/// extents. Meta is a [`TokenSpan`]; ticket, member and segment of the header are zero. A write may leave its sums out; its
/// chunks, and those of a read with [`WANT_TABLE`], count from the start of the range. See docs/seed-protocol.md.
pub const BY_TOKEN: u16 = 2;

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Options of the kind.
    pub flags: u16,
    /// Chosen by the asker, repeated in the answer.
    pub request: u64,
    /// Whose bytes: the version that is written or read.
    pub ticket: Ticket,
    /// For which incarnation of the node the request is meant; another one refuses it.
    pub member: MemberId,
    /// In which segment.
    pub segment: SegmentId,
    /// 0, or the number of a [`Code`].
    pub status: i32,
    /// Bytes of payload.
    pub body_len: u64,
    /// Bytes of meta.
    pub meta_len: u32,
    /// Bytes of chunk sums.
    pub table_len: u32,
}

impl Header {
    /// A header of `kind` with everything else zero.
    #[must_use]
    pub fn new(kind: Kind, request: u64) -> Self {
        Self {
            kind,
            flags: 0,
            request,
            ticket: Ticket::NONE,
            member: MemberId(0),
            segment: SegmentId(0),
            status: 0,
            body_len: 0,
            meta_len: 0,
            table_len: 0,
        }
    }

    /// The header as it goes over the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &[VERSION, self.kind as u8]);
        put(6, &self.flags.to_le_bytes());
        put(8, &self.request.to_le_bytes());
        put(16, &self.ticket.0.to_le_bytes());
        put(24, &self.member.0.to_le_bytes());
        put(32, &self.segment.0.to_le_bytes());
        put(36, &self.status.to_le_bytes());
        put(40, &self.body_len.to_le_bytes());
        put(48, &self.meta_len.to_le_bytes());
        put(52, &self.table_len.to_le_bytes());
        let crc = crc32fast::hash(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header and checks everything that does not need a context.
    ///
    /// # Errors
    /// [`Code::DeserializeFail`], or [`Code::InvalidVersion`] for a layout version that this build does not read.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, Error> {
        let wrong = |what: String| Err(Error::new(Code::DeserializeFail, what));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if u32_at(0) != MAGIC {
            return wrong(format!(
                "not a Ziggurat frame: it starts with {:#010x}",
                u32_at(0)
            ));
        }
        if bytes[4] != VERSION {
            let what = format!(
                "frame version {}, this build reads version {VERSION}",
                bytes[4]
            );
            return Err(Error::new(Code::InvalidVersion, what));
        }
        if u32_at(60) != crc32fast::hash(&bytes[..60]) {
            return wrong("the frame header is damaged: its checksum does not match".into());
        }
        let Some(kind) = Kind::from_byte(bytes[5]) else {
            return wrong(format!("frame kind {} does not exist", bytes[5]));
        };
        let header = Self {
            kind,
            flags: u16::from_le_bytes([bytes[6], bytes[7]]),
            request: u64_at(8),
            ticket: Ticket(u64_at(16)),
            member: MemberId(u64_at(24)),
            segment: SegmentId(u32_at(32)),
            status: u32_at(36).cast_signed(),
            body_len: u64_at(40),
            meta_len: u32_at(48),
            table_len: u32_at(52),
        };
        if header.meta_len > META_LEN_MAX || header.body_len > BODY_LEN_MAX || u32_at(56) != 0 {
            return wrong(format!(
                "frame with {} bytes of meta and {} of payload exceeds the limits",
                header.meta_len, header.body_len
            ));
        }
        if header.table_len > META_LEN_MAX {
            return wrong(format!(
                "frame with {} bytes of chunk sums exceeds the limit",
                header.table_len
            ));
        }
        Ok(header)
    }
}

/// A range of one object's payload and where it lies: meta of `Write` and `Read`.
///
/// ```text
/// offset u64 | len u64 | object len u64 | check offset u64 (all ones: none) | count u32 | zero u32 | count × { offset u64, len u64 }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// First payload byte of the range, a multiple of [`CHUNK`].
    pub offset: u64,
    /// Bytes in the range; a multiple of [`CHUNK`] unless it ends with the object.
    pub len: u64,
    /// Bytes of the whole payload.
    pub object_len: u64,
    /// Where the whole payload and its chunk table lie.
    pub placement: Placement,
}

const NO_CHECK: u64 = u64::MAX;
const SPAN_FIXED: usize = 40;

impl Span {
    /// The whole payload.
    #[must_use]
    pub fn whole(object_len: u64, placement: Placement) -> Self {
        Self {
            offset: 0,
            len: object_len,
            object_len,
            placement,
        }
    }

    /// Chunks in the range.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        chunk_count(self.len)
    }

    /// Appends the encoding.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let extents = self.placement.extents.as_slice();
        let check = self.placement.check.map_or(NO_CHECK, |e| e.offset);
        for word in [
            self.offset,
            self.len,
            self.object_len,
            check,
            extents.len() as u64,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for extent in extents {
            out.extend_from_slice(&extent.offset.to_le_bytes());
            out.extend_from_slice(&extent.len.to_le_bytes());
        }
    }

    /// Reads a span and checks that it is consistent in itself; the segment's size is for its owner to check.
    ///
    /// # Errors
    /// [`Code::DeserializeFail`] for a wrong length, [`Code::InvalidParams`] for numbers that contradict each other.
    pub fn decode(bytes: &[u8], segment: SegmentId) -> Result<Self, Error> {
        let short = || Error::new(Code::DeserializeFail, "a span is cut short or too long");
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || bytes.len() < SPAN_FIXED {
            return Err(short());
        }
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let count = word(4);
        if count > EXTENTS_MAX as u64 || bytes.len() as u64 != SPAN_FIXED as u64 + 16 * count {
            return Err(short());
        }
        let list: Vec<_> = words[5..]
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[offset, len]| Extent::new(u64::from_le_bytes(*offset), u64::from_le_bytes(*len)))
            .collect();
        let object_len = word(2);
        let check = (word(3) != NO_CHECK).then(|| Extent::new(word(3), table_len(object_len)));
        let span = Self {
            offset: word(0),
            len: word(1),
            object_len,
            placement: Placement {
                segment,
                extents: Extents::checked(&list)?,
                check,
            },
        };
        span.check()?;
        Ok(span)
    }

    /// Checks that it is consistent in itself.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] naming the numbers that contradict each other.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::new(Code::InvalidParams, what));
        let chunk = CHUNK as u64;
        let Some(end) = self
            .offset
            .checked_add(self.len)
            .filter(|end| *end <= self.object_len)
        else {
            return wrong(format!(
                "{} bytes at {} lie outside an object of {} bytes",
                self.len, self.offset, self.object_len
            ));
        };
        if !self.offset.is_multiple_of(chunk)
            || !(end.is_multiple_of(chunk) || end == self.object_len)
        {
            return wrong(format!(
                "a range of a transfer starts and ends on multiples of {chunk}"
            ));
        }
        if self.placement.extents.len().0 != self.object_len {
            return wrong(format!(
                "extents of {} bytes for an object of {}",
                self.placement.extents.len().0,
                self.object_len
            ));
        }
        let tabled = table_len(self.object_len) > 0;
        let ends = self
            .placement
            .check
            .is_none_or(|e| e.offset.checked_add(e.len).is_some());
        if (!tabled && self.placement.check.is_some()) || !ends {
            return wrong("a payload of one chunk has no chunk table beside it".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{HEADER_LEN, Header, Kind, Span};
    use crate::{CHUNK, Extent, Extents, MemberId, Placement, SegmentId, Ticket};
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            flags: 1,
            ticket: Ticket(0x0102_0304_0506_0708),
            member: MemberId(9),
            segment: SegmentId(3),
            status: -704,
            body_len: 65_536,
            meta_len: 56,
            table_len: 4,
            ..Header::new(Kind::Write, 77)
        }
    }

    #[test]
    fn header_layout_is_the_documented_one() {
        let golden = "5a475431010301004d000000000000000807060504030201090000000000000003000000\
                      40fdffff0000010000000000380000000400000000000000";
        let hex: String = header().encode()[..60]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(hex, golden);
        assert_eq!(Header::decode(&header().encode()).unwrap(), header());
    }

    #[test]
    fn any_damaged_header_is_refused() {
        let good = header().encode();
        for bit in 0..HEADER_LEN * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
    }

    fn span(len: u64) -> Span {
        let chunk = CHUNK as u64;
        let list = if len > 2 * chunk {
            vec![
                Extent::new(0, 2 * chunk),
                Extent::new(9 * chunk, len - 2 * chunk),
            ]
        } else {
            vec![Extent::new(128, len)]
        };
        let check = (len > chunk).then(|| Extent::new(4096, 4 * len.div_ceil(chunk)));
        let extents = Extents::checked(&list).unwrap();
        Span::whole(
            len,
            Placement {
                segment: SegmentId(3),
                extents,
                check,
            },
        )
    }

    #[test]
    fn spans_round_trip() {
        for len in [0, 1, 65_536, 65_537, 200_000] {
            let mut bytes = Vec::new();
            span(len).encode_into(&mut bytes);
            assert_eq!(Span::decode(&bytes, SegmentId(3)).unwrap(), span(len));
            assert!(Span::decode(&bytes[..bytes.len() - 1], SegmentId(3)).is_err());
        }
    }

    proptest! {
        #[test]
        fn decoders_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), words in prop::collection::vec(0..9_u64, 5..12)) {
            let _ = Span::decode(&bytes, SegmentId(0));
            let raw: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            if let Ok(span) = Span::decode(&raw, SegmentId(0)) {
                let mut again = Vec::new();
                span.encode_into(&mut again);
                prop_assert_eq!(Span::decode(&again, SegmentId(0)).unwrap(), span);
            }
            if let Some(head) = bytes.first_chunk::<HEADER_LEN>() {
                let _ = Header::decode(head);
            }
        }
    }
}
