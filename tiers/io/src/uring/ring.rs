//! A ring: how it is made, what is registered with it, and how requests are put on it.

use super::{Found, Plan, progress::Kind, table::Flying};
use crate::{
    buffer::{Buffer, Pool},
    local::handle::Handle,
    map::Arena,
    sys,
};
use io_uring::{
    Builder, IoUring, cqueue, opcode,
    squeue::{self, Flags},
    types::{self, FsyncFlags},
};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd as _, RawFd},
    sync::Arc,
};
use ziggurat_base::ByteCount;

/// How many files a ring's table takes. Those beyond are used without it.
const FILES_MAX: u32 = 1024;
/// The longest piece of memory that the kernel registers at once.
const PIECE: usize = 1 << 30;
/// The longest transfer that is asked for at once; a multiple of every block.
const TRANSFER_MAX: usize = 1 << 30;

/// How a file is named on a ring.
#[derive(Clone, Copy)]
enum Target {
    /// By its place in the ring's table.
    Place(u32),
    Descriptor(RawFd),
}

/// An operation on a file.
macro_rules! on {
    ($target:expr, $operation:ident($($argument:expr),*).$option:ident($value:expr)) => {
        match $target {
            Target::Place(place) => {
                let fd = types::Fixed(place);
                opcode::$operation::new(fd, $($argument),*).$option($value).build()
            }
            Target::Descriptor(fd) => {
                let fd = types::Fd(fd);
                opcode::$operation::new(fd, $($argument),*).$option($value).build()
            }
        }
    };
}

/// See the module.
pub(super) struct Ring {
    io: IoUring,
    has_table: bool,
    /// Free places in the table of files.
    places: Vec<u32>,
    /// The memory that is registered, in pieces of [`PIECE`].
    memory: Option<Arc<Arena>>,
}

/// How the kernel is asked to hand over completions, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Deferred,
    Cooperative,
    Plain,
}

impl Ring {
    /// Makes a ring for `plan.depth` requests of two parts each.
    pub(super) fn new(plan: &Plan, polled: bool, found: &mut Found) -> io::Result<Self> {
        let entries = (plan.depth * 2 + 2).next_power_of_two();
        let mut last = None;
        for manner in [Manner::Deferred, Manner::Cooperative, Manner::Plain] {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_clamp();
            if polled {
                builder.setup_iopoll();
            }
            let sqpoll = plan.sqpoll.filter(|_| polled || !plan.iopoll);
            if let Some(idle) = sqpoll {
                builder.setup_sqpoll(u32::try_from(idle.as_millis()).unwrap_or(u32::MAX));
            }
            manner.ask(&mut builder, sqpoll.is_some());
            match builder.build(entries) {
                Ok(io) => return Self::check(io, manner, sqpoll.is_some(), found),
                Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => last = Some(cause),
                Err(cause) => return Err(cause),
            }
        }
        Err(last.expect("the loop was entered"))
    }

    fn check(io: IoUring, manner: Manner, sqpoll: bool, found: &mut Found) -> io::Result<Self> {
        if !io.params().is_feature_nodrop() {
            let what = "the kernel is too old for io_uring: it may lose completions";
            return Err(io::Error::other(what));
        }
        // A sandbox may permit rings and not their use. Better known before one has memory of a caller.
        // SAFETY: nothing is submitted, nothing is awaited.
        unsafe { io.submitter().enter::<libc::sigset_t>(0, 0, 0, None) }?;
        found.deferred = manner == Manner::Deferred && !sqpoll;
        if !found.deferred && !sqpoll {
            found
                .notes
                .push("the kernel is older than 6.1 and completes requests by interrupts".into());
        }
        Ok(Self {
            io,
            has_table: false,
            places: Vec::new(),
            memory: None,
        })
    }

    /// Makes a table of files, and pins the memory of the pool, as far as the system permits.
    pub(super) fn register(&mut self, pool: &Pool, found: &mut Found) {
        match self.io.submitter().register_files_sparse(FILES_MAX) {
            Ok(()) => {
                found.files = true;
                self.has_table = true;
                self.places = (0..FILES_MAX).rev().collect();
            }
            Err(cause) => found.notes.push(format!("no table of files: {cause}")),
        }
        let arena = pool.arena();
        let pieces: Vec<libc::iovec> = (0..arena.len())
            .step_by(PIECE)
            .map(|start| libc::iovec {
                iov_base: arena.base().wrapping_add(start).cast(),
                iov_len: PIECE.min(arena.len() - start),
            })
            .collect();
        // SAFETY: the pieces are mapped for as long as `memory` holds the arena, and the kernel pins them besides.
        match unsafe { self.io.submitter().register_buffers(&pieces) } {
            Ok(()) => {
                found.buffers = true;
                self.memory = Some(Arc::clone(arena));
            }
            Err(cause) => found.notes.push(no_memory(arena, &cause)),
        }
    }

    /// Gives a file its place in the table, when there is one.
    pub(super) fn adopt(&mut self, handle: &Handle) {
        if handle.slot().is_some() {
            return;
        }
        let Some(place) = self.places.pop() else {
            return;
        };
        let fd = handle.file().as_raw_fd();
        match self.io.submitter().register_files_update(place, &[fd]) {
            Ok(_) => handle.set_slot(place),
            Err(_) => self.places.push(place),
        }
    }

