//! Small calls over sockets: how long one takes, how many keys go through, and how long bare bytes take.
//!
//! Client here, master and node in another process. One call is under way at a time. The floor of a call is the median of
//! bare exchanges of about as many bytes between the same two processes, one for each round trip that the call makes.

mod calls;

use super::{
    Pinning, Program, Progress, failed,
    limits::{Exchange, Raw},
    peer::{Child, Role, Spec},
    stopwatch::{Spans, per_second},
};
use calls::Calls;
use serde::Serialize;
use std::time::{Duration, Instant};
use ziggurat_base::{ByteCount, Code, Error, Result, frame::HEADER_LEN};
use ziggurat_store::{ConnectOptions, Store};

/// What to measure.
#[derive(Clone, Debug)]
pub struct RpcOptions {
    /// How long each row is measured.
    pub span: Duration,
    /// The child.
    pub program: Program,
    /// Where the processes run.
    pub pinning: Pinning,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct RpcRow {
    /// What was called.
    pub name: &'static str,
    /// Keys in a call.
    pub batch: u64,
    /// Keys per second, one call at a time.
    pub keys_per_s: f64,
    /// Half of the calls took at most this long, in microseconds.
    pub p50_us: f64,
    /// 99 in 100 took at most this long, in microseconds.
    pub p99_us: f64,
    /// Half of the bare exchanges took at most this long, in microseconds.
    pub floor_us: f64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct RpcReport {
    /// A line per call and batch.
    pub rows: Vec<RpcRow>,
    /// Where the processes ran.
    pub pinning: Pinning,
}

/// Memory of the node: room for every value of 1 byte that is put.
const DRAM: ByteCount = ByteCount::gib(1);

/// Bare exchanges that make a floor.
const FLOOR_ROUNDS: usize = 4000;

/// Calls before those that count.
const WARM_UP: u64 = 100;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    ExistHit,
    ExistMiss,
    Locate,
    Put,
    Remove,
}

impl Call {
    const ALL: [Self; 5] = [
        Self::ExistHit,
        Self::ExistMiss,
        Self::Locate,
        Self::Put,
        Self::Remove,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ExistHit => "exist_hit",
            Self::ExistMiss => "exist_miss",
            Self::Locate => "locate",
            Self::Put => "put_1_byte",
            Self::Remove => "remove",
        }
    }

    /// About what a call of `batch` keys of 32 bytes puts on the wire, round trip by round trip.
    fn exchanges(self, batch: usize) -> Vec<Exchange> {
        let keys = HEADER_LEN + 16 + 33 * batch;
        let exchange = |out, back| Exchange { out, back };
        match self {
            Self::ExistHit | Self::ExistMiss => {
                vec![exchange(keys, HEADER_LEN + 8 + batch.div_ceil(8))]
            }
            Self::Remove => vec![exchange(keys, HEADER_LEN + 8)],
            Self::Locate => vec![exchange(keys, HEADER_LEN + 16 + 32 * batch)],
            Self::Put => vec![
                exchange(keys + batch, HEADER_LEN + 16 + 20 * batch),
                exchange((HEADER_LEN + 33) * batch, HEADER_LEN * batch),
                exchange(HEADER_LEN + 8 + 12 * batch, HEADER_LEN + 8 + batch),
            ],
        }
    }
}

/// Measures.
///
/// # Errors
/// `InvalidParams` for an empty span; whatever keeps a server from starting, and the first call that fails or finds what it should not.
pub fn rpc(options: &RpcOptions, progress: Progress<'_>) -> Result<RpcReport> {
    if options.span.is_zero() {
        let what = "a span of 0s measures nothing: give for example 1s";
        return Err(Error::new(Code::InvalidParams, what));
    }
    options.pinning.pin_bench()?;
    let role = Role::AllInOne {
        dram: DRAM.0,
        raw: 1 << 20,
    };
    let spec = Spec {
        role,
        pinning: options.pinning,
    };
    let child = Child::start(&options.program, &spec)?;
    let mut raw = Raw::connect(&child.addresses.raw)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| failed("start a runtime", e))?;
    let connect = ConnectOptions::new(child.addresses.master.clone());
    let store = runtime.block_on(Store::connect(connect))?;
    let mut calls = Calls::new(&store);
    runtime.block_on(calls.load())?;
    let mut rows = Vec::new();
    for batch in [1, 128] {
        for call in Call::ALL {
            progress(&format!("{} x {batch}", call.name()));
            // Half of the floor before and half after, so that both see the machine in the same mood.
            let before = raw.floor_us(&call.exchanges(batch), FLOOR_ROUNDS / 2)?;
            let (mut spans, took) =
                runtime.block_on(time(&mut calls, call, batch, options.span))?;
            let after = raw.floor_us(&call.exchanges(batch), FLOOR_ROUNDS / 2)?;
            rows.push(RpcRow {
                name: call.name(),
                batch: batch as u64,
                keys_per_s: per_second(spans.count() * batch as u64, took),
                p50_us: spans.share_us(0.5),
                p99_us: spans.share_us(0.99),
                floor_us: before.midpoint(after),
            });
        }
    }
    Ok(RpcReport {
        rows,
        pinning: options.pinning,
    })
}

/// Calls until the time is over; a call's preparation counts neither for its own time nor for the sum.
async fn time(
    calls: &mut Calls<'_>,
    call: Call,
    batch: usize,
    span: Duration,
) -> Result<(Spans, Duration)> {
    let (mut spans, mut took) = (Spans::default(), Duration::ZERO);
    let mut warm_up = WARM_UP;
    while took < span {
        calls.prepare(call, batch);
        let began = Instant::now();
        let more = calls.make(call).await?;
        let one = began.elapsed();
        if !more {
            break;
        }
        if warm_up > 0 {
            warm_up -= 1;
            continue;
        }
        spans.add(one);
        took += one;
    }
    Ok((spans, took))
}
