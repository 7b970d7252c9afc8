//! The death of a node: what readers of its objects get, and what readers of the other node's objects feel.
//!
//! One master and two nodes, each a process of its own. Two readers run all the time: one of objects that only node B has,
//! one of objects that node A has, alone or with B. Node A is killed with signal 9 and nobody is told; the time that the
//! master takes to notice is part of what is measured. Every byte that comes back is compared.

mod readers;

use super::{
    Pinning, Program, Progress, failed,
    peer::{Child, Role, Spec},
};
use readers::{Reader, Seen, Watch};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::sleep;
use ziggurat_base::{ByteCount, Code, Error, Key, Result, TenantId, hash::key_hash};
use ziggurat_store::{ConnectOptions, PutOptions, PutOutcome, PutRequest, Store};

use crate::{Payload, payload::Origin};

/// What to measure.
#[derive(Clone, Debug)]
pub struct FailoverOptions {
    /// How long readers run before the death, and as long after it; longer than `member_ttl`.
    pub span: Duration,
    /// How long the master waits for a silent member.
    pub member_ttl: Duration,
    /// Objects of each kind.
    pub objects: u64,
    /// Bytes of an object.
    pub object_bytes: ByteCount,
    /// Payloads derive from it.
    pub seed: u64,
    /// The children.
    pub program: Program,
}

impl FailoverOptions {
    /// Five seconds before and after, with a master that waits for two.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            span: Duration::from_secs(5),
            member_ttl: Duration::from_secs(2),
            objects: 200,
            object_bytes: ByteCount::kib(64),
            seed: 1,
            program,
        }
    }
}

/// What was seen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FailoverReport {
    /// 99th percentile of reads of the living node's objects: after the death over before it.
    pub p99_ratio: f64,
    /// Longest time that a read of an object of the dead node took to answer, whatever the answer, in milliseconds.
    pub dead_answer_ms_max: f64,
    /// Payloads that were not what was put.
    pub wrong_bytes: u64,
    /// Reads of the living node before the death: 99th percentile in microseconds.
    pub p99_before_us: f64,
    /// The same after it.
    pub p99_after_us: f64,
    /// Reads of the living node before the death.
    pub reads_before: u64,
    /// The same after it.
    pub reads_after: u64,
    /// Reads of the dead node's objects after its death that another replica answered.
    pub failed_over: u64,
    /// Reads of objects with another replica that did not get it.
    pub not_failed_over: u64,
    /// Answers for objects that only the dead node had: how many of each code, `MISS` for a miss.
    pub dead_answers: BTreeMap<String, u64>,
    /// Reads of the living node that failed.
    pub errors: u64,
}

const NODE_A: &str = "a";
const NODE_B: &str = "b";

/// One object and what it must be.
#[derive(Clone, Debug)]
struct Object {
    key: String,
    payload: Payload,
    /// Whether both nodes have it.
    twofold: bool,
}

impl Object {
    fn new(options: &FailoverOptions, kind: &str, number: u64, twofold: bool) -> Result<Self> {
        let key = format!("{kind}/{number}");
        let origin = Origin {
            seed: options.seed,
            key_hash: key_hash(TenantId(0), Key::new(key.as_bytes())?),
            version: 1,
        };
        Ok(Self {
            key,
            payload: origin.into(),
            twofold,
        })
    }
}

/// Measures.
///
/// # Errors
/// `InvalidParams` when the spans do not fit; whatever keeps processes from starting or objects from being put. What reads
/// find is in the report.
pub fn failover(options: &FailoverOptions, progress: Progress<'_>) -> Result<FailoverReport> {
    if options.span <= options.member_ttl || options.objects == 0 {
        let what = format!(
            "{} objects read for {:?}: give at least 1, and longer than {:?}, after which a silent node counts as dead",
            options.objects, options.span, options.member_ttl
        );
        return Err(Error::new(Code::InvalidParams, what));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| failed("start a runtime", e))?;
    runtime.block_on(measure(options, progress))
}

/// The processes; killed when dropped.
struct Cluster {
    node_a: Child,
    _node_b: Child,
    master: Child,
}

