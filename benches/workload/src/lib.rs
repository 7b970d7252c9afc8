//! What the store is driven with: requests from a trace or a generator, payloads that can be checked, and the prediction
//! of a policy-only run.
//!
//! Stands beside the store, for `ziggurat demo`, `replay` and `bench`. Holds no product logic: hit rates are predicted
//! with the engine's own policy objects.
#![forbid(unsafe_code)]

pub mod bench;
pub mod chat;
pub mod demo;
pub mod payload;
pub mod predict;
pub mod replay;
pub mod request;
pub mod trace;
pub mod trace_replay;

pub use chat::{Chat, ChatOptions};
pub use payload::{Mismatch, Payload};
pub use predict::{PredictOptions, predict};
pub use request::{Request, TOKENS_PER_BLOCK, Totals};
pub use trace::Trace;
pub use trace_replay::{ReplayOptions, ReplayReport};
pub use ziggurat_engine::evict::PolicyKind;
