//! Removals: what must not come back is written down beside the shard files before the record is wiped, so that whoever
//! lists the root later does not take a record for alive that a crash has left.
//!
//! Each process has logs of its own, and everybody honours all of them. A log is written by one process, one append after
//! the other, each in pages of its own: a tear is behind everything that was acknowledged.

use crate::{
    Root,
    format::{
        BLOCK,
        census::{self, Census},
        record::{Header, Peek},
        removed::{self, ENTRIES_MAX, Page, Removed},
    },
    root::replace,
    shard::Shard,
    transfer::{land, landed_buffer, read_all, start, write_synced},
};
use futures_util::{future::join_all, lock::Mutex as AsyncMutex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use ziggurat_base::{
    Code, Era, Error, Extent, Result, Ticket,
    hash::{key_digest, mix},
};
use ziggurat_io::{Disk, File, Request};

/// What a log is called until it is whole.
pub(crate) const NEW_NAME: &str = "removed.zig.new";

/// What a census is called until it is whole: its name and this.
pub(crate) const NEW_CENSUS: &str = ".new";

/// Pages of a new log, its head included.
const LOG_PAGES: u32 = 64;

/// Records whose headers are looked at, or wiped, at once.
const AT_ONCE: usize = 64;

/// What must not come back, as all logs of a root tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    entries: BTreeMap<Ticket, u64>,
    /// By digest of the key: the newest version that was removed.
    newest: BTreeMap<u64, Ticket>,
    /// Why nobody can tell what else was removed; empty when all is known.
    doubts: Vec<String>,
    /// By shard file: what was alive when the last era began there.
    censuses: BTreeMap<u32, Census>,
}

impl Removals {
    /// Whether a record is dead: it was removed, or a later version of its key was, which had replaced it before, or it was
    /// written when its era was long over.
    #[must_use]
    pub fn covers(&self, header: &Header) -> bool {
        let digest = key_digest(&header.tenant, header.key.as_key());
        let newest = self.newest.get(&digest);
        self.entries.contains_key(&header.ticket)
            || newest.is_some_and(|newest| *newest > header.ticket)
            || self
                .censuses
                .get(&header.shard)
                .is_some_and(|census| census.excludes(header.ticket))
    }

    /// Whether a removal may be missing because a log is damaged; says which, a line each.
    #[must_use]
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// How many versions were removed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    fn add(&mut self, removed: Removed) {
        let digest = self.entries.entry(removed.ticket).or_default();
        *digest = (*digest).max(removed.digest);
        if removed.digest != 0 {
            let newest = self.newest.entry(removed.digest).or_default();
            *newest = (*newest).max(removed.ticket);
        }
    }

    /// Reads all logs of a root.
    async fn load(disk: &dyn Disk, root: u128) -> Result<(Self, Vec<String>)> {
        let (mut removals, mut logs) = (Self::default(), Vec::new());
        for stat in disk.list().await? {
            let is_census = census::is_name(&stat.name);
            if !is_census && !removed::is_name(&stat.name) {
                continue;
            }
            // Its owner may have replaced it since the names were read; then the one in its place was read too, or is.
            let file = match disk.open(&stat.name).await {
                Ok(file) => file,
                Err(error) if error.code() == Code::FileNotFound => {
                    return Err(Error::new(
                        Code::Backpressure,
                        format!("{} was replaced meanwhile: look again", stat.name),
                    ));
                }
                Err(error) => return Err(error),
            };
            let bytes = read_all(disk, &*file, 0..file.len() / BLOCK * BLOCK).await?;
            if is_census {
                removals.read_census(&stat.name, root, &bytes)?;
                continue;
            }
            removals.read_log(&stat.name, root, &bytes)?;
            logs.push(stat.name);
        }
        Ok((removals, logs))
    }

    /// Takes what a census says.
    ///
    /// # Errors
    /// `InvalidVersion` for one of a later release.
    fn read_census(&mut self, name: &str, root: u128, bytes: &[u8]) -> Result<()> {
        match Census::decode(bytes) {
            Ok(census) if census.root == root && census::name(census.shard) == name => {
                self.censuses.insert(census.shard, census);
            }
            Ok(_) => self.doubts.push(format!("{name} is of another shard file")),
            Err(error) if error.code() == Code::InvalidVersion => return Err(error),
            Err(error) => self.doubts.push(format!("{name}: {error}")),
        }
        Ok(())
    }

    /// Takes what a log says.
    ///
    /// # Errors
    /// `InvalidVersion` for a log of a later release.
    fn read_log(&mut self, name: &str, root: u128, bytes: &[u8]) -> Result<()> {
        let is_blank = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let mut pages = bytes.chunks(BLOCK as usize);
        let Some(head) = pages.next() else {
            return Ok(());
        };
        match removed::decode_head(head) {
            Ok(home) if home == root => {}
            Ok(home) => {
                self.doubts
                    .push(format!("{name} is a removal log of root {home:032x}"));
                return Ok(());
            }
            Err(error) if error.code() == Code::InvalidVersion => return Err(error),
            // It was being made when its process ended: nothing was in it.
            Err(_) if is_blank(&bytes[head.len()..]) => return Ok(()),
            Err(error) => self.doubts.push(format!("{name}: {error}")),
        }
        let mut torn = None;
        for (number, page) in (1..).zip(pages) {
            if is_blank(page) {
                continue;
            }
            match Page::decode(page) {
                Ok(page) if (page.root, page.number) == (root, number) => {
                    // One page is written after the other, and none after one that failed: a tear is the last.
                    if let Some(torn) = torn.take() {
                        self.doubts.push(format!("{name}: page {torn} is damaged"));
                    }
                    page.entries.into_iter().for_each(|entry| self.add(entry));
                }
                Err(error) if error.code() == Code::InvalidVersion => return Err(error),
                Ok(_) | Err(_) => torn = torn.or(Some(number)),
            }
        }
        Ok(())
    }
}

