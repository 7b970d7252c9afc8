//! All in one: a master and a node in this process, with sockets, for one machine.

use std::time::Duration;
use ziggurat_base::Result;
use ziggurat_master::{Master, MasterOptions};
use ziggurat_node::{Node, NodeOptions, SsdPath};

/// Both halves; the node's master is filled in. The master's HTTP shows the node too, so the node needs none of its own.
#[derive(Clone)]
pub struct ServeOptions {
    /// The master.
    pub master: MasterOptions,
    /// The node.
    pub node: NodeOptions,
}

/// A running master with its node.
#[derive(Debug)]
pub struct Served {
    /// The master.
    pub master: Master,
    /// The node.
    pub node: Node,
}

impl Served {
    /// Starts both.
    ///
    /// # Errors
    /// As [`Master::start`] and [`Node::start`].
    pub async fn start(options: ServeOptions) -> Result<Self> {
        // Before the master makes its state directory in one of them.
        SsdPath::check_all(&options.node.ssd.directories)?;
        let master = Master::start(options.master).await?;
        let mut node = NodeOptions {
            master: master.address().to_string(),
            ..options.node
        };
        // The memory ends with the master.
        node.memory.reoffer = false;
        let node = Node::start(node).await?;
        master.show_beside(node.part());
        Ok(Self { master, node })
    }

    /// Ends both; the memory goes with them, so there is no grace to give.
    pub async fn stop(self) {
        self.node.stop(Duration::ZERO).await;
        self.master.stop().await;
    }
}
