//! One open log file: what is under way in it, and which part of it is durable.

use futures_util::{future::join_all, lock::Mutex as AsyncMutex};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use ziggurat_base::{Code, Error, Result};
use ziggurat_io::{File, Pool, Request, disk::Landed};

use super::format::{PAGE, file::FIRST_BATCH};

/// Whether nothing was ever written to a file whose first pages are `start`: it was being made when the process ended. A
/// head that was lost has a batch behind it, for it is durable before the first batch is written.
pub(super) async fn is_blank(file: &dyn File, pool: &Pool, start: &[u8]) -> Result<bool> {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    if !is_zero(start) {
        return Ok(false);
    }
    let first = FIRST_BATCH + PAGE <= file.len();
    Ok(!first || is_zero(&read_long(file, pool, FIRST_BATCH, PAGE).await?))
}

#[derive(Debug, Default)]
struct Progress {
    /// Batches begun and not over.
    under_way: u32,
    /// Batches that have landed, by count.
    landed: u64,
    /// Starts of batches that are not durable.
    pending: BTreeSet<u64>,
    /// Where the next batch would begin.
    end: u64,
    /// A sync or write failed: nothing that was not durable before will be believed to be.
    broken: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) number: u32,
    pub(super) file: Arc<dyn File>,
    progress: Mutex<Progress>,
    /// How many batches the last sync covered.
    synced: AsyncMutex<u64>,
}

impl LogFile {
    pub(super) fn new(number: u32, file: Arc<dyn File>, end: u64) -> Self {
        let progress = Progress {
            end,
            ..Progress::default()
        };
        Self {
            number,
            file,
            progress: Mutex::new(progress),
            synced: AsyncMutex::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a batch; returns the offset before which everything is durable.
    pub(super) fn begin(&self, at: u64, len: u64) -> u64 {
        let mut progress = self.lock();
        progress.under_way += 1;
        let synced = progress.pending.first().copied().unwrap_or(at);
        progress.pending.insert(at);
        progress.end = at + len;
        synced
    }

    /// A batch is over.
    pub(super) fn end(&self) {
        self.lock().under_way -= 1;
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.lock().under_way == 0
    }

    pub(super) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    pub(super) fn break_up(&self) {
        self.lock().broken = true;
    }

    /// Where the batches end.
    pub(super) fn end_of_batches(&self) -> u64 {
        self.lock().end
    }

    /// Makes the batch at `at`, which has landed, durable: by its own sync, or by one that somebody else began after it
    /// had landed.
    pub(super) async fn commit(&self, at: u64) -> Result<()> {
        let mine = {
            let mut progress = self.lock();
            progress.landed += 1;
            progress.landed
        };
        let mut synced = self.synced.lock().await;
        if *synced < mine {
            if self.is_broken() {
                return Err(broken(self.number));
            }
            let covers = self.lock().landed;
            let result = run(&*self.file, vec![Request::Sync]).await;
            if let Err(error) = result {
                self.break_up();
                return Err(error);
            }
            *synced = covers;
        }
        drop(synced);
        self.lock().pending.remove(&at);
        Ok(())
    }

    /// A batch that counts as persistent without a sync. It stays pending: nobody vouches for it.
    pub(super) fn landed(&self) {
        self.lock().landed += 1;
    }
}

fn broken(number: u32) -> Error {
    Error::new(
        Code::FileWriteFail,
        format!("log file {number:08x} failed to sync before: nothing more is written to it"),
    )
}

/// Runs requests to their end and gives the first failure.
pub(super) async fn run(file: &dyn File, requests: Vec<Request>) -> Result<()> {
    let landed = join_all(file.start(requests)).await;
    landed.into_iter().try_for_each(|one| one.result)
}

/// Reads one range of whole blocks.
pub(super) async fn read(
    file: &dyn File,
    pool: &Pool,
    offset: u64,
    len: usize,
) -> Result<ziggurat_io::Buffer> {
    read_in(file, offset, pool.take(len).await?).await
}

/// As [`read`], into a buffer that is there.
pub(super) async fn read_in(
    file: &dyn File,
    offset: u64,
    buffer: ziggurat_io::Buffer,
) -> Result<ziggurat_io::Buffer> {
    let mut flights = file.start(vec![Request::Read { offset, buffer }]);
    let Some(flight) = flights.pop() else {
        return Err(Code::Internal.into());
    };
    let Landed { buffer, result } = flight.await;
    result?;
    buffer.ok_or_else(|| Code::Internal.into())
}

/// The most bytes that are moved by one request where order does not matter.
const PIECE: usize = 1 << 20;

/// Writes bytes at a page, in pieces, and syncs them.
pub(super) async fn write_synced(
    file: &dyn File,
    pool: &Pool,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    debug_assert!(bytes.len().is_multiple_of(PAGE as usize), "whole pages");
    let count = bytes.len().div_ceil(PIECE);
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let mut buffer = pool.take(piece.len()).await?;
        buffer.copy_from_slice(piece);
        let request = Request::Write {
            offset: offset + (number * PIECE) as u64,
            buffer,
            sync: number + 1 == count,
        };
        run(file, vec![request]).await?;
    }
    Ok(())
}

/// Reads many bytes, in pieces.
pub(super) async fn read_long(
    file: &dyn File,
    pool: &Pool,
    offset: u64,
    len: u64,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len as usize);
    while (bytes.len() as u64) < len {
        let here = (len - bytes.len() as u64).min(PIECE as u64) as usize;
        let piece = read(file, pool, offset + bytes.len() as u64, here).await?;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
