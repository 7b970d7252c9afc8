//! Reads the FAST'25 trace format: one JSON object a line, `{"timestamp": ms, "input_length": n, "output_length": n,
//! "hash_ids": [..]}`.
//!
//! A stream: one line is in memory at a time, at most [`LINE_LEN_MAX`] bytes. Refuses to guess: the first bad line ends
//! it with an error that names file, line, value and mend. Fields that it does not know, and blank lines, are skipped.

use crate::Request;
use serde::Deserialize;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};
use ziggurat_base::{ByteCount, Code, Error, Result};

/// The longest line: about 100,000 blocks, a prompt of 50 million tokens.
pub const LINE_LEN_MAX: usize = 1 << 20;

/// The most tokens of one prompt or answer, so that sums over any file cannot overflow.
pub const TOKENS_MAX: u64 = 1 << 40;

/// Characters of a bad line that an error quotes.
const QUOTE_LEN: usize = 60;

/// What a line looks like, for errors.
const EXAMPLE: &str =
    r#"{"timestamp": 0, "input_length": 700, "output_length": 20, "hash_ids": [1, 2]}"#;

/// The requests of one trace, in file order. Ends after the first error.
#[derive(Debug)]
pub struct Trace<R> {
    source: R,
    name: String,
    line: Vec<u8>,
    number: u64,
    requests: u64,
    ended: bool,
}

#[derive(Deserialize)]
struct Line {
    timestamp: u64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

impl Trace<BufReader<File>> {
    /// Opens a trace file.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] when there is no file that can be read.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let wrong = |why: &dyn std::fmt::Display| {
            let what = format!(
                "the trace {name} cannot be opened: {why}; give the path of a readable file"
            );
            Error::new(Code::InvalidParams, what)
        };
        let file = File::open(path).map_err(|error| wrong(&error))?;
        let kind = file.metadata().map_err(|error| wrong(&error))?;
        if kind.is_dir() {
            return Err(wrong(&"it is a directory"));
        }
        Ok(Self::new(name.to_string(), BufReader::new(file)))
    }
}

impl<R: BufRead> Trace<R> {
    /// Reads from `source`, which errors call `name`.
    pub fn new(name: String, source: R) -> Self {
        Self {
            source,
            name,
            line: Vec::new(),
            number: 0,
            requests: 0,
            ended: false,
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        let what = format!("{} line {}: {what}", self.name, self.number);
        Error::new(Code::InvalidParams, what)
    }

    /// The next line that is not blank; `None` at the end.
    fn next_line(&mut self) -> Result<Option<()>> {
        loop {
            self.line.clear();
            self.number += 1;
            // One byte more than is allowed, to tell a line of the greatest length from a longer one.
            let mut limited = self.source.by_ref().take(LINE_LEN_MAX as u64 + 1);
            let len = limited
                .read_until(b'\n', &mut self.line)
                .map_err(|error| self.wrong(format_args!("cannot be read: {error}")))?;
            if self.line.len() > LINE_LEN_MAX {
                let max = ByteCount(LINE_LEN_MAX as u64);
                return Err(self.wrong(format_args!(
                    "longer than {max}, starting {}; a line holds one request: {EXAMPLE}",
                    quote(&self.line)
                )));
            }
            if len == 0 {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(()));
            }
        }
    }

    fn parse(&self) -> Result<Request> {
        let text = self.line.trim_ascii();
        let line: Line = serde_json::from_slice(text).map_err(|error| {
            let column = error.column();
            let full = error.to_string();
            // The position in a text of one line would read as a line of the file.
            let why = full.split(" at line ").next().unwrap_or(&full);
            let quoted = quote(text);
            self.wrong(format_args!(
                "{why} (column {column}) in {quoted}; write whole numbers of at least 0, as in {EXAMPLE}"
            ))
        })?;
        for (field, value) in [
            ("input_length", line.input_length),
            ("output_length", line.output_length),
        ] {
            if value > TOKENS_MAX {
                return Err(self.wrong(format_args!(
                    "{field} is {value}; write at most {TOKENS_MAX} tokens"
                )));
            }
        }
        Ok(Request {
            timestamp_ms: line.timestamp,
            input_length: line.input_length,
            output_length: line.output_length,
            blocks: line.hash_ids,
        })
    }

