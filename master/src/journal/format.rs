//! The bytes of the records file: docs/formats/records.md is its map.
//!
//! The file is a header and batches. A batch was synced before the next one was begun, so that a damaged batch at the end is
//! one that nobody was answered for, and one before a good batch is damage.

use ziggurat_base::{Code, Crc32, DirectoryId, Error, Ticket};
use ziggurat_engine::record::{Cause, Record};

/// Bytes of everything: the file's header, the header of a batch, a record.
pub(crate) const UNIT: usize = 32;

/// The most records in one batch.
pub(crate) const BATCH_RECORDS_MAX: usize = 65_536;

const FILE_MAGIC: &[u8; 8] = b"ZGT-RECS";
const BATCH_MAGIC: &[u8; 8] = b"ZGTBATCH";
const VERSION: u32 = 1;

/// One unit being written, or read, from its start on.
type Unit = [u8; UNIT];

fn put(unit: &mut Unit, at: usize, bytes: &[u8]) {
    unit[at..at + bytes.len()].copy_from_slice(bytes);
}

fn number<const N: usize>(unit: &Unit, at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&unit[at..at + N]);
    bytes
}

fn seal(mut unit: Unit) -> Unit {
    let sum = Crc32::of(&unit[..UNIT - 4]);
    put(&mut unit, UNIT - 4, &sum.0.to_le_bytes());
    unit
}

fn is_sealed(unit: &Unit) -> bool {
    u32::from_le_bytes(number(unit, UNIT - 4)) == Crc32::of(&unit[..UNIT - 4]).0
}

/// The header of a file.
pub(crate) fn file_header() -> Unit {
    let mut unit = [0; UNIT];
    put(&mut unit, 0, FILE_MAGIC);
    put(&mut unit, 8, &VERSION.to_le_bytes());
    seal(unit)
}

/// The `number`-th batch of records as it lies in a file.
pub(crate) fn encode_batch(number: u64, records: &[Record]) -> Vec<u8> {
    assert!(
        (1..=BATCH_RECORDS_MAX).contains(&records.len()),
        "a batch has some records and not too many"
    );
    let body: Vec<u8> = records.iter().flat_map(encode).collect();
    let mut header = [0; UNIT];
    put(&mut header, 0, BATCH_MAGIC);
    put(&mut header, 8, &(records.len() as u32).to_le_bytes());
    put(&mut header, 12, &Crc32::of(&body).0.to_le_bytes());
    put(&mut header, 16, &number.to_le_bytes());
    let mut out = seal(header).to_vec();
    out.extend(body);
    out
}

fn encode(record: &Record) -> Unit {
    let mut unit = [0; UNIT];
    let (kind, id, ticket) = match record {
        Record::Directory { directory } => (1, directory.0, Ticket::NONE),
        Record::Debt { directory, ticket } => (2, directory.0, *ticket),
        Record::DebtPaid { directory, ticket } => (3, directory.0, *ticket),
        Record::Floor { directory, ticket } => (4, directory.0, *ticket),
        Record::KeyDebt {
            digest,
            upto,
            cause,
        } => {
            unit[1] = match cause {
                Cause::Absence => 0,
                Cause::Flight => 1,
            };
            (5, u128::from(*digest), *upto)
        }
        Record::KeyPaid { digest } => (6, u128::from(*digest), Ticket::NONE),
        Record::AbsencePaid => (7, 0, Ticket::NONE),
    };
    unit[0] = kind;
    put(&mut unit, 8, &id.to_le_bytes());
    put(&mut unit, 24, &ticket.0.to_le_bytes());
    unit
}

fn decode(unit: &Unit) -> Option<Record> {
    let id = u128::from_le_bytes(number(unit, 8));
    let (directory, digest) = (DirectoryId(id), id as u64);
    let ticket = Ticket(u64::from_le_bytes(number(unit, 24)));
    let record = match (unit[0], unit[1]) {
        (1, 0) => Record::Directory { directory },
        (2, 0) => Record::Debt { directory, ticket },
        (3, 0) => Record::DebtPaid { directory, ticket },
        (4, 0) => Record::Floor { directory, ticket },
        (5, cause @ (0 | 1)) => Record::KeyDebt {
            digest,
            upto: ticket,
            cause: if cause == 0 {
                Cause::Absence
            } else {
                Cause::Flight
            },
        },
        (6, 0) => Record::KeyPaid { digest },
        (7, 0) => Record::AbsencePaid,
        _ => return None,
    };
    // Every bit that has no meaning is zero.
    (encode(&record) == *unit).then_some(record)
}

/// What a file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its records, in their order.
    pub records: Vec<Record>,
    /// Bytes up to the end of the last good batch.
    pub good_len: u64,
    /// Batches.
    pub batches: u64,
}

fn damaged(what: String) -> Error {
    Error::new(Code::PersistentFail, what)
}

/// The records of a batch, its number, and where it ends.
type Batch<'a> = (&'a [Unit], u64, usize);

/// The batch that begins at `at`.
fn batch_at(units: &[Unit], at: usize) -> Option<Batch<'_>> {
    let header = units.get(at).filter(|unit| is_sealed(unit))?;
    if &number::<8>(header, 0) != BATCH_MAGIC {
        return None;
    }
    let count = u32::from_le_bytes(number(header, 8)) as usize;
    let end = (at + 1).checked_add(count)?;
    let body = units.get(at + 1..end).filter(|body| !body.is_empty())?;
    let sum = u32::from_le_bytes(number(header, 12));
    let order = u64::from_le_bytes(number(header, 16));
    (Crc32::of(body.as_flattened()).0 == sum).then_some((body, order, end))
}

