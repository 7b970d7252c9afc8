//! The layout on disk is the documented one, and decoders accept nothing else.

use proptest::prelude::*;
use ziggurat_base::{CHUNK, Crc32, Era, Extent, ObjectKey, Ticket};
use ziggurat_dfs::{
    Found,
    format::{
        identity::Identity,
        index::Index,
        record::{Header, Peek},
        removed::{self, ENTRIES_MAX, Page, Removed},
        superblock::Superblock,
    },
};
use ziggurat_engine::{
    command::{Hint, OwnedTags},
    shard_record::record_len,
};

const ROOT: u128 = 0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00;

fn key(bytes: &[u8]) -> ObjectKey {
    ObjectKey::new(bytes).expect("a good key")
}

fn header(len: u64) -> Header {
    let chunks = if len > CHUNK as u64 {
        len.div_ceil(CHUNK as u64)
    } else {
        0
    };
    let mut header = Header {
        root: ROOT,
        shard: 3,
        extent: Extent::new(8192, 0),
        ticket: Ticket(0x0102_0304_0506_0708),
        tenant: "default".into(),
        key: key(b"prompt/1"),
        tags: OwnedTags {
            parent: Some(key(b"prompt/0")),
            group: None,
            hint: Hint::Hot,
        },
        len,
        crc: Crc32(0x1122_3344),
        table: (0..chunks).map(|i| Crc32(i as u32 + 1)).collect(),
    };
    fill(&mut header);
    header
}

/// Gives a header the extent that it needs.
fn fill(header: &mut Header) {
    let tags = header.tags.as_tags();
    header.extent.len = record_len(&header.tenant, header.key.as_key(), &tags, header.len, 4096);
}

fn found(header: Header) -> Found {
    Found {
        tenant: header.tenant,
        key: header.key,
        ticket: header.ticket,
        len: header.len,
        crc: header.crc,
        tags: header.tags,
        extent: header.extent,
    }
}

fn identity() -> Identity {
    Identity {
        root: ROOT,
        cluster: "zürich".into(),
        shard_bytes: 4 << 30,
        alignment: 8192,
        shards: 64,
    }
}

fn superblock() -> Superblock {
    Superblock {
        root: ROOT,
        shard: 3,
        alignment: 8192,
        shard_bytes: 4 << 30,
        generation: 7,
        era: Era(5),
    }
}

fn page() -> Page {
    let entry = Removed {
        ticket: Ticket(9),
        digest: 0x99,
    };
    Page {
        root: ROOT,
        number: 2,
        entries: vec![entry],
    }
}

fn index() -> Index {
    Index {
        root: ROOT,
        entries: vec![(3, found(header(100)))],
    }
}

/// Sums and versions are in the same place everywhere.
fn check_start(bytes: &[u8], magic: &[u8; 8]) {
    assert_eq!(&bytes[..8], magic);
    assert_eq!(bytes[8..12], Crc32::of(&bytes[12..]).0.to_le_bytes(), "sum");
    assert_eq!(bytes[12..14], 1_u16.to_le_bytes(), "version");
    assert_eq!(bytes.len() % 4096, 0);
}

#[test]
fn a_record_header_is_laid_out_as_documented() {
    let bytes = header(CHUNK as u64 + 1).encode();
    assert_eq!(bytes.len(), 4096);
    check_start(&bytes, b"ZGDFSREC");
    assert_eq!(bytes[14..16], [2, 0], "hint, flags");
    assert_eq!(
        bytes[16..20],
        4096_u32.to_le_bytes(),
        "length of the header"
    );
    assert_eq!(bytes[20..24], 3_u32.to_le_bytes(), "shard file");
    assert_eq!(bytes[24..40], ROOT.to_le_bytes(), "root");
    assert_eq!(
        bytes[40..48],
        8192_u64.to_le_bytes(),
        "offset of the extent"
    );
    assert_eq!(bytes[48..56], (18 * 4096_u64).to_le_bytes(), "its length");
    assert_eq!(
        bytes[56..64],
        0x0102_0304_0506_0708_u64.to_le_bytes(),
        "ticket"
    );
    assert_eq!(bytes[64..72], 65_537_u64.to_le_bytes(), "payload");
    assert_eq!(bytes[72..76], 0x1122_3344_u32.to_le_bytes(), "its sum");
    assert_eq!(bytes[76..84], [7, 0, 8, 0, 8, 0, 0, 0], "names");
    assert_eq!(bytes[84..96], [0; 12]);
    assert_eq!(&bytes[96..119], b"defaultprompt/1prompt/0");
    assert_eq!(bytes[119], 0, "to a multiple of 4");
    assert_eq!(bytes[120..128], [1, 0, 0, 0, 2, 0, 0, 0], "chunk sums");
    assert!(bytes[128..].iter().all(|byte| *byte == 0));
    assert_eq!(header(65_537).payload_at(), 8192 + 4096);
}

