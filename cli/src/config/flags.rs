//! The settings as flags of a command: made from their declarations, handed on as text.

use super::{
    groups::Settings,
    layers::{FILE_FLAG, FILE_VARIABLE, Given, Origin},
    setting::{Group, Setting},
};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, builder::PathBufValueParser};
use std::{fmt, marker::PhantomData, path::PathBuf};

/// Which groups of settings a command reads; the others are none of its flags.
pub(crate) trait Selection: Clone + fmt::Debug + Default + Send + Sync + 'static {
    /// Their names.
    const GROUPS: &'static [&'static str];
}

macro_rules! selections {
    ($($(#[$doc:meta])* $name:ident = $($group:literal)+;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $name;

        impl Selection for $name {
            const GROUPS: &'static [&'static str] = &[$($group),+];
        }
    )+};
}

selections! {
    /// Every group: for commands that are about the settings themselves.
    Everything = "partition" "cluster" "master" "node" "watch" "shared" "client";
    /// What a master reads.
    ForMaster = "partition" "master";
    /// What a node reads.
    ForNode = "cluster" "node" "watch" "shared";
    /// What master and node in one process read.
    ForServe = "partition" "master" "node" "shared";
    /// What commands that act on keys read.
    ForClient = "cluster" "shared" "client";
}

/// What the flags of a command said. Flatten it into the arguments of a command that reads settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags<S> {
    /// The file that was named.
    pub(super) file: Option<PathBuf>,
    /// The values.
    pub(super) given: Vec<Given>,
    selection: PhantomData<S>,
}

/// The groups of a selection.
fn groups<S: Selection>() -> impl Iterator<Item = Group> {
    let groups = Settings::groups().into_iter();
    groups.filter(|group| S::GROUPS.contains(&group.name))
}

impl<S: Selection> Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE_FLAG)
            .long(FILE_FLAG)
            .value_name("FILE")
            .value_parser(PathBufValueParser::new())
            .help(format!(
                "Configuration file (TOML); no file is read unasked [env: {FILE_VARIABLE}]"
            ));
        let flags = groups::<S>().flat_map(|group| {
            let heading = heading(&group);
            let settings = group.settings.into_iter();
            settings.map(move |setting| flag(&heading, &setting))
        });
        command.arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Selection> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.file = matches.get_one::<PathBuf>(FILE_FLAG).cloned();
        self.given = groups::<S>()
            .flat_map(|group| group.settings)
            .filter_map(|setting| {
                let text = matches.get_one::<String>(&setting.name)?;
                Some(Given {
                    text: text.clone(),
                    origin: Origin::Flag(setting.name.clone()),
                    name: setting.name,
                })
            })
            .collect();
        Ok(())
    }
}

fn heading(group: &Group) -> String {
    let (what, _) = group.about.split_once(':').unwrap_or((&group.about, ""));
    format!("Settings of {}", what.to_lowercase())
}

fn flag(heading: &str, setting: &Setting) -> Arg {
    let about = setting.about.trim_end_matches('.');
    let default = setting.default.as_deref().unwrap_or("not set");
    let variable = setting.variable();
    // A negative number is refused by the setting, together with all other faults.
    let arg = Arg::new(setting.name.clone())
        .allow_negative_numbers(true)
        .long(setting.name.clone())
        .value_name(setting.value_name)
        .help(format!("{about} [default: {default}] [env: {variable}]"))
        .help_heading(heading.to_owned());
    let arg = match &setting.name[..] {
        // What everybody types in front of every command on keys.
        "master-address" => arg.visible_alias("master"),
        _ => arg,
    };
    if setting.is_switch {
        // The sign of equality is needed, or the flag would swallow the word behind it.
        arg.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("on")
    } else {
        arg
    }
}
