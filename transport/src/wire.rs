//! Bytes in and out of one socket, for both ends: buffers of a fixed size, no allocation that follows the payload.

mod inbound;
mod outbound;
mod watch;

pub(crate) use inbound::Inbound;
pub(crate) use outbound::{Outbound, Then};
pub(crate) use watch::Watch;

/// The most bytes of an error's text that travel with a refusal; longer ones are cut.
pub(crate) const TEXT_LEN_MAX: usize = 1024;

/// Payload pieces up to this size travel through the buffers, where they save system calls; larger ones go past them.
pub(crate) const INLINE_MAX: usize = 16 << 10;
