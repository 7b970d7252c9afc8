//! A loss of power, as nearly as a running machine can have it: the filesystem is cut off from its disk, and nothing that
//! was not durable by then is on it.

use super::rig::{again_with, append, can_mount, child, folder, is_there, open};
use pollster::block_on;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};
use ziggurat_base::{ManualClock, Ticket, hash::Dice};
use ziggurat_engine::testkit::skip::skip;
use ziggurat_io::Choice;

#[test]
fn what_was_acknowledged_is_there_after_a_loss_of_power() {
    const TEST: &str = "power::what_was_acknowledged_is_there_after_a_loss_of_power";
    if let Some(directory) = child() {
        lives(&directory);
        return;
    }
    let has = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    if !has("mkfs.ext4") || !has("python3") {
        skip(
            "what_was_acknowledged_is_there_after_a_loss_of_power",
            "tool",
            "mkfs.ext4 makes the filesystem, python3 cuts it off",
        );
    } else if !can_mount() {
        skip(
            "what_was_acknowledged_is_there_after_a_loss_of_power",
            "mounts",
            "only root, and outside of a chroot, can mount a small filesystem",
        );
    } else {
        let folder = folder();
        let directory = folder.path().join("disk");
        fs::create_dir(&directory).unwrap();
        let prepare = "truncate -s 160M $0.image; mkfs.ext4 -q $0.image; mount -o loop $0.image $0";
        again_with(TEST, &directory, prepare);
    }
}

/// `EXT4_IOC_SHUTDOWN` without its journal being written: from here on nothing comes to the disk. It says when it is ready,
/// and waits for a word.
const LOSE_POWER: &str = "import fcntl, os, struct, sys
disk = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
fcntl.ioctl(disk, 0x8004587d, struct.pack('I', 2))";

/// What cuts the power off, at once when it is asked to.
struct Switch(Child);

impl Switch {
    fn ready(directory: &Path) -> Self {
        let mut python = Command::new("python3")
            .args(["-c", LOSE_POWER])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = python.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self(python)
    }

    fn off(mut self) {
        let mut stdin = self.0.stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
        assert!(self.0.wait().unwrap().success(), "the power is still on");
    }
}

fn shell(script: &str, directory: &Path) {
    let ran = Command::new("sh")
        .args(["-ec", script])
        .arg(directory)
        .output();
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{script}: {said}");
}

/// Lives that each end with a loss of power in the middle of writing.
fn lives(directory: &Path) {
    let dice = &mut Dice::new(7);
    let (mut held, mut dead) = (BTreeSet::new(), BTreeSet::new());
    let mut next = 0;
    for life in 0..6 {
        let engine = [Choice::Uring, Choice::Threads][life % 2];
        let (tier, recovered) = open(directory, engine, &ManualClock::default());
        for ticket in &held {
            assert!(
                is_there(&tier, *ticket),
                "life {life}: {ticket} is lost, {recovered:?}"
            );
        }
        assert!(
            !dead.iter().any(|ticket| is_there(&tier, *ticket)),
            "life {life}"
        );
        for _ in 0..4 + dice.below(8) {
            next += 1;
            append(&tier, next).unwrap();
            held.insert(next);
        }
        let discarded: Vec<u64> = held
            .iter()
            .copied()
            .filter(|_| dice.below(4) == 0)
            .collect();
        let tickets: Vec<_> = discarded.iter().copied().map(Ticket).collect();
        block_on(tier.discard(&tickets)).unwrap();
        for ticket in discarded {
            held.remove(&ticket);
            dead.insert(ticket);
        }
        // Some are on their way when it happens, if it is not too slow: each is there or it is not.
        let switch = Switch::ready(directory);
        let acknowledged: Vec<u64> = thread::scope(|scope| {
            let first = next + 1;
            next += 40;
            let tier = &tier;
            let writer = scope.spawn(move || {
                let all = first..first + 40;
                all.take_while(|ticket| append(tier, *ticket).is_ok())
                    .collect()
            });
            while tier.stats().records < held.len() as u64 + 1 + dice.below(6)
                && !writer.is_finished()
            {
                thread::yield_now();
            }
            switch.off();
            writer.join().unwrap()
        });
        held.extend(acknowledged);
        drop(tier);
        shell("umount $0; mount -o loop $0.image $0", directory);
    }
    assert!(!held.is_empty() && !dead.is_empty());
    shell("umount $0", directory);
}
