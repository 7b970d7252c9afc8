//! Group A: sizes at which numbers of 31 and 32 bits end. They need memory that not every machine has to spare.

use super::rig::Cluster;
use std::time::{Duration, Instant};
use ziggurat_base::{ByteCount, Result};
use ziggurat_engine::testkit::skip::skip;
use ziggurat_store::{CatalogConfig, Force, MemoryOptions, OpenOptions, Store};

/// Asks for tests that need much time or memory; `cargo xtask test --heavy` sets it.
const HEAVY: &str = "ZIGGURAT_HEAVY";

/// The largest value and its copy in a segment, with some to spare.
const NEEDED: u64 = 9 << 30;

/// Whether memory for the largest sizes is there and asked for.
fn memory() -> bool {
    if std::env::var_os(HEAVY).is_none_or(|value| value.is_empty()) {
        skip(
            "field::sizes",
            "heavy",
            "takes 9 GiB of memory: ask with --heavy",
        );
        return false;
    }
    let available = available();
    if available < NEEDED {
        let why = format!(
            "9 GiB of memory are needed and {} MiB are free",
            available >> 20
        );
        skip("field::sizes", "memory", &why);
    }
    available >= NEEDED
}

/// Bytes that the machine can give without swapping.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("Linux tells");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.expect("Linux tells") << 10
}

/// A word for each place, so that no shift, cut or repetition goes unseen.
fn word(place: usize, salt: u64) -> [u8; 8] {
    (place as u64 ^ salt << 40)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes()
}

fn fill(value: &mut [u8], salt: u64) {
    for (place, chunk) in value.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(place, salt)[..chunk.len()]);
    }
}

fn is_filled(value: &[u8], salt: u64) -> bool {
    let mut chunks = value.chunks(8).enumerate();
    chunks.all(|(place, chunk)| chunk == &word(place, salt)[..chunk.len()])
}

/// Each size comes back exactly, whole and at its end.
async fn are_exact(store: &Store) -> Result<()> {
    for len in [(1 << 31) - 1, 1 << 31, (1_usize << 32) + 4097] {
        let salt = len as u64;
        let mut value = vec![0; len];
        fill(&mut value, salt);
        store.put("large", &value).await?;
        assert_eq!(store.size("large").await?, Some(len as u64));
        value.fill(0xa5);
        assert_eq!(store.get_into("large", &mut value).await?, Some(len as u64));
        assert!(is_filled(&value, salt), "{len} bytes");
        let tail = len - 100_000;
        let got = store.get_range("large", tail as u64, 100_000).await?;
        assert!(
            got.as_deref() == Some(&value[tail..]),
            "the end of {len} bytes"
        );
        assert!(store.get_range("large", len as u64, 1).await.is_err());
        store.remove("large", Force::Yes).await?;
    }
    // The guard of the last read may still be on its way back.
    let deadline = Instant::now() + 3 * LEASE;
    while store.stats().await?.used > 0 {
        assert!(Instant::now() < deadline, "the space returns");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

const SEGMENT_MIB: u64 = (4 << 10) + 64;

/// A read of 4 GiB takes its time, and must be done within its lease; and the largest object alone is above a usual
/// watermark.
const LEASE: Duration = Duration::from_secs(20);

fn patient() -> CatalogConfig {
    CatalogConfig {
        lease: LEASE,
        high_watermark: 1.0,
        ..CatalogConfig::default()
    }
}

#[tokio::test]
async fn process_sizes_around_two_and_four_gib_are_exact_in_process() -> Result<()> {
    if !memory() {
        return Ok(());
    }
    let store = Store::open(OpenOptions {
        memory: MemoryOptions {
            dram: ByteCount::mib(SEGMENT_MIB),
            ..MemoryOptions::default()
        },
        catalog: patient(),
        ..OpenOptions::default()
    })?;
    are_exact(&store).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_sizes_around_two_and_four_gib_are_exact_over_sockets() -> Result<()> {
    if !memory() {
        return Ok(());
    }
    let cluster = Cluster::start(patient(), SEGMENT_MIB, 1).await;
    are_exact(&cluster.connect().await).await
}
