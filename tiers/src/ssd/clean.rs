//! Making room: files without live records go at once; when the capacity is reached one file is chosen, what is worth it
//! is copied forward, and the file goes with the rest.
//!
//! `fifo` takes the oldest file and copies nothing. `lru` and `s3_fifo` take a file that is mostly dead if there is one,
//! and copy what lives; else the oldest, and copy what was read since it was written, at most a quarter of a file: `lru`
//! makes it cold again, `s3_fifo` takes one from its count of reads.

use super::{
    News, Options, SsdTier, State,
    append::{Item, Origin, file_name},
    format::tomb::Tomb,
    gone,
    read::Wanted,
};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use ziggurat_base::{Code, Job, Key, ObjectKey, Result, Ticket};
use ziggurat_engine::{
    evict::PolicyKind,
    shelf::holdings::{FileUse, Held, Names},
};

/// A file that was chosen, and what happens to its records.
#[derive(Debug, PartialEq, Eq)]
struct Victim {
    file: u32,
    /// What is copied forward.
    survivors: Vec<Survivor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Survivor {
    ticket: Ticket,
    /// What its copy takes in memory.
    len: u64,
    /// It stays whatever that costs.
    pinned: bool,
}

/// Which live records of a file are copied forward before it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// All: the file is mostly dead.
    All,
    /// Those that were read, as many as the policy grants.
    Used,
    /// Those alone that may not go.
    Pinned,
}

/// A record on its way from one file to another.
struct Copied {
    held: Held,
    names: OwnedNames,
    bytes: Vec<u8>,
}

/// The share of a file below which its live records are worth a copy.
const MOSTLY_DEAD: f64 = 0.5;

/// The share of a file that may be copied when it is evicted.
const SURVIVING: f64 = 0.25;

/// Names that outlive the index.
struct OwnedNames {
    tenant: Box<str>,
    key: ObjectKey,
    parent: Option<ObjectKey>,
    group: Option<ObjectKey>,
}

impl OwnedNames {
    fn of(names: &Names<'_>) -> Self {
        Self {
            tenant: names.tenant.into(),
            key: names.key.to_owned(),
            parent: names.parent.map(Key::to_owned),
            group: names.group.map(Key::to_owned),
        }
    }

    fn borrow(&self) -> Names<'_> {
        Names {
            tenant: &self.tenant,
            key: self.key.as_key(),
            parent: self.parent.as_ref().map(ObjectKey::as_key),
            group: self.group.as_ref().map(ObjectKey::as_key),
        }
    }
}

impl SsdTier {
    /// Does what is due and not urgent: seals files, writes tombstones that failed before, drops dead files, comes back under
    /// the logical cap, and cleans one file that is mostly dead. To be called now and then.
    ///
    /// # Errors
    /// The first that was met; everything is tried again by the next call.
    pub async fn tend(&self) -> Result<()> {
        self.seal_retired().await;
        let dead = self.dead_files();
        let is_any_left = !self.lock().condemned.is_empty();
        // Files first: tombstones that failed for want of room may find it when those are off.
        let removed = match is_any_left || !dead.is_empty() {
            true => self.remove_files(dead).await,
            false => Ok(()),
        };
        self.write_tombs(Vec::new()).await?;
        removed?;
        self.keep_logical_cap().await?;
        let _cleaning = self.cleaning.lock().await;
        let victim = self.lock_choice(|options, files| mostly_dead(options, files, SURVIVING));
        // What is not urgent leaves the write budget to those who bring something.
        let live_bytes = |file| self.look(|holdings| holdings.usage(file).live_bytes);
        match victim.filter(|file| self.has_spare_budget(live_bytes(*file))) {
            Some(file) => self.clean(file, Saved::All, 0).await,
            None => Ok(()),
        }
    }

    /// Makes room for a file of `size` bytes and one to spare, as far as that is possible, for a batch of `paid` bytes.
    pub(super) async fn make_room(&self, size: u64, paid: u64) -> Result<()> {
        let _cleaning = self.cleaning.lock().await;
        loop {
            let wanted = size + self.file_bytes;
            if self.lock().holdings.file_bytes() + wanted <= self.options.capacity.0 {
                return Ok(());
            }
            if let Some(dead) =
                self.lock_choice(|_, files| files.iter().find(|f| f.1.live == 0).map(|f| f.0))
            {
                self.remove_files(BTreeSet::from([dead])).await?;
                continue;
            }
            let mostly =
                self.lock_choice(|options, files| mostly_dead(options, files, MOSTLY_DEAD));
            let oldest = self.lock_choice(|_, files| files.first().map(|f| f.0));
            match (mostly, oldest) {
                (Some(file), _) => self.clean(file, Saved::All, paid).await?,
                (None, Some(file)) => self.clean(file, Saved::Used, paid).await?,
                (None, None) => return Ok(()),
            }
        }
    }