/// Reads a file.
///
/// # Errors
/// `PersistentFail` for another kind of file, `SerializeUnsupported` for a later version, `PersistentFail` for damage before a
/// good batch, or a good batch with a record that cannot be: what was promised in it would be forgotten silently.
pub fn decode_file(bytes: &[u8]) -> Result<Contents, Error> {
    let (units, _) = bytes.as_chunks::<UNIT>();
    let header = units.first().filter(|unit| is_sealed(unit));
    let Some(header) = header.filter(|unit| &number::<8>(unit, 0) == FILE_MAGIC) else {
        return Err(damaged("it does not begin like a file of records".into()));
    };
    let version = u32::from_le_bytes(number(header, 8));
    if version != VERSION {
        let what = format!("its version is {version}, this build reads {VERSION}: upgrade");
        return Err(Error::new(Code::SerializeUnsupported, what));
    }
    let (mut records, mut batches, mut at) = (Vec::new(), 0, 1);
    while let Some((body, number, end)) = batch_at(units, at) {
        if number != batches {
            let byte = at * UNIT;
            let what =
                format!("the batch at byte {byte} has number {number} in place of {batches}");
            return Err(damaged(what));
        }
        batches += 1;
        for (index, unit) in body.iter().enumerate() {
            let record = decode(unit).ok_or_else(|| {
                let byte = (at + 1 + index) * UNIT;
                damaged(format!(
                    "the record at byte {byte} is none that this build knows"
                ))
            })?;
            records.push(record);
        }
        at = end;
    }
    if let Some(later) = (at + 1..units.len()).find(|later| batch_at(units, *later).is_some()) {
        return Err(damaged(format!(
            "it is damaged at byte {}, before a good batch at byte {}",
            at * UNIT,
            later * UNIT
        )));
    }
    Ok(Contents {
        records,
        good_len: (at * UNIT) as u64,
        batches,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{UNIT, decode_file, encode_batch, file_header};
    use proptest::{collection::vec, prelude::*};
    use ziggurat_base::{Code, DirectoryId, Era, Ticket};
    use ziggurat_engine::record::{Cause, Record};

    /// One of each.
    pub(crate) fn all() -> Vec<Record> {
        let directory = DirectoryId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
        let ticket = Ticket::new(Era(7), 9);
        let digest = 0x1112_1314_1516_1718;
        let dead = |cause| Record::KeyDebt {
            digest,
            upto: ticket,
            cause,
        };
        vec![
            Record::Directory { directory },
            Record::Debt { directory, ticket },
            Record::DebtPaid { directory, ticket },
            Record::Floor { directory, ticket },
            dead(Cause::Absence),
            dead(Cause::Flight),
            Record::KeyPaid { digest },
            Record::AbsencePaid,
        ]
    }

    fn file(batches: &[&[Record]]) -> Vec<u8> {
        let mut bytes = file_header().to_vec();
        for (number, batch) in batches.iter().enumerate() {
            bytes.extend(encode_batch(number as u64, batch));
        }
        bytes
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let hex: Vec<String> = file(&[&all()])
            .chunks(UNIT)
            .map(|unit| unit.iter().map(|b| format!("{b:02x}")).collect())
            .collect();
        let found = hex.join("\n") + "\n";
        let golden = include_str!("../../tests/fixtures/records.txt");
        assert!(
            found == golden,
            "the format has changed; these are the new bytes:\n{found}"
        );
    }

    #[test]
    fn a_torn_end_is_cut_off_wherever_it_is_torn() {
        let (first, second) = (all(), &all()[..3]);
        let whole = file(&[&first, second]);
        let good = file(&[&first]).len();
        for len in good..whole.len() {
            let contents = decode_file(&whole[..len]).unwrap();
            assert_eq!(contents.records, first);
            assert_eq!(contents.good_len, good as u64);
            let mut holed = whole.clone();
            holed[len] ^= 1;
            assert_eq!(decode_file(&holed).unwrap().records, first);
        }
        assert_eq!(decode_file(&whole).unwrap().records.len(), 11);
    }

    #[test]
    fn damage_before_a_good_batch_is_named() {
        let first_end = file(&[&all()]).len();
        let whole = file(&[&all(), &all()]);
        for at in UNIT..first_end {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            let error = decode_file(&bytes).unwrap_err();
            assert!(error.what().contains("byte 32"), "{at}: {error}");
        }
        let mut later = whole.clone();
        later[8] = 2;
        assert!(
            decode_file(&later).is_err(),
            "the sum of the header is wrong"
        );
        assert!(decode_file(b"").is_err());
        assert_eq!(
            decode_file(&whole[..UNIT]).unwrap().good_len,
            UNIT as u64,
            "nothing yet"
        );
    }

    #[test]
    fn a_batch_out_of_its_place_is_named() {
        let mut bytes = file(&[&all()]);
        bytes.extend(encode_batch(0, &all()));
        let error = decode_file(&bytes).unwrap_err();
        assert!(error.what().contains("byte 320"), "{error}");
    }

    #[test]
    fn a_later_version_is_refused_as_such() {
        let mut unit = file_header();
        unit[8] = 2;
        let bytes = super::seal(unit);
        let error = decode_file(&bytes).unwrap_err();
        assert_eq!(error.code(), Code::SerializeUnsupported, "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..300), flips in vec((any::<u16>(), any::<u8>()), 0..4)) {
            let _ = decode_file(&bytes);
            let mut bytes = file(&[&all(), &all()]);
            for (at, bits) in flips {
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= bits;
            }
            if let Ok(contents) = decode_file(&bytes) {
                let known = [all(), all()].concat();
                prop_assert!(known.starts_with(&contents.records));
            }
        }
    }
}
