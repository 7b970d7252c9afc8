//! The header of one record: which version of which key it is, where its payload lies, and what proves it.

use super::{Reader, VERSION, codec::Codec, damaged, newer};
use ziggurat_base::{
    Code, Crc32, Error, Key, ObjectKey, Result, Ticket,
    checksum::{chunk_count, table_len},
};
use ziggurat_engine::command::Hint;

const MAGIC: &[u8; 4] = b"ZREC";

/// Bytes of the fixed part.
pub const FIXED: usize = 80;

/// Bytes before the sum that the sum does not cover, and the sum itself.
const SUM_AT: usize = 8;

/// The longest tenant name, in bytes.
pub const TENANT_MAX: usize = 255;

/// In the footer: the chunk table is left out.
const FOOTER: u8 = 1;
/// Never evicted by the node.
const PINNED: u8 = 2;

/// Which part of a header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In front of a batch, with its chunk table.
    Full,
    /// In the footer of a sealed file, without.
    Footer,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the tenant: numbers of tenants differ from one life of the partition to the next.
    pub tenant: Box<str>,
    /// The key.
    pub key: ObjectKey,
    /// The version.
    pub ticket: Ticket,
    /// Bytes of the payload.
    pub len: u64,
    /// Bytes of it on disk.
    pub stored_len: u64,
    /// First byte of the payload in the file.
    pub at: u64,
    /// First byte of the full header in the file.
    pub header_at: u64,
    /// Sum of the payload.
    pub crc: Crc32,
    /// How it is stored.
    pub codec: Codec,
    /// Whether it is likely to be used again.
    pub hint: Hint,
    /// Whether the node may not evict it.
    pub pinned: bool,
    /// The object before it in a prompt.
    pub parent: Option<ObjectKey>,
    /// The group it belongs to.
    pub group: Option<ObjectKey>,
    /// Sums of its chunks; empty up to one chunk, and in a footer.
    pub table: Vec<Crc32>,
}

fn key_len(key: Option<&ObjectKey>) -> usize {
    key.map_or(0, |key| key.as_key().bytes().len())
}

impl Record {
    /// Bytes of the header in this form, a multiple of 8.
    #[must_use]
    pub fn encoded_len(&self, form: Form) -> usize {
        let names = self.tenant.len()
            + self.key.as_key().bytes().len()
            + key_len(self.parent.as_ref())
            + key_len(self.group.as_ref());
        let table = match form {
            Form::Full => table_len(self.len) as usize,
            Form::Footer => 0,
        };
        (FIXED + names.next_multiple_of(4) + table).next_multiple_of(8)
    }

