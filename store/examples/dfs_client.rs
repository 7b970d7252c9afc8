//! A cache on a shared filesystem without any node: a master for the metadata, and this library for the bytes.
//!
//! ```console
//! $ ziggurat master --state-dir /tmp/state &
//! $ mkdir /tmp/root
//! $ cargo run -p ziggurat-store --example dfs_client -- 127.0.0.1:50051 /tmp/root:256MiB
//! ```
//!
//! Run it again with `/tmp/root`: what was put is there.

use std::time::Duration;
use ziggurat_base::{Code, Error, Result};
use ziggurat_store::{ConnectOptions, DfsOptions, PutOptions, PutOutcome, Store};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(master), Some(root)) = (arguments.next(), arguments.next()) else {
        let what = "give the address of a master and a root: 127.0.0.1:50051 DIR[:SIZE]";
        return Err(Error::new(Code::InvalidParams, what));
    };
    let mut options = ConnectOptions::new(master);
    options.remote.dfs = DfsOptions {
        roots: vec![root.parse()?],
        ..DfsOptions::default()
    };
    // There is no node that would do it.
    options.remote.carries = true;
    // The shard files are read first, so that what they hold is known.
    options.patience.room = Duration::from_secs(30);
    let store = Store::connect(options).await?;

    let block = vec![7; 1 << 20];
    let shard_file = PutOptions::replicas(0).with_dfs(1);
    match store.put_parts("block/1", &[&block], &shard_file).await? {
        PutOutcome::Stored { replicas } => println!("block/1 is stored, {replicas} replica"),
        PutOutcome::Existed => println!("block/1 was there"),
    }
    let value = store.get("block/1").await?;
    println!("block/1 has {} bytes", value.map_or(0, |value| value.len()));
    store.close().await;
    Ok(())
}
