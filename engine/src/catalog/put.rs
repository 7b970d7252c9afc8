//! Beginning a write: make room, reserve space, hand out a ticket.

use super::{
    Catalog, Steps, evict::Room, fleet::ReplicaRecord, get::Ahead, members, table::Probe,
    writes::Open,
};
use crate::{
    Row,
    command::{Answer, Keys, PutAnswer, PutGrant, PutItem, Wish},
    replica::ReplicaEvent,
    write::WriteEvent,
};
use ziggurat_base::{ByteCount, Code, Error, MemberId, TenantId, Timestamp};

fn still_told() -> Error {
    Error::new(
        Code::Backpressure,
        "no room yet: nodes are telling what their memory holds",
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
                let wished = usize::from(wish.replicas) + usize::from(wish.dfs);
                let partial = grant.targets.as_slice().len() < wished;
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
        if wish.replicas == 0 && wish.dfs == 0 {
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
        let mut replicas = match wish.replicas {
            0 => Vec::new(),
            _ => self.make_room(now, item.len, wish, steps)?,
        };
        match self.reserve_records(now, probe.tenant, item, wish, steps) {
            Ok(records) => replicas.extend(records),
            Err(error) => {
                self.return_space(replicas);
                return Err(error);
            }
        }
        for (position, record) in replicas.iter_mut().enumerate() {
            record.position = position as u8;
        }
        let (Some(ticket), Some(row)) = (self.next_ticket(), self.table.insert(probe)) else {
            self.return_space(replicas);
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

    /// Nobody has heard of these replicas.
    fn return_space(&mut self, replicas: Vec<ReplicaRecord>) {
        for record in replicas {
            self.fleet.free(record, ReplicaEvent::Lose, &mut self.seen);
        }
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
        if !self.fleet.could_hold_anywhere(len) && self.fleet.is_any_offering() {
            return Err(still_told());
        }
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
                Room::Never if self.fleet.is_any_offering() => return Err(still_told()),
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
        replicas.extend(record);
    }
}