impl Cluster {
    fn start(options: &FailoverOptions) -> Result<Self> {
        let start = |role| {
            let pinning = Pinning::Free;
            Child::start(&options.program, &Spec { role, pinning })
        };
        let master = start(Role::Master {
            member_ttl_ms: options.member_ttl.as_millis() as u64,
            listen: None,
            state_dir: None,
        })?;
        let node = |name: &str| {
            start(Role::Node {
                master: master.addresses.master.clone(),
                name: name.into(),
                // Two kinds of objects on each node, far below the watermark.
                dram: (options.objects * options.object_bytes.0 * 4).max(64 << 20),
                listen: None,
                ssd: None,
            })
        };
        Ok(Self {
            node_a: node(NODE_A)?,
            _node_b: node(NODE_B)?,
            master,
        })
    }
}

async fn measure(options: &FailoverOptions, progress: Progress<'_>) -> Result<FailoverReport> {
    progress("starting a master and two nodes");
    let mut cluster = Cluster::start(options)?;
    let connect = ConnectOptions::new(cluster.master.addresses.master.clone());
    let store = Store::connect(connect).await?;
    let kind = |name: &str, twofold| -> Result<Vec<Object>> {
        let numbers = 0..options.objects;
        numbers
            .map(|number| Object::new(options, name, number, twofold))
            .collect()
    };
    let (on_a, on_b, on_both) = (kind("a", false)?, kind("b", false)?, kind("both", true)?);
    let replicas = |count, first| PutOptions::replicas(count).preferring([first]);
    put(&store, options, &on_a, 1, &replicas(1, NODE_A)).await?;
    put(&store, options, &on_b, 1, &replicas(1, NODE_B)).await?;
    put(&store, options, &on_both, 2, &replicas(2, NODE_A)).await?;

    let of_a = on_a
        .into_iter()
        .zip(on_both)
        .flat_map(|(one, two)| [one, two])
        .collect();
    let watch = Arc::new(Watch::default());
    let reader = |objects| Reader {
        store: store.clone(),
        objects,
        len: options.object_bytes.0 as usize,
        watch: watch.clone(),
    };
    let readers = [
        tokio::spawn(reader(of_a).run()),
        tokio::spawn(reader(on_b).run()),
    ];
    progress("reading from both nodes");
    sleep(options.span).await;
    progress("killing one of them");
    watch.death_begins();
    cluster.node_a.kill()?;
    sleep(options.span).await;
    watch.end();
    let [of_a, of_b] = readers;
    let joined = |e| failed("wait for a reader", e);
    Ok(report(
        of_a.await.map_err(joined)?,
        of_b.await.map_err(joined)?,
    ))
}

async fn put(
    store: &Store,
    options: &FailoverOptions,
    objects: &[Object],
    replicas: u32,
    how: &PutOptions,
) -> Result<()> {
    let mut bytes = vec![0; options.object_bytes.0 as usize];
    for object in objects {
        object.payload.fill(&mut bytes);
        let parts = [&bytes[..]];
        let request = PutRequest::new(object.key.as_bytes(), &parts);
        for outcome in store.put_many(&[request], how).await {
            if outcome? != (PutOutcome::Stored { replicas }) {
                let what = format!("{} has not got {replicas} replicas", object.key);
                return Err(Error::new(Code::NoAvailableHandle, what));
            }
        }
    }
    Ok(())
}

fn report(of_a: Seen, of_b: Seen) -> FailoverReport {
    let Seen {
        mut before,
        mut after,
        ..
    } = of_b;
    let (p99_before_us, p99_after_us) = (before.share_us(0.99), after.share_us(0.99));
    let errors = of_b
        .single
        .iter()
        .filter(|(code, _)| **code != readers::FOUND);
    let mut single = of_a.single;
    single.remove(readers::FOUND);
    let dead_answers = single
        .into_iter()
        .map(|(code, count)| (code.to_owned(), count))
        .collect();
    let mut dead = of_a.after;
    FailoverReport {
        p99_ratio: if p99_before_us > 0.0 {
            p99_after_us / p99_before_us
        } else {
            0.0
        },
        dead_answer_ms_max: dead.share_us(1.0) / 1e3,
        wrong_bytes: of_a.wrong + of_b.wrong,
        p99_before_us,
        p99_after_us,
        reads_before: before.count(),
        reads_after: after.count(),
        failed_over: of_a.failed_over,
        not_failed_over: of_a.not_failed_over,
        dead_answers,
        errors: errors.map(|(_, count)| count).sum(),
    }
}