#[test]
fn the_other_structures_are_laid_out_as_documented() {
    let bytes = identity().encode();
    check_start(&bytes, b"ZGDFSROT");
    assert_eq!(bytes[16..32], ROOT.to_le_bytes());
    assert_eq!(bytes[32..40], (4_u64 << 30).to_le_bytes());
    assert_eq!(
        bytes[40..48],
        [0, 32, 0, 0, 64, 0, 0, 0],
        "alignment, shards"
    );
    assert_eq!(bytes[48..50], 7_u16.to_le_bytes());
    assert_eq!(&bytes[64..71], "zürich".as_bytes());
    let bytes = superblock().encode();
    check_start(&bytes, b"ZGDFSSUP");
    assert_eq!(bytes[16..32], ROOT.to_le_bytes());
    assert_eq!(
        bytes[32..40],
        [3, 0, 0, 0, 0, 32, 0, 0],
        "number, alignment"
    );
    assert_eq!(bytes[40..48], (4_u64 << 30).to_le_bytes());
    assert_eq!(
        bytes[48..60],
        [7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0],
        "generation, era"
    );
    let bytes = removed::encode_head(ROOT);
    check_start(&bytes, b"ZGDFSREM");
    assert_eq!(bytes[16..32], ROOT.to_le_bytes());
    let bytes = page().encode();
    check_start(&bytes, b"ZGDFSRMP");
    assert_eq!(bytes[14..16], [1, 0], "entries");
    assert_eq!(bytes[32..36], [2, 0, 0, 0], "page");
    assert_eq!(
        bytes[64..80],
        [9, 0, 0, 0, 0, 0, 0, 0, 0x99, 0, 0, 0, 0, 0, 0, 0]
    );
    let bytes = index().encode();
    check_start(&bytes, b"ZGDFSIDX");
    assert_eq!(bytes[32..40], 1_u64.to_le_bytes(), "entries");
    assert_eq!(bytes[64..68], 3_u32.to_le_bytes(), "shard file");
    assert_eq!(bytes[68..72], 0x1122_3344_u32.to_le_bytes(), "sum");
    assert_eq!(bytes[72..80], 8192_u64.to_le_bytes(), "extent");
    assert_eq!(bytes[88..96], 0x0102_0304_0506_0708_u64.to_le_bytes());
    assert_eq!(bytes[104..112], [7, 0, 8, 0, 8, 0, 0, 0], "names");
    assert_eq!(bytes[112], 2, "hint");
    assert_eq!(&bytes[120..143], b"defaultprompt/1prompt/0");
}

#[test]
fn golden_sums() {
    // A change of any byte of the format changes these: then the version has to change too.
    let sums: Vec<u32> = [
        header(CHUNK as u64 + 1).encode(),
        identity().encode(),
        superblock().encode(),
        removed::encode_head(ROOT),
        page().encode(),
        index().encode(),
    ]
    .iter()
    .map(|bytes| Crc32::of(bytes).0)
    .collect();
    assert_eq!(sums, GOLDEN, "{sums:#x?}");
}

const GOLDEN: [u32; 6] = [
    0xd0ac_9b67,
    0x2ac7_5df8,
    0x371e_8c3c,
    0xeaa4_93d9,
    0x871f_9893,
    0x9914_ced5,
];

#[test]
fn names_of_logs() {
    assert_eq!(removed::name(0xab), "removed-00000000000000ab.zig");
    assert!(removed::is_name(&removed::name(u64::MAX)));
    for other in [
        "removed-ab.zig",
        "removed-00000000000000AB.zig",
        "removed.zig.new",
        "root.zig",
    ] {
        assert!(!removed::is_name(other), "{other}");
    }
}

fn any_key() -> impl Strategy<Value = ObjectKey> {
    prop::collection::vec(any::<u8>(), 1..1500).prop_map(|bytes| key(&bytes))
}

