//! A tier on a filesystem of its own, in a child that may do with it what it likes.

use pollster::block_on;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};
use ziggurat_base::{ByteCount, Crc32, DirectoryId, Key, ManualClock, Result, Ticket};
use ziggurat_engine::{command::Hint, shelf::holdings::Names};
use ziggurat_io::{Choice, Options as DiskOptions, Pool};
use ziggurat_tiers::ssd::{Item, Options, Recovered, SsdTier, Wanted, WriteBudget};

/// Set in a child: the directory to use.
pub(crate) const CHILD: &str = "ZIGGURAT_TIERS_CHILD";

pub(crate) const LEN: usize = 600_000;

pub(crate) fn payload(ticket: u64) -> Vec<u8> {
    (0..LEN)
        .map(|at| (at as u64 * 31 + ticket * 7) as u8)
        .collect()
}

/// How a directory is opened.
pub(crate) struct Setup {
    pub(crate) engine: Choice,
    pub(crate) write_budget: Option<WriteBudget>,
}

pub(crate) fn open(directory: &Path, engine: Choice, clock: &ManualClock) -> (SsdTier, Recovered) {
    let setup = Setup {
        engine,
        write_budget: None,
    };
    open_as(directory, &setup, clock)
}

pub(crate) fn open_as(
    directory: &Path,
    setup: &Setup,
    clock: &ManualClock,
) -> (SsdTier, Recovered) {
    let options = DiskOptions {
        engine: setup.engine,
        ..DiskOptions::default()
    };
    let (disk, _) = ziggurat_io::open(directory, &Pool::new(8 << 20).unwrap(), &options).unwrap();
    let tier = Options {
        capacity: ByteCount::mib(64),
        file_bytes: ByteCount::mib(2),
        batch_bytes: ByteCount::mib(1),
        write_budget: setup.write_budget,
        ..Options::default()
    };
    let opened = SsdTier::open(disk, Arc::new(clock.clone()), tier, DirectoryId(1));
    block_on(opened).unwrap()
}

pub(crate) fn append(tier: &SsdTier, ticket: u64) -> Result<()> {
    let bytes = payload(ticket);
    let key = format!("key/{ticket}");
    let mut source = &bytes[..];
    let mut items = [Item {
        names: Names {
            tenant: "default",
            key: Key::new(key.as_bytes()).unwrap(),
            parent: None,
            group: None,
        },
        ticket: Ticket(ticket),
        len: LEN as u64,
        crc: Crc32::of(&bytes),
        hint: Hint::None,
        pinned: false,
        source: &mut source,
    }];
    block_on(tier.append(&mut items)).remove(0)
}

/// Whether an object is there; what is has the right bytes.
pub(crate) fn is_there(tier: &SsdTier, ticket: u64) -> bool {
    let found = block_on(tier.read(&Wanted::whole(Ticket(ticket), LEN as u64)));
    found.is_ok_and(|found| {
        assert!(found.bytes() == payload(ticket), "object {ticket}");
        true
    })
}

/// The directory of the child that this is.
pub(crate) fn child() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}

/// Whether filesystems can be mounted where nobody else sees them: by root, and outside of a chroot.
pub(crate) fn can_mount() -> bool {
    let mounts = Command::new("unshare").args(["-m", "true"]).output();
    mounts.is_ok_and(|output| output.status.success())
}

/// Runs the test again in a child whose mounts are its own, after `prepare`, in which `$0` is the directory.
pub(crate) fn again_with(test: &str, directory: &Path, prepare: &str) {
    let script = format!("{prepare}; shift; exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", &script]).arg(directory);
    run_in(command.arg("--"), test, directory);
}

/// Runs the test again as what a command carries out, and checks that it ran and passed.
pub(crate) fn run_in(command: &mut Command, test: &str, directory: &Path) {
    let output = command
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "the child ran nothing: {text}");
}

/// A directory for one test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
