//! Replays what fuzzing has found, and what it started from.

use std::{fs, path::Path};
use ziggurat_tests::fuzz::TARGETS;

#[test]
fn every_decoder_survives_its_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, decode) in TARGETS {
        let mut count = 0;
        for entry in fs::read_dir(root.join(name)).expect("every decoder has a corpus") {
            let path = entry.expect("the corpus can be listed").path();
            decode(&fs::read(&path).expect("a corpus file can be read"));
            count += 1;
        }
        assert!(count > 0, "the corpus of {name} is empty");
        let target = root
            .parent()
            .expect("has one")
            .join(format!("fuzz_targets/{name}.rs"));
        assert!(target.exists(), "{name} has no fuzz target");
    }
}

#[test]
fn every_decoder_survives_damaged_copies_of_its_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, decode) in TARGETS {
        for entry in fs::read_dir(root.join(name)).expect("every decoder has a corpus") {
            let bytes = fs::read(entry.expect("listed").path()).expect("read");
            for at in 0..bytes.len().min(300) {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << (at % 8);
                decode(&bad);
                decode(&bytes[..at]);
            }
        }
    }
}