/// What this process writes.
#[derive(Debug)]
pub(crate) struct Carrier {
    number: u64,
    logs: AtomicU64,
    log: AsyncMutex<Option<Log>>,
}

impl Carrier {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            logs: AtomicU64::new(0),
            log: AsyncMutex::new(None),
        }
    }

    /// The name of the next log: none that there is.
    fn next_name(&self, is_taken: impl Fn(&String) -> bool) -> String {
        loop {
            let count = self.logs.fetch_add(1, Ordering::Relaxed);
            let name = removed::name(mix(self.number ^ mix(count)));
            if !is_taken(&name) {
                return name;
            }
        }
    }
}

/// The log that is written now.
#[derive(Debug)]
struct Log {
    file: Arc<dyn File>,
    /// The first page that was never written.
    next: u32,
    pages: u32,
}

impl Root {
    /// What must not come back, as all logs say.
    ///
    /// # Errors
    /// `InvalidVersion` for a log of a later release, and errors of the disk.
    pub async fn removals(&self) -> Result<Removals> {
        /// Times that the logs may be replaced while they are read.
        const LOOKS_MAX: u32 = 8;
        let mut looks = 0;
        loop {
            looks += 1;
            match Removals::load(self.disk(), self.id()).await {
                Err(error) if error.code() == Code::Backpressure && looks < LOOKS_MAX => {}
                result => return result.map(|(removals, _)| removals),
            }
        }
    }

    /// Removes versions for ever: notes them in a log, then wipes their records where these are still there. When it
    /// returns, nothing of them comes back, and their extents may be used again. It may be repeated. One whose extent is not
    /// known has one of no length: it is noted.
    ///
    /// # Errors
    /// `InvalidReplica` for a shard file or an extent that there is not, and errors of the disk: then nothing is promised,
    /// and the extents stay what they are.
    pub async fn discard(&self, shard: u32, versions: &[(Ticket, Extent)]) -> Result<()> {
        let shard = self.shard(shard)?;
        for some in versions.chunks(ENTRIES_MAX) {
            let (there, lost): (Vec<_>, Vec<_>) =
                some.iter().copied().partition(|(_, extent)| extent.len > 0);
            let found = self.headers_at(&shard, &there).await?;
            let digests = found.iter().map(|found| found.digest);
            let digests = digests.chain(lost.iter().map(|_| 0));
            let entries: Vec<_> = there
                .iter()
                .chain(&lost)
                .zip(digests)
                .map(|((ticket, _), digest)| Removed {
                    ticket: *ticket,
                    digest,
                })
                .collect();
            self.note(&entries).await?;
            self.wipe_found(&shard, &there, &found).await?;
        }
        Ok(())
    }

