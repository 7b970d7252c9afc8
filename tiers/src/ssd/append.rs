//! Writing: objects become records, records become batches, batches become durable.
//!
//! A place in the file is taken under a short lock; filling and writing run side by side with other batches; one sync makes
//! all of them durable that have landed before it.

use super::{
    Durability, News, Open, SsdTier, codec_of,
    format::{
        PAGE, batch,
        codec::Codec,
        file::{FIRST_BATCH, FileHead, Seal, encode_footer, footer_len},
        pages,
        record::{Form, Record, TENANT_MAX},
    },
    logfile::{LogFile, run, write_synced},
    pack::{Bytes, Packed, Packing, Stream},
    record_of,
};
use std::sync::Arc;
use ziggurat_base::{
    ByteCount, CHUNK, Code, Crc32, Error, Result, Ticket,
    checksum::{Summer, table_len},
    copy::copy_and_sum,
};
use ziggurat_engine::{command::Hint, shelf::holdings::Names};
use ziggurat_io::{Buffer, Request};

/// The most payload of a batch, unless it is one object.
pub const BATCH_BYTES: ByteCount = ByteCount::mib(4);

/// The most objects of a batch, which bounds its headers.
pub const BATCH_OBJECTS: usize = 256;

/// Where the bytes of an object come from.
pub trait Source: Send + Sync {
    /// Fills `into` with the payload from `offset` on, which is a multiple of [`CHUNK`]; answers with the sum of each chunk.
    ///
    /// # Errors
    /// When the bytes are not there any more: the object is left out.
    fn fill(&mut self, offset: u64, into: &mut [u8]) -> Result<Vec<Crc32>>;
}

/// A payload that lies in memory.
impl Source for &[u8] {
    fn fill(&mut self, offset: u64, into: &mut [u8]) -> Result<Vec<Crc32>> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.get(from..).and_then(|rest| rest.get(..into.len()));
        let pieces = bytes.ok_or(Code::InvalidRead)?.chunks(CHUNK);
        let copied = into.chunks_mut(CHUNK).zip(pieces);
        Ok(copied.map(|(to, from)| copy_and_sum(to, from)).collect())
    }
}

/// One object to write.
pub struct Item<'a> {
    /// Tenant, key and relations.
    pub names: Names<'a>,
    /// The version.
    pub ticket: Ticket,
    /// Bytes of the payload.
    pub len: u64,
    /// Its sum; a payload that has another is left out.
    pub crc: Crc32,
    /// Whether it is likely to be used again.
    pub hint: Hint,
    /// Whether it may not be evicted.
    pub pinned: bool,
    /// The payload.
    pub source: &'a mut dyn Source,
}

/// How an append came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Somebody gave an object.
    Caller,
    /// Cleaning copies forward; it never waits for cleaning.
    Cleaner,
}

impl Item<'_> {
    fn record(&self, packed: Option<&Packed>) -> Record {
        Record {
            tenant: self.names.tenant.into(),
            key: self.names.key.to_owned(),
            ticket: self.ticket,
            len: self.len,
            stored_len: packed.map_or(self.len, |packed| packed.stored_len),
            at: 0,
            header_at: 0,
            crc: self.crc,
            codec: packed.map_or(Codec::Plain, |packed| packed.codec),
            hint: self.hint,
            pinned: self.pinned,
            parent: self.names.parent_owned(),
            group: self.names.group_owned(),
            table: vec![Crc32(0); (table_len(self.len) / 4) as usize],
        }
    }
}

/// A batch under construction: records with payload offsets counted from its start.
struct Plan {
    /// What is compressed, by position.
    packs: Vec<Option<Packed>>,
    records: Vec<Record>,
    headers: u64,
    total: u64,
    footer: u64,
}

