//! The memory of a pool: one mapping, and pieces of it that each have one owner.
//!
//! The only place that turns addresses into slices. A piece is exclusive because the books of the arena hand out a grain
//! once and get it back only from the piece that had it.

use crate::{
    buffer::Pages,
    grains::{GRAIN, Grains},
};
use std::{
    io,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use ziggurat_base::{ByteCount, Code, Error, Result};

const HUGE_PAGE: usize = 2 << 20;

/// A mapping, and what of it is in use.
#[derive(Debug)]
pub(crate) struct Arena {
    base: NonNull<u8>,
    len: usize,
    grains: Mutex<Grains>,
}

// SAFETY: the mapping is plain memory that lives as long as the value; only pieces, which are apart, touch it.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `bytes`, rounded up to whole grains, in pages of this kind, and touches them all, so that no request pays for
    /// it later.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] for no bytes or more than an address can name, [`Code::NoAvailableHandle`] when the machine
    /// does not have them.
    pub(crate) fn new(bytes: u64, pages: Pages) -> Result<Arc<Self>> {
        let len = usize::try_from(bytes)
            .ok()
            .filter(|len| (1..=isize::MAX as usize / 2).contains(len))
            .map(|len| len.next_multiple_of(GRAIN))
            .ok_or_else(|| {
                Error::new(
                    Code::InvalidParams,
                    format!("a pool of {bytes} bytes cannot be mapped; give it at least {GRAIN}"),
                )
            })?;
        let arena = Self {
            base: map(len).map_err(|cause| no_memory(len, &cause))?,
            len,
            grains: Mutex::new(Grains::new(len / GRAIN)),
        };
        arena
            .populate(pages)
            .map_err(|cause| no_memory(len, &cause))?;
        Ok(Arc::new(arena))
    }

    /// Size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it begins in memory.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes in use.
    pub(crate) fn in_use(&self) -> usize {
        let grains = self.grains();
        (grains.count() - grains.free()) * GRAIN
    }

    /// Takes `len` bytes, of any content; none when no gap is long enough.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Option<Piece> {
        let start = self.grains().take(len.div_ceil(GRAIN))?;
        Some(Piece {
            arena: Arc::clone(self),
            offset: start * GRAIN,
            len,
        })
    }

    fn give(&self, offset: usize, len: usize) {
        self.grains().give(offset / GRAIN, len.div_ceil(GRAIN));
    }

    fn grains(&self) -> MutexGuard<'_, Grains> {
        self.grains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn populate(&self, pages: Pages) -> io::Result<()> {
        let kind = match pages {
            Pages::Huge => libc::MADV_HUGEPAGE,
            Pages::Small => libc::MADV_NOHUGEPAGE,
        };
        let base = self.base.as_ptr().cast();
        // SAFETY: advice about our own mapping; a kernel that does not know it refuses, which changes nothing.
        unsafe {
            libc::madvise(base, self.len, kind);
            libc::madvise(base, self.len, libc::MADV_DONTFORK);
        }
        // SAFETY: as above; this one writes zeros to pages that are not there yet and nothing else.
        if unsafe { libc::madvise(base, self.len, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let cause = io::Error::last_os_error();
        if cause.raw_os_error() != Some(libc::EINVAL) {
            return Err(cause);
        }
        // A kernel before 5.14.
        for offset in (0..self.len).step_by(GRAIN) {
            // SAFETY: inside the mapping, which nobody else knows yet.
            unsafe { self.base.add(offset).write_volatile(0) };
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of `map`; every piece has had a reference to this value and is gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn no_memory(len: usize, cause: &io::Error) -> Error {
    let what = format!(
        "cannot get {} of memory for buffers: {cause}; give the pool less",
        ByteCount(len as u64)
    );
    Error::new(Code::NoAvailableHandle, what)
}

/// Maps `len` bytes at an address where huge pages can begin.
fn map(len: usize) -> io::Result<NonNull<u8>> {
    let slack = if len < HUGE_PAGE { 0 } else { HUGE_PAGE };
    // SAFETY: a fresh private mapping at an address of the kernel's choice cannot disturb any other.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len + slack,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = start.cast::<u8>();
    let head = start.align_offset(HUGE_PAGE).min(slack);
    // SAFETY: head and tail are whole pages of the mapping just made, and nobody knows them.
    unsafe {
        for (offset, spare) in [(0, head), (head + len, slack - head)] {
            if spare > 0 {
                libc::munmap(start.add(offset).cast(), spare);
            }
        }
        Ok(NonNull::new(start.add(head)).expect("mmap never maps page zero here"))
    }
}

/// Bytes of an arena with one owner; given back when dropped.
#[derive(Debug)]
pub(crate) struct Piece {
    arena: Arc<Arena>,
    offset: usize,
    len: usize,
}

impl Piece {
    /// Where it begins in the arena.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Keeps the first `len` bytes and gives the grains behind them back.
    pub(crate) fn shorten(&mut self, len: usize) {
        assert!(
            (1..=self.len).contains(&len),
            "a buffer of {} bytes cannot be shortened to {len}",
            self.len
        );
        let (kept, had) = (len.next_multiple_of(GRAIN), self.len);
        self.len = len;
        if kept < had {
            self.arena.give(self.offset + kept, had - kept);
        }
    }

    /// Keeps the first `at` bytes, whole grains, and hands out the others.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        assert!(
            at.is_multiple_of(GRAIN) && (1..self.len).contains(&at),
            "a buffer of {} bytes cannot be split at {at}",
            self.len
        );
        let rest = Self {
            arena: Arc::clone(&self.arena),
            offset: self.offset + at,
            len: self.len - at,
        };
        self.len = at;
        rest
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the offset came from the books of this arena and is inside its mapping.
        unsafe { self.arena.base().add(self.offset) }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are inside the mapping, initialised (the kernel hands out zeroed pages), and of this piece alone.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.arena.give(self.offset, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, GRAIN, HUGE_PAGE, Pages};
    use ziggurat_base::Code;

    #[test]
    fn pieces_are_apart_and_come_back() {
        let arena = Arena::new(5 * GRAIN as u64 - 1, Pages::Huge).unwrap();
        let mut one = arena.take(GRAIN + 1).unwrap();
        let mut two = arena.take(3 * GRAIN).unwrap();
        assert!(arena.take(1).is_none());
        one.fill(1);
        two.fill(2);
        assert!(one.iter().all(|byte| *byte == 1) && two.iter().all(|byte| *byte == 2));
        assert_eq!(arena.in_use(), arena.len());
        two.shorten(GRAIN);
        assert_eq!(arena.in_use(), 3 * GRAIN);
        let mut rest = one.split_off(GRAIN);
        rest.fill(3);
        assert!(one.len() == GRAIN && one.iter().all(|byte| *byte == 1));
        assert!(rest.len() == 1 && rest[0] == 3);
        drop(one);
        assert_eq!(arena.in_use(), 2 * GRAIN);
        one = rest;
        drop((one, two));
        assert_eq!(arena.in_use(), 0);
    }

    #[test]
    fn huge_pages_can_begin_at_the_base() {
        let arena = Arena::new(HUGE_PAGE as u64, Pages::Huge).unwrap();
        assert!(arena.base().addr().is_multiple_of(HUGE_PAGE));
        assert!(arena.take(HUGE_PAGE).unwrap().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for bytes in [0, u64::MAX, u64::MAX / 2] {
            assert_eq!(
                Arena::new(bytes, Pages::Huge).unwrap_err().code(),
                Code::InvalidParams
            );
        }
        let much = Arena::new(1 << 60, Pages::Huge).unwrap_err();
        assert_eq!(much.code(), Code::NoAvailableHandle);
    }
}
