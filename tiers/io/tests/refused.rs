//! What the machine, the container or the filesystem may refuse: the driver works on, slower, and says so.
//!
//! A test that needs another world starts itself in a child that has it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use pollster::block_on;
use std::{
    collections::BTreeMap,
    env,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;
use ziggurat_base::Code;
use ziggurat_engine::testkit::skip::skip;
use ziggurat_io::{
    Choice, Direct, EngineKind, Options, Pool, Report, Request, open,
    testkit::{self, Stand},
};

/// Set in a child: the directory to use.
const CHILD: &str = "ZIGGURAT_IO_CHILD";
const POOL: u64 = 2 << 20;

fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options(engine: Choice) -> Options {
    Options {
        engine,
        ..Options::default()
    }
}

/// The directory of a child, when this process is one.
fn child() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}

/// Runs one test of this file again, behind `before`, which is a shell command ending in `exec`.
fn again(test: &str, directory: &Path, before: &str) {
    let program = env::current_exe().unwrap();
    let script = format!("{before} \"$@\"");
    let output = Command::new("sh")
        .args(["-ec", &script, "sh"])
        .arg(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "the child ran nothing: {text}");
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status")
        .unwrap()
        .lines()
        .any(|line| line.starts_with("Uid:\t0\t"))
}

/// Runs the parts of the contract suite that touch every path of an engine.
fn works(directory: &Path, wanted: &Options) -> Report {
    let pool = Pool::new(POOL).unwrap();
    let (disk, report) = open(directory, &pool, wanted).unwrap();
    let (path, options) = (directory.to_owned(), wanted.clone());
    let stand = Stand {
        disk,
        again: Box::new(move || open(&path, &Pool::new(POOL).unwrap(), &options).unwrap().0),
    };
    testkit::written_is_read(&stand);
    block_on(stand.disk.remove("a")).unwrap();
    testkit::a_large_batch_lands(&stand);
    assert_eq!(left_behind(directory), ["a"]);
    report
}

fn left_behind(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Makes system calls fail with a number from now on, for threads to come too.
fn forbid(calls: &[i64], number: u32) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        calls.iter().map(|call| (*call, Vec::new())).collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(number),
        env::consts::ARCH.try_into().unwrap(),
    )
    .unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

fn refused_ring(test: &str, call: i64, number: u32) {
    let Some(directory) = child() else {
        let folder = folder();
        return again(test, folder.path(), "exec");
    };
    forbid(&[call], number);
    let report = works(&directory, &Options::default());
    assert_eq!(report.engine, EngineKind::Threads);
    let cause = std::io::Error::from_raw_os_error(number.try_into().unwrap());
    let text = report.to_string();
    assert!(
        text.contains("io_uring") && text.contains(&cause.to_string()),
        "{text}"
    );
    let pool = Pool::new(POOL).unwrap();
    let error = open(&directory, &pool, &options(Choice::Uring)).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
    assert!(error.what().contains("`threads`"), "{error}");
}

#[test]
fn a_container_that_forbids_rings_gets_threads() {
    let number = libc::EPERM.unsigned_abs();
    refused_ring(
        "a_container_that_forbids_rings_gets_threads",
        libc::SYS_io_uring_setup,
        number,
    );
}

#[test]
fn a_kernel_without_rings_gets_threads() {
    let number = libc::ENOSYS.unsigned_abs();
    refused_ring(
        "a_kernel_without_rings_gets_threads",
        libc::SYS_io_uring_setup,
        number,
    );
}

#[test]
fn a_ring_that_may_be_made_and_not_entered_gets_threads() {
    let number = libc::EPERM.unsigned_abs();
    refused_ring(
        "a_ring_that_may_be_made_and_not_entered_gets_threads",
        libc::SYS_io_uring_enter,
        number,
    );
}

#[test]
fn a_ring_that_registers_nothing_works_without() {
    let Some(directory) = child() else {
        let folder = folder();
        return again(
            "a_ring_that_registers_nothing_works_without",
            folder.path(),
            "exec",
        );
    };
    forbid(&[libc::SYS_io_uring_register], libc::EPERM.unsigned_abs());
    let report = works(&directory, &Options::default());
    assert_eq!(report.engine, EngineKind::Uring);
    assert!(
        !report.registered_buffers && !report.registered_files,
        "{report}"
    );
    assert_eq!(report.notes.len(), 2, "{report}");
}

#[test]
fn little_memory_that_may_be_locked_means_buffers_that_are_not_registered() {
    const TEST: &str = "little_memory_that_may_be_locked_means_buffers_that_are_not_registered";
    let Some(directory) = child() else {
        let folder = folder();
        // Root may lock what it likes unless it gives that up.
        let before = "setpriv --bounding-set=-ipc_lock prlimit --memlock=65536:65536";
        if Command::new("sh")
            .args(["-c", &format!("{before} true")])
            .output()
            .is_ok_and(|output| output.status.success())
        {
            return again(TEST, folder.path(), &format!("exec {before}"));
        }
        return skip(
            "little_memory_that_may_be_locked_means_buffers_that_are_not_registered",
            "root",
            "only root can give up the right to lock memory",
        );
    };
    let report = works(&directory, &Options::default());
    assert_eq!(report.engine, EngineKind::Uring);
    assert!(
        !report.registered_buffers && report.registered_files,
        "{report}"
    );
    assert!(report.to_string().contains("may lock 64KiB"), "{report}");
}

