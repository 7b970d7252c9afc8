//! From a call to the partition's method and back to an answer.

use crate::{
    convert::{broken, get, keys, ledger, member, order, put},
    partition::Partition,
    wire::{self, answer::Outcome, request::Call},
};
use std::time::Duration;
use ziggurat_base::{Error, MemberId, SegmentId, Ticket};
use ziggurat_engine::command::{Answer, Force, Keys, Recency};

/// Asks the partition. `writer` is the member that joined last on the connection; a join replaces it.
pub(super) async fn answer(
    partition: &dyn Partition,
    writer: &mut MemberId,
    call: Call,
) -> Answer<Outcome> {
    match call {
        Call::PutStart(message) => put_start(partition, *writer, &message).await,
        Call::Join(message) => {
            let joined = partition.join(&member::offer(message)).await?;
            *writer = joined.member;
            Ok(Outcome::Join(member::pack_joined(joined)))
        }
        Call::PutEnd(message) => {
            let ends = put::ends(&message)?;
            let answers = partition.put_end(&ends).await?;
            Ok(Outcome::PutEnd(put::pack_dones(answers)))
        }
        Call::Revoke(message) => {
            let tickets = keys::tickets(&message)?;
            let answers = partition.revoke(&tickets).await?;
            Ok(Outcome::Done(put::pack_done(answers)))
        }
        Call::Renew(message) => {
            let tickets = keys::tickets(&message)?;
            let answers = partition.renew(&tickets).await?;
            Ok(Outcome::Done(put::pack_done(answers)))
        }
        Call::Locate(message) => locate(partition, &message).await,
        Call::Exist(message) => {
            let list = keys::unpack(&message)?;
            let answers = partition.exist(named(&message, &list)?).await?;
            Ok(Outcome::Exist(get::pack_found(answers)))
        }
        Call::Touch(message) => {
            let list = keys::unpack(&message)?;
            nothing(partition.touch(named(&message, &list)?).await)
        }
        Call::Remove(message) => remove(partition, &message).await,
        Call::Prefetch(message) => prefetch(partition, &message).await,
        Call::Scan(message) => scan(partition, &message).await,
        Call::Stat(message) => {
            let list = keys::unpack(&message)?;
            let answers = partition.stat(named(&message, &list)?).await?;
            Ok(Outcome::Stat(get::pack_stats(answers)))
        }
        of_member => answer_member(partition, of_member).await,
    }
}

async fn answer_member(partition: &dyn Partition, call: Call) -> Answer<Outcome> {
    match call {
        Call::Ping(member) => nothing(partition.ping(MemberId(member)).await),
        Call::Leave(member) => nothing(partition.leave(MemberId(member)).await),
        Call::Tenant(name) => {
            let tenant = partition.tenant(&name).await?;
            Ok(Outcome::Tenant(tenant.0.into()))
        }
        Call::Mount(message) => {
            let (member, offer) = member::mount(message)?;
            Ok(Outcome::Mount(partition.mount(member, &offer).await?.0))
        }
        Call::Unmount(message) => {
            let (member, segment) = (MemberId(message.member), SegmentId(message.segment));
            let grace = Duration::from_nanos(message.grace);
            nothing(partition.unmount(member, segment, grace).await)
        }
        Call::Fenced(message) => {
            let (member, segment) = (MemberId(message.member), SegmentId(message.segment));
            nothing(
                partition
                    .fenced(member, Ticket(message.ticket), segment)
                    .await,
            )
        }
        Call::Ledger(message) => {
            let (member, segment, batch) = ledger::unpack(message)?;
            let reply = partition.ledger(member, segment, &batch).await?;
            Ok(Outcome::Ledger(ledger::pack_reply(&reply)))
        }
        Call::Segments(_) => {
            let segments = partition.segments().await?;
            Ok(Outcome::Segments(member::pack_segments(&segments)))
        }
        Call::Stats(_) => Ok(Outcome::Stats(member::pack_stats(
            &partition.stats().await?,
        ))),
        Call::Report(message) => nothing(partition.report(&order::report(message)?).await),
        _ => Err(broken("a call that is not answered here")),
    }
}

/// The keys that a message names, with their tenant.
fn named<'a>(message: &wire::Keys, keys: &'a [ziggurat_base::Key<'a>]) -> Result<Keys<'a>, Error> {
    Ok(Keys {
        tenant: keys::tenant(message.tenant)?,
        keys,
    })
}

fn nothing(answer: Answer<()>) -> Answer<Outcome> {
    answer.map(|()| Outcome::Done(wire::Done::default()))
}

fn wanted(keys: Option<&wire::Keys>) -> Result<&wire::Keys, Error> {
    keys.ok_or_else(|| broken("a call without its keys"))
}

async fn put_start(
    partition: &dyn Partition,
    writer: MemberId,
    message: &wire::PutStart,
) -> Answer<Outcome> {
    let (tenant, items) = put::items(message)?;
    let wish = put::wish(message)?;
    let answers = partition
        .put_start_as(writer, tenant, &items, &wish)
        .await?;
    Ok(Outcome::PutStart(put::pack_grants(answers)))
}

async fn locate(partition: &dyn Partition, message: &wire::Locate) -> Answer<Outcome> {
    let packed = wanted(message.keys.as_ref())?;
    let list = keys::unpack(packed)?;
    let recency = if message.keep {
        Recency::Keep
    } else {
        Recency::Touch
    };
    let answers = partition.locate(named(packed, &list)?, recency).await?;
    Ok(Outcome::Locate(get::pack_grants(answers)))
}

async fn remove(partition: &dyn Partition, message: &wire::Remove) -> Answer<Outcome> {
    let packed = wanted(message.keys.as_ref())?;
    let list = keys::unpack(packed)?;
    let force = if message.force { Force::Yes } else { Force::No };
    let answers = partition.remove(named(packed, &list)?, force).await?;
    Ok(Outcome::Done(put::pack_done(answers)))
}

async fn prefetch(partition: &dyn Partition, message: &wire::Prefetch) -> Answer<Outcome> {
    let packed = wanted(message.keys.as_ref())?;
    let list = keys::unpack(packed)?;
    let wish = get::wish(message.wish)?;
    let answers = partition.prefetch(named(packed, &list)?, wish).await?;
    Ok(Outcome::Prefetch(get::pack_prefetched(answers)))
}

async fn scan(partition: &dyn Partition, message: &wire::Scan) -> Answer<Outcome> {
    let action = get::action(message.action)?;
    let tenant = keys::tenant(message.tenant)?;
    let cursor = message.cursor.map(get::cursor);
    let page = partition
        .scan(tenant, &message.pattern, action, cursor)
        .await?;
    Ok(Outcome::Scan(get::pack_page(&page)))
}
