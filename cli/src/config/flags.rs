//! The settings as flags of a command: made from their declarations, handed on as text.

use super::{
    groups::Settings,
    layers::{FILE_FLAG, FILE_VARIABLE, Given, Origin},
    setting::{Group, Setting},
};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, builder::PathBufValueParser};
use std::path::PathBuf;

/// What the flags of a command said. Flatten it into the arguments of a command that reads settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// The file that was named.
    pub(super) file: Option<PathBuf>,
    /// The values.
    pub(super) given: Vec<Given>,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE_FLAG)
            .long(FILE_FLAG)
            .value_name("FILE")
            .value_parser(PathBufValueParser::new())
            .help(format!(
                "Configuration file (TOML); no file is read unasked [env: {FILE_VARIABLE}]"
            ));
        let settings = Settings::groups();
        let flags = settings.iter().flat_map(|group| {
            let flags = group.settings.iter();
            flags.map(move |setting| flag(group, setting))
        });
        command.arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.file = matches.get_one::<PathBuf>(FILE_FLAG).cloned();
        let groups = Settings::groups();
        let settings = groups.iter().flat_map(|group| &group.settings);
        self.given = settings
            .filter_map(|setting| {
                let text = matches.get_one::<String>(&setting.name)?;
                Some(Given {
                    name: setting.name.clone(),
                    text: text.clone(),
                    origin: Origin::Flag(setting.name.clone()),
                })
            })
            .collect();
        Ok(())
    }
}

fn flag(group: &Group, setting: &Setting) -> Arg {
    let (heading, _) = group.about.split_once(':').unwrap_or((&group.about, ""));
    let about = setting.about.trim_end_matches('.');
    let default = setting.default.as_deref().unwrap_or("not set");
    // A negative number is refused by the setting, together with all other faults.
    let arg = Arg::new(setting.name.clone())
        .allow_negative_numbers(true)
        .long(setting.name.clone())
        .value_name(setting.value_name)
        .help(format!("{about} [default: {default}]"))
        .help_heading(format!("Settings of {}", heading.to_lowercase()));
    if setting.is_switch {
        // The sign of equality is needed, or the flag would swallow the word behind it.
        arg.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("on")
    } else {
        arg
    }
}
