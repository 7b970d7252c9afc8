//! A TCP proxy that a test holds in its hand: it lets so many bytes of a connection pass and no more, stops all traffic as
//! a partition would, or cuts it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// Sockets of the proxy keep little, so that what it holds back is held back at its source.
const BUFFER: u32 = 64 << 10;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From whoever connects.
    Up,
    /// To whoever connects.
    Down,
}

/// What the proxy does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    Flows,
    /// Nothing passes and nothing is closed; new connections wait too.
    Frozen,
    /// All connections are closed, and new ones at once.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bar {
    Down,
    /// The bytes have passed, and more is waiting.
    Reached,
    Up,
}

/// Lets so many bytes of one connection pass.
#[derive(Debug)]
struct Limit {
    way: Way,
    bytes: u64,
    bar: watch::Sender<Bar>,
}

/// A bar across the next connection; the connection stands still at it until the test opens it.
pub(crate) struct Gate(Arc<Limit>);

impl Gate {
    /// Waits until exactly the agreed number of bytes has passed and more is waiting.
    pub(crate) async fn reached(&self) {
        let mut bar = self.0.bar.subscribe();
        let reached = bar.wait_for(|bar| *bar == Bar::Reached);
        let came = timeout(Duration::from_secs(20), reached).await;
        came.expect("a transfer comes to the gate")
            .expect("the gate is there");
    }

    /// Lets everything pass from now on.
    pub(crate) fn open(&self) {
        self.0.bar.send_replace(Bar::Up);
    }
}

#[derive(Debug)]
struct Shared {
    target: Mutex<Option<SocketAddr>>,
    traffic: watch::Sender<Traffic>,
    next: Mutex<Option<Arc<Limit>>>,
    passed: AtomicU64,
}

/// See the module.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Listens, and leads nowhere yet.
    pub(crate) async fn start() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(BUFFER).expect("a small buffer");
        socket
            .bind(super::super::rig::ANY)
            .expect("a free port of the loopback");
        let listener = socket.listen(64).expect("it listens");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            target: Mutex::default(),
            traffic: watch::Sender::new(Traffic::Flows),
            next: Mutex::default(),
            passed: AtomicU64::new(0),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Self {
            address,
            shared,
            task,
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Leads to `target` from now on.
    pub(crate) fn aim(&self, target: &str) {
        let target = target.parse().expect("the address of a listener");
        *self.shared.target.lock().expect("no panic under it") = Some(target);
    }

    /// Bars the next connection after `bytes` bytes of one way.
    pub(crate) fn bar_next(&self, way: Way, bytes: u64) -> Gate {
        let limit = Arc::new(Limit {
            way,
            bytes,
            bar: watch::Sender::new(Bar::Down),
        });
        *self.shared.next.lock().expect("no panic under it") = Some(limit.clone());
        Gate(limit)
    }

    /// A partition begins: nothing passes, nothing is closed.
    pub(crate) fn freeze(&self) {
        self.shared.traffic.send_replace(Traffic::Frozen);
    }

    /// Closes every connection, and new ones at once.
    pub(crate) fn cut(&self) {
        self.shared.traffic.send_replace(Traffic::Cut);
    }

    /// All is well again.
    pub(crate) fn mend(&self) {
        self.shared.traffic.send_replace(Traffic::Flows);
    }

    /// Bytes that have passed, both ways together.
    pub(crate) fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((near, _)) = listener.accept().await else {
            continue;
        };
        let limit = shared.next.lock().expect("no panic under it").take();
        connections.spawn(relay(near, limit, shared.clone()));
    }
}

async fn relay(near: TcpStream, limit: Option<Arc<Limit>>, shared: Arc<Shared>) {
    let mut traffic = shared.traffic.subscribe();
    let held = traffic.wait_for(|traffic| *traffic != Traffic::Frozen);
    if held.await.is_ok_and(|traffic| *traffic == Traffic::Cut) {
        return;
    }
    let target = *shared.target.lock().expect("no panic under it");
    let Some(target) = target else { return };
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(BUFFER).expect("a small buffer");
    let Ok(far) = socket.connect(target).await else {
        return;
    };
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let pump = |way, from, to| {
        let limit = limit.clone().filter(|limit| limit.way == way);
        pump(from, to, limit, &shared)
    };
    let both = async {
        tokio::join!(
            pump(Way::Up, near_in, far_out),
            pump(Way::Down, far_in, near_out)
        )
    };
    let cut = async {
        let mut traffic = shared.traffic.subscribe();
        let _cut = traffic.wait_for(|traffic| *traffic == Traffic::Cut).await;
    };
    tokio::select! {
        _ = both => {}
        () = cut => {}
    }
}

/// Carries bytes until its source ends; then its destination hears so too.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    limit: Option<Arc<Limit>>,
    shared: &Shared,
) {
    let mut traffic = shared.traffic.subscribe();
    let mut buffer = vec![0; BUFFER as usize];
    let mut done = 0;
    loop {
        let mut most = buffer.len();
        if let Some(limit) = &limit {
            if done == limit.bytes {
                stand(&from, limit).await;
            } else if done < limit.bytes {
                most = most.min((limit.bytes - done) as usize);
            }
        }
        let Ok(len @ 1..) = from.read(&mut buffer[..most]).await else {
            return;
        };
        let flows = traffic.wait_for(|traffic| *traffic != Traffic::Frozen);
        if flows.await.is_err() || to.write_all(&buffer[..len]).await.is_err() {
            return;
        }
        done += len as u64;
        shared.passed.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// Stands at the bar until it is up.
async fn stand(from: &OwnedReadHalf, limit: &Limit) {
    let mut bar = limit.bar.subscribe();
    let _there_is_more = from.readable().await;
    limit.bar.send_if_modified(|bar| {
        let reaches = *bar == Bar::Down;
        if reaches {
            *bar = Bar::Reached;
        }
        reaches
    });
    let _opened = bar.wait_for(|bar| *bar == Bar::Up).await;
}
