//! Generated messages of ziggurat.proto. Crate-private: everybody else speaks `engine::command`.
#![expect(
    unreachable_pub,
    clippy::all,
    reason = "generated code; the schema has the words"
)]

include!(concat!(env!("OUT_DIR"), "/ziggurat.v1.rs"));
