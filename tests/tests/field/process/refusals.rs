//! Nodes on machines that refuse something: room on a filesystem, rings for I/O. A test that needs such a machine runs again
//! in a child that has it.

use super::{
    cluster::{Cluster, NodeWish, Spans, eventually},
    disks::{count_right, disk, on_ssd, put_all, reborn},
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};
use ziggurat_base::Result;
use ziggurat_engine::testkit::skip::skip;
use ziggurat_store::Store;
use ziggurat_tests::field::payload;

/// Set in a child: the directory to use.
const CHILD: &str = "ZIGGURAT_FIELD_CHILD";

const MIB: usize = 1 << 20;

fn child() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}

/// Runs a test of this file again as what a command carries out, and checks that it ran and passed.
fn again(command: &mut Command, test: &str, directory: &Path) {
    let output = command
        .arg(env::current_exe().expect("a test is a program"))
        .arg("--exact")
        .arg(format!("field::process::refusals::{test}"))
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .output()
        .expect("the command exists");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "the child ran nothing: {text}");
}

/// Whether filesystems can be mounted where nobody else sees them: by root, and outside of a chroot.
fn can_mount() -> bool {
    let mounts = Command::new("unshare").args(["-m", "true"]).output();
    mounts.is_ok_and(|output| output.status.success())
}

async fn owned(store: &Store) -> u64 {
    let stats = store.stats().await.expect("the master answers");
    stats.owned_replicas
}

/// Scenario 43: memory goes on serving while its SSD has no room, and offload begins again by itself.
#[tokio::test]
async fn a_full_filesystem_stops_offload_until_it_has_room() -> Result<()> {
    const TEST: &str = "a_full_filesystem_stops_offload_until_it_has_room";
    if let Some(directory) = child() {
        return fills_and_resumes(&directory).await;
    }
    if !can_mount() {
        skip(
            "a_full_filesystem_stops_offload_until_it_has_room",
            "mounts",
            "only root, and outside of a chroot, can mount a small filesystem",
        );
        return Ok(());
    }
    let folder = disk();
    let script = "mount -t tmpfs -o size=48m tmpfs $0; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", script]).arg(folder.path());
    again(command.arg("--"), TEST, folder.path());
    Ok(())
}

async fn fills_and_resumes(directory: &Path) -> Result<()> {
    const COUNT: usize = 40;
    const READ_ONLY: &str = "ziggurat_node_ssd_read_only{segment=\"n-ssd-0\"}";
    let (ssd, foreign) = (directory.join("ssd"), directory.join("foreign"));
    fs::create_dir(&ssd).expect("made");
    // Other people's files take the room, long before the directory has its size.
    fs::write(&foreign, vec![1; 28 * MIB]).expect("there is room");
    let state = disk();
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish {
        ssd_mib: 40,
        ..NodeWish::new("n", 64).on(&ssd)
    };
    cluster.add(&wish).await;
    let store = cluster.connect().await;
    put_all(&store, COUNT, MIB).await?;
    eventually("the directory takes nothing any more", async || {
        cluster.node("n").metric(READ_ONLY).await.as_deref() == Some("1")
    })
    .await;
    assert!((1..COUNT as u64).contains(&owned(&store).await));
    assert_eq!(count_right(&store, COUNT, MIB).await?, COUNT);

    fs::remove_file(&foreign).expect("it is there");
    let (before, probes) = (owned(&store).await, Cell::new(0));
    eventually("what is put now is on SSD", async || {
        let probe = format!("probe{}", probes.replace(probes.get() + 1));
        let put = store.put(probe, payload(1000, 0)).await;
        put.is_ok() && owned(&store).await > before
    })
    .await;
    eventually("the directory takes everything again", async || {
        cluster.node("n").metric(READ_ONLY).await.as_deref() == Some("0")
    })
    .await;
    eventually("nothing is on its way", async || {
        store.stats().await.is_ok_and(|stats| stats.offloading == 0)
    })
    .await;
    let held = owned(&store).await;
    reborn(&mut cluster, &wish).await;
    on_ssd(&store, held).await;
    let mut found = count_right(&store, COUNT, MIB).await? as u64;
    for probe in 0..probes.get() {
        found += u64::from(store.get(format!("probe{probe}")).await?.is_some());
    }
    assert_eq!(found, held, "what is on SSD is there after a crash");
    cluster.finish().await;
    Ok(())
}

/// Makes every ring fail from now on, for processes to come too.
fn forbid_rings() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    /// The number of `io_uring_setup`, the same on every architecture.
    const IO_URING_SETUP: i64 = 425;
    const EPERM: u32 = 1;
    let rules = BTreeMap::from([(IO_URING_SETUP, Vec::new())]);
    let architecture = env::consts::ARCH.try_into().expect("a known one");
    let (pass, refuse) = (SeccompAction::Allow, SeccompAction::Errno(EPERM));
    let filter = SeccompFilter::new(rules, pass, refuse, architecture).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    apply_filter(&program).expect("the kernel takes it");
}

/// Scenario 46: where rings are forbidden a node works on with threads, and its metrics say that, and why.
#[tokio::test]
async fn a_node_without_rings_works_and_says_so() -> Result<()> {
    const COUNT: usize = 100;
    const LEN: usize = 100_000;
    let Some(directory) = child() else {
        let test = "a_node_without_rings_works_and_says_so";
        again(Command::new("env").arg("--"), test, disk().path());
        return Ok(());
    };
    forbid_rings();
    let state = disk();
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish::new("n", 32).on(&directory);
    cluster.add(&wish).await;
    let says = cluster
        .node("n")
        .metric("ziggurat_node_ssd_engine_info{")
        .await;
    let says = says.expect("it tells its engine");
    let is_told = says.contains("engine=\"threads\"") && says.contains("Operation not permitted");
    assert!(is_told, "{says}");
    let store = cluster.connect().await;
    put_all(&store, COUNT, LEN).await?;
    on_ssd(&store, COUNT as u64).await;
    reborn(&mut cluster, &wish).await;
    on_ssd(&store, COUNT as u64).await;
    assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT);
    cluster.finish().await;
    Ok(())
}
