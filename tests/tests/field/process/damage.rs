//! Files of an SSD directory that vanish, rot or are replaced, under a node that lives and under one that starts.

use super::{
    cluster::{Cluster, NodeWish, Spans, eventually},
    disks::{count_right, disk, key, logs, on_ssd, put_all, reborn},
};
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};
use ziggurat_base::Result;
use ziggurat_store::{PutOptions, Store};
use ziggurat_tests::field::payload;

const COUNT: usize = 200;
const LEN: usize = 100_000;

/// Objects that lie on the SSD of node `n` and nowhere else.
async fn on_ssd_alone(cluster: &mut Cluster, wish: &NodeWish<'_>) -> Result<Store> {
    cluster.add(wish).await;
    let store = cluster.connect().await;
    put_all(&store, COUNT, LEN).await?;
    on_ssd(&store, COUNT as u64).await;
    reborn(cluster, wish).await;
    on_ssd(&store, COUNT as u64).await;
    Ok(store)
}

/// Whatever was lost can be put again, and then everything is there, and again after the next start.
async fn heals(cluster: &mut Cluster, wish: &NodeWish<'_>, store: &Store) -> Result<()> {
    put_all(store, COUNT, LEN).await?;
    assert_eq!(count_right(store, COUNT, LEN).await?, COUNT);
    on_ssd(store, COUNT as u64).await;
    reborn(cluster, wish).await;
    on_ssd(store, COUNT as u64).await;
    assert_eq!(count_right(store, COUNT, LEN).await?, COUNT);
    Ok(())
}

async fn a_half_is_lost(hurt: impl Fn(&Path)) -> Result<()> {
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish::new("n", 64).on(disk.path());
    let store = on_ssd_alone(&mut cluster, &wish).await?;
    let logs = logs(disk.path());
    assert!(logs.len() >= 2, "{logs:?}");
    logs.iter().step_by(2).for_each(|log| hurt(log));
    // In one call what is hurt is a miss, and what is not is there.
    let keys: Vec<_> = (0..COUNT).map(key).collect();
    let keys: Vec<_> = keys.iter().map(String::as_bytes).collect();
    let mut found = 0;
    for (number, value) in store.get_many(&keys).await.into_iter().enumerate() {
        if let Some(value) = value? {
            assert!(value == payload(LEN, number as u64), "object {number}");
            found += 1;
        }
    }
    assert!(found > 0, "the other files are whole");
    assert_eq!(count_right(&store, COUNT, LEN).await?, found);
    heals(&mut cluster, &wish, &store).await?;
    cluster.finish().await;
    Ok(())
}

/// Scenario 36, with files that are cut to nothing.
#[tokio::test]
async fn emptied_files_cost_their_objects_and_no_others() -> Result<()> {
    a_half_is_lost(|log| {
        let file = OpenOptions::new().write(true).open(log).expect("opened");
        file.set_len(0).expect("it is cut");
    })
    .await
}

/// Scenario 36, with files that are unlinked: what is open stays readable, and is gone with the process.
#[tokio::test]
async fn vanished_files_cost_their_objects_and_no_others() -> Result<()> {
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish::new("n", 64).on(disk.path());
    let store = on_ssd_alone(&mut cluster, &wish).await?;
    for log in logs(disk.path()).iter().step_by(2) {
        fs::remove_file(log).expect("it is there");
    }
    count_right(&store, COUNT, LEN).await?;
    reborn(&mut cluster, &wish).await;
    eventually("the owner has told what is left", async || {
        let stats = store.stats().await;
        stats.is_ok_and(|s| (1..COUNT as u64).contains(&s.owned_replicas))
    })
    .await;
    let found = count_right(&store, COUNT, LEN).await?;
    assert!((1..COUNT).contains(&found), "{found}");
    heals(&mut cluster, &wish, &store).await?;
    cluster.finish().await;
    Ok(())
}

/// Flips one bit.
fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is as long");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("written");
}

/// Flips a bit in a header, in many payloads, and in the last byte of each file.
fn rot(disk: &Path) {
    for log in logs(disk) {
        let len = log.metadata().expect("it is there").len();
        for at in [8192 + 100, len - 1] {
            flip(&log, at);
        }
        for at in (2 << 20..len - 4096).step_by(1 << 20) {
            flip(&log, at);
        }
    }
}