/// Runs the rest of a test on a filesystem of its own, made by `mount` with the options given.
fn on_tmpfs(test: &'static str, size: &str) -> Option<PathBuf> {
    if let Some(directory) = child() {
        return Some(directory);
    }
    let mounts = Command::new("unshare").args(["-m", "true"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        skip(
            "on_a_small_filesystem",
            "mounts",
            "only root, and outside of a chroot, can mount a small filesystem",
        );
        return None;
    }
    let folder = folder();
    let path = folder.path().display();
    let before =
        format!("unshare -m sh -ec 'mount -t tmpfs -o size={size} tmpfs {path}; exec \"$@\"' sh");
    again(test, folder.path(), &format!("exec {before}"));
    None
}

#[test]
fn a_full_disk_says_so_and_takes_writes_again_when_it_has_room() {
    const TEST: &str = "a_full_disk_says_so_and_takes_writes_again_when_it_has_room";
    let Some(directory) = on_tmpfs(TEST, "1m") else {
        return;
    };
    for engine in [Choice::Uring, Choice::Threads] {
        let pool = Pool::new(POOL).unwrap();
        let (disk, _) = open(&directory, &pool, &options(engine)).unwrap();
        let error = block_on(disk.create("large", 2 << 20)).unwrap_err();
        assert_eq!(error.code(), Code::NoAvailableHandle);
        assert!(
            error.what().contains("large") && error.what().contains("free some space"),
            "{error}"
        );
        assert_eq!(
            left_behind(&directory),
            [""; 0],
            "nothing is left of a file that did not fit"
        );

        let file = block_on(disk.create("small", 64 << 10)).unwrap();
        block_on(file.punch(0, 64 << 10)).unwrap();
        let room = block_on(disk.space()).unwrap().free;
        fs::write(directory.join("foreign"), vec![1; room as usize]).unwrap();
        let write = || {
            let mut buffer = pool.try_take(64 << 10).unwrap();
            buffer.fill(7);
            let sync = true;
            Request::Write {
                offset: 0,
                buffer,
                sync,
            }
        };
        let landed = block_on(file.start(vec![write()]).remove(0));
        assert_eq!(landed.result.unwrap_err().code(), Code::NoAvailableHandle);
        assert!(landed.buffer.is_some());
        let full = open(&directory, &pool, &options(engine)).unwrap().1;
        assert!(full.to_string().contains("is full"), "{full}");
        fs::remove_file(directory.join("foreign")).unwrap();
        block_on(file.start(vec![write()]).remove(0))
            .result
            .unwrap();
        block_on(disk.remove("small")).unwrap();
    }
}

#[test]
fn a_directory_that_may_not_be_written_is_named_with_the_cure() {
    const TEST: &str = "a_directory_that_may_not_be_written_is_named_with_the_cure";
    let Some(directory) = on_tmpfs(TEST, "1m") else {
        return;
    };
    let remount = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&directory)
        .status();
    assert!(remount.unwrap().success());
    let error = open(&directory, &Pool::new(POOL).unwrap(), &Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::FileOpenFail);
    let what = error.what();
    assert!(
        what.contains(&*directory.to_string_lossy()) && what.contains("mount it for writing"),
        "{what}"
    );
}

#[test]
fn memory_takes_direct_requests_at_any_alignment() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    for engine in [Choice::Auto, Choice::Threads] {
        let report = works(folder.path(), &options(engine));
        assert_eq!(report.geometry.block, 512);
        fs::remove_file(folder.path().join("a")).unwrap();
    }
}

#[test]
fn buffered_requests_are_said_to_be_so() {
    let folder = folder();
    let wanted = Options {
        direct: Direct::Never,
        ..Options::default()
    };
    let report = works(folder.path(), &wanted);
    assert!(!report.geometry.direct);
    assert!(report.to_string().contains("buffered"), "{report}");
}

