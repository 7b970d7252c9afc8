//! The log of tombstones. Nobody is told that a record is gone before its tombstone is durable, or its file is.

use super::{
    News, SsdTier,
    format::{PAGE, damaged, tomb},
    logfile,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tomb::{PER_PAGE, Tomb};
use ziggurat_base::{DirectoryId, Result, Ticket};
use ziggurat_engine::shelf::holdings::Names;
use ziggurat_io::{Disk, File};

/// The log, and its successor while it is written.
const NAME: &str = "tombs.log";
const NEW_NAME: &str = "tombs.new";

/// Bytes of one place of the log: a page, twice, so that one that rots is no loss and one that was torn is told from it.
const PLACE: u64 = 2 * PAGE;

/// The least length of the log, in places.
const PLACES_MIN: u32 = 32;

/// The tombstones of a record to be written, and what is told afterwards.
type Pending = (Vec<Tomb>, Option<News>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tombs {
    file: Option<Arc<dyn File>>,
    /// The next place to write.
    next: u32,
    /// Every dead record of every file that there is.
    dead: BTreeMap<u32, BTreeSet<Ticket>>,
    pending: Vec<Pending>,
}

/// What the log of a directory said at start.
pub(super) struct Found {
    pub(super) tombs: Tombs,
    /// A place in the middle cannot be read: which records are dead is not known.
    pub(super) doubtful: bool,
}

impl Tombs {
    /// The name of the log.
    pub(super) const NAME: &str = NAME;

    /// Reads the log of a directory, and clears up what a rewrite left.
    pub(super) async fn open(disk: &dyn Disk, directory: DirectoryId) -> Result<Found> {
        if disk.list().await?.iter().any(|file| file.name == NEW_NAME) {
            // It was not renamed, so the old one counts.
            disk.remove(NEW_NAME).await?;
        }
        Self::look(disk, directory).await
    }

    /// Reads the log of a directory.
    pub(super) async fn look(disk: &dyn Disk, directory: DirectoryId) -> Result<Found> {
        let mut tombs = Self::default();
        let mut doubtful = false;
        if !disk.list().await?.iter().any(|file| file.name == NAME) {
            return Ok(Found { tombs, doubtful });
        }
        let file = disk.open(NAME).await?;
        let len = file.len() / PLACE * PLACE;
        let bytes = logfile::read_long(&*file, disk.pool(), 0, len).await?;
        let mut holes = 0;
        for (number, place) in bytes.chunks(PLACE as usize).enumerate() {
            let mut copies = place.chunks(PAGE as usize);
            let number = number as u32;
            match copies.find_map(|page| tomb::decode_page(directory, number, page).ok()) {
                Some(list) => {
                    doubtful |= holes > 0;
                    tombs.next = number + 1;
                    for tomb in list {
                        tombs.dead.entry(tomb.file).or_default().insert(tomb.ticket);
                    }
                }
                None => holes += 1,
            }
        }
        tombs.file = Some(file);
        Ok(Found { tombs, doubtful })
    }

    /// Records that are dead.
    pub(super) fn count(&self) -> u64 {
        self.dead.values().map(|dead| dead.len() as u64).sum()
    }

    /// Whether a record is dead.
    pub(super) fn covers(&self, file: u32, ticket: Ticket) -> bool {
        self.dead
            .get(&file)
            .is_some_and(|dead| dead.contains(&ticket))
    }

    /// Forgets what is said of files that are gone.
    pub(super) fn keep_files(&mut self, exists: impl Fn(u32) -> bool) {
        self.dead.retain(|file, _| exists(*file));
    }

    fn places_for(count: usize) -> u32 {
        count.div_ceil(PER_PAGE) as u32
    }

    /// Makes all that is pending durable; returns the bytes that were written.
    async fn write(&mut self, disk: &dyn Disk, directory: DirectoryId) -> Result<u64> {
        let new: Vec<Tomb> = self
            .pending
            .iter()
            .flat_map(|(tombs, _)| tombs)
            .copied()
            .collect();
        let places = Self::places_for(new.len());
        let room = self.file.as_ref().map_or(0, |file| file.len() / PLACE);
        if u64::from(self.next + places) > room {
            return self.rewrite(disk, directory, &new).await;
        }
        let Some(file) = &self.file else {
            return Err(damaged("there is no log of tombstones"));
        };
        let bytes = encode(directory, self.next, &new);
        logfile::write_synced(&**file, disk.pool(), u64::from(self.next) * PLACE, &bytes).await?;
        self.next += places;
        Ok(bytes.len() as u64)
    }

    /// Writes a new log with all that counts, and puts it in the place of the old one.
    async fn rewrite(
        &mut self,
        disk: &dyn Disk,
        directory: DirectoryId,
        new: &[Tomb],
    ) -> Result<u64> {
        let of_file = |(file, dead): (&u32, &BTreeSet<Ticket>)| {
            let file = *file;
            dead.iter()
                .map(move |ticket| Tomb {
                    file,
                    ticket: *ticket,
                })
                .collect::<Vec<_>>()
        };
        let mut all: Vec<Tomb> = self.dead.iter().flat_map(of_file).collect();
        all.extend_from_slice(new);
        let places = Self::places_for(all.len());
        let len = u64::from(PLACES_MIN.max(2 * places)) * PLACE;
        if disk.list().await?.iter().any(|file| file.name == NEW_NAME) {
            disk.remove(NEW_NAME).await?;
        }
        let file = disk.create(NEW_NAME, len).await?;
        let bytes = encode(directory, 0, &all);
        logfile::write_synced(&*file, disk.pool(), 0, &bytes).await?;
        // From here on nobody knows which of the two has the name, until the names are durable.
        self.file = None;
        disk.rename(NEW_NAME, NAME).await?;
        disk.sync_names().await?;
        self.file = Some(file);
        self.next = places;
        Ok(bytes.len() as u64)
    }
}

fn encode(directory: DirectoryId, first: u32, tombs: &[Tomb]) -> Vec<u8> {
    let pages = tombs.chunks(PER_PAGE).enumerate();
    pages
        .flat_map(|(number, page)| {
            tomb::encode_page(directory, first + number as u32, page).repeat(2)
        })
        .collect()
}

impl SsdTier {
    /// Drops versions: they cannot be read any more when this is called, and do not come back when it has returned.
    /// Versions that are not held are passed over.
    ///
    /// # Errors
    /// When a tombstone cannot be written. It is tried again with the next ones; the news of it wait until then.
    pub async fn discard(&self, tickets: &[Ticket]) -> Result<()> {
        let dropped = {
            let mut state = self.lock();
            let dropped: Vec<_> = tickets.iter().filter_map(|t| state.bury(*t)).collect();
            let held = dropped.iter().filter(|(_, news)| news.is_some());
            state.stats.discarded += held.count() as u64;
            dropped
        };
        self.write_tombs(dropped.into_iter().collect()).await?;
        self.drop_dead_files().await
    }

    /// Drops a version whose bytes cannot be read or proved.
    pub(super) async fn give_up_rotten(&self, ticket: Ticket) {
        let dropped = {
            let mut state = self.lock();
            let dropped = state.bury(ticket);
            state.stats.rotten += u64::from(dropped.is_some());
            dropped
        };
        // What fails now is tried again with the next tombstones.
        let _later = self.write_tombs(dropped.into_iter().collect()).await;
    }

    /// A version could not be written. Nobody is told before it is certain that a restart will not find it either.
    pub(super) async fn refuse(&self, ticket: Ticket, names: &Names<'_>) {
        let refused = News::Refused {
            tenant: names.tenant.into(),
            key: names.key.to_owned(),
            ticket,
        };
        let tombs = {
            let mut state = self.lock();
            if state.holdings.find(ticket).is_some() {
                return;
            }
            let tombs = state.bury(ticket).map(|(tombs, _)| tombs);
            state.doomed.remove(&ticket);
            tombs
        };
        match tombs {
            // What fails now is tried again with the next tombstones.
            Some(tombs) => drop(self.write_tombs(vec![(tombs, Some(refused))]).await),
            None => self.tell([refused]),
        }
    }

    pub(super) async fn write_tombs(&self, more: Vec<Pending>) -> Result<()> {
        let mut tombs = self.tombs.lock().await;
        tombs.pending.extend(more);
        if tombs.pending.is_empty() {
            return Ok(());
        }
        let written = tombs.write(&*self.disk, self.directory).await?;
        self.owe(written);
        let pending = std::mem::take(&mut tombs.pending);
        let mut told = Vec::with_capacity(pending.len());
        {
            let mut state = self.lock();
            state.stats.device_bytes += written;
            for (list, news) in pending {
                for tomb in list {
                    // A file that is gone for good took its dead along.
                    let there = state.files.contains_key(&tomb.file)
                        || state.condemned.contains_key(&tomb.file);
                    if there {
                        tombs.dead.entry(tomb.file).or_default().insert(tomb.ticket);
                    }
                }
                told.extend(news);
            }
        }
        self.tell(told);
        Ok(())
    }

    /// Forgets the tombstones of files that are gone for good.
    pub(super) async fn forget_tombs(&self, gone: &[u32]) {
        let mut tombs = self.tombs.lock().await;
        tombs.keep_files(|file| !gone.contains(&file));
    }
}