/// Scenario 41: a bit that has changed costs its object at most, in every kind of read.
#[tokio::test]
async fn rotten_bits_are_a_miss_in_every_kind_of_read() -> Result<()> {
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish::new("n", 64).on(disk.path());
    let store = on_ssd_alone(&mut cluster, &wish).await?;
    rot(disk.path());
    let mut ranges = 0;
    for number in 0..COUNT {
        let right = payload(LEN, number as u64);
        if let Some(part) = store.get_range(key(number), 66_000, 30_000).await? {
            assert!(part == right[66_000..96_000], "object {number}");
            ranges += 1;
        }
    }
    let found = count_right(&store, COUNT, LEN).await?;
    assert!(
        found > 0 && found < COUNT && ranges >= found,
        "{found}, {ranges}"
    );
    heals(&mut cluster, &wish, &store).await?;
    cluster.finish().await;
    Ok(())
}

/// Scenario 41 with two copies: the other one is read.
#[tokio::test]
async fn a_rotten_copy_is_no_loss_where_there_are_two() -> Result<()> {
    let (one, two, state) = (disk(), disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wishes = [
        NodeWish::new("a", 64).on(one.path()),
        NodeWish::new("b", 64).on(two.path()),
    ];
    for wish in &wishes {
        cluster.add(wish).await;
    }
    let store = cluster.connect().await;
    let options = PutOptions::replicas(2);
    for number in 0..COUNT {
        let value = payload(LEN, number as u64);
        store.put_parts(key(number), &[&value], &options).await?;
    }
    on_ssd(&store, 2 * COUNT as u64).await;
    for wish in &wishes {
        reborn(&mut cluster, wish).await;
    }
    on_ssd(&store, 2 * COUNT as u64).await;
    rot(one.path());
    for _ in 0..3 {
        assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT);
    }
    cluster.finish().await;
    Ok(())
}

/// Scenario 42: small files of a directory that are empty, cut, foreign or made up. A start with them finds what can be
/// proved, and never takes anything for what it is not.
#[tokio::test]
async fn damaged_small_files_do_not_take_the_directory_along() -> Result<()> {
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish::new("n", 64).on(disk.path());
    let store = on_ssd_alone(&mut cluster, &wish).await?;
    let small: Vec<PathBuf> = ["ziggurat.id", "tombs.log"]
        .map(|name| disk.path().join(name))
        .into_iter()
        .filter(|path| path.exists())
        .collect();
    assert!(!small.is_empty());
    for path in small {
        let whole = fs::read(&path).expect("read");
        let half = whole[..whole.len() / 2].to_vec();
        let random = payload(whole.len().max(4096), 7);
        for content in [Vec::new(), half, random] {
            // The process has read it and does not look again.
            fs::write(&path, &content).expect("written");
            reborn(&mut cluster, &wish).await;
            on_ssd(&store, COUNT as u64).await;
            assert_eq!(count_right(&store, COUNT, LEN).await?, COUNT, "{path:?}");
        }
    }
    heals(&mut cluster, &wish, &store).await?;
    cluster.finish().await;
    Ok(())
}

/// Scenario 45: what is to be evicted is gone already.
#[tokio::test]
async fn files_that_are_gone_are_evicted_like_others() -> Result<()> {
    const MANY: usize = 600;
    let (disk, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::PATIENT, Some(state.path())).await;
    let wish = NodeWish {
        ssd_mib: 32,
        ..NodeWish::new("n", 16).on(disk.path())
    };
    cluster.add(&wish).await;
    let store = cluster.connect().await;
    let mut vanished = 0;
    for number in 0..MANY {
        store.put(key(number), payload(LEN, number as u64)).await?;
        if number % 150 == 149 {
            for log in logs(disk.path()).iter().take(2) {
                fs::remove_file(log).expect("it is there");
                vanished += 1;
            }
        }
    }
    assert!(vanished >= 6, "{vanished}");
    let found = count_right(&store, MANY, LEN).await?;
    assert!(found > 50, "{found}");
    reborn(&mut cluster, &wish).await;
    // What the next process tells is what there is.
    eventually("the owner has told what is left", async || {
        let stats = store.stats().await;
        stats.is_ok_and(|stats| stats.owned_replicas > 0)
    })
    .await;
    count_right(&store, MANY, LEN).await?;
    store.put("new", payload(LEN, 1)).await?;
    assert_eq!(store.get("new").await?, Some(payload(LEN, 1)));
    cluster.finish().await;
    Ok(())
}
