//! An open file as the engine sees it.

use super::directory::Opened;
use crate::cause::{self, Doing};
use std::{
    fmt,
    fs::File,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use ziggurat_base::Error;

/// Takes files that nobody wants any more. Closing the last descriptor of a removed file frees its blocks, which may take
/// long, so that it happens where nobody waits.
pub(crate) trait Closer: Send + Sync + fmt::Debug {
    /// Closes `file`, which has the place `slot` in the engine's table if it has one.
    fn close(&self, file: File, slot: Option<u32>);
}

/// See the module.
pub(crate) struct Handle {
    opened: Opened,
    /// The place in the engine's table of files.
    slot: AtomicU32,
    closer: Arc<dyn Closer>,
}

const NO_SLOT: u32 = u32::MAX;

impl Handle {
    pub(crate) fn new(opened: Opened, closer: Arc<dyn Closer>) -> Self {
        Self {
            opened,
            slot: AtomicU32::new(NO_SLOT),
            closer,
        }
    }

    pub(crate) fn file(&self) -> &File {
        self.opened
            .file
            .as_ref()
            .expect("a file is open until it is dropped")
    }

    pub(crate) fn len(&self) -> u64 {
        self.opened.len
    }

    pub(crate) fn slot(&self) -> Option<u32> {
        Some(self.slot.load(Ordering::Relaxed)).filter(|slot| *slot != NO_SLOT)
    }

    /// Notes the place. Only the thread of the engine does, once.
    pub(crate) fn set_slot(&self, slot: u32) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// The error of a request that the kernel refused.
    pub(crate) fn refused(&self, doing: Doing, cause: &io::Error) -> Error {
        cause::refused(doing, &self.opened.path, cause)
    }

    /// The error of a read behind the end.
    pub(crate) fn too_short(&self, doing: Doing, end: u64) -> Error {
        cause::too_short(doing, &self.opened.path, end)
    }
}

/// Its path, for messages.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opened.path.display().fmt(f)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({self}, {} bytes)", self.len())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let slot = self.slot();
        if let Some(file) = self.opened.file.take() {
            self.closer.close(file, slot);
        }
    }
}
