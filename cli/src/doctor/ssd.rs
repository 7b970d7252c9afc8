//! SSD directories: whether they can be used, by which engine, and why by none better.

use super::Check;
use crate::config::Settings;
use ziggurat_base::ByteCount;

const NAME: &str = "SSD directory";

/// A check for each directory that is configured.
pub(super) fn directories(settings: &Settings) -> Vec<Check> {
    let options = settings.node.ssd();
    let looks = match options.look() {
        Ok(looks) => looks,
        Err(error) => {
            let cure = "give a smaller --ssd-staging";
            return vec![Check::fail(NAME, error.to_string(), cure)];
        }
    };
    let paths = options.directories.iter();
    let checks = paths.zip(looks).map(|(ssd, look)| {
        let path = ssd.path.display();
        match look {
            Err(error) => Check::fail(
                NAME,
                format!("{path}: {}", error.what()),
                error.code().cure(),
            ),
            Ok(look) => {
                let free = ByteCount(look.space.free);
                let mut engine = look.engine;
                let notes = std::mem::take(&mut engine.notes);
                let found = format!("{path}: {engine}; {free} free");
                if notes.is_empty() {
                    Check::ok(NAME, found)
                } else {
                    let why = format!("works, and could be faster: {}", notes.join("; "));
                    Check::warn(NAME, found, why)
                }
            }
        }
    });
    checks.collect()
}

#[cfg(test)]
mod tests {
    use super::directories;
    use crate::{config::Settings, doctor::Verdict};

    #[test]
    fn a_directory_tells_its_engine_and_one_that_is_missing_fails() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::defaults();
        assert!(directories(&settings).is_empty());
        let list = format!("{0},{0}/missing", dir.path().display());
        settings.node.ssd = Some(list.parse().unwrap());
        let checks = directories(&settings);
        assert_ne!(checks[0].verdict, Verdict::Fail, "{}", checks[0].found);
        assert!(checks[0].found.contains("free"), "{}", checks[0].found);
        assert_eq!(checks[1].verdict, Verdict::Fail);
        assert!(checks[1].found.contains("missing"), "{}", checks[1].found);
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 0, "the probe is taken away");
    }
}
