//! One peer per address, for as long as it is used.

use crate::client::{Peer, PeerOptions};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

/// Peers that are kept; beyond, the one that was asked for the longest time ago is let go.
const PEERS_MAX: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Fabric {
    options: PeerOptions,
    peers: Mutex<Peers>,
}

#[derive(Debug, Default)]
struct Peers {
    /// With the turn in which it was last asked for.
    by_address: BTreeMap<Box<str>, (u64, Arc<Peer>)>,
    turn: u64,
}

impl Fabric {
    /// A fabric without peers.
    #[must_use]
    pub fn new(options: PeerOptions) -> Self {
        Self {
            options,
            peers: Mutex::default(),
        }
    }

    /// The peer at `host:port`.
    #[must_use]
    pub fn peer(&self, address: &str) -> Arc<Peer> {
        let mut peers = self.lock();
        peers.turn += 1;
        let turn = peers.turn;
        if let Some((last, peer)) = peers.by_address.get_mut(address) {
            *last = turn;
            return Arc::clone(peer);
        }
        if peers.by_address.len() >= PEERS_MAX {
            let oldest = peers.by_address.iter().min_by_key(|(_, (last, _))| *last);
            let oldest = oldest.map(|(address, _)| address.clone());
            oldest.map(|address| peers.by_address.remove(&address));
        }
        let peer = Arc::new(Peer::new(address, self.options.clone()));
        let entry = (turn, Arc::clone(&peer));
        peers.by_address.insert(address.into(), entry);
        peer
    }

    /// Lets a peer go, as when its node has died. Whatever is under way with it goes on.
    pub fn forget(&self, address: &str) {
        self.lock().by_address.remove(address);
    }

    /// Number of peers that are kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().by_address.len()
    }

    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.peers
            .lock()
            .expect("nobody panics while looking up a peer")
    }
}

#[cfg(test)]
mod tests {
    use super::{Fabric, PEERS_MAX};
    use std::sync::Arc;

    #[test]
    fn the_peer_that_was_not_used_longest_is_let_go() {
        let fabric = Fabric::default();
        let [first, second] = ["10.0.0.1:1", "10.0.0.2:1"].map(|a| fabric.peer(a));
        for port in 0..PEERS_MAX - 2 {
            let _ = fabric.peer(&format!("10.0.0.3:{port}"));
        }
        assert!(Arc::ptr_eq(&first, &fabric.peer("10.0.0.1:1")));
        let _ = fabric.peer("10.0.0.4:1");
        assert_eq!(fabric.count(), PEERS_MAX);
        assert!(Arc::ptr_eq(&first, &fabric.peer("10.0.0.1:1")));
        assert!(!Arc::ptr_eq(&second, &fabric.peer("10.0.0.2:1")));
        fabric.forget("10.0.0.1:1");
        assert!(!Arc::ptr_eq(&first, &fabric.peer("10.0.0.1:1")));
    }
}
