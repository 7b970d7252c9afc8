//! Opening a directory: which records does it hold? Footers and batch headers tell; payloads are read only where no later
//! batch vouches for them.

use super::{
    CAPACITY_MIN, FILE_BYTES_MIN, Options, SsdTier, State,
    append::{file_name, file_number},
    budget::Governor,
    cap,
    format::{
        PAGE,
        file::{FIRST_BATCH, FileHead},
        identity::{self, Identity},
        pages,
    },
    logfile::{self, LogFile},
    readers::Readers,
    scan,
    tombs::Tombs,
};
use futures_util::lock::Mutex as AsyncMutex;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};
use ziggurat_base::{Clock, Code, DirectoryId, Error, Result};
use ziggurat_io::{Disk, FileStat};

/// How the name of a file ends that was set aside.
const ASIDE: &str = ".unreadable";

/// What opening a directory found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whether the directory was new.
    pub fresh: bool,
    /// Records that are held.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Log files with records.
    pub files: u64,
    /// Records that were being written when the last process ended, and are not whole.
    pub torn: u64,
    /// Records that were proved by reading them.
    pub proved: u64,
    /// Files that could not be read at all, now or at an earlier start, and wait for somebody to look at them.
    pub set_aside: u64,
    /// What was left alone or given up, in words, a line each.
    pub remarks: Vec<String>,
}

impl SsdTier {
    /// Opens a directory, or makes one of an empty one under the identity `fresh`. Whoever calls this has made sure that
    /// no other process has the directory.
    ///
    /// # Errors
    /// `InvalidVersion` for a directory of a later release, `InvalidParams` for a capacity or a cap that is too small or a directory
    /// that holds something else, and errors of the disk. A damaged file is never an error: it is left out, with a remark.
    pub async fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
        fresh: DirectoryId,
    ) -> Result<(Self, Recovered)> {
        if options.capacity < CAPACITY_MIN {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "an SSD directory of {} is too small: give it at least {CAPACITY_MIN}",
                    options.capacity
                ),
            ));
        }
        cap::check(options.logical_cap)?;
        let smallest = options
            .logical_cap
            .map_or(options.capacity, |cap| cap.min(options.capacity));
        let file_bytes = options.file_bytes.0.min(smallest.0 / 8).max(FILE_BYTES_MIN);
        let names = disk.list().await?;
        let mut recovered = Recovered::default();
        let directory = identify(&*disk, &names, fresh, &mut recovered).await?;
        let mut found = Tombs::open(&*disk, directory).await?;
        // A file that cannot be read today may be read tomorrow: its tombstones stay.
        let logs: BTreeSet<u32> = names.iter().filter_map(|f| file_number(&f.name)).collect();
        found.tombs.keep_files(|file| logs.contains(&file));
        let budget = options.write_budget;
        let rate = budget.map(|budget| budget.rate(options.capacity));
        let governor = rate.map(|rate| Governor::new(rate, clock.now()));
        let tier = Self {
            disk,
            clock,
            directory,
            options,
            governor,
            file_bytes: pages(file_bytes),
            state: Mutex::new(State::default()),
            tombs: AsyncMutex::new(found.tombs),
            rolling: AsyncMutex::default(),
            cleaning: AsyncMutex::default(),
            removing: AsyncMutex::default(),
            sealing: AsyncMutex::default(),
            readers: Readers::default(),
        };
        let aside = names.iter().filter(|file| file.name.ends_with(ASIDE));
        recovered.set_aside = aside.count() as u64;
        tier.recover(&names, found.doubtful, &mut recovered).await?;
        tier.seal_retired().await;
        Ok((tier, recovered))
    }

    async fn recover(
        &self,
        names: &[FileStat],
        doubtful: bool,
        recovered: &mut Recovered,
    ) -> Result<()> {
        let numbers = names.iter().filter_map(|file| file_number(&file.name));
        let numbers: Vec<u32> = numbers.collect();
        self.lock().next_file = numbers.iter().copied().max().unwrap_or(0);
        for number in numbers {
            if doubtful {
                self.disk.remove(&file_name(number)).await?;
                continue;
            }
            match self.recover_file(number, recovered).await {
                Ok(()) => {}
                // Nobody knows what is in a file that cannot be opened, and the next start may find it.
                Err(error) if matches!(error.code(), Code::InvalidVersion | Code::FileOpenFail) => {
                    return Err(error);
                }
                Err(error) if error.code() == Code::FileReadFail => {
                    self.set_aside(number, &error, recovered).await?;
                }
                Err(error) => recovered
                    .remarks
                    .push(format!("{} is left alone: {error}", file_name(number))),
            }
        }
        if doubtful {
            self.disk.sync_names().await?;
            recovered.remarks.push(
                "the log of tombstones is damaged, so nobody knows which records are dead: all were given up".into(),
            );
        }
        let state = self.lock();
        recovered.records = state.holdings.count();
        recovered.bytes = state.holdings.live_bytes();
        recovered.files = state.files.len() as u64;
        Ok(())
    }

    async fn recover_file(&self, number: u32, recovered: &mut Recovered) -> Result<()> {
        let file = self.disk.open(&file_name(number)).await?;
        let pool = self.disk.pool();
        let start =
            logfile::read_long(&*file, pool, 0, FIRST_BATCH.min(file.len() / PAGE * PAGE)).await?;
        if logfile::is_blank(&*file, pool, &start).await? {
            drop(file);
            self.disk.remove(&file_name(number)).await?;
            return self.disk.sync_names().await;
        }
        let head = FileHead::decode(&start)?;
        if head.directory != self.directory || head.number != number {
            return Err(Error::new(
                Code::InvalidParams,
                format!(
                    "it is file {:08x} of directory {}",
                    head.number, head.directory
                ),
            ));
        }
        let contents = scan::contents(&*self.disk, number, &*file, &start).await?;
        recovered.torn += contents.torn.len() as u64;
        recovered.proved += contents.proved;
        for (from, to) in &contents.gaps {
            recovered.remarks.push(format!(
                "{}: no batch can be read from {from} to {to}; what was there is lost",
                file_name(number)
            ));
        }
        let log = Arc::new(LogFile::new(number, Arc::clone(&file), contents.end));
        let hidden = contents.hidden;
        let tombs = self.tombs.lock().await;
        self.take_on_file(&log, contents, &tombs);
        drop(tombs);
        if hidden {
            self.give_up_hidden(&log, recovered).await?;
        }
        Ok(())
    }

    /// Takes on what lives in a file.
    fn take_on_file(&self, log: &Arc<LogFile>, contents: scan::Contents, tombs: &Tombs) {
        let number = log.number;
        let mut state = self.lock();
        state.holdings.add_file(number, log.file.len());
        state.files.insert(number, Arc::clone(log));
        for record in &contents.records {
            state.highest = state.highest.max(record.ticket);
            if !tombs.covers(number, record.ticket) {
                state.take_on(number, record);
            }
        }
        if contents.sealed {
            state.holdings.close_file(number, contents.end);
        } else if !contents.hidden {
            state.retired.push_back(Arc::clone(log));
        }
    }

    /// Some records of a file could not be read. Whoever is told what is held takes them for gone, so they must not come
    /// back when the disk is better: the file is sealed with the others, or goes.
    async fn give_up_hidden(&self, log: &LogFile, recovered: &mut Recovered) -> Result<()> {
        let name = file_name(log.number);
        let sealed = self.seal(log).await;
        recovered.remarks.push(match &sealed {
            Ok(()) => format!("{name}: what could not be read of it is given up"),
            Err(error) => format!("{name} cannot be read in part and is given up: {error}"),
        });
        match sealed {
            Ok(()) => Ok(()),
            Err(_) => self.remove_files(BTreeSet::from([log.number])).await,
        }
    }

    /// A file cannot be read at all. As with a part of one, its records must not come back.
    async fn set_aside(&self, number: u32, error: &Error, recovered: &mut Recovered) -> Result<()> {
        let (name, aside) = (file_name(number), format!("{number:08x}{ASIDE}"));
        self.disk.rename(&name, &aside).await?;
        self.disk.sync_names().await?;
        recovered.set_aside += 1;
        recovered.remarks.push(format!(
            "{name} is given up and set aside as {aside}: {error}; look at the disk, then remove it"
        ));
        Ok(())
    }
}

