//! Every decoder of bytes from outside, as a function of bytes that must not panic. The fuzz targets in `tests/fuzz` call
//! them with invented input; `tests/tests/corpus.rs` replays the corpus on every run.

use std::io::BufReader;
use ziggurat_base::{
    ByteCount, ChunkTable, Crc32, DirectoryId, Key, SegmentId,
    frame::{HEADER_LEN, Header, Span, TokenSpan},
    unit::parse_span,
};
use ziggurat_dfs::format::{
    identity::Identity as RootIdentity,
    index::Index as RootIndex,
    record::{Header as RecordHeader, Peek},
    removed,
    superblock::Superblock,
};
use ziggurat_engine::catalog::Matcher;
use ziggurat_tiers::ssd::format::{
    PAGE,
    batch::{self, Head},
    codec::{self, Codec, Index},
    file::{FileHead, Seal, decode_footer, encode_footer},
    identity::Identity,
    record::Record,
    tomb::{decode_page, encode_page},
};

/// A decoder under its name, which is also the name of its fuzz target and of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("frame_header", frame_header),
    ("frame_span", frame_span),
    ("frame_token", frame_token),
    ("chunk_table", chunk_table),
    ("trace", trace),
    ("units", units),
    ("pattern", pattern),
    ("data_hello", data_hello),
    ("message", message),
    ("ssd_page", ssd_page),
    ("ssd_batch", ssd_batch),
    ("ssd_footer", ssd_footer),
    ("ssd_record", ssd_record),
    ("ssd_payload", ssd_payload),
    ("records_file", records_file),
    ("dfs_block", dfs_block),
    ("dfs_header", dfs_header),
    ("dfs_index", dfs_index),
];

/// A frame header: what is accepted encodes to the same bytes.
pub fn frame_header(bytes: &[u8]) {
    if let Some(head) = bytes.first_chunk::<HEADER_LEN>()
        && let Ok(header) = Header::decode(head)
    {
        assert_eq!(&header.encode(), head, "a header has one encoding");
    }
}

/// The meta of a read or write: what is accepted encodes to the same bytes.
pub fn frame_span(bytes: &[u8]) {
    if let Ok(span) = Span::decode(bytes, SegmentId(1)) {
        let mut again = Vec::new();
        span.encode_into(&mut again);
        assert_eq!(again, bytes, "a span has one encoding");
        assert!(span.offset + span.len <= span.object_len);
    }
}

/// The meta of a read or write by token: what is accepted encodes to the same bytes.
pub fn frame_token(bytes: &[u8]) {
    if let Ok(span) = TokenSpan::decode(bytes) {
        assert_eq!(span.encode().as_slice(), bytes, "a span has one encoding");
        assert!(span.offset.checked_add(span.len).is_some());
    }
}

/// A chunk table beside a payload: the first 12 bytes say which payload.
pub fn chunk_table(bytes: &[u8]) {
    let Some((head, table)) = bytes.split_first_chunk::<12>() else {
        return;
    };
    let len = u64::from_le_bytes(std::array::from_fn(|i| head[i]));
    let crc = Crc32(u32::from_le_bytes(std::array::from_fn(|i| head[8 + i])));
    if let Ok(proved) = ChunkTable::proved(table, len, crc) {
        assert_eq!(proved.object_crc(), crc);
    }
}

/// A trace: every line is a request or one clear error.
pub fn trace(bytes: &[u8]) {
    let trace = ziggurat_workload::Trace::new("fuzz".into(), BufReader::new(bytes));
    for request in trace.take(1000) {
        if let Err(error) = request {
            assert!(!error.what().is_empty());
        }
    }
}

/// Sizes and spans as people write them.
pub fn units(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _size_or_error = text.parse::<ByteCount>();
        let _span_or_error = parse_span(text);
    }
}

/// A pattern, a zero byte, a key: compiles or is refused, and matches in linear time.
pub fn pattern(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (Some(pattern), Some(key)) = (parts.next(), parts.next()) else {
        return;
    };
    if let (Ok(pattern), Ok(key)) = (std::str::from_utf8(pattern), Key::new(key))
        && let Ok(matcher) = Matcher::new(pattern)
    {
        let _found_or_not = matcher.matches(key);
    }
}