    /// Wipes records that are not to be noted: writes that were given up, and what leaves for want of room. When it
    /// returns, their extents may be used again; a crash before that may leave them to whoever lists the root.
    ///
    /// # Errors
    /// As [`Root::discard`].
    pub async fn wipe(&self, shard: u32, versions: &[(Ticket, Extent)]) -> Result<()> {
        let shard = self.shard(shard)?;
        for some in versions.chunks(ENTRIES_MAX) {
            let found = self.headers_at(&shard, some).await?;
            self.wipe_found(&shard, some, &found).await?;
        }
        Ok(())
    }

    /// Notes which records of a shard file are alive as an era begins there: whatever else is of an earlier era is never listed
    /// again. Durable when it returns.
    ///
    /// # Errors
    /// `InvalidReplica` for a shard file that there is not, and errors of the disk.
    pub async fn take_census(&self, shard: u32, era: Era, mut alive: Vec<Ticket>) -> Result<()> {
        let shard = self.shard(shard)?.index;
        alive.sort_unstable();
        alive.dedup();
        let census = Census {
            root: self.id(),
            shard,
            era,
            alive,
        };
        let name = census::name(shard);
        let new = format!("{name}{NEW_CENSUS}");
        replace(self.disk(), &new, &name, &census.encode()).await
    }

    /// Looks at the first block of each extent.
    async fn headers_at(
        &self,
        shard: &Shard,
        versions: &[(Ticket, Extent)],
    ) -> Result<Vec<AtExtent>> {
        let file = shard.file();
        let mut found = Vec::with_capacity(versions.len());
        for some in versions.chunks(AT_ONCE) {
            let mut requests = Vec::with_capacity(some.len());
            for (_, extent) in some {
                shard.check_extent(*extent)?;
            }
            let len = some.len() * BLOCK as usize;
            let mut buffer = self.disk().pool().take(len).await?;
            for (_, extent) in some.iter().rev() {
                let left = buffer.len() - BLOCK as usize;
                let block = match left {
                    0 => None,
                    _ => Some(buffer.split_off(left)),
                };
                let offset = shard.start + extent.offset;
                match block {
                    Some(block) => requests.push(Request::Read {
                        offset,
                        buffer: block,
                    }),
                    None => {
                        requests.push(Request::Read { offset, buffer });
                        break;
                    }
                }
            }
            let landed = join_all(file.start(requests).into_iter().map(landed_buffer)).await;
            for ((ticket, extent), block) in some.iter().zip(landed.into_iter().rev()) {
                found.push(AtExtent::of(&block?, shard, *ticket, *extent));
            }
        }
        Ok(found)
    }

    /// Lays zeros over the headers that are still there, and makes that durable.
    async fn wipe_found(
        &self,
        shard: &Shard,
        versions: &[(Ticket, Extent)],
        found: &[AtExtent],
    ) -> Result<()> {
        let (file, mark) = (shard.file(), shard.sync_mark());
        let there: Vec<_> = versions
            .iter()
            .zip(found)
            .filter(|(_, found)| found.is_it)
            .map(|((_, extent), _)| shard.start + extent.offset)
            .collect();
        if there.is_empty() {
            return Ok(());
        }
        for some in there.chunks(AT_ONCE) {
            let mut buffer = self.disk().pool().take(some.len() * BLOCK as usize).await?;
            buffer.fill(0);
            let mut requests = Vec::with_capacity(some.len());
            for (index, offset) in some.iter().enumerate().rev() {
                let block = match index {
                    0 => break,
                    _ => buffer.split_off(index * BLOCK as usize),
                };
                requests.push(wipe(*offset, block));
            }
            requests.push(wipe(some[0], buffer));
            for landed in join_all(file.start(requests).into_iter().map(land)).await {
                landed?;
            }
        }
        let synced = land(start(&*file, Request::Sync)).await;
        shard.synced(mark, synced).map(drop)
    }

