//! Who belongs to the partition and which segments they give.

use super::{Catalog, TENANTS_MAX};
use crate::{
    command::{Answer, MemberOffer, NAME_LEN_MAX, SegmentOffer, SegmentStat},
    member::{Member, MemberEvent},
    segment::{Segment, SegmentEvent},
    space::GRAIN,
};
use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{ByteCount, Code, Era, Error, MemberId, SegmentId, TenantId, Timestamp};

/// The most members at a time.
const MEMBERS_MAX: usize = 65_536;

#[derive(Debug)]
pub(super) struct MemberRow {
    pub(super) state: Member,
    address: Box<str>,
    in_process: bool,
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
        let owned: Vec<_> = self
            .fleet
            .slots()
            .filter(|(_, s)| s.member == member && s.serves())
            .map(|(slot, _)| slot)
            .collect();
        for slot in owned {
            self.fleet.step(slot, SegmentEvent::Lose, &mut self.seen);
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
        self.tenants.insert(name.into(), id);
        Ok(id)
    }

    /// Gives space to the pool. May raise the era; see [`Catalog::era`].
    ///
    /// # Errors
    /// `ClientNotFound`; `InvalidParams` for a bad name or size; `SegmentAlreadyExists` for a name that is mounted.
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
        self.claim_name(member, &offer.name)?;
        if offer.highest_era >= self.era {
            let Some(next) = offer.highest_era.0.checked_add(1) else {
                return wrong("the member claims to have seen the last era there can be".into());
            };
            self.raise_era(Era(next));
        }
        let mounted =
            self.fleet
                .mount(member, &offer.name, offer.capacity.0, self.config.allocator);
        self.policy.set_capacity(ByteCount(self.fleet.capacity));
        self.settle();
        mounted.ok_or_else(|| Error::new(Code::Backpressure, "65,536 segments are mounted already"))
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
            return Err(Error::new(
                Code::SegmentNotFound,
                format!("segment {segment} is not mounted"),
            ));
        };
        let here = self.fleet.slot_mut(slot);
        if here.member != member {
            return Err(Error::new(
                Code::IllegalClient,
                format!("segment {segment} belongs to another member"),
            ));
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
        self.fleet
            .slots()
            .map(|(_, slot)| self.fleet.stat(slot, address(slot.member)))
            .collect()
    }

    /// Where a member serves data; `None` when it is not known.
    #[must_use]
    pub fn address(&self, member: MemberId) -> Option<&str> {
        self.members.by_id.get(&member).map(|m| &*m.address)
    }
}
