//! A host that has to fetch bytes before it can send them.

use crate::rig::{Rig, payload, target};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use ziggurat_base::{
    CHUNK, Code, Error, Job, Ticket,
    frame::{Span, TokenSpan},
};
use ziggurat_engine::{
    command::Answer,
    port::{Access, Host, ReadOp, ReadSlot, WriteOp, WriteSlot},
};
use ziggurat_tiers::dram::DramTier;
use ziggurat_transport::server::Limits;

/// Memory behind a pause; version 9 cannot be fetched.
#[derive(Debug)]
struct Slow(Arc<DramTier>);

impl Host for Slow {
    fn open_write(&self, access: Access, span: &Span) -> Answer<Box<dyn WriteSlot>> {
        self.0.open_write(access, span)
    }

    fn open_read(&self, _: Access, _: &Span) -> Answer<Box<dyn ReadSlot>> {
        panic!("what is fetched is not opened")
    }

    fn fetch<'a>(
        &'a self,
        access: Access,
        span: &'a Span,
    ) -> Option<Job<'a, Answer<Box<dyn ReadSlot>>>> {
        Some(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            if access.ticket == Ticket(9) {
                return Err(Error::new(Code::ReplicaIsGone, "the device has lost it"));
            }
            self.0.open_read(access, span)
        }))
    }

    fn open_token_write(&self, span: &TokenSpan) -> Answer<Box<dyn WriteSlot>> {
        self.0.open_token_write(span)
    }

    fn open_token_read(&self, span: &TokenSpan) -> Answer<Box<dyn ReadSlot>> {
        self.0.open_token_read(span)
    }
}

#[tokio::test]
async fn what_is_fetched_is_sent_and_a_failure_is_told_in_its_place() {
    let rig = Rig::serving(Limits::default(), |tier| Arc::new(Slow(tier)));
    let peer = rig.peer();
    let len = 3 * CHUNK as u64 + 5;
    let targets: Vec<_> = (0..3).map(|i| target(i * (1 << 20), len, false)).collect();
    for (ticket, place) in (8..).zip(&targets) {
        let bytes = payload(len, ticket);
        let op = WriteOp {
            name: None,
            ticket: Ticket(ticket),
            target: place,
            parts: &[&bytes],
            len,
        };
        peer.write(&[op]).await[0].clone().unwrap();
    }
    let mut buffers = vec![vec![0; len as usize]; 3];
    let mut ops: Vec<_> = (8..)
        .zip(&targets)
        .zip(&mut buffers)
        .map(|((ticket, source), into)| ReadOp {
            name: None,
            ticket: Ticket(ticket),
            source,
            object_len: len,
            offset: 0,
            into,
            want_table: true,
        })
        .collect();
    let answers = peer.read(&mut ops).await;
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(answers[1].clone().unwrap_err().code(), Code::ReplicaIsGone);
    assert_eq!(buffers[0], payload(len, 8));
    assert_eq!(buffers[2], payload(len, 10));
}

/// Memory whose fetches wait for each other: none ends before `depth` are under way, and the last that began ends first.
#[derive(Debug)]
struct Deep {
    tier: Arc<DramTier>,
    depth: usize,
    begun: watch::Sender<usize>,
    ended: watch::Sender<usize>,
}

impl Host for Deep {
    fn open_write(&self, access: Access, span: &Span) -> Answer<Box<dyn WriteSlot>> {
        self.tier.open_write(access, span)
    }

    fn open_read(&self, _: Access, _: &Span) -> Answer<Box<dyn ReadSlot>> {
        panic!("what is fetched is not opened")
    }

    fn fetch<'a>(
        &'a self,
        access: Access,
        span: &'a Span,
    ) -> Option<Job<'a, Answer<Box<dyn ReadSlot>>>> {
        Some(Box::pin(async move {
            let mut place = 0;
            self.begun.send_modify(|begun| {
                *begun += 1;
                place = *begun;
            });
            let gone = "the sender is here";
            let all = self.depth;
            let mut begun = self.begun.subscribe();
            begun.wait_for(|begun| *begun >= all).await.expect(gone);
            let mut ended = self.ended.subscribe();
            ended
                .wait_for(|ended| *ended == all - place)
                .await
                .expect(gone);
            self.ended.send_modify(|ended| *ended += 1);
            self.tier.open_read(access, span)
        }))
    }

    fn open_token_write(&self, span: &TokenSpan) -> Answer<Box<dyn WriteSlot>> {
        self.tier.open_token_write(span)
    }

    fn open_token_read(&self, span: &TokenSpan) -> Answer<Box<dyn ReadSlot>> {
        self.tier.open_token_read(span)
    }
}

#[tokio::test]
async fn a_batch_is_fetched_at_once_and_answered_in_order() {
    const DEPTH: u64 = 32;
    let rig = Rig::serving(Limits::default(), |tier| {
        Arc::new(Deep {
            tier,
            depth: DEPTH as usize,
            begun: watch::Sender::new(0),
            ended: watch::Sender::new(0),
        })
    });
    let peer = rig.peer();
    let len = CHUNK as u64;
    let targets: Vec<_> = (0..DEPTH).map(|i| target(i * len, len, false)).collect();
    for (ticket, place) in (1..).zip(&targets) {
        let bytes = payload(len, ticket);
        let op = WriteOp {
            name: None,
            ticket: Ticket(ticket),
            target: place,
            parts: &[&bytes],
            len,
        };
        peer.write(&[op]).await[0].clone().unwrap();
    }
    let mut buffers = vec![vec![0; len as usize]; DEPTH as usize];
    let mut ops: Vec<_> = (1..)
        .zip(&targets)
        .zip(&mut buffers)
        .map(|((ticket, source), into)| ReadOp {
            name: None,
            ticket: Ticket(ticket),
            source,
            object_len: len,
            offset: 0,
            into,
            want_table: false,
        })
        .collect();
    let reading = tokio::time::timeout(Duration::from_secs(30), peer.read(&mut ops));
    let answers = reading
        .await
        .expect("all of them are under way at once, or none would end");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for (ticket, buffer) in (1..).zip(&buffers) {
        assert_eq!(*buffer, payload(len, ticket));
    }
}