    /// Frees a place in the table. The requests of its file have landed.
    pub(super) fn discard(&mut self, place: u32) {
        // It fails for no place that was given out; if it did, the place would be lost and nothing else.
        if self
            .io
            .submitter()
            .register_files_update(place, &[-1])
            .is_ok()
        {
            self.places.push(place);
        }
    }

    /// Puts a read of the bell on the ring.
    ///
    /// # Safety
    /// `word` stays valid and unused until the read has come back.
    pub(super) unsafe fn push_bell(&mut self, bell: &File, word: *mut u64, mark: u64) {
        let entry = opcode::Read::new(types::Fd(bell.as_raw_fd()), word.cast(), 8).build();
        // SAFETY: as promised by the caller; the bell is open as long as the engine.
        unsafe { self.push(&[entry.user_data(mark)]) };
    }

    /// Puts the rest of a transfer on the ring, and a sync behind it when there is a mark for one.
    ///
    /// # Safety
    /// Buffer and file of `flying` stay alive and unused until all marks have come back.
    pub(super) unsafe fn push_data(&mut self, flying: &mut Flying, mark: u64, sync: Option<u64>) {
        let target = self.target(&flying.handle);
        let buffer = flying.buffer.as_mut().expect("a transfer has a buffer");
        let done = flying.progress.done as usize;
        let piece = self.piece_of(buffer, done);
        let rest = &mut buffer[done..];
        let len = rest.len().min(TRANSFER_MAX) as u32;
        let (start, at) = (rest.as_mut_ptr(), flying.progress.offset + done as u64);
        let entry = match (flying.progress.kind, piece) {
            (Kind::Read, Some(piece)) => on!(target, ReadFixed(start, len, piece).offset(at)),
            (Kind::Read, None) => on!(target, Read(start, len).offset(at)),
            (_, Some(piece)) => on!(target, WriteFixed(start, len, piece).offset(at)),
            (_, None) => on!(target, Write(start, len).offset(at)),
        };
        let entry = entry.user_data(mark);
        match sync {
            // SAFETY: as promised by the caller.
            None => unsafe { self.push(&[entry]) },
            Some(sync) => {
                let pair = [entry.flags(Flags::IO_LINK), sync_of(target, sync)];
                // SAFETY: as promised by the caller.
                unsafe { self.push(&pair) };
            }
        }
    }

    /// Puts a sync on the ring.
    ///
    /// # Safety
    /// The file stays open until the mark has come back.
    pub(super) unsafe fn push_sync(&mut self, handle: &Handle, mark: u64) {
        let entry = sync_of(self.target(handle), mark);
        // SAFETY: as promised by the caller.
        unsafe { self.push(&[entry]) };
    }

    /// Hands what was pushed to the kernel, and waits until `want` completions are there.
    pub(super) fn submit(&mut self, want: usize) -> io::Result<()> {
        match self.io.submit_and_wait(want) {
            Ok(_) => Ok(()),
            // A signal, or completions that want to be collected first.
            Err(cause)
                if matches!(
                    cause.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                Ok(())
            }
            Err(cause) => Err(cause),
        }
    }

    /// Collects what has come back: marks and results.
    pub(super) fn collect(&mut self, into: &mut Vec<(u64, i32)>) {
        let completions = self.io.completion();
        into.extend(completions.map(|entry: cqueue::Entry| (entry.user_data(), entry.result())));
    }

    fn target(&self, handle: &Handle) -> Target {
        match handle.slot() {
            Some(place) if self.has_table => Target::Place(place),
            _ => Target::Descriptor(handle.file().as_raw_fd()),
        }
    }

    /// The number of the registered piece that has all the rest of a buffer, if one has.
    fn piece_of(&self, buffer: &Buffer, done: usize) -> Option<u16> {
        let memory = self.memory.as_ref()?;
        let (start, last) = (buffer.offset() + done, buffer.offset() + buffer.len() - 1);
        let is_whole = Arc::ptr_eq(memory, buffer.arena()) && start / PIECE == last / PIECE;
        u16::try_from(start / PIECE).ok().filter(|_| is_whole)
    }

    /// # Safety
    /// What the entries name stays valid until their marks have come back.
    unsafe fn push(&mut self, entries: &[squeue::Entry]) {
        // SAFETY: as promised by the caller.
        let pushed = unsafe { self.io.submission().push_multiple(entries) };
        pushed.expect("the ring has room for all parts of all requests of the window");
    }
}

fn sync_of(target: Target, mark: u64) -> squeue::Entry {
    on!(target, Fsync().flags(FsyncFlags::DATASYNC)).user_data(mark)
}

impl Manner {
    fn ask(self, builder: &mut Builder, sqpoll: bool) {
        match self {
            Self::Deferred => {
                builder.setup_single_issuer();
                // The thread of the kernel completes; there is nothing to defer.
                if !sqpoll {
                    builder.setup_defer_taskrun().setup_taskrun_flag();
                }
            }
            Self::Cooperative if !sqpoll => {
                builder.setup_coop_taskrun().setup_taskrun_flag();
            }
            Self::Cooperative | Self::Plain => {}
        }
    }
}

fn no_memory(arena: &Arena, cause: &io::Error) -> String {
    let size = ByteCount(arena.len() as u64);
    match sys::memlock_max() {
        Some(limit) if cause.raw_os_error() == Some(libc::ENOMEM) => format!(
            "the {size} of buffers are not registered, as this process may lock {}; raise the limit (ulimit -l, \
             LimitMEMLOCK)",
            ByteCount(limit)
        ),
        _ => format!("the {size} of buffers are not registered: {cause}"),
    }
}
