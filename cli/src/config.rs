//! Settings: what may be set, by whom, and what is in force. File (TOML) < environment (`ZIGGURAT_*`) < flag.
//!
//! `groups` declares every setting once: name, type, default, bounds, help. Flags, environment names, file keys,
//! `ziggurat config` and docs/config.md all come from there. A value is checked wherever it was given, also when a
//! stronger one hides it, and all faults are told at once.

mod address;
mod bounds;
mod fault;
mod file;
mod flags;
mod groups;
mod layers;
mod listener;
mod options;
mod page;
mod paths;
mod ratio;
mod resolve;
mod setting;
mod suggest;
mod value;

pub(crate) use flags::{Everything, Flags, ForClient, ForMaster, ForNode, ForServe, Selection};
pub(crate) use groups::Settings;
pub(crate) use layers::Origin;
pub(crate) use options::Beside;
pub(crate) use page::page;
pub(crate) use resolve::{Config, Row};

#[cfg(test)]
mod tests;
