//! What somebody probably meant.

/// The candidate that is closest to what was written, if one is close.
pub(super) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = written.to_lowercase().replace('_', "-");
    let near = candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&written, candidate), candidate))
        // A third of the letters may be wrong; more is another word.
        .filter(|(distance, candidate)| *distance * 3 <= candidate.len())
        .min();
    near.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_find_their_word_and_others_do_not() {
        let names = ["lease", "eviction-ratio", "seed"];
        assert_eq!(nearest("leese", names), Some("lease"));
        assert_eq!(nearest("eviction_ratio", names), Some("eviction-ratio"));
        assert_eq!(nearest("Sede", names), Some("seed"));
        assert_eq!(nearest("wattage", names), None);
    }
}
