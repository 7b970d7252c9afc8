//! The contract suite against every engine, on the disk of the build folder and on memory.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{path::Path, sync::Arc};
use tempfile::TempDir;
use ziggurat_io::{
    Choice, Direct, EngineKind, Options, Pool, Report, disk_contract,
    mem::{MemDisk, MemOptions},
    open,
    testkit::Stand,
};

const POOL: u64 = 2 << 20;

fn simulated(block: u32) -> Stand {
    let mut options = MemOptions::default();
    options.geometry.block = block;
    let disk = MemDisk::new(&Pool::new(POOL).unwrap(), options);
    Stand {
        disk: Arc::new(disk.clone()),
        again: Box::new(move || Arc::new(disk.clone())),
    }
}

fn real(root: &Path, options: &Options) -> Stand {
    let directory = TempDir::new_in(root).unwrap();
    let options = options.clone();
    let again = move || {
        let pool = Pool::new(POOL).unwrap();
        let (disk, report) = open(directory.path(), &pool, &options).unwrap();
        check(&report, &options);
        disk
    };
    Stand {
        disk: again(),
        again: Box::new(again),
    }
}

/// A machine on which io_uring is refused runs the suite with threads instead, which another test tells.
fn check(report: &Report, options: &Options) {
    if options.engine == Choice::Threads {
        assert_eq!(report.engine, EngineKind::Threads);
    }
    if options.direct == Direct::Never {
        assert!(!report.geometry.direct);
    }
}

fn build_folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn memory() -> &'static Path {
    Path::new("/dev/shm")
}

fn uring() -> Options {
    Options::default()
}

fn threads() -> Options {
    Options {
        engine: Choice::Threads,
        ..Options::default()
    }
}

fn buffered(options: Options) -> Options {
    Options {
        direct: Direct::Never,
        ..options
    }
}

/// Two requests under way: the window is full nearly all the time.
fn narrow(options: Options) -> Options {
    Options {
        depth: 2,
        threads: 2,
        ..options
    }
}

fn polled() -> Options {
    Options {
        sqpoll: Some(std::time::Duration::from_millis(50)),
        iopoll: true,
        ..Options::default()
    }
}

disk_contract!(simulation, || simulated(512));
disk_contract!(simulation_of_large_blocks, || simulated(4096));
disk_contract!(uring_direct, || real(build_folder(), &uring()));
disk_contract!(uring_buffered, || real(build_folder(), &buffered(uring())));
disk_contract!(uring_narrow, || real(build_folder(), &narrow(uring())));
disk_contract!(uring_polled, || real(build_folder(), &polled()));
disk_contract!(uring_on_memory, || real(memory(), &uring()));
disk_contract!(threads_direct, || real(build_folder(), &threads()));
disk_contract!(threads_buffered, || real(
    build_folder(),
    &buffered(threads())
));
disk_contract!(threads_narrow, || real(build_folder(), &narrow(threads())));
disk_contract!(threads_on_memory, || real(memory(), &threads()));
