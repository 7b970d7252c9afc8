//! The engine of blocking threads: for machines and containers that refuse io_uring.
//!
//! As many requests are under way as there are threads. The queue is bounded by the pool, whose buffers the requests
//! hold, and by what callers await.

use crate::{
    cause::Doing,
    disk::{Landed, Request},
    helper::{Desk, join, no_thread},
    local::{
        Engine, Work,
        handle::{Closer, Handle},
    },
};
use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};
use ziggurat_base::{Error, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Threads {
    queue: Arc<Queue>,
    closer: Arc<OnDesk>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Told of work, and of the end.
    bell: Condvar,
}

#[derive(Debug, Default)]
struct State {
    work: VecDeque<Work>,
    closing: bool,
}

/// Closes files on the helper's thread.
#[derive(Debug)]
pub(crate) struct OnDesk(pub(crate) Desk);

impl Closer for OnDesk {
    fn close(&self, file: File, _slot: Option<u32>) {
        self.0.post(move || drop(file));
    }
}

impl Threads {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// [`Code::Internal`](ziggurat_base::Code::Internal) when the system has none left.
    pub(crate) fn start(count: u32, block: u32, desk: &Desk) -> Result<Self> {
        let mut engine = Self {
            queue: Arc::default(),
            closer: Arc::new(OnDesk(desk.clone())),
            threads: Vec::new(),
        };
        for index in 0..count.max(1) {
            let queue = Arc::clone(&engine.queue);
            let thread = thread::Builder::new()
                .name(format!("ziggurat-disk-{index}"))
                .spawn(move || queue.serve(u64::from(block)))
                .map_err(|cause| no_thread(&cause))?;
            engine.threads.push(thread);
        }
        Ok(engine)
    }
}

impl Engine for Threads {
    fn start(&self, work: Vec<Work>) {
        let count = work.len();
        self.queue.state().work.extend(work);
        for _ in 0..count.min(self.threads.len()) {
            self.queue.bell.notify_one();
        }
    }

    fn closer(&self) -> Arc<dyn Closer> {
        Arc::clone(&self.closer) as Arc<dyn Closer>
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.queue.state().closing = true;
        self.queue.bell.notify_all();
        self.threads.drain(..).for_each(join);
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, block: u64) {
        while let Some(work) = self.next() {
            let landed = carry_out(&work.handle, work.request, block);
            // The file before the answer: whoever has the answer may expect that the file can be closed.
            drop(work.handle);
            work.landing.give(landed);
        }
    }

    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if let Some(work) = state.work.pop_front() {
                return Some(work);
            }
            if state.closing {
                return None;
            }
            state = self
                .bell
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn carry_out(handle: &Handle, request: Request, block: u64) -> Landed {
    match request {
        Request::Read { offset, mut buffer } => Landed {
            result: read(handle, offset, &mut buffer, block),
            buffer: Some(buffer),
        },
        Request::Write {
            offset,
            buffer,
            sync: wants_sync,
        } => Landed {
            result: write(handle, offset, &buffer)
                .and_then(|()| if wants_sync { sync(handle) } else { Ok(()) }),
            buffer: Some(buffer),
        },
        Request::Sync => Landed {
            buffer: None,
            result: sync(handle),
        },
    }
}

fn read(handle: &Handle, offset: u64, target: &mut [u8], block: u64) -> Result<()> {
    let doing = Doing::Read {
        offset,
        len: target.len() as u64,
    };
    let mut done = 0;
    while done < target.len() {
        let at = offset + done as u64;
        match handle.file().read_at(&mut target[done..], at) {
            Ok(0) => return Err(handle.too_short(doing, at)),
            Ok(count) => done += count,
            Err(cause) => retry(&cause).map_err(|()| handle.refused(doing, &cause))?,
        }
        if done < target.len() && !(done as u64).is_multiple_of(block) {
            // Only the end of a file ends a read in the middle of a block, and the rest could not be asked for.
            return Err(handle.too_short(doing, offset + done as u64));
        }
    }
    Ok(())
}

fn write(handle: &Handle, offset: u64, bytes: &[u8]) -> Result<()> {
    let doing = Doing::Write {
        offset,
        len: bytes.len() as u64,
    };
    let mut done = 0;
    while done < bytes.len() {
        match handle.file().write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(wrote_nothing(handle, doing)),
            Ok(count) => done += count,
            Err(cause) => retry(&cause).map_err(|()| handle.refused(doing, &cause))?,
        }
    }
    Ok(())
}

fn sync(handle: &Handle) -> Result<()> {
    let synced = handle.file().sync_data();
    synced.map_err(|cause| handle.refused(Doing::Sync, &cause))
}

/// The error of a write that the kernel neither refuses nor carries out.
pub(crate) fn wrote_nothing(handle: &Handle, doing: Doing) -> Error {
    handle.refused(doing, &io::ErrorKind::WriteZero.into())
}

fn retry(cause: &io::Error) -> Result<(), ()> {
    (cause.kind() == io::ErrorKind::Interrupted)
        .then_some(())
        .ok_or(())
}
