//! The simulator as a test: a handful of fresh seeds, and every seed that ever failed.

use std::{fs, path::Path};
use ziggurat_tests::sim::{
    Telling,
    batch::{Until, batch},
    run,
};

#[test]
fn fifty_seeds_break_no_rule() {
    let batch = batch(0..50, Until::End, |line| eprintln!("{line}"));
    assert_eq!(
        batch.violations,
        [],
        "replay with `cargo xtask sim --from SEED --seeds 1`"
    );
    assert_eq!((batch.seeds, batch.wrong_bytes), (50, 0));
    assert!(batch.ops >= 50 * 2_000, "{} operations", batch.ops);
    let faults: u64 = batch.faults.values().sum();
    assert!(faults >= 50 * 50, "{faults} faults");
    let coverage = batch.coverage();
    assert_eq!(coverage.impossible, [""; 0]);
    assert!(coverage.share() >= 0.95, "{coverage:?}");
}

/// Lines of a file of seeds: a number, then what it once showed.
fn seeds(text: &str) -> Vec<u64> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| line.parse().expect("a seed is a number"))
        .collect()
}

#[test]
fn seeds_that_once_failed_break_no_rule() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("tests/seeds is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        for seed in seeds(&fs::read_to_string(&path).expect("readable")) {
            let outcome = run(seed, Telling::Silent);
            assert_eq!(outcome.violations, [], "seed {seed} of {}", path.display());
        }
    }
}