    fn read(&mut self) -> Result<Option<Request>> {
        if self.next_line()?.is_some() {
            self.requests += 1;
            return self.parse().map(Some);
        }
        if self.requests == 0 {
            let what = format!(
                "the trace {} holds no requests; write one a line: {EXAMPLE}",
                self.name
            );
            return Err(Error::new(Code::InvalidParams, what));
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The start of a line, as people can read it.
fn quote(line: &[u8]) -> String {
    let start = &line[..line.len().min(QUOTE_LEN)];
    let more = if line.len() > QUOTE_LEN { "…" } else { "" };
    format!(
        "\"{}{more}\"",
        String::from_utf8_lossy(start).escape_debug()
    )
}

#[cfg(test)]
mod tests {
    use super::{LINE_LEN_MAX, Trace};
    use crate::Request;
    use std::path::Path;
    use ziggurat_base::{Code, Error};

    const GOOD: &str =
        r#"{"timestamp": 5, "input_length": 700, "output_length": 2, "hash_ids": [0, 9]}"#;

    fn read(text: &str) -> Result<Vec<Request>, Error> {
        Trace::new("t.jsonl".into(), text.as_bytes()).collect()
    }

    #[test]
    fn requests_come_in_file_order() {
        let other =
            r#"{"hash_ids":[],"type":"x","output_length":0,"input_length":0,"timestamp":9}"#;
        let requests = read(&format!("{GOOD}\n\n{other}\r\n  ")).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].blocks, [0, 9]);
        assert_eq!(requests[0].input_length, 700);
        assert_eq!((requests[1].timestamp_ms, requests[1].blocks.len()), (9, 0));
    }

    #[test]
    fn a_bad_line_is_named_with_its_value_and_the_mend() {
        let cases = [
            ("not json", "expected"),
            (
                r#"{"timestamp": 0, "input_length": 1}"#,
                "missing field `output_length`",
            ),
            (
                r#"{"timestamp": 0, "input_length": -3, "output_length": 1, "hash_ids": []}"#,
                "integer `-3`",
            ),
            (
                r#"{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [1, -2]}"#,
                "integer `-2`",
            ),
            (
                r#"{"timestamp": 0.5, "input_length": 3, "output_length": 1, "hash_ids": [1]}"#,
                "floating point `0.5`",
            ),
            (
                r#"{"timestamp": 0, "input_length": 9999999999999, "output_length": 1, "hash_ids": []}"#,
                "input_length is 9999999999999",
            ),
            (r#"{"timestamp": 0, "input_leng"#, "EOF"),
            ("\u{0}\u{1}", "expected value"),
        ];
        for (line, what) in cases {
            let error = read(&format!("{GOOD}\n{line}\n{GOOD}")).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
            let text = error.what();
            assert!(text.starts_with("t.jsonl line 2: "), "{text}");
            assert!(text.contains(what), "{text} lacks {what}");
            assert!(text.contains("write "), "{text} names no mend");
            assert!(!text.contains("at line"), "{text}");
        }
    }

    #[test]
    fn a_bad_line_ends_the_trace() {
        let text = format!("{GOOD}\nbad\n{GOOD}");
        let results: Vec<bool> = Trace::new("t".into(), text.as_bytes())
            .map(|request| request.is_ok())
            .collect();
        assert_eq!(results, [true, false]);
    }

    #[test]
    fn an_empty_trace_is_an_error() {
        for text in ["", "\n \n"] {
            let error = read(text).unwrap_err();
            assert!(
                error.what().contains("t.jsonl holds no requests"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_line_may_be_long_but_not_too_long() {
        let padded = format!("{GOOD}{}", " ".repeat(LINE_LEN_MAX - GOOD.len()));
        assert_eq!(read(&padded).unwrap().len(), 1);
        let error = read(&format!("{padded} \n")).unwrap_err();
        assert!(error.what().contains("line 1: longer than 1MiB"), "{error}");
    }

    #[test]
    fn a_path_that_cannot_be_opened_is_named() {
        for path in ["/nowhere/trace.jsonl", "/"] {
            let error = Trace::open(Path::new(path)).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
            assert!(
                error.what().contains(&format!("the trace {path} cannot")),
                "{error}"
            );
        }
    }
}
