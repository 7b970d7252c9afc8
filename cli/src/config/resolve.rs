//! The effective values: the strongest of each setting, checked, with its origin.

use super::{
    bounds::Bounds,
    fault::{Fault, error_of},
    flags::{Flags, Selection},
    groups::Settings,
    layers::{Given, Layers, Origin},
    setting::{Setting, name_of},
    value::Value,
};
use crate::screen::Screen;
use std::{collections::BTreeMap, path::PathBuf};
use ziggurat_base::Result;
use ziggurat_store::Blocking;

/// What is in force, and why.
#[derive(Debug)]
pub(crate) struct Config {
    /// The values.
    pub(crate) settings: Settings,
    /// What the user should know, though it is no fault.
    pub(crate) remarks: Vec<String>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    origins: BTreeMap<String, Origin>,
}

/// One setting with its effective value.
#[derive(Debug)]
pub(crate) struct Row {
    /// The group it belongs to.
    pub(crate) group: &'static str,
    /// The setting.
    pub(crate) setting: Setting,
    /// The value; `None` is "not set".
    pub(crate) value: Option<String>,
    /// Who gave it.
    pub(crate) origin: Origin,
}

impl Config {
    /// The configuration of this process.
    ///
    /// # Errors
    /// `ConfigInvalid` with every fault.
    pub(crate) fn load<S: Selection>(flags: &Flags<S>) -> Result<Self> {
        let groups = Settings::groups();
        let layers = Layers::read(
            &groups,
            flags.file.clone(),
            std::env::vars_os(),
            &flags.given,
        );
        Self::resolve(layers, S::GROUPS)
    }

    /// The configuration that layers make, for a command that reads these groups.
    pub(super) fn resolve(layers: Layers, groups: &[&str]) -> Result<Self> {
        let mut resolver = Resolver {
            given: &layers.given,
            origins: BTreeMap::new(),
            faults: layers.faults,
            remarks: layers.remarks,
        };
        let settings = Settings::resolve(&mut resolver);
        // A contradiction with a default that only stands in for a bad value would mislead.
        if resolver.faults.is_empty() {
            settings.check(&mut resolver, groups);
        }
        if !resolver.faults.is_empty() {
            return Err(error_of(resolver.faults));
        }
        Ok(Self {
            settings,
            remarks: resolver.remarks,
            file: layers.file,
            origins: resolver.origins,
        })
    }

    /// Says what is odd.
    pub(crate) fn remark_on(&self, screen: &Screen) {
        for remark in &self.remarks {
            screen.warn(remark);
        }
    }

    /// The way to the cluster.
    ///
    /// # Errors
    /// As [`Blocking::connect`].
    pub(crate) fn connect(&self, screen: &Screen) -> Result<Blocking> {
        self.remark_on(screen);
        let Settings {
            client,
            cluster,
            shared,
            ..
        } = &self.settings;
        Blocking::connect(client.options(cluster, shared))
    }

    /// Every setting in reading order.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let groups = Settings::groups().into_iter();
        let settings = groups.flat_map(|group| {
            let name = group.name;
            group
                .settings
                .into_iter()
                .map(move |setting| (name, setting))
        });
        settings
            .zip(self.settings.show())
            .map(|((group, setting), value)| Row {
                group,
                origin: self
                    .origins
                    .get(&setting.name)
                    .cloned()
                    .unwrap_or(Origin::Default),
                setting,
                value,
            })
            .collect()
    }
}

/// Takes values out of the layers, one setting at a time, and collects what is wrong.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    given: &'a [Given],
    origins: BTreeMap<String, Origin>,
    faults: Vec<Fault>,
    remarks: Vec<String>,
}

impl Resolver<'_> {
    /// The strongest value of a setting; the default when nobody gave a good one.
    pub(super) fn take<T: Value>(
        &mut self,
        field: &str,
        default: T,
        bounds: Option<&Bounds<T>>,
    ) -> T {
        let name = name_of(field);
        let mut value = default;
        for given in self.given.iter().filter(|given| given.name == name) {
            let read = T::parse(&given.text).and_then(|read| match bounds {
                Some(bounds) if !bounds.hold(&read) => Err(format!(
                    "{:?} is out of bounds: give {}",
                    given.text,
                    bounds.text()
                )),
                _ => Ok(read),
            });
            match read {
                Ok(read) => {
                    value = read;
                    self.origins.insert(name.clone(), given.origin.clone());
                    if let Some(remark) = T::remark(&given.text) {
                        self.remarks.push(format!("{}: {remark}", given.origin));
                    }
                }
                Err(what) => self.faults.push(Fault {
                    origin: given.origin.clone(),
                    what: named(&given.origin, &name, what),
                }),
            }
        }
        value
    }

    /// Records that two values do not go together: `name` "must be longer than" `other`.
    pub(super) fn contradiction(&mut self, name: &str, must: &str, other: &str) {
        let stated = |name: &str| {
            let origin = self.origin(name);
            let given = self.given.iter().rfind(|given| given.name == name);
            match given {
                Some(given) => format!("{name} ({}, from {origin})", given.text),
                None => format!("{name} (its default)"),
            }
        };
        let what = format!("{} {must} {}", stated(name), stated(other));
        let origin = self.origin(name).max(self.origin(other));
        self.faults.push(Fault { origin, what });
    }

    /// Records that a value needs another setting beside it.
    pub(super) fn incomplete(&mut self, name: &str, why: &str) {
        let origin = self.origin(name);
        let what = format!("{name} {why}");
        self.faults.push(Fault { origin, what });
    }

    fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).cloned().unwrap_or(Origin::Default)
    }
}

/// A line of a file does not name the setting by itself; a variable and a flag do.
fn named(origin: &Origin, name: &str, what: String) -> String {
    match origin {
        Origin::File { .. } => format!("{name}: {what}"),
        _ => what,
    }
}