fn any_header() -> impl Strategy<Value = Header> {
    let names = (
        "[a-zé]{0,20}",
        any_key(),
        prop::option::of(any_key()),
        prop::option::of(any_key()),
    );
    let numbers = (
        any::<u64>(),
        0..90 * CHUNK as u64,
        any::<u32>(),
        0..1_u64 << 40,
    );
    (names, numbers).prop_map(|((tenant, key, parent, group), (ticket, len, crc, at))| {
        let mut made = Header {
            tenant: tenant.into(),
            key,
            ticket: Ticket(ticket),
            crc: Crc32(crc),
            extent: Extent::new(at / 4096 * 4096, 0),
            tags: OwnedTags {
                parent,
                group,
                hint: Hint::Cold,
            },
            ..header(len)
        };
        fill(&mut made);
        made
    })
}

/// Whether bytes with one bit flipped are refused.
fn is_refused(bytes: &[u8], bit: prop::sample::Index, decode: impl Fn(&[u8]) -> bool) -> bool {
    let mut bytes = bytes.to_vec();
    let bit = bit.index(bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    !decode(&bytes)
}

proptest! {
    #[test]
    fn headers_come_back_and_one_bit_makes_them_strange(header in any_header(), bit in any::<prop::sample::Index>()) {
        let bytes = header.encode();
        prop_assert_eq!(bytes.len() as u64, header.encoded_len());
        prop_assert_eq!(&Header::decode(&bytes).unwrap(), &header);
        let peek = Peek::of(&bytes[..4096]).unwrap();
        prop_assert_eq!((peek.root, peek.shard, peek.extent, peek.ticket), (ROOT, 3, header.extent, header.ticket));
        prop_assert_eq!(u64::from(peek.len), header.encoded_len());
        prop_assert!(is_refused(&bytes, bit, |bytes| Header::decode(bytes).is_ok()));
    }

    #[test]
    fn the_others_come_back_too(
        cluster in "[a-zé]{1,64}", numbers in any::<(u128, u32, u64, u32)>(), shards in 0..9999_u32, shift in 0..9_u32,
        count in 0..=ENTRIES_MAX, headers in prop::collection::vec(any_header(), 0..4), bit in any::<prop::sample::Index>(),
    ) {
        let (root, shard, generation, era) = numbers;
        let root = root.max(1);
        let identity = Identity { root, cluster: cluster.into(), shard_bytes: 8 << 20, alignment: 4096 << shift, shards };
        let bytes = identity.encode();
        prop_assert_eq!(Identity::decode(&bytes).unwrap(), identity);
        prop_assert!(is_refused(&bytes, bit, |bytes| Identity::decode(bytes).is_ok()));
        let superblock = Superblock { root, shard, alignment: 4096, shard_bytes: generation, generation, era: Era(era) };
        let bytes = superblock.encode();
        prop_assert_eq!(Superblock::decode(&bytes).unwrap(), superblock);
        prop_assert!(is_refused(&bytes, bit, |bytes| Superblock::decode(bytes).is_ok()));
        let entries = (0..count as u64).map(|i| Removed { ticket: Ticket(i ^ generation), digest: i });
        let page = Page { root, number: shard.max(1), entries: entries.collect() };
        let bytes = page.encode();
        prop_assert_eq!(Page::decode(&bytes).unwrap(), page);
        prop_assert!(is_refused(&bytes, bit, |bytes| Page::decode(bytes).is_ok()));
        prop_assert_eq!(removed::decode_head(&removed::encode_head(root)).unwrap(), root);
        let entries = headers.into_iter().map(|header| (shard, found(header)));
        let index = Index { root, entries: entries.collect() };
        let bytes = index.encode();
        prop_assert_eq!(Index::decode(&bytes).unwrap(), index);
        prop_assert!(is_refused(&bytes, bit, |bytes| Index::decode(bytes).is_ok()));
    }

    #[test]
    fn decoders_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000), magic in 0..6_usize, version in 0..3_u16) {
        let magics = [b"ZGDFSREC", b"ZGDFSROT", b"ZGDFSSUP", b"ZGDFSREM", b"ZGDFSRMP", b"ZGDFSIDX"];
        let mut mended = bytes.clone();
        if mended.len() > 14 {
            mended[..8].copy_from_slice(magics[magic]);
            mended[12..14].copy_from_slice(&version.to_le_bytes());
            let sum = Crc32::of(&mended[12..]).0.to_le_bytes();
            mended[8..12].copy_from_slice(&sum);
        }
        for bytes in [&bytes, &mended] {
            let _ = Header::decode(bytes);
            let _ = Peek::of(bytes);
            let _ = Identity::decode(bytes);
            let _ = Superblock::decode(bytes);
            let _ = Superblock::newest(bytes);
            let _ = removed::decode_head(bytes);
            let _ = Page::decode(bytes);
            let _ = Index::decode(bytes);
        }
    }
}