/// The first meta of a data connection.
pub fn data_hello(bytes: &[u8]) {
    if let Ok(hello) = ziggurat_transport::hello::Hello::decode(bytes) {
        assert_eq!(hello.encode().as_slice(), bytes, "a hello has one encoding");
    }
}

/// A message of the control protocol or of the seed's: the first byte is the number of items that were asked for.
pub fn message(bytes: &[u8]) {
    if let Some((count, bytes)) = bytes.split_first() {
        ziggurat_proto::testkit::decode_any(bytes, usize::from(*count));
    }
}

/// Where the sums of everything on SSD lie; each is that of the bytes behind it.
const SUM_AT: usize = 8;

/// The bytes as they are, and with a sum that fits the first `len` of them: only so invented input gets past the sum.
fn with_sum(bytes: &[u8], len: usize) -> [Vec<u8>; 2] {
    let mut mended = bytes.to_vec();
    let len = len.min(mended.len());
    if let Some(summed) = mended.get(SUM_AT + 4..len) {
        let sum = Crc32::of(summed).0.to_le_bytes();
        mended[SUM_AT..SUM_AT + 4].copy_from_slice(&sum);
    }
    [bytes.to_vec(), mended]
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(<[u8]>::first_chunk);
    four.map_or(0, |four| u32::from_le_bytes(*four))
}

/// Pages that are alone: the identity of a directory, the head and the seal of a file, tombstones. What is accepted encodes
/// to the same bytes.
pub fn ssd_page(bytes: &[u8]) {
    let mut page = bytes.to_vec();
    page.resize(PAGE as usize, 0);
    for page in with_sum(&page, PAGE as usize) {
        if let Ok(identity) = Identity::decode(&page) {
            assert_eq!(identity.encode(), page);
        }
        if let Ok(head) = FileHead::decode(&page) {
            assert_eq!(head.encode(), page);
        }
        if let Ok(Some(seal)) = Seal::decode(&page) {
            assert_eq!(seal.encode(), page);
        }
        // Whatever place the page says it belongs to.
        let place = number(&page, 12);
        let home = page[20..36].first_chunk().expect("a page is longer");
        let home = DirectoryId(u128::from_le_bytes(*home));
        if let Ok(tombs) = decode_page(home, place, &page) {
            assert_eq!(encode_page(home, place, &tombs), page);
        }
    }
}

/// The headers of a batch: what is accepted encodes to the same bytes.
pub fn ssd_batch(bytes: &[u8]) {
    let Ok(head) = Head::peek(bytes) else { return };
    for bytes in with_sum(bytes, head.headers_len as usize) {
        if let Ok((head, records)) = Head::decode(&bytes) {
            let again = batch::encode(head.file, head.at, head.synced, head.len, &records);
            let len = head.headers_len as usize;
            assert_eq!(again[..len], bytes[..len]);
        }
    }
}

/// The footer of whatever file it says it belongs to.
pub fn ssd_footer(bytes: &[u8]) {
    let len = number(bytes, 24) as usize;
    for bytes in with_sum(bytes, len) {
        let file = number(&bytes, 12);
        if let Ok(records) = decode_footer(file, &bytes) {
            assert_eq!(encode_footer(file, &records)[..len], bytes[..len]);
        }
    }
}

/// The header of a record.
pub fn ssd_record(bytes: &[u8]) {
    for bytes in with_sum(bytes, number(bytes, 4) as usize) {
        if let Ok((record, form, len)) = Record::decode(&bytes) {
            let mut again = Vec::new();
            record.encode_into(form, &mut again);
            assert_eq!(again, bytes[..len]);
        }
    }
}