    /// Chooses among the files that take no more batches and have none under way, oldest first.
    pub(super) fn lock_choice(
        &self,
        choose: impl FnOnce(&Options, &[(u32, FileUse)]) -> Option<u32>,
    ) -> Option<u32> {
        let state = self.lock();
        let open = state.open.as_ref().map(|open| open.file.number);
        let quiet = |number: &u32| state.files.get(number).is_some_and(|file| file.is_quiet());
        let files: Vec<_> = state
            .holdings
            .files()
            .filter(|(number, _)| Some(*number) != open && quiet(number))
            .collect();
        choose(&self.options, &files)
    }

    /// The files without live records.
    fn dead_files(&self) -> BTreeSet<u32> {
        let state = self.lock();
        let open = state.open.as_ref().map(|open| open.file.number);
        let quiet = |number: &u32| state.files.get(number).is_some_and(|file| file.is_quiet());
        let files = state.holdings.files();
        let dead = files.filter(|(n, u)| u.live == 0 && Some(*n) != open && quiet(n));
        dead.map(|(number, _)| number).collect()
    }

    /// Removes files without live records.
    pub(super) async fn drop_dead_files(&self) -> Result<()> {
        let dead = self.dead_files();
        if dead.is_empty() {
            return Ok(());
        }
        self.remove_files(dead).await
    }

    /// Copies what survives, then removes the file with the rest.
    pub(super) async fn clean(&self, file: u32, saved: Saved, paid: u64) -> Result<()> {
        let mut victim = self.choose_survivors(file, saved);
        if !victim.survivors.is_empty() && !self.afford_copies(paid).await {
            let all = victim.survivors.len();
            victim.survivors.retain(|survivor| survivor.pinned);
            self.note_uncopied(all - victim.survivors.len());
        }
        let mut rest = &victim.survivors[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.batch_of(rest));
            if self.copy_forward(now).await.is_err() {
                // Without room for copies the records go: a cache may forget, it must not stop.
                break;
            }
            rest = later;
        }
        self.remove_files(BTreeSet::from([file])).await
    }

    /// How many of these fit into one batch: at least one.
    fn batch_of(&self, survivors: &[Survivor]) -> usize {
        let (mut count, mut bytes) = (0, 0);
        for survivor in survivors {
            if !self.has_room(count, bytes, survivor.len) {
                break;
            }
            count += 1;
            bytes += survivor.len;
        }
        count
    }

    fn choose_survivors(&self, file: u32, saved: Saved) -> Victim {
        let state = self.lock();
        let copies = self.options.policy != PolicyKind::Fifo;
        let mut budget = match saved {
            Saved::All => u64::MAX,
            Saved::Used | Saved::Pinned => (self.file_bytes as f64 * SURVIVING) as u64,
        };
        let mut live: Vec<Held> = state.holdings.of_file(file).map(|(held, _)| held).collect();
        live.sort_by_key(|held| (!held.pinned, std::cmp::Reverse(held.heat)));
        let chosen = |held: &Held| match saved {
            Saved::All => true,
            Saved::Used => held.heat > 0,
            Saved::Pinned => false,
        };
        let stays = |held: &Held| copies && chosen(held);
        let fits = |held: &&Held| {
            let fits = held.pinned || (stays(held) && held.stored_len <= budget);
            budget = budget.saturating_sub(if fits { held.stored_len } else { 0 });
            fits
        };
        let survivors = live.iter().filter(fits).map(|held| Survivor {
            ticket: held.ticket,
            len: held.len,
            pinned: held.pinned,
        });
        Victim {
            file,
            survivors: survivors.collect(),
        }
    }

    /// Boxed, because an append may clean and so call itself.
    fn append_copies<'a>(&'a self, items: &'a mut [Item<'_>]) -> Job<'a, Vec<Result<()>>> {
        Box::pin(self.append_batch(items, Origin::Cleaner))
    }

    /// Copies records into the open file, as one batch.
    async fn copy_forward(&self, survivors: &[Survivor]) -> Result<()> {
        let reads = survivors.iter().map(|survivor| self.lift(survivor.ticket));
        let copies: Vec<Copied> = join_all(reads).await.into_iter().flatten().collect();
        let mut sources: Vec<&[u8]> = copies.iter().map(|copied| &copied.bytes[..]).collect();
        let with_sources = copies.iter().zip(&mut sources);
        let mut items: Vec<Item<'_>> = with_sources
            .map(|(Copied { held, names, .. }, source)| Item {
                names: names.borrow(),
                ticket: held.ticket,
                len: held.len,
                crc: held.crc,
                hint: held.hint,
                pinned: held.pinned,
                source,
            })
            .collect();
        if items.is_empty() {
            return Ok(());
        }
        let append = self.append_copies(&mut items);
        for answer in append.await {
            match answer {
                // Discarded meanwhile: no reason to stop.
                Err(error) if error.code() == Code::ReplicaIsGone => {}
                answer => answer?,
            }
        }
        let mut state = self.lock();
        for Copied { held, .. } in &copies {
            let warmth = match self.options.policy {
                PolicyKind::S3Fifo => held.heat.saturating_sub(1),
                PolicyKind::Lru | PolicyKind::Fifo => 0,
            };
            (0..warmth).for_each(|_| state.holdings.touch(held.ticket));
        }
        Ok(())
    }

    /// Reads a record for a copy; `None` when it has gone meanwhile, or is damaged. It is held outside of the pool, where the
    /// append behind it needs a buffer of its own: a batch of records, or one that is larger.
    async fn lift(&self, ticket: Ticket) -> Option<Copied> {
        let (held, names) = self.look(|holdings| {
            let names = holdings.names(ticket)?;
            Some((holdings.find(ticket)?, OwnedNames::of(&names)))
        })?;
        let mut bytes = vec![0; usize::try_from(held.len).ok()?];
        let wanted = Wanted::whole(ticket, held.len);
        self.read_for_copy(&wanted, &mut bytes).await.ok()?;
        Some(Copied { held, names, bytes })
    }

    /// Takes files out of the index and off the disk, and tells what went with them once they are off for good.
    pub(super) async fn remove_files(&self, files: BTreeSet<u32>) -> Result<()> {
        // One at a time: nobody tells of files whose older copies another one has yet to bury.
        let _removing = self.removing.lock().await;
        let older = self.lock().condemn(&files);
        let tombs = self.write_tombs(older).await;
        let condemned: Vec<u32> = self.lock().condemned.keys().copied().collect();
        for file in &condemned {
            match self.disk.remove(&file_name(*file)).await {
                Err(error) if error.code() != Code::FileNotFound => return Err(error),
                _ => {}
            }
        }
        self.disk.sync_names().await?;
        if tombs.is_err() {
            // There may have been no room for them, and there is now. The news wait for them.
            self.write_tombs(Vec::new()).await?;
        }
        let told: Vec<News> = {
            let mut state = self.lock();
            let told = condemned
                .iter()
                .flat_map(|file| state.condemned.remove(file));
            let told = told.flatten().collect();
            state.forget_shadows(&condemned);
            told
        };
        self.tell(told);
        self.forget_tombs(&condemned).await;
        Ok(())
    }
}

