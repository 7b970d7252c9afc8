//! The oracle of space: who was given which bytes, who has written them, who may still be reading them.
//!
//! Kept beside the catalog from what it answers, never from what it thinks. Space may be given to a write only when the
//! one before it can do no harm: it was ended and no reader's guard is left, or its owner has acknowledged its fence.

use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{Extent, MemberId, Placement, SegmentId, Ticket, Timestamp};
use ziggurat_engine::{
    command::{GetGrant, Hold, PutEnd, PutGrant, Target, Targets, Written},
    ledger::Holding,
    space::GRAIN,
};

/// A segment of one incarnation.
pub(crate) type Place = (MemberId, SegmentId);

/// What the books know of one replica of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its writer may be writing.
    Open,
    /// Reported good: its bytes do not change any more.
    Good,
    /// Given up; the fence is on its way.
    GivenUp,
    /// Given up, and the fence is acknowledged.
    Fenced,
}

#[derive(Clone, Debug)]
struct Replica {
    place: Place,
    extents: Vec<Extent>,
    standing: Standing,
}

/// Last owners of each grain of a segment.
#[derive(Debug)]
struct Grains {
    granted: Vec<Ticket>,
    landed: Vec<Ticket>,
}

impl Grains {
    fn range(extent: Extent) -> std::ops::Range<usize> {
        (extent.offset / GRAIN) as usize..extent.end().div_ceil(GRAIN) as usize
    }
}

/// A guard on the replicas that were there when it was granted.
#[derive(Debug)]
struct Guard {
    term: u16,
    until: Timestamp,
    places: Vec<(Place, Vec<Extent>)>,
}