/// A compressed payload: the first byte is the codec, the next four the bytes that it should become. What it becomes is no more
/// than that. And the other way: the rest as a payload comes back.
pub fn ssd_payload(bytes: &[u8]) {
    let Some((number, rest)) = bytes.split_first() else {
        return;
    };
    let Some(codec) = Codec::of(*number) else {
        return;
    };
    let Some((len, stored)) = rest.split_first_chunk::<4>() else {
        return;
    };
    let len = u64::from(u32::from_le_bytes(*len));
    let mut count = 0;
    let decoded = codec::decode(codec, len, stored, &mut |bytes| {
        count += bytes.len() as u64;
        assert!(count <= len, "no more than was announced");
    });
    assert!(decoded.is_err() || count == len);
    let (mut lens, mut bodies) = (Vec::new(), Vec::new());
    for chunk in stored.chunks(ziggurat_base::CHUNK) {
        let start = bodies.len();
        codec::encode_chunk(codec, 1, chunk, &mut bodies).expect("there is memory");
        lens.push((bodies.len() - start) as u32);
    }
    let mut packed = match codec {
        Codec::Plain => Vec::new(),
        _ => Index::encode(&lens),
    };
    packed.append(&mut bodies);
    let mut again = Vec::new();
    let back = codec::decode(codec, stored.len() as u64, &packed, &mut |bytes| {
        again.extend_from_slice(bytes);
    });
    assert!(back.is_ok() || stored.is_empty());
    assert_eq!(again, stored);
}

/// The records of a master, as they are and with sums that fit.
pub fn records_file(bytes: &[u8]) {
    const UNIT: usize = 32;
    let mut mended = bytes.to_vec();
    let units = mended.as_chunks_mut::<UNIT>().0;
    for at in 0..units.len() {
        let (before, rest) = units.split_at_mut(at);
        let Some((unit, body)) = rest.split_first_mut() else {
            return;
        };
        let is_head = before.is_empty() || unit.starts_with(b"ZGTBATCH");
        let count = number(&*unit, 8) as usize;
        if let Some(body) = body.get(..count).filter(|_| is_head && at > 0) {
            let sum = Crc32::of(body.as_flattened()).0.to_le_bytes();
            unit[12..16].copy_from_slice(&sum);
        }
        if is_head {
            let sum = Crc32::of(&unit[..UNIT - 4]).0.to_le_bytes();
            unit[UNIT - 4..].copy_from_slice(&sum);
        }
    }
    for bytes in [bytes, &mended] {
        if let Ok(contents) = ziggurat_master::journal::decode_file(bytes) {
            assert!(contents.good_len <= bytes.len() as u64);
            assert!(contents.batches <= contents.records.len() as u64);
        }
    }
}

/// Blocks of a root that are alone: its identity, superblocks, removal logs. What is accepted encodes to the same bytes.
pub fn dfs_block(bytes: &[u8]) {
    let mut block = bytes.to_vec();
    block.resize(PAGE as usize, 0);
    for block in with_sum(&block, PAGE as usize) {
        if let Ok(identity) = RootIdentity::decode(&block) {
            assert_eq!(identity.encode(), block);
        }
        if let Ok(superblock) = Superblock::decode(&block) {
            assert_eq!(superblock.encode(), block);
        }
        if let Ok(root) = removed::decode_head(&block) {
            assert_eq!(removed::encode_head(root), block);
        }
        if let Ok(page) = removed::Page::decode(&block) {
            assert_eq!(page.encode(), block);
        }
    }
}

/// The header of a record in a shard file: what is accepted encodes to the same bytes, and has its payload inside of its
/// extent.
pub fn dfs_header(bytes: &[u8]) {
    let _one_or_none = Peek::of(bytes);
    for bytes in with_sum(bytes, bytes.len()) {
        if let Ok(header) = RecordHeader::decode(&bytes) {
            assert_eq!(header.encode(), bytes);
            assert!(header.payload_at() >= header.extent.offset + header.encoded_len());
            assert!(Peek::of(&bytes).is_some_and(|peek| peek.ticket == header.ticket));
        }
    }
}

/// An index of a root: what is accepted encodes to the same bytes.
pub fn dfs_index(bytes: &[u8]) {
    for bytes in with_sum(bytes, bytes.len()) {
        if let Ok(index) = RootIndex::decode(&bytes) {
            assert_eq!(index.encode(), bytes);
        }
    }
}
