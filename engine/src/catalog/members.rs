//! Who belongs to the partition and which segments they give.

use super::{
    Catalog, TENANTS_MAX,
    directories::MEMORY,
    fleet::{self, Mounting},
};
use crate::{
    command::{Answer, Keep, MemberOffer, NAME_LEN_MAX, SegmentOffer, SegmentStat},
    member::{Member, MemberEvent},
    segment::{Segment, SegmentEvent},
    shard_record,
    space::GRAIN,
};
use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{
    ByteCount, Code, DirectoryId, Era, Error, MemberId, SegmentId, TenantId, Timestamp,
};

/// The most members at a time.
const MEMBERS_MAX: usize = 65_536;

#[derive(Debug)]
pub(super) struct MemberRow {
    pub(super) state: Member,
    address: Box<str>,
    in_process: bool,
    feed: bool,
    promotes: bool,
    pub(super) heard: Timestamp,
}

/// Living members.
#[derive(Debug, Default)]
pub(super) struct Members {
    by_id: BTreeMap<MemberId, MemberRow>,
    next: u32,
}

impl Members {
    pub(super) fn count(&self) -> u64 {
        self.by_id.len() as u64
    }

    /// Whether the member wants to know what becomes readable in its memory.
    fn feeds(&self, id: MemberId) -> bool {
        self.by_id.get(&id).is_some_and(|member| member.feed)
    }

    /// Whether the member copies versions into its memory when it is asked to.
    pub(super) fn promotes(&self, id: MemberId) -> bool {
        self.by_id.get(&id).is_some_and(|member| member.promotes)
    }

    pub(super) fn alive(&self, id: MemberId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// A stall of our own is not their silence.
    pub(super) fn forgive(&mut self, stall: Duration) {
        for member in self.by_id.values_mut() {
            member.heard = member.heard.after(stall);
        }
    }

    /// Members that have been silent for longer than `ttl`.
    pub(super) fn silent(&self, now: Timestamp, ttl: Duration) -> Vec<MemberId> {
        let silent = self
            .by_id
            .iter()
            .filter(|(_, m)| !m.in_process && now.since(m.heard) > ttl);
        silent.map(|(id, _)| *id).collect()
    }
}

pub(super) fn unknown(member: MemberId) -> Error {
    Error::new(
        Code::ClientNotFound,
        format!("member {member} is not known: it left, fell silent, or joined another master"),
    )
}

pub(super) fn not_mounted(segment: SegmentId) -> Error {
    Error::new(
        Code::SegmentNotFound,
        format!("segment {segment} is not mounted"),
    )
}

pub(super) fn not_yours(segment: SegmentId) -> Error {
    Error::new(
        Code::IllegalClient,
        format!("segment {segment} belongs to another member"),
    )
}

pub(super) fn too_many_segments() -> Error {
    Error::new(Code::Backpressure, "65,536 segments are mounted already")
}

impl Catalog {
    /// Joins as a new incarnation.
    ///
    /// # Errors
    /// `Backpressure` beyond 65,536 members.
    pub fn join(&mut self, now: Timestamp, offer: &MemberOffer) -> Answer<MemberId> {
        if self.members.by_id.len() >= MEMBERS_MAX {
            return Err(Error::new(
                Code::Backpressure,
                format!("there are {MEMBERS_MAX} members already"),
            ));
        }
        self.members.next += 1;
        let id = MemberId((u64::from(self.era.0) << 32) | u64::from(self.members.next));
        let row = MemberRow {
            state: Member::Alive,
            address: offer.address.clone(),
            in_process: offer.in_process,
            feed: offer.feed,
            promotes: offer.promotes,
            heard: now,
        };
        self.members.by_id.insert(id, row);
        Ok(id)
    }

    /// Shows life.
    ///
    /// # Errors
    /// `ClientNotFound` when the incarnation is not known any more: join again.
    pub fn ping(&mut self, now: Timestamp, member: MemberId) -> Answer<()> {
        let row = self
            .members
            .by_id
            .get_mut(&member)
            .ok_or_else(|| unknown(member))?;
        self.seen.must(&mut row.state, MemberEvent::Ping);
        row.heard = row.heard.max(now);
        Ok(())
    }

    /// Says goodbye. Unknown members have nothing to say.
    pub fn leave(&mut self, member: MemberId) {
        self.part(member, MemberEvent::Leave);
        self.settle();
    }

