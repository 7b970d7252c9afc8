//! Segments that nodes give in the name of foreign clients.

use super::{
    Seed,
    ask::{Wait, ask_all},
};
use std::{collections::BTreeMap, net::IpAddr, time::Duration};
use tokio::time::{Instant, sleep};
use ziggurat_base::{ByteCount, Code, Error, MemberId, SegmentId};
use ziggurat_engine::{
    command::{Answer, NAME_LEN_MAX, SegmentStat},
    segment::Segment,
};
use ziggurat_proto::{
    order::{NodeCommand, Outcome},
    seed::ClientId,
};

/// How long a node may take to map memory and mount it, or to unmount it.
const HOST_WAIT: Duration = Duration::from_secs(5);

/// Nodes that are asked for one segment.
const NODES_MAX: usize = 8;

/// How long a segment may take to disappear, and how often it is looked for.
const GONE_WAIT: Duration = Duration::from_secs(2);
const GONE_PAUSE: Duration = Duration::from_millis(5);

impl Seed {
    /// Has a node mount a segment: its owner when there is one of this name (who says whether it is the same), else the one
    /// that gives least.
    pub(super) async fn host(&self, name: &str, size: u64) -> Answer<()> {
        if name.len() > NAME_LEN_MAX {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "a segment's name has 1 to {NAME_LEN_MAX} bytes, not {}",
                    name.len()
                ),
            ));
        }
        let command = NodeCommand::Host {
            name: name.into(),
            capacity: ByteCount(size),
        };
        let segments = self.partition.segments_now();
        let nodes = match find(&segments, name) {
            Some(known) => vec![known.member],
            None => by_capacity(&segments),
        };
        let mut refused = Error::new(
            Code::UnavailableInCurrentStatus,
            "no node is there to give memory",
        );
        for node in nodes.into_iter().take(NODES_MAX) {
            match self.ask(node, command.clone()).await {
                Ok(Outcome::Hosted(_)) => return Ok(()),
                Ok(_) => return Err(Code::Internal.into()),
                Err(error) if error.code() == Code::NoAvailableHandle => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused.while_doing(format!("mount segment {name:?}")))
    }

    /// Has its node take a segment back; completes when its name is free.
    pub(super) async fn unhost(&self, name: &str) -> Answer<()> {
        let segments = self.partition.segments_now();
        let Some(known) = find(&segments, name) else {
            return Err(Error::new(
                Code::SegmentNotFound,
                format!("no segment {name:?} is mounted"),
            ));
        };
        let command = NodeCommand::Unhost { segment: known.id };
        self.ask(known.member, command).await?;
        let until = Instant::now() + GONE_WAIT;
        while self.is_there(known.id) {
            if Instant::now() >= until {
                return Err(Error::new(
                    Code::RpcTimeout,
                    format!("segment {name:?} is unmounted, but its name is not free yet"),
                ));
            }
            sleep(GONE_PAUSE).await;
            self.partition.tick();
        }
        Ok(())
    }

    fn is_there(&self, segment: SegmentId) -> bool {
        let segments = self.partition.segments_now();
        segments.iter().any(|s| s.id == segment && serves(s))
    }

    async fn ask(&self, node: MemberId, command: NodeCommand) -> Answer<Outcome> {
        let asked = vec![(node, command)];
        let answers = ask_all(&self.partition, asked, Wait::all(HOST_WAIT)).await;
        answers
            .into_iter()
            .next()
            .unwrap_or_else(|| Err(Code::Internal.into()))
    }

    /// IP addresses of the owners of segments. The seed's messages name no client in `MountSegment`, so the only clients
    /// that are known by a number are our own members: `0-<member>`.
    pub(super) fn addresses(&self, clients: &[ClientId]) -> Vec<(ClientId, Vec<String>)> {
        let segments = self.partition.segments_now();
        let of = |client: &ClientId| {
            let owned = segments
                .iter()
                .filter(|stat| client.first == 0 && stat.member.0 == client.second);
            let mut addresses: Vec<_> = owned.filter_map(|stat| ip(&stat.address)).collect();
            addresses.sort();
            addresses.dedup();
            (!addresses.is_empty()).then_some((*client, addresses))
        };
        clients.iter().filter_map(of).collect()
    }
}

/// The segment of this name that serves.
fn find<'a>(segments: &'a [SegmentStat], name: &str) -> Option<&'a SegmentStat> {
    segments
        .iter()
        .find(|stat| &*stat.name == name && serves(stat))
}

fn serves(stat: &SegmentStat) -> bool {
    matches!(stat.state, Segment::Mounted | Segment::Unmounting)
}

/// Nodes, the one that gives least first.
fn by_capacity(segments: &[SegmentStat]) -> Vec<MemberId> {
    let mut given: BTreeMap<MemberId, u64> = BTreeMap::new();
    let nodes = segments.iter().filter(|stat| !stat.address.is_empty());
    for stat in nodes {
        *given.entry(stat.member).or_default() += stat.capacity.0;
    }
    let mut nodes: Vec<_> = given.into_iter().collect();
    nodes.sort_by_key(|(member, capacity)| (*capacity, *member));
    nodes.into_iter().map(|(member, _)| member).collect()
}

/// The IP address of `host:port`; `None` when the host is a name.
fn ip(address: &str) -> Option<String> {
    let (host, _) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().ok().map(|ip| ip.to_string())
}

#[cfg(test)]
mod tests {
    use super::ip;

    #[test]
    fn only_addresses_are_addresses() {
        assert_eq!(ip("10.0.0.1:50052").as_deref(), Some("10.0.0.1"));
        assert_eq!(ip("[::1]:50052").as_deref(), Some("::1"));
        assert_eq!(ip("node-1:50052"), None);
        assert_eq!(ip(""), None);
    }
}