impl Guard {
    /// Whether it protects a grain of some extents. A version may have lain elsewhere in the same segment before.
    fn holds(&self, now: Timestamp, place: Place, extents: &[Extent]) -> bool {
        let shares = |a: &Extent| {
            let a = Grains::range(*a);
            let mut others = extents.iter().map(|b| Grains::range(*b));
            others.any(|b| a.start < b.end && b.start < a.end)
        };
        let here = |(other, guarded): &(Place, Vec<Extent>)| {
            *other == place && guarded.iter().filter(|e| e.len > 0).any(shares)
        };
        self.until > now && self.places.iter().any(here)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Books {
    places: BTreeMap<Place, Grains>,
    writes: BTreeMap<Ticket, Vec<Replica>>,
    /// Guards that were granted and not given back; their ends are on the master's clock.
    guards: BTreeMap<Ticket, Vec<Guard>>,
    /// The versions that writes of nodes have copied.
    copies: BTreeMap<Ticket, Ticket>,
}

/// A broken rule: name and circumstances.
pub(crate) type Broken = (&'static str, String);

impl Books {
    /// A master began: guards of the one before are of incarnations that nodes are not any more, and their terms come again.
    pub(crate) fn master_began(&mut self) {
        self.guards.clear();
    }

    /// A segment was mounted.
    pub(crate) fn mounted(&mut self, place: Place, capacity: u64) {
        let grains = capacity.div_ceil(GRAIN) as usize;
        let grains = Grains {
            granted: vec![Ticket::NONE; grains],
            landed: vec![Ticket::NONE; grains],
        };
        self.places.insert(place, grains);
    }

    /// A node was asked to copy a version into its memory. That may come again.
    pub(crate) fn copying(
        &mut self,
        now: Timestamp,
        write: Ticket,
        (member, holding): (MemberId, &Holding),
    ) -> Vec<Broken> {
        let Some(placement) = &holding.placement else {
            return vec![("copy_without_place", format!("{write}"))];
        };
        if self.copies.insert(write, holding.version.ticket).is_some() {
            return Vec::new();
        }
        let target = Target {
            member,
            placement: placement.clone(),
        };
        let grant = PutGrant {
            ticket: write,
            targets: Targets::One(target),
            span: Duration::ZERO,
        };
        self.granted(now, &grant)
    }

    /// The partition believes that a node has copied a version.
    pub(crate) fn copied(&mut self, write: Ticket, place: Place) -> Option<Broken> {
        let standing = self.standing(write, place);
        self.set(write, place, &[Standing::Open], Standing::Good);
        let is_late = !matches!(standing, Some(Standing::Open | Standing::Good));
        is_late.then(|| ("late_copy_accepted", format!("{write} is {standing:?}")))
    }

    /// A write was given space at `now` on the master's clock.
    pub(crate) fn granted(&mut self, now: Timestamp, grant: &PutGrant) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut replicas = Vec::new();
        for target in grant.targets.as_slice() {
            let place = (target.member, target.placement.segment);
            replicas.push(Replica {
                place,
                extents: target.placement.all().collect(),
                standing: Standing::Open,
            });
            // What lies in shard files is fenced by nobody: readers prove it.
            if target.is_shared() {
                continue;
            }
            let Some(grains) = self.places.get_mut(&place) else {
                broken.push((
                    "grant_of_unknown_segment",
                    format!("{}: {place:?}", grant.ticket),
                ));
                continue;
            };
            let mut before = Vec::new();
            for extent in target.placement.all().filter(|e| e.len > 0) {
                for owner in &mut grains.granted[Grains::range(extent)] {
                    if before.last() != Some(owner) {
                        before.push(*owner);
                    }
                    *owner = grant.ticket;
                }
            }
            before.sort_unstable();
            before.dedup();
            for owner in before.into_iter().filter(|t| *t != Ticket::NONE) {
                let extents: Vec<_> = target.placement.all().filter(|e| e.len > 0).collect();
                broken.extend(self.may_follow(now, owner, (place, &extents), grant.ticket));
            }
        }
        self.writes.insert(grant.ticket, replicas);
        broken
    }

    /// Whether the space of `owner` may have been given to `next`.
    fn may_follow(
        &self,
        now: Timestamp,
        owner: Ticket,
        (place, extents): (Place, &[Extent]),
        next: Ticket,
    ) -> Option<Broken> {
        let standing = self.standing(owner, place)?;
        match standing {
            Standing::Fenced => None,
            Standing::Good => {
                let version = self.copies.get(&owner).copied().unwrap_or(owner);
                let guards = self.guards.get(&version)?;
                let held = guards
                    .iter()
                    .find(|guard| guard.holds(now, place, extents))?;
                let what = format!(
                    "{next} got space of {owner}, guarded until {:?} at {now:?}",
                    held.until
                );
                Some(("space_reused_under_guard", what))
            }
            Standing::Open | Standing::GivenUp => {
                let what =
                    format!("{next} got space of {owner}, which is {standing:?} and not fenced");
                Some(("space_reused_before_fence", what))
            }
        }
    }

    fn standing(&self, ticket: Ticket, place: Place) -> Option<Standing> {
        let replicas = self.writes.get(&ticket)?;
        let here = replicas.iter().find(|replica| replica.place == place)?;
        Some(here.standing)
    }

    fn set(&mut self, ticket: Ticket, place: Place, from: &[Standing], to: Standing) {
        let replicas = self.writes.get_mut(&ticket).into_iter().flatten();
        for replica in replicas.filter(|r| r.place == place && from.contains(&r.standing)) {
            replica.standing = to;
        }
    }

    /// Bytes of a write land at the node.
    pub(crate) fn landed(
        &mut self,
        ticket: Ticket,
        place: Place,
        extent: Extent,
    ) -> Option<Broken> {
        let standing = self.standing(ticket, place);
        let range = Grains::range(extent);
        let grains = self.places.get(&place)?;
        let mut broken = None;
        let mut before = (ticket, ticket);
        for index in range.clone() {
            let (owner, last) = (grains.granted[index], grains.landed[index]);
            if (owner, last) == before {
                continue;
            }
            before = (owner, last);
            if owner < ticket {
                broken = Some((
                    "write_outside_its_grant",
                    format!("{ticket} at {extent:?}: {owner}"),
                ));
            } else if last > ticket && self.has(last, place, extent) {
                broken = Some((
                    "newer_bytes_overwritten",
                    format!("{ticket} at {extent:?} over {last}"),
                ));
            } else if owner > ticket
                && standing != Some(Standing::Good)
                && self.has(owner, place, extent)
            {
                let what = format!("{ticket} ({standing:?}) at {extent:?}, given to {owner}");
                broken = Some(("unfenced_write_into_given_space", what));
            }
        }
        if standing == Some(Standing::Fenced) {
            broken = Some(("write_behind_fence", format!("{ticket} at {extent:?}")));
        }
        let grains = self.places.get_mut(&place)?;
        for last in &mut grains.landed[range] {
            *last = ticket.max(*last);
        }
        broken
    }

    /// Whether a write was given any byte of the extent: the rest of its last grain was not.
    fn has(&self, ticket: Ticket, place: Place, extent: Extent) -> bool {
        let replicas = self.writes.get(&ticket).into_iter().flatten();
        let mut here = replicas.filter(|replica| replica.place == place);
        here.any(|replica| replica.extents.iter().any(|other| other.overlaps(extent)))
    }

    /// A version in memory was taken on from an earlier life: its bytes lie there, under another member and number.
    pub(crate) fn adopted(&mut self, ticket: Ticket, place: Place, placement: &Placement) {
        if !self.places.contains_key(&place) || self.standing(ticket, place).is_some() {
            // Heard twice: meanwhile it may have gone, and its space to others.
            return;
        }
        let extents: Vec<_> = placement.all().collect();
        if let Some(grains) = self.places.get_mut(&place) {
            for extent in extents.iter().filter(|e| e.len > 0) {
                grains.granted[Grains::range(*extent)].fill(ticket);
                grains.landed[Grains::range(*extent)].fill(ticket);
            }
        }
        self.writes.entry(ticket).or_default().push(Replica {
            place,
            extents,
            standing: Standing::Good,
        });
    }

    /// A report on a write was accepted with `readable` replicas.
    pub(crate) fn ended(&mut self, end: &PutEnd, readable: u32) -> Option<Broken> {
        let replicas = self.writes.get_mut(&end.ticket)?;
        let before = replicas.clone();
        for (index, replica) in replicas.iter_mut().enumerate() {
            let good = match &end.written {
                Written::All => Some(true),
                Written::Each(list) => list.get(index).copied().flatten(),
            };
            if good == Some(true) && replica.standing == Standing::Open {
                replica.standing = Standing::Good;
            }
        }
        let lost = |r: &Replica| matches!(r.standing, Standing::GivenUp | Standing::Fenced);
        if readable > 0 && before.iter().all(lost) {
            let what = format!("{} was given up before: {before:?}", end.ticket);
            return Some(("late_put_end_accepted", what));
        }
        None
    }

    /// Whether the segments of all good replicas of a write are among those that serve.
    pub(crate) fn all_serve(&self, ticket: Ticket, serves: impl Fn(SegmentId) -> bool) -> bool {
        let replicas = self.writes.get(&ticket).into_iter().flatten();
        let mut good = replicas.filter(|replica| replica.standing == Standing::Good);
        good.all(|replica| serves(replica.place.1))
    }

    /// The catalog asked for a fence.
    pub(crate) fn given_up(&mut self, ticket: Ticket, member: MemberId, placement: &Placement) {
        let place = (member, placement.segment);
        self.set(ticket, place, &[Standing::Open], Standing::GivenUp);
    }

    /// An owner acknowledged a fence.
    pub(crate) fn fenced(&mut self, ticket: Ticket, place: Place) {
        self.set(ticket, place, &[Standing::GivenUp], Standing::Fenced);
    }

    /// A guard was granted.
    pub(crate) fn guarded(&mut self, now: Timestamp, grant: &GetGrant) {
        let guards = self.guards.entry(grant.ticket).or_default();
        guards.retain(|guard| guard.until > now);
        let replicas = grant.replicas.as_slice().iter();
        guards.push(Guard {
            term: grant.hold.term,
            until: now.after(grant.span),
            places: replicas
                .map(|r| {
                    let place = (r.member, r.placement.segment);
                    (place, r.placement.all().collect())
                })
                .collect(),
        });
    }

    /// A guard was given back.
    pub(crate) fn given_back(&mut self, hold: &Hold) {
        if let Some(guards) = self.guards.get_mut(&hold.ticket)
            && let Some(index) = guards.iter().position(|guard| guard.term == hold.term)
        {
            guards.swap_remove(index);
        }
    }
}
