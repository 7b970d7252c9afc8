//! Contract suites, oracles and fakes: what every implementation of an engine trait is held against.

pub mod evict;
pub mod host;
pub mod skip;
pub mod space;
