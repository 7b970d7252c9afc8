//! The member calls of a session: joining, giving space, and taking in what the server pushes.

use super::{Session, wrong_answer};
use crate::{
    convert::{keys, ledger, member as convert, nanos, order, put},
    order::{Order, OrderApi, Report},
    wire::{self, answer::Outcome, request::Call},
};
use std::time::Duration;
use ziggurat_base::{Job, MemberId, SegmentId, TenantId, Ticket};
use ziggurat_engine::{
    command::{Answer, Effect, MemberOffer, SegmentOffer, SegmentStat, Stats},
    ledger::{LedgerBatch, LedgerReply},
    port::{Joined, MemberApi},
};

impl Session {
    /// A call whose answer has no value.
    async fn order_done(&self, call: Call) -> Answer<()> {
        match self.call(call).await? {
            Outcome::Done(message) => put::done(message, 0).map(|_| ()),
            _ => Err(wrong_answer()),
        }
    }

    /// Waits until `take` finds something that was pushed for the member; subscribes when that has not happened yet.
    async fn pushed<T>(
        &self,
        member: MemberId,
        take: impl Fn() -> Answer<Option<Vec<T>>> + Send,
    ) -> Answer<Vec<T>> {
        let (bell, is_asked) = self.link.watches.bell(member);
        if !is_asked {
            self.order_done(Call::Watch(member.0)).await?;
            self.link.watches.asked(member);
        }
        loop {
            let rung = bell.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            if let Some(waiting) = take()? {
                return Ok(waiting);
            }
            rung.await;
        }
    }
}

impl MemberApi for Session {
    fn join<'a>(&'a self, offer: &'a MemberOffer) -> Job<'a, Answer<Joined>> {
        Box::pin(async move {
            match self.call(Call::Join(convert::pack_offer(offer))).await? {
                Outcome::Join(message) => Ok(convert::joined(message)),
                _ => Err(wrong_answer()),
            }
        })
    }

    fn ping(&self, member: MemberId) -> Job<'_, Answer<()>> {
        Box::pin(self.order_done(Call::Ping(member.0)))
    }

    fn leave(&self, member: MemberId) -> Job<'_, Answer<()>> {
        Box::pin(self.order_done(Call::Leave(member.0)))
    }

    fn tenant<'a>(&'a self, name: &'a str) -> Job<'a, Answer<TenantId>> {
        Box::pin(async move {
            match self.call(Call::Tenant(name.to_owned())).await? {
                Outcome::Tenant(number) => keys::tenant(number),
                _ => Err(wrong_answer()),
            }
        })
    }

    fn mount<'a>(
        &'a self,
        member: MemberId,
        offer: &'a SegmentOffer,
    ) -> Job<'a, Answer<SegmentId>> {
        Box::pin(async move {
            match self
                .call(Call::Mount(convert::pack_mount(member, offer)))
                .await?
            {
                Outcome::Mount(segment) => Ok(SegmentId(segment)),
                _ => Err(wrong_answer()),
            }
        })
    }

    fn unmount(
        &self,
        member: MemberId,
        segment: SegmentId,
        grace: Duration,
    ) -> Job<'_, Answer<()>> {
        Box::pin(self.order_done(Call::Unmount(wire::Unmount {
            member: member.0,
            segment: segment.0,
            grace: nanos(grace),
        })))
    }

    fn fenced(&self, member: MemberId, ticket: Ticket, segment: SegmentId) -> Job<'_, Answer<()>> {
        Box::pin(self.order_done(Call::Fenced(wire::Fenced {
            member: member.0,
            ticket: ticket.0,
            segment: segment.0,
        })))
    }

    fn ledger<'a>(
        &'a self,
        member: MemberId,
        segment: SegmentId,
        batch: &'a LedgerBatch,
    ) -> Job<'a, Answer<LedgerReply>> {
        Box::pin(async move {
            let message = ledger::pack(member, segment, batch);
            let count = message.items.len();
            match self.call(Call::Ledger(message)).await? {
                Outcome::Ledger(message) => ledger::reply(message, count),
                _ => Err(wrong_answer()),
            }
        })
    }

    fn segments(&self) -> Job<'_, Answer<Vec<SegmentStat>>> {
        Box::pin(async move {
            match self.call(Call::Segments(wire::Empty {})).await? {
                Outcome::Segments(message) => convert::segments(message),
                _ => Err(wrong_answer()),
            }
        })
    }

    /// Also fails, with `RpcFail`, when the connection is lost: the member may live on and subscribe on another one.
    fn effects(&self, member: MemberId) -> Job<'_, Answer<Vec<Effect>>> {
        Box::pin(self.pushed(member, move || self.link.watches.effects(member)))
    }

    fn stats(&self) -> Job<'_, Answer<Stats>> {
        Box::pin(async move {
            match self.call(Call::Stats(wire::Empty {})).await? {
                Outcome::Stats(message) => Ok(convert::stats(&message)),
                _ => Err(wrong_answer()),
            }
        })
    }
}

impl OrderApi for Session {
    /// Also fails, with `RpcFail`, when the connection is lost.
    fn orders(&self, member: MemberId) -> Job<'_, Answer<Vec<Order>>> {
        Box::pin(self.pushed(member, move || self.link.watches.orders(member)))
    }

    fn report<'a>(&'a self, report: &'a Report) -> Job<'a, Answer<()>> {
        Box::pin(self.order_done(Call::Report(order::pack_report(report))))
    }
}
