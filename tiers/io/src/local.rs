//! A directory of this machine as a [`Disk`], whichever engine moves the bytes.
//!
//! Names and allocation are the work of a helper thread, reads and writes that of the engine. A file closes when its last
//! owner, which may be a request under way, has gone.

pub(crate) mod directory;
pub(crate) mod handle;

use crate::{
    answer::{Giver, answer},
    buffer::Pool,
    cause::Doing,
    disk::{Disk, File, FileStat, Flight, Geometry, Landed, Request, Space},
    door,
    helper::Helper,
};
use directory::Directory;
use handle::{Closer, Handle};
use std::{fmt, sync::Arc};
use ziggurat_base::{Error, Job, Result};

/// A request on its way to the engine. Aligned and inside its file.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) handle: Arc<Handle>,
    pub(crate) request: Request,
    pub(crate) landing: Giver<Landed>,
}

impl Work {
    /// Lands it without having done anything.
    pub(crate) fn refuse(self, error: &Error) {
        self.landing.give(Landed {
            buffer: self.request.into_buffer(),
            result: Err(error.clone()),
        });
    }
}

/// What moves the bytes. Dropping it lets all that was started land.
pub(crate) trait Engine: Send + Sync + fmt::Debug {
    /// Starts requests; never blocks.
    fn start(&self, work: Vec<Work>);
    /// Who is told when a file is not wanted any more.
    fn closer(&self) -> Arc<dyn Closer>;
}

/// See the module.
pub(crate) struct LocalDisk {
    shared: Arc<Shared>,
}

/// Lives as long as the disk and its files. The engine goes before the helper, to which it sends files to close.
struct Shared {
    directory: Arc<Directory>,
    pool: Pool,
    engine: Box<dyn Engine>,
    helper: Helper,
}

impl LocalDisk {
    pub(crate) fn new(
        directory: Arc<Directory>,
        pool: Pool,
        engine: Box<dyn Engine>,
        helper: Helper,
    ) -> Self {
        let shared = Arc::new(Shared {
            directory,
            pool,
            engine,
            helper,
        });
        Self { shared }
    }

    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Directory) -> Result<T> + Send + 'static,
    ) -> Job<'static, Result<T>> {
        let directory = Arc::clone(&self.shared.directory);
        self.shared.helper.desk().call(move || call(&directory))
    }

    /// Makes a file of what the helper has opened.
    fn file(
        &self,
        open: impl FnOnce(&Directory) -> Result<directory::Opened> + Send + 'static,
    ) -> Job<'_, Result<Arc<dyn File>>> {
        let opened = self.call(open);
        Box::pin(async move {
            let handle = Handle::new(opened.await?, self.shared.engine.closer());
            Ok(Arc::new(LocalFile {
                handle: Arc::new(handle),
                shared: Arc::clone(&self.shared),
            }) as Arc<dyn File>)
        })
    }
}

impl fmt::Debug for LocalDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalDisk")
            .field("directory", &self.shared.directory)
            .field("engine", &self.shared.engine)
            .finish_non_exhaustive()
    }
}

impl Disk for LocalDisk {
    fn geometry(&self) -> Geometry {
        self.shared.directory.geometry()
    }

    fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    fn space(&self) -> Job<'_, Result<Space>> {
        self.call(Directory::space)
    }

    fn list(&self) -> Job<'_, Result<Vec<FileStat>>> {
        self.call(Directory::list)
    }

    fn create<'a>(&'a self, name: &'a str, len: u64) -> Job<'a, Result<Arc<dyn File>>> {
        let name = name.to_owned();
        self.file(move |directory| directory.create(&name, len))
    }

    fn open<'a>(&'a self, name: &'a str) -> Job<'a, Result<Arc<dyn File>>> {
        let name = name.to_owned();
        self.file(move |directory| directory.open(&name))
    }

    fn remove<'a>(&'a self, name: &'a str) -> Job<'a, Result<()>> {
        let name = name.to_owned();
        self.call(move |directory| directory.remove(&name))
    }

    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> Job<'a, Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.call(move |directory| directory.rename(&from, &to))
    }

    fn sync_names(&self) -> Job<'_, Result<()>> {
        self.call(Directory::sync_names)
    }
}

/// An open file. The handle goes before the engine.
struct LocalFile {
    handle: Arc<Handle>,
    shared: Arc<Shared>,
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl File for LocalFile {
    fn len(&self) -> u64 {
        self.handle.len()
    }

    fn start(&self, requests: Vec<Request>) -> Vec<Flight> {
        let geometry = self.shared.directory.geometry();
        let (mut flights, mut work) = (Vec::with_capacity(requests.len()), Vec::new());
        for request in requests {
            let (landing, flight) = answer();
            flights.push(Box::pin(flight) as Flight);
            let checked = door::check(geometry, &self.handle, self.handle.len(), &request);
            let one = Work {
                handle: Arc::clone(&self.handle),
                request,
                landing,
            };
            match checked {
                Ok(()) => work.push(one),
                Err(error) => one.refuse(&error),
            }
        }
        if !work.is_empty() {
            self.shared.engine.start(work);
        }
        flights
    }

    fn punch(&self, offset: u64, len: u64) -> Job<'_, Result<()>> {
        let handle = Arc::clone(&self.handle);
        let geometry = self.shared.directory.geometry();
        self.shared.helper.desk().call(move || {
            door::check_range(geometry, &handle, handle.len(), offset, len)?;
            let punched = crate::sys::punch(handle.file(), offset, len);
            punched.map_err(|cause| handle.refused(Doing::Punch { offset, len }, &cause))
        })
    }
}
