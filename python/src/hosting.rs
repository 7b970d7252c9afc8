//! Hosts of a cluster in this process: a node that gives memory, and a master for tests and small set-ups.

use crate::{
    arguments::{Size, Span, address, ssd, word},
    error::{closed, raise},
    stat::directory,
};
use pyo3::{prelude::*, types::PyList};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};
use ziggurat_base::{Code, Error, Result};
use ziggurat_store::{
    CatalogConfig, MasterOptions, MemoryOptions, NodeOptions, SystemClock,
    {Master as MasterProcess, Node as NodeProcess},
};

/// Threads that drive the sockets of one host.
const SOCKET_THREADS: usize = 2;

/// How long the first contact of a node with its master may take.
const NODE_PATIENCE: Duration = Duration::from_secs(10);

fn runtime(name: &str) -> Result<Runtime> {
    let built = Builder::new_multi_thread()
        .worker_threads(SOCKET_THREADS)
        .thread_name(name)
        .enable_all()
        .build();
    built.map_err(|error| {
        let what = format!("cannot start threads for sockets: {error}");
        Error::new(Code::Internal, what)
    })
}

/// What runs, before the runtime that drives it, so that it is dropped first.
#[derive(Debug)]
struct Running<T> {
    process: T,
    runtime: Runtime,
}

/// Something that runs until it is stopped.
type Slot<T> = Mutex<Option<Running<T>>>;

fn lock<T>(slot: &Slot<T>) -> MutexGuard<'_, Option<Running<T>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives memory of this process to a cluster until it is stopped.
#[pyclass(frozen, module = "ziggurat")]
#[derive(Debug)]
pub(crate) struct Node {
    running: Slot<NodeProcess>,
    address: String,
}

/// A name that no other node has: the host, the process, and how many there were before.
fn unique_name() -> String {
    static NODES: AtomicU64 = AtomicU64::new(0);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let number = NODES.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{number}", host.trim(), std::process::id())
}

impl Node {
    /// Does something with the node; `None` once it is stopped. To be called without holding other Python threads up.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&NodeProcess) -> T) -> Option<T> {
        let running = lock(&self.running);
        running.as_ref().map(|running| work(&running.process))
    }
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (master, dram = Size::Bytes(1 << 30), *, name = None, listen = "127.0.0.1:0", advertise = None,
        segments = 1, populate = false, ssd = None))]
    #[pyo3(
        text_signature = "(master, dram='1GiB', *, name=None, listen='127.0.0.1:0', advertise=None, segments=1, \
                             populate=False, ssd=None)"
    )]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of Python, each with a default"
    )]
    fn new(
        py: Python<'_>,
        master: String,
        dram: Size,
        name: Option<String>,
        listen: &str,
        advertise: Option<String>,
        segments: u16,
        populate: bool,
        ssd: Option<PathBuf>,
    ) -> PyResult<Self> {
        let options = NodeOptions {
            ssd: self::ssd(ssd.as_deref())?,
            dfs: Default::default(),
            eager: true,
            master,
            listen: address(listen)?,
            advertise,
            admin: None,
            segment_name: name.unwrap_or_else(unique_name),
            memory: MemoryOptions {
                dram: dram.count()?,
                segments,
                populate,
                ..MemoryOptions::default()
            },
            session: Default::default(),
            limits: Default::default(),
            patience: NODE_PATIENCE,
        };
        let started = py.detach(|| {
            let runtime = runtime("ziggurat-node")?;
            let process = runtime.block_on(NodeProcess::start(options))?;
            Ok(Running { process, runtime })
        });
        let running = started.map_err(|error| raise(py, &error))?;
        Ok(Self {
            address: running.process.address().to_owned(),
            running: Mutex::new(Some(running)),
        })
    }

    /// Where clients reach its memory.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// Its SSD directories in numbers, one dictionary for each.
    fn ssd<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let stats = py.detach(|| self.with(NodeProcess::ssd));
        let stats = stats.ok_or_else(|| closed(py, "node"))?;
        let directories: Vec<_> = stats
            .iter()
            .map(|stats| directory(py, stats))
            .collect::<PyResult<_>>()?;
        PyList::new(py, directories)
    }

    /// Takes over to SSD what waits for it, unmounts the memory, readable for `grace` longer, and leaves the cluster. A second call does nothing.
    #[pyo3(signature = (grace = Span::Seconds(0.0)), text_signature = "($self, grace=0)")]
    fn stop(&self, py: Python<'_>, grace: Span) -> PyResult<()> {
        let grace = grace.duration()?;
        py.detach(|| {
            let running = lock(&self.running).take();
            if let Some(running) = running {
                running.runtime.block_on(running.process.stop(grace));
            }
        });
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        if lock(&slf.running).is_none() {
            return Err(closed(slf.py(), "node"));
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.stop(py, Span::Seconds(0.0))
    }

    fn __repr__(&self) -> String {
        format!("<ziggurat.Node at {}>", self.address)
    }
}

/// A master in this process, until it is stopped.
#[pyclass(frozen, module = "ziggurat")]
#[derive(Debug)]
pub(crate) struct Master {
    running: Slot<MasterProcess>,
    address: String,
}

#[pymethods]
impl Master {
    #[new]
    #[pyo3(signature = (listen = "127.0.0.1:50051", *, policy = "lru", state_dir = None))]
    fn new(
        py: Python<'_>,
        listen: &str,
        policy: &str,
        state_dir: Option<PathBuf>,
    ) -> PyResult<Self> {
        let options = MasterOptions {
            listen: address(listen)?,
            admin: None,
            state_dir,
            catalog: CatalogConfig {
                policy: word(policy)?,
                ..CatalogConfig::default()
            },
            clock: Arc::new(SystemClock::default()),
        };
        let started = py.detach(|| {
            let runtime = runtime("ziggurat-master")?;
            let process = runtime.block_on(MasterProcess::start(options))?;
            Ok(Running { process, runtime })
        });
        let running = started.map_err(|error| raise(py, &error))?;
        Ok(Self {
            address: running.process.address().to_string(),
            running: Mutex::new(Some(running)),
        })
    }

    /// Where nodes and clients reach it.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// Ends it. A second call does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let running = lock(&self.running).take();
            if let Some(running) = running {
                running.runtime.block_on(running.process.stop());
            }
        });
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        if lock(&slf.running).is_none() {
            return Err(closed(slf.py(), "master"));
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.stop(py);
    }

    fn __repr__(&self) -> String {
        format!("<ziggurat.Master at {}>", self.address)
    }
}