    /// Appends to this process' log. Durable when it returns.
    async fn note(&self, entries: &[Removed]) -> Result<()> {
        let carrier = self.carrier();
        let mut log = carrier.log.lock().await;
        // Taken out while it is written: a log whose append failed, or was dropped half-way, is never written again.
        let taken = log.take().filter(|log| log.next < log.pages);
        let mut open = match taken {
            Some(open) => open,
            None => self.new_log().await?,
        };
        let page = Page {
            root: self.id(),
            number: open.next,
            entries: entries.to_vec(),
        };
        let offset = u64::from(open.next) * BLOCK;
        write_synced(self.disk(), &*open.file, offset, &page.encode()).await?;
        open.next += 1;
        *log = Some(open);
        Ok(())
    }

    async fn new_log(&self) -> Result<Log> {
        let names = self.disk().list().await?;
        let is_taken = |name: &String| names.iter().any(|file| file.name == *name);
        let name = self.carrier().next_name(is_taken);
        let len = u64::from(LOG_PAGES) * BLOCK;
        let file = self.disk().create(&name, len).await?;
        write_synced(self.disk(), &*file, 0, &removed::encode_head(self.id())).await?;
        self.disk().sync_names().await?;
        Ok(Log {
            file,
            next: 1,
            pages: LOG_PAGES,
        })
    }

    /// Puts one log in the place of all, without what no record on any shard file needs: `needed` says of what is there
    /// which version it is, by digest and ticket. No process may have the root meanwhile. Says how many removals were left
    /// out.
    pub(crate) async fn compact(&self, needed: &[(u64, Ticket)]) -> Result<u64> {
        let (removals, logs) = Removals::load(self.disk(), self.id()).await?;
        if !removals.doubts.is_empty() {
            return Ok(0);
        }
        let tickets: BTreeSet<_> = needed.iter().map(|(_, ticket)| *ticket).collect();
        let mut oldest: BTreeMap<u64, Ticket> = BTreeMap::new();
        for (digest, ticket) in needed {
            let oldest = oldest.entry(*digest).or_insert(*ticket);
            *oldest = (*oldest).min(*ticket);
        }
        let is_needed = |ticket: Ticket, digest: u64| {
            let oldest = oldest.get(&digest).filter(|_| digest != 0);
            tickets.contains(&ticket) || oldest.is_some_and(|oldest| *oldest < ticket)
        };
        let kept = removals.entries.iter();
        let kept = kept.filter(|(ticket, digest)| is_needed(**ticket, **digest));
        let kept: Vec<_> = kept
            .map(|(ticket, digest)| Removed {
                ticket: *ticket,
                digest: *digest,
            })
            .collect();
        if !kept.is_empty() {
            let name = self.carrier().next_name(|name| logs.contains(name));
            let mut bytes = removed::encode_head(self.id());
            for (number, entries) in (1..).zip(kept.chunks(ENTRIES_MAX)) {
                let page = Page {
                    root: self.id(),
                    number,
                    entries: entries.to_vec(),
                };
                bytes.extend_from_slice(&page.encode());
            }
            replace(self.disk(), NEW_NAME, &name, &bytes).await?;
        }
        for log in &logs {
            self.disk().remove(log).await?;
        }
        self.disk().sync_names().await?;
        Ok(removals.count() - kept.len() as u64)
    }
}

fn wipe(offset: u64, buffer: ziggurat_io::Buffer) -> Request {
    Request::Write {
        offset,
        buffer,
        sync: false,
    }
}

/// What lies at the start of an extent.
#[derive(Clone, Copy, Debug)]
struct AtExtent {
    /// Whether it is the record that is asked for, whole or torn.
    is_it: bool,
    /// Of its key; 0 when that cannot be told.
    digest: u64,
}

impl AtExtent {
    fn of(block: &[u8], shard: &Shard, ticket: Ticket, extent: Extent) -> Self {
        let peek = Peek::of(block).filter(|peek| {
            (peek.root, peek.shard, peek.ticket) == (shard.root, shard.index, ticket)
                && peek.extent == extent
        });
        // A longer header has its names in its first block too, as a rule, but nothing there proves them.
        let header = peek.filter(|peek| u64::from(peek.len) == BLOCK);
        let header = header.and_then(|_| Header::decode(block).ok());
        let digest = header.map(|header| key_digest(&header.tenant, header.key.as_key()));
        Self {
            is_it: peek.is_some(),
            digest: digest.unwrap_or(0),
        }
    }
}