impl Plan {
    fn of(items: &[Item<'_>], packs: Vec<Option<Packed>>, block: u64) -> Self {
        let both = items.iter().zip(&packs);
        let mut records: Vec<_> = both
            .map(|(item, pack)| item.record(pack.as_ref()))
            .collect();
        let headers = batch::headers_len(&records);
        let mut end = headers;
        for record in &mut records {
            record.at = end.next_multiple_of(block);
            end = record.at + record.stored_len;
        }
        let footer = records
            .iter()
            .map(|r| r.encoded_len(Form::Footer) as u64)
            .sum();
        Self {
            packs,
            records,
            headers,
            total: pages(end),
            footer,
        }
    }

    /// Moves the offsets to where the batch lies in the file.
    fn settle(&mut self, at: u64) {
        let mut header_at = at + batch::FIXED as u64;
        for record in &mut self.records {
            record.at += at;
            record.header_at = header_at;
            header_at += record.encoded_len(Form::Full) as u64;
        }
    }

    fn encode(&self, placed: &Placed) -> Vec<u8> {
        batch::encode(
            placed.file.number,
            placed.at,
            placed.synced,
            self.total,
            &self.records,
        )
    }
}

/// A batch that is in its file.
struct Placed {
    file: Arc<LogFile>,
    at: u64,
    synced: u64,
}

/// Ends the batch in its file, whatever becomes of the future that writes it.
struct UnderWay<'a>(&'a LogFile);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl SsdTier {
    /// Writes objects; answers by position. One that is held already is done. What is answered with success is as
    /// persistent as the setting says. What is not is told as refused once it is certain that a restart will not find it:
    /// until then somebody must remember that it may be there.
    ///
    /// # Errors
    /// Per object: `UnableOffloading` when there is no room now or the write budget is used up, `UnableOffload` when it could never be held,
    /// `ChecksumMismatch` when the payload is not the one that was announced, what its source answers, and write errors.
    pub async fn append(&self, items: &mut [Item<'_>]) -> Vec<Result<()>> {
        let mut answers: Vec<Result<()>> = items.iter().map(|item| self.admit(item)).collect();
        let mut wanted: Vec<(usize, &mut Item<'_>)> = Vec::new();
        for (index, item) in items.iter_mut().enumerate() {
            if answers[index].is_ok() && !self.holds(item.ticket) {
                wanted.push((index, item));
            }
        }
        let mut wanted = wanted.into_iter().peekable();
        while wanted.peek().is_some() {
            let (mut indices, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
            while let Some((index, item)) =
                wanted.next_if(|(_, item)| self.fits(indices.len(), bytes, item))
            {
                bytes += item.len;
                indices.push(index);
                group.push(take_item(item));
            }
            let results = self.append_batch(&mut group, Origin::Caller).await;
            for (index, result) in indices.into_iter().zip(results) {
                answers[index] = result;
            }
        }
        for (item, answer) in items.iter().zip(&answers) {
            if answer.is_err() {
                self.refuse(item.ticket, &item.names).await;
            }
        }
        answers
    }

    /// Whether a batch of `count` objects and `bytes` of payload takes one more of `len` bytes. Headers come on top of the
    /// payload: objects of a quarter of a batch share one in fours.
    pub(super) fn has_room(&self, count: usize, bytes: u64, len: u64) -> bool {
        let most = self.options.batch_bytes.0.min(self.logical_cap());
        let whole = bytes.saturating_add(len) <= most;
        count == 0 || (count < BATCH_OBJECTS && whole)
    }

    /// As [`SsdTier::has_room`], for what callers bring.
    fn fits(&self, count: usize, bytes: u64, item: &Item<'_>) -> bool {
        let alone = self.options.durability == Durability::Object;
        count == 0 || (!alone && self.has_room(count, bytes, item.len))
    }

    fn admit(&self, item: &Item<'_>) -> Result<()> {
        if item.names.tenant.len() > TENANT_MAX {
            return Err(Error::new(
                Code::InvalidParams,
                format!("a tenant's name of more than {TENANT_MAX} bytes cannot be stored"),
            ));
        }
        if self.could_hold(item.len) {
            return Ok(());
        }
        Err(Error::new(
            Code::UnableOffload,
            format!(
                "{} bytes do not fit into an SSD directory of {}{}: give it more",
                item.len,
                self.options.capacity,
                self.options
                    .logical_cap
                    .map_or_else(String::new, |cap| format!(" with a logical cap of {cap}")),
            ),
        ))
    }

    /// Writes one batch; answers by position.
    pub(super) async fn append_batch(
        &self,
        items: &mut [Item<'_>],
        origin: Origin,
    ) -> Vec<Result<()>> {
        let fail = |error: &Error, count: usize| vec![Err(error.clone()); count];
        if let Err(error) = self.check_full() {
            return fail(&error, items.len());
        }
        let mut packs = Vec::with_capacity(items.len());
        for item in items.iter_mut() {
            let codec = self.codec_for(item, origin);
            packs.push(self.pack(item, codec).await);
        }
        let plan = Plan::of(items, packs, u64::from(self.disk.geometry().block));
        match origin {
            Origin::Caller => {
                if let Err(error) = self.afford(plan.total, items.len()).await {
                    return fail(&error, items.len());
                }
            }
            Origin::Cleaner => self.owe(plan.total),
        }
        let result = self.append_plan(items, plan, origin).await;
        self.note_room(&result.as_ref().map(|_| ()).map_err(Clone::clone));
        result.unwrap_or_else(|error| fail(&error, items.len()))
    }

    /// The codec that is tried. Copies keep theirs: they are to take no more room than they give back.
    fn codec_for(&self, item: &Item<'_>, origin: Origin) -> Codec {
        match origin {
            Origin::Caller => self.options.packing.codec,
            Origin::Cleaner => {
                let held = self.lock().holdings.find(item.ticket);
                held.map_or(Codec::Plain, |held| codec_of(&held))
            }
        }
    }

    /// Writes a batch that is paid for. The outer error is that of the whole batch.
    async fn append_plan(
        &self,
        items: &mut [Item<'_>],
        plan: Plan,
        origin: Origin,
    ) -> Result<Vec<Result<()>>> {
        let again = |pack: &Packed| matches!(pack.bytes, Bytes::Again(_));
        let is_large = plan.total > self.options.batch_bytes.0 + PAGE
            || plan.packs.iter().flatten().any(again);
        // The place first: who holds a buffer must not wait for room, which cleaning makes with buffers of its own.
        let admitted = async {
            let payload: u64 = items.iter().map(|item| item.len).sum();
            let incoming = match origin {
                Origin::Caller => Some(self.admit_payload(payload, plan.total).await?),
                Origin::Cleaner => None,
            };
            let placed = self.place(plan.total, plan.footer, origin).await?;
            Ok((incoming, placed))
        };
        let (_incoming, placed) = match admitted.await {
            Ok(admitted) => admitted,
            Err(error) => {
                self.give_back(plan.total);
                return Err(error);
            }
        };
        match (is_large, items) {
            (true, [item]) => {
                let result = self.append_large(item, plan, placed, origin).await?;
                Ok(vec![result])
            }
            (_, items) => self.append_small(items, plan, placed, origin).await,
        }
    }

    /// A batch in one buffer and one write.
    async fn append_small(
        &self,
        items: &mut [Item<'_>],
        mut plan: Plan,
        placed: Placed,
        origin: Origin,
    ) -> Result<Vec<Result<()>>> {
        let _under_way = UnderWay(&placed.file);
        let wanted = self.intend(&placed.file, &plan.records, origin);
        let mut buffer = self.disk.pool().take(plan.total as usize).await?;
        let mut results = Vec::with_capacity(items.len());
        let mut end = plan.headers;
        let packs = std::mem::take(&mut plan.packs);
        let both = items.iter_mut().zip(packs);
        for (((item, pack), record), wanted) in both.zip(&mut plan.records).zip(wanted) {
            let payload = record.at as usize..(record.at + record.stored_len) as usize;
            buffer[end as usize..payload.start].fill(0);
            end = payload.end as u64;
            let into = &mut buffer[payload];
            results.push(wanted.and_then(|()| fill(item, pack, record, into)));
        }
        buffer[end as usize..].fill(0);
        // What could not be filled is left out of the headers; a batch without records tells a later scan how long it is.
        let mut good = results.iter().map(Result::is_ok);
        plan.records.retain(|_| good.next().unwrap_or(false));
        plan.settle(placed.at);
        let headers = plan.encode(&placed);
        buffer[..headers.len()].copy_from_slice(&headers);
        buffer[headers.len()..plan.headers as usize].fill(0);
        self.write(&placed, placed.at, buffer).await?;
        self.commit(&placed).await?;
        self.take_on(&placed.file, &plan.records, origin);
        Ok(results)
    }

    /// One object that is larger than a batch: piece by piece, its header last.
    async fn append_large(
        &self,
        item: &mut Item<'_>,
        mut plan: Plan,
        placed: Placed,
        origin: Origin,
    ) -> Result<Result<()>> {
        let _under_way = UnderWay(&placed.file);
        plan.settle(placed.at);
        let wanted = self.intend(&placed.file, &plan.records, origin);
        let pack = plan.packs.pop().flatten();
        let record = &mut plan.records[0];
        let filled = match wanted.into_iter().collect::<Result<()>>() {
            Ok(()) => self.pour(item, pack, record, &placed).await?,
            Err(error) => Err(error),
        };
        if filled.is_err() {
            // The place is taken: a batch without records tells a later scan how long it is.
            plan.records.clear();
        }
        let headers = plan.encode(&placed);
        let mut buffer = self.disk.pool().take(headers.len()).await?;
        buffer.copy_from_slice(&headers);
        self.write(&placed, placed.at, buffer).await?;
        self.commit(&placed).await?;
        self.take_on(&placed.file, &plan.records, origin);
        Ok(filled)
    }

    /// Writes the payload in pieces, a few at a time. The inner error is that of the source.
    async fn pour(
        &self,
        item: &mut Item<'_>,
        pack: Option<Packed>,
        record: &mut Record,
        placed: &Placed,
    ) -> Result<Result<()>> {
        /// Pieces under way at once.
        const PIECES: usize = 4;
        let piece = (self.options.batch_bytes.0 / PIECES as u64).next_multiple_of(CHUNK as u64);
        let Packing { level, .. } = self.options.packing;
        let mut stream = match pack.map(|pack| pack.bytes) {
            Some(Bytes::Again(lens)) => {
                let packing = Packing {
                    codec: record.codec,
                    level,
                };
                Stream::packed(&mut *item.source, record.len, packing, lens)
            }
            Some(Bytes::Here(_)) => return Err(Code::Internal.into()),
            None => Stream::plain(&mut *item.source),
        };
        let mut at = 0;
        while at < record.stored_len {
            let mut requests = Vec::with_capacity(PIECES);
            while at < record.stored_len && requests.len() < PIECES {
                let here = piece.min(record.stored_len - at);
                let padded = pages(here) as usize;
                // Only a first piece may be waited for: a writer that holds buffers must not wait for another.
                let buffer = match self.disk.pool().try_take(padded) {
                    Some(buffer) => buffer,
                    None if requests.is_empty() => self.disk.pool().take(padded).await?,
                    None => break,
                };
                let mut buffer = buffer;
                if let Err(error) = stream.fill(at, &mut buffer[..here as usize]).await {
                    self.run(placed, requests).await?;
                    return Ok(Err(error));
                }
                buffer[here as usize..].fill(0);
                requests.push(Request::Write {
                    offset: record.at + at,
                    buffer,
                    sync: false,
                });
                at += here;
            }
            self.run(placed, requests).await?;
        }
        Ok(take_sums(stream.finish(), record))
    }

    async fn run(&self, placed: &Placed, requests: Vec<Request>) -> Result<()> {
        let bytes: u64 = requests.iter().map(request_len).sum();
        let result = run(&*placed.file.file, requests).await;
        if result.is_err() {
            placed.file.break_up();
        }
        self.lock().stats.device_bytes += bytes;
        result
    }

    async fn write(&self, placed: &Placed, offset: u64, buffer: Buffer) -> Result<()> {
        let request = Request::Write {
            offset,
            buffer,
            sync: false,
        };
        self.run(placed, vec![request]).await
    }

    async fn commit(&self, placed: &Placed) -> Result<()> {
        if self.options.durability == Durability::Buffered {
            placed.file.landed();
            return Ok(());
        }
        placed.file.commit(placed.at).await
    }

    /// Notes that versions may be found in a file from now on, whatever becomes of the write; by position, which are. Of
    /// what was discarded since it was chosen for a copy nothing may be written: its tombstones do not name this file.
    fn intend(&self, file: &LogFile, records: &[Record], origin: Origin) -> Vec<Result<()>> {
        let mut state = self.lock();
        let intended = records.iter().map(|record| {
            if origin == Origin::Cleaner && state.holdings.find(record.ticket).is_none() {
                let what = "the version was discarded before it could be copied";
                return Err(Error::new(Code::ReplicaIsGone, what));
            }
            if state.is_grave(file.number, record.ticket) {
                let what = "the version was discarded, and a restart would not find it in the file that is being written";
                return Err(Error::new(Code::UnableOffload, what));
            }
            state.intend(file.number, record.ticket);
            Ok(())
        });
        intended.collect()
    }

    /// Takes records on that are as persistent as they are meant to be.
    fn take_on(&self, file: &LogFile, records: &[Record], origin: Origin) {
        let mut told = Vec::new();
        let mut state = self.lock();
        for record in records {
            state.highest = state.highest.max(record.ticket);
            if state.doomed.remove(&record.ticket) {
                continue;
            }
            match origin {
                // A record that was discarded while it was copied stays dead.
                Origin::Cleaner if state.holdings.find(record.ticket).is_none() => continue,
                Origin::Cleaner => {
                    state.stats.copied += 1;
                    state.stats.copied_bytes += record.stored_len;
                }
                Origin::Caller => {
                    told.push(News::Present(record.ticket));
                    state.stats.written += 1;
                    state.stats.written_bytes += record.len;
                    state.stats.stored_bytes += record.stored_len;
                    state.stats.compressed += u64::from(record.codec != Codec::Plain);
                }
            }
            state.take_on(file.number, record);
        }
        drop(state);
        self.tell(told);
    }

    /// A place for a batch of `len` bytes whose records take `footer` bytes in the footer.
    async fn place(&self, len: u64, footer: u64, origin: Origin) -> Result<Placed> {
        loop {
            if let Some(placed) = self.try_place(len, footer) {
                return Ok(placed);
            }
            let size = pages((FIRST_BATCH + len + footer_len(footer)).max(self.file_bytes));
            if origin == Origin::Caller {
                self.make_room(size, len).await?;
            }
            self.roll(len, footer, size).await?;
        }
    }

    fn try_place(&self, len: u64, footer: u64) -> Option<Placed> {
        let mut state = self.lock();
        let open = state.open.as_mut()?;
        let whole = open.end + len + footer_len(open.footer + footer);
        if open.file.is_broken() || whole > open.file.file.len() {
            return None;
        }
        let at = open.end;
        open.end += len;
        open.footer += footer;
        let file = Arc::clone(&open.file);
        let synced = file.begin(at, len);
        Some(Placed { file, at, synced })
    }

    /// Makes a new file the open one, with room for a batch.
    async fn roll(&self, len: u64, footer: u64, size: u64) -> Result<()> {
        let _rolling = self.rolling.lock().await;
        // Somebody else may have made it meanwhile.
        if self.has_place(len, footer) {
            return Ok(());
        }
        if self.lock().holdings.file_bytes() + size > self.options.capacity.0 {
            return Err(Error::new(
                Code::UnableOffloading,
                "the SSD directory is full and nothing in it may go now",
            ));
        }
        let file = self.new_file(size).await?;
        {
            let mut state = self.lock();
            if let Some(old) = state.open.take() {
                state.retired.push_back(old.file);
            }
            state.holdings.add_file(file.number, size);
            state.files.insert(file.number, Arc::clone(&file));
            state.open = Some(Open {
                file,
                end: FIRST_BATCH,
                footer: 0,
            });
        }
        self.seal_retired().await;
        Ok(())
    }

    fn has_place(&self, len: u64, footer: u64) -> bool {
        let state = self.lock();
        state.open.as_ref().is_some_and(|open| {
            let whole = open.end + len + footer_len(open.footer + footer);
            !open.file.is_broken() && whole <= open.file.file.len()
        })
    }

    async fn new_file(&self, size: u64) -> Result<Arc<LogFile>> {
        let number = {
            let mut state = self.lock();
            state.next_file += 1;
            state.next_file
        };
        let name = file_name(number);
        let file = self.disk.create(&name, size).await?;
        let head = FileHead {
            directory: self.directory,
            number,
            block: self.disk.geometry().block,
        };
        let made = async {
            write_synced(&*file, self.disk.pool(), 0, &head.encode()).await?;
            self.disk.sync_names().await
        };
        if let Err(error) = made.await {
            // Nothing is in it; the next start would take it for an empty file if it stayed.
            let _left = self.disk.remove(&name).await;
            return Err(error);
        }
        self.lock().stats.device_bytes += PAGE;
        self.owe(PAGE);
        Ok(Arc::new(LogFile::new(number, file, FIRST_BATCH)))
    }

    /// Seals the file that takes batches, if it has any, so that the next start need not prove what lies in it. For the
    /// end of a process: later batches go to another file.
    pub async fn seal_all(&self) {
        {
            let mut state = self.lock();
            if let Some(open) = state.open.take_if(|open| open.end > FIRST_BATCH) {
                state.retired.push_back(open.file);
            }
        }
        self.seal_retired().await;
    }

    /// Seals what takes no more batches and has none under way. What fails stays as it is: a file without a footer is read
    /// by its batches.
    pub(super) async fn seal_retired(&self) {
        let _sealing = self.sealing.lock().await;
        loop {
            let next = {
                let mut state = self.lock();
                let quiet = state.retired.iter().position(|file| file.is_quiet());
                let quiet = quiet.and_then(|at| state.retired.remove(at));
                if let Some(file) = &quiet {
                    state.graves.remove(&file.number);
                }
                quiet
            };
            let Some(file) = next else {
                return;
            };
            if !file.is_broken() {
                let _unsealed = self.seal(&file).await;
            }
        }
    }

    /// Writes the footer behind the batches, then the mark, and gives the rest of the file back.
    pub(super) async fn seal(&self, file: &LogFile) -> Result<()> {
        let records: Vec<_> = {
            let state = self.lock();
            let live = state.holdings.of_file(file.number);
            live.map(|(held, names)| record_of(&held, &names)).collect()
        };
        let footer = encode_footer(file.number, &records);
        let at = file.end_of_batches();
        let pool = self.disk.pool();
        write_synced(&*file.file, pool, at, &footer).await?;
        let seal = Seal {
            number: file.number,
            footer_at: at,
            footer_len: footer.len() as u64,
        };
        write_synced(
            &*file.file,
            pool,
            super::format::file::SEAL_AT,
            &seal.encode(),
        )
        .await?;
        let end = at + footer.len() as u64;
        let rest = file.file.len() - end;
        if rest > 0 {
            file.file.punch(end, rest).await?;
        }
        let written = footer.len() as u64 + PAGE;
        self.owe(written);
        let mut state = self.lock();
        state.stats.device_bytes += written;
        if state.files.contains_key(&file.number) {
            state.holdings.close_file(file.number, end);
        }
        Ok(())
    }
}

/// The name of a log file.
pub(super) fn file_name(number: u32) -> String {
    format!("{number:08x}.log")
}

/// The number of a log file by its name.
pub(super) fn file_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (file_name(number) == name).then_some(number)
}

fn request_len(request: &Request) -> u64 {
    match request {
        Request::Read { buffer, .. } | Request::Write { buffer, .. } => buffer.len() as u64,
        Request::Sync => 0,
    }
}

/// Reborrows an item, so that a group of them can be handed on.
fn take_item<'b>(item: &'b mut Item<'_>) -> Item<'b> {
    Item {
        names: item.names,
        ticket: item.ticket,
        len: item.len,
        crc: item.crc,
        hint: item.hint,
        pinned: item.pinned,
        source: &mut *item.source,
    }
}

/// Fills the payload of a record in place and proves it.
fn fill(
    item: &mut Item<'_>,
    pack: Option<Packed>,
    record: &mut Record,
    into: &mut [u8],
) -> Result<()> {
    let sums = match pack {
        Some(Packed {
            bytes: Bytes::Here(stored),
            sums,
            ..
        }) => {
            into.copy_from_slice(&stored);
            sums
        }
        Some(_) => return Err(Code::Internal.into()),
        None => item.source.fill(0, into)?,
    };
    take_sums(sums, record)
}

/// Takes the sums of the chunks on, and proves that the payload is the one that was announced.
fn take_sums(sums: Vec<Crc32>, record: &mut Record) -> Result<()> {
    let crc = join(Crc32::default(), &sums, record.len);
    record.table = match table_len(record.len) {
        0 => Vec::new(),
        _ => sums,
    };
    check_sum(crc, record)
}

/// The sum of `crc`'s bytes followed by `len` bytes with these chunk sums.
pub(super) fn join(crc: Crc32, chunks: &[Crc32], len: u64) -> Crc32 {
    let mut left = len;
    chunks.iter().fold(crc, |crc, sum| {
        let here = left.min(CHUNK as u64);
        left -= here;
        crc.combine(*sum, here)
    })
}

fn check_sum(crc: Crc32, record: &Record) -> Result<()> {
    let whole = record.table.len() as u64 == table_len(record.len) / 4;
    if crc == record.crc && whole {
        return Ok(());
    }
    Err(Error::new(
        Code::ChecksumMismatch,
        "the payload is not the one that was announced",
    ))
}

/// Sums a payload that is read back, chunk by chunk.
pub(super) fn sums_of(bytes: &[u8]) -> (Crc32, Vec<Crc32>) {
    let mut summer = Summer::default();
    summer.update(bytes);
    let crc = summer.crc();
    (crc, summer.finish().sums().to_vec())
}
