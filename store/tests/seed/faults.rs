//! Nodes that are silent, refuse, die, or are forgotten; writers that are too late.

use crate::{
    INVALID_WRITE, OBJECT_NOT_FOUND, REPLICA_IS_GONE, RPC_TIMEOUT,
    bytes::Wire,
    client::{on, replicas, write},
    cluster::{Cluster, comes, payload},
    proxy::Proxy,
};
use std::time::{Duration, Instant};
use ziggurat_base::{ByteCount, Code, Era, Error, MemberId};
use ziggurat_engine::{
    command::{Keep, MemberOffer, SegmentOffer},
    port::MemberApi as _,
};
use ziggurat_proto::{
    Session, SessionOptions,
    hello::{Hello, PeerKind},
    order::{NodeCommand, OrderApi as _, Outcome, Report},
};

/// A member that gives space and does only what the test says.
struct Puppet {
    session: Session,
    member: MemberId,
}

impl Puppet {
    /// Gives a segment of 8 MiB under this name.
    async fn join(cluster: &Cluster, name: &str) -> Self {
        let address = cluster.master.address().to_string();
        let hello = Hello::new(PeerKind::Node);
        let session = Session::connect(&address, &hello, SessionOptions::default()).await;
        let session = session.unwrap();
        let offer = MemberOffer {
            address: "127.0.0.1:1".into(),
            in_process: false,
            feed: false,
            promotes: false,
        };
        let member = session.join(&offer).await.unwrap().member;
        let offer = SegmentOffer {
            name: name.into(),
            capacity: ByteCount::mib(8),
            highest_era: Era(0),
            keep: Keep::Delegated,
            stock: Default::default(),
        };
        session.mount(member, &offer).await.unwrap();
        Self { session, member }
    }

