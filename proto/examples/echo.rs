//! One round trip of the control protocol beside its floor: a bare framed echo over the same runtime, in the same run.
//!
//! `cargo run --release -p ziggurat-proto --example echo [seconds per row]`; pin with `taskset -c 0` for one core.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use ziggurat_base::{Crc32, Key, TenantId, frame::HEADER_LEN};
use ziggurat_engine::{
    command::{Keys, PutAnswer, PutEnd, PutItem, Recency, Wish, Written},
    port::MetadataApi,
};
use ziggurat_proto::{
    Service, Session, SessionOptions,
    hello::{Hello, PeerKind},
    testkit::FakePartition,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Keys of the partition.
const KEYS: usize = 100_000;

/// What a row found.
struct Row {
    name: &'static str,
    batch: usize,
    nanos: Vec<u64>,
    took: Duration,
}

impl Row {
    fn print(&mut self, floor: Option<u64>) -> u64 {
        self.nanos.sort_unstable();
        let at = |share: f64| self.nanos[((self.nanos.len() - 1) as f64 * share) as usize];
        let p50 = at(0.5);
        let keys = (self.nanos.len() * self.batch) as f64 / self.took.as_secs_f64();
        let ratio = floor.map_or(String::new(), |f| {
            format!("{:6.2} x", p50 as f64 / f as f64)
        });
        println!(
            "{:24} {:6} keys  p50 {:8.1} us  p99 {:8.1} us  {:10.0} keys/s {ratio}",
            self.name,
            self.batch,
            p50 as f64 / 1e3,
            at(0.99) as f64 / 1e3,
            keys
        );
        p50
    }
}

/// Does `call` until the time is over.
async fn row<F: Future<Output = Result<()>>>(
    name: &'static str,
    batch: usize,
    span: Duration,
    mut call: impl FnMut(usize) -> F,
) -> Result<Row> {
    for round in 0..200 {
        call(round).await?;
    }
    let mut nanos = Vec::new();
    let started = Instant::now();
    let mut last = started;
    while last - started < span {
        call(200 + nanos.len()).await?;
        let now = Instant::now();
        nanos.push((now - last).as_nanos() as u64);
        last = now;
    }
    let took = last - started;
    Ok(Row {
        name,
        batch,
        nanos,
        took,
    })
}

/// Sends back whatever comes.
async fn echo(listener: TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count]).await?;
    }
}

/// A header and 48 bytes: what a single `exist` looks like.
async fn floor(span: Duration) -> Result<Row> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> Result<()> {
        let listener = listener.into_std()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async { Ok(echo(TcpListener::from_std(listener)?).await?) })
    });
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = Arc::new(tokio::sync::Mutex::new(stream));
    let found = row("framed echo (floor)", 1, span, |_| {
        let stream = stream.clone();
        async move {
            let mut stream = stream.lock().await;
            let mut frame = [7; HEADER_LEN + 48];
            stream.write_all(&frame).await?;
            stream.read_exact(&mut frame).await?;
            Ok(())
        }
    })
    .await?;
    drop(stream);
    server.join().map_err(|_| "the echo server panicked")??;
    Ok(found)
}

async fn exist(session: &Session, keys: &[Key<'_>]) -> Result<()> {
    let tenant = TenantId(0);
    let found = session.exist(Keys { tenant, keys }).await?;
    if found.len() == keys.len() && found.iter().all(|found| *found == Ok(true)) {
        Ok(())
    } else {
        Err("a key is missing".into())
    }
}

async fn locate(session: &Session, keys: &[Key<'_>]) -> Result<()> {
    let tenant = TenantId(0);
    let found = session
        .locate(Keys { tenant, keys }, Recency::Touch)
        .await?;
    let found = found.into_iter().filter_map(|found| found.ok().flatten());
    let holds: Vec<_> = found.map(|grant| grant.hold).collect();
    session.give_back(&holds);
    Ok(())
}

async fn put(session: &Session, names: &[String]) -> Result<()> {
    let items = names
        .iter()
        .map(|name| Ok(PutItem::new(Key::new(name.as_bytes())?, 1)));
    let items: Vec<_> = items.collect::<Result<_>>()?;
    let wish = Wish::default();
    let grants = session.put_start(TenantId(0), &items, &wish).await?;
    let ends = grants.into_iter().filter_map(|answer| match answer {
        Ok(PutAnswer::Granted(grant)) => Some(PutEnd {
            ticket: grant.ticket,
            crc: Crc32(0),
            written: Written::All,
        }),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    session.put_end(&ends).await?;
    Ok(())
}

fn main() -> Result<()> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(1.0), |text| text.parse::<f64>())?;
    let span = Duration::from_secs_f64(seconds);
    let partition = Arc::new(FakePartition::default());
    let names: Vec<_> = (0..KEYS).map(|i| format!("{i:032}")).collect();
    let keys = names.iter().map(|name| Key::new(name.as_bytes()));
    let keys: Vec<_> = keys.collect::<std::result::Result<_, _>>()?;
    partition.fill(keys.iter().copied());

    let service = Service::new(partition);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            service
                .serve(TcpListener::from_std(listener)?, std::future::pending())
                .await;
            Ok(())
        })
    });

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let floor = floor(span).await?.print(None);
        let hello = Hello::new(PeerKind::Tool);
        let session = Session::connect(&address, &hello, SessionOptions::default()).await?;
        for batch in [1, 128] {
            let part = |round: usize| {
                let start = round * batch % (KEYS - batch);
                start..start + batch
            };
            let call = |round| exist(&session, &keys[part(round)]);
            row("exist", batch, span, call).await?.print(Some(floor));
            let call = |round| locate(&session, &keys[part(round)]);
            row("locate", batch, span, call).await?.print(Some(floor));
            let fresh = |round: usize| (0..batch).map(move |i| format!("{batch} {round} {i}"));
            let call = |round| {
                let names: Vec<_> = fresh(round).collect();
                let session = &session;
                async move { put(session, &names).await }
            };
            row("put_start + put_end", batch, span, call)
                .await?
                .print(Some(floor));
        }
        Ok(())
    })
}
