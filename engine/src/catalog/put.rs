//! Writing: reserve space, hand out a ticket, publish the result; and everything that ends an open write otherwise.

use super::{
    Catalog, Steps, evict::Room, fleet::ReplicaRecord, get::Ahead, members, rows::Place, table::Probe,
};
use crate::{
    Row,
    canary::{Canary, planted},
    command::{
        Answer, BATCH_MAX, Effect, Keys, PutAnswer, PutDone, PutEnd, PutGrant, PutItem, Wish,
        Written,
    },
    replica::{Replica, ReplicaEvent},
    write::{Write, WriteEvent},
};
use std::collections::BTreeMap;
use ziggurat_base::{
    ByteCount, Code, Crc32, Error, Extents, MemberId, SegmentId, TenantId, Ticket, Timestamp,
};

/// A write whose ticket is out.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) row: Row,
    pub(super) writer: MemberId,
    /// When it was granted or last renewed.
    pub(super) since: Timestamp,
    /// When it was granted.
    pub(super) started: Timestamp,
    pub(super) len: u64,
    crc: Option<Crc32>,
    /// Replicas that were granted.
    granted: u8,
    /// Empty once the object is readable: then its side record has them.
    pub(super) replicas: Vec<ReplicaRecord>,
}

/// A write that was given up and whose space waits for its fence.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) write: Write,
    pub(super) replicas: Vec<ReplicaRecord>,
}

/// Recently ended writes, so that a repeated `put_end` gets the same answer.
const RECENT: usize = 4096;

/// The open and closing writes of a partition.
#[derive(Debug)]
pub(super) struct Opens {
    pub(super) open: BTreeMap<Ticket, Open>,
    pub(super) by_row: BTreeMap<Row, Ticket>,
    pub(super) closing: BTreeMap<Ticket, Closing>,
    /// The write that the search for old ones looked at last.
    pub(super) swept: Ticket,
    recent: Box<[(Ticket, Row)]>,
}

impl Default for Opens {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            by_row: BTreeMap::new(),
            closing: BTreeMap::new(),
            swept: Ticket::NONE,
            recent: vec![(Ticket::NONE, Row(0)); RECENT].into_boxed_slice(),
        }
    }
}

impl Opens {
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.open.len() as u64, self.closing.len() as u64)
    }

    fn recent(&mut self, ticket: Ticket) -> &mut (Ticket, Row) {
        &mut self.recent[ticket.serial() as usize % RECENT]
    }
}

fn not_open(ticket: Ticket) -> Error {
    Error::new(
        Code::InvalidWrite,
        format!("write {ticket} is not open: it was ended, given up or pre-empted"),
    )
}

