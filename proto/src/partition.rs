//! A metadata partition as the server sees it.

use crate::{hello::Greeting, order::OrderApi};
use ziggurat_base::{Job, MemberId, TenantId};
use ziggurat_engine::{
    command::{Answer, PutAnswer, PutItem, Wish},
    port::{MemberApi, MetadataApi},
};

/// Everything that may be asked of a partition over the wire. Its futures complete without waiting for others, but for
/// [`MemberApi::effects`] and [`OrderApi::orders`], and at most as long as a sync of the state directory takes: requests of one
/// connection are answered one after the other.
///
/// [`MetadataApi::put_start`] is refused here, for it says nothing of the writer: the server calls
/// [`Partition::put_start_as`] with the member that joined last on the connection.
pub trait Partition: MetadataApi + MemberApi + OrderApi {
    /// [`MetadataApi::put_start`] in the name of a member.
    fn put_start_as<'a>(
        &'a self,
        writer: MemberId,
        tenant: TenantId,
        items: &'a [PutItem<'a>],
        wish: &'a Wish,
    ) -> Job<'a, Answer<Vec<Answer<PutAnswer>>>>;
    /// What everybody who connects is told.
    fn greeting(&self) -> Greeting;
    /// A member subscribes on a new connection: effects and orders that were handed out and not acknowledged are to be handed
    /// out again, for they may have been lost with the old one.
    fn rewind(&self, member: MemberId);
}
