//! The store as Python sees it. Every call lets other Python threads run while the store works.
//!
//! Single calls raise; batches answer one number for each key: 0 or a count of bytes when it went well, else the
//! negative code. A miss is `None` for one key and -704 in a batch that answers numbers.

use crate::{
    arguments::{KeyBatch, Size, Span, key, ssd, word},
    error::{closed, raise},
    hosting::Node,
    memory::{Source, Target, refuse_overlap},
    stat::{self, Segments},
};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use ziggurat_base::{Code, Result};
use ziggurat_store::{
    Blocking, CatalogConfig, ConnectOptions, Force, MemoryOptions, ObjectStat, OpenOptions,
    Prefetched, Priority, PutOptions, PutOutcome, PutRequest, Store as Library,
};

/// A key-value store: in this process (`open`) or a cluster (`connect`).
#[pyclass(frozen, module = "ziggurat")]
#[derive(Debug)]
pub(crate) struct Store {
    /// `None` once closed. Calls take a share of it, so closing waits for nobody and breaks no call.
    library: Mutex<Option<Arc<Blocking>>>,
    place: String,
}

/// Opens a store in this process, without a socket.
#[pyfunction]
#[pyo3(signature = (dram = Size::Bytes(256 << 20), *, segments = 1, policy = "lru", tenant = "default", state_dir = None,
    populate = false, ssd = None))]
#[pyo3(
    text_signature = "(dram='256MiB', *, segments=1, policy='lru', tenant='default', state_dir=None, \
                         populate=False, ssd=None)"
)]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of Python, each with a default"
)]
pub(crate) fn open(
    py: Python<'_>,
    dram: Size,
    segments: u16,
    policy: &str,
    tenant: &str,
    state_dir: Option<PathBuf>,
    populate: bool,
    ssd: Option<PathBuf>,
) -> PyResult<Store> {
    let options = OpenOptions {
        ssd: self::ssd(ssd.as_deref())?,
        memory: MemoryOptions {
            dram: dram.count()?,
            segments,
            populate,
            ..MemoryOptions::default()
        },
        state_dir,
        tenant: tenant.into(),
        catalog: CatalogConfig {
            policy: word(policy)?,
            ..CatalogConfig::default()
        },
        ..OpenOptions::default()
    };
    let opened = py.detach(|| Library::open(options).map(Library::blocking));
    Store::over(py, opened, "in process".into())
}

/// Connects to the cluster of a master; `timeout` bounds each wait for an answer. What lies on `node`, a node of this
/// process, is read and written without a socket.
#[pyfunction]
#[pyo3(signature = (master = "127.0.0.1:50051", *, tenant = "default", timeout = None, node = None))]
pub(crate) fn connect(
    py: Python<'_>,
    master: &str,
    tenant: &str,
    timeout: Option<Span>,
    node: Option<&Node>,
) -> PyResult<Store> {
    let mut options = ConnectOptions::new(master);
    options.remote.tenant = tenant.into();
    if let Some(timeout) = timeout {
        let timeout = timeout.duration()?;
        options.remote.session.deadline = timeout;
        options.remote.session.connect_deadline = timeout;
        options.remote.peers.connect_limit = timeout;
        options.remote.peers.answer_limit = timeout;
    }
    let connected = py.detach(|| match node {
        Some(node) => node.with(|process| Blocking::connect_beside(options, process)),
        None => Some(Blocking::connect(options)),
    });
    let connected = connected.ok_or_else(|| closed(py, "node"))?;
    Store::over(py, connected, format!("at {master}"))
}

