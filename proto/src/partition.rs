//! A metadata partition as the server sees it.

use crate::{hello::Greeting, order::OrderApi};
use ziggurat_base::MemberId;
use ziggurat_engine::port::{MemberApi, MetadataApi};

/// Everything that may be asked of a partition over the wire. Its futures complete without waiting, but for
/// [`MemberApi::effects`] and [`OrderApi::orders`]: requests of one connection are answered one after the other.
pub trait Partition: MetadataApi + MemberApi + OrderApi {
    /// What everybody who connects is told.
    fn greeting(&self) -> Greeting;
    /// A member subscribes on a new connection: effects and orders that were handed out and not acknowledged are to be handed
    /// out again, for they may have been lost with the old one.
    fn rewind(&self, member: MemberId);
}