impl State {
    /// Takes files out of the index. What was in them is told later; older copies of it elsewhere need tombstones first.
    fn condemn(&mut self, files: &BTreeSet<u32>) -> Vec<(Vec<Tomb>, Option<News>)> {
        let mut older = Vec::new();
        for file in files {
            let of_file = self.holdings.of_file(*file);
            let news: Vec<(Ticket, News)> = of_file
                .map(|(held, names)| (held.ticket, gone(held.ticket, &names)))
                .collect();
            self.stats.evicted += news.len() as u64;
            for (ticket, _) in &news {
                let shadows = self.shadows.remove(ticket).unwrap_or_default();
                let tombs = shadows.into_iter().map(|file| self.tomb(file, *ticket));
                older.push((tombs.collect(), None));
            }
            self.holdings.drop_file(*file);
            self.files.remove(file);
            self.retired.retain(|other| other.number != *file);
            self.graves.remove(file);
            let told = news.into_iter().map(|(_, news)| news);
            self.condemned.entry(*file).or_default().extend(told);
        }
        older.retain(|(tombs, _): &(Vec<Tomb>, _)| !tombs.is_empty());
        older
    }
}

/// The file with the least that lives in it, if that is little enough.
fn mostly_dead(options: &Options, files: &[(u32, FileUse)], share: f64) -> Option<u32> {
    if options.policy == PolicyKind::Fifo {
        return None;
    }
    let filled = |usage: &FileUse| usage.live_bytes as f64 / usage.len.max(1) as f64;
    let little = files
        .iter()
        .filter(|(_, usage)| usage.dead > 0 && filled(usage) < share);
    little
        .min_by(|a, b| filled(&a.1).total_cmp(&filled(&b.1)))
        .map(|(number, _)| *number)
}
