//! A filesystem without room: the tier takes nothing, reads go on, and it resumes by itself.

use super::rig::{again_with, append, can_mount, child, folder, is_there, open};
use std::{fs, path::Path, time::Duration};
use ziggurat_base::{Clock, Code, ManualClock};
use ziggurat_engine::testkit::skip::skip;
use ziggurat_io::Choice;
use ziggurat_tiers::ssd::News;

#[test]
fn a_full_filesystem_makes_the_tier_read_only_until_it_has_room() {
    const TEST: &str = "full::a_full_filesystem_makes_the_tier_read_only_until_it_has_room";
    if let Some(directory) = child() {
        for engine in [Choice::Uring, Choice::Threads] {
            fills_and_resumes(&directory, engine);
        }
    } else if !can_mount() {
        skip(
            "a_full_filesystem_makes_the_tier_read_only",
            "mounts",
            "only root, and outside of a chroot, can mount a small filesystem",
        );
    } else {
        again_with(TEST, folder().path(), "mount -t tmpfs -o size=24m tmpfs $0");
    }
}

fn fills_and_resumes(directory: &Path, engine: Choice) {
    let clock = ManualClock::default();
    let (tier, _) = open(directory, engine, &clock);
    let foreign = directory.join("foreign");
    fs::write(&foreign, vec![1; 12 << 20]).unwrap();
    // Other people's files take the room, long before the directory has its size.
    let mut taken = 0;
    let refused = loop {
        match append(&tier, taken + 1) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Code::NoAvailableHandle, "{refused}");
    assert!((3..40).contains(&taken), "{taken}");
    let stats = tier.stats();
    assert!(stats.full && stats.file_bytes < stats.capacity, "{stats:?}");
    // Nothing is tried before a second has passed; then one batch is.
    let errors = stats.write_errors;
    let paused = append(&tier, 101).unwrap_err();
    assert_eq!(paused.code(), Code::UnableOffloading);
    assert_eq!(tier.stats().write_errors, errors);
    let later = || clock.advance_to(clock.now().after(Duration::from_secs(1)));
    later();
    assert_eq!(
        append(&tier, 102).unwrap_err().code(),
        Code::NoAvailableHandle
    );
    assert!((1..=taken).all(|ticket| is_there(&tier, ticket)));
    let news = tier.take_news();
    let refused = news
        .iter()
        .filter(|one| matches!(one, News::Refused { .. }));
    assert_eq!(
        refused.count(),
        3,
        "each is told, and nothing is evicted: {news:?}"
    );
    // Room again: the next trial ends it.
    fs::remove_file(&foreign).unwrap();
    later();
    append(&tier, 103).unwrap();
    append(&tier, 104).unwrap();
    assert!(!tier.stats().full);
    drop(tier);
    let (tier, recovered) = open(directory, engine, &clock);
    assert_eq!(recovered.remarks, [""; 0], "no partial file is left");
    assert_eq!(recovered.records, taken + 2);
    assert!((1..=taken).chain([103, 104]).all(|t| is_there(&tier, t)));
    drop(tier);
    for entry in fs::read_dir(directory).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}