    /// Answers its orders by `answer`, for ever.
    async fn answer(&self, mut answer: impl FnMut(&NodeCommand) -> Result<Outcome, Code>) {
        loop {
            for order in self.session.orders(self.member).await.unwrap() {
                let outcome = answer(&order.command).map_err(|code| Error::new(code, "as told"));
                let report = Report {
                    member: self.member,
                    serial: order.serial,
                    outcome,
                };
                self.session.report(&report).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_put_waits_for_a_silent_node_and_not_for_ever() {
    let cluster = Cluster::start(1).await;
    let _silent = Puppet::join(&cluster, "silent").await;
    let mut client = cluster.client().await;
    let began = Instant::now();
    let started = client.put_start("k", &[4], on("silent")).await;
    assert_eq!(started, Err(RPC_TIMEOUT));
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "it was waited for"
    );
    assert_eq!(cluster.writes_open(), 0, "nothing is reserved");
    assert_eq!(client.put("k", &[b"here"], replicas(2)).await, 1);
    assert_eq!(client.read("k").await.unwrap(), [b"here"]);
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    let orders = cluster.master.partition().order_counts();
    assert_eq!((orders.unanswered, orders.under_way), (2, 0));
}

#[tokio::test]
async fn what_a_node_refuses_is_the_answer() {
    let cluster = Cluster::start(0).await;
    let puppet = Puppet::join(&cluster, "p").await;
    let mut client = cluster.client().await;
    let refuse = puppet.answer(|_| Err(Code::NoAvailableHandle));
    let refused = async {
        assert_eq!(client.put_start("k", &[4], replicas(1)).await, Err(-200));
        assert_eq!(client.mount("mine", 1 << 20).await, -200);
        assert_eq!(cluster.writes_open(), 0);
    };
    tokio::select! { () = refuse => {} () = refused => {} }
    let prove_not = puppet.answer(|command| match command {
        NodeCommand::Prove(_) => Err(Code::ReplicaIsGone),
        _ => Ok(Outcome::Done),
    });
    let unproved = async {
        client.put_start("k", &[4], replicas(1)).await.unwrap();
        assert_eq!(client.put_end("k").await, REPLICA_IS_GONE);
        assert_eq!(cluster.writes_open(), 0);
        assert_eq!(client.put_end("k").await, INVALID_WRITE, "it is over");
        assert_eq!(client.get("k").await, Err(OBJECT_NOT_FOUND));
    };
    tokio::select! { () = prove_not => {} () = unproved => {} }
}

#[tokio::test]
async fn an_end_waits_for_a_silent_owner_and_not_for_ever() {
    let cluster = Cluster::start(0).await;
    let puppet = Puppet::join(&cluster, "p").await;
    let mut client = cluster.client().await;
    let announced = puppet.answer(|_| Ok(Outcome::Done));
    let started = client.put_start("k", &[4], replicas(1));
    tokio::select! {
        () = announced => {}
        started = started => assert_eq!(started.unwrap().len(), 1),
    }
    assert_eq!(client.put_end("k").await, RPC_TIMEOUT);
    assert_eq!(cluster.writes_open(), 0);
    assert_eq!(client.get("k").await, Err(OBJECT_NOT_FOUND));
}

#[tokio::test]
async fn a_stale_token_is_refused_after_pre_emption() {
    let cluster = Cluster::start(1).await;
    let (mut slow, mut fast) = (cluster.client().await, cluster.client().await);
    let value = payload(200_000, 3);
    let started = slow.put_start("k", &[200_000], replicas(1)).await.unwrap();
    let stale = started[0].handles[0].clone();
    let mut wire = Wire::connect(&stale.endpoint).await;
    let half = &value[..100_000];
    assert_eq!(wire.write(stale.buffer, 0, half).await, 0);
    cluster.pass_span(Duration::from_secs(31));
    let started = fast.put_start("k", &[200_000], replicas(1)).await.unwrap();
    let fresh = &started[0].handles[0];
    let until = Instant::now() + Duration::from_secs(20);
    // The fence is on its way; until it arrives the writer spoils nothing but its own space.
    while wire.write(stale.buffer, 0, half).await != INVALID_WRITE {
        assert!(Instant::now() < until, "the token is void");
    }
    write(&started[0].handles, &[&value]).await;
    assert_eq!(wire.write(stale.buffer, 5, b"stale").await, INVALID_WRITE);
    assert_eq!(slow.put_end("k").await, INVALID_WRITE);
    assert_eq!(fast.put_end("k").await, 0);
    assert_eq!(fast.read("k").await.unwrap(), [&value[..]]);
    assert_ne!(fresh.buffer, stale.buffer);
}

#[tokio::test]
async fn a_dead_node_costs_its_replicas_and_bounded_time() {
    let mut cluster = Cluster::start(2).await;
    let mut client = cluster.client().await;
    assert_eq!(client.put("before", &[b"both"], replicas(2)).await, 2);
    let started = client.put_start("k", &[4], replicas(2)).await.unwrap();
    for replica in &started {
        write(&replica.handles, &[b"good"]).await;
    }
    drop(cluster.nodes.pop());
    let began = Instant::now();
    assert_eq!(client.put_end("k").await, 0, "the other replica is good");
    assert_eq!(client.read("k").await.unwrap(), [b"good"]);
    assert_eq!(client.read("before").await.unwrap(), [b"both"]);
    let started = client.put_start("alone", &[4], on("n1")).await;
    assert_eq!(started, Err(RPC_TIMEOUT));
    drop(cluster.nodes.pop());
    assert_eq!(client.get("k").await, Err(RPC_TIMEOUT));
    assert_eq!(client.mount("mine", 1 << 20).await, RPC_TIMEOUT);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(cluster.writes_open(), 0);
}

#[tokio::test]
async fn what_lay_on_a_lost_member_is_lost_and_nothing_waits_for_it() {
    let mut cluster = Cluster::start_with(2, Duration::from_secs(3)).await;
    let mut client = cluster.client().await;
    assert_eq!(client.put("there", &[b"lost"], on("n1")).await, 1);
    assert_eq!(client.put("both", &[b"kept"], replicas(2)).await, 2);
    client.put_start("open", &[4], on("n1")).await.unwrap();
    drop(cluster.nodes.pop());
    comes("the member is lost", || cluster.stats().segments == 1).await;
    let began = Instant::now();
    assert_eq!(client.get("there").await, Err(OBJECT_NOT_FOUND));
    assert_eq!(client.read("both").await.unwrap(), [b"kept"]);
    assert_eq!(client.put_end("open").await, REPLICA_IS_GONE);
    assert_eq!(client.put("there", &[b"anew"], replicas(2)).await, 1);
    assert_eq!(client.unmount("n1").await, -101);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "nobody was waited for"
    );
}

#[tokio::test]
async fn a_forgotten_node_comes_back_with_what_it_hosts_empty() {
    let cluster = Cluster::start_with(1, Duration::from_secs(3)).await;
    let mut client = cluster.client().await;
    assert_eq!(client.mount("mine", 4 << 20).await, 0);
    assert_eq!(client.put("k", &[b"lost"], on("mine")).await, 1);
    let read = client.get("k").await.unwrap()[0].handles[0].clone();
    let before = cluster.nodes[0].member();
    cluster.master.partition().leave(before).await.unwrap();
    comes("it joins anew", || {
        cluster.nodes[0].member() != before && cluster.stats().segments == 2
    })
    .await;
    let mut wire = Wire::connect(&read.endpoint).await;
    assert!(
        wire.read(read.buffer, 0, 4).await.is_err(),
        "its token is void"
    );
    assert_eq!(client.get("k").await, Err(OBJECT_NOT_FOUND));
    assert_eq!(client.mount("mine", 4 << 20).await, 0, "it is there");
    assert_eq!(client.put("k", &[b"anew"], on("mine")).await, 1);
    assert_eq!(client.read("k").await.unwrap(), [b"anew"]);
    assert_eq!(client.unmount("mine").await, 0);
    assert_eq!(cluster.stats().segments, 1);
}

#[tokio::test]
async fn a_line_that_is_cut_leaves_hosted_segments_where_they_are() {
    let mut cluster = Cluster::start(0).await;
    let proxy = Proxy::before(cluster.master.address()).await;
    cluster.add_node("n0", proxy.address).await;
    let mut client = cluster.client().await;
    assert_eq!(client.mount("mine", 4 << 20).await, 0);
    assert_eq!(client.put("k", &[b"kept"], on("mine")).await, 1);
    proxy.cut();
    assert_eq!(client.put("again", &[b"anew"], on("mine")).await, 1);
    assert_eq!(client.read("k").await.unwrap(), [b"kept"]);
    assert_eq!(client.mount("mine", 4 << 20).await, 0);
    assert_eq!(cluster.stats().segments, 2);
    assert_eq!(client.unmount("mine").await, 0);
}

#[tokio::test]
async fn a_mount_whose_answer_is_lost_is_found_again() {
    let mut cluster = Cluster::start(0).await;
    let proxy = Proxy::before(cluster.master.address()).await;
    cluster.add_node("n0", proxy.address).await;
    let mut client = cluster.client().await;
    // An order that the node has carried out: what it says next is that it mounts.
    assert_eq!(client.put("before", &[b"x"], replicas(1)).await, 1);
    proxy.keep_next_answer();
    let cut = async {
        comes("the master has mounted it", || {
            cluster.stats().segments == 2
        })
        .await;
        proxy.cut();
    };
    let (mounted, ()) = tokio::join!(client.mount("mine", 4 << 20), cut);
    assert_eq!(mounted, 0);
    assert_eq!(cluster.stats().segments, 2);
    assert_eq!(client.put("k", &[b"kept"], on("mine")).await, 1);
    assert_eq!(client.read("k").await.unwrap(), [b"kept"]);
    assert_eq!(client.unmount("mine").await, 0);
    assert_eq!(cluster.stats().segments, 1);
}
