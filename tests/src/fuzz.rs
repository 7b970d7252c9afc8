//! Every decoder of bytes from outside, as a function of bytes that must not panic. The fuzz targets in `tests/fuzz` call
//! them with invented input; `tests/tests/corpus.rs` replays the corpus on every run.

use std::io::BufReader;
use ziggurat_base::{
    ByteCount, ChunkTable, Crc32, Key, SegmentId,
    frame::{HEADER_LEN, Header, Span, TokenSpan},
    unit::parse_span,
};
use ziggurat_engine::catalog::Matcher;

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
