//! Shard files on a filesystem that every process has mounted: what lies there outlives all of them.

use super::{
    cluster::{Cluster, NodeWish, Spans, eventually},
    disks::{count_right, disk, key},
};
use std::path::Path;
use ziggurat_base::{Code, Result};
use ziggurat_store::{
    Force, PutOptions, Store,
    dfs::offline::{Directory, Logs, Recovered, Verified},
};
use ziggurat_tests::field::payload;

const LEN: usize = 20_000;

/// Memory and a shard file.
fn both() -> PutOptions {
    PutOptions::replicas(1).with_dfs(1)
}

/// A shard file alone.
fn shard_alone() -> PutOptions {
    PutOptions::replicas(0).with_dfs(1)
}

async fn put_all(store: &Store, numbers: std::ops::Range<usize>, how: &PutOptions) -> Result<()> {
    for number in numbers {
        let value = payload(LEN, number as u64);
        store.put_parts(key(number), &[&value], how).await?;
    }
    Ok(())
}

/// Waits until a carrier has told what lies in all shard files.
async fn carried(store: &Store) {
    eventually("the shard files take objects", async || {
        let put = store.put_parts("probe", &[b"x"], &shard_alone()).await;
        put.is_ok() && store.remove("probe", Force::Yes).await.is_ok()
    })
    .await;
}

/// A master, a node that carries a root, and a client that has it mounted.
async fn begun<'a>(spans: Spans, state: &Path, root: &'a Path) -> (Cluster, NodeWish<'a>, Store) {
    let mut cluster = Cluster::keeping(spans, Some(state)).await;
    let wish = NodeWish::new("a", 64).carrying(root);
    cluster.add(&wish).await;
    let store = cluster.connect_with(root).await;
    carried(&store).await;
    (cluster, wish, store)
}

fn verified(root: &Path) -> Result<Verified> {
    Directory::to_read(root)?.verify(&mut |_, _| {})
}

fn recovered(root: &Path) -> Result<Recovered> {
    let directory = Directory::to_change(root)?;
    let recovered = directory.recover(Logs::Keep, &mut |_, _| {})?;
    directory.save_index(&recovered.index)?;
    Ok(recovered)
}

/// `kill -9` for everybody, and all of them anew.
async fn everybody_dies(cluster: &mut Cluster, wish: &NodeWish<'_>, meanwhile: impl FnOnce()) {
    cluster.kill(wish.name);
    cluster.master.kill();
    meanwhile();
    cluster.start_master().await;
    cluster.add(wish).await;
}

#[tokio::test]
async fn a_thousand_objects_outlive_every_process() -> Result<()> {
    let (root, state) = (disk(), disk());
    let (mut cluster, wish, store) = begun(Spans::PATIENT, state.path(), root.path()).await;
    put_all(&store, 0..1000, &both()).await?;
    store.close().await;
    everybody_dies(&mut cluster, &wish, || {
        let recovered = recovered(root.path()).expect("a root");
        let found = (recovered.objects, recovered.corrupt, recovered.unproven);
        assert_eq!(found, (1000, 0, 0), "{recovered:?}");
        let verified = verified(root.path()).expect("a root");
        let wrong = (verified.overlaps, verified.corrupt);
        assert_eq!((verified.objects, wrong), (1000, (0, 0)), "{verified:?}");
    })
    .await;
    let store = cluster.connect_with(root.path()).await;
    carried(&store).await;
    assert_eq!(count_right(&store, 1000, LEN).await?, 1000);
    assert_eq!(store.stats().await?.used, 0, "nothing of it is in memory");
    store.close().await;
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn what_was_removed_stays_removed_when_everybody_dies_at_once() -> Result<()> {
    let (root, state) = (disk(), disk());
    let (mut cluster, wish, store) = begun(Spans::PATIENT, state.path(), root.path()).await;
    put_all(&store, 0..200, &both()).await?;
    for number in 0..100 {
        store.remove(key(number), Force::Yes).await?;
    }
    store.close().await;
    for _ in 0..2 {
        everybody_dies(&mut cluster, &wish, || {}).await;
        let store = cluster.connect_with(root.path()).await;
        carried(&store).await;
        for number in 0..200 {
            let is_there = store.exist(key(number)).await?;
            assert_eq!(is_there, number >= 100, "object {number}");
        }
        assert_eq!(count_right(&store, 200, LEN).await?, 100);
        store.close().await;
    }
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn no_node_is_needed_to_read_shard_files_and_the_root_is() -> Result<()> {
    let (root, state) = (disk(), disk());
    let (mut cluster, _, store) = begun(Spans::default(), state.path(), root.path()).await;
    put_all(&store, 0..50, &both()).await?;
    cluster.kill("a");
    eventually("the node is given up", async || {
        store.stats().await.is_ok_and(|stats| stats.capacity == 0)
    })
    .await;
    let other = cluster.connect_with(root.path()).await;
    assert_eq!(count_right(&other, 50, LEN).await?, 50);
    let value = payload(LEN, 0);
    let part = other.get_range(key(0), 7_000, 9_000).await?;
    assert!(part.as_deref() == Some(&value[7_000..16_000]));
    let without = cluster.connect().await;
    let refused = without.get(key(0)).await.unwrap_err();
    assert_eq!(refused.code(), Code::DfsServiceUnavailable, "{refused}");
    assert!(refused.to_string().contains("--dfs"), "{refused}");
    Ok(())
}

/// Scenario 57: ranges of objects that a master has forgotten are not given to others.
#[tokio::test]
async fn ranges_stay_their_objects_when_the_master_restarts() -> Result<()> {
    let (root, state) = (disk(), disk());
    let (mut cluster, _, store) = begun(Spans::default(), state.path(), root.path()).await;
    let mut last = 0;
    for round in 1..=3 {
        put_all(&store, last..round * 300, &shard_alone()).await?;
        last = round * 300;
        cluster.restart_master().await;
        carried(&store).await;
        assert_eq!(count_right(&store, last, LEN).await?, last);
    }
    let verified = verified(root.path())?;
    let found = (verified.objects, verified.overlaps, verified.corrupt);
    assert_eq!(found, (last as u64, 0, 0), "{verified:?}");
    store.close().await;
    cluster.finish().await;
    Ok(())
}

#[tokio::test]
async fn a_master_and_clients_are_enough() -> Result<()> {
    let (root, state) = (disk(), disk());
    let mut cluster = Cluster::keeping(Spans::default(), Some(state.path())).await;
    let first = cluster.connect_carrying(root.path()).await;
    carried(&first).await;
    put_all(&first, 0..100, &shard_alone()).await?;
    let second = cluster.connect_carrying(root.path()).await;
    assert_eq!(count_right(&second, 100, LEN).await?, 100);
    // The one that carried goes, and what is removed meanwhile is buried by the other.
    first.close().await;
    drop(first);
    for number in 0..50 {
        second.remove(key(number), Force::Yes).await?;
    }
    eventually("the other client carries", async || {
        second.stats().await.is_ok_and(|stats| stats.debts == 0)
    })
    .await;
    cluster.restart_master().await;
    carried(&second).await;
    assert_eq!(count_right(&second, 100, LEN).await?, 50);
    second.close().await;
    cluster.finish().await;
    Ok(())
}