impl Store {
    fn over(py: Python<'_>, library: Result<Blocking>, place: String) -> PyResult<Self> {
        let library = library.map_err(|error| raise(py, &error))?;
        Ok(Self {
            library: Mutex::new(Some(Arc::new(library))),
            place,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Blocking>>> {
        self.library.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn library(&self, py: Python<'_>) -> PyResult<Arc<Blocking>> {
        let library = self.lock().clone();
        library.ok_or_else(|| closed(py, "store"))
    }

    /// Makes one call without holding other Python threads up.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Blocking) -> Result<T> + Send,
    ) -> PyResult<T> {
        let library = self.library(py)?;
        // The share goes inside: the last one ends threads and unmaps memory.
        let done = py.detach(move || work(&library));
        done.map_err(|error| raise(py, &error))
    }
}

fn force(force: bool) -> Force {
    if force { Force::Yes } else { Force::No }
}

/// The answer of a batch about one key.
fn number<T>(answer: Result<T>, well: impl FnOnce(T) -> i64) -> i64 {
    answer.map_or_else(|error| error.code().number().into(), well)
}

/// The memory of a batch: one place, and one size if there are sizes, for each key.
fn places<T>(
    keys: &KeyBatch,
    places: &Bound<'_, PyAny>,
    sizes: Option<Vec<i64>>,
    read: impl Fn(&Bound<'_, PyAny>, Option<i64>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    if let Some(sizes) = &sizes {
        keys.match_count(sizes.len(), "sizes")?;
    }
    let size = |index: usize| sizes.as_ref().and_then(|sizes| sizes.get(index).copied());
    let items = places.try_iter()?.enumerate();
    let found: Vec<T> = items
        .map(|(index, place)| read(&place?, size(index)))
        .collect::<PyResult<_>>()?;
    keys.match_count(found.len(), "buffers or addresses")?;
    Ok(found)
}

/// The answer of a prefetch about one key: 1 when it is in memory, 0 when it is on its way, or is not any more.
fn place(answer: Result<Option<Prefetched>>) -> i64 {
    let miss = i64::from(Code::ObjectNotFound.number());
    number(answer, |place| match place {
        Some(Prefetched::InMemory) => 1,
        Some(Prefetched::UnderWay | Prefetched::Stopped) => 0,
        None => miss,
    })
}

/// Everything about a batch, and the segments that replicas lie on.
fn stats_of(library: &Blocking, keys: &KeyBatch) -> Result<(Vec<Option<ObjectStat>>, Segments)> {
    let stats = library.stat_many(&keys.slices());
    let stats = stats.into_iter().collect::<Result<_>>()?;
    let segments = library.segments()?;
    let by_number = segments.into_iter().map(|segment| (segment.id, segment));
    Ok((stats, by_number.collect()))
}

fn put_batch(
    library: &Blocking,
    keys: &KeyBatch,
    sources: &[Source],
    replicas: u8,
) -> Result<Vec<i64>> {
    let parts: Vec<[&[u8]; 1]> = sources.iter().map(|source| [source.bytes()]).collect();
    let requests: Vec<_> = keys
        .slices()
        .into_iter()
        .zip(&parts)
        .map(|(key, parts)| PutRequest::new(key, parts))
        .collect();
    let done = library.put_many(&requests, &PutOptions::replicas(replicas));
    Ok(done.into_iter().map(|one| number(one, |_| 0)).collect())
}

#[pymethods]
impl Store {
    /// Stores a value; `False` when the key has one already, which stays.
    #[pyo3(signature = (key, value, *, replicas = 1))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        replicas: u8,
    ) -> PyResult<bool> {
        self.put_from(py, key, value, None, replicas)
    }

    /// Stores `size` bytes of a buffer or at an address; `False` when the key has a value already, which stays.
    #[pyo3(signature = (key, source, size = None, *, replicas = 1))]
    fn put_from(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        source: &Bound<'_, PyAny>,
        size: Option<i64>,
        replicas: u8,
    ) -> PyResult<bool> {
        let key = self::key(key)?;
        let source = Source::read(source, size)?;
        let options = PutOptions::replicas(replicas);
        let done = self.call(py, |library| {
            library.put_parts(key, &[source.bytes()], &options)
        })?;
        Ok(done != PutOutcome::Existed)
    }

    /// Stores a batch; 0 or a negative code for each key. A key that has a value keeps it, which is 0.
    #[pyo3(signature = (keys, values, *, replicas = 1))]
    fn put_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        replicas: u8,
    ) -> PyResult<Vec<i64>> {
        self.batch_put_from(py, keys, values, None, replicas)
    }

    /// Stores a batch of buffers or addresses; 0 or a negative code for each key.
    #[pyo3(signature = (keys, sources, sizes = None, *, replicas = 1))]
    fn batch_put_from(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        sources: &Bound<'_, PyAny>,
        sizes: Option<Vec<i64>>,
        replicas: u8,
    ) -> PyResult<Vec<i64>> {
        let keys = KeyBatch::read(keys)?;
        let sources = places(&keys, sources, sizes, Source::read)?;
        self.call(py, |library| put_batch(library, &keys, &sources, replicas))
    }

    /// The value of a key; `None` is a miss.
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = self::key(key)?;
        let value = self.call(py, |library| library.get(key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// The values of a batch; `None` is a miss. Raises the first failure.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys = KeyBatch::read(keys)?;
        let values: Vec<Option<Vec<u8>>> = self.call(py, |library| {
            library.get_many(&keys.slices()).into_iter().collect()
        })?;
        let object = |value: Vec<u8>| PyBytes::new(py, &value);
        Ok(values.into_iter().map(|value| value.map(object)).collect())
    }

    /// Reads a value into a writable buffer or to an address; its length, or `None` for a miss.
    #[pyo3(signature = (key, target, size = None))]
    fn get_into(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        size: Option<i64>,
    ) -> PyResult<Option<u64>> {
        let key = self::key(key)?;
        let mut target = Target::read(target, size)?;
        self.call(py, |library| library.get_into(key, target.bytes_mut()))
    }

    /// Reads a batch into buffers or to addresses; the length, or a negative code, for each key (-704 is a miss).
    #[pyo3(signature = (keys, targets, sizes = None))]
    fn batch_get_into(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
        sizes: Option<Vec<i64>>,
    ) -> PyResult<Vec<i64>> {
        let keys = KeyBatch::read(keys)?;
        let mut targets = places(&keys, targets, sizes, Target::read)?;
        refuse_overlap(&targets)?;
        let miss = i64::from(Code::ObjectNotFound.number());
        self.call(py, |library| {
            let mut buffers: Vec<_> = targets.iter_mut().map(Target::bytes_mut).collect();
            let done = library.get_many_into(&keys.slices(), &mut buffers, Default::default());
            let len = |len: Option<u64>| len.map_or(miss, |len| len as i64);
            Ok(done.into_iter().map(|one| number(one, len)).collect())
        })
    }

    /// Whether a key has a value.
    fn is_exist(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = self::key(key)?;
        self.call(py, |library| library.exist(key))
    }

    /// Whether keys have values. Raises the first failure.
    fn batch_is_exist(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let keys = KeyBatch::read(keys)?;
        self.call(py, |library| {
            library.exist_many(&keys.slices()).into_iter().collect()
        })
    }

    /// The length of a value; `None` is a miss.
    fn get_size(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let key = self::key(key)?;
        self.call(py, |library| library.size(key))
    }

    /// Everything about a key: its size, version and sum, what is left of its lease in seconds, and on which segments of which
    /// tier it lies. `None` is a miss.
    fn stat<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = self.batch_stat(py, PyList::new(py, [key])?.as_any())?;
        Ok(found.into_iter().next().flatten())
    }

    /// Everything about keys; `None` is a miss. Raises the first failure.
    fn batch_stat<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyDict>>>> {
        let keys = KeyBatch::read(keys)?;
        let (stats, segments) = self.call(py, |library| stats_of(library, &keys))?;
        let dictionary = |found: Option<ObjectStat>| {
            found
                .map(|found| stat::object(py, &found, &segments))
                .transpose()
        };
        stats.into_iter().map(dictionary).collect()
    }

    /// Wishes keys in memory that may lie on SSD; for each 1 when it is there, 0 when it is on its way, or a negative code
    /// (-704 is a miss).
    #[pyo3(signature = (keys, tier = "dram", priority = "normal"))]
    fn prefetch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        tier: &str,
        priority: &str,
    ) -> PyResult<Vec<i64>> {
        if tier != "dram" {
            let what = format!("nothing is brought into {tier:?}: use dram");
            return Err(PyValueError::new_err(what));
        }
        let priority: Priority = word(priority)?;
        let keys = KeyBatch::read(keys)?;
        self.call(py, |library| {
            let done = library.prefetch_many(&keys.slices(), priority);
            Ok(done.into_iter().map(place).collect())
        })
    }

