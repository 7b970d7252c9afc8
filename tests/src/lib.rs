//! Tests that see the whole house. Off the stairs: this package may use everything, and nothing uses it.
//!
//! [`sim`] is ring 1: the product's own catalog, shelf and journeys on a simulated clock, network and memory, with a
//! seed for every history. Rings 2 and 3 (real sockets, real processes) stand beside it as integration tests.
#![forbid(unsafe_code)]

pub mod field;
pub mod fuzz;
pub mod sim;
