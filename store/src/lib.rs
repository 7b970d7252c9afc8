//! The library that people use.
//!
//! ```
//! # fn main() -> ziggurat_base::Result<()> {
//! use ziggurat_store::{OpenOptions, Store};
//!
//! let store = Store::open(OpenOptions { dram: "64MiB".parse()?, ..OpenOptions::default() })?.blocking();
//! store.put("prompt/1", b"some KV cache")?;
//! assert_eq!(store.get("prompt/1")?.as_deref(), Some(&b"some KV cache"[..]));
//! assert_eq!(store.get("prompt/2")?, None);
//! # Ok(())
//! # }
//! ```
//!
//! [`Store::open`] puts catalog, memory and client into this process, without a socket. A [`Store`] is used like the
//! [`Client`] that it dereferences to; [`Blocking`] is the same for callers without an async runtime.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod clock;
pub mod open;

mod local;

pub use blocking::Blocking;
pub use clock::SystemClock;
pub use open::{OpenOptions, Store};
pub use ziggurat_client::{Client, PutOptions, PutOutcome, PutRequest};