/// Reads the identity of a directory, or gives it one.
async fn identify(
    disk: &dyn Disk,
    names: &[FileStat],
    fresh: DirectoryId,
    recovered: &mut Recovered,
) -> Result<DirectoryId> {
    let logs: Vec<u32> = names.iter().filter_map(|f| file_number(&f.name)).collect();
    let is_marked = names.iter().any(|file| file.name == identity::NAME);
    if is_marked {
        let file = disk.open(identity::NAME).await?;
        let len = file.len() / PAGE * PAGE;
        let bytes = logfile::read_long(&*file, disk.pool(), 0, len.min(PAGE)).await?;
        match Identity::decode(&bytes) {
            Ok(identity) => return Ok(identity.directory),
            Err(error) if error.code() == Code::InvalidVersion => return Err(error),
            Err(_) => recovered
                .remarks
                .push(format!("{} is damaged", identity::NAME)),
        }
    }
    let mut directory = None;
    for number in &logs {
        let file = disk.open(&file_name(*number)).await?;
        let bytes =
            logfile::read_long(&*file, disk.pool(), 0, PAGE.min(file.len() / PAGE * PAGE)).await?;
        if let Ok(head) = FileHead::decode(&bytes) {
            directory = Some(head.directory);
            break;
        }
    }
    // Where the mark is damaged and no log says whose it is, nothing that lies there can be proved, and no start need wait for it.
    if directory.is_none() && !logs.is_empty() && !is_marked {
        return Err(Error::new(
            Code::InvalidParams,
            "the SSD directory holds .log files that are not of this store: give an empty directory, or remove them",
        ));
    }
    recovered.fresh = directory.is_none();
    let directory = directory.unwrap_or(fresh);
    write_identity(disk, directory).await?;
    Ok(directory)
}

async fn write_identity(disk: &dyn Disk, directory: DirectoryId) -> Result<()> {
    const NEW_NAME: &str = "ziggurat.new";
    if disk.list().await?.iter().any(|file| file.name == NEW_NAME) {
        disk.remove(NEW_NAME).await?;
    }
    let page = Identity { directory }.encode();
    let file = disk.create(NEW_NAME, page.len() as u64).await?;
    logfile::write_synced(&*file, disk.pool(), 0, &page).await?;
    disk.rename(NEW_NAME, identity::NAME).await?;
    disk.sync_names().await
}
