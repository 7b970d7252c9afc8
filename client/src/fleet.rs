//! Which members there are, where each serves data, and which of them are on this host.
//!
//! The partition ranks the replicas of an object for all readers alike: memory, then the disks, then shard files. It does not
//! know on which host a reader is; the reader does, and goes to a disk of its own host before it goes to others.

use futures_util::future::join_all;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};
use tokio::{net::lookup_host, time::timeout};
use ziggurat_base::{MemberId, SegmentId};
use ziggurat_engine::command::{Keep, SegmentStat, Target, Targets};

/// How long the name of a node may take to be found. One that takes longer counts as elsewhere.
const LOOKUP: Duration = Duration::from_secs(1);

/// What a segment is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Disk,
    Shard,
}

/// In which order replicas are tried; within a rank the partition's order holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Memory,
    DiskHere,
    DiskElsewhere,
    Shard,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    addresses: BTreeMap<MemberId, Arc<str>>,
    segments: BTreeMap<(MemberId, SegmentId), Kind>,
    /// Members on this host.
    here: BTreeSet<MemberId>,
    /// What was found out about addresses.
    judged: BTreeMap<Arc<str>, bool>,
}

impl Fleet {
    /// The fleet with these segments; `last` is what was known before.
    pub(crate) async fn of(segments: &[SegmentStat], last: &Self) -> Self {
        let mut fleet = Self::default();
        let mut owners = BTreeSet::new();
        for segment in segments {
            let kind = match segment.keep {
                Keep::Delegated => Kind::Memory,
                Keep::Owned { .. } => Kind::Disk,
                Keep::Shared { .. } => {
                    let place = (MemberId::NOBODY, segment.id);
                    fleet.segments.insert(place, Kind::Shard);
                    continue;
                }
            };
            let member = segment.member;
            fleet.segments.insert((member, segment.id), kind);
            let address: Arc<str> = segment.address.as_ref().into();
            if kind == Kind::Disk {
                owners.insert((member, address.clone()));
            }
            fleet.addresses.insert(member, address);
        }
        let judging = owners.iter().map(|(_, address)| async {
            match last.judged.get(address) {
                Some(known) => *known,
                None => is_here(address).await,
            }
        });
        for ((member, address), is_here) in owners.iter().zip(join_all(judging).await) {
            fleet.judged.insert(address.clone(), is_here);
            if is_here {
                fleet.here.insert(*member);
            }
        }
        fleet
    }

    /// Where a member serves data.
    pub(crate) fn address(&self, member: MemberId) -> Option<Arc<str>> {
        self.addresses.get(&member).cloned()
    }

    fn rank(&self, target: &Target) -> Option<Rank> {
        let place = (target.member, target.placement.segment);
        Some(match self.segments.get(&place)? {
            Kind::Memory => Rank::Memory,
            Kind::Disk if self.here.contains(&target.member) => Rank::DiskHere,
            Kind::Disk => Rank::DiskElsewhere,
            Kind::Shard => Rank::Shard,
        })
    }

    /// Puts the replicas into the order in which they are tried; `false` when some are on segments that are not known, and
    /// the partition's order stays.
    pub(crate) fn arrange(&self, targets: &mut Targets) -> bool {
        let Targets::Many(list) = targets else {
            return true;
        };
        let ranks: Option<Vec<_>> = list.iter().map(|target| self.rank(target)).collect();
        if ranks.is_some() {
            list.sort_by_key(|target| self.rank(target));
        }
        ranks.is_some()
    }
}

/// Whether an address is one of this host's: only those can be bound.
async fn is_here(address: &str) -> bool {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return is_own(address.ip());
    }
    match timeout(LOOKUP, lookup_host(address)).await {
        Ok(Ok(mut found)) => found.any(|address| is_own(address.ip())),
        Ok(Err(_)) | Err(_) => false,
    }
}

fn is_own(ip: IpAddr) -> bool {
    !ip.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Fleet, is_here};
    use ziggurat_base::{ByteCount, DirectoryId, Extent, Extents, MemberId, Placement, SegmentId};
    use ziggurat_engine::{
        command::{Keep, SegmentStat, Target, Targets},
        segment::Segment,
    };

    /// An address of a network that is set aside for documents: nobody has it.
    const ELSEWHERE: &str = "192.0.2.7:50052";

    const HERE: &str = "127.0.0.1:50052";

    fn segment(member: u64, id: u32, address: &str, keep: Keep) -> SegmentStat {
        SegmentStat {
            id: SegmentId(id),
            name: format!("segment-{id}").into(),
            member: MemberId(member),
            address: address.into(),
            state: Segment::Mounted,
            capacity: ByteCount::mib(1),
            used: ByteCount(0),
            largest_free: ByteCount::mib(1),
            replicas: 0,
            keep,
        }
    }

    fn target(member: u64, segment: u32) -> Target {
        Target {
            member: MemberId(member),
            placement: Placement {
                segment: SegmentId(segment),
                extents: Extents::One(Extent::new(0, 5)),
                check: None,
            },
        }
    }

    fn arranged(fleet: &Fleet, places: &[(u64, u32)]) -> (bool, Vec<(u64, u32)>) {
        let mut targets: Targets = places.iter().map(|(m, s)| target(*m, *s)).collect();
        let is_known = fleet.arrange(&mut targets);
        let place = |t: &Target| (t.member.0, t.placement.segment.0);
        (is_known, targets.as_slice().iter().map(place).collect())
    }

    #[tokio::test]
    async fn a_disk_of_the_readers_host_comes_first_among_disks() {
        let disk = |number| Keep::Owned {
            directory: DirectoryId(number),
        };
        let segments = [
            segment(1, 0, ELSEWHERE, Keep::Delegated),
            segment(1, 1, ELSEWHERE, disk(1)),
            segment(2, 2, HERE, disk(2)),
            segment(2, 3, HERE, Keep::Delegated),
            segment(3, 4, ELSEWHERE, disk(3)),
        ];
        let fleet = Fleet::of(&segments, &Fleet::default()).await;
        let check = |given: &[(u64, u32)], expected: &[(u64, u32)]| {
            assert_eq!(arranged(&fleet, given), (true, expected.to_vec()));
        };
        check(&[(1, 1), (2, 2)], &[(2, 2), (1, 1)]);
        check(&[(3, 4), (1, 1), (2, 2)], &[(2, 2), (3, 4), (1, 1)]);
        // Memory stays before disks, and in the partition's order.
        check(
            &[(1, 0), (2, 3), (1, 1), (2, 2)],
            &[(1, 0), (2, 3), (2, 2), (1, 1)],
        );
        check(&[(3, 4), (1, 1)], &[(3, 4), (1, 1)]);
        check(&[(1, 1)], &[(1, 1)]);
        // A segment of another incarnation may be anything.
        let unknown = [(1, 1), (9, 2)];
        assert_eq!(arranged(&fleet, &unknown), (false, unknown.to_vec()));
        let again = Fleet::of(&segments, &fleet).await;
        assert_eq!(again.here, fleet.here);
        assert_eq!(again.address(MemberId(2)).as_deref(), Some(HERE));
    }

    #[tokio::test]
    async fn only_addresses_of_this_host_are_here() {
        for (address, expected) in [
            (HERE, true),
            ("127.0.0.9:1", true),
            ("localhost:1", true),
            (ELSEWHERE, false),
            ("0.0.0.0:1", false),
            ("", false),
            ("node.invalid:1", false),
        ] {
            assert_eq!(is_here(address).await, expected, "{address}");
        }
    }
}
