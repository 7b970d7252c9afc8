//! What is measured: the job files of fio-tests are the one description, for fio and for us.

use super::super::failed;
use ziggurat_base::{ByteCount, Result};

/// The job files by name, in the order of the report.
const JOBS: [(&str, &str); 9] = [
    (
        "read_4k",
        include_str!("../../../../../fio-tests/read_4k.fio"),
    ),
    (
        "read_64k",
        include_str!("../../../../../fio-tests/read_64k.fio"),
    ),
    (
        "read_1m",
        include_str!("../../../../../fio-tests/read_1m.fio"),
    ),
    (
        "read_4m",
        include_str!("../../../../../fio-tests/read_4m.fio"),
    ),
    (
        "read_16m",
        include_str!("../../../../../fio-tests/read_16m.fio"),
    ),
    (
        "write_64k",
        include_str!("../../../../../fio-tests/write_64k.fio"),
    ),
    (
        "write_1m",
        include_str!("../../../../../fio-tests/write_1m.fio"),
    ),
    (
        "write_4m",
        include_str!("../../../../../fio-tests/write_4m.fio"),
    ),
    (
        "write_16m",
        include_str!("../../../../../fio-tests/write_16m.fio"),
    ),
];

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Records are read in any order.
    Read,
    /// A file is filled from front to back.
    Write,
}

/// One job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) way: Way,
    /// Bytes of a request, and of the payload of an object.
    pub(super) block: u64,
    /// Requests under way.
    pub(super) depth: usize,
    /// What fio is given.
    pub(super) job: &'static str,
}

/// What is measured beside fio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The SSD tier: objects of up to 1 MiB.
    Tier,
    /// A root of shard files: objects from 1 MiB on.
    ShardFile,
}

impl Subject {
    fn has(self, block: u64) -> bool {
        match self {
            Self::Tier => block <= 1 << 20,
            Self::ShardFile => block >= 1 << 20,
        }
    }
}

/// The names of the shapes in which something is measured.
pub fn names(subject: Subject) -> impl Iterator<Item = &'static str> {
    let shapes = Shape::all(subject).unwrap_or_default();
    shapes.into_iter().map(|shape| shape.name)
}

impl Shape {
    /// All in which something is measured.
    pub(super) fn all(subject: Subject) -> Result<Vec<Self>> {
        let shapes = JOBS.iter().map(|(name, job)| Self::parse(name, job));
        let mut shapes = shapes.collect::<Result<Vec<_>>>()?;
        shapes.retain(|shape| subject.has(shape.block));
        Ok(shapes)
    }

    fn parse(name: &'static str, job: &'static str) -> Result<Self> {
        let value = |key: &str| {
            let mut pairs = job.lines().filter_map(|line| line.split_once('='));
            let found = pairs.find(|(found, _)| *found == key);
            let missing = || failed(&format!("job file {name}"), format!("it has no {key}"));
            found.map(|(_, value)| value).ok_or_else(missing)
        };
        let way = match value("rw")? {
            "randread" => Way::Read,
            "write" => Way::Write,
            other => {
                let what = format!("rw={other} is neither randread nor write");
                return Err(failed(&format!("job file {name}"), what));
            }
        };
        let bytes: ByteCount = format!("{}iB", value("bs")?.to_uppercase()).parse()?;
        let depth = value("iodepth")?;
        let depth = depth.parse();
        Ok(Self {
            name,
            way,
            block: bytes.0,
            depth: depth.map_err(|e| failed(&format!("job file {name}, iodepth"), e))?,
            job,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, Subject, Way, names};

    #[test]
    fn every_job_file_says_what_is_measured() {
        let shapes = Shape::all(Subject::Tier).unwrap();
        assert!(
            shapes
                .iter()
                .map(|shape| shape.name)
                .eq(names(Subject::Tier))
        );
        let seen: Vec<_> = shapes
            .iter()
            .map(|shape| (shape.way, shape.block >> 10, shape.depth))
            .collect();
        let wanted = [
            (Way::Read, 4, 32),
            (Way::Read, 64, 32),
            (Way::Read, 1024, 32),
            (Way::Write, 64, 32),
            (Way::Write, 1024, 32),
        ];
        assert_eq!(seen, wanted);
        let files = Shape::all(Subject::ShardFile).unwrap();
        let seen = files.iter().map(|shape| (shape.block >> 20, shape.depth));
        assert!(seen.eq([(1, 32), (4, 8), (16, 4), (1, 32), (4, 8), (16, 4)]));
        assert!(shapes.iter().chain(&files).all(|shape| {
            shape.job.contains(&format!("[{}]", shape.name)) && shape.job.contains("direct=1")
        }));
    }

    #[test]
    fn a_job_file_that_lacks_something_is_named() {
        for (job, missing) in [
            ("rw=write\nbs=4k", "iodepth"),
            ("bs=4k\niodepth=1", "rw"),
            ("rw=trim\nbs=4k\niodepth=1", "trim"),
        ] {
            let error = Shape::parse("x", job).unwrap_err();
            assert!(error.to_string().contains(missing), "{error}");
        }
    }
}
