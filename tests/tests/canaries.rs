//! Every planted bug is caught by the ordinary checks. `cargo test --features canary`.
#![cfg(feature = "canary")]

use ziggurat_tests::sim::canaries::canaries;

#[test]
fn every_planted_bug_is_caught() {
    let missed: Vec<_> = canaries(0, |line| eprintln!("{line}"))
        .into_iter()
        .filter(|one| one.seed.is_none())
        .map(|one| one.canary)
        .collect();
    assert_eq!(missed, []);
}
