//! The store for callers without an async runtime. In process a call completes on the calling thread; only one that
//! waits for room sleeps.

use crate::open::{ConnectOptions, Store};
use std::sync::Arc;
use tokio::runtime::{self, Runtime};
use ziggurat_base::{Code, Error, ObjectKey, Result};
use ziggurat_client::{PutOptions, PutOutcome, PutRequest, client::Removed};
use ziggurat_engine::command::{
    Force, ObjectStat, Prefetched, Priority, Recency, SegmentStat, Stats,
};
use ziggurat_node::Node;

/// See the module. The calls are those of [`ziggurat_client::Client`], without `await`.
#[derive(Clone, Debug)]
pub struct Blocking {
    store: Store,
    /// Drives the sockets of a cluster; none in process.
    runtime: Option<Arc<Runtime>>,
}

/// Threads that drive the sockets of a cluster.
const SOCKET_THREADS: usize = 2;

impl Blocking {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            runtime: None,
        }
    }

    /// Connects to a cluster with a runtime of its own.
    ///
    /// # Errors
    /// As [`Store::connect`]; `Internal` when the system gives no threads.
    pub fn connect(options: ConnectOptions) -> Result<Self> {
        let runtime = Self::sockets()?;
        let store = runtime.block_on(Store::connect(options))?;
        Ok(Self {
            store,
            runtime: Some(Arc::new(runtime)),
        })
    }

    /// Connects beside a node of this process, with a runtime of its own; see [`Store::connect_beside`].
    ///
    /// # Errors
    /// As [`Blocking::connect`].
    pub fn connect_beside(options: ConnectOptions, node: &Node) -> Result<Self> {
        let runtime = Self::sockets()?;
        let store = runtime.block_on(Store::connect_beside(options, node))?;
        Ok(Self {
            store,
            runtime: Some(Arc::new(runtime)),
        })
    }

    fn sockets() -> Result<Runtime> {
        let built = runtime::Builder::new_multi_thread()
            .worker_threads(SOCKET_THREADS)
            .thread_name("ziggurat-client")
            .enable_all()
            .build();
        built.map_err(|error| {
            let what = format!("cannot start threads for sockets: {error}");
            Error::new(Code::Internal, what)
        })
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Drives one future to its end on the calling thread.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => pollster::block_on(future),
        }
    }
}

macro_rules! blocking {
    ($($(#[$doc:meta])* fn $name:ident $(<$($generic:ident: $bound:path),+>)? ($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Blocking {
            $($(#[$doc])*
            pub fn $name $(<$($generic: $bound),+>)? (&self, $($arg: $type),*) -> $result {
                self.wait(self.store.$name($($arg),*))
            })*
        }
    };
}

blocking! {
    /// Says goodbye to a cluster; see [`Store::close`].
    fn close() -> ();
    /// The metadata partition in numbers.
    ///
    /// # Errors
    /// When the master cannot be asked.
    fn stats() -> Result<Stats>;
    /// The segments.
    ///
    /// # Errors
    /// When the master cannot be asked.
    fn segments() -> Result<Vec<SegmentStat>>;
    /// Stores a value; a readable key keeps its own.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::put`].
    fn put<K: Bytes, V: Bytes>(key: K, value: V) -> Result<PutOutcome>;
    /// Stores a value that lies in parts.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::put_parts`].
    fn put_parts<K: Bytes>(key: K, parts: &[&[u8]], options: &PutOptions) -> Result<PutOutcome>;
    /// Stores a batch.
    fn put_many(requests: &[PutRequest<'_>], options: &PutOptions) -> Vec<Result<PutOutcome>>;
    /// Reads a value; `None` is a miss.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::get`].
    fn get<K: Bytes>(key: K) -> Result<Option<Vec<u8>>>;
    /// Reads a batch.
    fn get_many(keys: &[&[u8]]) -> Vec<Result<Option<Vec<u8>>>>;
    /// Reads a range.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::get_range`].
    fn get_range<K: Bytes>(key: K, offset: u64, len: u64) -> Result<Option<Vec<u8>>>;
    /// Reads a value into the caller's memory.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::get_into`].
    fn get_into<K: Bytes>(key: K, buffer: &mut [u8]) -> Result<Option<u64>>;
    /// Reads a batch into the caller's memory.
    fn get_many_into(keys: &[&[u8]], buffers: &mut [&mut [u8]], recency: Recency) -> Vec<Result<Option<u64>>>;
    /// Reads a range into the caller's memory.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::get_range_into`].
    fn get_range_into<K: Bytes>(key: K, offset: u64, buffer: &mut [u8]) -> Result<Option<u64>>;
    /// Whether an object is readable.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::exist`].
    fn exist<K: Bytes>(key: K) -> Result<bool>;
    /// Whether objects are readable.
    fn exist_many(keys: &[&[u8]]) -> Vec<Result<bool>>;
    /// Bytes of a payload; `None` is a miss.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::size`].
    fn size<K: Bytes>(key: K) -> Result<Option<u64>>;
    /// Everything about an object; `None` is a miss.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::stat`].
    fn stat<K: Bytes>(key: K) -> Result<Option<ObjectStat>>;
    /// Everything about objects.
    fn stat_many(keys: &[&[u8]]) -> Vec<Result<Option<ObjectStat>>>;
    /// Marks objects as just used, in this order.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::touch`].
    fn touch(keys: &[&[u8]]) -> Result<()>;
    /// Wishes objects in memory that may lie below it.
    fn prefetch_many(keys: &[&[u8]], priority: Priority) -> Vec<Result<Option<Prefetched>>>;
    /// Takes wishes for objects in memory back.
    fn cancel_prefetch(keys: &[&[u8]]) -> Vec<Result<Option<Prefetched>>>;
    /// Removes an object.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::remove`].
    fn remove<K: Bytes>(key: K, force: Force) -> Result<()>;
    /// Removes objects.
    fn remove_many(keys: &[&[u8]], force: Force) -> Vec<Result<()>>;
    /// Removes what matches a pattern.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::remove_matching`].
    fn remove_matching(pattern: &str, force: Force) -> Result<Removed>;
    /// Lists keys and lengths of what matches a pattern.
    ///
    /// # Errors
    /// As [`ziggurat_client::Client::list`].
    fn list(pattern: &str, limit: usize) -> Result<Vec<(ObjectKey, u64)>>;
}

/// Anything with bytes: strings, slices, vectors.
pub trait Bytes: AsRef<[u8]> {}
impl<T: AsRef<[u8]>> Bytes for T {}
