//! The port of a node's keeper to the master: each call becomes a message, and its answer another.

use super::super::{
    call::call,
    world::{Process, Sim, World},
};
use std::time::Duration;
use ziggurat_base::{Code, Error, Job, MemberId, SegmentId, TenantId, Ticket};
use ziggurat_engine::{
    command::{Answer, Effect, MemberOffer, SegmentOffer, SegmentStat, Stats},
    ledger::{LedgerBatch, LedgerReply},
    port::{Joined, MemberApi},
};

/// See the module.
pub(super) struct MasterPort {
    pub(super) sim: Sim,
    pub(super) me: Process,
}

impl MasterPort {
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut World) -> Answer<T> + Send + 'static,
    ) -> Job<'_, Answer<T>> {
        Box::pin(call(&self.sim, self.me, work))
    }
}

/// What a node does by its own loop, not by its keeper.
fn not_here<'a, T: Send + 'a>() -> Job<'a, Answer<T>> {
    let what = "a keeper does not ask for this";
    let error = Error::new(Code::UnavailableInCurrentMode, what);
    Box::pin(std::future::ready(Err(error)))
}

impl MemberApi for MasterPort {
    fn join<'a>(&'a self, _: &'a MemberOffer) -> Job<'a, Answer<Joined>> {
        not_here()
    }

    fn ping(&self, member: MemberId) -> Job<'_, Answer<()>> {
        self.ask(move |world| world.serve(member, |_, _| ()))
    }

    fn leave(&self, _: MemberId) -> Job<'_, Answer<()>> {
        not_here()
    }

    fn tenant<'a>(&'a self, _: &'a str) -> Job<'a, Answer<TenantId>> {
        not_here()
    }

    fn mount<'a>(
        &'a self,
        member: MemberId,
        offer: &'a SegmentOffer,
    ) -> Job<'a, Answer<SegmentId>> {
        let offer = offer.clone();
        self.ask(move |world| world.mount(member, &offer))
    }

    fn unmount(&self, _: MemberId, _: SegmentId, _: Duration) -> Job<'_, Answer<()>> {
        not_here()
    }

    fn fenced(&self, _: MemberId, _: Ticket, _: SegmentId) -> Job<'_, Answer<()>> {
        not_here()
    }

    fn ledger<'a>(
        &'a self,
        member: MemberId,
        segment: SegmentId,
        batch: &'a LedgerBatch,
    ) -> Job<'a, Answer<LedgerReply>> {
        let batch = batch.clone();
        self.ask(move |world| world.ledger(member, segment, &batch))
    }

    fn segments(&self) -> Job<'_, Answer<Vec<SegmentStat>>> {
        not_here()
    }

    fn effects(&self, _: MemberId) -> Job<'_, Answer<Vec<Effect>>> {
        not_here()
    }

    fn stats(&self) -> Job<'_, Answer<Stats>> {
        not_here()
    }
}
