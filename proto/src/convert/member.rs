//! Members, segments and the partition in numbers.

use super::{broken, keys, nanos};
use crate::{
    hello::{Greeting, Hello, PeerKind, Versions, Welcome},
    wire,
};
use std::time::Duration;
use ziggurat_base::{ByteCount, DirectoryId, Era, Error, MemberId, SegmentId};
use ziggurat_engine::{
    command::{Keep, MemberOffer, SegmentOffer, SegmentStat, Stats, Stock},
    port::Joined,
    segment::Segment,
};

/// Who connects, as it travels.
pub(crate) fn pack_hello(hello: &Hello) -> wire::Hello {
    let kind = match hello.kind {
        PeerKind::Unknown => wire::PeerKind::Unknown,
        PeerKind::Client => wire::PeerKind::Client,
        PeerKind::Node => wire::PeerKind::Node,
        PeerKind::Tool => wire::PeerKind::Tool,
    };
    wire::Hello {
        version_min: hello.versions.min.into(),
        version_max: hello.versions.max.into(),
        kind: kind.into(),
        software: hello.software.clone(),
        tenant: hello.tenant.clone(),
    }
}

/// Who connects.
pub(crate) fn hello(message: wire::Hello) -> Result<Hello, Error> {
    let kind = match wire::PeerKind::try_from(message.kind) {
        Ok(wire::PeerKind::Client) => PeerKind::Client,
        Ok(wire::PeerKind::Node) => PeerKind::Node,
        Ok(wire::PeerKind::Tool) => PeerKind::Tool,
        Ok(wire::PeerKind::Unknown) | Err(_) => PeerKind::Unknown,
    };
    Ok(Hello {
        versions: Versions {
            min: version(message.version_min)?,
            max: version(message.version_max)?,
        },
        kind,
        software: message.software,
        tenant: message.tenant,
    })
}

fn version(number: u32) -> Result<u16, Error> {
    u16::try_from(number).map_err(|_| broken(format!("protocol version {number}")))
}

/// The answer to a hello as it travels.
pub(crate) fn pack_welcome(welcome: &Welcome) -> wire::Welcome {
    wire::Welcome {
        version: welcome.version.into(),
        software: welcome.software.clone(),
        era: welcome.greeting.era.0,
        tenant: welcome.tenant.0.into(),
        lease: nanos(welcome.greeting.lease),
        time_to_live: nanos(welcome.greeting.time_to_live),
        batch_max: welcome.batch_max,
    }
}

/// The answer to a hello.
pub(crate) fn welcome(message: wire::Welcome) -> Result<Welcome, Error> {
    Ok(Welcome {
        version: version(message.version)?,
        software: message.software,
        greeting: Greeting {
            era: Era(message.era),
            lease: Duration::from_nanos(message.lease),
            time_to_live: Duration::from_nanos(message.time_to_live),
        },
        tenant: keys::tenant(message.tenant)?,
        batch_max: message.batch_max,
    })
}

/// A process that joins.
pub(crate) fn pack_offer(offer: &MemberOffer) -> wire::Join {
    wire::Join {
        address: offer.address.to_string(),
        in_process: offer.in_process,
        feed: offer.feed,
        promotes: offer.promotes,
    }
}

/// The offer of a message.
pub(crate) fn offer(message: wire::Join) -> MemberOffer {
    MemberOffer {
        address: message.address.into(),
        in_process: message.in_process,
        feed: message.feed,
        promotes: message.promotes,
    }
}

/// What a new member is told.
pub(crate) fn pack_joined(joined: Joined) -> wire::Joined {
    wire::Joined {
        member: joined.member.0,
        era: joined.era.0,
        time_to_live: nanos(joined.time_to_live),
    }
}

/// What a new member was told.
pub(crate) fn joined(message: wire::Joined) -> Joined {
    Joined {
        member: MemberId(message.member),
        era: Era(message.era),
        time_to_live: Duration::from_nanos(message.time_to_live),
    }
}

/// Space that a member offers.
pub(crate) fn pack_mount(member: MemberId, offer: &SegmentOffer) -> wire::Mount {
    wire::Mount {
        member: member.0,
        name: offer.name.to_string(),
        capacity: offer.capacity.0,
        highest_era: offer.highest_era.0,
        directory: pack_keep(offer.keep),
        stock: pack_stock(offer.stock).into(),
    }
}

fn pack_stock(stock: Stock) -> wire::Stock {
    match stock {
        Stock::Volatile => wire::Stock::Volatile,
        Stock::Fresh => wire::Stock::Fresh,
        Stock::Held => wire::Stock::Held,
    }
}

fn stock(number: i32) -> Result<Stock, Error> {
    match wire::Stock::try_from(number) {
        Ok(wire::Stock::Volatile) => Ok(Stock::Volatile),
        Ok(wire::Stock::Fresh) => Ok(Stock::Fresh),
        Ok(wire::Stock::Held) => Ok(Stock::Held),
        Err(_) => Err(broken(format!("stock {number} does not exist"))),
    }
}