#[test]
fn directories_that_cannot_be_used_are_named_with_the_cure() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let missing = folder.path().join("missing");
    let cases = [
        (&missing, Code::FileNotFound, "make it"),
        (&file, Code::FileOpenFail, "is a file"),
        (&file.join("below"), Code::FileOpenFail, "Not a directory"),
    ];
    for (path, code, cure) in cases {
        let error = open(path, &Pool::new(POOL).unwrap(), &Options::default()).unwrap_err();
        assert_eq!(error.code(), code);
        let what = error.what();
        assert!(
            what.contains(&*path.to_string_lossy()) && what.contains(cure),
            "{what}"
        );
    }
    if !is_root() {
        fs::set_permissions(folder.path(), Permissions::from_mode(0o500)).unwrap();
        let error = open(
            folder.path(),
            &Pool::new(POOL).unwrap(),
            &Options::default(),
        );
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(error.unwrap_err().what().contains("right to write"));
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let folder = folder();
    for bad in [0, Options::WINDOW_MAX + 1] {
        for wanted in [
            Options {
                depth: bad,
                ..Options::default()
            },
            Options {
                threads: bad,
                ..Options::default()
            },
        ] {
            let error = open(folder.path(), &Pool::new(POOL).unwrap(), &wanted).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams);
            assert!(error.what().contains(&bad.to_string()), "{error}");
        }
    }
}

#[test]
fn a_file_that_somebody_cut_is_an_error_that_names_its_end() {
    let folder = folder();
    for engine in [Choice::Auto, Choice::Threads] {
        for direct in [Direct::Auto, Direct::Never] {
            let wanted = Options {
                direct,
                ..options(engine)
            };
            let pool = Pool::new(POOL).unwrap();
            let (disk, _) = open(folder.path(), &pool, &wanted).unwrap();
            let file = block_on(disk.create("cut", 16 << 10)).unwrap();
            for end in [5000, 0] {
                let path = folder.path().join("cut");
                fs::OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(end)
                    .unwrap();
                let buffer = pool.try_take(16 << 10).unwrap();
                let landed = block_on(
                    file.start(vec![Request::Read { offset: 0, buffer }])
                        .remove(0),
                );
                let error = landed.result.unwrap_err();
                assert_eq!(error.code(), Code::FileReadFail);
                let what = error.what();
                assert!(
                    what.contains("read of 16384 bytes at 0 of")
                        && what.contains(&format!("ends at {end}")),
                    "{what}"
                );
            }
            block_on(disk.remove("cut")).unwrap();
        }
    }
}

#[test]
fn links_and_folders_are_not_files() {
    let folder = folder();
    let outside = folder.path().join("outside");
    let inside = folder.path().join("disk");
    fs::create_dir_all(inside.join("folder")).unwrap();
    fs::write(&outside, [1; 4096]).unwrap();
    symlink(&outside, inside.join("link")).unwrap();
    let (disk, _) = open(&inside, &Pool::new(POOL).unwrap(), &Options::default()).unwrap();
    assert_eq!(block_on(disk.list()).unwrap(), []);
    let error = block_on(disk.open("link")).unwrap_err();
    assert_eq!(error.code(), Code::FileOpenFail);
    assert!(error.what().contains("symbolic link"), "{error}");
    assert_eq!(
        block_on(disk.open("folder")).unwrap_err().code(),
        Code::FileOpenFail
    );
    assert_eq!(
        block_on(disk.create("link", 512)).unwrap_err().code(),
        Code::FileOpenFail
    );
    assert_eq!(fs::read(&outside).unwrap(), [1; 4096]);
}

#[test]
fn what_an_interrupted_start_left_is_swept_and_what_is_in_use_is_not() {
    let folder = folder();
    let remnant = folder.path().join(".ziggurat-probe-1-0");
    let in_use = folder.path().join(".ziggurat-probe-2-0");
    fs::write(&remnant, [0; 10]).unwrap();
    let held = fs::File::create(&in_use).unwrap();
    held.lock().unwrap();
    let (disk, _) = open(
        folder.path(),
        &Pool::new(POOL).unwrap(),
        &Options::default(),
    )
    .unwrap();
    assert!(!remnant.exists() && in_use.exists());
    assert_eq!(block_on(disk.list()).unwrap(), []);
}

#[test]
fn starts_at_the_same_time_do_not_disturb_each_other() {
    let folder = folder();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let pool = Pool::new(64 << 10).unwrap();
                open(folder.path(), &pool, &Options::default()).unwrap();
            });
        }
    });
    assert_eq!(left_behind(folder.path()), [""; 0]);
}

#[test]
fn the_threads_of_a_disk_end_with_it() {
    const TEST: &str = "the_threads_of_a_disk_end_with_it";
    let Some(directory) = child() else {
        let folder = folder();
        return again(TEST, folder.path(), "exec");
    };
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    for engine in [Choice::Auto, Choice::Threads] {
        let pool = Pool::new(POOL).unwrap();
        let (disk, _) = open(&directory, &pool, &options(engine)).unwrap();
        let file = block_on(disk.create("a", 1 << 20)).unwrap();
        assert!(threads() > before);
        drop(disk);
        let buffer = pool.try_take(1 << 20).unwrap();
        let flight = file.start(vec![Request::Write {
            offset: 0,
            buffer,
            sync: true,
        }]);
        drop(file);
        assert_eq!(pool.in_use(), 1 << 20, "held by what has landed");
        drop(flight);
        assert_eq!(pool.in_use(), 0);
        fs::remove_file(directory.join("a")).unwrap();
        assert_eq!(threads(), before);
    }
}
