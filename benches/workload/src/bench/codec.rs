//! Codecs of the SSD tier on data like what they are for: how much shorter it becomes, and what that costs.
//!
//! The data are keys and values of a small transformer (`kv`), whose weights are random: nobody has trained it. A trained
//! model's keys have outliers and structure that these lack, so what a sample of real data says counts for more.

mod kv;

use super::{Progress, failed, stopwatch::cpu_of};
use serde::Serialize;
use std::{path::PathBuf, time::Duration};
use ziggurat_base::{CHUNK, Code, Error, Result, hash::Dice};
use ziggurat_tiers::ssd::{
    Codec, LEVEL_MAX,
    format::codec::{Index, decode, encode_chunk, index_len},
    pays,
};

/// What to measure.
#[derive(Clone, Debug)]
pub struct CodecOptions {
    /// Data of one's own, beside those that are made.
    pub sample: Option<PathBuf>,
    /// Levels of Zstandard, each a row.
    pub levels: Vec<u8>,
    /// Processor time that each direction of each row takes, at least.
    pub span: Duration,
    /// Everything that is made derives from it.
    pub seed: u64,
}

impl Default for CodecOptions {
    fn default() -> Self {
        Self {
            sample: None,
            levels: vec![1, 3],
            span: Duration::from_millis(500),
            seed: 1,
        }
    }
}

/// One codec on one kind of data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodecRow {
    /// Which data.
    pub data: String,
    /// Bytes of them.
    pub bytes: u64,
    /// Name of the codec.
    pub codec: &'static str,
    /// Level of Zstandard.
    pub level: u8,
    /// Bytes before for each byte after, index included; less than 1 when it grows.
    pub ratio: f64,
    /// Whether the tier would store it so: it saves an eighth, in blocks of 4 KiB.
    pub pays: bool,
    /// Bytes of payload compressed in a second of one core, in 10^9.
    pub compress_gbps: f64,
    /// Bytes of payload decompressed in a second of one core, in 10^9.
    pub decompress_gbps: f64,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodecReport {
    /// Every codec on everything.
    pub rows: Vec<CodecRow>,
    /// Bytes of an object: larger data are cut.
    pub object_bytes: u64,
}

/// Bytes of an object.
const OBJECT: usize = 1 << 20;

/// Bytes of a block of the device: the largest that there is.
const BLOCK: u64 = 4096;

/// The most that is taken of a sample.
const SAMPLE_MAX: usize = 64 << 20;

/// Measures every codec.
///
/// # Errors
/// `InvalidParams` for a level that does not exist or a sample that is empty, `FileReadFail` for one that cannot be read, and
/// `ChecksumMismatch` should a codec not give back what it was given.
pub fn codec(options: &CodecOptions, progress: Progress<'_>) -> Result<CodecReport> {
    if let Some(level) = options
        .levels
        .iter()
        .find(|l| !(1..=LEVEL_MAX).contains(*l))
    {
        return Err(Error::new(
            Code::InvalidParams,
            format!("there is no level {level}: give 1 to {LEVEL_MAX}"),
        ));
    }
    let mut data = Vec::new();
    if let Some(path) = &options.sample {
        data.push((path.display().to_string(), sample(path)?));
    }
    progress("keys and values of a transformer with random weights");
    let made = kv::made(options.seed);
    data.push(("keys, bf16, random weights".into(), made.keys));
    data.push(("values, bf16, random weights".into(), made.values));
    data.push(("noise".into(), noise(options.seed, OBJECT)));
    let mut rows = Vec::new();
    for (name, bytes) in &data {
        for codec in [Codec::Zstd, Codec::Planes] {
            for level in &options.levels {
                progress(&format!("{codec}, level {level}, on {name}"));
                rows.push(row(name, bytes, codec, *level, options.span)?);
            }
        }
    }
    Ok(CodecReport {
        rows,
        object_bytes: OBJECT as u64,
    })
}

fn sample(path: &PathBuf) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let cannot = |error: std::io::Error| {
        Error::new(
            Code::FileReadFail,
            format!("the sample {} cannot be read: {error}", path.display()),
        )
    };
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    let read = file.take(SAMPLE_MAX as u64).read_to_end(&mut bytes);
    read.map_err(cannot)?;
    if bytes.is_empty() {
        return Err(Error::new(
            Code::InvalidParams,
            format!("the sample {} is empty: give some data", path.display()),
        ));
    }
    Ok(bytes)
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..len / 8)
        .flat_map(|_| dice.roll().to_le_bytes())
        .collect()
}

/// An object as a tier stores it.
fn compress(codec: Codec, level: u8, object: &[u8]) -> Result<Vec<u8>> {
    let mut stored = vec![0; index_len(object.len() as u64) as usize];
    let mut lens = Vec::new();
    for chunk in object.chunks(CHUNK) {
        let start = stored.len();
        encode_chunk(codec, level, chunk, &mut stored)?;
        lens.push((stored.len() - start) as u32);
    }
    let index = Index::encode(&lens);
    stored[..index.len()].copy_from_slice(&index);
    Ok(stored)
}