fn pack_keep(keep: Keep) -> Vec<u8> {
    match keep {
        Keep::Delegated => Vec::new(),
        Keep::Owned { directory } => directory.0.to_le_bytes().to_vec(),
        Keep::Shared {
            directory,
            alignment,
        } => {
            let mut bytes = directory.0.to_le_bytes().to_vec();
            bytes.extend(alignment.to_le_bytes());
            bytes
        }
    }
}

fn keep(bytes: &[u8]) -> Result<Keep, Error> {
    if bytes.is_empty() {
        return Ok(Keep::Delegated);
    }
    let odd = || broken(format!("a directory's number of {} bytes", bytes.len()));
    let (number, rest) = bytes.split_first_chunk::<16>().ok_or_else(odd)?;
    let directory = DirectoryId(u128::from_le_bytes(*number));
    if rest.is_empty() {
        return Ok(Keep::Owned { directory });
    }
    let alignment = rest.try_into().map_err(|_| odd())?;
    Ok(Keep::Shared {
        directory,
        alignment: u32::from_le_bytes(alignment),
    })
}

/// The offered space of a message.
pub(crate) fn mount(message: wire::Mount) -> Result<(MemberId, SegmentOffer), Error> {
    let offer = SegmentOffer {
        keep: keep(&message.directory)?,
        name: message.name.into(),
        capacity: ByteCount(message.capacity),
        highest_era: Era(message.highest_era),
        stock: stock(message.stock)?,
    };
    Ok((MemberId(message.member), offer))
}

/// Segments as they travel.
pub(crate) fn pack_segments(segments: &[SegmentStat]) -> wire::SegmentStats {
    let pack = |stat: &SegmentStat| wire::SegmentStat {
        id: stat.id.0,
        name: stat.name.to_string(),
        member: stat.member.0,
        address: stat.address.to_string(),
        state: pack_state(stat.state).into(),
        capacity: stat.capacity.0,
        used: stat.used.0,
        largest_free: stat.largest_free.0,
        replicas: stat.replicas,
        directory: pack_keep(stat.keep),
    };
    wire::SegmentStats {
        segments: segments.iter().map(pack).collect(),
    }
}

fn pack_state(state: Segment) -> wire::SegmentState {
    match state {
        Segment::Mounted => wire::SegmentState::Mounted,
        Segment::Unmounting => wire::SegmentState::Unmounting,
        Segment::Sweeping => wire::SegmentState::Sweeping,
        Segment::Gone => wire::SegmentState::Gone,
    }
}

fn state(number: i32) -> Result<Segment, Error> {
    match wire::SegmentState::try_from(number) {
        Ok(wire::SegmentState::Mounted) => Ok(Segment::Mounted),
        Ok(wire::SegmentState::Unmounting) => Ok(Segment::Unmounting),
        Ok(wire::SegmentState::Sweeping) => Ok(Segment::Sweeping),
        Ok(wire::SegmentState::Gone) => Ok(Segment::Gone),
        Err(_) => Err(broken(format!("segment state {number} does not exist"))),
    }
}

/// The segments of an answer.
pub(crate) fn segments(message: wire::SegmentStats) -> Result<Vec<SegmentStat>, Error> {
    let unpack = |stat: wire::SegmentStat| {
        Ok(SegmentStat {
            keep: keep(&stat.directory)?,
            id: SegmentId(stat.id),
            name: stat.name.into(),
            member: MemberId(stat.member),
            address: stat.address.into(),
            state: state(stat.state)?,
            capacity: ByteCount(stat.capacity),
            used: ByteCount(stat.used),
            largest_free: ByteCount(stat.largest_free),
            replicas: stat.replicas,
        })
    };
    message.segments.into_iter().map(unpack).collect()
}

macro_rules! same_fields {
    ($($field:ident)*) => {
        /// The numbers of a partition as they travel.
        pub(crate) fn pack_stats(stats: &Stats) -> wire::Stats {
            wire::Stats { $($field: stats.$field,)* }
        }

        /// The numbers of an answer.
        pub(crate) fn stats(message: &wire::Stats) -> Stats {
            Stats { $($field: message.$field,)* }
        }
    };
}

same_fields! {
    objects writes_open writes_closing capacity used largest_free extents segments members table_bytes puts_granted
    puts_existed puts_refused_writing puts_refused_space puts_partial puts_ended puts_revoked puts_preempted puts_expired
    locate_hits locate_misses exist_hits exist_misses holds_returned removed evicted evicted_bytes lost members_expired
    owned_capacity owned_used owned_replicas adopted discarded dropped demoted unkept offloading offloading_bytes
    directories_absent debts key_debts promoting promoting_bytes promoted promoted_bytes promotions_dropped
    promotions_failed dfs_capacity dfs_used dfs_objects dfs_cooling dfs_evicted
}
