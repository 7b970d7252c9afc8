//! Every decoder of this crate as a function of bytes that must not panic: for fuzz targets and property tests.

use crate::{
    convert::{get, keys, ledger, member, order, places, put},
    seed::message,
    wire,
};
use prost::Message;

/// Decodes `bytes` as every message, and as the answer to a batch of `count` items.
pub fn decode_any(bytes: &[u8], count: usize) {
    let _ = wire::Hello::decode(bytes).map(member::hello);
    let _ = wire::Welcome::decode(bytes).map(member::welcome);
    let _ = wire::Request::decode(bytes);
    let _ = wire::Answer::decode(bytes);
    let _ = wire::Push::decode(bytes).map(order::pushed);
    let _ = wire::Keys::decode(bytes).map(|m| keys::unpack(&m).is_ok());
    let _ = wire::Holds::decode(bytes).map(|m| keys::holds(&m));
    let _ = wire::PutStart::decode(bytes).map(|m| put::items(&m).is_ok());
    let _ = wire::PutEnd::decode(bytes).map(|m| put::ends(&m));
    let _ = wire::PutGrants::decode(bytes).map(|m| put::grants(m, count));
    let _ = wire::PutDones::decode(bytes).map(|m| put::dones(m, count));
    let _ = wire::Done::decode(bytes).map(|m| put::done(m, count));
    let _ = wire::GetGrants::decode(bytes).map(|m| get::grants(m, count));
    let _ = wire::Found::decode(bytes).map(|m| get::found(m, count));
    let _ = wire::ObjectStats::decode(bytes).map(|m| get::stats(m, count));
    let _ = wire::Page::decode(bytes).map(get::page);
    let _ = wire::SegmentStats::decode(bytes).map(member::segments);
    let _ = wire::Mount::decode(bytes).map(member::mount);
    let _ = wire::Ledger::decode(bytes).map(ledger::unpack);
    let _ = wire::LedgerReply::decode(bytes).map(|m| ledger::reply(m, count));
    let _ = wire::Report::decode(bytes).map(order::report);
    let _ = wire::Place::decode(bytes).map(|m| places::unpack(Some(&m)));
    let _ = message::PutStartRequest::decode(bytes).map(|m| crate::seed::check_put(&m).is_ok());
    let _ = message::BatchReplicaClearRequest::decode(bytes)
        .map(|m| crate::seed::check_clear(&m).is_ok());
    let _ = message::MountSegmentRequest::decode(bytes);
    let _ = message::GetReplicaListRequest::decode(bytes);
    let _ = message::BatchQueryIpRequest::decode(bytes);
    let _ = message::GetReplicaListByRegexResponse::decode(bytes);
    let _ = message::BatchQueryIpResponse::decode(bytes);
}
