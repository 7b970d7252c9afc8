//! The extension module `ziggurat._native`: the store for Python. It converts arguments, lets other Python threads run
//! while the store works, and turns errors into `ziggurat.Error`; it decides nothing.
//!
//! `store` is the store, `hosting` gives memory and a master to a cluster, `memory` is the only place with `unsafe`:
//! what Python says about memory becomes slices there. `arguments` reads keys, sizes and spans; `stat` makes
//! dictionaries and `error` exceptions.
#![deny(unsafe_code)]

mod arguments;
mod error;
mod hosting;
mod memory;
mod stat;
mod store;

use pyo3::pymodule;

/// What `ziggurat/__init__.py` passes on.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::hosting::{Master, Node};
    #[pymodule_export]
    use crate::store::{Store, connect, open};
}
