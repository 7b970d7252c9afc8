//! Buffers for a disk: a fixed number of bytes, handed out aligned, and a line of those who wait for some.
//!
//! Who asks first is served first, whatever the size: a small request does not overtake a large one, so that none waits
//! for ever. Refused here: growing.

use crate::{
    grains::GRAIN,
    map::{Arena, Piece},
};
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use ziggurat_base::{Code, Error, Job, Result};

/// What the memory of a pool is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Transparent huge pages, where the kernel has some.
    #[default]
    Huge,
    /// Small pages only: to see what huge ones are worth.
    Small,
}

/// A fixed number of bytes for buffers. Clones are the same pool.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    arena: Arc<Arena>,
    line: Mutex<Line>,
}

/// Those who wait. The number of a waiter is its place; the lowest is served first.
#[derive(Default)]
struct Line {
    next: u64,
    waiting: BTreeMap<u64, Waiter>,
    /// Served, and not fetched yet.
    served: BTreeMap<u64, Piece>,
}

struct Waiter {
    len: usize,
    waker: Waker,
}

impl Pool {
    /// Buffers have addresses that are multiples of this, and take whole multiples of it from the pool.
    pub const GRAIN: usize = GRAIN;

    /// Gets `bytes` of memory, rounded up to whole grains, all of it at once.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] for no bytes, [`Code::NoAvailableHandle`] when the machine does not have them.
    pub fn new(bytes: u64) -> Result<Self> {
        Self::of(bytes, Pages::Huge)
    }

    /// As [`Pool::new`], in pages of this kind.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn of(bytes: u64, pages: Pages) -> Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared {
                arena: Arena::new(bytes, pages)?,
                line: Mutex::default(),
            }),
        })
    }

    /// A buffer of `len` bytes of any content, once it is this caller's turn. The place in the line is that of the first
    /// poll; whoever drops the future leaves the line. A caller that holds buffers while it waits for another may wait for
    /// itself.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] when `len` is zero or more than the pool has.
    #[must_use]
    pub fn take(&self, len: usize) -> Job<'static, Result<Buffer>> {
        Box::pin(Take {
            pool: self.clone(),
            len,
            place: None,
        })
    }

    /// A buffer of `len` bytes if there is one now and nobody waits.
    #[must_use]
    pub fn try_take(&self, len: usize) -> Option<Buffer> {
        let piece = {
            let line = self.shared.line();
            if len == 0 || !line.waiting.is_empty() {
                return None;
            }
            self.shared.arena.take(len)?
        };
        Some(self.buffer(piece))
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.arena.len() as u64
    }

    /// Bytes in buffers.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.shared.arena.in_use() as u64
    }

    /// How many wait.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.shared.line().waiting.len()
    }

    /// The memory, for an engine that registers it.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.shared.arena
    }

    fn buffer(&self, piece: Piece) -> Buffer {
        Buffer {
            piece: Some(piece),
            pool: self.clone(),
        }
    }

    fn check(&self, len: usize) -> Result<()> {
        let fits = (1..=self.shared.arena.len()).contains(&len);
        fits.then_some(()).ok_or_else(|| {
            let what = format!(
                "a buffer of {len} bytes cannot come from a pool of {} bytes; split the request, or raise the pool",
                self.bytes()
            );
            Error::new(Code::InvalidParams, what)
        })
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("bytes", &self.bytes())
            .field("in_use", &self.in_use())
            .field("waiters", &self.waiters())
            .finish()
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves from the front of the line what fits, and wakes whom it served.
    fn serve(&self) {
        let mut wakers = Vec::new();
        let mut line = self.line();
        while let Some(entry) = line.waiting.first_entry() {
            let Some(piece) = self.arena.take(entry.get().len) else {
                break;
            };
            let place = *entry.key();
            wakers.push(entry.remove().waker);
            line.served.insert(place, piece);
        }
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Waiting for a buffer.
struct Take {
    pool: Pool,
    len: usize,
    place: Option<u64>,
}

impl Future for Take {
    type Output = Result<Buffer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Err(error) = this.pool.check(this.len) {
            return Poll::Ready(Err(error));
        }
        let mut line = this.pool.shared.line();
        let piece = match this.place {
            Some(place) => line.served.remove(&place),
            None if line.waiting.is_empty() => this.pool.shared.arena.take(this.len),
            None => None,
        };
        let Some(piece) = piece else {
            let next = line.next;
            let place = *this.place.get_or_insert(next);
            line.next = next.max(place + 1);
            let (len, waker) = (this.len, context.waker().clone());
            // A waker that is replaced may run code of its owner when it goes; not under the lock.
            let replaced = line.waiting.insert(place, Waiter { len, waker });
            drop(line);
            drop(replaced);
            return Poll::Pending;
        };
        drop(line);
        this.place = None;
        Poll::Ready(Ok(this.pool.buffer(piece)))
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut line = self.pool.shared.line();
        let left = (line.waiting.remove(&place), line.served.remove(&place));
        drop(line);
        drop(left);
        self.pool.shared.serve();
    }
}

/// Bytes of a pool, owned: whoever has the value has the memory. Given back when dropped.
pub struct Buffer {
    /// Taken out only when the value is dropped.
    piece: Option<Piece>,
    pool: Pool,
}

const LIVE: &str = "a buffer has its bytes until it is dropped";

impl Buffer {
    /// Keeps the first `len` bytes; whole grains behind them go back to the pool.
    ///
    /// # Panics
    /// When `len` is zero or more than the buffer has.
    pub fn shorten(&mut self, len: usize) {
        self.piece.as_mut().expect(LIVE).shorten(len);
        self.pool.shared.serve();
    }

    /// Keeps the first `at` bytes and hands out the others as a buffer of their own.
    ///
    /// # Panics
    /// When `at` is not a multiple of [`Pool::GRAIN`], or leaves one of both without bytes.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        let piece = self.piece.as_mut().expect(LIVE).split_off(at);
        self.pool.buffer(piece)
    }

    /// The pool that it is of.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The memory that it is of.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.pool.shared.arena
    }

    /// Where it begins in that memory.
    pub(crate) fn offset(&self) -> usize {
        self.piece().offset()
    }

    fn piece(&self) -> &Piece {
        self.piece.as_ref().expect(LIVE)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.piece()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.piece.as_mut().expect(LIVE)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {})", self.len(), self.offset())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.piece = None;
        self.pool.shared.serve();
    }
}

#[cfg(test)]
mod tests;