    /// Appends the header.
    ///
    /// # Panics
    /// When the table of a full header is not that of a payload of this length, or the tenant's name is too long: the
    /// tier checks both when it takes an object on.
    pub fn encode_into(&self, form: Form, out: &mut Vec<u8>) {
        assert!(self.tenant.len() <= TENANT_MAX, "a checked tenant name");
        assert!(
            form == Form::Footer || self.table.len() as u64 == table_len(self.len) / 4,
            "a chunk table of another length"
        );
        let start = out.len();
        let whole = self.encoded_len(form);
        let flags =
            if form == Form::Footer { FOOTER } else { 0 } | if self.pinned { PINNED } else { 0 };
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&(whole as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[self.codec as u8, hint_number(self.hint) | flags << 4]);
        for number in [
            self.ticket.0,
            self.len,
            self.stored_len,
            self.at,
            self.header_at,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.crc.0.to_le_bytes());
        out.extend_from_slice(&(self.tenant.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.key.as_key().bytes().len() as u16).to_le_bytes());
        out.extend_from_slice(&(key_len(self.parent.as_ref()) as u16).to_le_bytes());
        out.extend_from_slice(&(key_len(self.group.as_ref()) as u16).to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        debug_assert_eq!(out.len() - start, FIXED);
        out.extend_from_slice(self.tenant.as_bytes());
        for key in [Some(&self.key), self.parent.as_ref(), self.group.as_ref()] {
            out.extend_from_slice(key.map_or(&[], |key| key.as_key().bytes()));
        }
        out.resize(start + (out.len() - start).next_multiple_of(4), 0);
        if form == Form::Full {
            for sum in &self.table {
                out.extend_from_slice(&sum.0.to_le_bytes());
            }
        }
        out.resize(start + whole, 0);
        super::seal(&mut out[start..], SUM_AT);
    }

    /// Reads the header at the start of `bytes`, and says how long it is.
    ///
    /// # Errors
    /// `ChecksumMismatch` for damage, `InvalidVersion` for a newer format.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Form, usize)> {
        let whole = proved_len(bytes)?;
        let mut read = Reader::new(&bytes[SUM_AT + 4..whole]);
        let version = read.u16()?;
        if version > VERSION {
            return Err(newer("a record", version));
        }
        let codec = read.u8()?;
        let codec = Codec::of(codec).ok_or_else(|| unknown_codec(codec))?;
        let flags = read.u8()?;
        let hint = hint_of(flags & 15)?;
        let (ticket, len, stored_len) = (read.u64()?, read.u64()?, read.u64()?);
        let (at, header_at) = (read.u64()?, read.u64()?);
        let crc = Crc32(read.u32()?);
        let lens = [read.u16()?, read.u16()?, read.u16()?, read.u16()?].map(usize::from);
        read.exactly(&[0; 12], "record header of this version")?;
        let tenant = text_of(read.bytes(lens[0])?)?;
        let key = ObjectKey::new(read.bytes(lens[1])?)?;
        let mut other = |len| {
            let bytes = read.bytes(len)?;
            let key = (len > 0).then(|| Key::new(bytes).map(Key::to_owned));
            key.transpose()
        };
        let (parent, group) = (other(lens[2])?, other(lens[3])?);
        let names: usize = lens.iter().sum();
        read.exactly(
            &[0; 3][..names.next_multiple_of(4) - names],
            "record header of this version",
        )?;
        let form = match flags >> 4 & FOOTER {
            0 => Form::Full,
            _ => Form::Footer,
        };
        let count = match form {
            Form::Full if table_len(len) > 0 => chunk_count(len),
            _ => 0,
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let sums = read.bytes(count.saturating_mul(4))?;
        let table = sums.as_chunks::<4>().0;
        let record = Self {
            tenant,
            key,
            ticket: Ticket(ticket),
            len,
            stored_len,
            at,
            header_at,
            crc,
            codec,
            hint,
            pinned: flags >> 4 & PINNED != 0,
            parent,
            group,
            table: table
                .iter()
                .map(|sum| Crc32(u32::from_le_bytes(*sum)))
                .collect(),
        };
        let is_filled = read.rest().iter().all(|byte| *byte == 0);
        let one_encoding = record.encoded_len(form) == whole
            && lens[0] <= TENANT_MAX
            && is_filled
            && flags >> 4 & !(FOOTER | PINNED) == 0;
        if !one_encoding || !is_stored_len(codec, stored_len, len) {
            return Err(damaged("a record header that contradicts itself"));
        }
        Ok((record, form, whole))
    }
}

fn is_stored_len(codec: Codec, stored_len: u64, len: u64) -> bool {
    match codec {
        Codec::Plain => stored_len == len,
        _ => (1..len).contains(&stored_len),
    }
}

fn unknown_codec(number: u8) -> Error {
    Error::new(
        Code::InvalidVersion,
        format!(
            "a record is stored with codec {number}, which this release does not know: use the release that wrote it"
        ),
    )
}

fn text_of(name: &[u8]) -> Result<Box<str>> {
    let text = std::str::from_utf8(name).map_err(|_| damaged("a tenant's name that is no text"))?;
    Ok(text.into())
}

fn hint_number(hint: Hint) -> u8 {
    match hint {
        Hint::None => 0,
        Hint::Cold => 1,
        Hint::Hot => 2,
    }
}

fn hint_of(number: u8) -> Result<Hint> {
    match number {
        0 => Ok(Hint::None),
        1 => Ok(Hint::Cold),
        2 => Ok(Hint::Hot),
        _ => Err(damaged("a hint that does not exist")),
    }
}

/// Proves the header at the start of `bytes`; how long it is.
fn proved_len(bytes: &[u8]) -> Result<usize> {
    let mut head = Reader::new(bytes);
    head.exactly(MAGIC, "record header")?;
    let whole = head.u32()? as usize;
    if whole < FIXED || !whole.is_multiple_of(8) {
        return Err(damaged("a record header of an impossible length"));
    }
    let bytes = Reader::new(bytes).bytes(whole)?;
    super::check_seal(bytes, SUM_AT, "record header")?;
    Ok(whole)
}
