//! Faults that users of such stores have reported, as tests: one for each scenario, named after the behaviour.
//!
//! `process` has those that need real processes, signals and a proxy between them; the others run in process and over
//! loopback.

mod field {
    pub(crate) mod leases;
    pub(crate) mod process;
    pub(crate) mod rig;
    pub(crate) mod sizes;
    pub(crate) mod values;
    pub(crate) mod writes;
}
