//! The layout on disk is the documented one, and decoders accept nothing else.

use proptest::prelude::*;
use ziggurat_base::{CHUNK, Crc32, DirectoryId, ObjectKey, Ticket};
use ziggurat_engine::command::Hint;
use ziggurat_tiers::ssd::format::{
    batch::{self, Head},
    codec::Codec,
    file::{FileHead, Seal, decode_footer, encode_footer},
    identity::Identity,
    record::{Form, Record},
    tomb::{self, Tomb},
};

fn record(len: u64) -> Record {
    let chunks = if len > CHUNK as u64 {
        len.div_ceil(CHUNK as u64)
    } else {
        0
    };
    Record {
        tenant: "default".into(),
        key: ObjectKey::new(b"prompt/1").expect("a good key"),
        ticket: Ticket(0x0102_0304_0506_0708),
        len,
        stored_len: len,
        at: 12_288,
        header_at: 8256,
        crc: Crc32(0x1122_3344),
        codec: Codec::Plain,
        hint: Hint::Hot,
        pinned: true,
        parent: Some(ObjectKey::new(b"prompt/0").expect("a good key")),
        group: None,
        table: (0..chunks).map(|i| Crc32(i as u32 + 1)).collect(),
    }
}

#[test]
fn a_record_header_is_laid_out_as_documented() {
    let mut bytes = Vec::new();
    record(CHUNK as u64 + 1).encode_into(Form::Full, &mut bytes);
    assert_eq!(bytes.len(), 112);
    assert_eq!(&bytes[0..4], b"ZREC");
    assert_eq!(bytes[4..8], 112_u32.to_le_bytes());
    assert_eq!(bytes[8..12], Crc32::of(&bytes[12..]).0.to_le_bytes());
    assert_eq!(bytes[12..14], 1_u16.to_le_bytes(), "version");
    assert_eq!(bytes[14], 0, "codec");
    assert_eq!(bytes[15], 2 | 2 << 4, "hint and pin");
    assert_eq!(
        bytes[16..24],
        0x0102_0304_0506_0708_u64.to_le_bytes(),
        "ticket"
    );
    assert_eq!(bytes[24..32], 65_537_u64.to_le_bytes(), "length");
    assert_eq!(bytes[32..40], 65_537_u64.to_le_bytes(), "stored length");
    assert_eq!(bytes[40..48], 12_288_u64.to_le_bytes(), "payload");
    assert_eq!(bytes[48..56], 8256_u64.to_le_bytes(), "header");
    assert_eq!(bytes[56..60], 0x1122_3344_u32.to_le_bytes(), "sum");
    assert_eq!(
        bytes[60..68],
        [7, 0, 8, 0, 8, 0, 0, 0],
        "lengths of tenant, key, parent, group"
    );
    assert_eq!(bytes[68..80], [0; 12]);
    assert_eq!(&bytes[80..103], b"defaultprompt/1prompt/0");
    assert_eq!(bytes[103], 0, "to a multiple of 4");
    assert_eq!(bytes[104..112], [1, 0, 0, 0, 2, 0, 0, 0], "chunk sums");
}

#[test]
fn golden_sums() {
    // A change of any byte of the format changes these: then the version has to change too.
    let mut full = Vec::new();
    record(CHUNK as u64 + 1).encode_into(Form::Full, &mut full);
    let head = FileHead {
        directory: DirectoryId(7),
        number: 3,
        block: 512,
    };
    let seal = Seal {
        number: 3,
        footer_at: 40_960,
        footer_len: 4096,
    };
    let tombs = [Tomb {
        file: 3,
        ticket: Ticket(9),
    }];
    let sums: Vec<u32> = [
        full,
        batch::encode(3, 8192, 8192, 81_920, &[record(CHUNK as u64 + 1)]),
        head.encode(),
        seal.encode(),
        encode_footer(3, &[record(100)]),
        Identity {
            directory: DirectoryId(7),
        }
        .encode(),
        tomb::encode_page(DirectoryId(7), 0, &tombs),
    ]
    .iter()
    .map(|bytes| Crc32::of(bytes).0)
    .collect();
    assert_eq!(sums, GOLDEN, "{sums:#x?}");
}

const GOLDEN: [u32; 7] = [
    0x9a57_2f46,
    0xd50c_510b,
    0x15a5_a8df,
    0xc724_62cd,
    0x3890_ddff,
    0x2669_e819,
    0x1b86_bbe7,
];

fn any_key() -> impl Strategy<Value = ObjectKey> {
    prop::collection::vec(any::<u8>(), 1..300)
        .prop_map(|bytes| ObjectKey::new(bytes).expect("a good length"))
}

fn any_record() -> impl Strategy<Value = Record> {
    let names = (
        "[a-zé]{0,20}",
        any_key(),
        prop::option::of(any_key()),
        prop::option::of(any_key()),
    );
    (
        names,
        any::<u64>(),
        0..5 * CHUNK as u64,
        any::<u32>(),
        any::<bool>(),
    )
        .prop_map(
            |((tenant, key, parent, group), ticket, len, crc, pinned)| Record {
                tenant: tenant.into(),
                key,
                ticket: Ticket(ticket),
                crc: Crc32(crc),
                pinned,
                parent,
                group,
                ..record(len)
            },
        )
}

proptest! {
    #[test]
    fn records_come_back_and_one_bit_makes_them_strange(record in any_record(), bit in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        record.encode_into(Form::Full, &mut bytes);
        let (back, form, len) = Record::decode(&bytes).unwrap();
        prop_assert_eq!((&back, form, len), (&record, Form::Full, bytes.len()));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Record::decode(&bytes).is_err());
    }

    #[test]
    fn batches_and_footers_come_back(records in prop::collection::vec(any_record(), 0..6)) {
        let headers = batch::headers_len(&records);
        let mut at = 8192 + headers;
        let mut header_at = 8192 + 64;
        let mut records = records;
        for record in &mut records {
            record.at = at.next_multiple_of(512);
            at = record.at + record.stored_len;
            record.header_at = header_at;
            header_at += record.encoded_len(Form::Full) as u64;
        }
        let len = (at - 8192).next_multiple_of(4096);
        let bytes = batch::encode(5, 8192, 4096, len, &records);
        let (head, back) = Head::decode(&bytes).unwrap();
        prop_assert_eq!((head.file, head.at, head.synced, head.len), (5, 8192, 4096, len));
        prop_assert_eq!(&back, &records);
        let footer = encode_footer(5, &records);
        let stripped: Vec<_> = records.into_iter().map(|r| Record { table: Vec::new(), ..r }).collect();
        prop_assert_eq!(decode_footer(5, &footer).unwrap(), stripped);
        prop_assert!(decode_footer(6, &footer).is_err());
    }

    #[test]
    fn decoders_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        let _ = Record::decode(&bytes);
        let _ = Head::decode(&bytes);
        let _ = FileHead::decode(&bytes);
        let _ = Seal::decode(&bytes);
        let _ = decode_footer(1, &bytes);
        let _ = Identity::decode(&bytes);
        let _ = tomb::decode_page(DirectoryId(1), 0, &bytes);
    }
}