    /// Forgets a member: its segments are lost; its open writes are given up by and by.
    pub(super) fn part(&mut self, member: MemberId, event: MemberEvent) {
        let Some(mut row) = self.members.by_id.remove(&member) else {
            return;
        };
        self.seen.must(&mut row.state, event);
        self.put_down(member);
        let given = |s: &fleet::Slot| s.member == member && s.serves() && !s.is_old;
        let given = self.fleet.slots().filter(|(_, slot)| given(slot));
        let mut given: Vec<_> = given.map(|(slot, s)| (s.is_memory(), slot)).collect();
        // What was on its way from memory may have arrived in a directory, which must be known to be absent by then.
        given.sort_unstable();
        for (_, slot) in given {
            self.lose_segment(slot, SegmentEvent::Lose);
        }
        self.policy.set_capacity(ByteCount(self.fleet.capacity));
    }

    /// Interns a tenant's name.
    ///
    /// # Errors
    /// `InvalidParams` for an empty or overlong name, `TenantQuotaExceeded` beyond [`TENANTS_MAX`] tenants.
    pub fn tenant(&mut self, name: &str) -> Answer<TenantId> {
        if let Some(id) = self.tenants.get(name) {
            return Ok(*id);
        }
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "a tenant's name has 1 to {NAME_LEN_MAX} bytes, not {}",
                    name.len()
                ),
            ));
        }
        if self.tenants.len() >= TENANTS_MAX {
            return Err(Error::new(
                Code::TenantQuotaExceeded,
                format!("there are {TENANTS_MAX} tenants already"),
            ));
        }
        let id = TenantId(self.tenants.len() as u16);
        let name: std::sync::Arc<str> = name.into();
        self.tenants.insert(name.clone(), id);
        self.tenant_names.push(name);
        Ok(id)
    }

    /// Gives space to the pool. May raise the era; see [`Catalog::era`].
    ///
    /// # Errors
    /// `ClientNotFound`; `InvalidParams` for a bad name or size; `SegmentAlreadyExists` for a name that is mounted, or a
    /// directory that a later member has; as [`Keep::Owned`] also `UnavailableInCurrentMode` without a keeper of records.
    pub fn mount(
        &mut self,
        now: Timestamp,
        member: MemberId,
        offer: &SegmentOffer,
    ) -> Answer<SegmentId> {
        self.ping(now, member)?;
        let wrong = |what: String| Err(Error::new(Code::InvalidParams, what));
        if offer.name.is_empty() || offer.name.len() > NAME_LEN_MAX {
            return wrong(format!(
                "a segment's name has 1 to {NAME_LEN_MAX} bytes, not {}",
                offer.name.len()
            ));
        }
        if offer.capacity.0 < GRAIN {
            return wrong(format!(
                "a segment of {} is too small: it needs at least {GRAIN} bytes",
                offer.capacity
            ));
        }
        let directory = match offer.keep {
            Keep::Delegated => None,
            Keep::Owned { directory } | Keep::Shared { directory, .. } => Some(directory),
        };
        if directory == Some(MEMORY) {
            return wrong("a directory has a number other than 0".into());
        }
        if let Keep::Shared {
            directory,
            alignment,
        } = offer.keep
        {
            let bounds = shard_record::ALIGNMENT_MIN..=shard_record::ALIGNMENT_MAX;
            if !alignment.is_power_of_two() || !bounds.contains(&u64::from(alignment)) {
                return wrong(format!(
                    "{alignment} is no alignment of a shard file: it is a power of two from {} to {}",
                    bounds.start(),
                    bounds.end()
                ));
            }
            if let Some(mounted) = self.known_shard(directory) {
                // That this very era has claimed it is no news.
                if offer.highest_era > self.era {
                    self.exceed(offer.highest_era)?;
                }
                return Ok(mounted);
            }
        }
        if let Keep::Owned { directory } = offer.keep
            && let Some(mounted) = self.claim_directory(member, directory)?
        {
            return Ok(mounted);
        }
        self.claim_name(member, &offer.name)?;
        if offer.highest_era >= self.era {
            self.exceed(offer.highest_era)?;
        }
        if let Some(directory) = directory {
            self.directories.mounted(directory)?;
        }
        let mounting = Mounting {
            member,
            name: &offer.name,
            capacity: offer.capacity.0,
            keep: offer.keep,
            stock: offer.stock,
            feeds: self.members.feeds(member),
        };
        let mounted = self.fleet.mount(&mounting, self.config.allocator);
        self.policy.set_capacity(ByteCount(self.fleet.capacity));
        self.measure_shards();
        self.settle();
        mounted.ok_or_else(too_many_segments)
    }

    /// Goes on in the era behind one that a member has seen.
    fn exceed(&mut self, seen: Era) -> Answer<()> {
        let Some(next) = seen.0.checked_add(1) else {
            return Err(Error::new(
                Code::InvalidParams,
                "the member claims to have seen the last era there can be",
            ));
        };
        self.raise_era(Era(next));
        Ok(())
    }

    /// Takes a directory over from an earlier incarnation of its owner, whose segment is lost. A repeated mount finds the
    /// segment that is there.
    ///
    /// # Errors
    /// `SegmentAlreadyExists` when a later member has it, or when it is being unmounted.
    fn claim_directory(
        &mut self,
        member: MemberId,
        directory: DirectoryId,
    ) -> Answer<Option<SegmentId>> {
        let Some(slot) = self.fleet.of_directory(directory) else {
            return Ok(None);
        };
        let here = self.fleet.slot(slot);
        let owner = here.member;
        if owner == member && here.state == Segment::Mounted {
            return Ok(Some(here.id));
        }
        if owner >= member {
            let what = format!(
                "directory {directory} is mounted by {owner}; only a later member may take it over"
            );
            return Err(Error::new(Code::SegmentAlreadyExists, what));
        }
        self.lose_segment(slot, SegmentEvent::Lose);
        Ok(None)
    }

    /// A node that comes back at the same address before its last incarnation has fallen silent takes its place: nobody
    /// else can be listening there. Of two incarnations the later one stays, whoever is heard last: a mount of the earlier
    /// one that was long under way throws nobody out.
    ///
    /// # Errors
    /// `SegmentAlreadyExists` when the name is taken by anybody else.
    fn claim_name(&mut self, member: MemberId, name: &str) -> Answer<()> {
        let Some(slot) = self.fleet.named(name) else {
            return Ok(());
        };
        let owner = self.fleet.slot(slot).member;
        let address = self.address(member).filter(|address| !address.is_empty());
        let is_relative = owner != member && address.is_some() && self.address(owner) == address;
        if is_relative && owner < member {
            self.stats.members_expired += 1;
            self.part(owner, MemberEvent::Expire);
            return Ok(());
        }
        let what = if is_relative {
            format!(
                "segment {name:?} belongs to {owner}, which is a later incarnation of this node; join again if that one has \
                 ended"
            )
        } else {
            format!("a segment named {name:?} is mounted; unmount it or take another name")
        };
        Err(Error::new(Code::SegmentAlreadyExists, what))
    }

    /// Takes space back: no new objects from now on, gone after `grace`.
    ///
    /// # Errors
    /// `SegmentNotFound`; `IllegalClient` when another member owns it; `UnavailableInCurrentStatus` when it is already
    /// being unmounted.
    pub fn unmount(
        &mut self,
        now: Timestamp,
        member: MemberId,
        segment: SegmentId,
        grace: Duration,
    ) -> Answer<()> {
        let Some(slot) = self.fleet.find(segment) else {
            return Err(not_mounted(segment));
        };
        let here = self.fleet.slot_mut(slot);
        if here.is_shared() || here.member != member {
            return Err(not_yours(segment));
        }
        if here.state != Segment::Mounted {
            let refused = self.seen.step(&mut here.state, SegmentEvent::Unmount);
            debug_assert!(refused.is_err(), "only a mounted segment is unmounted");
            return Err(Error::new(
                Code::UnavailableInCurrentStatus,
                format!("segment {segment} is being unmounted"),
            ));
        }
        here.finish_at = now.after(grace);
        self.fleet.step(slot, SegmentEvent::Unmount, &mut self.seen);
        self.settle();
        Ok(())
    }

    /// Every segment.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentStat> {
        let address = |member| self.members.by_id.get(&member).map_or("", |m| &*m.address);
        let current = self.fleet.slots().filter(|(_, slot)| !slot.is_old);
        current
            .map(|(_, slot)| self.fleet.stat(slot, address(slot.member)))
            .collect()
    }

    /// Where a member serves data; `None` when it is not known.
    #[must_use]
    pub fn address(&self, member: MemberId) -> Option<&str> {
        self.members.by_id.get(&member).map(|m| &*m.address)
    }
}