fn row(name: &str, bytes: &[u8], codec: Codec, level: u8, span: Duration) -> Result<CodecRow> {
    let objects: Vec<_> = bytes.chunks(OBJECT).collect();
    let (mut into, mut took, mut stored) = (0, Duration::ZERO, Vec::new());
    while took < span {
        let (all, cpu) = cpu_of(|| {
            let all = objects.iter().map(|object| compress(codec, level, object));
            all.collect::<Result<Vec<_>>>()
        });
        (stored, took, into) = (all?, took + cpu, into + bytes.len());
    }
    let (mut out, mut back) = (0, Duration::ZERO);
    let mut chunk = Vec::new();
    while back < span {
        let (done, cpu) = cpu_of(|| {
            objects
                .iter()
                .zip(&stored)
                .try_for_each(|(object, stored)| {
                    decode(codec, object.len() as u64, stored, &mut |bytes| {
                        chunk.clear();
                        chunk.extend_from_slice(bytes);
                    })
                })
        });
        done?;
        (back, out) = (back + cpu, out + bytes.len());
    }
    for (object, stored) in objects.iter().zip(&stored) {
        let mut again = Vec::with_capacity(object.len());
        decode(codec, object.len() as u64, stored, &mut |bytes| {
            again.extend_from_slice(bytes);
        })?;
        if again != *object {
            return Err(failed(
                &format!("{codec} on {name}"),
                "other bytes came back",
            ));
        }
    }
    let after: usize = stored.iter().map(Vec::len).sum();
    let in_blocks = |object: &[u8]| (object.len() as u64).next_multiple_of(BLOCK);
    let before_on_disk = objects.iter().map(|object| in_blocks(object)).sum();
    let after_on_disk = stored.iter().map(|object| in_blocks(object)).sum();
    let gbps = |bytes: usize, span: Duration| bytes as f64 / span.as_secs_f64() / 1e9;
    Ok(CodecRow {
        data: name.into(),
        bytes: bytes.len() as u64,
        codec: codec.name(),
        level,
        ratio: bytes.len() as f64 / after as f64,
        pays: pays(after_on_disk, before_on_disk, BLOCK),
        compress_gbps: gbps(into, took),
        decompress_gbps: gbps(out, back),
    })
}

#[cfg(test)]
mod tests {
    use super::{CodecOptions, CodecRow, codec, kv};
    use std::{io::Write as _, time::Duration};
    use ziggurat_base::Code;

    fn quick() -> CodecOptions {
        CodecOptions {
            levels: vec![1],
            span: Duration::from_nanos(1),
            ..CodecOptions::default()
        }
    }

    #[test]
    fn every_codec_is_measured_on_everything() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let options = CodecOptions {
            sample: Some(file.path().into()),
            ..quick()
        };
        let report = codec(&options, &mut |_| {}).unwrap();
        assert_eq!(report.rows.len(), 8);
        assert!(report.rows.iter().all(|row| row.compress_gbps > 0.0));
        let of = |data: &str, right: &dyn Fn(&CodecRow) -> bool| {
            let mut rows = report.rows.iter();
            let all = rows.all(|row| !row.data.contains(data) || right(row));
            all && report.rows.iter().any(|row| row.data.contains(data))
        };
        let path = file.path().display().to_string();
        assert!(of(&path, &|row| row.pays && row.ratio > 50.0));
        assert!(of("noise", &|row| !row.pays && row.ratio > 0.99));
        assert!(of("keys", &|row| row.ratio > 1.0));
    }

    #[test]
    fn what_is_made_is_the_same_every_time_and_looks_like_numbers() {
        let made = kv::made(3);
        assert_eq!(made.keys, kv::made(3).keys);
        assert_ne!(made.keys, kv::made(4).keys);
        for bytes in [&made.keys, &made.values] {
            assert_eq!(bytes.len(), kv::BYTES);
            let numbers = bytes.as_chunks::<2>().0.iter();
            let numbers: Vec<f32> = numbers
                .map(|two| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16))
                .collect();
            assert!(numbers.iter().all(|number| number.is_finite()));
            let square = numbers.iter().map(|n| f64::from(n * n)).sum::<f64>();
            let size = (square / numbers.len() as f64).sqrt();
            assert!((0.1..10.0).contains(&size), "{size}");
        }
    }

    #[test]
    fn wrong_options_are_named() {
        let code = |options: &CodecOptions| codec(options, &mut |_| {}).map_err(|e| e.code()).err();
        let level = CodecOptions {
            levels: vec![20],
            ..quick()
        };
        assert_eq!(code(&level), Some(Code::InvalidParams));
        let absent = CodecOptions {
            sample: Some("/nowhere/sample".into()),
            ..quick()
        };
        assert_eq!(code(&absent), Some(Code::FileReadFail));
    }
}
