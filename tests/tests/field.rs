//! Faults that users of such stores have reported, as tests: one for each scenario, named after the behaviour.
//!
//! They run in process and over loopback; those that need the real binary and signals are in `process.rs`.

mod field {
    pub(crate) mod leases;
    pub(crate) mod rig;
    pub(crate) mod values;
    pub(crate) mod writes;
}