impl Catalog {
    /// Reserves space for new objects.
    pub fn put_start(
        &mut self,
        now: Timestamp,
        writer: MemberId,
        tenant: TenantId,
        items: &[PutItem<'_>],
        wish: &Wish,
    ) -> Vec<Answer<PutAnswer>> {
        if !self.members.alive(writer) {
            let error = members::unknown(writer);
            return items.iter().map(|_| Err(error.clone())).collect();
        }
        let mut steps = Steps::turn();
        self.relieve(now, &mut steps);
        let keys: Vec<_> = items.iter().map(|item| item.key).collect();
        let mut answers = Vec::with_capacity(items.len());
        self.for_each_row(
            Keys {
                tenant,
                keys: &keys,
            },
            Ahead::Look,
            |catalog, index, probe, row| {
                let item = &items[index];
                let answer = catalog.put_start_one(now, writer, item, wish, probe, row, &mut steps);
                catalog.count_put_start(&answer, wish);
                answers.push(answer);
            },
        );
        self.settle();
        answers
    }

    fn count_put_start(&mut self, answer: &Answer<PutAnswer>, wish: &Wish) {
        match answer {
            Ok(PutAnswer::Granted(grant)) => {
                self.stats.puts_granted += 1;
                let partial = grant.targets.as_slice().len() < usize::from(wish.replicas);
                self.stats.puts_partial += u64::from(partial);
            }
            Ok(PutAnswer::Existed) => self.stats.puts_existed += 1,
            Err(error) if error.code() == Code::ObjectAlreadyExists => {
                self.stats.puts_refused_writing += 1
            }
            Err(_) => self.stats.puts_refused_space += 1,
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one item of a batch with all that the batch shares"
    )]
    fn put_start_one(
        &mut self,
        now: Timestamp,
        writer: MemberId,
        item: &PutItem<'_>,
        wish: &Wish,
        probe: Probe<'_>,
        row: Option<Row>,
        steps: &mut Steps,
    ) -> Answer<PutAnswer> {
        if wish.replicas == 0 {
            return Err(Error::new(
                Code::InvalidParams,
                "0 replicas were asked for: ask for at least 1",
            ));
        }
        if let Some(found) = row {
            if self.serves(found) {
                return Ok(PutAnswer::Existed);
            }
            self.make_way(now, found)?;
        }
        let replicas = self.make_room(now, item.len, wish, steps)?;
        let (Some(ticket), Some(row)) = (self.next_ticket(), self.table.insert(probe)) else {
            for record in replicas {
                self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
            }
            return Err(Error::new(
                Code::KeysUltraLimit,
                "the partition can number no more objects or writes",
            ));
        };
        let targets = replicas
            .iter()
            .map(|record| self.fleet.target(record))
            .collect();
        let granted = replicas.len() as u8;
        let tagged = self.tags.set(row, &item.tags);
        let head = self.table.head_mut(row);
        head.set_writing(true);
        head.set_tagged(tagged);
        self.opens.by_row.insert(row, ticket);
        let open = Open {
            row,
            writer,
            since: now,
            started: now,
            len: item.len,
            crc: None,
            granted,
            replicas,
        };
        self.opens.open.insert(ticket, open);
        Ok(PutAnswer::Granted(PutGrant {
            ticket,
            targets,
            span: self.config.write_discard,
        }))
    }

    /// Clears a row that has nothing to read: a lost version goes, an abandoned write is pre-empted. The row is gone then.
    fn make_way(&mut self, now: Timestamp, row: Row) -> Answer<()> {
        if self.table.head(row).readable() {
            self.lose(now, row);
        }
        let Some(ticket) = self.opens.by_row.get(&row).copied() else {
            return Ok(());
        };
        let open = &self.opens.open[&ticket];
        let late = now.since(open.since) >= self.config.write_discard;
        if late || !self.members.alive(open.writer) {
            self.stats.puts_preempted += 1;
            self.close(ticket, WriteEvent::Preempt);
            return Ok(());
        }
        Err(Error::new(
            Code::ObjectAlreadyExists,
            "another writer is writing this key",
        ))
    }

    fn make_room(
        &mut self,
        now: Timestamp,
        len: u64,
        wish: &Wish,
        steps: &mut Steps,
    ) -> Answer<Vec<ReplicaRecord>> {
        if self.fleet.largest_capacity == 0 {
            return Err(Error::new(
                Code::NoAvailableHandle,
                "no segment is mounted: start a node",
            ));
        }
        if !self.fleet.could_hold_anywhere(len) {
            let size = ByteCount(len);
            return Err(Error::new(
                Code::NoAvailableHandle,
                format!("{size} is more than any segment can hold"),
            ));
        }
        loop {
            let replicas = self.reserve(len, wish);
            if !replicas.is_empty() {
                return Ok(replicas);
            }
            match self.make_free(now, len, steps) {
                Room::Made => {}
                Room::Later => {
                    return Err(Error::new(
                        Code::Backpressure,
                        "no room yet: eviction is under way or readers hold what could go",
                    ));
                }
                Room::Never => {
                    return Err(Error::new(
                        Code::NoAvailableHandle,
                        "no segment has room and nothing can be evicted",
                    ));
                }
            }
        }
    }

    /// Space for as many replicas as there is room for, each on another segment.
    fn reserve(&mut self, len: u64, wish: &Wish) -> Vec<ReplicaRecord> {
        let wanted = usize::from(wish.replicas);
        let mut replicas: Vec<ReplicaRecord> = Vec::with_capacity(1);
        for name in &wish.preferred {
            if let Some(slot) = self.fleet.named(name) {
                self.reserve_on(slot, len, wanted, &mut replicas);
            }
        }
        if replicas.len() < wanted {
            let mut order = Vec::with_capacity(8);
            self.placement.order(
                wanted - replicas.len(),
                &self.fleet,
                &mut self.dice,
                &mut order,
            );
            for index in order {
                let slot = self.fleet.usable(index);
                self.reserve_on(slot, len, wanted, &mut replicas);
            }
        }
        replicas
    }

    fn reserve_on(
        &mut self,
        slot: u16,
        len: u64,
        wanted: usize,
        replicas: &mut Vec<ReplicaRecord>,
    ) {
        if replicas.len() >= wanted || replicas.iter().any(|r| r.slot == slot) {
            return;
        }
        let record = self
            .fleet
            .reserve(slot, len)
            .or_else(|| self.fleet.reserve_pieces(slot, len));
        let position = replicas.len() as u8;
        replicas.extend(record.map(|record| ReplicaRecord { position, ..record }));
    }

    /// Reports on writes.
    pub fn put_end(&mut self, now: Timestamp, ends: &[PutEnd]) -> Vec<Answer<PutDone>> {
        assert!(ends.len() <= BATCH_MAX, "the caller splits larger batches");
        let answers = ends.iter().map(|end| self.put_end_one(now, end)).collect();
        self.settle();
        answers
    }

    fn put_end_one(&mut self, now: Timestamp, end: &PutEnd) -> Answer<PutDone> {
        let Some(mut open) = self.opens.open.remove(&end.ticket) else {
            return self.put_end_late(end);
        };
        let checked = self.check_end(&open, end);
        if let Err(error) = checked {
            self.opens.open.insert(end.ticket, open);
            return Err(error);
        }
        open.crc = Some(end.crc);
        let mut failed = Vec::new();
        let published = self.table.head(open.row).ticket == end.ticket;
        let before = self.extent_count(open.row);
        let records = match self.table.head(open.row).place() {
            Place::Side(side) if published => std::mem::take(self.sides.get_mut(side)),
            _ => std::mem::take(&mut open.replicas),
        };
        let mut kept = Vec::with_capacity(records.len());
        for mut record in records {
            let result = match &end.written {
                Written::All => Some(true),
                Written::Each(list) => list[usize::from(record.position)],
            };
            if record.state == Replica::Writing && !self.fleet.slot(record.slot).serves() {
                self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
                continue;
            }
            match (record.state, result) {
                (Replica::Writing, Some(true)) => {
                    self.seen.must(&mut record.state, ReplicaEvent::Commit)
                }
                (Replica::Writing, Some(false)) => {
                    failed.push(record);
                    continue;
                }
                _ => {}
            }
            kept.push(record);
        }
        let row = open.row;
        let answer = self.settle_write(now, end.ticket, open, kept, failed, published);
        if answer.is_ok() {
            self.recount_extents(row, before);
        }
        answer
    }

    fn check_end(&self, open: &Open, end: &PutEnd) -> Answer<()> {
        if open.crc.is_some_and(|crc| crc != end.crc) {
            return Err(Error::new(
                Code::ChecksumMismatch,
                "two reports on one write give different sums",
            ));
        }
        let count = usize::from(open.granted);
        match &end.written {
            Written::Each(list) if list.len() != count => Err(Error::new(
                Code::InvalidParams,
                format!("{} results for {count} replicas", list.len()),
            )),
            _ => Ok(()),
        }
    }

    /// Publishes what is good, keeps waiting for what is not known, gives up what failed.
    fn settle_write(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        open: Open,
        kept: Vec<ReplicaRecord>,
        failed: Vec<ReplicaRecord>,
        published: bool,
    ) -> Answer<PutDone> {
        let row = open.row;
        let readable = kept.iter().filter(|r| r.state == Replica::Readable).count();
        let waiting = kept.iter().any(|r| r.state == Replica::Writing);
        let mut write = Write::Open;
        if readable == 0 && !waiting {
            // Nothing good can come any more: the write ends as if its writer had given it up.
            self.opens.open.insert(
                ticket,
                Open {
                    replicas: failed,
                    ..open
                },
            );
            self.stats.puts_revoked += 1;
            self.close(ticket, WriteEvent::Revoke);
            return Err(Error::new(
                Code::WriteFail,
                "no replica of the object was written",
            ));
        }
        self.give_up(ticket, failed, WriteEvent::Revoke);
        if readable == 0 {
            self.opens.open.insert(
                ticket,
                Open {
                    replicas: kept,
                    ..open
                },
            );
            return Ok(PutDone { replicas: 0 });
        }
        self.publish(now, ticket, &open, kept, published);
        if waiting {
            self.opens.open.insert(
                ticket,
                Open {
                    replicas: Vec::new(),
                    ..open
                },
            );
        } else {
            self.seen.must(&mut write, WriteEvent::End);
            self.opens.by_row.remove(&row);
            self.table.head_mut(row).set_writing(false);
            *self.opens.recent(ticket) = (ticket, row);
        }
        Ok(PutDone {
            replicas: readable as u32,
        })
    }

    fn publish(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        open: &Open,
        mut replicas: Vec<ReplicaRecord>,
        published: bool,
    ) {
        let row = open.row;
        let held: u64 = replicas
            .iter()
            .map(|r| self.fleet.footprint(r.slot, open.len))
            .sum();
        if published && let Place::Side(side) = self.table.head(row).place() {
            *self.sides.get_mut(side) = replicas;
            return;
        }
        let place = match replicas.as_mut_slice() {
            [only] if only.check.is_none() && only.state == Replica::Readable => match only.extents
            {
                Extents::One(extent) => Place::Inline {
                    slot: only.slot,
                    offset: extent.offset,
                },
                Extents::Many(_) => Place::Side(self.sides.insert(replicas)),
            },
            _ => Place::Side(self.sides.insert(replicas)),
        };
        let head = self.table.head_mut(row);
        head.set_place(place);
        head.ticket = ticket;
        head.len = open.len;
        head.crc = open.crc.expect("a write is published with its sum");
        head.used = now;
        let hash = head.hash;
        self.policy.insert(row, hash, ByteCount(held.max(1)));
        self.stats.puts_ended += 1;
        self.stats.objects += 1;
    }

    /// Takes the extents of a row into the count, of which `before` are in it.
    pub(super) fn recount_extents(&mut self, row: Row, before: u64) {
        self.stats.extents = self.stats.extents - before + self.extent_count(row);
    }

    /// Extents of the readable version of a row.
    pub(super) fn extent_count(&self, row: Row) -> u64 {
        match self.table.head(row).place() {
            Place::Nowhere => 0,
            Place::Inline { .. } => 1,
            Place::Side(side) => self
                .sides
                .get(side)
                .iter()
                .map(|r| r.extents.as_slice().len() as u64)
                .sum(),
        }
    }

    /// A report on a write that is not open: the repetition of the last one, or too late.
    fn put_end_late(&mut self, end: &PutEnd) -> Answer<PutDone> {
        let (ticket, row) = *self.opens.recent(end.ticket);
        if ticket == end.ticket
            && let Some(head) = self
                .table
                .rows
                .get(row)
                .filter(|head| head.ticket == ticket)
        {
            if head.crc != end.crc {
                return Err(Error::new(
                    Code::ChecksumMismatch,
                    "two reports on one write give different sums",
                ));
            }
            let replicas = self
                .readable_targets(row)
                .map_or(0, |t| t.as_slice().len() as u32);
            return Ok(PutDone { replicas });
        }
        if let Some(closing) = self.opens.closing.get_mut(&end.ticket) {
            if planted(Canary::LatePutEndAccepted) {
                let replicas = closing.replicas.len() as u32;
                return Ok(PutDone { replicas });
            }
            let refused = self.seen.step(&mut closing.write, WriteEvent::End);
            debug_assert!(refused.is_err(), "a closing write cannot end");
            for record in &mut closing.replicas {
                let refused = self.seen.step(&mut record.state, ReplicaEvent::Commit);
                debug_assert!(refused.is_err(), "a given-up replica cannot be committed");
            }
        }
        Err(not_open(end.ticket))
    }

    /// Gives writes up at the wish of their writers.
    pub fn revoke(&mut self, tickets: &[Ticket]) -> Vec<Answer<()>> {
        assert!(
            tickets.len() <= BATCH_MAX,
            "the caller splits larger batches"
        );
        let revoke = |ticket: &Ticket| {
            if !self.opens.open.contains_key(ticket) {
                return Err(self.refuse_closing(*ticket, WriteEvent::Revoke));
            }
            self.stats.puts_revoked += 1;
            self.close(*ticket, WriteEvent::Revoke);
            Ok(())
        };
        let answers = tickets.iter().map(revoke).collect();
        self.settle();
        answers
    }

    fn refuse_closing(&mut self, ticket: Ticket, event: WriteEvent) -> Error {
        if let Some(closing) = self.opens.closing.get_mut(&ticket) {
            let refused = self.seen.step(&mut closing.write, event);
            debug_assert!(
                refused.is_err(),
                "a closing write takes no orders from its writer"
            );
        }
        not_open(ticket)
    }

    /// Gives writers more time.
    pub fn renew(&mut self, now: Timestamp, tickets: &[Ticket]) -> Vec<Answer<()>> {
        assert!(
            tickets.len() <= BATCH_MAX,
            "the caller splits larger batches"
        );
        let renew = |ticket: &Ticket| match self.opens.open.get_mut(ticket) {
            Some(open) => {
                open.since = now;
                Ok(())
            }
            None => Err(not_open(*ticket)),
        };
        tickets.iter().map(renew).collect()
    }

    /// Ends an open write without a result: what is unfinished is fenced, then freed.
    pub(super) fn close(&mut self, ticket: Ticket, event: WriteEvent) {
        let mut open = self
            .opens
            .open
            .remove(&ticket)
            .expect("only an open write is closed");
        self.opens.by_row.remove(&open.row);
        self.table.head_mut(open.row).set_writing(false);
        let mut unfinished = std::mem::take(&mut open.replicas);
        if let Place::Side(side) = self.table.head(open.row).place() {
            let before = self.extent_count(open.row);
            let records = self.sides.get_mut(side);
            unfinished.extend(records.extract_if(.., |r| r.state == Replica::Writing));
            self.recount_extents(open.row, before);
        }
        self.give_up(ticket, unfinished, event);
        if !self.table.head(open.row).readable() {
            self.drop_row(open.row);
        }
    }

    /// Fences unfinished replicas; their space is held until the owner has acknowledged.
    fn give_up(&mut self, ticket: Ticket, replicas: Vec<ReplicaRecord>, event: WriteEvent) {
        let mut write = Write::Open;
        let mut fencing = Vec::with_capacity(replicas.len());
        for mut record in replicas {
            if !self.fleet.slot(record.slot).serves() {
                self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
                continue;
            }
            self.seen.must(&mut record.state, ReplicaEvent::Abandon);
            let target = self.fleet.target(&record);
            if planted(Canary::SpaceReusedEarly) {
                self.fleet
                    .free(record, ReplicaEvent::Fenced, &mut self.seen);
                continue;
            }
            self.effects.push(Effect::Fence {
                member: target.member,
                ticket,
                placement: target.placement,
            });
            fencing.push(record);
        }
        if fencing.is_empty() {
            return;
        }
        if let Some(closing) = self.opens.closing.get_mut(&ticket) {
            closing.replicas.extend(fencing);
            return;
        }
        self.seen.must(&mut write, event);
        self.opens.closing.insert(
            ticket,
            Closing {
                write,
                replicas: fencing,
            },
        );
    }

    /// The owner refuses a ticket from now on: its space is free. Repetitions change nothing.
    pub fn fenced(&mut self, member: MemberId, ticket: Ticket, segment: SegmentId) {
        let owned = self
            .fleet
            .find(segment)
            .filter(|slot| self.fleet.slot(*slot).member == member);
        if let (Some(slot), Some(closing)) = (owned, self.opens.closing.get_mut(&ticket)) {
            let done: Vec<_> = closing
                .replicas
                .extract_if(.., |r| r.slot == slot)
                .collect();
            self.settle_closing(ticket, done, ReplicaEvent::Fenced);
        }
        self.settle();
    }

    /// Frees replicas that were taken out of a closing write, and the write itself when they were its last.
    pub(super) fn settle_closing(
        &mut self,
        ticket: Ticket,
        done: Vec<ReplicaRecord>,
        event: ReplicaEvent,
    ) {
        for record in done {
            self.fleet.free(record, event, &mut self.seen);
        }
        if let Some(mut closing) = self.opens.closing.remove(&ticket) {
            if closing.replicas.is_empty() {
                self.seen.must(&mut closing.write, WriteEvent::Settle);
            } else {
                self.opens.closing.insert(ticket, closing);
            }
        }
    }

    /// What a member has to fence, whether it was told or not: for a member whose stream broke.
    #[must_use]
    pub fn debts(&self, member: MemberId) -> Vec<Effect> {
        let closing = self.opens.closing.iter();
        let records = closing
            .flat_map(|(ticket, c)| c.replicas.iter().map(|r| (*ticket, self.fleet.target(r))));
        records
            .filter(|(_, target)| target.member == member)
            .map(|(ticket, t)| Effect::Fence {
                member,
                ticket,
                placement: t.placement,
            })
            .collect()
    }
}