    /// Takes wishes for keys in memory back; for each 1 when it is there already, 0 when it does not come, or a negative code.
    fn cancel_prefetch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
        let keys = KeyBatch::read(keys)?;
        self.call(py, |library| {
            let done = library.cancel_prefetch(&keys.slices());
            Ok(done.into_iter().map(place).collect())
        })
    }

    /// Removes a key; `False` when it had no value. `force` does not wait for readers.
    #[pyo3(signature = (key, force = false))]
    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>, force: bool) -> PyResult<bool> {
        let key = self::key(key)?;
        self.call(py, |library| {
            match library.remove(key, self::force(force)) {
                Err(error) if error.code() == Code::ObjectNotFound => Ok(false),
                done => done.map(|()| true),
            }
        })
    }

    /// Removes keys; 0 or a negative code for each (-704: it had no value).
    #[pyo3(signature = (keys, force = false))]
    fn batch_remove(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        force: bool,
    ) -> PyResult<Vec<i64>> {
        let keys = KeyBatch::read(keys)?;
        self.call(py, |library| {
            let done = library.remove_many(&keys.slices(), self::force(force));
            Ok(done.into_iter().map(|one| number(one, |()| 0)).collect())
        })
    }

    /// Removes every key of the tenant; how many there were. Without `force` those that are being read stay.
    #[pyo3(signature = (force = false))]
    fn remove_all(&self, py: Python<'_>, force: bool) -> PyResult<u64> {
        self.call(py, |library| {
            let removed = library.remove_matching("", self::force(force))?;
            Ok(removed.removed)
        })
    }

    /// The metadata partition in numbers.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.call(py, Blocking::stats)?;
        let numbers = PyDict::new(py);
        macro_rules! copy {
            ($($name:ident)*) => { $(numbers.set_item(stringify!($name), stats.$name)?;)* };
        }
        copy!(objects writes_open writes_closing capacity used largest_free extents segments members table_bytes);
        copy!(puts_granted puts_existed puts_refused_writing puts_refused_space puts_partial puts_ended puts_revoked);
        copy!(puts_preempted puts_expired locate_hits locate_misses exist_hits exist_misses holds_returned removed);
        copy!(evicted evicted_bytes lost members_expired owned_capacity owned_used owned_replicas offloading unkept);
        copy!(promoting promoted promotions_dropped promotions_failed);
        Ok(numbers)
    }

    /// Lets memory and connections go once the calls under way have ended, and what was put is on SSD where there is one. A
    /// second call does nothing.
    fn close(&self, py: Python<'_>) {
        let library = self.lock().take();
        py.detach(move || {
            let library = library.filter(|library| library.store().ssd().is_some());
            if let Some(library) = library {
                library.close();
            }
        });
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.is_exist(py, key)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.library(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.lock().is_some() {
            ""
        } else {
            ", closed"
        };
        format!("<ziggurat.Store {}{state}>", self.place)
    }
}
